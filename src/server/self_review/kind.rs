//! The reviews that a caller makes of itself: their names, and where they are served.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::model::Gvr;
use crate::registry::Catalog;
use crate::request::{ResourcePath, Route};

/// The version in which all of them are served.
const VERSION: &str = "v1";

/// The version in which older API servers offer the name as well.
const BETA: &str = "v1beta1";

/// The kinds of these reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum SelfReviewKind {
    /// The identity of the caller.
    User,
    /// Whether a request is permitted.
    Access,
    /// What is permitted.
    Rules,
}

pub(super) const KINDS: [SelfReviewKind; 3] = [SelfReviewKind::User, SelfReviewKind::Access, SelfReviewKind::Rules];

/// The groups that hold them, in the order of kube-apiserver.
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

    /// The resource that metrics count requests for.
    pub(super) fn counted(self) -> &'static Gvr {
        static COUNTED: LazyLock<[Gvr; 3]> =
            LazyLock::new(|| KINDS.map(|kind| Gvr::new(kind.group(), VERSION, kind.plural())));
        match self {
            SelfReviewKind::User => &COUNTED[0],
            SelfReviewKind::Access => &COUNTED[1],
            SelfReviewKind::Rules => &COUNTED[2],
        }
    }

    pub(super) fn from_resource(group: &str, plural: &str) -> Option<SelfReviewKind> {
        KINDS.into_iter().find(|kind| kind.group() == group && kind.plural() == plural)
    }

    /// Whether the kind is served in a version.
    pub(super) fn is_served(self, catalog: &Catalog, version: &str) -> bool {
        versions(catalog, self.group()).contains(&version)
    }
}

/// The versions of a group, preferred one first.
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

/// The rows of a group, as APIResourceDiscovery of apidiscovery.k8s.io/v2.
pub(in crate::server) fn rows(group: &str) -> Vec<Value> {
    let row = |kind: &SelfReviewKind| {
        json!({
            "resource": kind.plural(),
            // Built-in kinds leave the group and version of their own group version out.
            "responseKind": { "group": "", "version": "", "kind": kind.name() },
            "scope": "Cluster",
            "singularResource": kind.singular(),
            "verbs": ["create"],
        })
    };
    KINDS.iter().filter(|kind| kind.group() == group).map(row).collect()
}

/// The kind and the path of a review in a View; `None` for other requests.
pub(in crate::server) fn reviewed_path<'t>(
    target: &'t Route,
    catalog: &Catalog,
) -> Option<(SelfReviewKind, &'t ResourcePath)> {
    let Route::Resource(address) = target else { return None };
    let kind = SelfReviewKind::from_resource(&address.gvr.group, &address.gvr.resource)?;
    kind.is_served(catalog, &address.gvr.version).then_some((kind, address))
}

/// Whether a route is one of reviews, whether or not the View serves them.
pub(in crate::server) fn is_self_review(route: &Route) -> bool {
    matches!(route, Route::Resource(address) if SelfReviewKind::from_resource(&address.gvr.group, &address.gvr.resource).is_some())
}
