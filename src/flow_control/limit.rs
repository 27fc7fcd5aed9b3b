//! The names, options and defaults of all limits, and the error when one is reached.

use std::thread::available_parallelism;
use std::time::Duration;

use crate::model::quantity;
use crate::registry::OverMemory;

/// The longest time that a request waits in a queue: a quarter of a minute, as in kube-apiserver.
pub(super) const QUEUE_PATIENCE: Duration = Duration::from_secs(15);

/// The seconds after which a client may retry a rejected request, as in kube-apiserver's API Priority and Fairness.
pub(super) const RETRY_AFTER: u64 = 1;

/// When the waiting requests of all users are as many as the full queues of this number of users, only one request of
/// each further user may wait.
pub(super) const WAITING_USERS: usize = 16;

/// The default number of seats for each processor. A seat is about a millisecond of work, so a round of all seats takes
/// about this many milliseconds.
const SEATS_PER_CORE: u64 = 16;

/// The name of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Open connections.
    Connections,
    /// Open connections on which no request was authenticated.
    UnauthenticatedConnections,
    /// Open connections of one address.
    ConnectionsPerAddress,
    /// Open authenticated connections of one user.
    ConnectionsPerUser,
    /// Bytes of HTTP/2 requests that have arrived and are not processed yet.
    UnstartedRequests,
    /// Open watches of one user.
    WatchesPerUser,
    /// Seats: work in progress.
    Seats,
    /// Large lists in progress.
    Lists,
    /// Bytes of large lists in progress.
    ListBytes,
    /// Bytes of watches that clients have not read, and as many bytes of other responses.
    UnreadBytes,
    /// Bodies of reviews, and of responses to forwarded writes, in memory.
    Bodies,
    /// Bytes of these bodies.
    BodyBytes,
    /// Memory of the stores.
    Memory,
}

impl Limit {
    /// All limits, in the order of their numbers (`limit as usize`).
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

    /// The value of a metric label.
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

    /// The field `reason` in a cause of a Status, and in a condition.
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

    /// The command line option that sets the limit, or the limit of which this one is a part.
    /// [`Limit::UnstartedRequests`] is fixed, and returns the option of connections.
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

/// The error of a request, connection or store that is rejected because of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The limit.
    pub limit: Limit,
    /// The message for users: the limit, its option and value, and the remedy.
    pub message: String,
    /// The seconds after which a retry can succeed. `None`: waiting alone does not help.
    pub retry_after: Option<u64>,
}

impl Limited {
    /// The error for a store that exceeds the memory limit.
    pub fn memory(over: &OverMemory) -> Limited {
        Limited { limit: Limit::Memory, message: over.to_string(), retry_after: None }
    }
}

/// The configured maximum of each limit.
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

/// The defaults. A Go client uses one HTTP/2 connection, or a few of HTTP/1.1. An idle watch takes some kilobytes, so
/// the watches of one user take less than 200 MB. The unread bytes of all watches are bounded together. A list in
/// progress takes half a megabyte, whatever its length.
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

/// The default number of seats, from the number of processors that the process may use.
pub fn default_seats() -> u64 {
    available_parallelism().map_or(1, |cores| cores.get() as u64).saturating_mul(SEATS_PER_CORE)
}
