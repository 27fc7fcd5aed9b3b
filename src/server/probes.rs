//! Health checks for the kubelet, on a separate address and thread (`--health-address`). They respond even if the
//! server accepts no more connections, and if all of its workers are busy. Whether the workers still run is a check
//! like the others: see [`super::heartbeat`].
//!
//! Plain HTTP/1.1 without credentials, so only `/livez`, `/readyz` and `/healthz` are here, and only the plain result.
//! Each connection carries one request, has a small buffer and ends after seconds. A few are open at a time: a new one
//! takes the place of the oldest one of the address that has most of them. Results are kept for a second, so that a
//! flood does not run the checks or fill the log. When the process has no file descriptor left, the listener uses one
//! that it has reserved.
#![expect(
    clippy::disallowed_methods,
    reason = "starts a task for each connection of this listener, and opens files to reserve descriptors"
)]

use std::convert::Infallible;
use std::fs::File;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use futures::FutureExt;
use http::header::ALLOW;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::health;
use super::pipeline::Server;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::connections::Connections;
use crate::transport::listen::{BindError, bind};
use crate::wire::body::Body;

/// The bound of the connection table. Connections without credentials, as all are here, get a quarter of it.
const CONNECTIONS: usize = 128;

/// The maximum duration of a connection.
const LONGEST: Duration = Duration::from_secs(5);

/// The buffer of a connection, in bytes: the smallest that hyper permits.
const BUFFER: usize = 8 << 10;

/// How long a result is cached.
const KEEP: Duration = Duration::from_secs(1);

/// The number of file descriptors that are reserved for this listener.
const RESERVED: usize = 4;

/// Pause after an accept that failed even with a reserved descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A bound socket for health checks.
#[derive(Debug)]
pub struct ProbeListener {
    listener: TcpListener,
    address: SocketAddr,
    connections: Arc<Connections>,
}

/// A guard: health checks are served until it is dropped.
#[derive(Debug)]
pub struct Probing {
    _stop: oneshot::Sender<Infallible>,
}

/// The results of a server's health checks, cached for [`KEEP`].
struct Results {
    server: Arc<Server>,
    /// When the result expires, and whether all checks succeeded; one entry for each of [`health::ENDPOINTS`].
    cached: [Mutex<Option<(Instant, bool)>>; health::ENDPOINTS.len()],
}

impl ProbeListener {
    /// Binds an address. `option` is the command-line option that set it, for error messages.
    ///
    /// # Errors
    /// [`BindError`], one variant for each remedy.
    pub async fn bind(address: SocketAddr, option: &'static str) -> Result<ProbeListener, BindError> {
        let (listener, address) = bind(address, option).await?;
        Ok(ProbeListener { listener, address, connections: Arc::new(Connections::new(CONNECTIONS)) })
    }

    /// The address, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves on its own thread, until the returned guard is dropped.
    ///
    /// # Errors
    /// The thread or its runtime cannot be created.
    pub fn start(self, server: Arc<Server>) -> io::Result<Probing> {
        let ProbeListener { listener, address, connections } = self;
        let listener = listener.into_std()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let serve = move || {
            runtime.block_on(async {
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        ProbeListener { listener, address, connections }.run(server, stopped.map(drop)).await
                    }
                    Err(error) => tracing::error!(%error, "cannot serve health checks"),
                }
            });
        };
        thread::Builder::new().name("health".to_owned()).spawn(serve)?;
        Ok(Probing { _stop: stop })
    }

    /// Accepts connections until `stop` completes. Connections that are open then end by themselves within seconds.
    pub async fn run(self, server: Arc<Server>, stop: impl Future<Output = ()>) {
        let results = Arc::new(Results { server, cached: Default::default() });
        let mut reserve = Vec::new();
        let mut stop = pin!(stop);
        loop {
            refill(&mut reserve);
            let accepted = tokio::select! {
                accepted = accept(&self.listener, &mut reserve) => accepted,
                () = &mut stop => return,
            };
            let Some((stream, address)) = accepted else { continue };
            // Not trusted: the connection counts among those without credentials.
            let state = Arc::new(ConnectionState::new(address.ip(), false));
            // Without a place, because too many evicted connections have not ended yet, the stream is dropped and
            // closed.
            let Some(place) = self.connections.enter(&state) else { continue };
            let results = results.clone();
            tokio::spawn(async move {
                let _place = place;
                tokio::select! {
                    // The connection is closed in either case.
                    _ = timeout(LONGEST, serve(stream, results)) => {}
                    () = state.wait_for_eviction() => {}
                }
            });
        }
    }
}

/// Opens files until [`RESERVED`] descriptors are reserved, or no more can be opened.
fn refill(reserve: &mut Vec<File>) {
    while reserve.len() < RESERVED
        && let Ok(file) = File::open("/dev/null")
    {
        reserve.push(file);
    }
}

/// Accepts a connection, with a reserved descriptor if no other is left. `None`, after a pause, if that fails too.
async fn accept(listener: &TcpListener, reserve: &mut Vec<File>) -> Option<(TcpStream, SocketAddr)> {
    loop {
        match listener.accept().await {
            Ok(accepted) => return Some(accepted),
            // The dropped file frees its descriptor for the connection.
            Err(_) if reserve.pop().is_some() => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for a health check");
                sleep(ACCEPT_PAUSE).await;
                return None;
            }
        }
    }
}

/// Serves the one request of a connection.
async fn serve(stream: TcpStream, results: Arc<Results>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = results.answer(request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(LONGEST).keep_alive(false).max_buf_size(BUFFER);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "the connection of a health check ended");
    }
}

impl Results {
    /// The response to a health check; 404 for another path, 405 for another method than GET and HEAD.
    fn answer(&self, method: &Method, path: &str) -> Response<Body> {
        let endpoint = health::ENDPOINTS.iter().position(|endpoint| path.strip_prefix('/') == Some(endpoint));
        let Some(endpoint) = endpoint else {
            return text_response(StatusCode::NOT_FOUND, "only /livez, /readyz and /healthz are served here\n");
        };
        if *method != Method::GET && *method != Method::HEAD {
            let mut response = text_response(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        health::plain(health::ENDPOINTS[endpoint], self.is_well(endpoint))
    }

    /// Whether all checks of an endpoint succeed, at most [`KEEP`] old. `endpoint` is an index in
    /// [`health::ENDPOINTS`].
    fn is_well(&self, endpoint: usize) -> bool {
        // The lock is held while the checks run, so that other connections wait for this result.
        let mut kept = self.cached[endpoint].lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some((until, is_well)) = *kept
            && until > now
        {
            return is_well;
        }
        let is_well = self.server.is_well(health::ENDPOINTS[endpoint]);
        *kept = Some((now + KEEP, is_well));
        is_well
    }
}

/// A plain text response.
fn text_response(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = code;
    response
}
