//! Whether the runtime that serves still runs its tasks.
//!
//! A separate thread serves health checks, and would report a server as healthy whose workers are all blocked. So a
//! task of the serving runtime records the time every second (a beat), and `/livez` fails when the last beat is too
//! old. The bound is far above the delays that load causes, because the kubelet restarts the process when `/livez`
//! fails.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::health::Check;

/// The time between two beats.
const INTERVAL: Duration = Duration::from_secs(1);

/// The maximum age of the last beat; beyond this, `/livez` fails.
const OLDEST: Duration = Duration::from_secs(30);

/// The time of the last beat of a runtime.
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
    /// Records the time every second, for as long as this future is polled. Never returns.
    pub async fn beat(self) -> Infallible {
        loop {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            sleep(INTERVAL).await;
        }
    }

    /// The check for `/livez`: it fails when the last beat is older than 30 seconds.
    pub fn check(&self) -> Check {
        let heartbeat = self.clone();
        Check::one("runtime", true, move || heartbeat.is_recent(Instant::now()))
    }

    /// The time of the last beat.
    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the last beat is recent enough.
    ///
    /// # Errors
    /// The time for which no task has run.
    fn is_recent(&self, now: Instant) -> Result<(), String> {
        let age = now.saturating_duration_since(self.last());
        if age <= OLDEST { Ok(()) } else { Err(format!("no task of the server has run for {} s", age.as_secs())) }
    }
}

#[cfg(test)]
mod tests;
