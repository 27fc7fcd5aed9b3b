//! When the server ends a connection, in paused time and over pipes: the bounds of [`crate::flow_control::connection`].
#![expect(clippy::disallowed_methods, reason = "both ends of a connection are tasks; they end with the test")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::super::admission::cluster;
use super::super::{ALL_SHIRTS, Fixture};
use crate::flow_control::connection::{CloseReason, ConnectionState};
use crate::flow_control::groups::GroupMember;
use crate::server::Settings;
use crate::store::HistoryLimits;
use crate::transport::listen::{End, serve};

/// A server that authenticates its clients, and connections to it.
struct Stage {
    fixture: Fixture,
    ending: watch::Sender<bool>,
}

/// A client that answers PINGs, and its connection.
struct Client {
    sender: SendRequest<Empty<Bytes>>,
    ended: JoinHandle<hyper::Result<()>>,
    opened: Instant,
}

impl Stage {
    fn new() -> Stage {
        let settings = Settings { access: Some(cluster()), ..Settings::default() };
        let mut fixture = Fixture::with(settings, HistoryLimits::default());
        fixture.put("default", "x", "blue");
        Stage { fixture, ending: watch::Sender::new(false) }
    }

    /// The client's end of a connection.
    fn connect(&self) -> DuplexStream {
        self.connect_as(Arc::new(ConnectionState::new("192.0.2.1".parse().unwrap(), false)))
    }

    fn connect_as(&self, state: Arc<ConnectionState>) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        let end =
            End { ended: self.ending.subscribe(), connections: self.fixture.server.limits().connections().clone() };
        tokio::spawn(serve(far, state, self.fixture.server.clone(), end, None));
        near
    }

    async fn client(&self) -> Client {
        self.client_on(self.connect()).await
    }

    async fn client_on(&self, stream: DuplexStream) -> Client {
        let opened = Instant::now();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        Client { sender, ended: tokio::spawn(connection), opened }
    }

    fn closed(&self, reason: CloseReason) -> u64 {
        self.fixture.server.limits().connections().closed(reason)
    }
}

impl Client {
    async fn get(&mut self, path: &str, token: Option<&str>) -> u16 {
        self.try_get(path, token).await.unwrap()
    }

    async fn try_get(&mut self, path: &str, token: Option<&str>) -> hyper::Result<u16> {
        let response = self.open(path, token).await?;
        let code = response.status().as_u16();
        response.into_body().collect().await?;
        Ok(code)
    }

    async fn open(&mut self, path: &str, token: Option<&str>) -> hyper::Result<http::Response<hyper::body::Incoming>> {
        let mut request = Request::builder().uri(format!("http://fieldcache.svc{path}"));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.sender.send_request(request.body(Empty::new()).unwrap()).await
    }

    /// Sends requests until the connection ends; returns the codes, and how long the connection lasted.
    async fn request_until_the_end(&mut self, path: &str, token: Option<&str>, pause: u64) -> (Vec<u16>, u64) {
        let mut codes = Vec::new();
        while !self.ended.is_finished() && self.opened.elapsed() < Duration::from_secs(3600) {
            // After GOAWAY a request is not sent any more.
            codes.extend(self.try_get(path, token).await);
            sleep(Duration::from_secs(pause)).await;
        }
        codes.dedup();
        (codes, self.opened.elapsed().as_secs())
    }

