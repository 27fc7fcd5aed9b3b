//! What stands behind a source and can be asked directly: the API server, or another fieldcache.
//!
//! The server hands on what it does not answer itself, and reads that must not be older than their request. Nothing is
//! decided here: which requests go on and which headers go with them is `server::pass_through`, connections and
//! credentials are `source::forward`.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

/// A body on its way through, either way. One that fails has broken off and must not look complete to whom it goes.
pub type UpstreamBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// Where requests that we do not answer are answered.
pub trait Upstream: Send + Sync + fmt::Debug {
    /// Asks for what the request's path and query name, with our own credentials, and gives the answer as it comes:
    /// whatever its status, its body still streaming. Dropping the future, or the body, gives the request up.
    ///
    /// # Errors
    /// Who could not be reached and why, for the client.
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>>;
}
