//! The path of a request through the server: from its head to its response.
//!
//! The order of decisions is kube-apiserver's: guards, the timeout parameter, authentication and authorization (none in
//! `serve`), path, method, media type, options, storage.

use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{AUTHORIZATION, CACHE_CONTROL, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::audit_context::AuditContext;
use super::auditing::Auditing;
use super::context::{REQUEST_TIMEOUT, RequestContext};
use super::methods::reject_write;
use super::no_response::NoResponse;
use super::request_metrics::{RequestMetrics, RequestOutcome, RequestRecord};
use super::settings::Settings;
use super::state::{MOST_ATTEMPTS, ServerState};
use super::view_request::{FoundView, ViewRequest};
use super::{
    authorize, delete_collection, dependents, facets, forward, forward_policy, get, guards, health, list, non_resource,
    openapi, placement_review, read, self_review, view_request, watch, websocket,
};
use crate::access::AuthorizedRequest;
use crate::access::authentication::{LocalAuthentication, Peer};
use crate::access::websocket_token;
use crate::fair_semaphore::FairSemaphore;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::exempt::is_exempt;
use crate::flow_control::limit::Limited;
use crate::flow_control::seats::{Seats, Worker};
use crate::flow_control::user::User;
use crate::flow_control::{HeadShare, Limits, header_bytes};
use crate::placement_service::index::PlacementIndex;
use crate::registry::upstream::UpstreamBody;
use crate::registry::{LoadState, PanicOrigin, Registry};
use crate::request::query::MOST_PARAMETERS;
use crate::request::{Query, RequestInfo, ResourcePath, Route};
use crate::transport::head_error::HeadError;
use crate::transport::heads::slots;
use crate::transport::heads::slots::LongQuery;
use crate::transport::listen::Answers;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::negotiate::{self, Format};
use crate::wire::request_log::RequestLog;
use crate::wire::response::{complete, error_response};
use crate::wire::{params, warnings};

/// How long a request for an unknown group waits until the source's discovery has been read again.
const REDISCOVERY: Duration = Duration::from_secs(3);

/// The number of audit events that are written at the same time. Users take turns, so that a user who sends many
/// requests delays the others by no more than these.
const EVENTS_AT_ONCE: u64 = 32;

/// Of [`EVENTS_AT_ONCE`], the number that is reserved for users that have no event being written.
const FIRST_EVENTS: u64 = 8;

/// Serves requests from a [`Registry`].
pub struct Server {
    pub(super) state: ServerState,
    /// The metrics of requests.
    tally: Arc<RequestMetrics>,
    /// Permits to write an event into the audit log.
    pub(super) writing_events: Arc<FairSemaphore<User>>,
}

impl Server {
    /// A server that serves the resources of `registry`, with all permits free.
    pub fn new(registry: Arc<Registry>, settings: Settings) -> Server {
        Server {
            state: ServerState::new(registry, settings),
            tally: Arc::default(),
            writing_events: Arc::new(FairSemaphore::of_places(EVENTS_AT_ONCE, FIRST_EVENTS)),
        }
    }

    /// The index for PlacementReviews. The caller must keep it up to date.
    pub fn placement_index(&self) -> Arc<PlacementIndex> {
        self.state.reviews.index.clone()
    }

    /// Whether all checks of a health endpoint succeed. `endpoint`: one of [`health::ENDPOINTS`].
    pub(super) fn is_well(&self, endpoint: &str) -> bool {
        non_resource::is_well(&self.state, endpoint)
    }

    /// The metrics of requests.
    pub fn tally(&self) -> &Arc<RequestMetrics> {
        &self.tally
    }

    /// The limits and their current use.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.state.limits
    }

    /// Ends all watches cleanly and makes `/readyz` fail. Requests are still answered.
    pub fn drain(&self) {
        self.state.draining.send_replace(true);
    }

    /// Responds to a request that came over no connection, so that no limit of connections applies.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        self.answer_to(&ConnectionState::default(), request).await
    }

    /// Returns the response to one request of a connection. The method does not fail or panic: an internal error is a
    /// 500 for this request alone, or ends its response early.
    pub async fn answer_to<B>(&self, connection: &ConnectionState, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (begun, record) = (Instant::now(), RequestRecord::default());
        let (mut parts, body) = request.into_parts();
        let log = RequestLog::begin(&parts, begun);
        // Bodies are needed only for requests that are forwarded, and for reviews, which are created by POST.
        let needs_body = self.state.upstream().is_some() || parts.method == Method::POST;
        let body = needs_body.then(|| body.map_err(Into::into).boxed_unsync());
        let answered = AssertUnwindSafe(self.stages(&mut parts, body, &record, connection)).catch_unwind().await;
        let mut response = answered.unwrap_or_else(|_| {
            tracing::error!(path = parts.uri.path(), "request panicked");
            error_response(&self.state.internal_error(), Format::Json, false)
        });
        // The response is returned only if its audit event can be written.
        if let Some(audited) = record.audited() {
            let turns = (&self.writing_events, record.user().unwrap_or(connection.user()));
            let written = audited.record_response(response.status().as_u16(), response.body().is_stream(), turns);
            if let Err(failure) = written.await {
                response = error_response(&failure, Format::Json, false);
            }
        }
        response.body_mut().count_panics(self.state.registry.panics());
        let headers = response.headers_mut();
        // A forwarded response keeps the id of the API server, under which its audit log has the request.
        if !headers.contains_key("audit-id") {
            let audit_id = record.audited().and_then(|audited| HeaderValue::from_str(audited.audit_id()).ok());
            headers.insert(
                HeaderName::from_static("audit-id"),
                audit_id.unwrap_or_else(|| self.state.audit_ids.id_for(&parts.headers)),
            );
        }
        if !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        }
        let audit_bytes = record.audited().map_or(0, AuditContext::held_bytes);
        let mut response = complete(self.state.limits.unread(), connection, &parts.method, audit_bytes, response);
        record.finish(&self.tally, (&parts.method, begun), log, &mut response);
        response
    }

    /// Runs all stages of a request, in the order of kube-apiserver's filters, and returns the response, which can be
    /// an error. `body`: `None` if no stage reads the body of the request. `record` receives what metrics and the audit
    /// log need.
    async fn stages(
        &self,
        parts: &mut Parts,
        body: Option<UpstreamBody>,
        record: &RequestRecord,
        connection: &ConnectionState,
    ) -> Response<Body> {
        let wants_websocket = websocket::is_requested(parts.version, &parts.headers);
        // A browser can send a bearer token only as a subprotocol of its WebSocket. It becomes an Authorization header.
        let moved = if wants_websocket { websocket_token::move_token(&mut parts.headers) } else { Ok(()) };
        let has_token = parts.headers.contains_key(AUTHORIZATION);
        let caller = self.recognize(parts);
        let (mut head, mut turn) = match self.enter(&caller, connection, parts).await {
            Ok(entered) => entered,
            Err(limited) => return error_response(&ApiError::Limited(limited), Format::Json, false),
        };
        let query_length = slots::query(parts).len();
        let (info, invalid) = turn.work(|| request_info(parts));
        // The View is found before authorization, because permissions for a View are about the request inside of it. If
        // it is missing, the error is returned after authentication: only authenticated callers learn whether a View
        // exists.
        let view =
            info.view.as_ref().map(|path| ViewRequest::find(path, &self.state.registry, &self.state.permitted_callers));
        let audit = Auditing { server: &self.state, noted: record, info: &info };
        turn.work(|| audit.begin(parts, view.as_ref(), None));
        let recognized_user = caller.user;
        // A WebSocket token that cannot be read gets 401, if the server authenticates.
        let unreadable = self.state.settings.access.as_ref().filter(|_| moved.is_err());
        let invalid = invalid.or_else(|| unreadable.map(|access| ApiError::Access(access.unauthorized())));
        let recognized = invalid.map_or(Ok(caller.recognized), Err);
        let authorized = self.authorize(&audit, parts, view.as_ref(), recognized, connection, &mut turn).await;
        // From here on, the head counts only with the part that is held until the response.
        if let Some(head) = &mut head {
            head.release_authorized();
        }
        // Limits are per authenticated user, across connections; without one, per address.
        let authenticated_user = match &authorized {
            Ok(Some(authorized)) => Some(recognized_user.unwrap_or_else(|| User::named(&authorized.identity.user))),
            Ok(None) | Err(_) => None,
        };
        let (authority, authorized) = match guards::authority(&parts.uri, &parts.headers) {
            Ok(authority) => (authority, authorized),
            Err(error) => ("", Err(error)),
        };
        let (served_view, missing) = match view.transpose() {
            Ok(served_view) => (served_view, None),
            Err(missing) => (None, Some(missing)),
        };
        let mut context = RequestContext {
            info: &info,
            headers: &parts.headers,
            authority,
            is_tls: guards::is_tls(&parts.extensions),
            is_long: parts.extensions.get::<LongQuery>().is_some(),
            wants_websocket,
            has_token,
            timeout: REQUEST_TIMEOUT,
            view: served_view,
            record,
            authorized: None,
            user: authenticated_user.as_ref().unwrap_or(connection.user()),
            limits: &self.state.limits,
        };
        record.set_user(context.user);
        let authorized = authorized.and_then(|authorized| missing.map_or(Ok(authorized), Err));
        let is_exempt = is_exempt(&info.path, query_length, authenticated_user.as_ref());
        let handled = self.handle(&mut context, authorized, (turn, is_exempt), (&parts.uri, body)).await;
        let is_upgraded = handled.as_ref().is_ok_and(|response| response.status() == StatusCode::SWITCHING_PROTOCOLS);
        // A front proxy sends requests of many users over one connection. After the upgrade, the connection carries
        // only this watch, so it counts for the user of the watch.
        if is_upgraded && context.authorized.as_ref().is_some_and(AuthorizedRequest::is_by_front_proxy) {
            connection.count_for(context.user);
        }
        handled.unwrap_or_else(|error| context.error_response(&self.unless_incomplete(error)))
    }

    /// Authenticates the caller as far as this is possible without a TokenReview.
    fn recognize(&self, parts: &Parts) -> Caller {
        let peer = parts.extensions.get::<Arc<Peer>>();
        let recognized =
            self.state.settings.access.as_ref().map(|access| access.authenticate_locally(peer, &parts.headers));
        let user = recognized.as_ref().and_then(LocalAuthentication::user).map(|identity| User::named(&identity.user));
        Caller { recognized, user }
    }

    /// Counts the memory of the head of a request while the request waits for authorization, and waits for its first
    /// turn. Both come before the server reads anything of a length that the client chooses. Until a TokenReview has
    /// identified the user, the limits of the address apply, which many users can share. The share is `None` without
    /// authentication: then no head is counted.
    ///
    /// # Errors
    /// 429 when the heads of this user or address take too much memory, or the turn does not come in time.
    async fn enter(
        &self,
        caller: &Caller,
        connection: &ConnectionState,
        parts: &Parts,
    ) -> Result<(Option<HeadShare>, Turn), Limited> {
        let (uri, query) = (&parts.uri, slots::query(parts).len());
        let user = caller.user.as_ref().unwrap_or(connection.user());
        let admit = || self.state.limits.admit_head(user, uri.path().len() + query, header_bytes(&parts.headers));
        let head = self.state.settings.access.is_some().then(admit).transpose()?;
        let turn = self.turn(user, is_exempt(uri.path(), query, caller.user.as_ref())).await;
        Ok((head, turn.inspect_err(|limited| self.state.limits.count(limited.limit))?))
    }

    /// Waits for the first turn of a request of `user`, unless the request is exempt.
    ///
    /// # Errors
    /// 429 when too many requests of the user wait, or the turn does not come in time.
    async fn turn(&self, user: &User, is_exempt: bool) -> Result<Turn, Limited> {
        if is_exempt {
            return Ok(Turn(None));
        }
        let mut worker = self.state.limits.seats().worker(user);
        worker.arrive().await.map(|()| Turn(Some(worker)))
    }

    /// Authenticates and authorizes a request, and records the decision in its audit event. `None`: the server does not
    /// authenticate, or the View is missing and the caller may know that. `recognized` is the result of
    /// [`Self::recognize`], or the error of a request that is invalid for every caller. `connection` counts as
    /// authenticated once the credentials are valid. The work is done in turns of `turn`.
    ///
    /// # Errors
    /// The error of `recognized`, those of [`authorize::admit`], 429 when the user has too many connections, and 503
    /// when the audit log cannot be written.
    async fn authorize(
        &self,
        audit: &Auditing<'_>,
        parts: &mut Parts,
        view: Option<&FoundView>,
        recognized: Result<Option<LocalAuthentication>, ApiError>,
        connection: &ConnectionState,
        turn: &mut Turn,
    ) -> Result<Option<AuthorizedRequest>, ApiError> {
        // Receives the identity of the caller if no audit has begun. Otherwise the audit context receives it.
        let unaudited = OnceLock::new();
        let recognized = recognized.map(|recognized| self.state.settings.access.as_ref().zip(recognized));
        let authorized = match recognized {
            Err(invalid) => Err(invalid),
            Ok(None) => Ok(None),
            Ok(Some((access, recognized))) => {
                let peer = parts.extensions.get::<Arc<Peer>>().cloned();
                let identity = audit.noted.audited().map_or(&unaudited, AuditContext::identity);
                let admission =
                    Box::pin(authorize::admit(access, parts, audit.info, view, (recognized, Some(identity))));
                let authorized = turn.work_through(admission).await;
                // The connection counts for the user also if the request is not allowed: the client has shown valid
                // credentials.
                let placed = match identity.get().filter(|identity| !identity.is_anonymous()) {
                    Some(identity) => {
                        connection.authenticate(|| User::named(&access.connection_user(peer.as_ref(), identity)))
                    }
                    None => Ok(()),
                };
                placed.map_err(ApiError::Limited).and(authorized)
            }
        };
        // The audit policy can have a rule that applies only to rejected requests. `begin` does nothing if the audit
        // has begun.
        if authorized.is_err() {
            audit.begin(parts, view, Some(unaudited.get().cloned()));
        }
        match audit.noted.audited().map(|audited| audited.record_decision(&authorized)) {
            Some(Err(unwritten)) => Err(unwritten),
            Some(Ok(())) | None => authorized,
        }
    }

    /// Handles a request after authorization, in turns of its user. `authorized` can be the error of an earlier stage,
    /// which is then returned. `turn` is the turn that the request has. `is_exempt`: the request works without turns
    /// from here on, such as a health check (`flow_control::exempt`).
    async fn handle(
        &self,
        context: &mut RequestContext<'_>,
        authorized: Result<Option<AuthorizedRequest>, ApiError>,
        (mut turn, is_exempt): (Turn, bool),
        (uri, body): (&Uri, Option<UpstreamBody>),
    ) -> Result<Response<Body>, ApiError> {
        context.authorized = authorized?;
        self.resolve_view(context, &mut turn).await?;
        // From here on, turns count for the user that authentication has identified; without one, for the address. A
        // turn that the request already has for the same user is kept.
        let user = context.user;
        let mut turn = match turn.0.filter(|worker| worker.user() == user || is_exempt) {
            Some(worker) => Turn((!is_exempt).then_some(worker)),
            None => self.turn(user, is_exempt).await.map_err(ApiError::Limited)?,
        };
        let audit_bytes = context.record.audited().map_or(0, AuditContext::held_bytes);
        let mut response = turn.work_through(pin!(self.dispatch(context, uri, body))).await?;
        if websocket::is_watch(context) {
            response = websocket::accept(context, response)?;
        }
        self.admit_response(user, audit_bytes, response)
    }

    /// Determines what the View of a request depends on: the namespaces that it selects, and the values of
    /// the caller that it uses, such as the labels of the caller's Pod. This is done in turns, because a Pod can be
    /// long. Does nothing for a request without a View.
    ///
    /// # Errors
    /// Those of [`ViewRequest::require_namespaces`] and [`ViewRequest::resolve_consumer`].
    async fn resolve_view(&self, context: &mut RequestContext<'_>, turn: &mut Turn) -> Result<(), ApiError> {
        let Some(view) = &mut context.view else { return Ok(()) };
        let catalog = self.state.registry.catalog();
        let (info, authorized) = (context.info, context.authorized.as_ref());
        let resolving = Box::pin(async {
            view.require_namespaces(info, authorized, &catalog).await?;
            view.resolve_consumer(authorized, &catalog).await
        });
        turn.work_through(resolving).await.map_err(|error| context.redact(error))
    }

    /// Counts the memory of a response for its user until the client has read it, and makes the body wait for turns of
    /// the user. `audit_bytes` is the memory of the audit event, which is held for as long.
    ///
    /// # Errors
    /// 429 when the responses of this user hold as much as they may.
    fn admit_response(
        &self,
        user: &User,
        audit_bytes: usize,
        mut response: Response<Body>,
    ) -> Result<Response<Body>, ApiError> {
        let (body, unread) = (response.body_mut(), self.state.limits.unread());
        let may_hold = body.most_held_bytes().map(|bytes| bytes + audit_bytes as u64);
        let share = may_hold.map(|bytes| unread.admit(user, bytes)).transpose().map_err(ApiError::Limited)?;
        if share.is_some() || body.is_stream() {
            body.count_unread(unread.meter(user, body.is_stream(), share));
        }
        body.take_turns(|| self.state.limits.seats().worker(user));
        Ok(response)
    }

    /// The error to return: while the set of served resources is not complete, a missing resource or View is reported
    /// as loading. All other errors are unchanged.
    fn unless_incomplete(&self, failure: ApiError) -> ApiError {
        let is_missing_view = matches!(&failure, ApiError::NotFound { gvr, .. } if *gvr == view_request::views());
        let is_missing = is_missing_view || matches!(&failure, ApiError::PageNotFound | ApiError::UnknownResource);
        match &self.state.settings.is_complete {
            Some(is_complete) if is_missing && !is_complete() => {
                ApiError::Loading("the set of served resources is not known yet".to_owned())
            }
            _ => failure,
        }
    }

    /// Chooses the handler of a request, and returns its response.
    async fn dispatch(
        &self,
        context: &mut RequestContext<'_>,
        uri: &Uri,
        body: Option<UpstreamBody>,
    ) -> Result<Response<Body>, ApiError> {
        self.check(context)?;
        if let Some(review) = self.review(context) {
            return match review {
                Review::Placement(address) => {
                    Box::pin(placement_review::answer(&self.state, context, address, body)).await
                }
                Review::Caller(review) => Box::pin(self_review::answer(&self.state, context, review, body)).await,
            };
        }
        // Views do not serve dependents.
        let dependents_path = dependents::kind::dependents_path(context.info.route());
        if let Some(address) = dependents_path.filter(|_| context.view.is_none()) {
            return Box::pin(dependents::answer(&self.state, context, address)).await;
        }
        if let Some(forwarded) = self.forward(context, uri, body).await? {
            return Ok(forwarded);
        }
        match context.info.route() {
            Route::Resource(address) => self.read(context, uri, address).await,
            Route::OpenApi => openapi::answer(&self.state, context, uri.query()).await,
            // A caller that may not see the names of checks gets only the result. The names contain names of resources.
            Route::Health { endpoint, check: None }
                if !non_resource::shows_checks(&self.state, context, endpoint).await =>
            {
                Ok(health::plain(endpoint, self.is_well(endpoint)))
            }
            Route::Root
            | Route::Health { .. }
            | Route::Version
            | Route::CoreVersions
            | Route::Groups
            | Route::Group(_)
            | Route::GroupVersion(_)
            | Route::Unknown
            | Route::UnknownBuiltIn => non_resource::answer(&self.state, context),
        }
    }

    /// Makes the checks that all handlers share: the guard against web pages at a local server, and the media type of
    /// the body. Sets the timeout of the context to the `timeout` parameter.
    ///
    /// # Errors
    /// 403 for a request of a foreign web page, 415 for a body without a media type, 400 for an invalid timeout.
    fn check(&self, context: &mut RequestContext<'_>) -> Result<(), ApiError> {
        if let Some(guard) = &self.state.settings.guard {
            guard.check(context.authority, context.is_tls, context.headers)?;
        }
        let (info, route) = (context.info, context.info.route());
        // A review stores nothing, and `kubectl create --raw` sends no media type.
        let is_review = match context.view {
            Some(_) => self_review::kind::is_self_review(route),
            None => placement_review::kind::review_path(route).is_some(),
        };
        if !(is_review && info.method == Method::POST) {
            guards::check_body(&info.method, context.headers)?;
        }
        context.timeout = params::timeout(&info.query, REQUEST_TIMEOUT)?;
        Ok(())
    }

    /// The review that this server handles, if the request is for one. Outside of Views, these are PlacementReviews.
    /// Inside of a View, these are reviews of the caller's own identity and permissions.
    fn review<'c>(&self, context: &RequestContext<'c>) -> Option<Review<'c>> {
        let route = context.info.route();
        match context.view {
            None => placement_review::kind::review_path(route).map(Review::Placement),
            Some(_) => self_review::kind::reviewed_path(route, &self.state.catalog(context)).map(Review::Caller),
        }
    }

    /// Forwards a request to the API server if `--pass-through` permits that, and returns its response. `None`: this
    /// server handles the request. Requests through a View are never forwarded. `body` is `None` if the body of the
    /// request cannot be needed.
    ///
    /// # Errors
    /// 403 for impersonation, and those of [`forward::answer`] and [`delete_collection::answer`].
    async fn forward(
        &self,
        context: &RequestContext<'_>,
        uri: &Uri,
        body: Option<UpstreamBody>,
    ) -> Result<Option<Response<Body>>, ApiError> {
        let Some((upstream, body)) = self.state.upstream().zip(body).filter(|_| context.view.is_none()) else {
            return Ok(None);
        };
        forward_policy::check_impersonation(context.headers)?;
        let catalog = self.state.registry.catalog();
        if !self.state.pass_through().forwards(context, &catalog)? {
            return Ok(None);
        }
        if let Some(collection) = delete_collection::selected_here(context, &catalog) {
            let deleting = delete_collection::answer(&self.state, upstream, context, &collection, (uri, body));
            return Box::pin(deleting).await.map(Some);
        }
        let forwarded = Box::pin(forward::answer(&self.state, upstream, context, uri, body)).await?;
        if !(is_read_of_discovery(context) && forwarded.status().is_success()) {
            return Ok(Some(forwarded));
        }
        // The source serves a group or version that this server does not list below `/apis` yet. A client that waits
        // for the group reads `/apis` next, and expects it there: kube-apiserver lists a group before it serves the
        // group. So the discovery of the source is read again, and this server answers.
        drop(forwarded);
        self.state.registry.rediscovery().request(context.timeout.min(REDISCOVERY)).await;
        non_resource::answer(&self.state, context).map(Some)
    }

    /// Reads a resource from its store. Tries again when the resource was replaced meanwhile, and forwards the request
    /// when the store cannot answer it. All attempts together have the timeout of one.
    ///
    /// # Errors
    /// Those of the handlers, and 429 when the resource was replaced [`MOST_ATTEMPTS`] times.
    async fn read(
        &self,
        context: &mut RequestContext<'_>,
        uri: &Uri,
        address: &ResourcePath,
    ) -> Result<Response<Body>, ApiError> {
        let begun = Instant::now();
        let longest = context.timeout.min(self.state.settings.patience);
        let mut last = NoResponse::Retry;
        for _ in 0..MOST_ATTEMPTS {
            context.timeout = longest.saturating_sub(begun.elapsed());
            let unanswered = match self.handle_resource(context, address).await {
                Ok(response) => return Ok(response),
                Err(unanswered) => unanswered,
            };
            last = unanswered.clone();
            let is_repeated = match (&unanswered, &mut context.view) {
                (NoResponse::Retry, _) => true,
                (NoResponse::NamespacesChanged, Some(view)) => view.follow_changed_namespaces(),
                (NoResponse::NamespacesChanged, None) | (NoResponse::Error(_) | NoResponse::Forward, _) => false,
            };
            if is_repeated {
                continue;
            }
            let upstream = match &unanswered {
                // The API server cannot apply a View.
                _ if context.view.is_some() => None,
                // The source does not permit fieldcache to list the whole resource, so it has no store. The API server
                // can still answer for a part of it.
                NoResponse::Error(ApiError::Forbidden(_)) if context.is_read() && self.is_refused(address) => {
                    self.state.upstream()
                }
                NoResponse::Forward => self.state.upstream(),
                NoResponse::Error(_) | NoResponse::Retry | NoResponse::NamespacesChanged => None,
            };
            let Some(upstream) = upstream else { return Err(unanswered.into_error()) };
            context.timeout = longest.saturating_sub(begun.elapsed());
            let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            return Box::pin(forward::answer(&self.state, upstream, context, uri, body)).await;
        }
        Err(last.into_error())
    }

    /// Whether the source denies fieldcache to list the whole resource of a path (403).
    fn is_refused(&self, address: &ResourcePath) -> bool {
        let catalog = self.state.registry.catalog();
        let state = catalog.resource(&address.gvr).map(|resource| resource.state.load_state());
        matches!(state, Some(LoadState::SourceError { code: 403, .. }))
    }

    /// Handles a request for a resource that has a store: rejects writes, and calls the handler of get, list or watch.
    ///
    /// # Errors
    /// [`NoResponse::Retry`] and [`NoResponse::Forward`] as the handlers return them. Errors of a deprecated version
    /// are responses instead, because they carry its warning.
    async fn handle_resource(
        &self,
        context: &RequestContext<'_>,
        address: &ResourcePath,
    ) -> Result<Response<Body>, NoResponse> {
        let catalog = self.state.catalog(context);
        let mut resource = read::find(&catalog, address)?;
        if let Some(view) = &context.view {
            resource = view.as_seen(resource);
        }
        context.record.record_resource(context.info, context.headers, address, &resource);
        reject_write(&context.info.method, address, &resource)?;
        let answered = if address.legacy_watch || (address.name.is_none() && context.info.query.flag("watch")) {
            watch::answer(&self.state, context, address, &resource).await
        } else if address.name.is_some() {
            get::answer(&self.state, context, address, &resource).await
        } else if negotiate::names_facets(context.headers) {
            Box::pin(facets::answer(&self.state, context, address, &resource)).await
        } else {
            // The future of a list is the largest one. It is in a box, so that gets and watches hold no memory for it.
            Box::pin(list::answer(&self.state, context, address, &resource)).await
        };
        // A deprecated version warns with its errors too, so they become responses here.
        let mut response = match answered {
            Ok(response) => response,
            Err(NoResponse::Error(failure)) => {
                let failure = context.redact(failure);
                if resource.deprecation_warning.is_none() {
                    return Err(failure.into());
                }
                context.error_response(&failure)
            }
            Err(unanswered @ (NoResponse::Retry | NoResponse::NamespacesChanged | NoResponse::Forward)) => {
                return Err(unanswered);
            }
        };
        warnings::add(response.headers_mut(), resource.deprecation_warning.as_deref());
        Ok(response)
    }
}

