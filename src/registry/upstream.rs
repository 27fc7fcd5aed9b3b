//! The server behind a source, for direct requests: the API server, or another fieldcache.
//!
//! The server forwards requests that it does not answer itself, and reads that must not be older than their request.
//! Nothing is decided here: `server::pass_through` chooses the requests and their headers, `source::forward` has the
//! connections and credentials.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

/// A body in either direction. One that fails was interrupted and must not look complete to its receiver.
pub type UpstreamBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The server that responds to forwarded requests.
pub trait Upstream: Send + Sync + fmt::Debug {
    /// Sends a request with the credentials of fieldcache, and returns the response whatever its status, while its body
    /// still streams. Dropping the future, or the body, cancels the request.
    ///
    /// # Errors
    /// A message for the client: the server that cannot be reached, and the cause.
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>>;
}
