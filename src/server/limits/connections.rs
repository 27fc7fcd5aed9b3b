//! The table of connections: how many are open, who may take a place, and what a rejected one is sent before it is closed.
//!
//! A connection is unauthenticated until a request on it was authenticated. The rules of [`Connections::enter`]:
//!
//! - At most `--max-connections` are open.
//! - Unauthenticated connections have a quarter of the places; the others are reserved. When that part is full, or the whole table
//!   is, a new connection takes the place of an unauthenticated one: the oldest of the address that has most of them. So an
//!   attacker with one address loses its own connections, and one with many addresses has to open connections faster than a
//!   client takes to authenticate, times their number.
//! - While at least half of the places are taken, one address may have a quarter of them. A further connection takes the place of
//!   the oldest unauthenticated one of the same address, and is rejected if there is none.
//!
//! Addresses of IPv6 count together by their /64 network, which one host can have whole. Where clients need no credentials, only
//! the first rule applies.
//!
//! A rejected connection is still accepted, as otherwise it would wait in the kernel without an answer: it is answered in the protocol
//! that it begins with and closed, as far as that can be done by a few at a time and within seconds; the rest are closed at once.
//! Over TLS it is closed without an answer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Limit, Limited};
use crate::server::connection::{CloseReason, ConnectionState};
use crate::server::failure::Failure;

/// Connections at a time of the listener for metrics. More would use file descriptors that are meant for others.
pub const METRICS_CONNECTIONS: usize = 64;

/// How many are told at a time.
const TOLD_AT_ONCE: usize = 64;

/// How long one that is being told may take to ask and to read.
const PATIENCE: Duration = Duration::from_secs(2);

/// So much of what it says is read at most before it is closed, in bytes; closing with something unread would reset the
/// connection before the answer is seen.
const MOST_READ: usize = 64 << 10;

/// Unauthenticated connections, and those of one address in a crowded table, have this part of the places.
const PART: usize = 4;

/// An address has at least so many places.
const LEAST_SHARE: usize = 4;

/// Evicted connections that have not ended yet, at most; beyond that new ones are rejected.
const MOST_CLOSING: usize = 64;

/// How many unauthenticated connections are looked at for one without a pending request before one with such a request is evicted.
const MOST_CANDIDATES: usize = 16;

/// An address of IPv4, or a /64 network of IPv6. Requests without a socket have none.
type Origin = Option<IpAddr>;

/// Counts connections, and chooses which ones may stay.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    table: Mutex<Table>,
    refused: AtomicU64,
    refused_by_share: AtomicU64,
    closed: [AtomicU64; CloseReason::ALL.len()],
    telling: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Table {
    /// Numbers connections in the order of their arrival.
    next: u64,
    open: usize,
    unauthenticated: usize,
    /// Numbers of connections that were evicted, but have not ended yet; they are counted in `open`.
    evicted: BTreeSet<u64>,
    origins: HashMap<Origin, FromOrigin>,
    /// Origins with unauthenticated connections: the last has most of them, and of several with as many the oldest one.
    ranking: BTreeSet<(usize, Reverse<u64>, Origin)>,
}

/// Connections from one origin.
#[derive(Debug, Default)]
struct FromOrigin {
    /// Without those that were evicted.
    open: usize,
    unauthenticated: BTreeMap<u64, Arc<ConnectionState>>,
}

/// An open connection, counted; no longer when dropped.
#[derive(Debug)]
pub struct CountedConnection {
    connections: Arc<Connections>,
    number: u64,
    origin: Origin,
}

/// Where a connection stands in the table.
#[derive(Debug)]
pub struct Place {
    connections: Weak<Connections>,
    number: u64,
    origin: Origin,
}

impl Place {
    /// The connection has authenticated: it takes a reserved place, unless it was evicted before.
    pub(in crate::server) fn promote(&self) {
        if let Some(connections) = self.connections.upgrade() {
            connections.table().take_unauthenticated(self.origin, self.number);
        }
    }
}

impl FromOrigin {
    fn rank(&self, origin: Origin) -> Option<(usize, Reverse<u64>, Origin)> {
        let (oldest, _) = self.unauthenticated.first_key_value()?;
        Some((self.unauthenticated.len(), Reverse(*oldest), origin))
    }
}

