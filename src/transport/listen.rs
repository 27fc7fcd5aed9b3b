//! The listener: serves HTTP/1.1 and HTTP/2 on one port until the process ends. [`crate::flow_control::connections`]
//! limits the number of connections.
//!
//! Without TLS, clients use HTTP/2 by beginning with it ("prior knowledge"); over TLS (`tls`), ALPN decides. A panic
//! ends at most the connection on which it happens. `Server::answer` converts panics of handlers to responses.
//!
//! The rules of [`ConnectionState`] close connections that are idle or useless. Over HTTP/2 the server sends GOAWAY, so
//! requests in progress end normally, and the client sends further ones over another connection.
#![expect(clippy::disallowed_methods, reason = "connections are tasks, started and joined here")]

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;

use super::head_error::HeadError;
use super::heads::Heads;
use super::heads::bounds::{MOST_HEAD, USUAL_HEAD};
use super::heads::slots::{Slots, unstarted_bytes};
use super::stream_timeout;
use super::stream_timeout::{Link, StreamTimeoutExecutor};
use super::tls::Tls;
use super::turn_away::{Rejecter, Rejection};
use super::websocket;
use super::write_timeout::WriteTimeout;
use crate::access::authentication::Peer;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::connections::Connections;
use crate::flow_control::limit::{LimitSettings, Limited};
use crate::flow_control::seats::Seats;
use crate::flow_control::user::User;

/// The maximum number of streams of one HTTP/2 connection. Each informer takes one, and a manager has hundreds. With
/// 100, as in kube-apiserver, Go clients would open further connections, which cost more here than streams.
const STREAMS_PER_CONNECTION: u32 = 2000;

/// The maximum unsent bytes of a connection in the kernel. Otherwise its buffer would grow to megabytes for a client
/// that stops reading.
const UNSENT: u32 = 128 << 10;

/// The longest head of an HTTP/1.1 request that hyper gets, in bytes, with space for the header of a slot
/// ([`Slots`]). hyper's default is five times as much.
const LONGEST_HEAD: usize = USUAL_HEAD + 1024;

/// The bytes of request bodies that hyper accepts before a handler reads them, for each stream and each connection.
/// No limit counts these bytes, and a body is read only after its request is authenticated. hyper's defaults are 1
/// MiB each.
const UNREAD_OF_STREAM: u32 = 64 << 10;
const UNREAD_OF_CONNECTION: u32 = 128 << 10;

/// The number of requests that a front proxy may begin and reset before its connection is polled again. With more, h2
/// ends the connection. The default for other connections is 20. kube-apiserver sends the requests of all users over
/// one connection, so one user must not be able to end it. The memory of such requests is bounded by
/// [`MOST_UNSTARTED`](crate::flow_control::connections::MOST_UNSTARTED), and each takes a turn of its user.
const RESETS_OF_SHARED: usize = 100_000;

/// How long the head of a request may take to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may send nothing before it gets a PING, and the timeout for its response. PINGs detect clients
/// that disappeared, over HTTP/2 and over WebSocket.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(30);
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// How long responses in progress may take after the listener stops.
const GRACE: Duration = Duration::from_secs(10);

/// Connections that the kernel holds until they are accepted. It drops further ones, and their clients try again after
/// a second. The kernel has a bound of its own, which on Linux is this one.
const BACKLOG: u32 = 4096;

