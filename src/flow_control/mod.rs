//! Named limits: what each counts, what happens when it is reached, and its error message.
//!
//! | limit | option | when it is reached |
//! |---|---|---|
//! | [`connections`] | `--max-connections` | the connection is closed after a message |
//! | connections without credentials | a quarter of `--max-connections` | one of them is closed for a new one |
//! | connections of one address, while half of all are open | a quarter of `--max-connections` | one of them is closed for a new one, or else the new one |
//! | connections of one user, while all places for authenticated ones are taken | an equal part of three quarters of `--max-connections` | one of the user with most is closed for that of a user with fewer; else 429 |
//! | bytes of HTTP/2 requests that are not processed yet | none: 64 MiB | their streams are reset, first those of the addresses with most |
//! | [`watches`] of one user | `--max-watches-per-user` | 429 |
//! | [`seats`]: work in progress | `--max-seats` | requests wait in a bounded queue, fairly between users ([`crate::model::fair_queue`]); if it is full, 429 with Retry-After |
//! | [`long_work`] on one object, beside all other work | none: one for each processor | requests wait for a permit, fairly between users |
//! | large [`lists`] in progress, and their bytes | `--max-lists`, `--max-list-bytes` | as for seats, in another queue |
//! | bytes of watches that clients have not read ([`unread`]) | `--max-unread-bytes` | the watches of the [`slowest`] clients end |
//! | request [`bodies`] in memory, and their bytes | `--max-bodies`, `--max-body-bytes` | 429 with Retry-After; one user may hold half of what other users leave free |
//! | memory of the stores | `--memory-limit` | a further store is rejected with 503; `registry` counts it |
//!
//! Limits are shared between users. A [`User`] is an authenticated user, or for an unauthenticated request the
//! address of the client. All clients on the loopback address 127.0.0.1 are one user, as usually one person uses it.
//! Connections count for the address until a request on them is authenticated, then for the user.
//!
//! Other modules limit other costs of a request:
//!
//! - `forward`: forwarded requests
//! - `listen`: streams of a connection
//! - `registry::event_dispatcher`: changes that wait for a watch
//! - `write_timeout`, `stream_timeout`: clients that stop reading

pub mod bodies;
pub mod connection;
pub mod connections;
pub mod exempt;
pub(crate) mod groups;
pub mod limit;
pub mod lists;
pub mod long_work;
pub mod seats;
pub mod slowest;
mod tenant_connections;
pub mod unread;
pub mod user;
pub mod watches;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;

use self::connection::CloseReason;
use crate::model::quantity;
use crate::model::shares::Shares;

use self::bodies::Bodies;
use self::connections::Connections;
use self::limit::{Limit, LimitSettings, Limited, RETRY_AFTER};
use self::lists::Lists;
use self::seats::Seats;
use self::unread::Unread;
use self::user::{User, UserShare};
use self::watches::Watches;

/// The approximate memory of a request that waits for authentication or authorization, in bytes.
const HEAD_BYTES: u64 = 16 << 10;

/// The memory, in bytes, that the waiting requests of a user may take even if all others take the maximum: enough for
/// one request with a usual path and usual headers.
const FIRST_HEAD: u64 = 2 * HEAD_BYTES;

/// The number of copies of a path while its request waits: in the request, its attributes, the review, and keys of
/// caches.
const COPIES_OF_PATH: u64 = 12;

/// The approximate memory of a header besides its name and value, in bytes: entries in a map, which grows by
/// doubling, and the objects that hold both strings.
const FIELD_BYTES: usize = 256;

/// The memory, in bytes, that the headers of most requests do not exceed. Memory above it is counted until the request
/// has a response, not only until it is authorized.
const USUAL_HEADERS: u64 = 8 << 10;

/// Counts the memory of a request's head for its user, in two parts.
#[derive(Debug)]
pub struct HeadShare {
    /// Counts until the request is authorized; `None` after that.
    until_authorized: Option<UserShare>,
    /// Counts until the request has a response. `None` for usual headers.
    _until_answered: Option<UserShare>,
}

impl HeadShare {
    /// Releases the part that counts until the request is authenticated and authorized.
    pub fn release_authorized(&mut self) {
        self.until_authorized = None;
    }
}

/// The approximate memory of headers, in bytes. It can be much more than their bytes on the wire: over HTTP/2 a
/// header can be one byte.
pub fn header_bytes(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + FIELD_BYTES) as u64).sum()
}

