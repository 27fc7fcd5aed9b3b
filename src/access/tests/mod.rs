//! Tests of access, with a fake API server that returns what a test wants and records its requests.

mod admission;
mod attributes;
mod authentication_config;
mod caching;
pub(crate) mod certificates;
pub(crate) mod cluster;
mod leases;
mod permissions;
mod reviews;
mod self_signed;
mod tokens;
mod views;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::registry::upstream::{Upstream, UpstreamBody};

/// What the stand-in says to one request.
#[derive(Clone, Debug)]
pub(super) enum Says {
    Answer(u16, Value),
    Nothing(&'static str),
}

type Decides = dyn Fn(&str, &Value) -> Says + Send + Sync;

/// An API server with chosen responses; each takes a second of the paused clock.
pub(super) struct Reviewer {
    decide: Mutex<Arc<Decides>>,
    received: Mutex<Vec<(String, Value)>>,
    first: Mutex<VecDeque<Says>>,
    takes: Duration,
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reviewer")
    }
}

impl Reviewer {
    pub(super) fn new(decide: impl Fn(&str, &Value) -> Says + Send + Sync + 'static) -> Arc<Reviewer> {
        Reviewer::slow(decide, Duration::from_secs(1))
    }

    /// One whose answers take no time.
    pub(super) fn immediate(decide: impl Fn(&str, &Value) -> Says + Send + Sync + 'static) -> Arc<Reviewer> {
        Reviewer::slow(decide, Duration::ZERO)
    }

    fn slow(decide: impl Fn(&str, &Value) -> Says + Send + Sync + 'static, takes: Duration) -> Arc<Reviewer> {
        let decide: Mutex<Arc<Decides>> = Mutex::new(Arc::new(decide));
        Arc::new(Reviewer { decide, received: Mutex::default(), first: Mutex::default(), takes })
    }

    /// From now on says something else.
    pub(super) fn now(&self, decide: impl Fn(&str, &Value) -> Says + Send + Sync + 'static) {
        *self.decide.lock().unwrap() = Arc::new(decide);
    }

    /// Says these first.
    pub(super) fn first(&self, says: impl IntoIterator<Item = Says>) {
        self.first.lock().unwrap().extend(says);
    }

    /// The reviews that it has received, by the last part of the path.
    pub(super) fn received(&self) -> Vec<(String, Value)> {
        self.received.lock().unwrap().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

impl Upstream for Reviewer {
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let what = parts.uri.path().rsplit('/').next().unwrap().to_owned();
            let document: Value = serde_json::from_slice(&body).unwrap_or_default();
            self.received.lock().unwrap().push((what.clone(), document.clone()));
            if !self.takes.is_zero() {
                sleep(self.takes).await;
            }
            let first = self.first.lock().unwrap().pop_front();
            let decide = self.decide.lock().unwrap().clone();
            match first.unwrap_or_else(|| decide(&what, &document)) {
                Says::Nothing(why) => Err(why.to_owned()),
                Says::Answer(code, body) => {
                    let body =
                        Full::new(Bytes::from(format!("{body}\n"))).map_err(|never| match never {}).boxed_unsync();
                    let mut response = Response::new(body);
                    *response.status_mut() = StatusCode::from_u16(code).unwrap();
                    Ok(response)
                }
            }
        })
    }
}

/// A TokenReview that knows whose a token is.
pub(super) fn known(user: &str, audiences: &[&str]) -> Says {
    Says::Answer(
        201,
        json!({"kind": "TokenReview", "status": {
            "authenticated": true,
            "audiences": audiences,
            "user": {"username": user, "uid": "u-1", "groups": ["team"], "extra": {"scopes": ["a", "b"]}},
        }}),
    )
}

/// One that does not.
pub(super) fn unknown(error: &str) -> Says {
    Says::Answer(201, json!({"kind": "TokenReview", "status": {"error": error}}))
}

/// A SubjectAccessReview.
pub(super) fn allowed(allowed: bool) -> Says {
    Says::Answer(201, json!({"kind": "SubjectAccessReview", "status": {"allowed": allowed}}))
}
