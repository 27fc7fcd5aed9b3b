//! How slowly a client may read a response.
//!
//! A response in progress holds the state of the store that it began with. A client which takes a byte now and then
//! would hold it for hours. A client may wait for [`PATIENCE`] in total; what it takes gives it time again, a second
//! for each [`SLOWEST`] bytes. kube-apiserver ends every request but a watch after a minute; here a large list may take
//! longer.
//!
//! [`super::write_timeout`] notices for a connection that a client waits, and [`crate::wire::body`] for one of several
//! responses on it. A reader that takes nothing at all is the matter of [`super::write_timeout`] and
//! [`super::stream_timeout`].

use std::time::Duration;

/// How long a client may take nothing. Longer than any pause of a healthy client.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes a second.
const SLOWEST: u64 = 8 << 10;

/// How long a client may still wait.
#[derive(Debug)]
pub(crate) struct Pace(Duration);

impl Default for Pace {
    fn default() -> Pace {
        Pace(PATIENCE)
    }
}

impl Pace {
    /// How long the client may still wait, in total.
    pub(crate) fn left(&self) -> Duration {
        self.0
    }

    /// Notes how long the client has waited before it read more; false if that was too long.
    pub(crate) fn wait(&mut self, waited: Duration) -> bool {
        let left = self.0.checked_sub(waited);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }

    /// Notes how many bytes the client has read.
    pub(crate) fn take(&mut self, bytes: usize) {
        let gained = Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / SLOWEST);
        self.0 = PATIENCE.min(self.0.saturating_add(gained));
    }
}

#[cfg(test)]
mod tests {
    use super::{PATIENCE, Pace};
    use std::time::Duration;

    #[test]
    fn a_client_may_wait_in_proportion_to_what_it_takes() {
        for (bytes, pause, most, what) in [
            (64 << 10, 8, None, "a piece each eight seconds"),
            (64 << 10, 12, Some(28), "a piece each twelve seconds"),
            (1, 60, Some(2), "a byte each minute"),
            (0, 121, Some(0), "nothing for longer than the patience"),
            (1 << 30, 120, None, "much after each long pause"),
        ] {
            let mut pace = Pace::default();
            let taken = (0..1_000).position(|_| {
                let goes_on = pace.wait(Duration::from_secs(pause));
                pace.take(bytes);
                !goes_on
            });
            assert_eq!(taken, most, "{what}");
            assert!(pace.left() <= PATIENCE, "{what}");
        }
    }
}
