//! Answers Kubernetes API requests over HTTP: discovery, get, list, watch, health, version.
//!
//! Reads the [`Registry`]. Knows neither the source nor a Kubernetes client. Requests that it does not answer itself, all writes among them,
//! are rejected, or forwarded to the API server if `--pass-through` permits it.
//!
//! | Step | Files |
//! |---|---|
//! | transport | [`listen`] accepts sockets, [`tls`] encrypts them, `heads` reads heads of requests before hyper does; [`connection`] decides when a connection ends; [`probes`] is the port for health checks; [`write_timeout`] and [`stream_timeout`] end connections and streams whose client stopped reading |
//! | limits | [`limits`]; [`guards`] keeps browsers out of a local server |
//! | reading a request | [`crate::request`] reads path and query, `methods` the method, [`params`] the options, [`negotiate`] the headers |
//! | authentication and authorization | `authorize`, through [`crate::access`] |
//! | handlers | [`list`], [`get`] and [`watch`], with [`read`] for what they share; [`discovery`] with `discovery_rows` and `builtin_group`; [`health`]; [`placement_review`] and [`self_review`], whose bodies [`sent`] reads and [`shape`] describes |
//! | forwarding | [`pass_through`] decides, [`forward`] sends, with `drain_on_drop` and `read_your_writes` |
//! | responses | [`encode`], [`indent`], [`body`], [`gzip`], [`yaml`], [`table`] and [`column`] make the bytes, `response` the heads; [`api_error`] is the only place that chooses status codes; `warnings` adds Warning headers |
//! | accounting | [`request_metrics`] counts, `audit_context` records audit events, `explain` reports how a selection was planned, `disclosure` decides what may be reported about objects that the caller cannot see |
//!
//! [`view_request`] is a View: its own catalog behind a path prefix.
//!
//! The order of decisions is kube-apiserver's: guards, the timeout parameter, authentication and authorization (none in `serve`), path, method,
//! media type, options, storage.

