//! Overload: three times the load that one core carries, and 1,000 readers that stop.
//!
//! Goodput and the well-behaved user's latency are printed, never asserted: they depend on the machine. It is asserted
//! that the well-behaved user's requests succeed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::interval;

use super::Case;
use super::arena::{Arena, User};
use super::wire::Session;
use crate::accounting;

/// How long each part lasts.
const LASTS: Duration = Duration::from_secs(5);
/// Connections of the load, each from an address of its own, and requests in flight on each while capacity is measured.
const SESSIONS: u8 = 12;
const IN_FLIGHT: u64 = 8;
/// A list of a few KB: what is overloaded is the processor.
const SMALL: &str = "/apis/calm.example.com/v1/shirts";
/// Streams of a connection at a time, as the server offers them.
const STREAMS: u64 = 1_900;
/// Addresses of the load begin here.
const FIRST: u8 = 101;

/// The table.
#[must_use]
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("three times the load that one core carries", 192, 120, |arena| Box::pin(three_times(arena, 0))),
        Case::new("the same beside 1,000 readers that stop", 320, 180, |arena| Box::pin(three_times(arena, 1_000))),
    ]
}

/// Measures what one core carries, sends three times as much, and prints what came of it.
async fn three_times(arena: &Arena, stopped: usize) -> Result<String> {
    arena.fill(24).await?;
    let process = arena.process_id()?;
    let dialer = arena.dialer(Some(User::Administrator))?;
    let path = format!("{SMALL}?fieldSelector=spec.color%3Dcalm");
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let mut session = Session::open(&dialer, FIRST + number, 1 << 30).await?;
        session.read();
        sessions.push(session);
    }
    // Capacity: a bounded number in flight, and the CPU time they cost.
    let (cpu, started) = (accounting::cpu(process)?, Instant::now());
    let mut sent = vec![0u64; sessions.len()];
    let mut pace = interval(Duration::from_millis(2));
    while started.elapsed() < LASTS / 2 {
        pace.tick().await;
        for (session, sent) in sessions.iter_mut().zip(&mut sent) {
            let ended = session.counts.ended.load(Ordering::Relaxed);
            let mut bytes = Vec::new();
            while *sent < ended + IN_FLIGHT {
                bytes.extend(session.get(&path, &[]));
                *sent += 1;
            }
            if !bytes.is_empty() {
                ensure!(session.send(&bytes).await, "the load's connection is closed");
            }
        }
    }
    let served = good(&sessions);
    let used = accounting::cpu(process)?.saturating_sub(cpu).as_secs_f64().max(0.01);
    let capacity = served as f64 / used;

    // Readers that stop: half of them large lists, half of them watches.
    let mut connections = Vec::new();
    for number in 0..(stopped / 50) {
        let mut session = Session::open(&dialer, FIRST + SESSIONS + (number % 20) as u8, 65_535).await?;
        let mut bytes = Vec::new();
        for reader in 0..50 {
            let query = if reader % 2 == 0 { "" } else { "?watch=1&resourceVersion=0" };
            bytes.extend(session.get(&format!("{}{query}", arena.collection()), &[]));
        }
        session.send(&bytes).await;
        connections.push(session);
    }

    let before = good(&sessions);
    let target = capacity * 3.0;
    let (started, mut offered) = (Instant::now(), 0u64);
    let mut pace = interval(Duration::from_millis(10));
    let mut next = 0;
    let (mut ended_good, mut ended_other, mut reopened) = (0, 0, 0);
    while started.elapsed() < LASTS {
        pace.tick().await;
        let due = (target * started.elapsed().as_secs_f64()) as u64;
        while offered < due {
            let index = next % sessions.len();
            next += 1;
            let session = &mut sessions[index];
            let batch = (due - offered).min(50);
            // More streams than the server offers would be a fault of the client: what has no stream is not sent, and lost.
            if sent[index] + batch > session.counts.ended.load(Ordering::Relaxed) + STREAMS {
                offered += batch;
                continue;
            }
            let mut bytes = Vec::new();
            for _ in 0..batch {
                bytes.extend(session.get(&path, &[]));
            }
            offered += batch;
            sent[index] += batch;
            if session.is_closed() || !session.send(&bytes).await {
                let mut fresh = Session::open(&dialer, FIRST + index as u8, 1 << 30).await?;
                fresh.read();
                let old = std::mem::replace(session, fresh);
                ended_good += old.counts.good.load(Ordering::Relaxed);
                ended_other += old.counts.other.load(Ordering::Relaxed);
                sent[index] = 0;
                reopened += 1;
            }
        }
    }
    let lasted = started.elapsed().as_secs_f64();
    let goodput = (good(&sessions) + ended_good).saturating_sub(before) as f64 / lasted;
    let rejected: u64 =
        sessions.iter().map(|session| session.counts.other.load(Ordering::Relaxed)).sum::<u64>() + ended_other;
    drop(sessions);
    drop(connections);
    arena.empty().await?;
    Ok(format!(
        "one core carries {capacity:.0} requests/s; offered {:.0}/s for {lasted:.1} s: goodput {goodput:.0}/s, {rejected} rejected, {reopened} connections opened again; {stopped} readers stopped",
        offered as f64 / lasted
    ))
}

fn good(sessions: &[Session]) -> u64 {
    sessions.iter().map(|session| session.counts.good.load(Ordering::Relaxed)).sum()
}
