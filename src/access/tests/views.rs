//! Requests through Views: a caller without permissions cannot tell a View from none.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tokio::time::{Duration, Instant, advance};

use super::admission::{access, peer};
use super::authentication_config::config_map;
use super::{Reviewer, Says, allowed, known};
use crate::access::attributes::{Attributes, PermissionNamespaces};
use crate::access::{
    AccessControl, AccessError, AuthorizationScope, AuthorizedRequest, UnauthenticatedRequest, ViewPermission,
    ViewScope,
};
use crate::request::{Query, RequestInfo};

/// `user` may use the View, `reader` may read everything else, `part` may list in one namespace, `nobody` has no
/// permissions.
fn cluster(what: &str, review: &Value) -> Says {
    if what == "tokenreviews" {
        return known(review["spec"]["token"].as_str().unwrap(), &["fieldcache.dev"]);
    }
    let spec = &review["spec"];
    let about = &spec["resourceAttributes"];
    let uses = about["verb"] == "use" && about["resource"] == "views" && about["name"] == "blue";
    allowed(match spec["user"].as_str().unwrap() {
        "user" => uses,
        "reader" => about["verb"] != "use",
        "part" => about["namespace"] == "a",
        "both" => about["namespace"] == "a" || about["namespace"] == "b",
        _ => false,
    })
}

const KINDS: [&str; 5] = ["missing", "use", "caller", "caller in namespaces", "caller in selected namespaces"];

async fn admit(access: &AccessControl, user: &str, path: &str, kind: &str) -> Result<AuthorizedRequest, AccessError> {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {user}")).unwrap());
    let using = Attributes::using("fieldcache.dev", "v1alpha1", "views", "blue");
    let some = || vec!["a".to_owned(), "b".to_owned()];
    let everywhere = |_: &str, _: &str| PermissionNamespaces::All;
    let within = |_: &str, _: &str| PermissionNamespaces::Each(some());
    let selected = |_: &str, _: &str| PermissionNamespaces::AllOrEach(some());
    let permitted_by = match kind {
        "use" => ViewPermission::Use,
        "caller" => ViewPermission::Caller(&everywhere),
        "caller in namespaces" => ViewPermission::Caller(&within),
        "caller in selected namespaces" => ViewPermission::Caller(&selected),
        _ => ViewPermission::Missing,
    };
    let peer = peer(&[]);
    let arrived = UnauthenticatedRequest {
        peer: Some(&peer),
        headers: &headers,
        info: &RequestInfo::read(&Method::GET, path, Query::default()),
        known: None,
        scope: AuthorizationScope::View(ViewScope { using: &using, permitted_by }),
    };
    access.authorize(&arrived).await
}

fn message(refused: Result<AuthorizedRequest, AccessError>) -> String {
    match refused {
        Err(AccessError::Forbidden(forbidden)) => forbidden.message(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn users_without_permission_get_the_same_rejection_from_every_view() {
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", ""));
    for path in ["/api/v1/pods", "/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/p", "/apis", "/openapi/v3"] {
        let (mut messages, mut took) = (BTreeSet::new(), BTreeSet::new());
        for kind in KINDS {
            // Nothing is cached for the next one.
            advance(Duration::from_secs(11)).await;
            let begun = Instant::now();
            messages.insert(message(admit(&access, "nobody", path, kind).await));
            took.insert(begun.elapsed());
        }
        assert_eq!((messages.len(), took.len()), (1, 1), "{path}: {messages:?} {took:?}");
    }
    let denied = message(admit(&access, "nobody", "/api/v1/pods", "missing").await);
    let expected = r#"pods is forbidden: User "nobody" cannot list resource "pods" in API group "" at the cluster scope: and cannot use the View "blue""#;
    assert_eq!(denied, expected);
}

#[tokio::test(start_paused = true)]
async fn only_ones_own_permissions_make_a_difference() {
    let reviewer = Reviewer::new(cluster);
    let access = Arc::new(access(&reviewer, &config_map("", "")));
    let unusable = r#"views.fieldcache.dev "blue" is forbidden: User "reader" cannot use resource "views" in API group "fieldcache.dev" at the cluster scope: the View is missing, or it is not served, or it needs this permission"#;
    let rows = [
        ("user", "missing", None, "a user of the View may know that it is missing"),
        ("user", "use", None, "a user of the View"),
        ("user", "caller", Some("cannot list resource \"pods\""), "whose own permissions count"),
        ("user", "caller in namespaces", Some("in the namespace \"a\""), "and one who may list its namespaces"),
        ("reader", "missing", Some(unusable), "a user who may read pods"),
        ("reader", "use", Some(unusable), "the same for a View that needs more"),
        ("reader", "caller", None, "whose own permissions suffice"),
        ("part", "caller in namespaces", Some("at the cluster scope: and cannot use"), "in one of two"),
        ("user", "caller in selected namespaces", Some("at the cluster scope"), "no namespace is named"),
        ("reader", "caller in selected namespaces", None, "all namespaces include those that are selected"),
        ("part", "caller in selected namespaces", Some("at the cluster scope: and cannot use"), "in one of two, too"),
        ("both", "caller in selected namespaces", None, "in each of those that are selected"),
    ];
    for (user, kind, expected, why) in rows {
        let answer = admit(&access, user, "/api/v1/pods", kind).await;
        match expected {
            None => assert!(answer.is_ok(), "{why}: {answer:?}"),
            Some(expected) => {
                let text = message(answer);
                assert!(text.contains(expected), "{why}: {text}");
            }
        }
    }
    reviewer.now(|what, review| match what {
        "tokenreviews" => cluster(what, review),
        _ => Says::Nothing("refused"),
    });
    for kind in KINDS {
        assert_eq!(
            admit(&access, "late", "/api/v1/pods", kind).await.unwrap_err(),
            AccessError::AuthorizerUnavailable,
            "{kind}"
        );
    }
}