impl Table {
    /// Changes what there is from an origin, and its rank with it.
    fn change<Changed>(&mut self, origin: Origin, change: impl FnOnce(&mut FromOrigin) -> Changed) -> Changed {
        let from = self.origins.entry(origin).or_default();
        if let Some(rank) = from.rank(origin) {
            self.ranking.remove(&rank);
        }
        let changed = change(from);
        if let Some(rank) = from.rank(origin) {
            self.ranking.insert(rank);
        }
        if from.open == 0 {
            self.origins.remove(&origin);
        }
        changed
    }

    /// Takes a connection out of the unauthenticated ones; `None` if it is not among them.
    fn take_unauthenticated(&mut self, origin: Origin, number: u64) -> Option<Arc<ConnectionState>> {
        let taken = self.change(origin, |from| from.unauthenticated.remove(&number));
        self.unauthenticated -= usize::from(taken.is_some());
        taken
    }

    /// The unauthenticated connection that has to make place: of `origin`, or of the origin that has most.
    fn victim(&self, origin: Option<Origin>) -> Option<(Origin, u64)> {
        let oldest = |origin: Origin| {
            let from = self.origins.get(&origin)?;
            let mut candidates = from.unauthenticated.iter().take(MOST_CANDIDATES);
            let idle = candidates.find(|(_, state)| !state.is_pending()).map(|(number, _)| *number);
            Some((idle.is_some(), (origin, idle.or_else(|| from.unauthenticated.keys().next().copied())?)))
        };
        if let Some(origin) = origin {
            return oldest(origin).map(|(_, found)| found);
        }
        let (most, _, first) = *self.ranking.last()?;
        let mut equals = self.ranking.iter().rev().take_while(|(count, ..)| *count == most).take(MOST_CANDIDATES);
        let idle = equals.find_map(|(_, _, origin)| oldest(*origin).filter(|(is_idle, _)| *is_idle));
        idle.or_else(|| oldest(first)).map(|(_, found)| found)
    }

    fn evict(&mut self, (origin, number): (Origin, u64)) {
        if let Some(state) = self.take_unauthenticated(origin, number) {
            self.change(origin, |from| from.open -= 1);
            self.evicted.insert(number);
            state.evict();
        }
    }
}

