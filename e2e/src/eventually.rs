//! Polling with a deadline: the only sleep of the test bed.
//!
//! It does not hide what it waited for: a missed deadline names the condition and the last reason it was not met.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Between two looks. Short against everything awaited (milliseconds to seconds), long against the cost of a look.
const PAUSE: Duration = Duration::from_millis(20);

/// Polls `look` until it is `Ok`, or fails after `deadline` with `what` and the last error.
///
/// `look` always runs at least once, also with a deadline of zero.
///
/// # Errors
/// When the deadline has passed.
pub async fn eventually<Seen>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Result<Seen>,
) -> Result<Seen> {
    let start = Instant::now();
    loop {
        match look().await {
            Err(_) if start.elapsed() < deadline => pause().await,
            ended => return ended.with_context(|| format!("{what}: not within {deadline:?}")),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one sleep, between two looks at a condition with a deadline")]
async fn pause() {
    tokio::time::sleep(PAUSE).await;
}