pub mod api_error;
mod audit_context;
mod authorize;
pub mod body;
mod builtin_group;
pub mod column;
pub mod connection;
pub mod consistency;
mod disclosure;
pub mod discovery;
mod discovery_rows;
pub mod documents;
mod drain_on_drop;
pub mod encode;
mod explain;
pub mod forward;
pub mod get;
mod go_zero_values;
pub mod guards;
pub mod gzip;
mod heads;
pub mod health;
pub mod heartbeat;
pub mod indent;
pub mod limits;
pub mod list;
pub mod listen;
mod methods;
pub mod negotiate;
mod no_response;
mod pace;
pub mod params;
pub mod pass_through;
pub mod placement_review;
pub mod probes;
mod protobuf;
pub mod read;
mod read_your_writes;
mod request_log;
pub mod request_metrics;
mod response;
mod row;
mod self_review;
mod sent;
mod settings;
mod shape;
mod shared_columns;
mod stream_timeout;
pub mod table;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod view_request;
mod warnings;
pub mod watch;
pub mod write_timeout;
pub mod yaml;

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{CACHE_CONTROL, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use serde_json::Value;
use tokio::sync::watch as state;
use tokio::time::Instant;

use crate::access::Admitted;
use crate::access::attributes::Attributes;
use crate::access::authentication::{Peer, Recognized};
use crate::access::authorization::Decision;
use crate::fair_semaphore::FairSemaphore;
use crate::model::shares::Shares;
use crate::registry::documents::{self as kept_documents, DocumentSource};
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::registry::{Catalog, LoadState, Registry, Where};
use crate::request::query::MOST_PARAMETERS;
use crate::request::{Query, RequestInfo, ResourcePath, Route};

use api_error::ApiError;
use audit_context::{AuditContext, Auditing};
use body::Body;
use builtin_group::BuiltinGroupVisibility;
use connection::ConnectionState;
use documents::Needed;
use heads::slots::LongQuery;
use limits::exempt::is_exempt;
use limits::seats::Worker;
use limits::{Head, Limited, Limits, User, header_bytes};
use methods::refuse_method;
use negotiate::Format;
use no_response::NoResponse;
use pass_through::PassThrough;
use placement_review::Reviews;
use request_log::RequestLog;
use response::{chunked, completed, document, failed, length_as, mark_gzip, media_type, streamed, with_type};

use request_metrics::{RequestMetrics, RequestRecord};
pub use settings::{Clock, Settings};
use shared_columns::SharedColumns;
use view_request::ViewRequest;

/// Longest time that a request which is no watch may take: kube-apiserver's `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a request for an unknown group waits until the source's discovery has been read again.
const REDISCOVERY: Duration = Duration::from_secs(3);

/// Events of the audit log that are written at a time. Users take turns, so that one who sends many requests delays the others by no more
/// than these.
const EVENTS_AT_ONCE: u64 = 32;

/// So many of them are for users of whom no event is being written.
const FIRST_EVENTS: u64 = 8;

/// How often a request is repeated because its resource was replaced meanwhile. Catalogs change when definitions do; three times within one
/// request only happens in a loop.
const MOST_ATTEMPTS: usize = 3;

/// Answers requests from a [`Registry`].
pub struct Server {
    registry: Arc<Registry>,
    settings: Settings,
    /// True once the process is ending: watches end, and `/readyz` fails.
    draining: state::Sender<bool>,
    /// Number of responses; see [`Server::audit_id`].
    answers: AtomicU64,
    audit_ids: RandomState,
    tally: Arc<RequestMetrics>,
    limits: Arc<Limits>,
    /// Permits of forwarded requests.
    forwarding: Arc<Shares<User>>,
    /// Permits of requests whose documents are being made or encoded.
    making_documents: Arc<FairSemaphore<User>>,
    /// Permits of events that are being written into the audit log.
    writing_events: Arc<FairSemaphore<User>>,
    /// Columns of the tables that are being written.
    columns: SharedColumns,
    reviews: Reviews,
}

/// A request, with everything that handlers need to know about it.
struct RequestContext<'a> {
    info: &'a RequestInfo,
    headers: &'a HeaderMap,
    authority: &'a str,
    /// Whether the query is too long for a forwarded request.
    is_long: bool,
    /// How long the request may still take, unless it is a watch.
    timeout: Duration,
    /// The View through which the request came.
    through: Option<ViewRequest>,
    /// What metrics and the audit log record about it.
    noted: &'a RequestRecord,
    /// The authenticated user; `None` without authentication.
    admitted: Option<Admitted>,
    /// The user or address whose limits apply.
    user: &'a User,
    limits: &'a Limits,
}

impl Server {
    /// A server of this registry.
    pub fn new(registry: Arc<Registry>, settings: Settings) -> Server {
        Server {
            reviews: Reviews::new(registry.memory().clone()),
            registry,
            limits: Arc::new(Limits::new(settings.limits)),
            settings,
            draining: state::Sender::new(false),
            answers: AtomicU64::new(0),
            audit_ids: RandomState::new(),
            tally: Arc::default(),
            forwarding: Arc::new(Shares::new(forward::MOST_AT_ONCE, forward::FIRST)),
            making_documents: Arc::new(FairSemaphore::of_places(documents::MOST_AT_ONCE, 0)),
            writing_events: Arc::new(FairSemaphore::of_places(EVENTS_AT_ONCE, FIRST_EVENTS)),
            columns: SharedColumns::default(),
        }
    }

    /// Metrics of requests.
    pub fn tally(&self) -> &Arc<RequestMetrics> {
        &self.tally
    }

