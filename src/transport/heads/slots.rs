//! Stores the parts of a request that hyper cannot carry, between the reader of heads and the service that responds.
//!
//! hyper gets a short head instead, which has the number of the slot in a header. Clients cannot send this header: over
//! HTTP/1.1 a head with it is rejected, and over HTTP/2 the header is removed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use http::request::Parts;
use http::{HeaderMap, Request, StatusCode, Uri};

use super::target::LONGEST_URI;
use crate::flow_control::header_bytes;
use crate::flow_control::user::UserShare;
use crate::transport::head_error::HeadError;

/// The maximum number of slots of an HTTP/2 connection in use at a time.
const MOST_UNTAKEN: usize = 64;

/// The header with the number of a slot.
pub(super) const SLOT_HEADER: &str = "fieldcache-head";

/// The query of a request whose URL is too long for `http::Uri`: an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct LongQuery(pub(super) Arc<str>);

impl LongQuery {
    /// The length of the query in bytes.
    pub(crate) fn length(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for LongQuery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The share of a long head's memory, as an extension of its request. It is released when the request has a response.
#[derive(Clone, Debug)]
struct ShareGuard {
    _share: Arc<UserShare>,
}

/// The stored parts of one request.
#[derive(Debug, Default)]
pub(super) struct StoredParts {
    /// The query; `None` if the head that hyper gets has it.
    pub(super) query: Option<Arc<str>>,
    /// All headers, if the head that hyper gets has only those about the connection and the body. `None`: it has all.
    pub(super) headers: Option<HeaderMap>,
    /// Why the request is rejected; `None` if it is valid.
    pub(super) rejection: Option<HeadError>,
    /// The share of the head's memory.
    pub(super) share: Option<UserShare>,
}

impl StoredParts {
    /// The parts of a request that is rejected with this error.
    pub(super) fn rejected(failure: HeadError) -> StoredParts {
        StoredParts { rejection: Some(failure), ..StoredParts::default() }
    }
}

/// The slots of one connection.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// The number of the next slot.
    next: u64,
    /// Parts by the number of their slot.
    kept: BTreeMap<u64, StoredParts>,
    /// When h2 requested more bytes while slots were in use: the number of the connection's poll, and the next slot
    /// at that time. Slots before it are free once that poll has ended.
    requested: Option<(u64, u64)>,
    /// Wakes the reader of an HTTP/1.1 connection that waits until no slot is in use.
    waiting: Option<Waker>,
}

impl Slots {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores parts of a request and returns the number of their slot.
    pub(super) fn store(&self, kept: StoredParts) -> u64 {
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.kept.insert(number, kept);
        number
    }

    /// Ready when no slot is in use. For HTTP/1.1, where hyper passes on every request, or ends the connection.
    pub(super) fn poll_empty(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut table = self.lock();
        if table.kept.is_empty() {
            return Poll::Ready(());
        }
        table.waiting = Some(context.waker().clone());
        Poll::Pending
    }

    /// Frees slots that are no longer needed. Returns whether h2 may get another request now; if not, it may in a
    /// later poll of the connection. Called when h2 has read everything and requests more bytes. `poll`: the number
    /// of the connection's current poll.
    ///
    /// h2 rejects some requests itself, such as those beyond its number of streams, and nothing restores their slots.
    /// But in each poll of a connection, hyper accepts every request that h2 has read. So when the poll in which h2
    /// requested more has ended, the slots that were in use before are free.
    pub(super) fn free_unused(&self, poll: u64) -> bool {
        let mut table = self.lock();
        let mut untaken = BTreeMap::new();
        if let Some((requested, end)) = table.requested
            && requested != poll
        {
            let later = table.kept.split_off(&end);
            untaken = std::mem::replace(&mut table.kept, later);
            table.requested = None;
        }
        if table.requested.is_none() && !table.kept.is_empty() {
            table.requested = Some((poll, table.next));
        }
        let is_room_left = table.kept.len() < MOST_UNTAKEN;
        drop(table);
        drop(untaken);
        is_room_left
    }

    /// Restores the stored parts of a request, and frees its slot. Does nothing for a request without a slot.
    ///
    /// # Errors
    /// The error for a request that the reader of heads rejected, and 503 if the parts are missing.
    pub(crate) fn restore<B>(&self, request: &mut Request<B>) -> Result<(), HeadError> {
        let Some(number) = request.headers_mut().remove(SLOT_HEADER) else { return Ok(()) };
        let mut table = self.lock();
        let kept =
            number.to_str().ok().and_then(|number| number.parse().ok()).and_then(|number| table.kept.remove(&number));
        if table.kept.is_empty() {
            // An empty map would retain the memory of eleven slots while the connection is idle.
            table.kept = BTreeMap::new();
        }
        if let Some(reader) = table.waiting.take() {
            reader.wake();
        }
        drop(table);
        let Some(StoredParts { query, headers, rejection, share }) = kept else {
            let message = "the server has lost a part of the request: send it again";
            return Err(HeadError::Unsupported(StatusCode::SERVICE_UNAVAILABLE, message.to_owned()));
        };
        if let Some(rejection) = rejection {
            return Err(rejection);
        }
        if let Some(headers) = headers {
            *request.headers_mut() = headers;
        }
        if let Some(query) = query {
            match with_query(request.uri(), &query) {
                Some(uri) => *request.uri_mut() = uri,
                None => drop(request.extensions_mut().insert(LongQuery(query))),
            }
        }
        if let Some(share) = share {
            request.extensions_mut().insert(ShareGuard { _share: Arc::new(share) });
        }
        Ok(())
    }
}

/// The URL with this query; `None` if it is too long for `http::Uri`.
fn with_query(uri: &Uri, query: &str) -> Option<Uri> {
    if uri.path().len() + query.len() > LONGEST_URI {
        return None;
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{query}", uri.path()).parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// The approximate memory of the task of a request that is not processed yet, in bytes.
const TASK_BYTES: u64 = 2 << 10;

/// The approximate memory of a request that is not processed yet, in bytes.
pub(crate) fn unstarted_bytes<Body>(request: &Request<Body>) -> u64 {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len() as u64);
    let query = request.extensions().get::<LongQuery>().map_or(0, |query| query.length() as u64);
    TASK_BYTES + path + query + header_bytes(request.headers())
}

/// The query of a request, also if it is too long for the URL; empty if there is none.
pub(crate) fn query(parts: &Parts) -> &str {
    match parts.extensions.get::<LongQuery>() {
        Some(LongQuery(query)) => query,
        None => parts.uri.query().unwrap_or_default(),
    }
}
