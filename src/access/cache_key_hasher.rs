//! Keyed hashes of tokens and reviews: the keys of caches, which therefore hold no tokens.
//!
//! HMAC-SHA256 with a random key that the process generates when it starts. Clients cannot construct collisions, and a
//! hash is of no use outside of the process (apiserver `authentication/token/cache`).

use std::fmt;

use ring::hmac;
use ring::rand::SystemRandom;

use super::single_flight::CacheKey;

/// The key of this process.
pub struct CacheKeyHasher(hmac::Key);

impl fmt::Debug for CacheKeyHasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CacheKeyHasher")
    }
}

impl CacheKeyHasher {
    /// Generates a key.
    ///
    /// # Errors
    /// If the system returns no random bytes.
    pub fn new() -> Result<CacheKeyHasher, String> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map(CacheKeyHasher)
            .map_err(|_| "the system returns no random bytes".to_owned())
    }

    /// The hash of a list of byte strings. Lists that differ only in the boundaries of their strings have different
    /// hashes.
    pub fn key<'text>(&self, texts: impl IntoIterator<Item = &'text [u8]>) -> CacheKey {
        let mut context = hmac::Context::with_key(&self.0);
        for text in texts {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text);
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }
}
