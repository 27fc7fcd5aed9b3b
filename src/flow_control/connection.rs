//! The state of one connection: its client, whether a request on it was authenticated, and its requests in progress.
//!
//! [`ConnectionState`] is shared by the task of the connection, the requests on it, and the table of connections
//! ([`super::connections`]). It decides when the connection must end ([`ConnectionState::decide`]):
//!
//! | state of the connection | the connection ends after |
//! |---|---|
//! | no request has arrived completely | [`FIRST_REQUEST`] |
//! | no request was authenticated | [`UNAUTHENTICATED`] |
//! | no request is in progress | [`IDLE`] |
//! | every request was rejected, with 401, 403 or 429 | [`REJECTED`] |
//!
//! A connection also ends when the table needs its place for another one: gracefully if it was authenticated
//! ([`ConnectionState::displace`]), else at once.
//!
//! PINGs of HTTP/2 and incomplete requests do not count as requests. An open response, such as a watch, prevents an
//! idle end. Where the server does not authenticate clients, every connection counts as authenticated from the start.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::connections::ConnectionHandle;
use super::groups::GroupMember;
use super::limit::Limited;
use super::user::User;

/// How long a connection may be open before the head of its first request has arrived.
pub(crate) const FIRST_REQUEST: Duration = Duration::from_secs(30);

/// How long a connection may be open before a request on it is authenticated. A connection that carries only anonymous
/// health checks also ends then, and the next health check opens another one.
pub(crate) const UNAUTHENTICATED: Duration = Duration::from_secs(30);

/// How long a connection may be without a request in progress: kube-apiserver's idle timeout.
pub(crate) const IDLE: Duration = Duration::from_secs(90);

/// How long all requests of an authenticated connection may be rejected before the connection ends.
pub(crate) const REJECTED: Duration = Duration::from_secs(5 * 60);

/// How long a connection may stay open after the server has announced its end, if it is unauthenticated or its place is
/// needed.
const SHORT_GRACE: Duration = Duration::from_secs(10);

/// How long any other connection without a request in progress may stay open after the server has announced its end.
const GRACE: Duration = Duration::from_secs(120);

/// Why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// No request arrived in time.
    NoRequest,
    /// No request was authenticated in time.
    Unauthenticated,
    /// All requests for [`REJECTED`] were rejected.
    Rejected,
    /// There was no request for [`IDLE`].
    Idle,
    /// The connection was not authenticated, and another one needed its place.
    Evicted,
    /// The user of the connection had at least an equal part of the places, and another connection needed one. Also: no
    /// place for authenticated connections was free for the user.
    UserShare,
}

impl CloseReason {
    /// All reasons, in the order of their numbers (`reason as usize`).
    pub const ALL: [CloseReason; 6] = [
        CloseReason::NoRequest,
        CloseReason::Unauthenticated,
        CloseReason::Rejected,
        CloseReason::Idle,
        CloseReason::Evicted,
        CloseReason::UserShare,
    ];

    /// The value of a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            CloseReason::NoRequest => "no-request",
            CloseReason::Unauthenticated => "unauthenticated",
            CloseReason::Rejected => "rejected",
            CloseReason::Idle => "idle",
            CloseReason::Evicted => "evicted",
            CloseReason::UserShare => "user-share",
        }
    }
}

/// Whether a connection may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionDecision {
    /// The connection may stay open at least until this time.
    KeepUntil(Instant),
    /// The connection must end.
    Close(CloseReason),
}

/// The state of one connection.
#[derive(Debug)]
pub struct ConnectionState {
    /// The user for whom unauthenticated requests of the connection count: the address.
    user: User,
    /// The address of the client; `None` without a socket.
    address: Option<IpAddr>,
    /// When the connection was opened.
    opened: Instant,
    /// The place in the table of connections; not set for requests without a socket.
    place: OnceLock<ConnectionHandle>,
    /// Whether a request was authenticated, or the server does not authenticate clients.
    is_authenticated: AtomicBool,
    /// Whether the head of a request has arrived.
    has_requested: AtomicBool,
    /// The number of requests that wait for their response.
    pending: AtomicUsize,
    /// The number of accepted requests whose response is being sent. A request is accepted if its response is not
    /// 401, 403 or 429.
    responding: AtomicUsize,
    /// When the last request ended, in milliseconds after `opened`.
    idle_since: AtomicU64,
    /// When a request was last accepted, or the response to one ended, in milliseconds after `opened`.
    accepted_at: AtomicU64,
    /// Notified when the connection must end at once.
    evicted: Notify,
    /// Notified when the connection must end gracefully.
    displaced: Notify,
    /// Whether [`ConnectionState::displace`] was called.
    is_displaced: AtomicBool,
}

