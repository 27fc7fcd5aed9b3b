//! The current state of what is served: all that `source` and `server` share.
//!
//! `source` replaces the [`Catalog`] whenever kinds are added, changed or removed, and publishes a store's snapshots
//! through [`ResourceState`]; `server` reads both. A resource that stays the same across catalogs has the same `Arc`,
//! so its watches continue. For readers of one that changed or was removed, its state is [`LoadState::Gone`], which
//! ends their watches after the last change. [`views`] are parts of the catalog under names of their own; some differ
//! for each [`consumer`]. [`binding_subjects`] finds the RoleBindings of a caller. [`event_dispatcher`] delivers changes
//! to watches. `past` decides how long old versions are readable. This module uses neither a Kubernetes client nor HTTP.

pub mod binding_subjects;
mod catalog;
mod checks;
pub mod consumer;
mod definitions;
mod deflated;
pub mod dispatched_event;
pub mod documents;
mod dropped;
pub mod event_dispatcher;
pub mod fieldcache_protocol;
pub mod followed_pod;
mod freshness;
mod memory;
mod panics;
mod past;
mod pod_head;
mod readiness;
mod rediscovery;
mod requested_parts;
mod resource_state;
mod served;
#[cfg(test)]
pub(crate) mod tests;
pub mod upstream;
mod upstream_discovery;
mod view_definition;
pub mod view_documents;
pub mod view_namespaces;
mod view_restriction;
pub mod views;

pub use catalog::{ApiGroup, Catalog, PartialStore, Resource, ResourceOrigin, Subresource, VersionInfo};
pub use checks::{CheckOutcome, Checks, UnreadableNames};
pub use definitions::{Definition, Definitions};
pub use deflated::Deflated;
pub use dropped::Dropped;
pub use freshness::{Freshness, Lagging};
pub use memory::{Account, Memory, OverMemory};
pub use panics::{PanicOrigin, Panics};
pub use readiness::Readiness;
pub use rediscovery::Rediscovery;
pub use requested_parts::RequestedParts;
pub use resource_state::{Departure, Gone, GoneReason, LoadPhase, LoadState, NotReady, OpenWatch, ResourceState};
pub use served::Registry;
pub use upstream_discovery::{DiscoveredGroup, OfferedResource, OfferedVersion, UpstreamDiscovery};
pub use views::{View, ViewDefinitions, ViewState, Views};
