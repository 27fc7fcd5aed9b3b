//! The controllers of the operator, for fieldcache's own kinds.
//!
//! Every replica evaluates FieldCaches and Views and serves them. The leader also writes statuses.
//!
//! | Part | Files |
//! |---|---|
//! | start | [`run`] starts each controller as a task of its own (`controller_tasks`) |
//! | objects of the cluster | `reflector` follows them, [`lenient`] reads those that are partly invalid, `bounded` and [`object_budget`] bound how many are in memory, `settle` gathers changes |
//! | FieldCaches | [`stores`] evaluates them, [`desired_stores`] names the stores for the source, [`field_caches`] writes statuses when [`phases`] of stores change |
//! | Views | [`views`] evaluates, serves and describes them; [`admission_policy`] checks the policies that protect them |
//! | SelectableResources | [`selectable_resources`] writes them |
//! | statuses | [`status`] makes conditions and counts that change rarely, `events` writes Kubernetes Events, [`reported`] has the conditions for metrics |
//! | one writer | [`election`] elects the leader |
//! | readiness and permissions | [`synced`] decides when a replica is ready, [`own_permissions`] warns of permissions that are not needed, [`api_error`] describes rejections by the API server |
//!
//! `server` serves requests, and `source` reads the cluster.

pub mod admission_policy;
pub mod api_error;
mod bounded;
mod controller_tasks;
mod controllers;
pub mod desired_stores;
pub mod election;
mod events;
pub mod field_caches;
pub mod lenient;
pub mod object_budget;
pub mod own_permissions;
pub mod phases;
mod reflector;
pub mod replica_state;
pub mod reported;
pub mod selectable_resources;
mod settle;
pub mod status;
pub mod stores;
pub mod synced;
#[cfg(test)]
mod tests;
pub mod views;

pub use controllers::{Controllers, run};
pub use field_caches::how_to_permit;
pub use status::FIELD_MANAGER;
