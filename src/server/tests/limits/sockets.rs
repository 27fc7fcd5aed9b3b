//! Over real sockets: connections beyond the most, a stream whose reader has stopped, a peer that stops in its first bytes.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::super::listen::{Running, request, run_listener};
use super::{Fixture, SHIRTS, fill, with_limits};
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::connections::{Connections, MOST_UNSTARTED};
use crate::flow_control::limit::{Limit, LimitSettings, Limited};
use crate::flow_control::user::User;
use crate::registry::PanicOrigin;
use crate::server::request_metrics::RequestOutcome;
use crate::transport::head_error::HeadError;
use crate::transport::listen::{Answers, End, Listener, serve};
use crate::transport::stream_timeout::{Link, StreamTimeoutExecutor};
use crate::transport::write_timeout::{FREES_WITHIN, WriteTimeout};
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::response::transport_error;

async fn run(fixture: &Fixture) -> Running {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    run_listener(fixture, listener.with_connections(fixture.server.limits().connections().clone()))
}

const LIVEZ: &[u8] = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

async fn said(stream: &mut TcpStream) -> Vec<u8> {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.unwrap();
    text
}

/// Sends requests on a connection that stays open.
async fn connected(running: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(LIVEZ).await.unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    stream
}

#[tokio::test]
async fn an_excess_connection_is_rejected_in_its_own_protocol() {
    let fixture = with_limits(LimitSettings { connections: 2, ..LimitSettings::default() });
    let running = run(&fixture).await;
    let (first, _second) = (connected(&running).await, connected(&running).await);
    let mut third = TcpStream::connect(running.address).await.unwrap();
    third.write_all(LIVEZ).await.unwrap();
    let answer = String::from_utf8(said(&mut third).await).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{head}");
    assert!(head.contains("\r\nretry-after: 1\r\n") && head.ends_with("\r\nconnection: close"), "{head}");
    let status: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        status["message"],
        "too many connections: this server has the maximum number open. Reuse open connections (an HTTP/2 connection carries two thousand requests at a time), close idle ones, or raise --max-connections=2"
    );
    assert_eq!(status["details"]["causes"][0]["reason"], "ConnectionLimit");

    let mut fourth = TcpStream::connect(running.address).await.unwrap();
    fourth.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let frames = said(&mut fourth).await;
    assert_eq!(frames[..9], [0, 0, 0, 4, 0, 0, 0, 0, 0], "settings come first");
    assert_eq!(frames[12], 7, "then it goes away");
    assert_eq!(frames[22..26], [0, 0, 0, 0xb], "the server sends ENHANCE_YOUR_CALM");
    assert!(String::from_utf8_lossy(&frames[26..]).ends_with("--max-connections=2"));
    assert_eq!(usize::from(frames[10]) * 256 + usize::from(frames[11]), frames.len() - 18, "of its length");

    let mut fifth = TcpStream::connect(running.address).await.unwrap();
    fifth.write_all(&[22, 3, 1, 0, 0]).await.unwrap();
    // Closed with a byte unread, which may show as a reset.
    let mut nothing = Vec::new();
    let _ = fifth.read_to_end(&mut nothing).await;
    assert_eq!(nothing, b"", "to TLS nothing is said");
    let connections = fixture.server.limits().connections();
    assert_eq!((connections.open(), fixture.server.limits().rejections(Limit::Connections)), (2, 3));

    drop(first);
    let again = timeout(Duration::from_secs(30), async {
        while connections.open() > 1 {
            tokio::task::yield_now().await;
        }
        connected(&running).await
    });
    again.await.expect("a place is free again");
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_in_the_first_bytes_of_its_protocol_loses_its_connection() {
    for (bytes, why) in [
        (&b"PRI * HTT"[..], "in HTTP/2's preface"),
        (&b"P"[..], "where it may become either"),
        (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], "behind it: no settings, no answer to pings"),
        (&b"GET / HTTP/1.1\r\nHost:"[..], "in the head of HTTP/1.1"),
    ] {
        let fixture = with_limits(LimitSettings { connections: 1, ..LimitSettings::default() });
        let running = run(&fixture).await;
        let mut stopped = TcpStream::connect(running.address).await.unwrap();
        stopped.write_all(bytes).await.unwrap();
        let mut received = Vec::new();
        let ended = timeout(Duration::from_secs(90), stopped.read_to_end(&mut received)).await;
        assert!(ended.is_ok(), "{why}: still open after a minute and a half");
        assert_eq!(fixture.server.limits().connections().open(), 0, "{why}: its place is free");
        running.stop.send(()).unwrap();
        running.task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "both ends of a connection are tasks; they are joined")]
