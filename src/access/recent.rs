//! Keys that were inserted recently, bounded in number and age. The oldest key is removed first.
//!
//! Pure: the caller passes the time.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::single_flight::CacheKey;

/// A set of keys, each of which expires.
#[derive(Debug)]
pub struct RecentKeys {
    most: usize,
    keep: Duration,
    /// When each key expires.
    until: HashMap<CacheKey, Instant>,
    /// Keys and when they expire, in the order of insertion. An entry is outdated if `until` has another time for its
    /// key.
    order: VecDeque<(CacheKey, Instant)>,
}

impl RecentKeys {
    /// A set of at most `most` keys, which forgets each after `keep`.
    pub fn new(most: usize, keep: Duration) -> RecentKeys {
        RecentKeys { most, keep, until: HashMap::new(), order: VecDeque::new() }
    }

    /// Whether the key is in the set and has not expired.
    pub fn contains(&self, key: &CacheKey, now: Instant) -> bool {
        self.until.get(key).is_some_and(|until| *until > now)
    }

    /// Adds a key, or extends the time until it expires. May remove the oldest keys.
    pub fn insert(&mut self, key: CacheKey, now: Instant) {
        // The time is extended only in its second half, so that a key has few entries in `order`.
        if self.until.get(&key).is_some_and(|until| *until > now + self.keep / 2) {
            return;
        }
        let until = now + self.keep;
        self.until.insert(key, until);
        self.order.push_back((key, until));
        // Removed keys leave outdated entries in `order`. They are dropped when `order` is about twice as long as
        // needed.
        if self.order.len() > self.most * 2 + 64 {
            self.order.retain(|(key, its)| self.until.get(key) == Some(its));
        }
        // Removes expired keys, and the oldest ones while there are too many.
        while let Some((oldest, its)) = self.order.front() {
            let is_outdated = self.until.get(oldest) != Some(its);
            if !is_outdated && *its > now && self.until.len() <= self.most {
                break;
            }
            if !is_outdated {
                self.until.remove(oldest);
            }
            self.order.pop_front();
        }
    }

    /// Removes a key before its time is over.
    pub fn remove(&mut self, key: &CacheKey) {
        self.until.remove(key);
    }
}