/// The pause after a failed accept, which usually means that there are no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the listener cannot use an address. Each message contains the remedy. The string is the name of the command line
/// option that sets the address.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program listens on the address.
    #[error("address {0} is in use: stop the program that listens on it, or choose another address with {1}")]
    InUse(SocketAddr, &'static str),
    /// The port needs permissions.
    #[error("not allowed to listen on {0}: choose a port above 1023 with {1}")]
    NotAllowed(SocketAddr, &'static str),
    /// The machine has no such address.
    #[error("this machine has no address {0}: choose one of its own with {1}, such as 127.0.0.1:8181")]
    NotHere(SocketAddr, &'static str),
    /// Anything else.
    #[error("cannot listen on {address}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
}

/// The body of a response.
pub trait ResponseBody:
    http_body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
    /// Whether the body is complete in memory.
    fn is_whole(&self) -> bool;

    /// Attaches a guard, which is dropped when the body has been sent or dropped.
    fn hold(&mut self, guard: impl Send + 'static);

    /// Takes the body, and leaves an empty one.
    fn take(&mut self) -> Self;
}

/// A service that answers the requests of a listener.
pub trait Answers: Send + Sync + 'static {
    /// The body of its responses.
    type Body: ResponseBody;

    /// Returns the response to a request of a connection. Errors are responses too. After a response with status 101,
    /// which is permitted if the request has the extension [`OnUpgrade`], the connection is a WebSocket. The body of
    /// the response is then the frames that it carries.
    fn answer(
        &self,
        connection: &ConnectionState,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Returns the response to a request that the transport rejects.
    fn reject(
        &self,
        connection: &ConnectionState,
        method: &Method,
        error: HeadError,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The status code, and the body as JSON, of the response to a connection that is rejected by this limit.
    fn rejection(&self, limited: &Limited) -> (StatusCode, Vec<u8>);

    /// Whether clients have to authenticate. If not, every connection counts as authenticated.
    fn authenticates(&self) -> bool;

    /// The seats that limit the work of connections, such as TLS handshakes. `None`: this listener does not limit work.
    fn seats(&self) -> Option<&Arc<Seats>> {
        None
    }

    /// Whether the client is a front proxy, whose connection carries requests of many users. `_`: its certificate and
    /// address.
    fn is_shared(&self, _: &Peer) -> bool {
        false
    }

    /// Counts a panic that ended a connection.
    fn count_panic(&self) {}

    /// Called after the listener has stopped accepting connections. The service must end watches and other requests
    /// without an end.
    fn drain(&self);
}

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    connections: Arc<Connections>,
}

impl Listener {
    /// Binds the address of `--address`.
    ///
    /// # Errors
    /// [`BindError`], one variant for each remedy.
    pub async fn bind(address: SocketAddr) -> Result<Listener, BindError> {
        Listener::bind_option(address, "--address").await
    }

    /// Binds the address of the command line option `option`, which errors name. The default limit of connections
    /// applies.
    ///
    /// # Errors
    /// [`BindError`], one variant for each remedy.
    pub async fn bind_option(address: SocketAddr, option: &'static str) -> Result<Listener, BindError> {
        let (listener, address) = bind(address, option).await?;
        let connections = Arc::new(Connections::new(LimitSettings::default().connections));
        Ok(Listener { listener, address, tls: None, connections })
    }

    /// Makes the listener accept TLS only.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Listener {
        Listener { tls: Some(Arc::new(tls)), ..self }
    }

    /// Makes the listener count its connections in this table, which limits them.
    #[must_use]
    pub fn with_connections(self, connections: Arc<Connections>) -> Listener {
        Listener { connections, ..self }
    }

    /// The address, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves connections until `stop` is ready. Then it accepts no further connections, ends watches, and waits up
    /// to [`GRACE`] for responses in progress.
    pub async fn run(self, server: Arc<impl Answers>, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut replaced = std::pin::pin!(follow_certificate(self.tls.as_deref()));
        let ending = watch::Sender::new(false);
        let is_trusted = !server.authenticates();
        let rejecter = Rejecter::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                never = &mut replaced => match never {},
                () = &mut stop => break,
            };
            let Some((stream, address)) = accepted else { continue };
            let state = Arc::new(ConnectionState::new(address.ip(), is_trusted));
            let Some(place) = self.connections.enter(&state) else {
                // Over TLS, a response would need a handshake, so the connection is only closed.
                if self.tls.is_none() {
                    let (rejecter, server, limited) =
                        (rejecter.clone(), server.clone(), self.connections.limit_error());
                    let rejection = move || {
                        let (code, status) = server.rejection(&limited);
                        let retry_after = limited.retry_after.unwrap_or(1);
                        Rejection { code, status, retry_after, message: limited.message }
                    };
                    tokio::spawn(async move { rejecter.reject(stream, rejection).await });
                }
                continue;
            };
            // A watch event is one small write, which must not wait for further bytes.
            let _ = stream.set_nodelay(true);
            let (server, tls, ended) = (server.clone(), self.tls.clone(), ending.subscribe());
            let connections = self.connections.clone();
            bound_unsent(&stream);
            tokio::spawn(async move {
                let _place = place;
                let counting = server.clone();
                let end = End { ended, connections };
                let served = Box::pin(serve_socket(stream, address, state.clone(), server, tls, end));
                tokio::select! {
                    served = AssertUnwindSafe(served).catch_unwind() => {
                        if served.is_err() {
                            tracing::error!("a connection panicked and was closed");
                            counting.count_panic();
                        }
                    }
                    () = state.wait_for_eviction() => tracing::debug!("closed a connection to make room for another one"),
                }
            });
        }
        ending.send_replace(true);
        server.drain();
        // Every connection holds a receiver until it has ended.
        if timeout(GRACE, ending.closed()).await.is_err() {
            tracing::warn!("closed connections with responses in progress at the end of the grace period");
        }
    }

    /// Accepts a connection. `None` after an error and a pause.
    async fn accept(&self) -> Option<(TcpStream, SocketAddr)> {
        match self.listener.accept().await {
            Ok(accepted) => Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }
}

