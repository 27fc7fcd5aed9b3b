//! The minimum speed at which a client must read a response.
//!
//! A response in progress holds a snapshot of the store. A client that reads a byte now and then would hold it for
//! hours. So the pauses of a client may add up to [`PATIENCE`]. Each [`SLOWEST`] bytes that it reads give it back one
//! second. kube-apiserver ends every request except watches after a minute; here a large list may take longer.
//!
//! [`super::write_timeout`] measures the pauses of a connection, and [`crate::wire::body`] those of one of several
//! responses on a connection. Clients that read nothing at all are detected by [`super::write_timeout`] and
//! [`super::stream_timeout`].

use std::time::Duration;

/// How long a client may read nothing, in total. No healthy client pauses for as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The minimum speed of a client, in bytes a second.
const SLOWEST: u64 = 8 << 10;

/// The time that a client may still pause.
#[derive(Debug)]
pub(crate) struct Pace(Duration);

impl Default for Pace {
    fn default() -> Pace {
        Pace(PATIENCE)
    }
}

impl Pace {
    /// How long the client may still pause, in total.
    pub(crate) fn left(&self) -> Duration {
        self.0
    }

    /// Records a pause of the client. Returns whether the client has been fast enough: false if its pauses exceed the
    /// time that it had left.
    pub(crate) fn record_pause(&mut self, pause: Duration) -> bool {
        let left = self.0.checked_sub(pause);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }

    /// Records bytes that the client has read.
    pub(crate) fn record_read(&mut self, bytes: usize) {
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
                let goes_on = pace.record_pause(Duration::from_secs(pause));
                pace.record_read(bytes);
                !goes_on
            });
            assert_eq!(taken, most, "{what}");
            assert!(pace.left() <= PATIENCE, "{what}");
        }
    }
}