impl Answers for Server {
    type Body = Body;

    async fn answer(&self, connection: &ConnectionState, request: Request<Incoming>) -> Response<Body> {
        self.answer_to(connection, request).await
    }

    async fn reject(&self, connection: &ConnectionState, method: &Method, error: HeadError) -> Response<Body> {
        let begun = Instant::now();
        // The rejection takes a turn like every other request of its address.
        let (failure, mut turn) = match self.turn(connection.user(), false).await {
            Ok(turn) => (error.into(), turn),
            Err(limited) => {
                self.limits().count(limited.limit);
                (ApiError::Limited(limited), Turn(None))
            }
        };
        let mut response = turn.work(|| error_response(&failure, Format::Json, false));
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static("audit-id"), self.state.audit_ids.id_for(&HeaderMap::new()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        self.tally.count(None, RequestOutcome::rejected(failure.code().as_u16()), begun.elapsed());
        complete(self.limits().unread(), connection, method, 0, response)
    }

    fn rejection(&self, limited: &Limited) -> (StatusCode, Vec<u8>) {
        ApiError::Limited(limited.clone()).code_and_status()
    }

    fn authenticates(&self) -> bool {
        self.state.settings.access.is_some()
    }

    fn is_shared(&self, peer: &Peer) -> bool {
        self.state.settings.access.as_ref().is_some_and(|access| access.is_front_proxy(peer))
    }

    fn seats(&self) -> Option<&Arc<Seats>> {
        Some(self.limits().seats())
    }

    fn count_panic(&self) {
        self.state.registry.panics().count(PanicOrigin::Connection);
    }

    fn drain(&self) {
        Server::drain(self);
    }
}

/// The caller of a request, as far as it is known without a TokenReview.
struct Caller {
    /// The result of authentication without a TokenReview; `None` if the server does not authenticate.
    recognized: Option<LocalAuthentication>,
    /// The user; `None` if only a TokenReview can identify it, or it is anonymous.
    user: Option<User>,
}

/// The turns in which a request works; `None` if it is exempt, so that it works without waiting.
struct Turn(Option<Worker>);

impl Turn {
    /// Runs `work` in the current turn, and returns its result.
    fn work<Done>(&mut self, work: impl FnOnce() -> Done) -> Done {
        match &mut self.0 {
            Some(worker) => worker.work(work),
            None => work(),
        }
    }

