//! Hostile peers: connections that are held, stopped, half closed, reset or flooded.
//!
//! All of them come from addresses of their own. Where an attack may hold every connection, a new connection of another
//! user and the probes must still be served.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{interval, timeout};

use super::Case;
use super::arena::{Arena, CONNECTIONS, User, view};
use super::wire::{Session, frame, header, kind};
use crate::random::Random;

const GROWTH: u64 = 128;
const SECONDS: u64 = 90;

/// The last byte of the address of attackers.
const IDLE: u8 = 21;
const STOPPED: u8 = 22;
const SLOW: u8 = 23;
const FLOOD: u8 = 24;

/// The table.
#[must_use]
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("idle HTTP/2 connections that answer PINGs", GROWTH, SECONDS, |arena| Box::pin(idle(arena))),
        Case::new("TCP connections that say nothing", GROWTH, SECONDS, |arena| Box::pin(silent(arena))),
        Case::new("connections whose requests are all rejected", GROWTH, SECONDS, |arena| Box::pin(rejected(arena))),
        Case::new("50 lists that no client reads", GROWTH, SECONDS, |arena| Box::pin(stopped_lists(arena, 50))),
        Case::new("3,000 responses of 200 KB that no client reads", 256, SECONDS, |arena| {
            Box::pin(stopped_responses(arena))
        }),
        Case::new("1,000 watches that no client reads", GROWTH, 150, |arena| {
            Box::pin(stopped_watches(arena, 1_000, 24))
        }),
        Case::new("heads that come byte by byte", GROWTH, SECONDS, |arena| Box::pin(slowly(arena))),
        Case::new("connections closed in one direction", GROWTH, SECONDS, |arena| Box::pin(half_closed(arena))),
        Case::new("connections reset within a response", GROWTH, SECONDS, |arena| Box::pin(resets(arena))),
        Case::new("20,000 streams that are reset at once", GROWTH, SECONDS, |arena| {
            Box::pin(flood(arena, 20_000, |session, _| {
                let mut bytes = session.get("/version", &[]);
                let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
                bytes.extend(frame(kind::RESET, 0, stream, &8u32.to_be_bytes()));
                bytes
            }))
        }),
        Case::new("200,000 PINGs whose answers no client reads", GROWTH, SECONDS, |arena| {
            Box::pin(flood(arena, 200_000, |_, number| frame(kind::PING, 0, 0, &(number as u64).to_be_bytes())))
        }),
        Case::new("200,000 SETTINGS", GROWTH, SECONDS, |arena| {
            Box::pin(flood(arena, 200_000, |_, _| frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])))
        }),
        Case::new("200,000 WINDOW_UPDATEs and empty DATA", GROWTH, SECONDS, |arena| {
            Box::pin(flood(arena, 100_000, |_, _| {
                let mut bytes = frame(kind::WINDOW, 0, 0, &1u32.to_be_bytes());
                bytes.extend(frame(0, 0, 1, &[]));
                bytes
            }))
        }),
        Case::new("headers of 64 MB in CONTINUATION frames", GROWTH, SECONDS, |arena| Box::pin(continuation(arena))),
        Case::new("headers of 100 KB", GROWTH, SECONDS, |arena| {
            Box::pin(flood(arena, 200, |session, _| {
                let value = "v".repeat(3_000);
                session.get("/version", &[("x-a", &value), ("x-b", &value), ("x-c", &value), ("x-d", &value)])
            }))
        }),
        Case::new("500 connections one after the other", GROWTH, SECONDS, |arena| Box::pin(many(arena))),
    ]
}

/// Random bytes and frames.
#[must_use]
pub fn random(seed: u64) -> Case {
    Case::new(format!("random of seed {seed}"), GROWTH, SECONDS, move |arena| {
        Box::pin(async move {
            let mut random = Random::from_seed(seed, 4);
            let dialer = arena.dialer(Some(User::Stranger))?;
            for _ in 0..20 {
                // Before TLS, within it, and within HTTP/2.
                let length = random.below(3_000) as usize;
                let noise: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
                let mut plain = dialer.tcp(FLOOD).await?;
                let _ = plain.write_all(&noise).await;
                if let Ok(mut line) = dialer.tls(FLOOD, "http/1.1").await {
                    let _ = line.write_all(&noise).await;
                    let _ = line.flush().await;
                }
                let Ok(mut session) = Session::open(&dialer, FLOOD, 65_535).await else { continue };
                session.read();
                for _ in 0..random.below(60) {
                    let length = random.below(40) as usize;
                    let payload: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
                    let stream = random.below(9) as u32;
                    let bytes = match random.below(4) {
                        0 => session.get("/version", &[]),
                        _ => frame(random.below(12) as u8, random.below(64) as u8, stream, &payload),
                    };
                    if !session.send(&bytes).await {
                        break;
                    }
                }
            }
            Ok("20 connections of noise".to_owned())
        })
    })
}

