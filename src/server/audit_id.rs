//! The `Audit-Id` of a response.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderValue};

use super::read::jitter_seed;

/// Creates audit ids.
#[derive(Debug, Default)]
pub(super) struct AuditIds {
    /// The number of ids that were created.
    answers: AtomicU64,
    /// Hashes that number with a secret key.
    hasher: RandomState,
}

impl AuditIds {
    /// The id for the response to a request with these headers: the client's own `Audit-Id`, if it has 1 to 64 bytes.
    /// Otherwise a new id in the form of a UUID, from a random number of the process and the hashed number of the id.
    pub(super) fn id_for(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(sent) = headers.get("audit-id").filter(|sent| !sent.is_empty() && sent.len() <= 64) {
            return sent.clone();
        }
        // Hashed with a key: otherwise, two ids would reveal how many requests others have sent.
        let number = self.hasher.hash_one(self.answers.fetch_add(1, Ordering::Relaxed));
        let mut bits = (u128::from(jitter_seed()) << 64) | u128::from(number);
        let mut text = *b"00000000-0000-4000-a000-000000000000";
        // Only zeros are replaced: `4` and `a` are the version and the variant of the UUID. Written by hand, from the
        // right: formatting would be the most expensive part of an empty response.
        for letter in text.iter_mut().rev().filter(|letter| **letter == b'0') {
            *letter = b"0123456789abcdef"[bits as usize & 0xf];
            bits >>= 4;
        }
        HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("0"))
    }
}
