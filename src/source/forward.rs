//! A client of the source cluster for whole requests: bodies stream in both directions, and a response is forwarded as
//! it is.
//!
//! It is separate from `connection`, which cancels a silent response, and whose client takes no streaming body. The
//! runtime of the caller opens the connections, not the one that follows the source. Only a read on a connection that
//! had closed while it was idle is retried.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use tower::util::{BoxCloneSyncService, ServiceExt};
use tower::{BoxError, ServiceBuilder};

use super::cluster_options::{ClusterOptions, ConnectionError, chain};
use super::connection::configuration;
use crate::registry::upstream::{Upstream, UpstreamBody};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An idle connection is closed after this long. kube-apiserver closes it after 90 seconds, so no write is sent on a
/// connection that the server has just closed.
const KEEP_IDLE: Duration = Duration::from_secs(45);

/// How often the kernel checks the peer of a silent connection. A watch or a log may be silent for as long as it likes,
/// so silence itself is no error.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_PROBES: u32 = 4;

/// Sends requests, as a tower service.
type Stack = BoxCloneSyncService<Request<UpstreamBody>, Response<Incoming>, BoxError>;

/// The cluster as an [`Upstream`], with the credentials of the kubeconfig.
pub struct UpstreamClient {
    /// The HTTP client with the URL and the credentials of the kubeconfig.
    stack: Stack,
    url: String,
}

impl fmt::Debug for UpstreamClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UpstreamClient").field("url", &self.url).finish_non_exhaustive()
    }
}

impl UpstreamClient {
    /// Reads the kubeconfig and creates a client; sends no request yet.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub async fn open(options: &ClusterOptions) -> Result<UpstreamClient, ConnectionError> {
        let (config, url) = configuration(options).await?;
        let refuse = |cause: kube::Error| ConnectionError::Client { url: url.clone(), cause: chain(&cause) };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(KEEP_ALIVE));
        connector.set_keepalive_interval(Some(KEEP_ALIVE));
        connector.set_keepalive_retries(Some(KEEP_ALIVE_PROBES));
        let connector = config.rustls_https_connector_with_connector(connector).map_err(refuse)?;
        let client: legacy::Client<_, UpstreamBody> =
            legacy::Builder::new(TokioExecutor::new()).pool_idle_timeout(KEEP_IDLE).build(connector);
        let stack = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer().map_err(refuse)?)
            .layer(config.extra_headers_layer().map_err(refuse)?)
            .map_err(BoxError::from)
            .service(client);
        Ok(UpstreamClient { stack: BoxCloneSyncService::new(stack), url })
    }

    /// Sends a request once.
    fn send_once(&self, request: Request<UpstreamBody>) -> BoxFuture<'static, Result<Response<Incoming>, BoxError>> {
        Box::pin(self.stack.clone().oneshot(request))
    }

    /// Sends a request. If that fails on an open connection, a read without a body is sent once more: the server may
    /// have closed an idle connection.
    ///
    /// # Errors
    /// The message for the client that the cluster cannot be reached.
    async fn send_with_retry(&self, request: Request<UpstreamBody>) -> Result<Response<UpstreamBody>, String> {
        let again = copy_for_retry(&request);
        let mut response = self.send_once(request).await;
        if let (Err(error), Some(again)) = (&response, again)
            && !is_connect_error(&**error)
        {
            response = self.send_once(again).await;
        }
        match response {
            Ok(response) => Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync())),
            Err(error) => Err(format!(
                "cluster {} cannot be reached: {}; check that it runs and that --server or the kubeconfig names the correct one",
                self.url,
                chain(&*error)
            )),
        }
    }
}

impl Upstream for UpstreamClient {
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>> {
        Box::pin(self.send_with_retry(request))
    }
}

/// A copy of the request for a retry; `None` if the request may write or has a body.
fn copy_for_retry(request: &Request<UpstreamBody>) -> Option<Request<UpstreamBody>> {
    use http_body::Body;
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads || !request.body().is_end_stream() {
        return None;
    }
    let mut again = Request::new(Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

/// Whether no connection could be opened: a retry would fail, too.
fn is_connect_error(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
}
