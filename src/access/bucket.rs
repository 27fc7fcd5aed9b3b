//! How often strangers at one address may be wrong: a bucket of tries for each, filled anew with time.
//!
//! Pure: times are handed in. Addresses are bounded; one that has not failed for long is forgotten, which gives it no
//! more than the full bucket that it has by then.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Tries that an address has when it begins. Whole nodes may stand behind one address, and after a restart of ours all of
/// them come at once.
pub const TRIES: u32 = 100;

/// Tries are given back at this pace. Each costs the API server a review.
pub const EVERY: Duration = Duration::from_millis(100);

/// Most addresses that are remembered. Beyond it they share what the table has: an attacker with so many addresses meets
/// the bound on reviews under way instead.
const MOST_ADDRESSES: usize = 4096;

/// Failures by address.
#[derive(Debug, Default)]
pub struct Buckets(Mutex<HashMap<IpAddr, Bucket>>);

#[derive(Debug)]
struct Bucket {
    /// When it will be full.
    full_at: Instant,
}

impl Buckets {
    /// Takes one try; false when there is none left.
    pub fn take(&self, address: IpAddr, now: Instant) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = neighbourhood(address);
        if buckets.len() >= MOST_ADDRESSES && !buckets.contains_key(&address) {
            buckets.retain(|_, bucket| bucket.full_at > now);
            if buckets.len() >= MOST_ADDRESSES {
                return false;
            }
        }
        let bucket = buckets.entry(address).or_insert(Bucket { full_at: now });
        let full_at = bucket.full_at.max(now) + EVERY;
        if full_at.duration_since(now) > EVERY * TRIES {
            return false;
        }
        bucket.full_at = full_at;
        true
    }

    /// Gives a try back that was no failure.
    pub fn give_back(&self, address: IpAddr, now: Instant) {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = neighbourhood(address);
        if let Some(bucket) = buckets.get_mut(&address) {
            bucket.full_at = bucket.full_at.checked_sub(EVERY).unwrap_or(now);
            if bucket.full_at <= now {
                buckets.remove(&address);
            }
        }
    }
}

/// Somebody with one address of IPv6 has the 2^64 around it.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [first, second, third, fourth, ..] = address.segments();
            IpAddr::from([first, second, third, fourth, 0, 0, 0, 0])
        }
        address => address,
    }
}
