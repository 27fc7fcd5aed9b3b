//! Requests through Views: a caller without permissions cannot tell a View from none.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tokio::time::{Duration, Instant, advance};

use super::admission::{access, peer};
use super::authentication_config::config_map;
use super::{Reviewer, Says, allowed, known};
use crate::access::attributes::{Attributes, PermissionNamespaces, ResourceAttributes};
use crate::access::authorization::{Authorizer, Decision};
use crate::access::namespace_permissions::{NamespacePermissions, NoPermittedNamespace};
use crate::access::{
    AccessControl, AccessError, AuthorizationScope, AuthorizedRequest, Identity, UnauthenticatedRequest,
    ViewPermission, ViewScope,
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
    let everywhere = |_: &Arc<Identity>, _: &Attributes, _: &ResourceAttributes| PermissionNamespaces::All;
    let within = |_: &Arc<Identity>, _: &Attributes, _: &ResourceAttributes| PermissionNamespaces::Each(some());
    let selected = |_: &Arc<Identity>, _: &Attributes, _: &ResourceAttributes| PermissionNamespaces::AllOrEach(some());
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

/// The candidates of every caller, with the review of those in the namespace `a`.
#[derive(Debug)]
struct Candidates {
    authorizer: Arc<Authorizer>,
    identity: Arc<Identity>,
    permission: Attributes,
    wholes: std::sync::Mutex<Vec<bool>>,
}

impl NamespacePermissions for Candidates {
    fn review(self: Arc<Self>, _with_whole: bool) -> BoxFuture<'static, Result<(), NoPermittedNamespace>> {
        Box::pin(async move {
            let mut attributes = self.permission.clone();
            attributes.resource.as_mut().unwrap().namespace = "a".to_owned();
            match self.authorizer.decide_uncached(&self.identity, &attributes).await {
                Decision::Allowed => Ok(()),
                Decision::Denied(_) => Err(NoPermittedNamespace::Nowhere),
                Decision::Unavailable(why) => Err(NoPermittedNamespace::Undecided(why)),
            }
        })
    }

    fn record_whole(&self, is_permitted: bool) {
        self.wholes.lock().unwrap().push(is_permitted);
    }
}

/// The result of a list through a View of the permitted namespaces: the message, or where it is permitted. Also what was
/// recorded of the permission in all namespaces.
async fn list_permitted(access: &AccessControl, user: &str, query: &str) -> (String, Vec<bool>) {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {user}")).unwrap());
    let using = Attributes::using("fieldcache.dev", "v1alpha1", "views", "blue");
    let made = std::sync::OnceLock::new();
    let namespaces = |identity: &Arc<Identity>, request: &Attributes, _: &ResourceAttributes| {
        let make = || {
            let (authorizer, identity) = (access.authorizer().clone(), identity.clone());
            let wholes = std::sync::Mutex::default();
            Arc::new(Candidates { authorizer, identity, permission: request.of_resource(), wholes })
        };
        PermissionNamespaces::AllOrSome(made.get_or_init(make).clone())
    };
    let peer = peer(&[]);
    let permitted_by = ViewPermission::Caller(&namespaces);
    let arrived = UnauthenticatedRequest {
        peer: Some(&peer),
        headers: &headers,
        info: &RequestInfo::read(&Method::GET, "/api/v1/pods", Query::parse(query)),
        known: None,
        scope: AuthorizationScope::View(ViewScope { using: &using, permitted_by }),
    };
    let answer = match access.authorize(&arrived).await {
        Ok(authorized) if authorized.is_of_some_namespaces() => "some".to_owned(),
        Ok(_) => "all".to_owned(),
        refused => message(refused),
    };
    let wholes = made.get().map(|candidates: &Arc<Candidates>| candidates.wholes.lock().unwrap().clone());
    (answer, wholes.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn one_namespace_is_enough_for_a_view_of_permitted_namespaces() {
    let reviewer = Reviewer::new(cluster);
    let access = access(&reviewer, &config_map("", ""));
    let cut = "labelSelector=app%3Dshop";
    for (user, query, expected, wholes) in [
        ("reader", "", "all", vec![true]),
        ("reader", cut, "all", vec![]),
        ("part", "", "some", vec![false]),
        ("part", cut, "some", vec![false]),
        ("both", "", "some", vec![false]),
    ] {
        assert_eq!(list_permitted(&access, user, query).await, (expected.to_owned(), wholes), "{user} {query}");
    }
    for user in ["nobody", "user"] {
        for query in ["", cut] {
            advance(Duration::from_secs(11)).await;
            let begun = Instant::now();
            let (refused, wholes) = list_permitted(&access, user, query).await;
            let took = begun.elapsed();
            assert_eq!(wholes, [false], "{user}");
            if user == "user" {
                assert!(refused.contains("cannot list resource \"pods\""), "{refused}");
                continue;
            }
            advance(Duration::from_secs(11)).await;
            let begun = Instant::now();
            let missing = message(admit(&access, user, "/api/v1/pods", "missing").await);
            assert_eq!((refused, took), (missing, begun.elapsed()), "as for a missing View: {query}");
        }
    }
    // Without a decision, nothing is permitted.
    reviewer.now(|what, review| match what {
        "tokenreviews" => cluster(what, review),
        _ => Says::Nothing("refused"),
    });
    advance(Duration::from_secs(11)).await;
    let (refused, wholes) = list_permitted(&access, "part", "").await;
    assert_eq!((&*refused, wholes), ("Err(AuthorizerUnavailable)", vec![]));
}
