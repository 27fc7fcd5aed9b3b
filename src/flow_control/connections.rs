//! The table of connections: how many are open, and which ones may have a place.
//!
//! A connection is unauthenticated until a request on it was authenticated. The rules of [`Connections::enter`]:
//!
//! - At most `--max-connections` are open.
//! - Unauthenticated connections have a quarter of the places; the others are reserved. When that part is full, a new
//!   connection takes the place of an unauthenticated one: the oldest of the address that has most of them. So an
//!   attacker with one address loses its own connections. One with many addresses has to open connections faster than a
//!   client takes to authenticate, times their number.
//! - While at least half of the places are taken, one address may have a quarter of them. A further connection takes the place of
//!   the oldest unauthenticated one of the same address, and is rejected if there is none.
//!
//! With its first authenticated request a connection takes a reserved place, for the user of that request. The rules of
//! [`ConnectionHandle::promote`] are max-min fairness between users:
//!
//! - While there are free reserved places, a user may take any number of them.
//! - When there are none, the user with the most connections loses one, if that user still has no fewer than the new
//!   one afterwards. So a user below the equal part of the places always gets in, and a user with one connection keeps
//!   it.
//! - Otherwise a connection of the same user without a request in progress makes room. If there is none, the request is rejected with
//!   429 and its connection ends.
//!
//! A connection with requests of several users counts for the user of the first one. That of a front proxy, such as
//! kube-apiserver, counts for the front proxy (`Access::connection_user`).
//!
//! An authenticated connection that makes room ends gracefully: GOAWAY over HTTP/2, after the response over HTTP/1.1, and 10 s later
//! at the latest. An unauthenticated one is cut.
//!
//! Addresses of IPv6 count together by their /64 network, which one host can have whole. Where clients need no credentials, only
//! the first rule applies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::connection::{CloseReason, ConnectionState};
use super::groups::ConnectionGroups;
use super::limit::{Limit, Limited, RETRY_AFTER};
use super::user::{User, UserShare, origin_of};
use crate::model::quantity::Bytes;
use crate::model::shares::Shares;

/// Connections at a time of the listener for metrics. More would use file descriptors that are meant for others.
pub const METRICS_CONNECTIONS: usize = 64;

/// Unauthenticated connections, and those of one address in a crowded table, have this part of the places.
const PART: usize = 4;

/// The minimum number of places of an address.
const LEAST_SHARE: usize = 4;

/// The maximum bytes of HTTP/2 requests that have arrived and are not processed yet. A peer can send thousands in the
/// time of one poll of its connection. Each header field of some of them is one byte on the wire.
pub const MOST_UNSTARTED: u64 = 64 << 20;

/// Beyond this number of bytes, connections without credentials are not read until others were processed. Beyond the
/// second one, this holds for all connections of an address with more than its part. Unprocessed requests delay the
/// next turn of every other client.
const MOST_UNAUTHENTICATED_UNSTARTED: u64 = 4 << 20;
const MOST_READ_UNSTARTED: u64 = 16 << 20;
const MOST_UNSTARTED_OF_ADDRESS: u64 = 1 << 20;

/// The bytes that one address may have whatever the others send.
const FIRST_UNSTARTED: u64 = 512 << 10;

/// What a long head takes in memory while its length is not known.
pub const LONG_HEAD: u64 = 2 << 20;

/// What all long heads may take, in bytes.
pub const MOST_HEADS: u64 = 64 << 20;

/// Evicted connections that have not ended yet, at most; beyond that new ones are rejected.
const MOST_CLOSING: usize = 64;

/// The same for new connections of addresses that have no other one. An address that opens and closes connections all the time would
/// otherwise keep all others out.
const MOST_CLOSING_FOR_NEW: usize = 2 * MOST_CLOSING;

/// The maximum of evicted connections that end gracefully; beyond that the oldest is cut.
const MOST_GRACEFUL: usize = MOST_CLOSING / 2;