impl ConnectionState {
    /// The state of a new connection from this address. `is_trusted`: the server does not authenticate clients.
    pub fn new(address: IpAddr, is_trusted: bool) -> ConnectionState {
        ConnectionState { address: Some(address), ..ConnectionState::for_user(User::at(address), is_trusted) }
    }

    /// The state for requests of a user that do not arrive over a socket. `is_trusted`: the server does not
    /// authenticate clients.
    pub fn for_user(user: User, is_trusted: bool) -> ConnectionState {
        ConnectionState {
            user,
            address: None,
            opened: Instant::now(),
            place: OnceLock::new(),
            is_authenticated: AtomicBool::new(is_trusted),
            has_requested: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            responding: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            accepted_at: AtomicU64::new(0),
            evicted: Notify::new(),
            displaced: Notify::new(),
            is_displaced: AtomicBool::new(false),
        }
    }

    /// The user for whom unauthenticated requests count: the address of the client.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// The address of the client; `None` without a socket.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Whether a request on this connection was authenticated, or the server does not authenticate clients.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }

    /// Records that a request on this connection was authenticated. With its first authenticated request, the
    /// connection takes one of the places for authenticated connections. `user` returns the user of this request.
    ///
    /// # Errors
    /// 429 if no place is free for this user. The connection then ends.
    pub fn authenticate(&self, user: impl FnOnce() -> User) -> Result<(), Limited> {
        if self.is_authenticated() {
            return Ok(());
        }
        if let Some(place) = self.place.get() {
            place.promote(&user()).inspect_err(|_| self.displace())?;
        }
        self.is_authenticated.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the connection of a front proxy count for `user`, and no longer for the address of the front proxy. For a
    /// connection that carries only one request from now on, of this user. Called at most once, after
    /// [`ConnectionState::authenticate`].
    pub(crate) fn count_for(&self, user: &User) {
        if let Some(place) = self.place.get() {
            place.reassign(user);
        }
    }

    /// Stores the place of the connection in the table.
    pub(crate) fn set_place(&self, place: ConnectionHandle) {
        let _ = self.place.set(place);
    }

    /// Whether a request waits for its response.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Whether the connection must end because its place is needed for another one, or no place was free for its user.
    pub(crate) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }

    /// Ends the connection gracefully, because its place is needed for another one, or no place is free for its user.
    pub(crate) fn displace(&self) {
        self.is_displaced.store(true, Ordering::Relaxed);
        self.displaced.notify_one();
    }

    /// Ends the connection at once.
    pub(crate) fn evict(&self) {
        self.evicted.notify_one();
    }

    /// Waits until the connection must end at once.
    pub(crate) async fn wait_for_eviction(&self) {
        self.evicted.notified().await;
    }

    /// Records that the head of a request has arrived. The request counts as pending until the returned guard is
    /// dropped.
    pub(crate) fn begin_request(self: &Arc<ConnectionState>) -> PendingRequest {
        self.has_requested.store(true, Ordering::Relaxed);
        self.pending.fetch_add(1, Ordering::Relaxed);
        PendingRequest(self.clone())
    }

