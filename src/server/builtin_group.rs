//! fieldcache's own API group `view.fieldcache.dev/v1alpha1`: its names, and which callers see it.
//! `builtin_group_documents` has its documents.
//!
//! The group contains no objects: [`super::view_request`] serves `views/NAME/proxy`, and [`super::placement_review`]
//! answers `placementreviews` without storing them. [`super::dependents`] finds the `dependents` of an object. Clients see the group together with all others that are served, but
//! without an OpenAPI document. kube-apiserver's aggregator sees only this group: otherwise it would take every other
//! group, and every document of the OpenAPI index, for fieldcache's own (kube-aggregator `pkg/controllers/openapiv3`).
//! A View does not contain the group.

pub(super) use crate::model::own_groups::{VERSION, VIEW_GROUP as GROUP};

/// The key of the group's OpenAPI v3 document in the index.
pub(super) const KEY: &str = "apis/view.fieldcache.dev/v1alpha1";

/// The users with which kube-apiserver's aggregator requests discovery and OpenAPI (kube-aggregator `pkg/apiserver`,
/// `pkg/controllers/openapi/aggregator`).
const AGGREGATORS: [&str; 2] = ["system:kube-aggregator", "system:aggregator"];

/// How discovery and OpenAPI show fieldcache's own API group to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltinGroupVisibility {
    /// The group is not shown, as in a View.
    Hidden,
    /// The group is shown together with all others, but without its resource `views`: the server has no Views.
    WithoutViews,
    /// The group is shown together with all others.
    Beside,
    /// Only this group is shown, with its documents.
    Alone,
}

impl BuiltinGroupVisibility {
    /// The visibility at the root of a server with Views, for a user.
    pub(super) fn for_user(user: &str) -> BuiltinGroupVisibility {
        if AGGREGATORS.contains(&user) { BuiltinGroupVisibility::Alone } else { BuiltinGroupVisibility::Beside }
    }
}
