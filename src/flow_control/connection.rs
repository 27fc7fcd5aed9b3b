//! What the server knows about one connection: its peer, whether a request on it was authenticated, and what it does now.
//!
//! [`ConnectionState`] is shared by the task of the connection, the requests on it, and the table of connections
//! ([`super::connections`]). It decides when the connection has to end ([`ConnectionState::verdict`]):
//!
//! | state of the connection | it ends after |
//! |---|---|
//! | no request was complete | [`FIRST_REQUEST`] |
//! | no request was authenticated | [`UNAUTHENTICATED`] |
//! | no request is in progress | [`IDLE`] |
//! | every request was rejected, with 401, 403 or 429 | [`REJECTED`] |
//!
//! It also ends when the table needs its place: gracefully if it was authenticated ([`ConnectionState::displace`]), else at once.
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

/// Bound of a connection on which no request was complete.
pub(crate) const FIRST_REQUEST: Duration = Duration::from_secs(30);

/// Bound of a connection on which no request was authenticated. Anonymous health checks open another connection.
pub(crate) const UNAUTHENTICATED: Duration = Duration::from_secs(30);

/// Bound of a connection without a request in progress: kube-apiserver's idle timeout.
pub(crate) const IDLE: Duration = Duration::from_secs(90);

/// Bound of a connection whose requests are all rejected, although one was authenticated before.
pub(crate) const REJECTED: Duration = Duration::from_secs(5 * 60);

/// How long an unauthenticated peer, or one whose place is needed, may take to end its connection. The time begins when
/// the server has announced the end.
const SHORT_GRACE: Duration = Duration::from_secs(10);

/// How long any other peer without a request in progress may take.
const GRACE: Duration = Duration::from_secs(120);

/// Why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// No request was complete in time.
    NoRequest,
    /// No request was authenticated in time.
    Unauthenticated,
    /// All requests were rejected.
    Rejected,
    /// There was no request for a long time.
    Idle,
    /// It was not authenticated, and another connection needed its place.
    Evicted,
    /// Its user had as many as it may, and another connection needed the place.
    UserShare,
}

impl CloseReason {
    /// All of them.
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
    /// Keep it at least until this time.
    KeepUntil(Instant),
    /// The connection must end.
    Close(CloseReason),
}

/// One connection.
#[derive(Debug)]
pub struct ConnectionState {
    /// The user of the connection while the request is not authenticated.
    user: User,
    address: Option<IpAddr>,
    opened: Instant,
    place: OnceLock<ConnectionHandle>,
    is_authenticated: AtomicBool,
    has_requested: AtomicBool,
    /// Requests without the head of a response.
    pending: AtomicUsize,
    /// Accepted requests whose response is being sent.
    responding: AtomicUsize,
    /// When the last request ended, in milliseconds after `opened`.
    idle_since: AtomicU64,
    /// When a request was last accepted, or the response to one ended; likewise.
    accepted_at: AtomicU64,
    evicted: Notify,
    displaced: Notify,
    is_displaced: AtomicBool,
}

impl ConnectionState {
    /// A connection from this address; `is_trusted`: clients of this server need no credentials.
    pub fn new(address: IpAddr, is_trusted: bool) -> ConnectionState {
        ConnectionState { address: Some(address), ..ConnectionState::for_user(User::at(address), is_trusted) }
    }

    /// The state for requests of a user that arrive without a socket.
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

    /// The user for limits before authentication: the address.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// The address of the peer; `None` without a socket.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Whether a request on this connection was authenticated, or none needs to be.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }

    /// Notes that a request on this connection was authenticated. The connection takes one of the places that are
    /// reserved for such connections, for the user of its first such request, which `user` returns.
    ///
    /// # Errors
    /// 429 when this user has as many connections as it may. The connection then ends.
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

    /// Notes that the connection has a place in the table.
    pub(crate) fn entered(&self, place: ConnectionHandle) {
        let _ = self.place.set(place);
    }