/// All limits of the server, and how many requests each has rejected.
#[derive(Debug)]
pub struct Limits {
    settings: LimitSettings,
    connections: Arc<Connections>,
    watches: Arc<Watches>,
    seats: Arc<Seats>,
    lists: Arc<Lists>,
    unread: Arc<Unread>,
    bodies: Arc<Bodies>,
    /// Memory of requests that wait for authentication and authorization: at most `--max-body-bytes`, in addition to
    /// the memory of bodies.
    heads: Arc<Shares<User>>,
    /// The number of requests that each limit rejected, for limits that do not count them themselves.
    rejected: [AtomicU64; Limit::ALL.len()],
}

impl Limits {
    /// The limits by `settings`; nothing is in use yet.
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
            rejected: Default::default(),
        }
    }

    /// The configured limits.
    pub fn settings(&self) -> LimitSettings {
        self.settings
    }

    /// The limits of connections, for the listener.
    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// The limits of watches.
    pub fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// The seats for all work that requests cause.
    pub fn seats(&self) -> &Arc<Seats> {
        &self.seats
    }

    /// The limits of large lists.
    pub fn lists(&self) -> &Arc<Lists> {
        &self.lists
    }

    /// The limits of bytes that clients have not read.
    pub fn unread(&self) -> &Arc<Unread> {
        &self.unread
    }

    /// Counts the memory of a request's head while the request waits for authentication and authorization.
    ///
    /// - `user`: the address of the client, if the user is not known yet
    /// - `path`: the length of the path and the query, in bytes
    /// - `headers`: the memory of the headers, in bytes: see [`header_bytes`]
    ///
    /// # Errors
    /// 429 if the waiting requests of this user hold the maximum.
    pub fn admit_head(&self, user: &User, path: usize, headers: u64) -> Result<HeadShare, Limited> {
        let (usual, long) = (headers.min(USUAL_HEADERS), headers.saturating_sub(USUAL_HEADERS));
        let until_authorized = self.take_head(user, HEAD_BYTES + path as u64 * COPIES_OF_PATH + usual)?;
        let until_answered = if long > 0 { Some(self.take_head(user, long)?) } else { None };
        Ok(HeadShare { until_authorized: Some(until_authorized), _until_answered: until_answered })
    }

    /// Takes a share of the memory for heads of requests. The heads of all users together may take `--max-body-bytes`.
    /// A rejection is counted for the metrics.
    ///
    /// # Errors
    /// 429 if the waiting requests of this user hold the maximum.
    fn take_head(&self, user: &User, bytes: u64) -> Result<UserShare, Limited> {
        self.heads.take(user, bytes).ok_or_else(|| {
            self.count(Limit::BodyBytes);
            let (flag, most) = (Limit::BodyBytes.flag(), quantity::Bytes(self.heads.most()));
            // The message states no usage, which would reveal how many requests of others wait.
            let message = format!(
                "too many requests, please try again later: requests of {user} that wait for authentication or authorization hold the maximum memory for one user, which is half of what other users leave free of {flag}={most}. Send fewer requests at a time, or raise {flag}"
            );
            Limited { limit: Limit::BodyBytes, message, retry_after: Some(RETRY_AFTER) }
        })
    }

    /// The limits of request bodies.
    pub fn bodies(&self) -> &Arc<Bodies> {
        &self.bodies
    }

    /// Counts a request that this limit rejected.
    pub fn count(&self, limit: Limit) {
        self.rejected[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of requests, connections and streams that this limit rejected, and of connections and watches that
    /// it ended.
    pub fn rejections(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Connections => self.connections.rejections(),
            Limit::UnauthenticatedConnections => self.connections.closed(CloseReason::Evicted),
            Limit::ConnectionsPerAddress => self.connections.rejections_by_address(),
            Limit::ConnectionsPerUser => self.connections.rejections_by_user(),
            Limit::UnstartedRequests => self.connections.rejected_streams(),
            Limit::UnreadBytes => self.unread.ended(),
            Limit::WatchesPerUser
            | Limit::Seats
            | Limit::Lists
            | Limit::ListBytes
            | Limit::Bodies
            | Limit::BodyBytes
            | Limit::Memory => self.rejected[limit as usize].load(Ordering::Relaxed),
        }
    }
}