    /// Decides whether the connection may stay open at the time `now`: at least until when, or why it must end.
    pub(crate) fn decide(&self, now: Instant) -> ConnectionDecision {
        // Close for `reason` when `deadline` has passed.
        let by = |deadline: Instant, reason| {
            if deadline <= now { ConnectionDecision::Close(reason) } else { ConnectionDecision::KeepUntil(deadline) }
        };
        if !self.has_requested.load(Ordering::Relaxed) {
            return by(self.opened + FIRST_REQUEST, CloseReason::NoRequest);
        }
        if !self.is_authenticated() {
            return by(self.opened + UNAUTHENTICATED, CloseReason::Unauthenticated);
        }
        // A connection does not end while a response is being sent. After `IDLE`, this is only decided again.
        if self.responding.load(Ordering::Relaxed) > 0 {
            return ConnectionDecision::KeepUntil(now + IDLE);
        }
        let rejected = by(self.time_of(&self.accepted_at) + REJECTED, CloseReason::Rejected);
        // A connection with a pending request is not idle, but the request may be rejected like those before.
        if self.is_pending() || matches!(rejected, ConnectionDecision::Close(_)) {
            return rejected;
        }
        match (by(self.time_of(&self.idle_since) + IDLE, CloseReason::Idle), rejected) {
            (ConnectionDecision::KeepUntil(idle), ConnectionDecision::KeepUntil(rejected)) => {
                ConnectionDecision::KeepUntil(idle.min(rejected))
            }
            (decision, _) => decision,
        }
    }

    /// Waits until the connection must end gracefully, and returns the reason.
    pub(crate) async fn wait_for_close(&self) -> CloseReason {
        loop {
            match self.decide(Instant::now()) {
                ConnectionDecision::Close(reason) => return reason,
                ConnectionDecision::KeepUntil(next) => tokio::select! {
                    () = sleep_until(next) => {}
                    () = self.displaced.notified() => return CloseReason::UserShare,
                },
            }
        }
    }

    /// Waits until the grace period for the end of the connection is over. Called when the end was announced, because a
    /// client may ignore GOAWAY. The period is [`SHORT_GRACE`] if the connection is unauthenticated or displaced.
    /// Otherwise it is [`GRACE`], and longer while requests are in progress.
    pub(crate) async fn wait_for_cut(&self) {
        let announced = Instant::now();
        let mut next = announced;
        loop {
            next += SHORT_GRACE;
            sleep_until(next).await;
            // The place of an unauthenticated connection counts as needed, because there are few places for these.
            let is_needed = !self.is_authenticated() || self.is_displaced();
            if is_needed || (self.is_idle() && next >= announced + GRACE) {
                return;
            }
        }
    }

    /// Converts a time in milliseconds after the connection was opened.
    fn time_of(&self, milliseconds: &AtomicU64) -> Instant {
        self.opened + Duration::from_millis(milliseconds.load(Ordering::Relaxed))
    }

    /// Stores the current time, in milliseconds after the connection was opened.
    fn store_time(&self, milliseconds: &AtomicU64) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        milliseconds.store(elapsed, Ordering::Relaxed);
    }
}

impl GroupMember for ConnectionState {
    /// Whether no request waits for its response, and no accepted one is being answered. A response with 401, 403 or
    /// 429 that is being sent does not count.
    fn is_idle(&self) -> bool {
        !self.is_pending() && self.responding.load(Ordering::Relaxed) == 0
    }
}

/// The state for requests that do not arrive over a connection: it counts as authenticated.
impl Default for ConnectionState {
    fn default() -> ConnectionState {
        ConnectionState::for_user(User::default(), true)
    }
}

/// A request that waits for its response, until this guard is dropped.
#[derive(Debug)]
pub(crate) struct PendingRequest(Arc<ConnectionState>);

impl PendingRequest {
    /// Records the status code of the response. Returns a guard for its body; `None` if the request is rejected with
    /// 401, 403 or 429.
    pub(crate) fn respond(self, code: StatusCode) -> Option<OpenResponse> {
        let is_rejected =
            matches!(code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        (!is_rejected).then(|| {
            self.0.store_time(&self.0.accepted_at);
            self.0.responding.fetch_add(1, Ordering::Relaxed);
            OpenResponse(self.0.clone())
        })
    }
}

impl Drop for PendingRequest {
    /// The request no longer waits: it has its response, or was cancelled.
    fn drop(&mut self) {
        self.0.store_time(&self.0.idle_since);
        self.0.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An accepted request whose response is being sent, until this guard is dropped.
#[derive(Debug)]
pub(crate) struct OpenResponse(Arc<ConnectionState>);

impl Drop for OpenResponse {
    /// The response has been sent or cancelled.
    fn drop(&mut self) {
        self.0.store_time(&self.0.idle_since);
        self.0.store_time(&self.0.accepted_at);
        self.0.responding.fetch_sub(1, Ordering::Relaxed);
    }
}
