//! `fieldcache operator` beside a kube-apiserver with RBAC on: who is let in by which means, what they may, and what is asked about it.
//!
//! [`stage`] is one control plane with users, rights and an operator; [`who`] compares credentials, [`may`] rights,
//! [`asked`] the reviews themselves, [`outage`] what is left without the API server, [`connections`] what clients without credentials can hold.

mod asked;
mod connections;
mod may;
mod outage;
pub(crate) mod stage;
mod who;