    /// The limits, and how far they are used.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Ends all watches cleanly and makes `/readyz` fail. Requests are still answered.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Answers one request that came over no connection.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.answer_to(&ConnectionState::default(), request).await
    }

    /// Answers one request of a connection. Never fails and never panics: an internal error is a 500 of this request alone, or ends its
    /// response early.
    pub async fn answer_to<B>(&self, connection: &ConnectionState, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (begun, noted) = (Instant::now(), RequestRecord::default());
        let (mut parts, body) = request.into_parts();
        let log = RequestLog::begin(&parts, begun);
        // Only an API server that a request is forwarded to reads a body, and reviews, which are created.
        let is_read = self.upstream().is_some() || parts.method == Method::POST;
        let body = is_read.then(|| body.map_err(Into::into).boxed_unsync());
        let answered = AssertUnwindSafe(self.guarded(&mut parts, body, &noted, connection)).catch_unwind().await;
        let mut response = answered.unwrap_or_else(|_| {
            tracing::error!(path = parts.uri.path(), "request panicked");
            failed(&self.defect(), Format::Json, false)
        });
        if let Some(audited) = noted.audited() {
            let turns = (&self.writing_events, noted.user().unwrap_or(connection.user()));
            let answered = audited.answered(response.status().as_u16(), response.body().is_stream(), turns);
            if let Err(failure) = answered.await {
                response = failed(&failure, Format::Json, false);
            }
        }
        response.body_mut().count_panics(self.registry.panics());
        let headers = response.headers_mut();
        // An answer that was handed on has the id under which it is found in the API server's log.
        if !headers.contains_key("audit-id") {
            let told = noted.audited().and_then(|audited| HeaderValue::from_str(audited.audit_id()).ok());
            headers.insert(HeaderName::from_static("audit-id"), told.unwrap_or_else(|| self.audit_id(&parts.headers)));
        }
        if !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        }
        let audited = noted.audited().map_or(0, AuditContext::held_bytes);
        let mut response = completed(self.limits.unread(), connection, &parts.method, audited, response);
        noted.answered(&self.tally, (&parts.method, begun), log, &mut response);
        response
    }

    /// The API server to which requests are forwarded; `None` if none are.
    fn upstream(&self) -> Option<&dyn Upstream> {
        self.settings.upstream.as_deref().filter(|_| self.settings.pass_through != PassThrough::Off)
    }

    /// Which requests are forwarded; [`PassThrough::Off`] without an API server.
    fn passes(&self) -> PassThrough {
        if self.upstream().is_some() { self.settings.pass_through } else { PassThrough::Off }
    }

    /// An internal error ended a request.
    fn defect(&self) -> ApiError {
        self.registry.panics().count(Where::Request);
        ApiError::Internal("this request met a defect; the log says more".to_owned())
    }

    async fn guarded(
        &self,
        parts: &mut http::request::Parts,
        body: Option<UpstreamBody>,
        noted: &RequestRecord,
        connection: &ConnectionState,
    ) -> Response<Body> {
        let peer = parts.extensions.get::<Arc<Peer>>().cloned();
        let recognized = self.settings.access.as_ref().map(|access| access.recognize(peer.as_ref(), &parts.headers));
        let user = recognized.as_ref().and_then(Recognized::user).map(|identity| User::named(&identity.user));
        // Before reading anything whose length the client chooses. Limits are per address only until a review has identified the user: many users
        // can share one address.
        let entered = self.enter(user.as_ref().unwrap_or(connection.user()), user.as_ref(), parts);
        let (mut head, mut worker) = match entered.await {
            Ok(entered) => entered,
            Err(limited) => return failed(&ApiError::Limited(limited), Format::Json, false),
        };
        let text = heads::slots::query(parts);
        if Query::is_too_long(text) {
            let message = format!("the query has more than {MOST_PARAMETERS} parameters: send fewer");
            return failed(&ApiError::BadRequest(message), Format::Json, false);
        }
        let query_length = text.len();
        let read = || RequestInfo::read(&parts.method, parts.uri.path(), Query::parse(text));
        let info = match &mut worker {
            Some(worker) => worker.work(read),
            None => read(),
        };
        // Permissions for a View are about the request inside of it. Only authenticated callers learn whether the View exists.
        let through = info.view.as_ref().map(|path| ViewRequest::find(path, &self.registry));
        let audit = Auditing { server: self, noted, info: &info };
        match &mut worker {
            Some(worker) => worker.work(|| audit.begin(parts, through.as_ref(), None)),
            None => audit.begin(parts, through.as_ref(), None),
        }
        let unaudited = OnceLock::new();
        let mut admitted = match self.settings.access.as_ref().zip(recognized) {
            None => Ok(None),
            Some((access, recognized)) => {
                let known = noted.audited().map_or(&unaudited, AuditContext::known);
                let admission =
                    Box::pin(authorize::admit(access, parts, &info, through.as_ref(), (recognized, Some(known))));
                let admitted = match &mut worker {
                    Some(worker) => worker.work_through(admission).await,
                    None => admission.await,
                };
                // Also if the request is not allowed: the client has shown valid credentials.
                let placed = match known.get().filter(|identity| !identity.is_anonymous()) {
                    Some(identity) => {
                        connection.authenticate(|| User::named(&access.connection_user(peer.as_ref(), identity)))
                    }
                    None => Ok(()),
                };
                placed.map_err(ApiError::Limited).and(admitted)
            }
        };
        if admitted.is_err() {
            audit.begin(parts, through.as_ref(), Some(unaudited.get().cloned()));
        }
        if let Some(audited) = noted.audited()
            && let Err(untold) = audited.decided(&admitted)
        {
            admitted = Err(untold);
        }
        if let Some(head) = &mut head {
            head.admitted();
        }
        let (through, missing) = match through.transpose() {
            Ok(through) => (through, None),
            Err(missing) => (None, Some(missing)),
        };
        // Limits are per authenticated user, across connections.
        let named = match &admitted {
            Ok(Some(admitted)) => Some(user.unwrap_or_else(|| User::named(&admitted.identity.user))),
            Ok(None) | Err(_) => None,
        };
        let (authority, admitted) = match guards::authority(&parts.uri, &parts.headers) {
            Ok(authority) => (authority, admitted),
            Err(failure) => ("", Err(failure)),
        };
        let mut context = RequestContext {
            info: &info,
            headers: &parts.headers,
            authority,
            is_long: parts.extensions.get::<LongQuery>().is_some(),
            timeout: REQUEST_TIMEOUT,
            through,
            noted,
            admitted: None,
            user: named.as_ref().unwrap_or(connection.user()),
            limits: &self.limits,
        };
        noted.asked_by(context.user);
        match admitted {
            Ok(admitted) => context.admitted = admitted,
            Err(failure) => return context.failed(&failure),
        }
        if let Some(missing) = missing {
            return context.failed(&self.unless_incomplete(missing));
        }
        if let Some(through) = &mut context.through {
            let catalog = self.registry.catalog();
            // It reads the caller's own Pod, which the caller can make long.
            let meeting = Box::pin(through.meet(context.admitted.as_ref(), &catalog));
            let met = match &mut worker {
                Some(worker) => worker.work_through(meeting).await,
                None => meeting.await,
            };
            if let Err(failure) = met {
                return context.failed(&context.reduced(failure));
            }
        }
        // Now for the user, if authentication has identified one; else still for the address.
        let user = context.user;
        let is_exempt = is_exempt(&info.path, query_length, named.as_ref());
        let arrived = match worker.filter(|worker| worker.user() == user || is_exempt) {
            Some(worker) => Ok((!is_exempt).then_some(worker)),
            None => self.arrive(user, is_exempt).await.map_err(ApiError::Limited),
        };
        let answered = match arrived {
            Ok(worker) => {
                // Pinned once for both branches, because the future is large.
                let dispatched = std::pin::pin!(self.dispatch(&mut context, &parts.uri, body));
                match worker {
                    Some(mut worker) => worker.work_through(dispatched).await,
                    None => dispatched.await,
                }
            }
            Err(limited) => Err(limited),
        };
        let audited = noted.audited().map_or(0, AuditContext::held_bytes);
        match answered.and_then(|response| self.admit_response(user, audited, response)) {
            Ok(response) => response,
            Err(failure) => context.failed(&self.unless_incomplete(failure)),
        }
    }

    /// Counts the head of a request until it is authorized, and waits for its first turn. `known`: the user, if no review is needed to identify
    /// it.
    async fn enter(
        &self,
        user: &User,
        known: Option<&User>,
        parts: &http::request::Parts,
    ) -> Result<(Option<Head>, Option<Worker>), Limited> {
        let uri = &parts.uri;
        let length = uri.path().len() + heads::slots::query(parts).len();
        let admit = || self.limits.admit_head(user, length, header_bytes(&parts.headers));
        let head = self.settings.access.is_some().then(admit).transpose()?;
        let worker = self.arrive(user, is_exempt(uri.path(), heads::slots::query(parts).len(), known)).await;
        Ok((head, worker.inspect_err(|limited| self.limits.count(limited.limit))?))
    }

    /// Waits for the first turn of a request; `None`: it is exempt from turns.
    async fn arrive(&self, user: &User, is_exempt: bool) -> Result<Option<Worker>, Limited> {
        if is_exempt {
            return Ok(None);
        }
        let mut worker = self.limits.seats().worker(user);
        worker.arrive().await.map(|()| Some(worker))
    }

    /// Bounds what a response holds while its client does not read it, and shares the work of making it. `audit_context`: what its event takes,
    /// in bytes.
    fn admit_response(
        &self,
        user: &User,
        audited: usize,
        mut response: Response<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let (body, unread) = (response.body_mut(), self.limits.unread());
        let held = body.may_hold().map(|bytes| bytes + audited as u64);
        let share = held.map(|bytes| unread.admit(user, bytes)).transpose().map_err(ApiError::Limited)?;
        if share.is_some() || body.is_stream() {
            body.count_unread(unread.meter(user, body.is_stream(), share));
        }
        body.take_turns(|| self.limits.seats().worker(user));
        Ok(response)
    }

    /// The error to return: while the set of served resources is not complete, a missing one is reported as loading.
    fn unless_incomplete(&self, failure: ApiError) -> ApiError {
        let is_missing = match &failure {
            ApiError::PageNotFound | ApiError::UnknownResource => true,
            ApiError::NotFound { gvr, .. } => *gvr == view_request::views(),
            _ => false,
        };
        match &self.settings.is_complete {
            Some(is_complete) if is_missing && !is_complete() => {
                ApiError::Loading("it is not known yet what is to be served".to_owned())
            }
            _ => failure,
        }
    }

    async fn dispatch(
        &self,
        context: &mut RequestContext<'_>,
        uri: &Uri,
        body: Option<UpstreamBody>,
    ) -> Result<Response<Body>, ApiError> {
        if let Some(guard) = &self.settings.guard {
            guard.check(context.authority, context.headers)?;
        }
        // A review stores nothing, and `kubectl create --raw` sends no media type.
        let info = context.info;
        let route = info.route();
        let is_review = match context.through {
            Some(_) => self_review::is_one(route),
            None => placement_review::is_asked(route).is_some(),
        };
        if !(is_review && info.method == Method::POST) {
            guards::check_body(&info.method, context.headers)?;
        }
        context.timeout = params::timeout(&info.query, REQUEST_TIMEOUT)?;
        if let Some(address) = placement_review::is_asked(route).filter(|_| context.through.is_none()) {
            return Box::pin(placement_review::answer(self, context, address, body)).await;
        }
        if context.through.is_some()
            && let Some(review) = self_review::is_asked(route, &self.catalog(context))
        {
            return Box::pin(self_review::answer(self, context, review, body)).await;
        }
        if is_websocket_watch(context) {
            tracing::debug!("a watch by WebSocket was asked for, which is not supported: an empty response is sent");
            return Ok(with_type(Response::new(Body::empty()), media_type(Format::Json)));
        }
        // Nothing is forwarded from a View.
        if let Some((upstream, body)) = self.upstream().zip(body).filter(|_| context.through.is_none()) {
            pass_through::check_impersonation(context.headers)?;
            let catalog = self.registry.catalog();
            if self.passes().takes(context, &catalog)? {
                let forwarded = Box::pin(forward::answer(self, upstream, context, uri, body)).await?;
                let is_new = is_read_of_discovery(context) && forwarded.status().is_success();
                if !is_new {
                    return Ok(forwarded);
                }
                // The source serves a group or version that `/apis` does not list here yet. A client that waits for it expects to
                // find it there next: kube-apiserver never serves one before it lists it.
                drop(forwarded);
                self.registry.rediscovery().request(context.timeout.min(REDISCOVERY)).await;
                return self.around(context);
            }
        }
        let address = match route {
            Route::Resource(address) => address,
            Route::OpenApi => return self.documents(context, uri.query()).await,
            Route::Health { endpoint, check: None } if !self.shows_checks(context, endpoint).await => {
                return Ok(health::plain(endpoint, self.is_well(endpoint)));
            }
            _ => return self.around(context),
        };
        // All attempts together may take as long as one.
        let begun = Instant::now();
        let most = context.timeout.min(self.settings.patience);
        for _ in 0..MOST_ATTEMPTS {
            context.timeout = most.saturating_sub(begun.elapsed());
            let unanswered = match self.resource(context, address).await {
                Ok(response) => return Ok(response),
                Err(NoResponse::Retry) => continue,
                Err(unanswered) => unanswered,
            };
            let upstream = match &unanswered {
                _ if context.through.is_some() => None,
                // A caller that may not list the whole resource may still see a part of it, which has no store.
                NoResponse::Error(ApiError::Forbidden(_)) if context.is_read() && self.is_refused(address) => {
                    self.upstream()
                }
                NoResponse::Forward => self.upstream(),
                NoResponse::Error(_) | NoResponse::Retry => None,
            };
            let Some(upstream) = upstream else { return Err(unanswered.into_error()) };
            context.timeout = most.saturating_sub(begun.elapsed());
            let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            return Box::pin(forward::answer(self, upstream, context, uri, body)).await;
        }
        Err(NoResponse::Retry.into_error())
    }

    /// Whether the source rejects lists of the whole resource.
    fn is_refused(&self, address: &ResourcePath) -> bool {
        let catalog = self.registry.catalog();
        let state = catalog.resource(&address.gvr).map(|resource| resource.live.state());
        matches!(state, Some(LoadState::Refused { code: 403, .. }))
    }

    /// The catalog that a request sees: the whole one, or that of its View.
    fn catalog(&self, context: &RequestContext<'_>) -> Arc<Catalog> {
        let whole = self.registry.catalog();
        match &context.through {
            Some(through) => through.catalog(&whole),
            None => whole,
        }
    }

    /// The documents that a request below `/openapi` is shown.
    ///
    /// That of our own group is in no index but the aggregator's. kubectl looks whether what it creates can be validated by the
    /// server, by the PATCH of its kind; of a group with a document that has none it goes on to ask for definitions, which it may not
    /// list or are not served, and gives up (cli-runtime `pkg/resource/query_param_verifier_v3.go`). Of a group without one it
    /// validates itself. The aggregator sends people here for what its index names, and as themselves.
    fn document_source(&self, context: &RequestContext<'_>, path: &str) -> Option<Arc<dyn DocumentSource>> {
        match context.own_group() {
            BuiltinGroupVisibility::Alone => Some(builtin_group::documents().clone()),
            BuiltinGroupVisibility::Beside if path.strip_prefix("/v3/") == Some(builtin_group::KEY) => {
                Some(builtin_group::documents().clone())
            }
            BuiltinGroupVisibility::Hidden | BuiltinGroupVisibility::WithoutViews | BuiltinGroupVisibility::Beside => {
                self.catalog(context).documents.clone()
            }
        }
    }

    /// `/openapi/...`. Building documents takes long enough to be kept off the threads that answer requests.
    async fn documents(&self, context: &RequestContext<'_>, query: Option<&str>) -> Result<Response<Body>, ApiError> {
        let path = context.info.path.trim_start_matches('/').strip_prefix("openapi").unwrap_or_default();
        let source = self.document_source(context, path).ok_or(ApiError::PageNotFound)?;
        let needed = async || {
            tokio::time::timeout(context.timeout, Needed::by(path, &*source))
                .await
                .unwrap_or_else(|_| Err("the source did not answer in time".to_owned()))
                .map_err(ApiError::Unavailable)
        };
        let (method, headers, now) = (context.info.method.clone(), context.headers.clone(), (self.settings.clock)());
        let (document, query) = (path.to_owned(), query.map(str::to_owned));
        let prefix = context.through.as_ref().map(|through| through.prefix.clone()).unwrap_or_default();
        let answer = move |needed: &Needed, is_made_only: bool| {
            let request = documents::Request {
                method: &method,
                prefix: &prefix,
                path: &document,
                query: query.as_deref(),
                headers: &headers,
                now,
            };
            (!is_made_only || documents::is_made(&request, needed)).then(|| documents::answer(&request, needed))
        };
        // A document that exists is sent at once, whatever others are waiting for.
        if let Some(response) = answer(&needed().await?, true) {
            return Ok(response.map(Body::whole));
        }
        // Making a document takes many times its memory, for a large one hundreds of megabytes.
        let making = tokio::time::timeout(context.timeout, self.making_documents.place(context.user)).await;
        let Ok(Some(making)) = making else {
            return Err(ApiError::Unavailable(
                "documents for other requests are being made: try again later".to_owned(),
            ));
        };
        // Only now: a waiting request would hold documents that were released meanwhile.
        let needed = needed().await?;
        let answered = tokio::task::spawn_blocking(move || {
            let (_making, begun) = (making, Instant::now());
            let response = answer(&needed, false);
            kept_documents::let_go_of_the_oldest();
            (response, begun.elapsed())
        });
        let (response, took) = answered.await.map_err(|error| {
            tracing::error!(%error, "documents panicked");
            self.defect()
        })?;
        // The user pays for this work, although another thread did it.
        self.limits.seats().turn_of(context.user).await.work_and_settle(took, || ());
        response.map(|response| response.map(Body::whole)).ok_or_else(|| self.defect())
    }

    /// Whether the caller may see the names of health checks; see [`health`].
    async fn shows_checks(&self, context: &RequestContext<'_>, endpoint: &str) -> bool {
        let Some(access) = &self.settings.access else { return true };
        // A View has no checks to hide.
        if context.through.is_some() {
            return true;
        }
        let Some(admitted) = context.admitted.as_ref().filter(|admitted| !admitted.identity.is_anonymous()) else {
            return false;
        };
        // Only then, so that plain health checks never wait for the API server.
        health::wants_details(&context.info.query)
            && access.may(&admitted.identity, &Attributes::every_check(endpoint)).await == Decision::Allowed
    }

    /// Whether all checks of a health endpoint succeed.
    fn is_well(&self, endpoint: &str) -> bool {
        health::is_well(endpoint, &self.settings.checks, *self.draining.borrow())
    }

    /// Answers requests for anything but a resource.
    fn around(&self, context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
        let catalog = self.catalog(context);
        let passes = if context.through.is_some() { PassThrough::Off } else { self.passes() };
        match context.info.route() {
            Route::Unknown => Err(ApiError::PageNotFound),
            Route::UnknownBuiltIn => Err(ApiError::UnknownResource),
            Route::Health { endpoint, check } => {
                let draining = *self.draining.borrow();
                // The state of other stores is hidden from users of a View.
                let checks = if context.through.is_some() { &[] } else { &*self.settings.checks };
                Ok(health::answer(endpoint, check.as_deref(), &context.info.query, checks, draining))
            }
            Route::Version => {
                context.is_routed(&negotiate::VERSION)?;
                Ok(version(&catalog))
            }
            other => {
                self.registry.rediscovery().note_reader();
                discovery::answer(&catalog, passes, other, context)
            }
        }
    }

    async fn resource(
        &self,
        context: &RequestContext<'_>,
        address: &ResourcePath,
    ) -> Result<Response<Body>, NoResponse> {
        let catalog = self.catalog(context);
        let mut resource = read::find(&catalog, address)?;
        if let Some(through) = &context.through {
            resource = through.seen(resource);
        }
        context.noted.served(context, address, &resource);
        refuse_method(&context.info.method, address, &resource)?;
        let answered = if address.legacy_watch || (address.name.is_none() && context.info.query.flag("watch")) {
            watch::answer(self, context, address, &resource).await
        } else if address.name.is_some() {
            get::answer(self, context, address, &resource).await
        } else {
            list::answer(self, context, address, &resource).await
        };
        // A deprecated version warns with its errors too, so they become responses here.
        let mut response = match answered {
            Ok(response) => response,
            Err(NoResponse::Error(failure)) => {
                let failure = context.reduced(failure);
                if resource.deprecation_warning.is_none() {
                    return Err(failure.into());
                }
                context.failed(&failure)
            }
            Err(unanswered @ (NoResponse::Retry | NoResponse::Forward)) => return Err(unanswered),
        };
        warnings::add(response.headers_mut(), resource.deprecation_warning.as_deref());
        Ok(response)
    }

    /// The client's own id if it sent one. Else a new one in the usual form, made of the start of the process and the number of the response.
    fn audit_id(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(sent) = headers.get("audit-id").filter(|sent| !sent.is_empty() && sent.len() <= 64) {
            return sent.clone();
        }
        // Hashed with a key: otherwise, two ids would reveal how many requests others have sent.
        let number = self.audit_ids.hash_one(self.answers.fetch_add(1, Ordering::Relaxed));
        let mut bits = (u128::from(read::jitter_seed()) << 64) | u128::from(number);
        let mut text = *b"00000000-0000-4000-a000-000000000000";
        // Written by hand, from the right: formatting would be the most expensive part of an empty response.
        for letter in text.iter_mut().rev().filter(|letter| **letter == b'0') {
            *letter = b"0123456789abcdef"[bits as usize & 0xf];
            bits >>= 4;
        }
        HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("0"))
    }
}

