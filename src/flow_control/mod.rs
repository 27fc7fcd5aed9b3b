//! Named limits: what each counts, what happens when it is reached, and its error message.
//!
//! | limit | flag | at the most |
//! |---|---|---|
//! | [`connections`] | `--max-connections` | a message, then closed |
//! | connections without credentials | a quarter of these | one of them is closed for a new one |
//! | connections of one address, while half of all are open | a quarter of these | likewise, else closed |
//! | connections of one user, while all places for authenticated ones are taken | an equal part of three quarters of these | one of the user with most is closed for that of a user with fewer; else 429 |
//! | bytes of requests of HTTP/2 that were not looked at yet | none: 64 MiB | their streams are reset, those of the addresses with most first |
//! | [`watches`] of one user | `--max-watches-per-user` | 429 |
//! | [`seats`]: work in progress | `--max-seats` | requests wait, fairly between users ([`crate::model::fair_queue`]); past a bounded queue 429 with Retry-After |
//! | [`long_work`] on one object, beside all other work | none: one for each processor | requests wait for a permit, fairly between users |
//! | large [`lists`] in flight, and their bytes | `--max-lists`, `--max-list-bytes` | the same, by the same queue |
//! | bytes of watches that are [`unread`] by clients | `--max-unread-bytes` | the [`slowest`] readers' watches end |
//! | request [`bodies`] in memory, and their bytes | `--max-bodies`, `--max-body-bytes` | 429 with Retry-After; a user may hold as much as is free |
//! | memory of the stores | `--memory-limit` | a further store is rejected with 503; counted in `registry`, only listed here |
//!
//! A [`User`] is the unit that shares a limit. Without authentication it is the address of the peer. On the loopback
//! that is one user in practice, because all clients that connect from 127.0.0.1 are usually one person. An
//! authenticated request is counted by the user's name instead. Connections are shared by address until a request on
//! them was authenticated, then by user.
//!
//! Other costs of a request are bounded where they occur:
//!
//! - forwarded requests: `forward`
//! - streams of a connection: `listen`
//! - changes that wait for a watch: `registry::event_dispatcher`
//! - readers that have stopped: `write_timeout`, `stream_timeout`

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

/// About the memory of a request that waits for authentication or authorization, in bytes.
const HEAD_BYTES: u64 = 16 << 10;

/// What a user may have of these whatever others hold: one request with a usual path and usual headers.
const FIRST_HEAD: u64 = 2 * HEAD_BYTES;

/// Copies of a path while its request waits: in the request, its attributes, the review, and the keys of caches.
const COPIES_OF_PATH: u64 = 12;

/// What a header field takes beside its name and value: its places in the map, which grow by doubling, and the heads of both texts.
const FIELD_BYTES: usize = 256;

/// What the headers of most requests take at most. More is counted until the request has a response.
const USUAL_HEADERS: u64 = 8 << 10;

/// The share of the head of a request.
#[derive(Debug)]
pub struct HeadShare {
    until_authorized: Option<UserShare>,
    _until_answered: Option<UserShare>,
}

impl HeadShare {
    /// Releases the part that counts until the request is authenticated and authorized.
    pub fn authorized(&mut self) {
        self.until_authorized = None;
    }
}

/// The approximate memory of headers, in bytes. Over HTTP/2 a field can be one byte on the wire.
pub fn header_bytes(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + FIELD_BYTES) as u64).sum()
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
            refused: Default::default(),
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

    /// Takes the share of a request that waits for authentication and authorization.
    ///
    /// - `path`: the bytes of its path and query
    /// - `headers`: what its headers take in memory
    /// - `user`: the address where the user is not known yet
    ///
    /// # Errors
    /// 429 when the requests of this user that wait hold as much as they may.
    pub fn admit_head(&self, user: &User, path: usize, headers: u64) -> Result<HeadShare, Limited> {
        let (usual, long) = (headers.min(USUAL_HEADERS), headers.saturating_sub(USUAL_HEADERS));
        let until_admitted = self.take_head(user, HEAD_BYTES + path as u64 * COPIES_OF_PATH + usual)?;
        let until_answered = if long > 0 { Some(self.take_head(user, long)?) } else { None };
        Ok(HeadShare { until_authorized: Some(until_admitted), _until_answered: until_answered })
    }

    /// Takes memory for the head of a request.
    fn take_head(&self, user: &User, bytes: u64) -> Result<UserShare, Limited> {
        self.heads.take(user, bytes).ok_or_else(|| {
            self.count(Limit::BodyBytes);
            let (flag, most) = (Limit::BodyBytes.flag(), quantity::Bytes(self.heads.most()));
            // Without figures: they would reveal how many requests of others wait.
            let message = format!(
                "too many requests, please try again later: requests of {user} that wait for authentication or authorization take as much memory as is free of {flag}={most}. Send fewer at a time, or raise {flag}"
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
        self.refused[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of requests that this limit rejected.
    pub fn refused(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Connections => self.connections.refused(),
            Limit::UnauthenticatedConnections => self.connections.closed(CloseReason::Evicted),
            Limit::ConnectionsPerAddress => self.connections.refused_by_share(),
            Limit::ConnectionsPerUser => self.connections.refused_by_user(),
            Limit::UnstartedRequests => self.connections.refused_streams(),
            Limit::UnreadBytes => self.unread.ended(),
            Limit::WatchesPerUser
            | Limit::Seats
            | Limit::Lists
            | Limit::ListBytes
            | Limit::Bodies
            | Limit::BodyBytes
            | Limit::Memory => self.refused[limit as usize].load(Ordering::Relaxed),
        }
    }
}
