//! One log line for each request, at level debug, when its response has been sent or given up.
//!
//! It has the path and the selectors as the client sent them, so it can name objects that Views show. Tokens are in none of it.

use http::request::Parts;
use http::{HeaderValue, Method, Uri};
use tokio::time::Instant;

use crate::flow_control::user::User;
use crate::request::Query;
use crate::transport::heads;

/// Most characters of a path or selector.
const MOST_CHARACTERS: usize = 1024;

/// A request of which a line is logged.
#[derive(Debug)]
pub(crate) struct RequestLog {
    method: Method,
    uri: Uri,
    /// Selectors of a query that is not in the URL.
    selectors: Option<[Option<String>; 2]>,
    begun: Instant,
    user: Option<User>,
    verb: Option<&'static str>,
    code: u16,
    id: Option<HeaderValue>,
    /// Bytes of the body.
    sent: u64,
}

impl RequestLog {
    /// Begins the log line of a request, if requests are logged.
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

    /// Notes the response; `verb` is Kubernetes' verb, if there is one.
    pub(crate) fn answered(
        &mut self,
        user: Option<User>,
        verb: Option<&'static str>,
        code: u16,
        id: Option<HeaderValue>,
    ) {
        (self.user, self.verb, self.code, self.id) = (user, verb, code, id);
    }

    /// Counts bytes of the body that have been sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }
}

impl Drop for RequestLog {
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
            "answered"
        );
    }
}

/// The field and label selectors of a query, shortened.
fn selectors(query: &str) -> [Option<String>; 2] {
    let query = if Query::is_too_long(query) { Query::default() } else { Query::parse(query) };
    ["fieldSelector", "labelSelector"].map(|key| query.get(key).filter(|text| !text.is_empty()).map(shortened))
}

/// The beginning of a long text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
