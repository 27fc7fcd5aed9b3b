//! The socket: HTTP/1.1 and HTTP/2 on one port, a bounded number of connections (`limits::connections`), a graceful
//! end.
//!
//! Without TLS, clients that begin with HTTP/2 get it ("prior knowledge"); over TLS, which is in `tls`, ALPN decides. A
//! panic ends at most the connection it happens on; `Server::answer` turns those of handlers into answers before.
//!
//! The rules of [`ConnectionState`] end a connection that has no use any more. Over HTTP/2 this is a GOAWAY, so
//! requests in progress end normally and the client sends further ones over another connection.
#![expect(clippy::disallowed_methods, reason = "connections are tasks, started and joined here")]

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
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
use super::write_timeout::WriteTimeout;
use crate::access::authentication::Peer;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::connections::Connections;
use crate::flow_control::limit::{LimitSettings, Limited};
use crate::flow_control::seats::Seats;
use crate::flow_control::user::User;

/// Streams of one HTTP/2 connection: an informer takes one each, and a manager has hundreds. kube-apiserver offers 100, after
/// which Go clients open another connection; here further ones would cost more than streams do.
const STREAMS_PER_CONNECTION: u32 = 2000;

/// Bytes that the kernel takes for a connection beyond what the network has in flight. Its buffer would otherwise grow to
/// megabytes for a reader that stops.
const UNSENT: u32 = 128 << 10;

/// The longest head of an HTTP/1.1 request that hyper gets, with room for the number of a slot. Hyper's default is five times as much.
const LONGEST_HEAD: usize = USUAL_HEAD + 1024;

/// Bytes of request bodies that a connection may send before they are read. No body is read before its request is authenticated and
/// has its turn, and these bytes are in no limit. Hyper's default is a mebibyte for each.
const UNREAD_OF_STREAM: u32 = 64 << 10;
const UNREAD_OF_CONNECTION: u32 = 128 << 10;

/// Requests that one read of a connection of a front proxy may begin and reset. With more, or 20 on other connections, HTTP/2's
/// implementation ends the connection. kube-apiserver sends the requests of all users on one, so one user must not end it. What such
/// requests hold is bounded by [`MOST_UNSTARTED`](crate::flow_control::connections::MOST_UNSTARTED), and each takes a turn of its user.
const RESETS_OF_SHARED: usize = 100_000;

/// How long the head of a request may take to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// HTTP/2 pings find peers that went without a word.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// How long responses in progress may take after the end was requested.
const GRACE: Duration = Duration::from_secs(10);

/// Pause after a failed accept: out of file descriptors, which only time mends.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why an address cannot be listened on; Display names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program has the port.
    #[error("address {0} is in use: stop the program that listens there, or choose another one with {1}")]
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
}

/// A service that answers the requests of a listener.
pub trait Answers: Send + Sync + 'static {
    /// The body of its responses.
    type Body: ResponseBody;

    /// Responds to a request of a connection; never fails.
    fn answer(
        &self,
        connection: &ConnectionState,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Responds to a request that the transport rejects; never fails.
    fn reject(
        &self,
        connection: &ConnectionState,
        method: &Method,
        error: HeadError,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The status code and the body, in JSON, of the response to a connection that has no place.
    fn rejection(&self, limited: &Limited) -> (StatusCode, Vec<u8>);

    /// Whether clients have to authenticate. If not, every connection counts as authenticated.
    fn authenticates(&self) -> bool;

    /// The seats that handshakes take; `None` where users do not share work.
    fn seats(&self) -> Option<&Arc<Seats>> {
        None
    }

    /// Whether a connection with this certificate carries requests of many users.
    fn is_shared(&self, _: &Peer) -> bool {
        false
    }

    /// Counts a contained panic of a connection.
    fn count_panic(&self) {}

    /// Called after the listener has stopped accepting: requests without an end, such as watches, must end now.
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

    /// Binds the address of an option, which errors name.
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

    /// The listener with its connections counted in this table, which limits them.
    #[must_use]
    pub fn with_connections(self, connections: Arc<Connections>) -> Listener {
        Listener { connections, ..self }
    }

    /// The address, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is done. Then no connection is taken, watches end, and responses in progress are finished.
    pub async fn run(self, server: Arc<impl Answers>, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut replaced = std::pin::pin!(follow(self.tls.as_deref()));
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
                if self.tls.is_none() {
                    let (rejecter, server, limited) = (rejecter.clone(), server.clone(), self.connections.limited());
                    let rejection = move || {
                        let (code, status) = server.rejection(&limited);
                        let retry_after = limited.retry_after.unwrap_or(1);
                        Rejection { code, status, retry_after, message: limited.message }
                    };
                    tokio::spawn(async move { rejecter.reject(stream, rejection).await });
                }
                continue;
            };
            // An event is one small write; waiting for more would hold it back.
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
                    () = state.wait_for_eviction() => tracing::debug!("a connection was evicted"),
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

    /// Accepts a connection. Pauses after an error.
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

/// Binds the address of an option. For port 0 the system chooses the port.
pub(crate) async fn bind(address: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), BindError> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "std adds kinds")]
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse(address, option),
        io::ErrorKind::PermissionDenied => BindError::NotAllowed(address, option),
        io::ErrorKind::AddrNotAvailable => BindError::NotHere(address, option),
        _ => BindError::Other { address, source },
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Bounds the unsent bytes of a response in the kernel. Where the system has no such option, or rejects it, the bound
/// of its whole buffer applies.
fn bound_unsent(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT);
    #[cfg(not(target_os = "linux"))]
    let _ = (stream, UNSENT);
}