/// An address of IPv4, or a /64 network of IPv6. Requests without a socket have none.
type Origin = Option<IpAddr>;

/// Counts connections, and chooses which ones may stay.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    table: Mutex<Table>,
    refused: AtomicU64,
    refused_by_share: AtomicU64,
    refused_by_user: AtomicU64,
    closed: [AtomicU64; CloseReason::ALL.len()],
    streams: Arc<Shares<User>>,
    refused_streams: AtomicU64,
    heads: Arc<Shares<User>>,
}

#[derive(Debug, Default)]
struct Table {
    /// Numbers connections in the order of their arrival.
    next: u64,
    open: usize,
    /// Numbers of connections that were evicted, but have not ended yet; they are counted in `open`.
    evicted: BTreeSet<u64>,
    /// The evicted connections that end gracefully.
    graceful: BTreeMap<u64, Arc<ConnectionState>>,
    /// How many each origin has, without those that were evicted.
    origins: HashMap<Origin, usize>,
    unauthenticated: ConnectionGroups<Origin, ConnectionState>,
    authenticated: ConnectionGroups<User, ConnectionState>,
    /// The users of authenticated connections.
    users: HashMap<u64, User>,
}

/// An open connection, counted; no longer when dropped.
#[derive(Debug)]
pub struct CountedConnection {
    connections: Arc<Connections>,
    number: u64,
    origin: Origin,
}

/// The place of a connection in the table.
#[derive(Debug)]
pub struct ConnectionHandle {
    connections: Weak<Connections>,
    number: u64,
    origin: Origin,
}

impl ConnectionHandle {
    /// A request of a user was authenticated: the connection takes a reserved place, unless it has one or was evicted before.
    ///
    /// # Errors
    /// 429 when the user has as many connections as it may. The connection then ends.
    pub(crate) fn promote(&self, user: &User) -> Result<(), Limited> {
        match self.connections.upgrade() {
            Some(connections) => connections.promote(self, user),
            None => Ok(()),
        }
    }
}

impl Table {
    /// Counts one connection less from an origin.
    fn leave_origin(&mut self, origin: Origin) {
        if let Some(open) = self.origins.get_mut(&origin) {
            *open -= 1;
            if *open == 0 {
                self.origins.remove(&origin);
            }
        }
    }

    /// Ends an unauthenticated connection at once, to free its place.
    fn cut(&mut self, (origin, number): (Origin, u64)) {
        if let Some(state) = self.unauthenticated.remove(&origin, number) {
            self.leave_origin(origin);
            self.evicted.insert(number);
            state.evict();
        }
    }

    /// Ends an authenticated connection gracefully, to free its place.
    fn displace(&mut self, (user, number): (User, u64)) {
        let Some(state) = self.authenticated.remove(&user, number) else { return };
        self.users.remove(&number);
        self.leave_origin(state.address().map(origin_of));
        self.evicted.insert(number);
        if self.graceful.len() >= MOST_GRACEFUL
            && let Some((_, oldest)) = self.graceful.pop_first()
        {
            oldest.evict();
        }
        state.displace();
        self.graceful.insert(number, state);
    }
}

impl Connections {
    /// A table for at most `most` connections; none is open yet.
    pub fn new(most: usize) -> Connections {
        Connections {
            most,
            table: Mutex::default(),
            refused: AtomicU64::new(0),
            refused_by_share: AtomicU64::new(0),
            refused_by_user: AtomicU64::new(0),
            closed: Default::default(),
            streams: Arc::new(Shares::new(MOST_UNSTARTED, FIRST_UNSTARTED)),
            refused_streams: AtomicU64::new(0),
            heads: Arc::new(Shares::new(MOST_HEADS, LONG_HEAD)),
        }
    }

