//! Keyed hashes: what is remembered of tokens and of questions, instead of themselves.
//!
//! HMAC-SHA256 with a key that the process makes when it starts, so that nobody can make two questions meet, and that what
//! is in memory is of no use elsewhere (apiserver `authentication/token/cache`).

use std::fmt;

use ring::hmac;
use ring::rand::SystemRandom;

use super::single_flight::CacheKey;

/// The process's own key.
pub struct CacheKeyHasher(hmac::Key);

impl fmt::Debug for CacheKeyHasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CacheKeyHasher")
    }
}

impl CacheKeyHasher {
    /// A new one.
    ///
    /// # Errors
    /// Says so when the system has no randomness, without which nothing is safe.
    pub fn new() -> Result<CacheKeyHasher, String> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map(CacheKeyHasher)
            .map_err(|_| "the system gives no random bytes".to_owned())
    }

    /// The hash of several texts; where one ends and the next begins counts.
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
