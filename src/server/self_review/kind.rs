//! The kinds of reviews about the caller itself: their names, and the versions in which Views serve them.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::model::Gvr;
use crate::registry::Catalog;
use crate::request::{ResourcePath, Route};

/// The version in which all kinds are served.
const VERSION: &str = "v1";

/// The version in which older API servers serve SelfSubjectReview too.
const BETA: &str = "v1beta1";

/// The kinds of reviews about the caller itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum SelfReviewKind {
    /// SelfSubjectReview: the identity of the caller.
    User,
    /// SelfSubjectAccessReview: whether a request is permitted.
    Access,
    /// SelfSubjectRulesReview: which requests are permitted.
    Rules,
}

pub(super) const KINDS: [SelfReviewKind; 3] = [SelfReviewKind::User, SelfReviewKind::Access, SelfReviewKind::Rules];

/// The API groups of these kinds, in the order of kube-apiserver.
pub(in crate::server) const GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

impl SelfReviewKind {
    pub(super) fn group(self) -> &'static str {
        match self {
            SelfReviewKind::User => GROUPS[0],
            SelfReviewKind::Access | SelfReviewKind::Rules => GROUPS[1],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            SelfReviewKind::User => "SelfSubjectReview",
            SelfReviewKind::Access => "SelfSubjectAccessReview",
            SelfReviewKind::Rules => "SelfSubjectRulesReview",
        }
    }

    pub(super) fn singular(self) -> &'static str {
        match self {
            SelfReviewKind::User => "selfsubjectreview",
            SelfReviewKind::Access => "selfsubjectaccessreview",
            SelfReviewKind::Rules => "selfsubjectrulesreview",
        }
    }

    pub(super) fn plural(self) -> &'static str {
        match self {
            SelfReviewKind::User => "selfsubjectreviews",
            SelfReviewKind::Access => "selfsubjectaccessreviews",
            SelfReviewKind::Rules => "selfsubjectrulesreviews",
        }
    }

    /// The resource under which metrics count reviews of this kind, in all versions.
    pub(super) fn metrics_gvr(self) -> &'static Gvr {
        static COUNTED: LazyLock<[Gvr; 3]> =
            LazyLock::new(|| KINDS.map(|kind| Gvr::new(kind.group(), VERSION, kind.plural())));
        match self {
            SelfReviewKind::User => &COUNTED[0],
            SelfReviewKind::Access => &COUNTED[1],
            SelfReviewKind::Rules => &COUNTED[2],
        }
    }

    /// The kind of the resource with this group and plural name; `None` for all other resources.
    pub(super) fn from_resource(group: &str, plural: &str) -> Option<SelfReviewKind> {
        KINDS.into_iter().find(|kind| kind.group() == group && kind.plural() == plural)
    }

    /// Whether Views with this catalog serve the kind in a version.
    pub(super) fn is_served(self, catalog: &Catalog, version: &str) -> bool {
        versions(catalog, self.group()).contains(&version)
    }
}

/// The versions in which Views serve the reviews of a group, the preferred one first. authentication.k8s.io has v1beta1
/// too, if the cluster offers SelfSubjectReview in it.
pub(in crate::server) fn versions(catalog: &Catalog, group: &str) -> Vec<&'static str> {
    let has_beta = || {
        let offered = catalog.offers.version(group, BETA);
        offered.is_some_and(|version| {
            version.resources.iter().any(|found| SelfReviewKind::from_resource(group, &found.name).is_some())
        })
    };
    let beta = (SelfReviewKind::User.group() == group && has_beta()).then_some(BETA);
    std::iter::once(VERSION).chain(beta).collect()
}

/// The rows of the reviews of a group, as APIResourceDiscovery of apidiscovery.k8s.io/v2.
pub(in crate::server) fn rows(group: &str) -> Vec<Value> {
    let row = |kind: &SelfReviewKind| {
        json!({
            "resource": kind.plural(),
            // Built-in kinds leave group and version empty if they are those of the resource.
            "responseKind": { "group": "", "version": "", "kind": kind.name() },
            "scope": "Cluster",
            "singularResource": kind.singular(),
            "verbs": ["create"],
        })
    };
    KINDS.iter().filter(|kind| kind.group() == group).map(row).collect()
}

/// The kind and the path of a request for a review; `None` for other requests, and in a version that is not served.
pub(in crate::server) fn reviewed_path<'t>(
    target: &'t Route,
    catalog: &Catalog,
) -> Option<(SelfReviewKind, &'t ResourcePath)> {
    let Route::Resource(address) = target else { return None };
    let kind = SelfReviewKind::from_resource(&address.gvr.group, &address.gvr.resource)?;
    kind.is_served(catalog, &address.gvr.version).then_some((kind, address))
}

/// Whether a route is that of a review about the caller itself, in any version.
pub(in crate::server) fn is_self_review(route: &Route) -> bool {
    matches!(route, Route::Resource(address) if SelfReviewKind::from_resource(&address.gvr.group, &address.gvr.resource).is_some())
}