/// Binds the address of the command line option `option`, and returns the address with its real port. For port 0 the
/// system chooses one.
pub(crate) async fn bind(address: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), BindError> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "std adds kinds")]
    let bind_error = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse(address, option),
        io::ErrorKind::PermissionDenied => BindError::NotAllowed(address, option),
        io::ErrorKind::AddrNotAvailable => BindError::NotHere(address, option),
        _ => BindError::Other { address, source },
    };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(bind_error)?;
    // As `TcpListener::bind` does, so that a restarted process gets its port at once.
    #[cfg(unix)]
    socket.set_reuseaddr(true).map_err(bind_error)?;
    socket.bind(address).map_err(bind_error)?;
    let listener = socket.listen(BACKLOG).map_err(bind_error)?;
    let address = listener.local_addr().map_err(bind_error)?;
    Ok((listener, address))
}

/// Bounds the unsent bytes of a connection in the kernel to [`UNSENT`]. If the system does not have this option, the
/// size of its whole buffer is the bound.
fn bound_unsent(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT);
    #[cfg(not(target_os = "linux"))]
    let _ = (stream, UNSENT);
}

/// Reloads the certificate when its files change. Without TLS, waits forever.
async fn follow_certificate(tls: Option<&Tls>) -> ! {
    match tls {
        Some(tls) => tls.follow().await,
        None => std::future::pending().await,
    }
}

/// Performs the TLS handshake of a connection. It costs as much as a list, so it takes seats for `user`, the address
/// of the client. `None` if no seat is free in time, or the handshake fails.
async fn accept_tls(server: &impl Answers, tls: &Tls, user: &User, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let Some(seats) = server.seats() else { return tls.accept(stream).await };
    let mut worker = seats.worker(user);
    worker.arrive().await.ok()?;
    worker.work_through(tls.accept(stream)).await
}

/// The address of the client, and the certificates that it sent.
fn peer(address: SocketAddr, stream: &TlsStream<TcpStream>) -> Peer {
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    Peer::new(Some(address.ip()), chain.to_vec())
}

/// How a connection learns that the process must end, and where its own end is counted.
pub(crate) struct End {
    /// True once the process must end.
    pub(crate) ended: watch::Receiver<bool>,
    /// The table that counts closed connections by reason.
    pub(crate) connections: Arc<Connections>,
}

/// Performs the TLS handshake if `tls` is set, and serves the connection until it ends.
async fn serve_socket(
    stream: TcpStream,
    address: SocketAddr,
    state: Arc<ConnectionState>,
    server: Arc<impl Answers>,
    tls: Option<Arc<Tls>>,
    mut end: End,
) {
    let Some(tls) = tls else { return serve(stream, state, server, end, None).await };
    let accepted = tokio::select! {
        // In a box, which is freed after the handshake.
        accepted = Box::pin(accept_tls(&*server, &tls, state.user(), stream)) => accepted,
        // Handshakes do not delay the end of the process.
        _ = end.ended.wait_for(|ended| *ended) => None,
    };
    if let Some(stream) = accepted {
        let peer = Arc::new(peer(address, &stream));
        serve(stream, state, server, end, Some(peer)).await;
    }
}