impl Connections {
    /// None is open.
    pub fn new(most: usize) -> Connections {
        Connections {
            most,
            table: Mutex::default(),
            refused: AtomicU64::new(0),
            refused_by_share: AtomicU64::new(0),
            closed: Default::default(),
            telling: Arc::new(Semaphore::new(TOLD_AT_ONCE)),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection a place, if need be that of another one; `None` when it has to be rejected.
    pub fn enter(self: &Arc<Connections>, state: &Arc<ConnectionState>) -> Option<CountedConnection> {
        let origin = state.address().map(origin_of);
        let is_trusted = state.is_authenticated();
        let mut table = self.table();
        let live = table.open - table.evicted.len();
        let is_full = live >= self.most || (!is_trusted && table.unauthenticated >= self.most_unauthenticated());
        let is_over_share = !is_trusted
            && live >= self.most.div_ceil(2)
            && table.origins.get(&origin).is_some_and(|from| from.open >= self.share());
        if is_full || is_over_share {
            let victim = if is_trusted { None } else { table.victim(is_over_share.then_some(origin)) };
            let Some(victim) = victim.filter(|_| table.evicted.len() < MOST_CLOSING) else {
                let counter = if is_over_share { &self.refused_by_share } else { &self.refused };
                counter.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            table.evict(victim);
            self.count_closed(CloseReason::Evicted);
        }
        let number = table.next;
        table.next += 1;
        table.open += 1;
        table.unauthenticated += usize::from(!is_trusted);
        table.change(origin, |from| {
            from.open += 1;
            if !is_trusted {
                from.unauthenticated.insert(number, state.clone());
            }
        });
        drop(table);
        state.entered(Place { connections: Arc::downgrade(self), number, origin });
        Some(CountedConnection { connections: self.clone(), number, origin })
    }

    /// The most at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The most that may be unauthenticated at a time.
    pub fn most_unauthenticated(&self) -> usize {
        (self.most / PART).max(1)
    }

    /// The most of one address while half of the places are taken.
    pub fn share(&self) -> usize {
        (self.most / PART).max(LEAST_SHARE).min(self.most)
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.table().open
    }

    /// How many of them are unauthenticated.
    pub fn unauthenticated(&self) -> usize {
        self.table().unauthenticated
    }

    /// How many the address with most of them has.
    pub fn of_busiest(&self) -> usize {
        self.table().origins.values().map(|from| from.open).max().unwrap_or_default()
    }

    /// How many were refused because the table was full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How many were refused because their address had its share.
    pub fn refused_by_share(&self) -> u64 {
        self.refused_by_share.load(Ordering::Relaxed)
    }

    /// The server has ended a connection.
    pub(in crate::server) fn count_closed(&self, reason: CloseReason) {
        self.closed[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many the server has ended for a reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize].load(Ordering::Relaxed)
    }

    /// Tells a connection that was not let in, and closes it.
    pub(in crate::server) async fn turn_away(&self, stream: TcpStream) {
        if let Ok(_turn) = self.telling.clone().try_acquire_owned() {
            // Whatever goes wrong, it is closed.
            let _ = timeout(PATIENCE, self.tell(stream)).await;
        }
    }

    async fn tell(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut first = [0; 4];
        let mut read = 0;
        // Enough to know HTTP/2 by: no method of HTTP/1.1 begins like its preface.
        while read < first.len() {
            match stream.read(&mut first[read..]).await? {
                0 => return Ok(()),
                more => read += more,
            }
        }
        match &first {
            b"PRI " => stream.write_all(&self.go_away()).await?,
            [letter, ..] if letter.is_ascii_uppercase() => stream.write_all(&self.answer()).await?,
            _ => return Ok(()),
        }
        stream.shutdown().await?;
        let mut rest = vec![0; 4 << 10];
        let mut read = 0;
        while read < MOST_READ {
            match stream.read(&mut rest).await? {
                0 => break,
                more => read += more,
            }
        }
        Ok(())
    }

    fn limited(&self) -> Limited {
        let message = format!(
            "too many connections: this server has as many open as it may. Send requests over connections that are open (one \
             of HTTP/2 carries two thousand at a time), close idle ones, or raise --max-connections={}",
            self.most
        );
        Limited { limit: Limit::Connections, message, retry_after: Some(1) }
    }

    fn answer(&self) -> Vec<u8> {
        let failure = Failure::Limited(self.limited());
        let mut body = failure.status();
        body.push(b'\n');
        let code = failure.code();
        let mut answer = format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\ncache-control: no-cache, \
             private\r\nretry-after: {}\r\nconnection: close\r\n\r\n",
            code.as_u16(),
            code.canonical_reason().unwrap_or_default(),
            body.len(),
            failure.retry_after().unwrap_or(1),
        )
        .into_bytes();
        answer.append(&mut body);
        answer
    }

    /// HTTP/2's frames for "go away": empty SETTINGS, which must come first, and GOAWAY with ENHANCE_YOUR_CALM and the message
    /// (RFC 9113, 3.4 and 6.8).
    fn go_away(&self) -> Vec<u8> {
        const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        const ENHANCE_YOUR_CALM: u32 = 0xb;
        let message = self.limited().message;
        let length = u32::try_from(message.len() + 8).unwrap_or_default().to_be_bytes();
        let mut frames = SETTINGS.to_vec();
        frames.extend_from_slice(&length[1..]);
        frames.extend_from_slice(&[7, 0, 0, 0, 0, 0]);
        // No stream was looked at, so all can be sent again elsewhere.
        frames.extend_from_slice(&0u32.to_be_bytes());
        frames.extend_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
        frames.extend_from_slice(message.as_bytes());
        frames
    }
}

/// Connections that count together.
fn origin_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [first, second, third, fourth, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(first, second, third, fourth, 0, 0, 0, 0))
        }
        address => address,
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.open -= 1;
        if !table.evicted.remove(&self.number) {
            table.take_unauthenticated(self.origin, self.number);
            table.change(self.origin, |from| from.open -= 1);
        }
    }
}
