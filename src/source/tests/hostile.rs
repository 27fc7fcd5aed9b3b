//! A source that sends without an end, over a real connection: every read from it is bounded, and ends.

#![expect(clippy::disallowed_methods, reason = "the server of the test is a task of its own")]

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::feed::resource;
use crate::registry::{NotReady, Offers};
use crate::source::connection::{ClusterOptions, Connection, RequestError};
use crate::source::discovery::discover;
use crate::source::feed::Feed;
use crate::source::list_watch::{Following, follow};
use crate::source::self_check::Pages;
use crate::store::HistoryLimits;

/// Longer than any machine needs for the largest bound.
const SOON: Duration = Duration::from_secs(300);
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";

/// Sends this again and again; returns how many bytes were taken before the client closed the connection.
async fn endless(mut stream: TcpStream, begin: &str, unit: &[u8]) -> usize {
    let mut sent = 0;
    if stream.write_all(begin.as_bytes()).await.is_err() {
        return sent;
    }
    while !unit.is_empty() && stream.write_all(unit).await.is_ok() {
        sent += unit.len();
    }
    sent
}

async fn request(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 8192];
    let length = stream.read(&mut buffer).await.unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// A source whose first response has no end.
async fn source(begin: String, unit: Vec<u8>) -> (Connection, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let sending = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        endless(stream, &begin, &unit).await
    });
    (Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap(), sending)
}

#[tokio::test]
async fn a_document_without_an_end_is_given_up() {
    let megabyte = || vec![b' '; 1 << 20];
    let refused = "HTTP/1.1 500 Internal Server Error\r\n\r\nno".to_owned();
    type Read = fn(Connection) -> futures::future::BoxFuture<'static, Result<(), RequestError>>;
    let rows: [(&str, String, Vec<u8>, usize, Read); 9] = [
        ("discovery", OK.to_owned(), megabyte(), 32, |source| {
            Box::pin(async move { discover(&source, &Offers::default()).await.map(drop) })
        }),
        ("a document", OK.to_owned(), megabyte(), 64, |source| {
            Box::pin(async move { source.bytes("/openapi/v3/api/v1", "*/*").await.map(drop) })
        }),
        ("OpenAPI v2", OK.to_owned(), megabyte(), 128, |source| {
            Box::pin(async move { source.changed_bytes("/openapi/v2", "*/*", None).await.map(drop) })
        }),
        ("a version", OK.to_owned(), megabyte(), 64, |source| {
            Box::pin(async move { source.strong_bytes("/api/v1/pods?limit=1", "*/*").await.map(drop) })
        }),
        ("an error", refused, megabyte(), 1, |source| {
            Box::pin(async move { source.get("/api/v1/pods", "*/*").await.map(drop) })
        }),
        ("a page of metadata", format!("{OK}{{\"items\":[{{\"a\":\""), vec![b'x'; 1 << 20], 64, |source| {
            Box::pin(async move { source.page("/api/v1/pods").await.map(drop) })
        }),
        (
            "many small objects",
            format!("{OK}{{\"items\":[{{}}"),
            b",{\"metadata\":{\"name\":1}}".repeat(1000),
            64,
            |source| Box::pin(async move { source.page("/api/v1/pods").await.map(drop) }),
        ),
        ("a head", "HTTP/1.1 200 OK\r\n".to_owned(), b"a: b\r\n".repeat(1000), 8, |source| {
            Box::pin(async move { source.get("/api/v1/pods", "*/*").await.map(drop) })
        }),
        (
            "the extension of a chunk",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;a=".to_owned(),
            vec![b'x'; 1 << 16],
            8,
            |source| Box::pin(async move { source.bytes("/api/v1/pods", "*/*").await.map(drop) }),
        ),
    ];
    for (what, begin, unit, megabytes, read) in rows {
        let (connection, sending) = source(begin, unit).await;
        let ended = timeout(SOON, read(connection)).await.unwrap_or_else(|_| panic!("{what} is read without an end"));
        assert!(ended.is_err(), "{what}");
        let sent =
            timeout(SOON, sending).await.unwrap_or_else(|_| panic!("{what}: the connection stays open")).unwrap();
        // What the kernel had room for was sent, but not read.
        assert!(sent >> 20 <= megabytes + 16, "{what}: {sent} bytes");
    }
}

