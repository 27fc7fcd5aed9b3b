//! One log line for each request, at level debug, when its response has been sent, or its client has
//! disconnected.
//!
//! The line has the path and the selectors as the client sent them, so it can contain names of objects. It never
//! contains tokens.

use http::request::Parts;
use http::{HeaderValue, Method, Uri};
use tokio::time::Instant;

use crate::flow_control::user::User;
use crate::request::Query;
use crate::transport::heads;

/// Most characters of a path or selector.
const MOST_CHARACTERS: usize = 1024;

/// The log line of one request. It is written when this is dropped.
#[derive(Debug)]
pub(crate) struct RequestLog {
    method: Method,
    uri: Uri,
    /// The field selector and the label selector, if `uri` has no query: a query that is too long for a [`Uri`] is
    /// stored elsewhere. `None`: they are in `uri`.
    selectors: Option<[Option<String>; 2]>,
    /// When the request arrived.
    begun: Instant,
    user: Option<User>,
    verb: Option<&'static str>,
    /// The HTTP status of the response.
    code: u16,
    /// The audit ID.
    id: Option<HeaderValue>,
    /// The number of bytes of the response body that have been sent.
    sent: u64,
}

impl RequestLog {
    /// Begins the log line of a request that arrived at `begun`. `None`: requests are not logged at this log level.
    pub(crate) fn begin(parts: &Parts, begun: Instant) -> Option<RequestLog> {
        tracing::enabled!(tracing::Level::DEBUG).then(|| RequestLog {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            selectors: parts.uri.query().is_none().then(|| selectors(heads::slots::query(parts))),
            begun,
            user: None,
            verb: None,
            code: 0,
            id: None,
            sent: 0,
        })
    }

    /// Adds what is known once the response is made.
    ///
    /// - `user`: the user, or the address of a caller that is not authenticated; `None` if the request was rejected
    ///   before
    /// - `verb`: the verb as in metrics, such as `LIST`; `None` if the request is for no served resource
    /// - `code`: the HTTP status
    /// - `id`: the audit ID
    pub(crate) fn set_response(
        &mut self,
        user: Option<User>,
        verb: Option<&'static str>,
        code: u16,
        id: Option<HeaderValue>,
    ) {
        (self.user, self.verb, self.code, self.id) = (user, verb, code, id);
    }

    /// Counts bytes of the response body that have been sent.
    pub(crate) fn count_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }
}

impl Drop for RequestLog {
    /// Writes the log line.
    fn drop(&mut self) {
        let [fields, labels] = self.selectors.take().unwrap_or_else(|| selectors(self.uri.query().unwrap_or_default()));
        tracing::debug!(
            user = self.user.as_ref().map(User::name),
            verb = self.verb.unwrap_or(self.method.as_str()),
            path = shortened(self.uri.path()),
            field_selector = fields,
            label_selector = labels,
            code = self.code,
            bytes = self.sent,
            took = ?self.begun.elapsed(),
            id = ?self.id,
            "request answered"
        );
    }
}

/// The field selector and the label selector of a query, shortened. `None` for each that is missing or empty, and for
/// both if the query has too many parameters to be parsed.
fn selectors(query: &str) -> [Option<String>; 2] {
    let query = if Query::is_too_long(query) { Query::default() } else { Query::parse(query) };
    ["fieldSelector", "labelSelector"].map(|key| query.get(key).filter(|text| !text.is_empty()).map(shortened))
}

/// A string cut to [`MOST_CHARACTERS`] characters. A string that is cut ends with `…`.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