/// Serves one connection until it ends. `peer`: the client's address and certificates, which each request gets as an
/// extension; `None` without TLS.
///
/// The connection is in a box, and nothing before it is in the returned future. An asynchronous function reserves
/// memory for every value that it moves, so each open connection would take 16 kB instead of 2 kB.
pub(crate) fn serve<Io>(
    stream: Io,
    state: Arc<ConnectionState>,
    server: Arc<impl Answers>,
    mut end: End,
    peer: Option<Arc<Peer>>,
) -> impl Future<Output = ()> + Send
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let worker = server.seats().map(|seats| seats.worker(state.user()));
    let link = Arc::new(Link::new(state.clone(), end.connections.clone()));
    let mut builder = Builder::new(StreamTimeoutExecutor(link.clone()));
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(LONGEST_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_header_list_size(MOST_HEAD as u32)
        .initial_stream_window_size(UNREAD_OF_STREAM)
        .initial_connection_window_size(UNREAD_OF_CONNECTION)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    if peer.as_ref().is_some_and(|peer| server.is_shared(peer)) {
        builder.http2().max_pending_accept_reset_streams(RESETS_OF_SHARED);
    }
    let slots = Arc::<Slots>::default();
    let heads = Heads::new(WriteTimeout::new(stream, link.clone()), slots.clone(), link.clone());
    let (requests, arriving) = (state.clone(), link.clone());
    let upgraded = Arc::<Upgraded<_>>::default();
    let upgrading = upgraded.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        // `Heads` may have replaced the head of the request by a shorter one.
        let restored = slots.restore(&mut request);
        // hyper starts the task of this request next, which counts as this much memory until it runs.
        arriving.set_next_request(unstarted_bytes(&request));
        let (server, state, pending) = (server.clone(), requests.clone(), requests.begin_request());
        let (link, upgraded) = (arriving.clone(), upgrading.clone());
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        // In a box, which is dropped when the response is ready. Otherwise hyper would keep the memory of this future
        // while the response is being sent, which takes hours for a watch. It would be two thirds of the memory of an
        // idle watch.
        async move {
            let answered = Box::pin(async move {
                let upgrade = request.extensions().get::<OnUpgrade>().cloned();
                let mut response = match restored {
                    Ok(()) => server.answer(&state, request).await,
                    Err(error) => {
                        let reason = error.message();
                        tracing::debug!(address = ?state.address(), reason, "rejected a request with an invalid URL or header");
                        server.reject(&state, request.method(), error).await
                    }
                };
                let open = pending.respond(response.status());
                // A whole body is passed to hyper at once, so its response is not open after this.
                if !response.body().is_whole()
                    && let Some(open) = open
                {
                    response.body_mut().hold(open);
                }
                if let Some(upgrade) = upgrade.filter(|_| response.status() == StatusCode::SWITCHING_PROTOCOLS) {
                    link.record_upgrade();
                    upgraded.set(upgrade, response.body_mut().take());
                }
                response
            });
            Ok::<_, Infallible>(answered.await)
        }
    });
    let mut connection = Box::pin(builder.serve_connection_with_upgrades(TokioIo::new(heads), service).into_owned());
    let served = Box::pin(async move {
        let ended = tokio::select! {
            result = connection.as_mut() => Ok(result),
            _ = end.ended.wait_for(|ended| *ended) => Err(None),
            reason = state.wait_for_close() => Err(Some(reason)),
        };
        if ended.is_err() {
            connection.as_mut().graceful_shutdown();
        }
        let ended = match ended {
            Ok(result) => result,
            // The process ends: `Listener::run` limits how long it waits.
            Err(None) => connection.as_mut().await,
            Err(Some(reason)) => {
                end.connections.count_closed(reason);
                return tokio::select! {
                    // A WebSocket that is accepted meanwhile is not served: it ends, and its client connects again.
                    result = connection.as_mut() => log_end(result),
                    () = state.wait_for_cut() => tracing::debug!(reason = reason.as_str(), "connection closed"),
                };
            }
        };
        log_end(ended);
        if let Some((upgrade, body)) = upgraded.take() {
            drop(connection);
            Box::pin(serve_websocket(upgrade, body, &state, &end)).await;
        }
    });
    async move {
        if stream_timeout::until_ended(&link, worker, served).await.is_none() {
            tracing::debug!("closed a connection, because its client left too much unread");
        }
    }
}

/// The WebSocket that follows a connection's last request over HTTP/1.1, if there is one. In a box, because most
/// connections have none.
struct Upgraded<Body>(Mutex<Option<Box<(OnUpgrade, Body)>>>);

impl<Body> Default for Upgraded<Body> {
    fn default() -> Upgraded<Body> {
        Upgraded(Mutex::new(None))
    }
}

impl<Body> Upgraded<Body> {
    /// Sets the upgrade of the connection, and the frames that the WebSocket carries.
    fn set(&self, upgrade: OnUpgrade, body: Body) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new((upgrade, body)));
    }

    /// Takes the WebSocket; `None` if no request was upgraded.
    fn take(&self) -> Option<(OnUpgrade, Body)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(|upgraded| *upgraded)
    }
}

/// Serves the WebSocket of a connection until it ends, or the connection must end. When the process ends, the body
/// does too.
async fn serve_websocket(upgrade: OnUpgrade, body: impl ResponseBody, state: &ConnectionState, end: &End) {
    let Ok(io) = upgrade.await else { return };
    let mut socket = Box::pin(websocket::serve(TokioIo::new(io), body));
    let reason = tokio::select! {
        () = socket.as_mut() => return,
        reason = state.wait_for_close() => reason,
    };
    end.connections.count_closed(reason);
    tokio::select! {
        () = socket => {}
        () = state.wait_for_cut() => tracing::debug!(reason = reason.as_str(), "connection closed"),
    }
}

/// Logs how a connection ended.
fn log_end(result: Result<(), Box<dyn Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(error, "connection ended");
    }
}