#[tokio::test]
async fn a_list_without_an_end_is_given_up() {
    let rows = [
        ("an item", "{\"items\":[{\"a\":\"", vec![b'x'; 1 << 20], 64),
        ("metadata", "{\"metadata\":{\"continue\":\"", vec![b'x'; 1 << 20], 1),
        ("white space", "{\"items\":[", vec![b'\n'; 1 << 20], 1),
    ];
    for (what, begin, unit, megabytes) in rows {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Some(format!("http://{}", listener.local_addr().unwrap()));
        let sending = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // No stream of initial objects here, so it lists in pages.
            assert!(request(&mut stream).await.contains("sendInitialEvents"));
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            assert!(request(&mut stream).await.contains("limit=500"));
            endless(stream, &format!("{OK}{begin}"), &unit).await
        });
        let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
        let resource = resource();
        let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
        let sent = tokio::select! {
            biased;
            sent = timeout(SOON, sending) => sent,
            () = follow(&connection, &resource, &mut feed, Following::default()) => panic!("the source still serves the resource"),
        };
        let sent = sent.unwrap_or_else(|_| panic!("{what} is read without an end")).unwrap();
        assert!(sent >> 20 <= megabytes + 16, "{what}: {sent} bytes");
        assert_eq!(feed.listed(), 0, "{what}");
    }
}

#[tokio::test]
async fn who_waits_for_a_list_that_only_fails_is_told_how() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream).await;
            let body = r#"{"kind":"Status","message":"no such path"}"#;
            let head = "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n";
            let _ = stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await;
        }
    });
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    let waited = tokio::select! {
        waited = resource.live.snapshot(SOON) => waited.unwrap_err(),
        () = follow(&connection, &resource, &mut feed, Following::default()) => panic!("the source still serves the resource"),
    };
    assert!(
        matches!(&waited, NotReady::Refused { code: 500, message } if message.contains("no such path")),
        "{waited:?}"
    );
    serving.abort();
}

#[tokio::test]
async fn a_pause_that_a_source_asks_for_is_bounded() {
    let begin = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 18446744073709551615\r\n\r\n";
    let (connection, sending) = source(begin.to_owned(), Vec::new()).await;
    let Err(RequestError::Refused { retry_after, .. }) = connection.get("/api/v1/pods", "*/*").await else {
        panic!("an error")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(60)));
    sending.abort();
}

#[tokio::test]
async fn one_long_group_hides_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = request(&mut stream).await;
            let (path, is_aggregated) = (asked.split(' ').nth(1).unwrap(), asked.contains("apidiscovery"));
            let version = |group: &str| json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
            let group = |name: &str| json!({"name": name, "versions": [version(name)]});
            let verbs = ["get", "list", "watch"];
            let answer = match path {
                "/api" => json!({"kind": "APIGroupDiscoveryList", "items": []}),
                "/apis" if !is_aggregated => {
                    json!({"kind": "APIGroupList", "groups": [group("a.example.com"), group("b.example.com")]})
                }
                "/apis/b.example.com/v1" => json!({"resources": [
                    {"name": "shirts", "kind": "Shirt", "namespaced": true, "verbs": verbs},
                    {"name": "shirts/status", "kind": "Shirt", "namespaced": true, "verbs": ["get"]},
                ]}),
                _ => {
                    endless(stream, OK, &[b' '; 1 << 16]).await;
                    continue;
                }
            };
            let closing = OK.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
            stream.write_all(format!("{closing}{answer}").as_bytes()).await.unwrap();
        }
    });
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    let found = timeout(SOON, discover(&connection, &Offers::default())).await.expect("it ends").unwrap();
    let [shirts] = &found.resources[..] else { panic!("{:?}", found.resources) };
    assert_eq!(shirts.gvr.to_string(), "shirts.v1.b.example.com");
    assert_eq!(shirts.subresources[0].name, "status");
    let stale: Vec<(&str, bool)> =
        found.offers.groups.iter().map(|group| (&*group.name, group.versions[0].is_stale)).collect();
    assert_eq!(stale, [("a.example.com", true), ("b.example.com", false)]);
    serving.abort();
}
