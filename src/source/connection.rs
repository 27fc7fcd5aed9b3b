//! kube's client, with errors that name the cluster, the request and the remedy.
//!
//! Requests are raw: bodies are bytes and stay bytes. The caller retries: `list_watch` knows what may be retried.
//!
//! # Compression
//! Requests to another machine accept gzip, as client-go's do: bytes cost more there than processor time. Requests to
//! the loopback interface do not. The address decides: that of the URL, or all those of its name when the connection is
//! opened. A name without addresses counts as another machine. With `disable-compression` in the kubeconfig, no request
//! accepts gzip. A compressed response is decompressed in any case.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header, request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube::{Client, Config};
use serde_json::Value;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::cluster_options::chain;
use super::gunzip::PlainBody;
use super::kubeconfig;
use super::unfinished::UnfinishedBudget;
use crate::json::weight;
use crate::registry::fieldcache_protocol::CONSISTENCY_HEADER;

pub use super::cluster_options::{ClusterOptions, ConnectionError};

/// The timeout of a response. An API server cancels a request that is not a watch after a minute, and reports that;
/// afterwards nothing arrives. Watches have a shorter timeout, which their callers set.
const ANSWER_WAIT: Duration = Duration::from_secs(65);

/// The timeout of a DNS lookup.
const LOOKUP_WAIT: Duration = Duration::from_secs(5);

/// The longest Retry-After that is followed. Otherwise a source could stop the sync of a resource forever.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The timeout of a whole body, from the headers on.
const BODY_WAIT: Duration = Duration::from_secs(120);

/// The largest document that is read whole: one OpenAPI document, one object.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// The largest JSON document that is decoded: discovery, of which a thousand resources take one megabyte.
const MAX_JSON_BYTES: usize = 32 << 20;

/// The most memory that the value of such a document takes, in bytes. That of discovery takes about six times as much
/// as its text.
pub(super) const MAX_JSON_MEMORY: usize = 128 << 20;

/// The largest OpenAPI v2 document: that of a whole cluster.
const MAX_OPENAPI_V2_BYTES: usize = 128 << 20;

/// How many bytes of an error response are read.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// The most memory that the value of an error response takes, in bytes. Otherwise its text is shown.
const MAX_ERROR_MEMORY: usize = 4 << 20;

/// A connection to a cluster.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    /// The client of [`Connection::apart`].
    apart: Client,
    url: String,
    /// Whether requests accept gzip.
    takes_gzip: bool,
    /// The memory budget for long objects that have not arrived completely.
    unfinished: Arc<UnfinishedBudget>,
}

/// A whole response.
#[derive(Clone, Debug)]
pub struct UpstreamResponse {
    /// HTTP status.
    pub code: u16,
    /// Retry-After; `None` without one.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Bytes,
}

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    /// No response.
    #[error(
        "cluster {url} cannot be reached: {cause}; check that it runs and that --server or the kubeconfig names the correct one"
    )]
    Unreachable {
        /// The server URL.
        url: String,
        /// What went wrong.
        cause: String,
    },
    /// A response with an error status.
    #[error("cluster {url} returned {code} for {path}: {message}{remedy}", remedy = remedy(*.code))]
    Status {
        /// The server URL.
        url: String,
        /// The requested path.
        path: String,
        /// HTTP status.
        code: u16,
        /// The Status message or the body's beginning.
        message: String,
        /// Whether Status.details.causes contains ResourceVersionTooLarge.
        too_large_version: bool,
        /// Retry-After.
        retry_after: Option<Duration>,
    },
    /// The response was interrupted or is not valid.
    #[error("cluster {url}, {path}: {cause}")]
    Broken {
        /// The server URL.
        url: String,
        /// The requested path.
        path: String,
        /// What is wrong.
        cause: String,
    },
}

/// What to do about an error status, for the end of its message; empty if there is no advice.
fn remedy(code: u16) -> &'static str {
    match code {
        401 => "; the credentials are missing, invalid or expired: renew them in the kubeconfig",
        403 => "; the credentials lack a permission: grant get, list and watch on the resource",
        _ => "",
    }
}

impl RequestError {
    /// The message without the address and the path of the source, if the error is a response.
    pub fn without_address(&self) -> String {
        match self {
            RequestError::Status { code, message, .. } => {
                format!("the API server returned {code}: {message}{}", remedy(*code))
            }
            RequestError::Unreachable { .. } | RequestError::Broken { .. } => self.to_string(),
        }
    }