    /// Whether a request waits for the head of its response.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Whether the connection must end gracefully, because its place is needed.
    pub(crate) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }

    /// Ends the connection gracefully, as its place is needed.
    pub(crate) fn displace(&self) {
        self.is_displaced.store(true, Ordering::Relaxed);
        self.displaced.notify_one();
    }

    /// Ends the connection at once.
    pub(crate) fn evict(&self) {
        self.evicted.notify_one();
    }

    /// Resolves when the connection must end at once.
    pub(crate) async fn wait_for_eviction(&self) {
        self.evicted.notified().await;
    }

    /// Notes that the head of a request is complete.
    pub(crate) fn begin(self: &Arc<ConnectionState>) -> PendingRequest {
        self.has_requested.store(true, Ordering::Relaxed);
        self.pending.fetch_add(1, Ordering::Relaxed);
        PendingRequest(self.clone())
    }

    /// Whether the connection may stay open at `now`, and until when, or why it must close.
    pub(crate) fn verdict(&self, now: Instant) -> ConnectionDecision {
        let by = |deadline: Instant, reason| {
            if deadline <= now { ConnectionDecision::Close(reason) } else { ConnectionDecision::KeepUntil(deadline) }
        };
        if !self.has_requested.load(Ordering::Relaxed) {
            return by(self.opened + FIRST_REQUEST, CloseReason::NoRequest);
        }
        if !self.is_authenticated() {
            return by(self.opened + UNAUTHENTICATED, CloseReason::Unauthenticated);
        }
        if self.responding.load(Ordering::Relaxed) > 0 {
            return ConnectionDecision::KeepUntil(now + IDLE);
        }
        let rejected = by(self.at(&self.accepted_at) + REJECTED, CloseReason::Rejected);
        if self.is_pending() || matches!(rejected, ConnectionDecision::Close(_)) {
            return rejected;
        }
        match (by(self.at(&self.idle_since) + IDLE, CloseReason::Idle), rejected) {
            (ConnectionDecision::KeepUntil(idle), ConnectionDecision::KeepUntil(rejected)) => {
                ConnectionDecision::KeepUntil(idle.min(rejected))
            }
            (verdict, _) => verdict,
        }
    }

    /// Resolves when the connection must end.
    pub(crate) async fn wait_for_close(&self) -> CloseReason {
        loop {
            match self.verdict(Instant::now()) {
                ConnectionDecision::Close(reason) => return reason,
                ConnectionDecision::KeepUntil(next) => tokio::select! {
                    () = sleep_until(next) => {}
                    () = self.displaced.notified() => return CloseReason::UserShare,
                },
            }
        }
    }

    /// Resolves when a connection that should end has not done so in time: the peer may ignore GOAWAY.
    pub(crate) async fn wait_for_cut(&self) {
        let announced = Instant::now();
        let mut next = announced;
        loop {
            next += SHORT_GRACE;
            sleep_until(next).await;
            let is_needed = !self.is_authenticated() || self.is_displaced();
            if is_needed || (self.is_idle() && next >= announced + GRACE) {
                return;
            }
        }
    }

    /// A stored time as an `Instant`.
    fn at(&self, milliseconds: &AtomicU64) -> Instant {
        self.opened + Duration::from_millis(milliseconds.load(Ordering::Relaxed))
    }

    /// Stores the current time, in milliseconds since the connection was opened.
    fn stamp(&self, milliseconds: &AtomicU64) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        milliseconds.store(elapsed, Ordering::Relaxed);
    }
}

/// For requests that arrive over no connection.
impl GroupMember for ConnectionState {
    fn is_idle(&self) -> bool {
        !self.is_pending() && self.responding.load(Ordering::Relaxed) == 0
    }
}

impl Default for ConnectionState {
    fn default() -> ConnectionState {
        ConnectionState::for_user(User::default(), true)
    }
}

/// A request without the head of a response; it ends when dropped.
#[derive(Debug)]
pub(crate) struct PendingRequest(Arc<ConnectionState>);

impl PendingRequest {
    /// Notes the head of a response; returns a guard for its body if the request was accepted.
    pub(crate) fn respond(self, code: StatusCode) -> Option<OpenResponse> {
        let is_rejected =
            matches!(code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        (!is_rejected).then(|| {
            self.0.stamp(&self.0.accepted_at);
            self.0.responding.fetch_add(1, Ordering::Relaxed);
            OpenResponse(self.0.clone())
        })
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.0.stamp(&self.0.idle_since);
        self.0.pending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An accepted request whose response is being sent; it ends when dropped.
#[derive(Debug)]
pub(crate) struct OpenResponse(Arc<ConnectionState>);

impl Drop for OpenResponse {
    fn drop(&mut self) {
        self.0.stamp(&self.0.idle_since);
        self.0.stamp(&self.0.accepted_at);
        self.0.responding.fetch_sub(1, Ordering::Relaxed);
    }
}
