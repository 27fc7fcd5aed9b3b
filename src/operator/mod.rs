//! In the cluster: controllers around the stores, for kinds of our own.
//!
//! Every replica judges what FieldCaches ask for ([`stores`]) and keeps that ([`desired_stores`]); the one that leads ([`election`]) tells people how
//! it is: on FieldCaches ([`field_caches`], when [`phases`] of a store change) and as SelectableResources
//! ([`selectable_resources`]), in words and counts that stay quiet ([`status`]) and in `events`; what the API server rejects is an [`api_error`]; metrics show what it [`reported`]. They are tasks `apart` from each other, and look at changes that come together when these `settle`. How many of them are in memory is [`object_budget`]'s. At startup it warns of permissions that it does not need ([`own_permissions`]). Every replica serves the [`views`]. A replica is ready when it is [`synced`]. Serving is `server`'s, reading the cluster `source`'s.

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

pub use controllers::{Operator, run};
pub use field_caches::how_to_permit;
pub use status::FIELD_MANAGER;
