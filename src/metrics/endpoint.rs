//! The HTTP endpoint `/metrics`: authorizes scrapers, collects all metrics and encodes them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use prometheus_client::collector::Collector;
use tokio::sync::Mutex;

use crate::access::authentication::Peer;
use crate::access::{AccessControl, AuthorizationScope, UnauthenticatedRequest};
use crate::audit::AuditCounters;
use crate::flow_control::Limits;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::limit::Limited;
use crate::flow_control::user::User;
use crate::registry::Registry as Resources;
use crate::request::{Query, RequestInfo};
use crate::server::guards::{self, Guard};
use crate::server::request_metrics::RequestMetrics;
use crate::transport::head_error::HeadError;
use crate::transport::listen::Answers;
use crate::wire::api_error::ApiError;
use crate::wire::body;
use crate::wire::body::{Body, Finish};
use crate::wire::negotiate::accepts_gzip;
use crate::wire::response::transport_error;

use super::build::BuildCollector;
use super::format::{ExpositionFormat, encode};
use super::{access, audit, limits, process, requests, stores};

/// Which scrapers are served.
#[derive(Clone, Debug)]
pub enum Scrapers {
    /// Every client of a local server. If there is a guard, it rejects requests of browsers.
    Anonymous(Option<Guard>),
    /// Authorized clients.
    Authorized {
        /// Authorizes the clients. Its counters are exported.
        access: Arc<AccessControl>,
        /// Counters of the audit log, if there is one.
        audit: Option<Arc<AuditCounters>>,
    },
}

/// Serves `/metrics`.
#[derive(Debug)]
pub struct Metrics {
    families: Arc<prometheus_client::registry::Registry>,
    scrapers: Scrapers,
    /// Locked while a response is created: further scrapers wait. One thread for all scrapers is enough to visit the
    /// stores.
    turn: Mutex<()>,
}

impl Metrics {
    /// Collects metrics of the stores of `resources`, of the server that counts into `requests` and `limits`, and of
    /// `others`. If scrapers are authorized, it adds those of authentication and authorization.
    pub fn new(
        resources: Arc<Resources>,
        requests: Arc<RequestMetrics>,
        limits: Arc<Limits>,
        scrapers: Scrapers,
        others: Vec<Box<dyn Collector>>,
    ) -> Metrics {
        let mut families = prometheus_client::registry::Registry::default();
        families.register_collector(Box::new(BuildCollector));
        families.register_collector(Box::new(requests::RequestsCollector::new(requests)));
        families.register_collector(Box::new(limits::LimitsCollector::new(limits, resources.clone())));
        families.register_collector(Box::new(stores::StoresCollector::new(resources)));
        if let Scrapers::Authorized { access, audit } = &scrapers {
            families.register_collector(Box::new(access::AccessCollector::new(access.counts().clone())));
            if let Some(counts) = audit {
                families.register_collector(Box::new(audit::AuditCollector::new(counts.clone())));
            }
        }
        for other in others {
            families.register_collector(other);
        }
        families.register_collector(Box::new(process::ProcessCollector));
        Metrics { families: Arc::new(families), scrapers, turn: Mutex::new(()) }
    }

    /// Encodes all metrics. It visits all stores, so it must not run on a thread that handles requests.
    pub fn text(&self, format: ExpositionFormat) -> String {
        encode(&self.families, format)
    }

    /// Responds to an authorized scrape with all metrics, in the format and encoding that these headers accept.
    async fn respond_to_scrape(&self, headers: &HeaderMap) -> Response<Body> {
        let format = ExpositionFormat::negotiate(headers);
        let _turn = self.turn.lock().await;
        let families = self.families.clone();
        let text = match tokio::task::spawn_blocking(move || encode(&families, format)).await {
            Ok(text) => text,
            Err(error) => {
                return plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("internal error: collecting metrics failed: {error}\n"),
                );
            }
        };
        let pieces = Box::new(std::iter::once(Bytes::from(text)));
        let (body, compressed) = body::finish(pieces, Finish { gzip: accepts_gzip(headers), ..Finish::default() });
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
        if compressed {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    /// Authorizes a request, whatever its path: callers that are not authorized do not learn which paths exist. The
    /// error is the response to a client that may not read metrics.
    async fn admit(&self, connection: &ConnectionState, parts: &Parts, info: &RequestInfo) -> Result<(), ApiError> {
        let access = match &self.scrapers {
            Scrapers::Anonymous(None) => return Ok(()),
            Scrapers::Anonymous(Some(guard)) => {
                let authority = guards::authority(&parts.uri, &parts.headers)?;
                return guard.check(authority, guards::is_tls(&parts.extensions), &parts.headers);
            }
            Scrapers::Authorized { access, .. } => access,
        };
        let known = OnceLock::new();
        let arrived = UnauthenticatedRequest {
            peer: parts.extensions.get::<Arc<Peer>>(),
            headers: &parts.headers,
            info,
            known: Some(&known),
            scope: AuthorizationScope::Request,
        };
        let admitted = Box::pin(access.authorize(&arrived)).await;
        // With valid credentials, the connection counts as authenticated even if the permission is missing.
        if let Some(identity) = known.get().filter(|identity| !identity.is_anonymous()) {
            let user = || User::named(&access.connection_user(arrived.peer, identity));
            connection.authenticate(user).map_err(ApiError::Limited)?;
        }
        admitted.map(|_| ()).map_err(ApiError::Access)
    }

    /// Responds to a request without a connection, for tests.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body> {
        self.answer_to(&ConnectionState::default(), request).await
    }

    /// Responds to a request of a connection. Ignores its body.
    pub async fn answer_to<B>(&self, connection: &ConnectionState, request: Request<B>) -> Response<Body> {
        let (parts, _) = request.into_parts();
        let info = RequestInfo::read(&parts.method, parts.uri.path(), Query::default());
        // The path of a request to a View is relative to the View, so it could be `/metrics` by chance.
        let path = if info.view.is_none() { &*info.path } else { "" };
        let mut response = match (self.admit(connection, &parts, &info).await.err(), path, &parts.method) {
            (Some(failure), _, _) => {
                let mut response = plain(failure.code(), failure.status());
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                if let Some(seconds) = failure.retry_after() {
                    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                }
                response
            }
            (None, "/metrics", &Method::GET | &Method::HEAD) => self.respond_to_scrape(&parts.headers).await,
            (None, "/metrics", _) => {
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n");
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                response
            }
            (None, _, _) => plain(StatusCode::NOT_FOUND, "only /metrics is served here\n"),
        };
        if let Some(length) = response.body().length() {
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        if parts.method == Method::HEAD { response.map(|_| Body::empty()) } else { response }
    }
}

impl Answers for Metrics {
    type Body = Body;

    async fn answer(&self, connection: &ConnectionState, request: Request<hyper::body::Incoming>) -> Response<Body> {
        self.answer_to(connection, request).await
    }

    async fn reject(&self, _: &ConnectionState, method: &Method, error: HeadError) -> Response<Body> {
        transport_error(error, method)
    }

    fn rejection(&self, limited: &Limited) -> (StatusCode, Vec<u8>) {
        ApiError::Limited(limited.clone()).code_and_status()
    }

    fn authenticates(&self) -> bool {
        matches!(self.scrapers, Scrapers::Authorized { .. })
    }

    fn drain(&self) {}
}

/// A plain text response.
fn plain(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
