//! The table of connections. It limits how many connections are open, and chooses which ones are closed for others.
//!
//! Each open connection has a place in the table. A connection is unauthenticated until a request on it is
//! authenticated. The rules for a new connection ([`Connections::enter`]):
//!
//! - At most `--max-connections` connections are open.
//! - Unauthenticated connections have a quarter of the places. The other places are reserved. If the quarter is full,
//!   a new connection takes the place of an unauthenticated one: the oldest of the address that has most of them. So
//!   an attacker with one address loses its own connections. An attacker with many addresses can keep others out only
//!   by filling the quarter faster than clients authenticate.
//! - While at least half of the places are taken, one address may have a quarter of them. A further connection takes
//!   the place of the oldest unauthenticated one of the same address, or is rejected if there is none.
//!
//! With its first authenticated request, a connection takes a reserved place, for the user of that request. The rules
//! ([`ConnectionHandle::promote`]) are max-min fairness between tenants, and then between the users of each:
//!
//! - While reserved places are free, a user may take any number of them.
//! - If none is free, one connection of the tenant with the most connections is closed: one of its user with the most.
//!   This tenant must then still have at least as many as the new one. So a tenant with fewer connections than the
//!   equal part always gets a place, and a tenant with one connection keeps it.
//! - If the tenant of the new connection has the most, the same rule applies to its users.
//! - Otherwise an idle connection of the same user is closed. If there is none, the request is rejected with 429 and
//!   its connection ends.
//!
//! A connection with requests of several users counts for the user of the first one. The connection of a front proxy,
//! such as kube-apiserver, counts for the front proxy (`Access::connection_user`). A WebSocket carries one request. So
//! it counts for the user of this request, and not for the address of the front proxy ([`ConnectionHandle::reassign`]).
//!
//! An authenticated connection that is closed for another one ends gracefully: GOAWAY over HTTP/2, after the response
//! over HTTP/1.1, and 10 s later at the latest. An unauthenticated connection is closed at once.
//!
//! IPv6 addresses of one /64 network count as one address, because one host can have a whole network. If the server
//! does not authenticate clients, only the first rule applies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::connection::{CloseReason, ConnectionState};
use super::groups::ConnectionGroups;
use super::limit::{Limit, Limited, RETRY_AFTER};
use super::tenant_connections::TenantConnections;
use super::user::{User, UserShare, origin_of};
use crate::model::quantity::Bytes;
use crate::model::shares::Shares;

/// The maximum number of connections of the listener for metrics. More would take file descriptors from other
/// connections.
pub const METRICS_CONNECTIONS: usize = 64;

/// The divisor of the maximum number of connections. All unauthenticated connections together have this part, and so
/// has one address while half of the places are taken.
const PART: usize = 4;

/// The limit for the connections of one address is at least this many, if the table has as many places.
const LEAST_SHARE: usize = 4;

/// The maximum memory of HTTP/2 requests that have arrived and are not processed yet, in bytes. In one poll of its
/// connection, a client can send thousands of requests, with headers that take one byte each on the wire.
pub const MOST_UNSTARTED: u64 = 64 << 20;

// Limits of the memory of HTTP/2 requests that are not processed yet, in bytes. Above them, connections are not read
// until requests are processed, because each of these requests delays the next turn of all clients.

/// Unauthenticated connections are not read while the unprocessed requests of all clients take more than this many
/// bytes.
const MOST_UNAUTHENTICATED_UNSTARTED: u64 = 4 << 20;

/// Authenticated connections are not read while the unprocessed requests of all clients take more than this many bytes.
const MOST_READ_UNSTARTED: u64 = 16 << 20;

/// The connections of an address are not read while its unprocessed requests take more than this many bytes.
const MOST_UNSTARTED_OF_ADDRESS: u64 = 1 << 20;

/// The memory that the unprocessed requests of one address may take even if all others take the maximum, in bytes.
const FIRST_UNSTARTED: u64 = 512 << 10;

/// The memory that a long head counts as while its length is not known, in bytes.
pub const LONG_HEAD: u64 = 2 << 20;

/// The maximum memory of all long heads, in bytes.
pub const MOST_HEADS: u64 = 64 << 20;

/// The maximum number of evicted connections that have not ended yet. At this number, no connection is evicted for a
/// new one, which is rejected instead.
const MOST_CLOSING: usize = 64;

/// Like [`MOST_CLOSING`], for a new connection from an address that has few ([`FEW`]). Otherwise addresses that open
/// connections all the time would keep all other addresses out. Hundreds of their connections are evicted before the
/// tasks of these connections run.
const MOST_CLOSING_FOR_FEW: usize = 8 * MOST_CLOSING;