    /// Takes the share of a long head of this many bytes, until its request has a response.
    ///
    /// # Errors
    /// 429 when the long heads of this address take as much as they may.
    pub(crate) fn take_head(&self, user: &User, bytes: u64) -> Result<UserShare, Limited> {
        self.heads.take(user, bytes).ok_or_else(|| {
            self.refused_streams.fetch_add(1, Ordering::Relaxed);
            let (limit, most) = (Limit::UnstartedRequests, Bytes(MOST_HEADS));
            // Without figures: they would reveal how much others send.
            let message = format!(
                "too many long requests, please try again later: requests of {user} with a long URL or many headers take as much memory as is free of {most}. Send fewer of them at a time"
            );
            Limited { limit, message, retry_after: Some(RETRY_AFTER) }
        })
    }

    /// The bytes of requests with long heads.
    pub fn long_heads(&self) -> u64 {
        self.heads.total()
    }

    /// Takes the share of a request of this many bytes that has arrived over HTTP/2, until it is processed; `None`:
    /// its stream must be reset.
    pub(crate) fn begin_stream(&self, user: &User, bytes: u64) -> Option<UserShare> {
        let share = self.streams.take(user, bytes);
        if share.is_none() {
            self.refused_streams.fetch_add(1, Ordering::Relaxed);
        }
        share
    }

    /// Whether a connection must not be read until other requests were processed.
    pub(crate) fn must_pause(&self, user: &User, is_authenticated: bool) -> bool {
        let most = if is_authenticated { MOST_READ_UNSTARTED } else { MOST_UNAUTHENTICATED_UNSTARTED };
        let (all, of_user) = self.streams.total_and_amount_of(user);
        all > most || of_user > MOST_UNSTARTED_OF_ADDRESS
    }

    /// The bytes of HTTP/2 requests that have arrived and are not processed yet.
    pub fn unstarted(&self) -> u64 {
        self.streams.total()
    }