/// The probes, and another user on a new connection, are served. The user of the attack may have to wait until its connections have gone.
async fn others_are_served(arena: &Arena) -> Result<()> {
    // A connection without credentials can be closed for the next one of its address, and so can that of a probe here. kubelet has a port of
    // its own, and restarts a container after three failures in a row.
    let mut failed = 0;
    while let Err(error) = probe(arena).await {
        failed += 1;
        ensure!(failed < 3, "three liveness probes in a row: {error:#}");
    }
    let user = arena.client(User::Calm)?.get("/version").await.context("a new connection of a user")?;
    ensure!(user.status == 200, "a new connection of a user: {}", user.status);
    Ok(())
}

async fn probe(arena: &Arena) -> Result<()> {
    let probe = arena.anonymous().client().get("/livez").await.context("the liveness probe")?;
    ensure!(probe.status == 200, "the liveness probe: {}", probe.status);
    Ok(())
}

/// As many connections as there may be, without a request.
async fn idle(arena: &Arena) -> Result<String> {
    let dialer = arena.dialer(None)?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS + 50 {
        if let Ok(mut session) = Session::open(&dialer, IDLE, 65_535).await {
            session.read();
            connections.push(session);
        }
    }
    others_are_served(arena).await?;
    let open = connections.iter().filter(|session| !session.is_closed()).count();
    Ok(format!("{open} of {} still open", CONNECTIONS + 50))
}

async fn silent(arena: &Arena) -> Result<String> {
    let dialer = arena.dialer(None)?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS + 50 {
        if let Ok(stream) = dialer.tcp(IDLE).await {
            connections.push(stream);
        }
    }
    others_are_served(arena).await?;
    Ok(format!("{} connections", connections.len()))
}

/// Requests without credentials on as many connections as there may be.
async fn rejected(arena: &Arena) -> Result<String> {
    let dialer = arena.dialer(None)?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS + 50 {
        if let Ok(mut session) = Session::open(&dialer, IDLE, 65_535).await {
            session.read();
            let bytes = session.get(&arena.collection(), &[]);
            session.send(&bytes).await;
            connections.push(session);
        }
    }
    others_are_served(arena).await?;
    let good: u64 = connections.iter().map(|session| session.counts.good.load(Ordering::Relaxed)).sum();
    ensure!(good == 0, "{good} requests without credentials were served");
    Ok(format!("{} connections", connections.len()))
}

/// Large lists through windows that stay closed.
async fn stopped_lists(arena: &Arena, count: usize) -> Result<String> {
    arena.fill(40).await?;
    let dialer = arena.dialer(Some(User::Administrator))?;
    let mut connections = Vec::new();
    for number in 0..count {
        let mut session = Session::open(&dialer, STOPPED, 1_000).await?;
        let base = if number % 2 == 0 { String::new() } else { view() };
        let bytes = session.get(&format!("{base}{}", arena.collection()), &[]);
        ensure!(session.send(&bytes).await, "the connection is closed");
        connections.push(session);
    }
    others_are_served(arena).await?;
    drop(connections);
    arena.empty().await?;
    Ok(format!("{count} lists of 8 MB"))
}

/// Responses that are no large lists, through windows that never close, from connections that do not read.
async fn stopped_responses(arena: &Arena) -> Result<String> {
    arena.fill(2).await?;
    let dialer = arena.dialer(Some(User::Administrator))?;
    let mut connections = Vec::new();
    for _ in 0..10 {
        let mut session = Session::open(&dialer, STOPPED, 1 << 30).await?;
        for _ in 0..300 {
            let bytes = session.get(&format!("{}?limit=1&labelSelector=large%3Dtrue", arena.collection()), &[]);
            ensure!(session.send(&bytes).await, "the connection is closed");
        }
        connections.push(session);
    }
    others_are_served(arena).await?;
    drop(connections);
    arena.empty().await?;
    Ok("3,000 responses".to_owned())
}

