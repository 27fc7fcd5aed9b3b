//! Over real sockets: HTTP/1.1, HTTP/2, a port in use, a graceful end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{Fixture, SHIRTS};
use crate::transport::listen::{BindError, Listener};

pub(super) struct Running {
    pub(super) address: SocketAddr,
    pub(super) stop: oneshot::Sender<()>,
    pub(super) task: JoinHandle<()>,
}

async fn run(fixture: &Fixture) -> Running {
    run_listener(fixture, Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap())
}

#[expect(clippy::disallowed_methods, reason = "a server needs a task; it is joined")]
pub(super) fn run_listener(fixture: &Fixture, listener: Listener) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let address = listener.address();
    let server = fixture.server.clone();
    let task = tokio::spawn(async move {
        listener
            .run(server, async {
                let _ = stopped.await;
            })
            .await;
    });
    Running { address, stop, task }
}

pub(super) fn request(path: &str) -> Request<Empty<bytes::Bytes>> {
    Request::builder().uri(format!("http://127.0.0.1{path}")).header("host", "127.0.0.1").body(Empty::new()).unwrap()
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "client connections need a task; they end with the server")]
async fn both_protocols_list_and_watch_until_the_end() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let running = run(&fixture).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut one, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let first = tokio::spawn(connection);
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (mut two, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let second = tokio::spawn(connection);

    let list = one.send_request(request(SHIRTS)).await.unwrap();
    assert_eq!((list.status().as_u16(), list.headers().contains_key("date")), (200, true));
    let over_one = list.into_body().collect().await.unwrap().to_bytes();
    let over_two = two.send_request(request(SHIRTS)).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(over_one, over_two);

    let path = format!("{SHIRTS}?watch=1&resourceVersion=101");
    let mut watch_one = one.send_request(request(&path)).await.unwrap().into_body();
    let mut watches = Vec::new();
    for _ in 0..200 {
        watches.push(two.send_request(request(&path)).await.unwrap().into_body());
    }
    fixture.put("default", "y", "blue");
    let line = watch_one.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(line.starts_with(b"{\"type\":\"ADDED\"") && line.ends_with(b"}\n"));
    for watch in &mut watches {
        assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), line);
    }

    running.stop.send(()).unwrap();
    assert!(watch_one.frame().await.is_none(), "a clean end, not a broken connection");
    for watch in watches {
        assert!(watch.collect().await.unwrap().to_bytes().is_empty());
    }
    running.task.await.unwrap();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(fixture.shirts.resource.state.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_loses_its_connection_and_others_do_not() {
    let mut fixture = Fixture::new();
    let long = "x".repeat(200_000);
    for number in 0..200 {
        fixture.put_without_publishing("default", &format!("{long}{number}"), "blue");
    }
    fixture.shirts.publish();
    let running = run(&fixture).await;
    let mut stopped = TcpStream::connect(running.address).await.unwrap();
    let head = format!("GET {SHIRTS} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    stopped.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 15];
    stopped.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let started = Instant::now();
    sleep(Duration::from_secs(150)).await;
    assert_eq!(started.elapsed().as_secs(), 150);
    let mut rest = Vec::new();
    let end = stopped.read_to_end(&mut rest).await;
    assert!(end.is_err() || !rest.ends_with(b"0\r\n\r\n"), "the answer was cut: {}", rest.len());
    assert!(rest.len() < 40_000_000);
    let mut other = TcpStream::connect(running.address).await.unwrap();
    other.write_all(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_loses_its_connection() {
    let fixture = Fixture::new();
    let running = run(&fixture).await;
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let started = Instant::now();
    let mut nothing = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), silent.read_to_end(&mut nothing)).await;
    assert!(ended.is_ok(), "still open after a minute");
    assert!(nothing.is_empty());
    assert!(started.elapsed() >= Duration::from_secs(30), "a slow client has half a minute");
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_is_named_with_a_remedy() {
    let first = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = first.address();
    let error = Listener::bind(address).await.unwrap_err();
    assert!(matches!(error, BindError::InUse(..)), "{error:?}");
    let expected = format!(
        "address {address} is in use: stop the program that listens on it, or choose another address with --address"
    );
    assert_eq!(error.to_string(), expected);
    let error = Listener::bind("192.0.2.1:8181".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, BindError::NotHere(..)), "{error:?}");
}

#[tokio::test]
async fn a_panic_is_the_answer_to_one_request_only() {
    let fixture = Fixture::new();
    let broken = crate::server::health::Check::one("broken", true, || panic!("defect"));
    let settings = crate::server::Settings { checks: vec![broken], ..crate::server::Settings::default() };
    let fixture =
        Fixture { server: Arc::new(crate::server::Server::new(fixture.registry.clone(), settings)), ..fixture };
    let answer = fixture.get("/livez").await;
    assert_eq!((answer.code.as_u16(), &answer.json()["reason"]), (500, &serde_json::json!("InternalError")));
    assert_eq!(fixture.get(SHIRTS).await.code, 200);
}
