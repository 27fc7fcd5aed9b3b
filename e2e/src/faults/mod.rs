//! Faults: what can go wrong around fieldcache, as data, and the machinery that makes it go wrong.
//!
//! | room | what it is |
//! |---|---|
//! | [`fault`] | the faults, each of which says what it is |
//! | [`schedule`] | when which fault begins and ends, from a seed |
//! | [`weather`] | what bytes meet on their way: delay, narrowness, standstill, breaks |
//! | [`proxy`] | the one proxy: bytes through weather, and answers that are changed, refused or broken |
//! | [`stage`] | an API server, fieldcache and both proxies, to which faults are done |
//! | [`informer`], [`reader`] | light clients that write down what they are told |
//! | [`run`] | one schedule from its start to the checker's report |
//!
//! The checker is [`crate::checker`]; it knows nothing of faults.

pub mod fault;
pub mod proxy;
pub mod weather;
