//! Faults: what can go wrong around fieldcache, as data, and the machinery that makes it go wrong.
//!
//! | room | what it is |
//! |---|---|
//! | [`fault`] | the faults, each of which says what it is |
//! | [`schedule`] | when which fault begins and ends, from a seed |
//! | [`weather`] | what bytes meet on their way: delay, narrowness, standstill, breaks |
//! | [`proxy`] | the one proxy: bytes through weather, and answers that are changed, refused or broken |
//! | [`stage`] | an API server, fieldcache and both proxies, to which faults are done |
//! | [`informer`], [`reader`], [`notes`] | light clients, and what they write down |
//! | [`campaign`] | many schedules, and what came of them |
//! | [`churn`] | a long time without faults, with real clients: memory and descriptors |
//! | [`run`] | one schedule from its start to the checker's report |
//!
//! The checker is [`crate::checker`]; it knows nothing of faults.

pub mod campaign;
pub mod churn;
pub mod fault;
pub mod informer;
pub mod notes;
pub mod proxy;
pub mod reader;
pub mod run;
pub mod schedule;
pub mod stage;
pub mod weather;
