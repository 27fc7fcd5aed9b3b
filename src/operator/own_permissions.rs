//! Permissions of this server that it does not need: a warning at startup.
//!
//! Rules of every ClusterRole with the label `fieldcache.dev/aggregate-to-reader: "true"` become permissions of the
//! ServiceAccount. An admission policy of manifests/ rejects rules that permit writes. This warning is for clusters
//! without the policy, for ClusterRoles that are older than it, and for permissions from elsewhere.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::sleep;

use crate::model::own_groups::{GROUP, VIEW_GROUP};

/// The namespace for which permissions are reviewed. manifests/ grant only reads in it, so a permission to write in it
/// comes from a grant for all namespaces or is excessive.
const NAMESPACE: &str = "kube-system";

/// The pause before the second attempt. It doubles with each attempt, up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// Verbs that only read. `use` and the like are permissions of their own.
const READING: [&str; 3] = ["get", "list", "watch"];

/// Most permissions that the warning names. It has the number of the others.
const MOST_SHOWN: usize = 10;

/// The permissions other than reads that manifests/ and Kubernetes' own roles grant to this server or to all users:
/// group, resource, verbs.
const NEEDED: [(&str, &str, &[&str]); 10] = [
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("authentication.k8s.io", "selfsubjectreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ("authorization.k8s.io", "selfsubjectaccessreviews", &["create"]),
    ("authorization.k8s.io", "selfsubjectrulesreviews", &["create"]),
    (GROUP, "selectableresources", &["create", "patch", "delete"]),
    (GROUP, "fieldcaches/status", &["patch"]),
    (GROUP, "views/status", &["patch"]),
    (GROUP, "selectableresources/status", &["patch"]),
    (VIEW_GROUP, "placementreviews", &["create"]),
];

/// Permissions of these rules that this server does not need, as `VERB RESOURCE.GROUP`; sorted.
pub fn excessive(rules: &[ResourceRule]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // A rule without groups or resources counts as one for all of them.
    let all = vec!["*".to_owned()];
    for rule in rules {
        let (groups, resources) = (rule.api_groups.as_ref().unwrap_or(&all), rule.resources.as_ref().unwrap_or(&all));
        for verb in rule.verbs.iter().filter(|verb| !READING.contains(&verb.as_str())) {
            for group in groups {
                for resource in resources {
                    let is_needed = NEEDED.iter().any(|(needed_group, needed, verbs)| {
                        needed_group == group && needed == resource && verbs.contains(&verb.as_str())
                    });
                    if !is_needed {
                        let dot = if group.is_empty() { "" } else { "." };
                        found.insert(format!("{verb} {resource}{dot}{group}"));
                    }
                }
            }
        }
    }
    found
}

/// The warning about excessive permissions, if there are any.
pub fn warning(rules: &[ResourceRule]) -> Option<String> {
    let found = excessive(rules);
    if found.is_empty() {
        return None;
    }
    let shown: Vec<&str> = found.iter().take(MOST_SHOWN).map(String::as_str).collect();
    let more = found.len() - shown.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!(
        "this server has more permissions than it needs: {}{more}; remove verbs other than get, list and watch from ClusterRoles with the label \
         fieldcache.dev/aggregate-to-reader, and apply manifests/reader-policy.yaml, which rejects such ClusterRoles",
        shown.join(", ")
    ))
}

/// Requests the permissions of this server from the API server, and logs [`warning`] if there is one. Retries until the
/// API server responds, and returns at once if it does not permit the review.
pub async fn check(client: Client) {
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client);
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(NAMESPACE.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let mut pause = FIRST_PAUSE;
    loop {
        match reviews.create(&PostParams::default(), &review).await {
            Ok(answer) => {
                let SubjectRulesReviewStatus { resource_rules, .. } = answer.status.unwrap_or_default();
                if let Some(warning) = warning(&resource_rules) {
                    tracing::warn!("{warning}");
                }
                return;
            }
            // An API server may never permit this review. Nothing depends on its result.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                tracing::info!(
                    code = status.code,
                    "cannot review the permissions of this server: fieldcache does not report permissions that it does not need"
                );
                return;
            }
            Err(error) => tracing::debug!(%error, "cannot review the permissions of this server, retrying"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}
