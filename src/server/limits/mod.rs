//! Limits with names: what is counted, what happens at the most, and what a person is told then.
//!
//! | limit | flag | at the most |
//! |---|---|---|
//! | [`connections`] | `--max-connections` | told and closed |
//! | connections without credentials | a quarter of these | one of them is closed for a new one |
//! | connections of one address, while half of all are open | a quarter of these | likewise, else closed |
//! | connections of one user, while all places for authenticated ones are taken | an equal part of three quarters of these | one of the user with most is closed for that of a user with fewer; else 429 |
//! | bytes of requests of HTTP/2 that were not looked at yet | none: 64 MiB | their streams are reset, those of the addresses with most first |
//! | [`watches`] of one user | `--max-watches-per-user` | 429 |
//! | [`seats`]: work in progress | `--max-seats` | requests wait, fairly between users ([`crate::model::fair_queue`]); past a bounded queue 429 with Retry-After |
//! | large [`lists`] in flight, and their bytes | `--max-lists`, `--max-list-bytes` | the same, by the same queue |
//! | bytes of watches that are [`unread`] by clients | `--max-unread-bytes` | the [`slowest`] readers' watches end |
//! | request [`bodies`] in memory, and their bytes | `--max-bodies`, `--max-body-bytes` | 429 with Retry-After; a user may hold as much as is free |
//! | memory of the copies | `--memory-limit` | a further copy is refused with 503; counted in `registry`, only told here |
//!
//! A [`User`] is whom a limit is shared by. Without authentication it is the address of the peer: on the loopback
//! that is one user in practice, as all who connect from 127.0.0.1 are the same person. An authenticated request is counted
//! by the user's name instead. Connections are shared by address until a request on them was authenticated, then by user.
//!
//! What a request may cost otherwise is bounded where it is spent: requests handed on (`forward`), streams of a connection
//! (`listen`), changes that wait for a watch (`registry::event_dispatcher`), readers that have stopped (`write_timeout`, `stream_timeout`).

pub mod bodies;
pub mod connections;
pub mod exempt;
mod groups;
pub mod lists;
pub mod past;
pub mod seats;
pub mod slowest;
pub mod unread;
pub mod watches;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use http::{HeaderMap, Request};

use crate::model::quantity;
use crate::model::quote;
use crate::model::shares::{self, Shares};
use crate::registry::OverMemory;
use crate::server::connection::CloseReason;
use crate::server::heads::slots::LongQuery;

use bodies::Bodies;
use connections::Connections;
use lists::Lists;
use seats::Seats;
use unread::Unread;
use watches::Watches;

/// How long a request waits for its turn: the same part of a request's time as in kube-apiserver (a quarter of a minute).
const QUEUE_PATIENCE: Duration = Duration::from_secs(15);

/// Seconds after which a refused request may be repeated, as kube-apiserver's priority and fairness names them.
const RETRY_AFTER: u64 = 1;

/// So many users may have full queues before only the first request of a further user may wait.
const WAITING_USERS: usize = 16;

/// About the memory of a request that waits for authentication or authorization, in bytes.
const HEAD_BYTES: u64 = 16 << 10;

/// What a user may have of these whatever others hold: one request with a usual path and usual headers.
const FIRST_HEAD: u64 = 2 * HEAD_BYTES;

/// Copies of a path while its request waits: in the request, its attributes, the review, and the keys of caches.
const COPIES_OF_PATH: u64 = 12;

/// Seats for each processor. A seat is about a millisecond of work, so a round of seats takes about as many milliseconds.
const SEATS_PER_CORE: u64 = 16;

/// About what a task for a request takes until it is looked at, in bytes.
const TASK_BYTES: u64 = 2 << 10;

/// What a header field takes beside its name and value: its places in the map, which grow by doubling, and the heads of both texts.
const FIELD_BYTES: usize = 256;

/// What the headers of most requests take at most. More is counted until the request is answered.
const USUAL_HEADERS: u64 = 8 << 10;

/// The share of the head of a request.
#[derive(Debug)]
pub struct Head {
    until_admitted: Option<Share>,
    _until_answered: Option<Share>,
}

impl Head {
    /// The request waits no longer for authentication and authorization.
    pub fn admitted(&mut self) {
        self.until_admitted = None;
    }
}

/// About what headers take in memory, in bytes. Over HTTP/2 a field can be one byte on the wire.
pub fn header_bytes(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + FIELD_BYTES) as u64).sum()
}

/// About what a request takes until it is looked at, in bytes.
pub fn unstarted_bytes<Body>(request: &Request<Body>) -> u64 {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len() as u64);
    let query = request.extensions().get::<LongQuery>().map_or(0, |query| query.length() as u64);
    TASK_BYTES + path + query + header_bytes(request.headers())
}

/// What one request holds of a quantity that users share.
pub type Share = shares::Share<User>;

/// Whom limits are shared by. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct User(Arc<str>);

impl User {
    /// An authenticated user.
    pub fn named(name: &str) -> User {
        User(Arc::from(name))
    }