/// An address has few connections if it has at most one for each [`FEW`] unauthenticated connections of the address
/// with the most.
const FEW: usize = 4;

/// The maximum number of evicted connections that end gracefully at the same time. With more, the oldest of them is
/// closed at once.
const MOST_GRACEFUL: usize = MOST_CLOSING / 2;

/// An IPv4 address, or a /64 network of IPv6: see [`origin_of`]. `None` for requests without a socket.
type Origin = Option<IpAddr>;

/// Counts connections, and chooses which ones may stay open.
#[derive(Debug)]
pub struct Connections {
    /// The maximum number of open connections.
    most: usize,
    table: Mutex<Table>,
    /// See [`Connections::rejections`].
    rejections: AtomicU64,
    /// See [`Connections::rejections_by_address`].
    rejections_by_address: AtomicU64,
    /// See [`Connections::rejections_by_user`].
    rejections_by_user: AtomicU64,
    /// The number of connections that the server closed, by reason.
    closed: [AtomicU64; CloseReason::ALL.len()],
    /// The memory of HTTP/2 requests that are not processed yet.
    streams: Arc<Shares<User>>,
    /// See [`Connections::rejected_streams`].
    rejected_streams: AtomicU64,
    /// The memory of long heads.
    heads: Arc<Shares<User>>,
}

/// The open connections. Connections are numbered in the order in which they were opened.
#[derive(Debug, Default)]
struct Table {
    /// The number of the next connection.
    next: u64,
    /// The number of open connections, including evicted ones.
    open: usize,
    /// The numbers of connections that were evicted, but have not ended yet.
    evicted: BTreeSet<u64>,
    /// The evicted connections that end gracefully, by number.
    graceful: BTreeMap<u64, Arc<ConnectionState>>,
    /// The number of connections of each origin, without evicted ones.
    origins: HashMap<Origin, usize>,
    /// The unauthenticated connections by origin, without evicted ones.
    unauthenticated: ConnectionGroups<Origin, ConnectionState>,
    /// The authenticated connections by user, without evicted ones.
    authenticated: TenantConnections<ConnectionState>,
    /// The user of each authenticated connection, by number.
    users: HashMap<u64, User>,
    /// The connections that do not count for their origin: see [`ConnectionHandle::reassign`].
    without_origin: BTreeSet<u64>,
}

/// Counts an open connection until this value is dropped.
#[derive(Debug)]
pub struct CountedConnection {
    connections: Arc<Connections>,
    number: u64,
    origin: Origin,
}

/// Identifies the place of a connection in the table.
#[derive(Debug)]
pub struct ConnectionHandle {
    connections: Weak<Connections>,
    number: u64,
    origin: Origin,
}

impl ConnectionHandle {
    /// Makes the connection take a reserved place, because a request of this user was authenticated. Does nothing if
    /// the connection has a reserved place already, or was evicted.
    ///
    /// # Errors
    /// 429 if no reserved place is free for the user. The connection then ends.
    pub(crate) fn promote(&self, user: &User) -> Result<(), Limited> {
        match self.connections.upgrade() {
            Some(connections) => connections.promote(self, user),
            None => Ok(()),
        }
    }

    /// Makes an authenticated connection count for this user from now on, and no longer for its address. Used for the
    /// connection of a front proxy that carries the request of one user only. Does nothing if the connection was
    /// evicted.
    pub(crate) fn reassign(&self, user: &User) {
        let Some(connections) = self.connections.upgrade() else { return };
        let mut table = connections.lock();
        let Some(former) = table.users.insert(self.number, user.clone()) else {
            table.users.remove(&self.number);
            return;
        };
        if let Some(state) = table.authenticated.remove(&former, self.number) {
            table.authenticated.insert(user, self.number, state);
        }
        table.leave_origin(self.origin, self.number);
        table.without_origin.insert(self.number);
    }
}

impl Table {
    /// Decrements the number of connections of an origin, unless the connection with this number does not count for its
    /// origin.
    fn leave_origin(&mut self, origin: Origin, number: u64) {
        if self.without_origin.remove(&number) {
            return;
        }
        if let Some(open) = self.origins.get_mut(&origin) {
            *open -= 1;
            if *open == 0 {
                self.origins.remove(&origin);
            }
        }
    }

    /// Evicts an unauthenticated connection, which ends at once. The parameter is its origin and its number.
    fn cut(&mut self, (origin, number): (Origin, u64)) {
        if let Some(state) = self.unauthenticated.remove(&origin, number) {
            self.leave_origin(origin, number);
            self.evicted.insert(number);
            state.evict();
        }
    }

