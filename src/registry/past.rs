//! How long past versions of a store are readable: until about five minutes after a newer one was published.
//!
//! kube-apiserver compacts etcd in the same way (`--etcd-compaction-interval`, apiserver `storage/etcd3/compact.go`).
//! It serves a list at an exact version, and a page of one, for 5 to 10 minutes, and returns 410 afterwards. History
//! may reach farther back for watches that resume, because they send changes, not objects that are gone since. There is
//! no clock here.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::Version;

/// How long a version is readable after it was replaced, at least.
const SHOWN: Duration = Duration::from_secs(300);

/// How much longer it may be readable, so that the times of a few versions suffice.
const STEP: Duration = Duration::from_secs(30);

/// The times at which versions were replaced.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Versions with the times when they were replaced, or somewhat later times; both increase. About `SHOWN / STEP` of
    /// them.
    replaced: VecDeque<(Instant, Version)>,
    /// The newest version that is no longer readable.
    expired: Option<Version>,
}

impl Past {
    /// Records that a newer version than this one is visible from now on.
    pub(super) fn note_replaced(&mut self, version: Version, now: Instant) {
        self.expire(now);
        // The last entry moves to `now` until the entry before it is a step old. So each entry is at least a step older
        // than the next but one, and there are few entries.
        let is_in_step =
            self.replaced.iter().rev().nth(1).is_some_and(|(before, _)| now.saturating_duration_since(*before) < STEP);
        match self.replaced.back_mut() {
            Some(last) if is_in_step => *last = (now, version),
            _ => self.replaced.push_back((now, version)),
        }
    }

    /// Whether a version was replaced so long ago that it is not readable any more.
    pub(super) fn is_expired(&mut self, version: Version, now: Instant) -> bool {
        self.expire(now);
        self.expired.is_some_and(|expired| version <= expired)
    }

    /// Moves `expired` past the versions that were replaced at least [`SHOWN`] ago.
    fn expire(&mut self, now: Instant) {
        while let Some((_, version)) =
            self.replaced.pop_front_if(|(replaced, _)| now.saturating_duration_since(*replaced) >= SHOWN)
        {
            self.expired = Some(version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_expire_five_minutes_after_they_were_replaced() {
        let begin = Instant::now();
        let mut past = Past::default();
        let shown = SHOWN.as_secs();
        // A version each second for twenty minutes: version `n` is replaced at second `n`.
        let mut most = 0;
        for second in 1..=1_200 {
            let now = begin + Duration::from_secs(second);
            past.note_replaced(Version::new(second), now);
            most = most.max(past.replaced.len());
            for version in 1..=second {
                let age = second - version;
                let is_expired = past.is_expired(Version::new(version), now);
                assert!(!is_expired || age >= shown, "version {version} is gone after {age} s");
                assert!(is_expired || age < shown + STEP.as_secs(), "version {version} is shown after {age} s");
            }
        }
        assert!(most <= 13, "{most} times are held");
        let later = begin + Duration::from_secs(1_200 + shown);
        assert!(past.is_expired(Version::new(1_200), later), "the last that was replaced goes without another change");
        assert!(!past.is_expired(Version::new(1_201), later), "the current version never does");
        assert!(past.replaced.is_empty());
    }
}