    /// The HTTP status of an error response; `None` if there was no valid response.
    pub fn code(&self) -> Option<u16> {
        match self {
            RequestError::Status { code, .. } => Some(*code),
            RequestError::Unreachable { .. } | RequestError::Broken { .. } => None,
        }
    }
}

impl Connection {
    /// Reads the kubeconfig and creates a client; sends no request yet.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub async fn open(options: &ClusterOptions) -> Result<Connection, ConnectionError> {
        let (mut config, url) = configuration(options).await?;
        config.connect_timeout = Some(Duration::from_secs(10));
        // Bookmarks come about every minute; a connection that is silent for longer than two minutes is broken.
        config.read_timeout = Some(Duration::from_secs(150));
        // Otherwise the client itself repeats requests that fail with 429, 503 or 504, for many minutes, without notice
        // to its caller.
        config.default_retry = false;
        let takes_gzip = !config.disable_compression && !is_loopback(&config.cluster_url).await;
        let client = |config| {
            Client::try_from(config).map_err(|error| ConnectionError::Client { url: url.clone(), cause: chain(&error) })
        };
        let (client, apart) = (client(config.clone())?, client(config)?);
        Ok(Connection { client, apart, url, takes_gzip, unfinished: Arc::default() })
    }

    /// A connection over a client of the caller, such as that of a server in this process. Its requests do not accept
    /// gzip. `url` is the name of the server in messages.
    pub fn over(client: Client, url: String) -> Connection {
        Connection { apart: client.clone(), client, url, takes_gzip: false, unfinished: Arc::default() }
    }

    /// A client of the same cluster with its own connections, for other threads than the one that follows the source.
    /// The runtime that opens a connection polls it. If the threads that serve requests opened the connection of a watch,
    /// its events would wait while these threads are busy.
    #[must_use]
    pub fn apart(&self) -> Connection {
        Connection { client: self.apart.clone(), ..self.clone() }
    }

    /// The client of the `kube` library, for typed requests.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The memory budget for long objects that have not arrived completely. All readers share it.
    pub(super) fn unfinished(&self) -> &Arc<UnfinishedBudget> {
        &self.unfinished
    }

    /// The server URL, for messages.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a GET, and returns the response with its unread body.
    ///
    /// # Errors
    /// [`RequestError`] if there is no response, or its status is not 200.
    pub async fn get(&self, path: &str, accept: &str) -> Result<Response<PlainBody>, RequestError> {
        self.send(path, Request::builder().header(header::ACCEPT, accept)).await
    }

    /// Sends a GET, and returns the whole body with its entity tag. `known` is the tag of an earlier response; `None`
    /// is returned if that one is still current.
    ///
    /// # Errors
    /// As [`Connection::bytes`].
    pub async fn changed_bytes(
        &self,
        path: &str,
        accept: &str,
        known: Option<&HeaderValue>,
    ) -> Result<Option<(Bytes, Option<HeaderValue>)>, RequestError> {
        let mut request = Request::builder().header(header::ACCEPT, accept);
        if let Some(known) = known {
            request = request.header(header::IF_NONE_MATCH, known);
        }
        let response = match self.send(path, request).await {
            Err(RequestError::Status { code: 304, .. }) if known.is_some() => return Ok(None),
            answered => answered?,
        };
        let entity_tag = response.headers().get(header::ETAG).cloned();
        let body = self.read_body(path, response.into_body(), MAX_OPENAPI_V2_BYTES).await?;
        Ok(Some((body, entity_tag)))
    }

    /// Sends a GET, and returns the response with its unread body.
    ///
    /// # Errors
    /// As [`Connection::get`].
    async fn send(&self, path: &str, mut request: request::Builder) -> Result<Response<PlainBody>, RequestError> {
        if self.takes_gzip {
            request = request.header(header::ACCEPT_ENCODING, "gzip");
        }
        let response = self.exchange(path, request.method(Method::GET), Body::empty()).await?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let (code, retry_after) = (response.status().as_u16(), retry_after(&response));
        let body = self.read_body(path, response.into_body(), MAX_ERROR_BYTES).await.unwrap_or_default();
        Err(self.status_error(path, &UpstreamResponse { code, retry_after, body }))
    }

    /// Sends a request, and returns its response, whatever the status, with its unread body.
    ///
    /// # Errors
    /// [`RequestError`] if the path is invalid, the connection fails, or there is no response within [`ANSWER_WAIT`].
    async fn exchange(
        &self,
        path: &str,
        request: request::Builder,
        body: Body,
    ) -> Result<Response<PlainBody>, RequestError> {
        let request = request.uri(path).body(body).map_err(|error| self.broken(path, &error))?;
        let unreachable = |cause: String| RequestError::Unreachable { url: self.url.clone(), cause };
        timeout(ANSWER_WAIT, self.client.send(request))
            .await
            .map_err(|_| unreachable(format!("no response for {path} within {} s", ANSWER_WAIT.as_secs())))?
            .map_err(|error| unreachable(chain(&error)))
            .map(PlainBody::decompress)
    }

    /// Sends a JSON document with POST, and returns the whole response, whatever its status: a rejection may say more
    /// than its message.
    ///
    /// # Errors
    /// [`RequestError`] if there is no response, or its body breaks off.
    pub async fn post(&self, path: &str, document: Vec<u8>) -> Result<UpstreamResponse, RequestError> {
        let json = "application/json";
        let request = Request::builder().header(header::ACCEPT, json).header(header::CONTENT_TYPE, json);
        let response = self.exchange(path, request.method(Method::POST), Body::from(document)).await?;
        let (code, retry_after) = (response.status().as_u16(), retry_after(&response));
        let body = self.read_body(path, response.into_body(), MAX_DOCUMENT_BYTES).await?;
        Ok(UpstreamResponse { code, retry_after, body })
    }

    /// Reads a body to its end: at most `most` bytes, and within [`BODY_WAIT`]. `path` is for errors.
    ///
    /// # Errors
    /// [`RequestError`] if the body is longer, takes longer, or breaks off.
    async fn read_body(&self, path: &str, body: PlainBody, most: usize) -> Result<Bytes, RequestError> {
        match timeout(BODY_WAIT, Limited::new(body, most).collect()).await {
            Err(_) => Err(self.unexpected(path, &format!("the response took longer than {} s", BODY_WAIT.as_secs()))),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(self.unexpected(path, &format!("the response is longer than {most} bytes")))
            }
            Ok(Err(error)) => Err(self.broken(path, &*error)),
            Ok(Ok(body)) => Ok(body.to_bytes()),
        }
    }

    /// The error for a response with an error status.
    pub fn status_error(&self, path: &str, answer: &UpstreamResponse) -> RequestError {
        let UpstreamResponse { code, retry_after, ref body } = *answer;
        let status = weight::value_within(body, MAX_ERROR_MEMORY).unwrap_or_default();
        let message = match status["message"].as_str() {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(body).chars().take(200).collect::<String>().trim().to_owned(),
        };
        let too_large_version = too_large_version(&status);
        let (url, path) = (self.url.clone(), path.to_owned());
        RequestError::Status { url, path, code, message, too_large_version, retry_after }
    }

    /// Sends a GET, and returns the whole body.
    ///
    /// # Errors
    /// As [`Connection::get`], or when the body breaks off.
    pub async fn bytes(&self, path: &str, accept: &str) -> Result<Bytes, RequestError> {
        self.bytes_within(path, accept, MAX_DOCUMENT_BYTES).await
    }

    /// Like [`Connection::get`], for a response that is not older than the request. Another fieldcache as the source
    /// then asks its own source instead of its store.
    ///
    /// # Errors
    /// As [`Connection::get`].
    pub async fn get_strong(&self, path: &str, accept: &str) -> Result<Response<PlainBody>, RequestError> {
        self.send(path, Request::builder().header(header::ACCEPT, accept).header(CONSISTENCY_HEADER, "Strong")).await
    }

    /// Sends a GET, and returns the JSON document.
    ///
    /// # Errors
    /// As [`Connection::bytes`], or when the body is not JSON or takes too much memory.
    pub async fn json(&self, path: &str, accept: &str) -> Result<Value, RequestError> {
        let body = self.bytes_within(path, accept, MAX_JSON_BYTES).await?;
        self.parse_json(path, &body, MAX_JSON_MEMORY)
    }

    /// Sends a GET, and returns the headers of the response and its JSON document.
    ///
    /// # Errors
    /// As [`Connection::json`].
    pub async fn json_with_headers(&self, path: &str, accept: &str) -> Result<(HeaderMap, Value), RequestError> {
        let (parts, body) = self.get(path, accept).await?.into_parts();
        let body = self.read_body(path, body, MAX_JSON_BYTES).await?;
        Ok((parts.headers, self.parse_json(path, &body, MAX_JSON_MEMORY)?))
    }

    /// Sends a GET, and returns the whole body, of at most `most` bytes.
    ///
    /// # Errors
    /// As [`Connection::bytes`].
    pub(super) async fn bytes_within(&self, path: &str, accept: &str, most: usize) -> Result<Bytes, RequestError> {
        let response = self.get(path, accept).await?;
        self.read_body(path, response.into_body(), most).await
    }

    /// Parses a body. `most` is the most memory that its value may take, in bytes. `path` is for errors.
    ///
    /// # Errors
    /// The body is not JSON, or its value would take more.
    pub(super) fn parse_json(&self, path: &str, body: &[u8], most: usize) -> Result<Value, RequestError> {
        weight::value_within(body, most).map_err(|error| self.broken(path, &error))
    }

    /// The error for a response that is not as expected.
    pub(crate) fn unexpected(&self, path: &str, cause: &str) -> RequestError {
        RequestError::Broken { url: self.url.clone(), path: path.to_owned(), cause: cause.to_owned() }
    }

    /// The error for a request or response that broke off.
    pub(crate) fn broken(&self, path: &str, cause: &(dyn std::error::Error + 'static)) -> RequestError {
        RequestError::Broken { url: self.url.clone(), path: path.to_owned(), cause: chain(cause) }
    }
}

