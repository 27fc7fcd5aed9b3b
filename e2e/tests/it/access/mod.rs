//! `fieldcache operator` beside a kube-apiserver with RBAC on: who is authenticated by which means, what they may, and what is reviewed it.
//!
//! [`stage`] is one control plane with users, rights and an operator; [`who`] compares credentials, [`may`] rights,
//! [`reviews`] the reviews themselves, [`outage`] what is left without the API server, [`connections`] what clients without credentials can hold.

mod connections;
mod may;
mod outage;
mod reviews;
pub(crate) mod stage;
mod who;