    /// Evicts an authenticated connection, which ends gracefully. The parameter is its user and its number.
    fn displace(&mut self, (user, number): (User, u64)) {
        let Some(state) = self.authenticated.remove(&user, number) else { return };
        self.users.remove(&number);
        self.leave_origin(state.address().map(origin_of), number);
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
            rejections: AtomicU64::new(0),
            rejections_by_address: AtomicU64::new(0),
            rejections_by_user: AtomicU64::new(0),
            closed: Default::default(),
            streams: Arc::new(Shares::new(MOST_UNSTARTED, FIRST_UNSTARTED)),
            rejected_streams: AtomicU64::new(0),
            heads: Arc::new(Shares::new(MOST_HEADS, LONG_HEAD)),
        }
    }

    /// Counts `bytes` of memory for a long head of a request, until the share is dropped. The caller holds the share
    /// until the request has a response. `user` is the address of the client.
    ///
    /// # Errors
    /// 429 if the long heads of this address hold the maximum.
    pub(crate) fn take_head(&self, user: &User, bytes: u64) -> Result<UserShare, Limited> {
        self.heads.take(user, bytes).ok_or_else(|| {
            self.rejected_streams.fetch_add(1, Ordering::Relaxed);
            let (limit, most) = (Limit::UnstartedRequests, Bytes(MOST_HEADS));
            // The message states no usage, which would reveal how much others send.
            let message = format!(
                "too many long requests, please try again later: requests of {user} with a long URL or many headers hold the maximum memory for one user, which is half of what other users leave free of {most}. Send fewer such requests at a time"
            );
            Limited { limit, message, retry_after: Some(RETRY_AFTER) }
        })
    }

    /// The memory of all long heads, in bytes.
    pub fn long_heads(&self) -> u64 {
        self.heads.total()
    }

    /// Counts `bytes` of memory for a request that has arrived over HTTP/2 and is not processed yet, until the share is
    /// dropped. `user` is the address of the client. `None`: the limit is reached, and the stream must be reset.
    pub(crate) fn begin_stream(&self, user: &User, bytes: u64) -> Option<UserShare> {
        let share = self.streams.take(user, bytes);
        if share.is_none() {
            self.rejected_streams.fetch_add(1, Ordering::Relaxed);
        }
        share
    }

    /// Whether a connection must not be read now, because too many requests are not processed yet. `user` is the
    /// address of the client; `is_authenticated` states whether the connection is authenticated.
    pub(crate) fn must_pause(&self, user: &User, is_authenticated: bool) -> bool {
        let most = if is_authenticated { MOST_READ_UNSTARTED } else { MOST_UNAUTHENTICATED_UNSTARTED };
        let (all, of_user) = self.streams.total_and_amount_of(user);
        all > most || of_user > MOST_UNSTARTED_OF_ADDRESS
    }

    /// The memory of HTTP/2 requests that have arrived and are not processed yet, in bytes.
    pub fn unstarted(&self) -> u64 {
        self.streams.total()
    }

    /// The number of HTTP/2 streams that were reset because too many requests were not processed yet. Includes
    /// requests that were rejected because of the memory of long heads.
    pub fn rejected_streams(&self) -> u64 {
        self.rejected_streams.load(Ordering::Relaxed)
    }

    /// Locks the table.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a new connection a place, and evicts another connection for it if necessary. `None`: the connection must
    /// be rejected.
    pub fn enter(self: &Arc<Connections>, state: &Arc<ConnectionState>) -> Option<CountedConnection> {
        let origin = state.address().map(origin_of);
        // A new connection is authenticated only if the server does not authenticate clients.
        let is_trusted = state.is_authenticated();
        let mut table = self.lock();
        // The connections that are not evicted.
        let live = table.open - table.evicted.len();
        let is_full =
            live >= self.most || (!is_trusted && table.unauthenticated.total() >= self.most_unauthenticated());
        let is_over_share = !is_trusted
            && live >= self.most.div_ceil(2)
            && table.origins.get(&origin).is_some_and(|open| *open >= self.most_per_address());
        if is_full || is_over_share {
            let victim = match is_over_share {
                true => table.unauthenticated.first_of(&origin).map(|number| (origin, number)),
                false => table.unauthenticated.first_of_largest(),
            };
            let open = table.origins.get(&origin).copied().unwrap_or_default();
            let has_few = open.saturating_mul(FEW) <= table.unauthenticated.largest();
            let most_closing = if has_few { MOST_CLOSING_FOR_FEW } else { MOST_CLOSING };
            let Some(victim) = victim.filter(|_| !is_trusted && table.evicted.len() < most_closing) else {
                let counter = if is_over_share { &self.rejections_by_address } else { &self.rejections };
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
        state.set_place(ConnectionHandle { connections: Arc::downgrade(self), number, origin });
        Some(CountedConnection { connections: self.clone(), number, origin })
    }

    /// Implements [`ConnectionHandle::promote`]: moves a connection to the reserved places, and evicts another one
    /// for it if necessary.
    fn promote(&self, place: &ConnectionHandle, user: &User) -> Result<(), Limited> {
        let mut table = self.lock();
        // The connection has a reserved place already, was evicted, or the server does not authenticate clients.
        if !table.unauthenticated.contains(&place.origin, place.number) {
            return Ok(());
        }
        if table.authenticated.total() >= self.most_authenticated() {
            let victim = table.authenticated.victim_for(user);
            let Some(victim) = victim.filter(|_| table.evicted.len() < MOST_CLOSING) else {
                self.rejections_by_user.fetch_add(1, Ordering::Relaxed);
                return Err(self.user_limit_error(user, table.authenticated.count(user)));
            };
            table.displace(victim);
        }
        if let Some(state) = table.unauthenticated.remove(&place.origin, place.number) {
            table.authenticated.insert(user, place.number, state);
            table.users.insert(place.number, user.clone());
        }
        Ok(())
    }

    /// The maximum number of open connections.
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

    /// The maximum number of connections of one address while at least half of the places are taken.
    pub fn most_per_address(&self) -> usize {
        (self.most / PART).max(LEAST_SHARE).min(self.most)
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.lock().open
    }

    /// The number of unauthenticated connections.
    pub fn unauthenticated(&self) -> usize {
        self.lock().unauthenticated.total()
    }

    /// The largest number of connections that one address has.
    pub fn of_busiest(&self) -> usize {
        self.lock().origins.values().copied().max().unwrap_or_default()
    }

    /// The largest number of authenticated connections that one user has.
    pub fn of_busiest_user(&self) -> usize {
        self.lock().authenticated.largest()
    }

    /// The number of authenticated connections for each user if all users with a connection had equally many. This is
    /// only for the metric of this limit. It is no bound, because the rules divide places between tenants first.
    pub fn equal_part(&self) -> usize {
        (self.most_authenticated() / self.lock().authenticated.users().max(1)).max(1)
    }

    /// The number of requests that were rejected because no reserved place was free for their user.
    pub fn rejections_by_user(&self) -> u64 {
        self.rejections_by_user.load(Ordering::Relaxed)
    }

    /// The number of connections that were rejected because the table, or its unauthenticated part, was full.
    pub fn rejections(&self) -> u64 {
        self.rejections.load(Ordering::Relaxed)
    }

    /// The number of connections that were rejected because their address had the maximum number of connections.
    pub fn rejections_by_address(&self) -> u64 {
        self.rejections_by_address.load(Ordering::Relaxed)
    }

    /// Counts a connection that the server has ended.
    pub(crate) fn count_closed(&self, reason: CloseReason) {
        self.closed[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of connections that the server has ended for this reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize].load(Ordering::Relaxed)
    }

    /// The error for a connection that is rejected.
    pub fn limit_error(&self) -> Limited {
        let message = format!(
            "too many connections: this server has the maximum number open. Reuse open connections (an HTTP/2 connection carries two thousand requests at a time), close idle ones, or raise --max-connections={}",
            self.most
        );
        Limited { limit: Limit::Connections, message, retry_after: Some(1) }
    }

    /// The error for a request of a user for whom no reserved place is free. `own` is the number of the user's
    /// authenticated connections.
    fn user_limit_error(&self, user: &User, own: usize) -> Limited {
        let message = format!(
            "too many connections: the maximum of {} authenticated connections is open, {own} of them by user {user}, and none of them can be closed for a new one. Reuse open connections (an HTTP/2 connection carries two thousand requests at a time), close idle ones, or raise --max-connections={}",
            self.most_authenticated(),
            self.most
        );
        Limited { limit: Limit::ConnectionsPerUser, message, retry_after: Some(1) }
    }
}

impl Drop for CountedConnection {
    /// Removes the connection from the table.
    fn drop(&mut self) {
        let mut table = self.connections.lock();
        table.open -= 1;
        // An evicted connection was removed from the other maps at once.
        if table.evicted.remove(&self.number) {
            table.graceful.remove(&self.number);
            return;
        }
        table.leave_origin(self.origin, self.number);
        match table.users.remove(&self.number) {
            Some(user) => _ = table.authenticated.remove(&user, self.number),
            None => _ = table.unauthenticated.remove(&self.origin, self.number),
        }
    }
}