async fn a_stream_whose_reader_has_stopped_is_reset_and_the_others_of_its_connection_go_on() {
    let mut fixture = Fixture::new();
    fill(&mut fixture);
    // A pipe, not a socket: the paused time goes on while the system is waited for, and this reads in many steps.
    let (near, far) = tokio::io::duplex(1 << 16);
    let ending = watch::Sender::new(false);
    let end = End { ended: ending.subscribe(), connections: fixture.server.limits().connections().clone() };
    let serving = tokio::spawn(serve(far, Arc::default(), fixture.server.clone(), end, None));
    let (mut client, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(16 << 20)
        .handshake(TokioIo::new(near))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let path = format!("{SHIRTS}?watch=1&resourceVersion={}", fixture.version);
    let mut watch = client.send_request(request(&path)).await.unwrap().into_body();
    let mut stopped = client.send_request(request(SHIRTS)).await.unwrap().into_body();
    let lists = fixture.server.limits().lists().clone();
    assert_eq!(lists.in_flight().lists, 1);
    sleep(Duration::from_secs(100)).await;
    let mut read = 0;
    while read < 700_000 {
        read += stopped.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    sleep(Duration::from_secs(100)).await;
    assert_eq!(lists.in_flight().lists, 1, "after a pause in which it read the time starts again");
    sleep(Duration::from_secs(130)).await;
    assert_eq!(lists.in_flight().lists, 0, "the list is let go with its snapshot");
    let error = loop {
        match stopped.frame().await.expect("it must not look like a whole answer") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("error reading a body"), "{error}");
    fixture.put("default", "y", "blue");
    let line = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(line.starts_with(b"{\"type\":\"ADDED\""), "a watch that had nothing to say for minutes goes on");
    assert_eq!(client.send_request(request("/livez")).await.unwrap().status(), 200);
    drop((client, watch, stopped));
    connection.await.unwrap().unwrap();
    serving.await.unwrap();
}

/// A client that takes a little now and then never stops for long.
#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "a connection is a task; it is joined")]
async fn a_connection_that_is_read_too_slowly_ends() {
    let mut fixture = Fixture::new();
    fill(&mut fixture);
    let (mut near, far) = tokio::io::duplex(1 << 12);
    let ending = watch::Sender::new(false);
    let end = End { ended: ending.subscribe(), connections: fixture.server.limits().connections().clone() };
    let serving = tokio::spawn(serve(far, Arc::default(), fixture.server.clone(), end, None));
    near.write_all(format!("GET {SHIRTS} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).await.unwrap();
    let lists = fixture.server.limits().lists().clone();
    let mut bytes = [0; 512];
    near.read_exact(&mut bytes).await.unwrap();
    assert_eq!(lists.in_flight().lists, 1);
    for _ in 0..4 {
        sleep(Duration::from_secs(60)).await;
        near.read_exact(&mut bytes).await.unwrap();
    }
    assert_eq!(lists.in_flight().lists, 0, "four minutes for two kilobytes");
    serving.await.unwrap();
}

/// Many connections can send requests before any of them is looked at.
#[tokio::test]
async fn streams_are_reset_while_too_many_requests_were_not_looked_at() {
    let fixture = Fixture::new();
    let connections = fixture.server.limits().connections().clone();
    let flood = |name: usize| {
        let connections = connections.clone();
        std::iter::from_fn(move || connections.begin_stream(&User::named(&name.to_string()), 64 << 10))
    };
    let shares: Vec<_> = (0..200).flat_map(flood).collect();
    assert!((shares.len() as u64) << 16 >= MOST_UNSTARTED, "{}", shares.len());
    for (is_authenticated, what) in [(true, "with credentials"), (false, "without")] {
        let state = Arc::new(ConnectionState::for_user(User::named("late"), is_authenticated));
        let streams = StreamTimeoutExecutor(Arc::new(Link::new(state.clone(), connections.clone())));
        let link = streams.0.clone();
        link.set_next_request(8 << 20);
        let (polled, request) = tokio::sync::oneshot::channel::<()>();
        streams.execute(async move { drop(polled) });
        assert!(request.await.is_err(), "{what}: its task is dropped");
        let evicted = timeout(Duration::from_millis(1), state.wait_for_eviction()).await.is_ok();
        assert_eq!(evicted, !is_authenticated, "{what}");
    }
    assert_eq!(fixture.server.limits().rejections(Limit::UnstartedRequests), 202);
}

/// A peer can send thousands of requests in one packet. Each takes memory until its response is written.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a connection is a task; it is joined")]
async fn requests_are_read_a_few_at_a_time_and_not_while_too_many_wait() {
    let fixture = Fixture::new();
    let connections = fixture.server.limits().connections().clone();
    let (mut near, far) = tokio::io::duplex(1 << 20);
    let ending = watch::Sender::new(false);
    let end = End { ended: ending.subscribe(), connections: connections.clone() };
    let state = Arc::new(ConnectionState::for_user(User::named("10.0.0.1"), false));
    let serving = tokio::spawn(serve(far, state, fixture.server.clone(), end, None));
    // GET / on streams 1, 3, 5 and so on, in HPACK's static table: :method GET, :scheme http, :path /.
    let mut burst = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in 0..1_500_u32 {
        burst.extend_from_slice(&[0, 0, 3, 1, 5]);
        burst.extend_from_slice(&(2 * stream + 1).to_be_bytes());
        burst.extend_from_slice(&[0x82, 0x86, 0x84]);
    }
    near.write_all(&burst).await.unwrap();
    let other = connections.begin_stream(&User::named("10.0.0.2"), 5 << 20).unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(connections.unstarted(), 5 << 20, "nothing is read while others wait");
    drop(other);
    let mut most = 0;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
        most = most.max(connections.unstarted());
    }
    assert!(most > 0 && most < 400 << 10, "{most} bytes of requests at a time");
    drop(near);
    serving.await.unwrap();
}

/// Panics at a request for `/panic`, watches for ever otherwise.
struct Planted(Fixture);

impl Answers for Planted {
    type Body = Body;

    async fn answer(&self, connection: &ConnectionState, request: Request<Incoming>) -> Response<Body> {
        assert_ne!(request.uri().path(), "/panic", "planted");
        self.0.server.answer_to(connection, request).await
    }

    async fn reject(&self, _: &ConnectionState, method: &Method, error: HeadError) -> Response<Body> {
        transport_error(error, method)
    }

    fn rejection(&self, limited: &Limited) -> (StatusCode, Vec<u8>) {
        ApiError::Limited(limited.clone()).code_and_status()
    }

    fn authenticates(&self) -> bool {
        false
    }

    fn count_panic(&self) {
        self.0.registry.panics().count(PanicOrigin::Connection);
    }

    fn drain(&self) {}
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a server needs a task; it is joined")]
async fn a_panic_beside_answers_ends_one_connection() {
    let planted = Arc::new(Planted(Fixture::new()));
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let connections = Arc::new(Connections::new(10));
    let listener = listener.with_connections(connections.clone());
    let address = listener.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = planted.clone();
    let task = tokio::spawn(listener.run(serving, async {
        let _ = stopped.await;
    }));
    let mut other = TcpStream::connect(address).await.unwrap();
    let mut broken = TcpStream::connect(address).await.unwrap();
    broken.write_all(b"GET /panic HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
    let mut nothing = Vec::new();
    let _ = broken.read_to_end(&mut nothing).await;
    assert_eq!(nothing, b"");
    other.write_all(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(String::from_utf8(said(&mut other).await).unwrap().ends_with("\r\n\r\nok"));
    assert_eq!(planted.0.registry.panics().count_of(PanicOrigin::Connection), 1);
    stop.send(()).unwrap();
    task.await.unwrap();
    assert_eq!(connections.open(), 0);
}

#[tokio::test]
async fn a_head_that_is_too_long_is_rejected_before_it_is_read_whole() {
    let fixture = with_limits(LimitSettings::default());
    let running = run(&fixture).await;
    for (bytes, code) in [(60 << 10, "200"), (900 << 10, "200"), (1100 << 10, "431")] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let head = format!("GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nx: {}", "x".repeat(bytes));
        // A server that has rejected it reads a little more, for a while.
        let _ = stream.write_all(head.as_bytes()).await;
        if code == "200" {
            stream.write_all(b"\r\n\r\n").await.unwrap();
        }
        let mut first = [0; 12];
        timeout(Duration::from_secs(10), stream.read_exact(&mut first)).await.expect("a response").unwrap();
        assert_eq!(String::from_utf8_lossy(&first), format!("HTTP/1.1 {code}"), "{bytes} bytes");
    }
    let counted = fixture.server.tally().counted();
    let rejected: Vec<_> = counted.iter().filter(|counted| counted.outcome.code != 200).collect();
    let times = rejected.iter().map(|counted| counted.buckets.iter().sum::<u64>()).sum::<u64>();
    assert_eq!((times, rejected[0].outcome), (1, RequestOutcome::rejected(431)), "{rejected:?}");
}

/// A front proxy carries requests of many users over one connection. The connection of one ended stream does not end
/// because its socket is full for a moment.
#[tokio::test(start_paused = true)]
async fn a_connection_with_an_ended_stream_has_a_moment_to_write() {
    const ROOM: usize = 16;
    let fixture = Fixture::new();
    for (reads, what) in [(true, "a peer that reads soon"), (false, "one that does not")] {
        let (io, mut peer) = tokio::io::duplex(ROOM);
        let state = Arc::new(ConnectionState::for_user(User::named("proxy"), true));
        let link = Arc::new(Link::new(state, fixture.server.limits().connections().clone()));
        let mut stall = WriteTimeout::new(io, link.clone());
        stall.write_all(&[1; ROOM]).await.unwrap();
        link.require_write();
        let mut writes = Box::pin(async move {
            stall.write_all(&[2; ROOM]).await?;
            stall.flush().await
        });
        let soon = timeout(FREES_WITHIN / 2, &mut writes).await;
        assert!(soon.is_err(), "{what}: it waits");
        if reads {
            let mut bytes = [0; 2 * ROOM];
            let (read, written) = tokio::join!(peer.read_exact(&mut bytes), writes);
            read.unwrap();
            written.expect(what);
            assert!(link.may_wait(), "{what}: all is written");
        } else {
            let error = writes.await.expect_err(what);
            assert_eq!(error.to_string(), "the client has left too much unread", "{what}");
        }
    }
}