/// The client configuration of these options, and the server URL for messages. A server URL without a kubeconfig or
/// context is used without credentials.
///
/// # Errors
/// [`ConnectionError`].
pub(super) async fn configuration(options: &ClusterOptions) -> Result<(Config, String), ConnectionError> {
    let server = match &options.server {
        Some(server) => Some(server_url(server).map_err(|cause| ConnectionError::Client {
            url: server.clone(),
            cause: format!("--server is not a URL such as https://127.0.0.1:6443: {cause}"),
        })?),
        None => None,
    };
    let mut config = match (&options.kubeconfig, &options.context, &server) {
        // A URL alone is used without credentials: those of the current context belong to another server.
        (None, None, Some(server)) => Config::new(Uri::clone(server)),
        _ => kubeconfig::configuration(options).await?,
    };
    if let Some(server) = server {
        config.cluster_url = server;
    }
    let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    Ok((config, url))
}

/// Parses a server URL.
///
/// # Errors
/// Why it is invalid: it needs a scheme, http or https, and a host.
fn server_url(text: &str) -> Result<Uri, String> {
    let url: Uri = text.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(_)) => Ok(url),
        (Some(_), Some(_)) => Err("its scheme is neither http nor https".to_owned()),
        _ => Err("it needs a scheme and a host".to_owned()),
    }
}

