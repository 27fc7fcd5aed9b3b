//! Resources that a cluster does not serve any more: what is known of their objects, and how they end.
//!
//! Their feeds continue until the cluster ends its watch, because events may still be on their way, and all watches
//! receive them before they end. Clients then list and get 404, so their final state depends on these events alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::feed::Feed;
use crate::crd::Crd;
use crate::model::Version;
use crate::registry::{Departure, Resource, ResourceOrigin, ResourceState};

/// How long a removed resource is still followed, unless the cluster ends its watch before: long enough for the last
/// events.
const FAREWELL: Duration = Duration::from_secs(30);

/// CRDs by name, with the version that was read; an error states why one cannot be read.
pub(super) type KnownCrds = BTreeMap<String, (Version, Result<Arc<Crd>, String>)>;

/// What is known of the objects of a resource that the cluster does not serve any more. `crds` are all CRDs and the
/// version at which they were listed; `None` where they are unknown.
pub(super) fn departure(resource: &Resource, crds: Option<(Version, &KnownCrds)>) -> Departure {
    let Some((version, crds)) = crds.filter(|_| resource.origin == ResourceOrigin::Custom) else {
        return Departure::NotOffered;
    };
    match crds.get(&resource.gvr.group_resource()) {
        None => Departure::ObjectsDeleted(version),
        Some((_, Ok(crd))) if crd.served_versions().iter().all(|served| served.name != resource.gvr.version) => {
            Departure::VersionEnded
        }
        // It is served, but its definition cannot be read or is not established.
        Some(_) => Departure::NotOffered,
    }
}

/// Waits until the source has stopped serving the resource and has then had [`FAREWELL`] to send the last events.
pub(super) async fn departure_timeout(state: &ResourceState) {
    state.departed().await;
    sleep(FAREWELL).await;
}

/// Ends a resource that the source does not serve any more. If its CRD was deleted, all objects were deleted before it,
/// so the remaining ones are removed: watches send a DELETED event for each. If the CRD no longer serves the version,
/// clients cannot read the objects in it, so watches send the same. Otherwise clients would retain the objects forever,
/// because their next list gets 404.
pub(super) fn end_departed(feed: &mut Feed, state: &ResourceState) {
    let departure = state.departure().unwrap_or(Departure::NotOffered);
    match departure {
        Departure::ObjectsDeleted(version) => feed.remove_all(version),
        Departure::VersionEnded => feed.remove_all(feed.version()),
        Departure::NotOffered => {}
    }
    state.end(departure.reason());
}
