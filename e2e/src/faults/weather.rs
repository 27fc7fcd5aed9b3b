//! What bytes meet on their way through a proxy, whatever they say.
//!
//! Both directions of every connection meet the same. A connection that is cut is cut at that byte, in the middle of whatever it was.
//! It knows no HTTP.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::fault::LineFault;

/// How often bytes are let through where they are only let through slowly.
const SLICE: Duration = Duration::from_millis(50);

/// What bytes meet now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// Every piece is held back for so long.
    pub delay: Duration,
    /// So many bytes a second in each direction of each connection.
    pub rate: Option<u64>,
    /// Nothing goes on, and nothing is lost.
    pub is_frozen: bool,
    /// Connections with a lower number never carry another byte; no side is notified.
    pub lost_before: u64,
    /// A connection is cut after it has carried so many bytes to the client.
    pub cut_after: Option<u64>,
    /// Rises with each cut of all connections.
    pub cuts: u64,
    /// Whether a cut is a reset, which throws away what is on its way, or an end.
    pub is_reset: bool,
}

/// How often which fault was met. A fault that nothing meets proves nothing.
#[derive(Debug, Default)]
pub(super) struct Met(Mutex<BTreeMap<LineFault, u64>>);

impl Met {
    /// Counts one piece, connection, request or answer.
    pub(super) fn count(&self, fault: LineFault) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(fault).or_default() += 1;
    }

    /// All so far.
    pub(super) fn counts(&self) -> BTreeMap<LineFault, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Responses,
}

/// How a connection was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// With all others.
    All,
    /// After it had carried so many bytes.
    After(u64),
    /// By one of its ends.
    Other,
}

/// Carries bytes between client and server until one of them ends or the weather ends it.
pub(super) async fn carry(
    mut client: TcpStream,
    server: impl AsyncRead + AsyncWrite,
    weather: &watch::Receiver<Weather>,
    number: u64,
    met: &Met,
) {
    let mut cuts = weather.clone();
    let before = cuts.borrow_and_update().cuts;
    let (answers, requests) = tokio::io::split(server);
    let ended = {
        let (from, to) = client.split();
        let both = async {
            tokio::try_join!(
                pump(from, requests, Direction::Requests, weather.clone(), number, met),
                pump(answers, to, Direction::Responses, weather.clone(), number, met)
            )
        };
        tokio::select! {
            ended = both => ended.err(),
            _ = cuts.wait_for(|weather| weather.cuts > before) => Some(Cut::All),
        }
    };
    let is_reset = weather.borrow().is_reset;
    match ended {
        Some(Cut::All) => met.count(if is_reset { LineFault::Reset } else { LineFault::Cut }),
        Some(Cut::After(bytes)) => met.count(LineFault::CutAfter(bytes)),
        Some(Cut::Other) | None => {}
    }
    if ended.is_some() && is_reset {
        // Closing it now resets it.
        let _ = client.set_zero_linger();
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    mut weather: watch::Receiver<Weather>,
    number: u64,
    met: &Met,
) -> Result<(), Cut> {
    let mut room = vec![0; 16 << 10];
    // Bytes carried since connections are cut after some.
    let mut carried = 0;
    loop {
        let Ok(length) = from.read(&mut room).await else { return Err(Cut::Other) };
        if length == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        let delay = weather.borrow().delay;
        if !delay.is_zero() {
            met.count(LineFault::Delay(delay));
            pause(delay).await;
        }
        let mut left = &room[..length];
        while !left.is_empty() {
            let is_lost = |weather: &Weather| number < weather.lost_before;
            let is_stopped = |weather: &Weather| weather.is_frozen || is_lost(weather);
            let here = *weather.borrow();
            if is_stopped(&here) {
                met.count(if is_lost(&here) { LineFault::Lose } else { LineFault::Freeze });
            }
            let Ok(now) = weather.wait_for(|weather| !is_stopped(weather)).await.map(|now| *now) else {
                return Err(Cut::Other);
            };
            let mut piece = left.len();
            if let Some(rate) = now.rate {
                met.count(LineFault::Throttle(rate));
                pause(SLICE).await;
                let slice = rate as f64 * SLICE.as_secs_f64();
                piece = piece.min((slice as usize).max(1));
            }
            let cut_after = now.cut_after.filter(|_| direction == Direction::Responses);
            carried = if cut_after.is_some() { carried } else { 0 };
            if let Some(most) = cut_after {
                piece = piece.min(usize::try_from(most.saturating_sub(carried)).unwrap_or(usize::MAX));
                carried += piece as u64;
            }
            if piece == 0 || to.write_all(&left[..piece]).await.is_err() {
                let _ = to.flush().await;
                return Err(cut_after.filter(|_| piece == 0).map_or(Cut::Other, Cut::After));
            }
            left = &left[piece..];
        }
    }
}

/// Waits: what a slow line does.
#[expect(clippy::disallowed_methods, reason = "a line that is slow on purpose; nothing is waited for")]
pub(super) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}
