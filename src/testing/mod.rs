//! Support for tests of all modules: generators and the threads that tests run on.

pub(crate) mod json;
pub(crate) mod nested;
