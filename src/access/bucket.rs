//! How many tokens of one address may fail review: buckets of tries for each address, refilled over time.
//!
//! Each class of tokens has buckets of its own, so that a flood of one class leaves the tries of the others. Pure: the caller
//! passes the time. The number of addresses is bounded; an address that has not failed for long is forgotten, which gives it no
//! more than the full bucket that it has by then.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Tries of an address in one class at first. Whole nodes may share one address, and after a restart of this server all of
/// them send requests at once.
pub const TRIES: u32 = 100;

/// Tries are returned at this rate. Each costs the API server a review.
pub const EVERY: Duration = Duration::from_millis(100);

/// The same for new tokens that look like those of ServiceAccounts and OpenID Connect: valid ones are among them.
pub const JWT_TRIES: u32 = 200;
/// See [`JWT_TRIES`].
pub const JWT_EVERY: Duration = Duration::from_millis(20);

/// Most addresses of a class that are remembered. All further addresses share one bucket.
const MOST_ADDRESSES: usize = 4096;

/// The bucket of all addresses beyond [`MOST_ADDRESSES`]. No client has this address.
const OVERFLOW: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// What is known of a token before its review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenClass {
    /// It failed a review not long ago.
    Failed,
    /// It is new, and no JSON Web Token that could be valid now.
    NewOpaque,
    /// It is new, and a JSON Web Token that could be valid now.
    NewJwt,
}

/// Failures by class and address.
#[derive(Debug, Default)]
pub struct Buckets(Mutex<[HashMap<IpAddr, Bucket>; 3]>);

#[derive(Debug)]
struct Bucket {
    /// When it will be full.
    full_at: Instant,
}

impl TokenClass {
    /// Tries, and the time after which one is returned.
    fn budget(self) -> (u32, Duration) {
        match self {
            TokenClass::Failed | TokenClass::NewOpaque => (TRIES, EVERY),
            TokenClass::NewJwt => (JWT_TRIES, JWT_EVERY),
        }
    }
}

impl Buckets {
    /// Takes one try; false when none is left.
    pub fn take(&self, class: TokenClass, address: IpAddr, now: Instant) -> bool {
        let mut classes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = &mut classes[class as usize];
        let mut address = neighbourhood(address);
        if buckets.len() >= MOST_ADDRESSES && !buckets.contains_key(&address) {
            buckets.retain(|_, bucket| bucket.full_at > now);
            if buckets.len() >= MOST_ADDRESSES {
                address = OVERFLOW;
            }
        }
        let (tries, every) = class.budget();
        let bucket = buckets.entry(address).or_insert(Bucket { full_at: now });
        let full_at = bucket.full_at.max(now) + every;
        if full_at.duration_since(now) > every * tries {
            return false;
        }
        bucket.full_at = full_at;
        true
    }

    /// Returns a try that was no failure.
    pub fn give_back(&self, class: TokenClass, address: IpAddr, now: Instant) {
        let mut classes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = &mut classes[class as usize];
        let mut address = neighbourhood(address);
        if !buckets.contains_key(&address) {
            address = OVERFLOW;
        }
        if let Some(bucket) = buckets.get_mut(&address) {
            bucket.full_at = bucket.full_at.checked_sub(class.budget().1).unwrap_or(now);
            if bucket.full_at <= now {
                buckets.remove(&address);
            }
        }
    }
}

/// A client with one address of IPv6 has the 2^64 around it.
pub(super) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [first, second, third, fourth, ..] = address.segments();
            IpAddr::from([first, second, third, fourth, 0, 0, 0, 0])
        }
        address => address,
    }
}
