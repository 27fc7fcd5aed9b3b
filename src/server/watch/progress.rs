//! Progress notifications of the store, forwarded to another fieldcache as bookmarks. The module `watch` writes the
//! bookmarks.

use tokio::time::Instant;

use super::super::context::RequestContext;
use crate::model::Version;
use crate::registry::fieldcache_protocol::PROGRESS_PARAMETER;
use crate::registry::{LoadState, Resource};

/// Sends a bookmark for every progress notification of the store, to a fieldcache whose source is this one.
pub(super) struct ProgressForwarding {
    /// The time of the last progress notification when it was last forwarded; `None` before the first forwarding. The
    /// inner `None`: the store had no notification.
    pub(super) last_forwarded: Option<Option<Instant>>,
}

impl ProgressForwarding {
    /// Reads the query parameter [`PROGRESS_PARAMETER`], a version for which a client of the other fieldcache waits.
    /// Queries the source for progress to that version. `None` if the parameter is missing or invalid.
    ///
    /// Each progress bookmark reveals a write to some object of the resource. So the result is also `None` for Views,
    /// and for callers that may not list the whole resource.
    pub(super) async fn from_request(context: &RequestContext<'_>, resource: &Resource) -> Option<ProgressForwarding> {
        let wanted = Version::parse(context.info.query.get(PROGRESS_PARAMETER)?)?;
        if context.view.is_some() || !context.may_list_all(&resource.gvr).await {
            return None;
        }
        let resource_state = &resource.state;
        if matches!(resource_state.load_state(), LoadState::Ready(snapshot) if snapshot.version() < wanted) {
            // Nothing is requested if the source is far from the version. The bookmarks then follow its usual progress.
            let _is_far = !resource_state.freshness().want(wanted);
        }
        Some(ProgressForwarding { last_forwarded: None })
    }
}
