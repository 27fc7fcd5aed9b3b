//! The pause before a retry, as in client-go's reflector (`tools/cache/reflector.go`): 0.8 s doubling to 30 s, with
//! jitter. It returns to the start after two quiet minutes. Where there is no server to spare, the delay stays much
//! lower.

use std::time::Duration;

/// The base of the first delay.
const FIRST: Duration = Duration::from_millis(800);
/// The longest base of a delay.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest base while no connection can be opened, or a permission is expected. Thirty seconds spare a server that
/// responds, which may be overloaded. They would not help a server that is down or restarting, and all clients here
/// would wait for them after it is back. One connection each second or two does not load the network.
const LONGEST_EXPECTED: Duration = Duration::from_secs(1);
/// Time without a failure after which the next one counts as the first.
const RESET_AFTER: Duration = Duration::from_secs(120);

/// Delays that grow with each failure. Has no clock: the caller reports how long it worked without a failure.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    /// State of the jitter; any start will do, as it only spreads clients over time.
    seed: u64,
}

impl Backoff {
    /// A back-off that starts at the shortest delay; `seed` determines its jitter.
    pub fn new(seed: u64) -> Backoff {
        Backoff { next: FIRST, seed }
    }

    /// The delay after a failure: the base, plus a random part of up to the base again. `quiet` is the time without a
    /// failure before.
    pub fn after_failure(&mut self, quiet: Duration) -> Duration {
        self.delay(quiet, LONGEST)
    }

    /// Like [`Backoff::after_failure`], but at most two seconds. For failures that may end at any moment, such as a
    /// server that cannot be reached.
    pub fn after_expected_failure(&mut self, quiet: Duration) -> Duration {
        self.delay(quiet, LONGEST_EXPECTED)
    }

    /// The next delay, whose base doubles up to `longest`. After [`RESET_AFTER`] without a failure, the base is the
    /// first one again.
    fn delay(&mut self, quiet: Duration, longest: Duration) -> Duration {
        if quiet >= RESET_AFTER {
            self.next = FIRST;
        }
        let base = self.next.min(longest);
        self.next = (base * 2).min(longest);
        // A step of a linear congruential generator, with the constants of Knuth's MMIX. It spreads the retries of clients,
        // and need not be unpredictable. The upper bits are the most random ones, so the share is made of 24 of them.
        self.seed = (self.seed | 1).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = f64::from((self.seed >> 40) as u32 & 0xff_ffff) / f64::from(0x100_0000);
        base + base.mul_f64(share)
    }
}
