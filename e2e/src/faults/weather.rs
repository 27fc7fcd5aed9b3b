//! What bytes meet on their way through a proxy, whatever they say.
//!
//! Both directions of every connection meet the same. A connection that is cut is cut at that byte, in the middle of whatever it was.
//! It knows no HTTP.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

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
    /// Connections with a lower number never carry another byte; nobody is told.
    pub lost_before: u64,
    /// A connection is cut after it has carried so many bytes to who asked.
    pub cut_after: Option<u64>,
    /// Rises with each cut of all connections.
    pub cuts: u64,
    /// Whether a cut is a reset, which throws away what is on its way, or an end.
    pub is_reset: bool,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Asking,
    Answering,
}

/// The connection was cut.
struct Cut;

/// Carries bytes between who asks and who answers until one of them ends or the weather does it.
pub(super) async fn carry(
    mut asking: TcpStream,
    answering: impl AsyncRead + AsyncWrite,
    weather: &watch::Receiver<Weather>,
    number: u64,
) {
    let mut cuts = weather.clone();
    let before = cuts.borrow_and_update().cuts;
    let (answers, requests) = tokio::io::split(answering);
    let is_cut = {
        let (from, to) = asking.split();
        let both = async {
            tokio::try_join!(
                pump(from, requests, Direction::Asking, weather.clone(), number),
                pump(answers, to, Direction::Answering, weather.clone(), number)
            )
        };
        tokio::select! {
            ended = both => ended.is_err(),
            _ = cuts.wait_for(|weather| weather.cuts > before) => true,
        }
    };
    if is_cut && weather.borrow().is_reset {
        // Closing it now resets it.
        let _ = asking.set_zero_linger();
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: Direction,
    mut weather: watch::Receiver<Weather>,
    number: u64,
) -> Result<(), Cut> {
    let mut room = vec![0; 16 << 10];
    // Bytes carried since connections are cut after some.
    let mut carried = 0;
    loop {
        let Ok(length) = from.read(&mut room).await else { return Err(Cut) };
        if length == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        let delay = weather.borrow().delay;
        if !delay.is_zero() {
            pause(delay).await;
        }
        let mut left = &room[..length];
        while !left.is_empty() {
            let stands = |weather: &Weather| weather.is_frozen || number < weather.lost_before;
            let Ok(now) = weather.wait_for(|weather| !stands(weather)).await.map(|now| *now) else { return Err(Cut) };
            let mut piece = left.len();
            if let Some(rate) = now.rate {
                pause(SLICE).await;
                let slice = rate as f64 * SLICE.as_secs_f64();
                piece = piece.min((slice as usize).max(1));
            }
            let cut_after = now.cut_after.filter(|_| direction == Direction::Answering);
            carried = if cut_after.is_some() { carried } else { 0 };
            if let Some(most) = cut_after {
                piece = piece.min(usize::try_from(most.saturating_sub(carried)).unwrap_or(usize::MAX));
                carried += piece as u64;
            }
            if piece == 0 || to.write_all(&left[..piece]).await.is_err() {
                let _ = to.flush().await;
                return Err(Cut);
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
