//! `fieldcache operator` beside a kube-apiserver with RBAC on: which credentials authenticate a user, what users may
//! do, and which reviews are sent for it.
//!
//! [`stage`] is one control plane with users, permissions and an operator. [`credentials`] compares credentials, [`permissions`]
//! permissions, and [`reviews`] the reviews themselves. [`outage`] covers a missing API server, and [`connections`] the
//! resources that clients without credentials can take.

mod connections;
mod credentials;
mod outage;
mod permissions;
mod reviews;
pub(crate) mod stage;
