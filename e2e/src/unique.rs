//! Names no other test uses: how tests share one control plane without meeting.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// `prefix-` and nine random letters or digits: a valid namespace or object name when `prefix` is one.
#[must_use]
pub fn name(prefix: &str) -> String {
    format!("{prefix}-{}", suffix())
}

/// An API group of its own under `example.com`, `prefix-` and nine random letters or digits before the first dot.
#[must_use]
pub fn group(prefix: &str) -> String {
    format!("{}.example.com", name(prefix))
}

/// Nine letters or digits; about 46 random bits, so that also the runs of different processes do not meet.
fn suffix() -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    // RandomState is the standard library's source of random bits.
    let mut bits = RandomState::new().hash_one(COUNTER.fetch_add(1, Ordering::Relaxed));
    let mut text = String::with_capacity(9);
    for _ in 0..9 {
        let digit = usize::try_from(bits % 36).unwrap_or_default();
        text.push(char::from(DIGITS[digit]));
        bits /= 36;
    }
    text
}