impl RequestContext<'_> {
    /// Checks what kube-apiserver's router checks for built-in paths: the method must be GET, and one of the media types must be acceptable.
    /// Other paths accept every method.
    fn is_routed(&self, offered: &'static [&'static str]) -> Result<(), ApiError> {
        if self.info.method != Method::GET {
            return Err(ApiError::MethodNotAllowedHere);
        }
        negotiate::routed(self.headers, offered)
    }

    /// How discovery shows fieldcache's own group: not inside of a View, and without Views if there is no authentication.
    fn own_group(&self) -> BuiltinGroupVisibility {
        match &self.admitted {
            _ if self.through.is_some() => BuiltinGroupVisibility::Hidden,
            Some(admitted) => BuiltinGroupVisibility::of(&admitted.identity.user),
            None => BuiltinGroupVisibility::WithoutViews,
        }
    }

    /// Whether the request asks for its plan, and may see it.
    fn explains(&self) -> bool {
        self.through.is_none() && self.info.query.flag("explain")
    }

    fn is_read(&self) -> bool {
        matches!(self.info.method, Method::GET | Method::HEAD)
    }

    fn pretty(&self) -> bool {
        negotiate::is_pretty(self.headers, &self.info.query)
    }
}

/// Whether the request reads the discovery document of a group or version.
fn is_read_of_discovery(context: &RequestContext<'_>) -> bool {
    context.is_read() && matches!(context.info.route(), Route::Group(_) | Route::GroupVersion(_))
}

/// Whether the request opens a watch as a WebSocket. Clients of fabric8 open every watch so. After a finished response they watch over HTTP at
/// once. An endless response makes them wait forever, and an error stops them or delays them by many seconds.
fn is_websocket_watch(context: &RequestContext<'_>) -> bool {
    let Route::Resource(address) = context.info.route() else { return false };
    let watches = address.legacy_watch || (address.subresource.is_none() && context.info.query.flag("watch"));
    watches && context.is_read() && pass_through::is_websocket(context.headers)
}

/// `/version` is always indented.
fn version(catalog: &Catalog) -> Response<Body> {
    let body = match &catalog.version.body {
        Value::Null => Value::Object(serde_json::Map::new()),
        body => body.clone(),
    };
    let mut text = Vec::new();
    indent::Indenter::default().push(&encode::json_bytes(&body), &mut text);
    with_type(Response::new(Body::whole(text)), "application/json")
}
