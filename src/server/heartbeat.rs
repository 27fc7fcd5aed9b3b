//! Whether the runtime that serves still runs its tasks.
//!
//! Health checks are served by a thread of their own, which would find a server healthy whose workers are all blocked. So a task of the
//! serving runtime beats every second, and liveness fails when the last beat is too old. The bound is far above what load causes:
//! a kubelet restarts the process for it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::health::Check;

/// How often it beats.
const INTERVAL: Duration = Duration::from_secs(1);

/// How old the last beat may be.
const OLDEST: Duration = Duration::from_secs(30);

/// The last beat of a runtime.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    last: Arc<Mutex<Instant>>,
}

impl Default for Heartbeat {
    fn default() -> Heartbeat {
        Heartbeat { last: Arc::new(Mutex::new(Instant::now())) }
    }
}

impl Heartbeat {
    /// Beats for as long as it is polled.
    pub async fn beat(self) -> Infallible {
        loop {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            sleep(INTERVAL).await;
        }
    }

    /// The liveness check: it fails when the heartbeat is late.
    pub fn check(&self) -> Check {
        let heartbeat = self.clone();
        Check::one("runtime", true, move || heartbeat.is_recent(Instant::now()))
    }

    /// The time of the last beat.
    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last beat is recent enough.
    ///
    /// # Errors
    /// States for how long no task has run.
    fn is_recent(&self, now: Instant) -> Result<(), String> {
        let age = now.saturating_duration_since(self.last());
        if age <= OLDEST { Ok(()) } else { Err(format!("no task of the server has run for {} s", age.as_secs())) }
    }
}

#[cfg(test)]
mod tests;
