//! Rate limits of failures: a bucket of tries for each key, refilled over time. [`TokenFailures`] limits how many
//! tokens of one address may fail review.
//!
//! Each class of tokens has its own buckets, so that a flood of one class leaves the tries of the others. Pure: the
//! caller passes the time. The number of keys is bounded; a key with a full bucket is forgotten, which changes nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Tries in a full bucket of an address in one class. All Pods of a node may share one address, and after a restart of
/// this server all of them send requests at once.
pub const TRIES: u32 = 100;

/// The time after which a used try is returned. Each try costs the API server a review.
pub const EVERY: Duration = Duration::from_millis(100);

/// Like [`TRIES`], for new tokens that look like those of ServiceAccounts and OpenID Connect: valid ones are among
/// them.
pub const JWT_TRIES: u32 = 200;
/// See [`JWT_TRIES`].
pub const JWT_EVERY: Duration = Duration::from_millis(20);

/// Most keys that are remembered. All further ones share one bucket.
const MOST_KEYS: usize = 4096;

/// The key of the bucket that all addresses beyond the maximum number of keys share. No client has this address.
pub const OVERFLOW: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// What is known of a token before its review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenClass {
    /// It failed a review recently.
    Failed,
    /// It was not reviewed recently, and is not a JSON Web Token that could be valid now.
    NewOpaque,
    /// It was not reviewed recently, and is a JSON Web Token that could be valid now.
    NewJwt,
}

impl TokenClass {
    /// How many tokens of this class an address may try, and how fast the budget refills.
    fn budget(self) -> FailureBudget {
        match self {
            TokenClass::Failed | TokenClass::NewOpaque => FailureBudget { tries: TRIES, every: EVERY },
            TokenClass::NewJwt => FailureBudget { tries: JWT_TRIES, every: JWT_EVERY },
        }
    }
}

/// How many tries a full bucket has, and the time after which a used one is returned.
#[derive(Clone, Copy, Debug)]
pub struct FailureBudget {
    /// The number of tries.
    pub tries: u32,
    /// One is returned after this time.
    pub every: Duration,
}

/// A bucket of tries for each key.
#[derive(Debug)]
pub struct FailureRateLimiter<Key> {
    budget: FailureBudget,
    /// The time when the bucket of each key is full again.
    full_at: HashMap<Key, Instant>,
    /// The key of the bucket that all keys beyond [`MOST_KEYS`] share.
    overflow: Key,
}

impl<Key: Clone + Eq + Hash> FailureRateLimiter<Key> {
    /// A rate limiter whose buckets are all full. `overflow` is the key of the shared bucket, which no caller may have.
    pub fn new(budget: FailureBudget, overflow: Key) -> FailureRateLimiter<Key> {
        FailureRateLimiter { budget, full_at: HashMap::new(), overflow }
    }

    /// Takes one try of a key; false if none is left.
    pub fn take(&mut self, mut key: Key, now: Instant) -> bool {
        if self.full_at.len() >= MOST_KEYS && !self.full_at.contains_key(&key) {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= MOST_KEYS {
                key = self.overflow.clone();
            }
        }
        let FailureBudget { tries, every } = self.budget;
        let full_at = self.full_at.entry(key).or_insert(now);
        // A bucket is stored as the time when it is full again: each used try is worth `every`. If that time would be
        // farther away than all tries are worth, the bucket is empty.
        let next = (*full_at).max(now) + every;
        if next.duration_since(now) > every * tries {
            return false;
        }
        *full_at = next;
        true
    }

    /// Returns a try that was taken for this key and did not fail. A key without a bucket took it from the shared one.
    pub fn give_back(&mut self, mut key: Key, now: Instant) {
        if !self.full_at.contains_key(&key) {
            key = self.overflow.clone();
        }
        if let Some(full_at) = self.full_at.get_mut(&key) {
            *full_at = full_at.checked_sub(self.budget.every).unwrap_or(now);
            if *full_at <= now {
                self.full_at.remove(&key);
            }
        }
    }
}

/// The rate limits of failed tokens, by class and client network.
#[derive(Debug)]
pub struct TokenFailures(Mutex<[FailureRateLimiter<IpAddr>; 3]>);

impl Default for TokenFailures {
    fn default() -> TokenFailures {
        let classes = [TokenClass::Failed, TokenClass::NewOpaque, TokenClass::NewJwt];
        TokenFailures(Mutex::new(classes.map(|class| FailureRateLimiter::new(class.budget(), OVERFLOW))))
    }
}

impl TokenFailures {
    /// Takes one try of an address for a token of this class; false if none is left.
    pub fn take(&self, class: TokenClass, address: IpAddr, now: Instant) -> bool {
        self.lock()[class as usize].take(client_network(address), now)
    }

    /// Returns a try that was taken for a token of this class and did not fail.
    pub fn give_back(&self, class: TokenClass, address: IpAddr, now: Instant) {
        self.lock()[class as usize].give_back(client_network(address), now);
    }

    fn lock(&self) -> MutexGuard<'_, [FailureRateLimiter<IpAddr>; 3]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The /64 network of an IPv6 address, since a client with one address has the whole network; an IPv4 address itself.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [first, second, third, fourth, ..] = address.segments();
            IpAddr::from([first, second, third, fourth, 0, 0, 0, 0])
        }
        address => address,
    }
}
