//! Free ports of the loopback for programs that come back to theirs when they are started again.
//!
//! They lie below the ports that systems give to connections, so that none of the many connections of other tests takes one meanwhile.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

use crate::random::Random;

const FIRST: u64 = 20_000;
const LAST: u64 = 31_999;

/// How often a start is tried. A free port is found, released and taken again by the program, and another process can
/// take it in between.
pub const ATTEMPTS: usize = 5;

/// One that no process has, and that this process has not returned before.
///
/// # Errors
/// When there is none.
pub fn free() -> Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    // RandomState is the standard library's source of random bits.
    let mut random = Random::from_seed(RandomState::new().hash_one(std::process::id()), 0);
    for _ in 0..1_000 {
        let port = u16::try_from(random.between(FIRST, LAST))?;
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {LAST}")
}
