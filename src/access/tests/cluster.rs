//! An API server that answers TokenReviews and SubjectAccessReviews, for tests of modules that use [`AccessControl`].
//!
//! A token that begins with `agent` is that of a ServiceAccount, bound to the Pod of this name on the node `blue`.
//! Tests of this module itself use `Reviewer`, which counts and fails in more ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::access::{AccessControl, AccessSettings};
use crate::registry::upstream::{Upstream, UpstreamBody};

/// Knows tokens as their users' names, `wrong` excepted.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The permissions of users, by the spec of a SubjectAccessReview.
    may: fn(&Value) -> bool,
    /// Whether all permissions have been removed.
    pub(crate) is_closed: AtomicBool,
    /// Whether it does not answer any more.
    pub(crate) is_gone: AtomicBool,
    /// Whether no token is valid any more.
    pub(crate) is_revoked: AtomicBool,
}

impl Cluster {
    pub(crate) fn new(may: fn(&Value) -> bool) -> Arc<Cluster> {
        Arc::new(Cluster {
            may,
            is_closed: AtomicBool::default(),
            is_gone: AtomicBool::default(),
            is_revoked: AtomicBool::default(),
        })
    }

    /// A user of it.
    pub(crate) fn access(self: &Arc<Cluster>) -> Arc<AccessControl> {
        Arc::new(AccessControl::new(self.clone(), AccessSettings::default()).unwrap())
    }
}

impl Upstream for Cluster {
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.is_gone.load(Ordering::Relaxed) {
                return Err("connection refused by https://10.0.0.1:443".to_owned());
            }
            let is_token = request.uri().path().ends_with("tokenreviews");
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let spec = serde_json::from_slice::<Value>(&body).unwrap()["spec"].take();
            let (kind, status) = if is_token {
                let is_valid = |token: &&str| *token != "wrong" && !self.is_revoked.load(Ordering::Relaxed);
                let user = spec["token"].as_str().filter(is_valid);
                let (is_known, audiences) = (user.is_some(), &spec["audiences"]);
                let user = match user {
                    Some(user) if user.starts_with("agent") => agent(user),
                    user => json!({"username": user}),
                };
                let status = json!({"authenticated": is_known, "user": user, "audiences": audiences});
                ("TokenReview", status)
            } else {
                let may = (self.may)(&spec) && !self.is_closed.load(Ordering::Relaxed);
                ("SubjectAccessReview", json!({"allowed": may}))
            };
            let answer = json!({"kind": kind, "status": status}).to_string();
            Ok(Response::new(Full::new(Bytes::from(answer)).map_err(|never| match never {}).boxed_unsync()))
        })
    }
}

/// A ServiceAccount of the namespace `a`, with what a token says that is bound to a Pod.
fn agent(pod: &str) -> Value {
    let extra = [("node-name", "blue"), ("pod-name", pod), ("pod-uid", "uid-1")];
    let extra = extra.map(|(key, value)| (format!("authentication.kubernetes.io/{key}"), json!([value])));
    json!({"username": "system:serviceaccount:a:agent", "extra": serde_json::Map::from_iter(extra)})
}