    /// Waits for the end of the connection, at most an hour; after how many seconds it came.
    async fn end(self) -> Option<u64> {
        let ended = timeout(Duration::from_secs(3600), self.ended).await.ok()?;
        ended.unwrap().expect("GOAWAY is a clean end");
        Some(self.opened.elapsed().as_secs())
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_only_answer_pings_end() {
    let stage = Stage::new();
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(stage.client().await);
    }
    for client in clients {
        let seconds = client.end().await.expect("a connection without a request is still open after an hour");
        assert!((30..=40).contains(&seconds), "{seconds}");
    }
    assert_eq!(stage.closed(CloseReason::NoRequest), 40);
}

#[tokio::test(start_paused = true)]
async fn connections_without_valid_credentials_end_although_their_requests_are_answered() {
    let stage = Stage::new();
    for (path, token, expected) in [
        ("/livez", None, 200),
        (ALL_SHIRTS, None, 401),
        (ALL_SHIRTS, Some("wrong"), 401),
        ("/livez", Some("wrong"), 401),
    ] {
        let mut client = stage.client().await;
        let (codes, seconds) = client.request_until_the_end(path, token, 2).await;
        assert_eq!(codes, [expected], "{path} {token:?}");
        assert!((30..=45).contains(&seconds), "{path} {token:?}: {seconds}");
    }
    assert_eq!(stage.closed(CloseReason::Unauthenticated), 4);
}

#[tokio::test(start_paused = true)]
async fn an_authenticated_watch_keeps_its_connection_which_ends_when_it_is_idle() {
    let stage = Stage::new();
    let mut client = stage.client().await;
    let path = format!("{ALL_SHIRTS}?watch=1&timeoutSeconds=7200");
    let watch = client.open(&path, Some("alice")).await.unwrap();
    assert_eq!(watch.status(), 200);
    sleep(Duration::from_secs(3600)).await;
    assert!(!client.ended.is_finished(), "the watch is open");
    assert_eq!(client.get("/livez", None).await, 200, "other requests are answered");
    assert_eq!(client.get(ALL_SHIRTS, Some("mallory")).await, 403);
    sleep(Duration::from_secs(600)).await;
    assert!(!client.ended.is_finished(), "the watch is still open");
    drop(watch);
    let started = Instant::now();
    client.end().await.expect("an idle connection is still open after an hour");
    assert!((89..=100).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    assert_eq!(stage.closed(CloseReason::Idle), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_place_is_needed_ends_at_once_when_idle_and_seconds_later_with_a_watch() {
    let stage = Stage::new();
    for has_watch in [false, true] {
        let state = Arc::new(ConnectionState::new("192.0.2.1".parse().unwrap(), false));
        let mut client = stage.client_on(stage.connect_as(state.clone())).await;
        assert_eq!(client.get(ALL_SHIRTS, Some("alice")).await, 200);
        let path = format!("{ALL_SHIRTS}?watch=1&timeoutSeconds=7200");
        let watch = if has_watch { Some(client.open(&path, Some("alice")).await.unwrap()) } else { None };
        sleep(Duration::from_secs(60)).await;
        assert_eq!((client.ended.is_finished(), state.is_idle()), (false, !has_watch));
        let started = Instant::now();
        state.displace();
        if has_watch {
            sleep(Duration::from_secs(5)).await;
            assert!(!client.ended.is_finished(), "a response in progress has some seconds");
        }
        // With a watch it is cut, which is no clean end.
        let _ = timeout(Duration::from_secs(3600), client.ended).await.expect("still open after an hour");
        let expected = if has_watch { 10..=11 } else { 0..=0 };
        assert!(expected.contains(&started.elapsed().as_secs()), "{has_watch}: {:?}", started.elapsed());
        drop(watch);
    }
    assert_eq!(stage.closed(CloseReason::UserShare), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_keep_an_authenticated_connection_unless_all_are_rejected() {
    let stage = Stage::new();
    let mut client = stage.client().await;
    for _ in 0..100 {
        assert_eq!(client.get(ALL_SHIRTS, Some("alice")).await, 200);
        assert_eq!(client.get(ALL_SHIRTS, Some("mallory")).await, 403);
        sleep(Duration::from_secs(80)).await;
    }
    assert!(!client.ended.is_finished());
    // As from now.
    client.opened = Instant::now();
    let (codes, seconds) = client.request_until_the_end(ALL_SHIRTS, Some("mallory"), 10).await;
    assert_eq!(codes, [403]);
    assert!((200..=310).contains(&seconds), "{seconds}");
    assert_eq!(stage.closed(CloseReason::Rejected), 1);
}

/// Frames of HTTP/2, as many as are whole.
fn frames(received: &mut Vec<u8>) -> Vec<(u8, u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while received.len() >= 9 {
        let length = usize::from(received[1]) << 8 | usize::from(received[2]);
        if received.len() < 9 + length {
            break;
        }
        let frame: Vec<u8> = received.drain(..9 + length).collect();
        frames.push((frame[3], frame[4], frame[9..].to_vec()));
    }
    frames
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_ignores_the_announced_end_is_cut() {
    const KEEP_ALIVE: [u8; 8] = [0x3b, 0x7c, 0xdb, 0x7a, 0x0b, 0x87, 0x16, 0xb4];
    let stage = Stage::new();
    let mut peer = stage.connect();
    let started = Instant::now();
    peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    peer.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]).await.unwrap();
    let (mut received, mut is_announced) = (Vec::new(), false);
    loop {
        let mut bytes = [0; 1024];
        let read = peer.read(&mut bytes).await.unwrap_or_default();
        assert!(started.elapsed() < Duration::from_secs(3600), "still open after an hour");
        if read == 0 {
            break;
        }
        received.extend_from_slice(&bytes[..read]);
        for (kind, flags, payload) in frames(&mut received) {
            is_announced |= kind == 7;
            // The peer responds to PINGs that keep the connection, but not to that of the announced end.
            if kind == 6 && flags == 0 && payload == KEEP_ALIVE {
                let answer = [&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], &payload].concat();
                if peer.write_all(&answer).await.is_err() {
                    break;
                }
            }
        }
    }
    assert!(is_announced, "GOAWAY comes first");
    assert!((30..=45).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
}