    /// Whoever connects from an address, where nobody is authenticated.
    pub fn at(address: IpAddr) -> User {
        match origin_of(address) {
            IpAddr::V6(network) => User::named(&format!("{network}/64")),
            address => User::named(&address.to_string()),
        }
    }

    /// The name, or the address.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// For requests that come over no connection.
impl Default for User {
    fn default() -> User {
        User::named("local")
    }
}

/// What counts as one address: a host usually has a whole /64 of IPv6.
fn origin_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [first, second, third, fourth, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(first, second, third, fourth, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// In quotes: a name is the user's own choice.
impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&quote(&self.0))
    }
}

/// A limit by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Connections at a time.
    Connections,
    /// Connections at a time on which no request was authenticated.
    UnauthenticatedConnections,
    /// Connections of one address.
    ConnectionsPerAddress,
    /// Authenticated connections of one user.
    ConnectionsPerUser,
    /// Bytes of requests of HTTP/2 that have arrived and were not looked at yet.
    UnstartedRequests,
    /// Watches of one user.
    WatchesPerUser,
    /// Seats: work in progress.
    Seats,
    /// Large lists in flight.
    Lists,
    /// Bytes of large lists in flight.
    ListBytes,
    /// Bytes of watches that clients have not read.
    UnreadBytes,
    /// Request bodies in memory.
    Bodies,
    /// Bytes of request bodies in memory.
    BodyBytes,
    /// Memory of the copies.
    Memory,
}

impl Limit {
    /// All of them.
    pub const ALL: [Limit; 13] = [
        Limit::Connections,
        Limit::UnauthenticatedConnections,
        Limit::ConnectionsPerAddress,
        Limit::ConnectionsPerUser,
        Limit::UnstartedRequests,
        Limit::WatchesPerUser,
        Limit::Seats,
        Limit::Lists,
        Limit::ListBytes,
        Limit::UnreadBytes,
        Limit::Bodies,
        Limit::BodyBytes,
        Limit::Memory,
    ];

    /// As a label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Limit::Connections => "connections",
            Limit::UnauthenticatedConnections => "unauthenticated-connections",
            Limit::ConnectionsPerAddress => "connections-per-address",
            Limit::ConnectionsPerUser => "connections-per-user",
            Limit::UnstartedRequests => "unstarted-requests",
            Limit::WatchesPerUser => "watches-per-user",
            Limit::Seats => "seats",
            Limit::Lists => "lists",
            Limit::ListBytes => "list-bytes",
            Limit::UnreadBytes => "unread-bytes",
            Limit::Bodies => "bodies",
            Limit::BodyBytes => "body-bytes",
            Limit::Memory => "memory",
        }
    }

    /// As the reason of a cause in a Status, and of a condition.
    pub fn reason(self) -> &'static str {
        match self {
            Limit::Connections => "ConnectionLimit",
            Limit::UnauthenticatedConnections => "UnauthenticatedConnectionLimit",
            Limit::ConnectionsPerAddress => "ConnectionsPerAddressLimit",
            Limit::ConnectionsPerUser => "ConnectionsPerUserLimit",
            Limit::UnstartedRequests => "UnstartedRequestLimit",
            Limit::WatchesPerUser => "WatchesPerUserLimit",
            Limit::Seats => "SeatLimit",
            Limit::Lists => "ListLimit",
            Limit::ListBytes => "ListBytesLimit",
            Limit::UnreadBytes => "UnreadBytesLimit",
            Limit::Bodies => "BodyLimit",
            Limit::BodyBytes => "BodyBytesLimit",
            Limit::Memory => "MemoryLimit",
        }
    }

    /// The option that sets it, or of which it is a part.
    pub fn flag(self) -> &'static str {
        match self {
            Limit::Connections
            | Limit::UnauthenticatedConnections
            | Limit::ConnectionsPerAddress
            | Limit::ConnectionsPerUser
            | Limit::UnstartedRequests => "--max-connections",
            Limit::WatchesPerUser => "--max-watches-per-user",
            Limit::Seats => "--max-seats",
            Limit::Lists => "--max-lists",
            Limit::ListBytes => "--max-list-bytes",
            Limit::UnreadBytes => "--max-unread-bytes",
            Limit::Bodies => "--max-bodies",
            Limit::BodyBytes => "--max-body-bytes",
            Limit::Memory => "--memory-limit",
        }
    }
}

/// Refused for a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// Which.
    pub limit: Limit,
    /// For a person: the limit, its option and value, and the remedy.
    pub message: String,
    /// Seconds after which to come again, where a little time helps.
    pub retry_after: Option<u64>,
}

impl Limited {
    /// There is no memory for a copy. Time alone does not help.
    pub fn memory(over: &OverMemory) -> Limited {
        Limited { limit: Limit::Memory, message: over.to_string(), retry_after: None }
    }
}

/// How much there may be of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// `--max-connections`.
    pub connections: usize,
    /// `--max-watches-per-user`.
    pub watches_per_user: u64,
    /// `--max-seats`.
    pub seats: u64,
    /// `--max-lists`.
    pub lists: usize,
    /// `--max-list-bytes`.
    pub list_bytes: quantity::Bytes,
    /// `--max-unread-bytes`.
    pub unread_bytes: quantity::Bytes,
    /// `--max-bodies`.
    pub bodies: u64,
    /// `--max-body-bytes`.
    pub body_bytes: quantity::Bytes,
}