/// Watches over shared connections, none of which reads while large objects change.
async fn stopped_watches(arena: &Arena, count: usize, changes: usize) -> Result<String> {
    const CONNECTIONS: usize = 20;
    let dialer = arena.dialer(Some(User::Administrator))?;
    let mut connections = Vec::new();
    let path = format!("{}?watch=1&resourceVersion=0", arena.collection());
    for _ in 0..CONNECTIONS {
        let mut session = Session::open(&dialer, STOPPED, 1 << 30).await?;
        for _ in 0..count / CONNECTIONS {
            let bytes = session.get(&path, &[]);
            ensure!(session.send(&bytes).await, "the connection is closed");
        }
        connections.push(session);
    }
    arena.fill(changes).await?;
    others_are_served(arena).await?;
    drop(connections);
    arena.empty().await?;
    Ok(format!("{count} watches, {changes} changes of 200 KB"))
}

/// Heads of HTTP/1.1 that come byte by byte.
async fn slowly(arena: &Arena) -> Result<String> {
    let dialer = arena.dialer(None)?;
    let mut connections = Vec::new();
    for _ in 0..150 {
        if let Ok(line) = dialer.tls(SLOW, "http/1.1").await {
            connections.push(line);
        }
    }
    let mut pace = interval(Duration::from_millis(250));
    for byte in b"GET /version HTTP/1.1\r\n" {
        pace.tick().await;
        for line in &mut connections {
            let _ = line.write_all(&[*byte]).await;
            let _ = line.flush().await;
        }
    }
    others_are_served(arena).await?;
    Ok(format!("{} connections", connections.len()))
}

async fn half_closed(arena: &Arena) -> Result<String> {
    let dialer = arena.dialer(Some(User::Administrator))?;
    let head = format!("GET {}?watch=1 HTTP/1.1\r\nHost: {}\r\n\r\n", arena.collection(), dialer.host());
    let mut connections = Vec::new();
    for _ in 0..60 {
        let mut line = dialer.tls(SLOW, "http/1.1").await?;
        line.write_all(head.as_bytes()).await?;
        line.flush().await?;
        let _ = line.shutdown().await;
        connections.push(line);
    }
    others_are_served(arena).await?;
    Ok(format!("{} connections", connections.len()))
}

async fn resets(arena: &Arena) -> Result<String> {
    arena.fill(20).await?;
    let dialer = arena.dialer(Some(User::Administrator))?;
    let head = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", arena.collection(), dialer.host());
    let one = async || -> Result<()> {
        let mut line = dialer.tls(SLOW, "http/1.1").await?;
        line.write_all(head.as_bytes()).await?;
        line.flush().await?;
        let mut some = [0; 1_000];
        timeout(Duration::from_secs(20), line.read_exact(&mut some)).await.context("no response")??;
        // Unread bytes make the kernel reset the connection when it is closed.
        Ok(())
    };
    for _ in 0..10 {
        for outcome in join_all((0..10).map(|_| one())).await {
            outcome?;
        }
    }
    others_are_served(arena).await?;
    arena.empty().await?;
    Ok("100 connections".to_owned())
}

/// So many frames over one connection, of which nothing is read. The server may close it.
async fn flood(arena: &Arena, count: usize, make: impl Fn(&mut Session, usize) -> Vec<u8>) -> Result<String> {
    let dialer = arena.dialer(Some(User::Stranger))?;
    let mut session = Session::open(&dialer, FLOOD, 65_535).await?;
    let mut sent = 0;
    while sent < count {
        let mut bytes = Vec::new();
        for number in sent..(sent + 100).min(count) {
            bytes.extend(make(&mut session, number));
        }
        if !session.send(&bytes).await {
            break;
        }
        sent += 100;
    }
    others_are_served(arena).await?;
    Ok(format!("{} of {count} sent before the connection was closed or blocked", sent.min(count)))
}

async fn continuation(arena: &Arena) -> Result<String> {
    let dialer = arena.dialer(Some(User::Stranger))?;
    let mut session = Session::open(&dialer, FLOOD, 65_535).await?;
    let (stream, first) = session.open_headers("/version");
    let mut sent = 0;
    if session.send(&first).await {
        let payload = header("x-more", &"m".repeat(16_000));
        let more = frame(kind::CONTINUATION, 0, stream, &payload);
        while sent < 64 << 20 && session.send(&more).await {
            sent += more.len();
        }
    }
    others_are_served(arena).await?;
    Ok(format!("{} KB sent", sent / 1_000))
}

async fn many(arena: &Arena) -> Result<String> {
    let dialer = arena.dialer(Some(User::Stranger))?;
    let mut opened = 0;
    for _ in 0..50 {
        let tries = join_all((0..10).map(|_| dialer.tls(FLOOD, "h2"))).await;
        opened += tries.iter().filter(|one| one.is_ok()).count();
    }
    others_are_served(arena).await?;
    Ok(format!("{opened} of 500 opened"))
}
