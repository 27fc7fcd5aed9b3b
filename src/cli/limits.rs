//! `--max-...`, `--memory-limit`, `--history-...`, and the limit of open files of the process.
//!
//! `flow_control` and `registry` apply the limits. The limit of open files is raised as far as possible, as Go programs
//! do at their start. The server can reject a connection with a message only while the process can accept it.

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::flow_control::limit::{LimitSettings, default_seats};
use crate::model::quantity::Bytes;
use crate::store::HistoryLimits;

/// Open files beside connections of clients: the source, forwarded requests, metrics, the runtime.
const OTHER_FILES: u64 = 512;

/// The largest request body, in bytes.
const MOST_OF_A_BODY: u64 = 3 << 20;

/// Limits of `fieldcache serve`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArguments {
    /// Maximum number of client connections. The server closes further ones, over plain HTTP after a message. With
    /// authentication, at most a quarter may be connections without credentials. While half of the maximum is open, at
    /// most a quarter may come from one address
    #[arg(long, value_name = "COUNT", default_value = "8192", value_parser = at_least_one)]
    pub max_connections: u64,
    /// Maximum number of watches of one user (without authentication: of one address). A watch that holds much memory
    /// counts as several. All users together may have four times as many, shared fairly. The server rejects further
    /// watches with 429
    #[arg(long, value_name = "COUNT", default_value = "30000", value_parser = at_least_one)]
    pub max_watches_per_user: u64,
    /// Maximum number of seats: requests that the server works on at the same time. A request takes a seat for about a
    /// millisecond. Then the next request in the queue gets the seat. For each seat, up to 128 requests of one user
    /// wait; the server rejects further requests with 429. Default: 16 for each processor
    #[arg(long, value_name = "COUNT", value_parser = at_least_one)]
    pub max_seats: Option<u64>,
    /// Maximum number of large lists (over 4Mi) in progress. Further lists wait, up to four times this number for each
    /// user, and users take turns. The server rejects more lists with 429
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = at_least_one)]
    pub max_lists: u64,
    /// Maximum bytes of large lists in progress. Further lists wait or are rejected, as for --max-lists
    #[arg(long, value_name = "QUANTITY", default_value = "16Gi", value_parser = Bytes::parse)]
    pub max_list_bytes: Bytes,
    /// Maximum bytes of watch events that clients have not read. Beyond it, the server ends watches of the slowest
    /// clients, first those of the user with the most unread bytes. Unread bytes of all other responses have a maximum
    /// of the same size
    #[arg(long, value_name = "QUANTITY", default_value = "256Mi", value_parser = Bytes::parse)]
    pub max_unread_bytes: Bytes,
    /// Maximum number of bodies in memory: of reviews, and of responses to forwarded writes. One user may have at most
    /// half of what other users leave free; the server rejects further reviews with 429. Up to a quarter more is
    /// reserved for users with few bodies
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = at_least_two)]
    pub max_bodies: u64,
    /// Maximum bytes of the bodies that --max-bodies counts, with the same rules. Requests that wait for authentication
    /// or authorization have a maximum of the same size
    #[arg(long, value_name = "QUANTITY", default_value = "64Mi", value_parser = at_least_two_bodies)]
    pub max_body_bytes: Bytes,
    /// Load no further store while the loaded stores, including their histories, take this much memory. When they take
    /// one and a half times as much, fieldcache unloads the store that has grown most. Default: no limit
    #[arg(long, value_name = "QUANTITY", value_parser = Bytes::parse)]
    pub memory_limit: Option<Bytes>,
    /// Maximum number of changes in the history of each store of a cluster's resource, for watches that resume and
    /// lists of past versions [default: 102400]
    #[arg(long, value_name = "COUNT", value_parser = at_least_one)]
    pub history_changes: Option<u64>,
    /// Maximum memory of the previous states of objects in the history of each store. The history drops the oldest
    /// states first [default: 64Mi]
    #[arg(long, value_name = "QUANTITY", value_parser = Bytes::parse)]
    pub history_memory: Option<Bytes>,
}

/// Parses a count of 1 or more.
fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("use a count of 1 or more".to_owned()),
    }
}

/// Parses a count of 2 or more: one user alone may have half.
fn at_least_two(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count > 1 => Ok(count),
        _ => Err("use a count of 2 or more".to_owned()),
    }
}

/// Parses the maximum bytes of bodies. A user may have half of them, which must be enough for one body.
fn at_least_two_bodies(text: &str) -> Result<Bytes, String> {
    let bytes = Bytes::parse(text).map_err(|error| error.to_string())?;
    if bytes.0 < 2 * MOST_OF_A_BODY {
        return Err(format!("use {} or more", Bytes(2 * MOST_OF_A_BODY)));
    }
    Ok(bytes)
}

impl LimitArguments {
    /// The first option about history that was given; `None`: neither was.
    pub fn history_option(&self) -> Option<&'static str> {
        let changes = self.history_changes.map(|_| "--history-changes");
        changes.or(self.history_memory.map(|_| "--history-memory"))
    }

    /// Limits of the history of each store.
    pub fn history(&self) -> HistoryLimits {
        let usual = HistoryLimits::default();
        HistoryLimits {
            changes: self.history_changes.map_or(usual.changes, count),
            bytes: self.history_memory.map_or(usual.bytes, |bytes| bytes.0),
        }
    }

    /// The limits of the server. Raises the limit of open files of the process for `--max-connections`. If that limit
    /// still allows fewer connections, logs a warning and returns the smaller number.
    pub fn settings(&self) -> LimitSettings {
        let connections = connections(self.max_connections, raise_open_files(self.max_connections + OTHER_FILES));
        if connections < self.max_connections {
            tracing::warn!(
                max_connections = self.max_connections,
                connections,
                "the limit of open files allows fewer connections than --max-connections: raise it (ulimit -n, LimitNOFILE), or use a smaller --max-connections"
            );
        }
        LimitSettings {
            connections: count(connections),
            watches_per_user: self.max_watches_per_user,
            seats: self.max_seats.unwrap_or_else(default_seats),
            lists: count(self.max_lists),
            list_bytes: self.max_list_bytes,
            unread_bytes: self.max_unread_bytes,
            bodies: self.max_bodies,
            body_bytes: self.max_body_bytes,
        }
    }
}

/// A count as `usize`; the largest one if it does not fit.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// How many of the `wanted` connections fit into the limit of open files, at least 1. `open_files`: `None` if there is
/// no limit.
pub(super) fn connections(wanted: u64, open_files: Option<u64>) -> u64 {
    let Some(open_files) = open_files else { return wanted };
    // Connections get the limit without OTHER_FILES, or half of it if that is more.
    wanted.min(open_files.saturating_sub(OTHER_FILES).max(open_files / 2)).max(1)
}

/// Raises the limit of open files of the process to `wanted`, or as far as possible. Returns the limit; `None`: no
/// limit.
fn raise_open_files(wanted: u64) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current?;
    let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if raised > current && setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).is_ok() {
        return Some(raised);
    }
    Some(current)
}