/// Go clients keep one HTTP/2 connection, or a few of HTTP/1.1, each. An idle watch takes some kilobytes, so the watches of one
/// user take less than 200 MB, and what is unread of them is bounded for all together; a list that is being sent takes half a megabyte, however large it is.
impl Default for LimitSettings {
    fn default() -> LimitSettings {
        LimitSettings {
            connections: 8192,
            watches_per_user: 30_000,
            seats: default_seats(),
            lists: 100,
            list_bytes: quantity::Bytes(16 << 30),
            unread_bytes: quantity::Bytes(256 << 20),
            bodies: 64,
            body_bytes: quantity::Bytes(64 << 20),
        }
    }
}

/// Seats where none are named: so many for each processor that the process may use.
pub fn default_seats() -> u64 {
    available_parallelism().map_or(1, |cores| cores.get() as u64).saturating_mul(SEATS_PER_CORE)
}

/// What is counted, and how often it was too much.
#[derive(Debug)]
pub struct Limits {
    settings: LimitSettings,
    connections: Arc<Connections>,
    watches: Arc<Watches>,
    seats: Arc<Seats>,
    lists: Arc<Lists>,
    unread: Arc<Unread>,
    bodies: Arc<Bodies>,
    /// Bytes of requests that wait for authentication and authorization.
    heads: Arc<Shares<User>>,
    refused: [AtomicU64; Limit::ALL.len()],
}

impl Limits {
    /// Nothing is used.
    pub fn new(settings: LimitSettings) -> Limits {
        Limits {
            settings,
            connections: Arc::new(Connections::new(settings.connections)),
            watches: Arc::new(Watches::new(settings.watches_per_user)),
            seats: Arc::new(Seats::new(settings.seats)),
            lists: Arc::new(Lists::new(&settings)),
            unread: Arc::new(Unread::new(settings.unread_bytes)),
            bodies: Arc::new(Bodies::new(&settings)),
            heads: Arc::new(Shares::new(settings.body_bytes.0, FIRST_HEAD)),
            refused: Default::default(),
        }
    }

    /// How much there may be.
    pub fn settings(&self) -> LimitSettings {
        self.settings
    }

    /// Connections, for the listener.
    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Watches of each user.
    pub fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// Seats, for all work that requests cause.
    pub fn seats(&self) -> &Arc<Seats> {
        &self.seats
    }

    /// Large lists in flight.
    pub fn lists(&self) -> &Arc<Lists> {
        &self.lists
    }

    /// Bytes that clients have not read.
    pub fn unread(&self) -> &Arc<Unread> {
        &self.unread
    }

    /// Takes the share of a request that waits for authentication and authorization; `path`: the bytes of its path and query, `headers`:
    /// what its headers take in memory, `user`: the address where the user is not known yet.
    ///
    /// # Errors
    /// 429 when the requests of this user that wait hold as much as they may.
    pub fn admit_head(&self, user: &User, path: usize, headers: u64) -> Result<Head, Limited> {
        let (usual, long) = (headers.min(USUAL_HEADERS), headers.saturating_sub(USUAL_HEADERS));
        let until_admitted = self.take_head(user, HEAD_BYTES + path as u64 * COPIES_OF_PATH + usual)?;
        let until_answered = if long > 0 { Some(self.take_head(user, long)?) } else { None };
        Ok(Head { until_admitted: Some(until_admitted), _until_answered: until_answered })
    }

    fn take_head(&self, user: &User, bytes: u64) -> Result<Share, Limited> {
        self.heads.take(user, bytes).ok_or_else(|| {
            self.count(Limit::BodyBytes);
            let (flag, most) = (Limit::BodyBytes.flag(), quantity::Bytes(self.heads.most()));
            // Without figures: they would tell what others have waiting.
            let message = format!(
                "too many requests, please try again later: requests of {user} that wait for authentication or authorization hold as \
                 much as they may, which is what is free of {flag}={most}. Send fewer at a time, or raise {flag}"
            );
            Limited { limit: Limit::BodyBytes, message, retry_after: Some(RETRY_AFTER) }
        })
    }

    /// Request bodies in memory.
    pub fn bodies(&self) -> &Arc<Bodies> {
        &self.bodies
    }

    /// A request was refused for this limit.
    pub fn count(&self, limit: Limit) {
        self.refused[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many have been.
    pub fn refused(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Connections => self.connections.refused(),
            Limit::UnauthenticatedConnections => self.connections.closed(CloseReason::Evicted),
            Limit::ConnectionsPerAddress => self.connections.refused_by_share(),
            Limit::ConnectionsPerUser => self.connections.refused_by_user(),
            Limit::UnstartedRequests => self.connections.refused_streams(),
            Limit::UnreadBytes => self.unread.ended(),
            _ => self.refused[limit as usize].load(Ordering::Relaxed),
        }
    }
}