/// Follows the files of the certificate, if there is one.
async fn follow(tls: Option<&Tls>) -> ! {
    match tls {
        Some(tls) => tls.follow().await,
        None => std::future::pending().await,
    }
}

/// Accepts a connection by TLS, which costs about as much as a list: it takes seats for the peer's address.
async fn shake_hands(server: &impl Answers, tls: &Tls, user: &User, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let Some(seats) = server.seats() else { return tls.accept(stream).await };
    let mut worker = seats.worker(user);
    worker.arrive().await.ok()?;
    worker.work_through(tls.accept(stream)).await
}

/// The certificates and the address of the client.
fn peer(address: SocketAddr, stream: &TlsStream<TcpStream>) -> Peer {
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    Peer::new(Some(address.ip()), chain.to_vec())
}

/// How the end of a connection is announced, and where it is counted.
pub(crate) struct End {
    /// True once the process must end.
    pub(crate) ended: watch::Receiver<bool>,
    /// The table that counts the reason.
    pub(crate) connections: Arc<Connections>,
}

/// Shakes hands if needed, and serves a socket to its end.
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
        // In a box, which goes with the handshake.
        accepted = Box::pin(shake_hands(&*server, &tls, state.user(), stream)) => accepted,
        // The end does not wait for handshakes.
        _ = end.ended.wait_for(|ended| *ended) => None,
    };
    if let Some(stream) = accepted {
        let peer = tls.requests_client_certificates().then(|| Arc::new(peer(address, &stream)));
        serve(stream, state, server, end, peer).await;
    }
}

/// Serves one connection to its end. Every request carries the peer where that matters.
///
/// The connection is in a box, and nothing before it is in the returned future. An asynchronous function reserves
/// memory for every value that it moves, so a connection of two kilobytes would take sixteen while it is open.
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
    let service = service_fn(move |mut request: Request<Incoming>| {
        let restored = slots.restore(&mut request);
        arriving.has_arrived(unstarted_bytes(&request));
        let (server, state, pending) = (server.clone(), requests.clone(), requests.begin());
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        // In a box, which is dropped when the response is ready. hyper retains the memory of this future while the
        // response is being sent, and a watch is sent for hours. It is two thirds of what an idle watch would hold.
        async move {
            let answered = Box::pin(async move {
                let mut response = match restored {
                    Ok(()) => server.answer(&state, request).await,
                    Err(error) => {
                        let reason = error.message();
                        tracing::debug!(address = ?state.address(), reason, "rejected a request that cannot be routed");
                        server.reject(&state, request.method(), error).await
                    }
                };
                let open = pending.respond(response.status());
                // A whole body is passed on with the head.
                if !response.body().is_whole()
                    && let Some(open) = open
                {
                    response.body_mut().hold(open);
                }
                response
            });
            Ok::<_, Infallible>(answered.await)
        }
    });
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(heads), service).into_owned());
    let served = Box::pin(async move {
        let reason = tokio::select! {
            result = connection.as_mut() => return log_end(result),
            _ = end.ended.wait_for(|ended| *ended) => None,
            reason = state.wait_for_close() => Some(reason),
        };
        connection.as_mut().graceful_shutdown();
        let Some(reason) = reason else { return log_end(connection.await) };
        end.connections.count_closed(reason);
        tokio::select! {
            result = connection.as_mut() => log_end(result),
            () = state.wait_for_cut() => tracing::debug!(reason = reason.as_str(), "connection closed"),
        }
    });
    async move {
        if stream_timeout::until_ended(&link, worker, served).await.is_none() {
            tracing::debug!("connection closed, because its client left too much unread");
        }
    }
}

/// Logs how a connection ended.
fn log_end(result: Result<(), Box<dyn Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(error, "connection ended");
    }
}
