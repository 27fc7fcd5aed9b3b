//! Parts of a request that hyper cannot carry, from the reader of heads to the service that answers the request.
//!
//! hyper gets a short head instead, with the number of the slot in a header. No client can send this header: a head that has it is
//! rejected over HTTP/1.1, and the field is removed over HTTP/2.

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

/// Slots of HTTP/2 in use at a time, at most.
const MOST_UNTAKEN: usize = 64;

/// The header with the number of a slot.
pub(super) const SLOT_HEADER: &str = "fieldcache-head";

/// The query of a request whose URL is longer than `http::Uri` can be.
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

/// What a long head takes, until its request has a response.
#[derive(Clone, Debug)]
struct ShareGuard {
    _share: Arc<UserShare>,
}

/// The stored parts of one request.
#[derive(Debug, Default)]
pub(super) struct StoredParts {
    /// The query, where the head that hyper gets has none.
    pub(super) query: Option<Arc<str>>,
    /// All headers, where the head that hyper gets has only those about the connection and the body.
    pub(super) headers: Option<HeaderMap>,
    /// Why the request is rejected instead.
    pub(super) rejection: Option<HeadError>,
    /// What it takes in memory.
    pub(super) share: Option<UserShare>,
}

impl StoredParts {
    /// A request that is rejected with this error.
    pub(super) fn rejected(failure: HeadError) -> StoredParts {
        StoredParts { rejection: Some(failure), ..StoredParts::default() }
    }
}

/// The slots of one connection.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    kept: BTreeMap<u64, StoredParts>,
    /// The poll of the connection in which h2 requested more, and the first slot that was not in use then.
    requested: Option<(u64, u64)>,
    /// The reader of HTTP/1.1, while it waits until the slots are empty.
    waiting: Option<Waker>,
}

impl Slots {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores parts of a request and returns the number of their slot.
    pub(super) fn store(&self, kept: StoredParts) -> u64 {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.kept.insert(number, kept);
        number
    }

    /// Ready when no slot is in use. Over HTTP/1.1 hyper takes each, or ends the connection.
    pub(super) fn poll_empty(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut table = self.table();
        if table.kept.is_empty() {
            return Poll::Ready(());
        }
        table.waiting = Some(context.waker().clone());
        Poll::Pending
    }

    /// Whether h2, which has read everything before and requests more, may get another request. If not, it may in a
    /// later poll of the connection; `poll` is the number of this one.
    ///
    /// h2 rejects some requests itself, such as those beyond its number of streams, and their slots are never taken.
    /// In each poll of a connection hyper takes every request that h2 has read. So slots from before h2 requested
    /// more are free as soon as that poll has ended.
    pub(super) fn has_room(&self, poll: u64) -> bool {
        let mut table = self.table();
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
        let has_room = table.kept.len() < MOST_UNTAKEN;
        drop(table);
        drop(untaken);
        has_room
    }

    /// Restores the stored parts of a request.
    ///
    /// # Errors
    /// Why the request is rejected.
    pub(crate) fn restore<B>(&self, request: &mut Request<B>) -> Result<(), HeadError> {
        let Some(number) = request.headers_mut().remove(SLOT_HEADER) else { return Ok(()) };
        let mut table = self.table();
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

/// A URL with a query, if it is short enough.
fn with_query(uri: &Uri, query: &str) -> Option<Uri> {
    if uri.path().len() + query.len() > LONGEST_URI {
        return None;
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{query}", uri.path()).parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// The approximate memory of a task for a request until it is processed, in bytes.
const TASK_BYTES: u64 = 2 << 10;

/// The approximate memory of a request until it is processed, in bytes.
pub(crate) fn unstarted_bytes<Body>(request: &Request<Body>) -> u64 {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len() as u64);
    let query = request.extensions().get::<LongQuery>().map_or(0, |query| query.length() as u64);
    TASK_BYTES + path + query + header_bytes(request.headers())
}

/// The query of a request of any length; empty without one.
pub(crate) fn query(parts: &Parts) -> &str {
    match parts.extensions.get::<LongQuery>() {
        Some(LongQuery(query)) => query,
        None => parts.uri.query().unwrap_or_default(),
    }
}