    /// Runs a future to its end, with a turn for each poll. The future must be `Unpin`, such as a box. Otherwise both
    /// branches would reserve memory for a large future.
    async fn work_through<Work: Future + Unpin>(&mut self, work: Work) -> Work::Output {
        match &mut self.0 {
            Some(worker) => worker.work_through(work).await,
            None => work.await,
        }
    }
}

/// A review that this server handles, with the path of the request.
enum Review<'r> {
    /// A PlacementReview.
    Placement(&'r ResourcePath),
    /// A review of the caller's own identity or permissions, such as a SelfSubjectReview.
    Caller((self_review::kind::SelfReviewKind, &'r ResourcePath)),
}

/// Reads the path and the query of a request, once for all stages. The error is `Some` if the query has more than
/// [`MOST_PARAMETERS`] parameters. Then the returned [`RequestInfo`] has no parameters.
fn request_info(parts: &Parts) -> (RequestInfo, Option<ApiError>) {
    // A long query is not in the URI (`transport::heads`), so it is read through `slots`.
    let text = slots::query(parts);
    let (query, invalid) = match Query::is_too_long(text) {
        true => {
            let message = format!("the query has more than {MOST_PARAMETERS} parameters: send fewer");
            (Query::default(), Some(ApiError::BadRequest(message)))
        }
        false => (Query::parse(text), None),
    };
    (RequestInfo::read(&parts.method, parts.uri.path(), query), invalid)
}

/// Whether the request reads the discovery document of a group or version.
fn is_read_of_discovery(context: &RequestContext<'_>) -> bool {
    context.is_read() && matches!(context.info.route(), Route::Group(_) | Route::GroupVersion(_))
}
