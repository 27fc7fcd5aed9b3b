//! Support for tests of all crates: generators, and the threads that tests run on.

pub mod json;
pub mod nested;