    /// The number of streams that were reset because too many requests were not processed yet.
    pub fn refused_streams(&self) -> u64 {
        self.refused_streams.load(Ordering::Relaxed)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection a place, which may be that of another one; `None` when it must be rejected.
    pub fn enter(self: &Arc<Connections>, state: &Arc<ConnectionState>) -> Option<CountedConnection> {
        let origin = state.address().map(origin_of);
        let is_trusted = state.is_authenticated();
        let mut table = self.table();
        let live = table.open - table.evicted.len();
        let is_full =
            live >= self.most || (!is_trusted && table.unauthenticated.total() >= self.most_unauthenticated());
        let is_over_share = !is_trusted
            && live >= self.most.div_ceil(2)
            && table.origins.get(&origin).is_some_and(|open| *open >= self.share());
        if is_full || is_over_share {
            let victim = match is_over_share {
                true => table.unauthenticated.first_of(&origin).map(|number| (origin, number)),
                false => table.unauthenticated.first_of_largest(),
            };
            let is_new = !table.origins.contains_key(&origin);
            let most_closing = if is_new { MOST_CLOSING_FOR_NEW } else { MOST_CLOSING };
            let Some(victim) = victim.filter(|_| !is_trusted && table.evicted.len() < most_closing) else {
                let counter = if is_over_share { &self.refused_by_share } else { &self.refused };
                counter.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            table.cut(victim);
            self.count_closed(CloseReason::Evicted);
        }
        let number = table.next;
        table.next += 1;
        table.open += 1;
        *table.origins.entry(origin).or_default() += 1;
        if !is_trusted {
            table.unauthenticated.insert(&origin, number, state.clone());
        }
        drop(table);
        state.entered(ConnectionHandle { connections: Arc::downgrade(self), number, origin });
        Some(CountedConnection { connections: self.clone(), number, origin })
    }

    /// Moves a connection to those of a user. Evicts another connection if there is no place.
    fn promote(&self, place: &ConnectionHandle, user: &User) -> Result<(), Limited> {
        let mut table = self.table();
        if !table.unauthenticated.contains(&place.origin, place.number) {
            return Ok(());
        }
        if table.authenticated.total() >= self.most_authenticated() {
            let own = table.authenticated.count(user);
            let victim = if table.authenticated.largest() > own + 1 {
                table.authenticated.first_of_largest()
            } else {
                table.authenticated.idle_of(user).map(|number| (user.clone(), number))
            };
            let Some(victim) = victim.filter(|_| table.evicted.len() < MOST_CLOSING) else {
                self.refused_by_user.fetch_add(1, Ordering::Relaxed);
                return Err(self.limited_user(user, own));
            };
            table.displace(victim);
        }
        if let Some(state) = table.unauthenticated.remove(&place.origin, place.number) {
            table.authenticated.insert(user, place.number, state);
            table.users.insert(place.number, user.clone());
        }
        Ok(())
    }

    /// The maximum number of connections.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The maximum number of unauthenticated connections.
    pub fn most_unauthenticated(&self) -> usize {
        (self.most / PART).max(1)
    }

    /// The maximum number of authenticated connections.
    pub fn most_authenticated(&self) -> usize {
        (self.most - self.most_unauthenticated().min(self.most)).max(1)
    }

    /// The maximum of one address while half of the places are taken.
    pub fn share(&self) -> usize {
        (self.most / PART).max(LEAST_SHARE).min(self.most)
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.table().open
    }

    /// The number of unauthenticated connections.
    pub fn unauthenticated(&self) -> usize {
        self.table().unauthenticated.total()
    }

    /// The number of connections of the address with the most.
    pub fn of_busiest(&self) -> usize {
        self.table().origins.values().copied().max().unwrap_or_default()
    }

    /// The number of authenticated connections of the user with the most.
    pub fn of_busiest_user(&self) -> usize {
        self.table().authenticated.largest()
    }

    /// The equal part of each user with authenticated connections. A user may have more while there is room.
    pub fn equal_part(&self) -> usize {
        (self.most_authenticated() / self.table().authenticated.groups().max(1)).max(1)
    }

    /// The number of requests that were rejected because their user had the maximum of connections.
    pub fn refused_by_user(&self) -> u64 {
        self.refused_by_user.load(Ordering::Relaxed)
    }

    /// The number of connections that were rejected because the table was full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The number of connections that were rejected because their address had its share.
    pub fn refused_by_share(&self) -> u64 {
        self.refused_by_share.load(Ordering::Relaxed)
    }

    /// Counts a connection that the server has ended.
    pub(crate) fn count_closed(&self, reason: CloseReason) {
        self.closed[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of connections that the server has ended for this reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize].load(Ordering::Relaxed)
    }

    /// The error for a connection without a place.
    pub fn limited(&self) -> Limited {
        let message = format!(
            "too many connections: this server has the maximum number open. Reuse open connections (an HTTP/2 connection carries two thousand requests at a time), close idle ones, or raise --max-connections={}",
            self.most
        );
        Limited { limit: Limit::Connections, message, retry_after: Some(1) }
    }

    /// The error for a user with too many connections.
    fn limited_user(&self, user: &User, own: usize) -> Limited {
        let message = format!(
            "too many connections: the maximum of {} authenticated connections is open, {own} of them of user {user}, and no user has more that could be closed instead. Reuse open connections (an HTTP/2 connection carries two thousand requests at a time), close idle ones, or raise --max-connections={}",
            self.most_authenticated(),
            self.most
        );
        Limited { limit: Limit::ConnectionsPerUser, message, retry_after: Some(1) }
    }
}
impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.open -= 1;
        if table.evicted.remove(&self.number) {
            table.graceful.remove(&self.number);
            return;
        }
        table.leave_origin(self.origin);
        match table.users.remove(&self.number) {
            Some(user) => _ = table.authenticated.remove(&user, self.number),
            None => _ = table.unauthenticated.remove(&self.origin, self.number),
        }
    }
}
