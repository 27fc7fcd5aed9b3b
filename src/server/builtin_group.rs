//! fieldcache's own API group `view.fieldcache.dev/v1alpha1`: its names, and which callers see it. What is seen is in
//! `builtin_group_documents`.
//!
//! It contains no objects: [`super::view_request`] serves `views/NAME/proxy`, and [`super::placement_review`] answers `placementreviews` without
//! storing them. Clients see the group beside all others that are served, without a document. kube-apiserver's aggregator sees it alone: it would
//! take every other group, and every document of the index of OpenAPI, for one of ours (kube-aggregator `pkg/controllers/openapiv3`). A View does
//! not contain it.

pub(super) use crate::model::own_groups::{VERSION, VIEW_GROUP as GROUP};

/// The key of its OpenAPI v3 document.
pub(super) const KEY: &str = "apis/view.fieldcache.dev/v1alpha1";

/// The users with which kube-apiserver's aggregator requests discovery and OpenAPI (kube-aggregator `pkg/apiserver`,
/// `pkg/controllers/openapi/aggregator`).
const AGGREGATORS: [&str; 2] = ["system:kube-aggregator", "system:aggregator"];

/// How a request is shown our own group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltinGroupVisibility {
    /// Not at all.
    Hidden,
    /// With everything else, but for Views, which there are none of; without documents.
    WithoutViews,
    /// With all other groups.
    Beside,
    /// And nothing else.
    Alone,
}

impl BuiltinGroupVisibility {
    /// The visibility at the root of a server with Views, for a user.
    pub(super) fn for_user(user: &str) -> BuiltinGroupVisibility {
        if AGGREGATORS.contains(&user) { BuiltinGroupVisibility::Alone } else { BuiltinGroupVisibility::Beside }
    }
}
