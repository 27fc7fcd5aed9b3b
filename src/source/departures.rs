//! Resources that a cluster does not serve any more: what is known of their objects, and how they end.
//!
//! Their feeds go on until the cluster ends its watch, because events may still be on their way, and what has come is sent to all watches
//! before those end. Their clients list then and get 404, so what they hold afterwards depends on these events alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::feed::Feed;
use crate::crd::Crd;
use crate::model::Version;
use crate::registry::{Departure, Resource, ResourceOrigin, ResourceState};

/// So long is a resource followed that the cluster does not serve any more, unless the cluster ends its watch before: as long as the
/// last events can take.
const FAREWELL: Duration = Duration::from_secs(30);

/// CRDs by name, with the version that was read; an error states why one cannot be read.
pub(super) type KnownCrds = BTreeMap<String, (Version, Result<Arc<Crd>, String>)>;

/// What is known of the objects of a resource that the cluster does not serve any more. `crds` are all CRDs and the version at which they
/// were listed; `None` where they are not known.
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

/// Waits until the source has had [`FAREWELL`] to send what is left of a resource that it does not serve any more.
pub(super) async fn outstayed(live: &ResourceState) {
    live.departed().await;
    sleep(FAREWELL).await;
}

/// Ends a resource that the source does not serve any more. Where its definition was deleted all objects were deleted before, so those of
/// which the source has not said so are removed: watches send a DELETED event for each. Where its version has ended no client can see the
/// objects in that version any more, so watches send the same. A client would keep them for ever, as its next list is answered with 404.
pub(super) fn take_leave(feed: &mut Feed, live: &ResourceState) {
    let departure = live.departure().unwrap_or(Departure::NotOffered);
    match departure {
        Departure::ObjectsDeleted(version) => feed.remove_all(version),
        Departure::VersionEnded => feed.remove_all(feed.version()),
        Departure::NotOffered => {}
    }
    live.end(departure.reason());
}
