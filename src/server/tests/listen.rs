//! Over real sockets: HTTP/1.1, HTTP/2, a port in use, a graceful end.

use std::net::SocketAddr;
use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Fixture, SHIRTS};
use crate::server::listen::{BindError, Listener};

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

#[expect(clippy::disallowed_methods, reason = "a server needs a task; it is joined")]
async fn run(fixture: &Fixture) -> Running {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
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

fn request(path: &str) -> Request<Empty<bytes::Bytes>> {
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
    assert_eq!(fixture.shirts.resource.live.open_watches(), 0);
}

#[tokio::test]
async fn a_port_in_use_is_named_with_a_remedy() {
    let first = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = first.address();
    let error = Listener::bind(address).await.unwrap_err();
    assert!(matches!(error, BindError::InUse(_)), "{error:?}");
    let expected = format!(
        "address {address} is in use: stop the program that listens there, or choose another one with --address"
    );
    assert_eq!(error.to_string(), expected);
    let error = Listener::bind("192.0.2.1:8181".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, BindError::NotHere(_)), "{error:?}");
}

#[tokio::test]
async fn a_panic_is_the_answer_to_one_request_only() {
    let fixture = Fixture::new();
    let broken = crate::server::health::Check { name: "broken", is_vital: true, probe: Arc::new(|| panic!("defect")) };
    let settings = crate::server::Settings { checks: vec![broken], ..crate::server::Settings::default() };
    let fixture =
        Fixture { server: Arc::new(crate::server::Server::new(fixture.registry.clone(), settings)), ..fixture };
    let answer = fixture.get("/livez").await;
    assert_eq!((answer.code.as_u16(), &answer.json()["reason"]), (500, &serde_json::json!("InternalError")));
    assert_eq!(fixture.get(SHIRTS).await.code, 200);
}
