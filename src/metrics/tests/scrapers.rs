//! The operator's metrics: which users may read them, and that they reveal only numbers of users, views and requests.

use std::sync::Arc;

use http::{Request, header};
use http_body_util::BodyExt;
use serde_json::json;

use super::super::Scrapers;
use super::super::format::ExpositionFormat;
use super::metrics_with;
use crate::access::tests::cluster::Cluster;
use crate::access::{AuthorizationScope, UnauthenticatedRequest};
use crate::audit::AuditCounters;
use crate::request::{Query, RequestInfo};

/// Of a cluster where prometheus may get /metrics, and all others nothing else.
fn cluster() -> Arc<Cluster> {
    Cluster::new(|spec| {
        let is_right = spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
        spec["user"] == "prometheus" && is_right
    })
}

/// Those of an operator with an audit log.
pub(super) fn known() -> Scrapers {
    Scrapers::Authorized { access: cluster().access(), audit: Some(Arc::new(AuditCounters::default())) }
}

#[tokio::test]
async fn the_operators_metrics_require_permission() {
    let (metrics, _, _) = metrics_with(known());
    for (who, method, path, code) in [
        (None, "GET", "/metrics", 401),
        (Some("wrong"), "GET", "/metrics", 401),
        (Some("mallory"), "GET", "/metrics", 403),
        (Some("prometheus"), "GET", "/metrics", 200),
        // A user who may get may not post, and learns of no other path.
        (Some("prometheus"), "POST", "/metrics", 403),
        (Some("prometheus"), "GET", "/", 403),
        (Some("prometheus"), "GET", "/metrics/", 403),
        (None, "GET", "/", 401),
    ] {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(who) = who {
            request = request.header(header::AUTHORIZATION, format!("Bearer {who}"));
        }
        let (parts, body) = metrics.answer(request.body(()).unwrap()).await.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        assert_eq!(parts.status.as_u16(), code, "{who:?} {method} {path}: {body}");
        assert_eq!(body.contains("fieldcache_"), code == 200, "{who:?} {method} {path}: {body}");
    }
}

#[tokio::test]
async fn what_was_decided_about_users_is_shown_without_them() {
    let scrapers = known();
    let Scrapers::Authorized { access, .. } = &scrapers else { panic!("an operator's") };
    let mut headers = http::HeaderMap::new();
    headers.insert(header::AUTHORIZATION, http::HeaderValue::from_static("Bearer secret-token"));
    let path = "/api/v1/namespaces/secret-namespace/pods";
    let arrived = UnauthenticatedRequest {
        peer: None,
        headers: &headers,
        info: &RequestInfo::read(&http::Method::GET, path, Query::default()),
        known: None,
        scope: AuthorizationScope::Request,
    };
    assert!(access.authorize(&arrived).await.is_err());
    let (metrics, _, _) = metrics_with(scrapers);
    let text = metrics.text(ExpositionFormat::Plain);
    for line in [
        "fieldcache_authentication_total{method=\"token\",result=\"success\"} 1",
        "fieldcache_authentication_total{method=\"certificate\",result=\"success\"} 0",
        "fieldcache_authorization_total{decision=\"denied\"} 1",
        "fieldcache_review_total{kind=\"TokenReview\",result=\"success\"} 1",
        "fieldcache_review_cache_request_total{kind=\"TokenReview\",status=\"miss\"} 1",
        "fieldcache_watch_revoked_total 0",
        "fieldcache_audit_event_total{result=\"written\"} 0",
        "fieldcache_audit_request_refused_total 0",
        "fieldcache_audit_write_failed_total 0",
        "fieldcache_audit_writable 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("secret-"), "{text}");
}