/// Whether all addresses of a server are on the loopback interface. False if none can be found.
async fn is_loopback(url: &Uri) -> bool {
    let Some(host) = url.host() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = timeout(LOOKUP_WAIT, lookup_host((host, url.port_u16().unwrap_or_default()))).await;
    let Ok(Ok(addresses)) = found else { return false };
    let mut addresses = addresses.map(|address| address.ip().to_canonical()).peekable();
    addresses.peek().is_some() && addresses.all(|address| address.is_loopback())
}

/// The Retry-After header, at most [`LONGEST_RETRY_AFTER`]. `None` if it is missing or not a number of seconds.
fn retry_after(response: &Response<PlainBody>) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?;
    value.to_str().ok()?.parse().ok().map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}

/// Whether a Status reports that the server has not reached the requested resourceVersion.
pub(super) fn too_large_version(status: &Value) -> bool {
    status["details"]["causes"]
        .as_array()
        .is_some_and(|causes| causes.iter().any(|cause| cause["reason"] == "ResourceVersionTooLarge"))
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[tokio::test]
    async fn a_source_is_on_the_loopback_interface_if_all_of_its_addresses_are() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", true),
            ("https://127.9.9.9", true),
            ("https://[::1]:6443", true),
            ("https://[::ffff:127.0.0.1]:6443", true),
            ("https://localhost:6443", true),
            ("https://192.0.2.1:6443", false),
            ("https://[2001:db8::1]", false),
            ("https://0.0.0.0:6443", false),
            ("https://no-such-name.invalid:6443", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()).await, expected, "{url}");
        }
    }
}
