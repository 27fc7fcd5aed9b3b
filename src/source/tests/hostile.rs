//! A source that sends without an end, over a real connection: every read from it is bounded, and ends.

#![expect(clippy::disallowed_methods, reason = "the server of the test is a task of its own")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::feed::resource;
use crate::registry::{NotReady, UpstreamDiscovery};
use crate::source::connection::{ClusterOptions, Connection, RequestError, UpstreamResponse};
use crate::source::discovery::{discover, read_older};
use crate::source::feed::Feed;
use crate::source::list_watch::{ListWatchOptions, follow};
use crate::source::metadata_pages::{Pages, read_page};
use crate::source::pages::MAX_ITEM_BYTES;
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
    let rows: [(&str, String, Vec<u8>, usize, Read); 10] = [
        ("discovery", OK.to_owned(), megabyte(), 32, |source| {
            Box::pin(async move { discover(&source, &UpstreamDiscovery::default()).await.map(drop) })
        }),
        ("a document", OK.to_owned(), megabyte(), 64, |source| {
            Box::pin(async move { source.bytes("/openapi/v3/api/v1", "*/*").await.map(drop) })
        }),
        ("OpenAPI v2", OK.to_owned(), megabyte(), 128, |source| {
            Box::pin(async move { source.changed_bytes("/openapi/v2", "*/*", None).await.map(drop) })
        }),
        ("a version", OK.to_owned(), megabyte(), 1, |source| {
            Box::pin(async move {
                let path = "/api/v1/pods?limit=1";
                let body = source.get_strong(path, "*/*").await?.into_body();
                read_page(&source, path, body, |_| Ok(())).await.map(drop)
            })
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
        (
            "long names",
            format!("{OK}{{\"items\":[{{\"metadata\":{{\"name\":\"a\"}}}}"),
            format!(",{{\"metadata\":{{\"name\":\"{}\"}}}}", "x".repeat(60_000)).into_bytes(),
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
            () = follow(&connection, &resource, &mut feed, ListWatchOptions::default()) => panic!("the source still serves the resource"),
        };
        let sent = sent.unwrap_or_else(|_| panic!("{what} is read without an end")).unwrap();
        assert!(sent >> 20 <= megabytes + 16, "{what}: {sent} bytes");
        assert_eq!(feed.listed(), 0, "{what}");
    }
}

#[tokio::test]
async fn a_reader_that_waits_for_a_failing_list_gets_the_error() {
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
        waited = resource.state.snapshot(SOON) => waited.unwrap_err(),
        () = follow(&connection, &resource, &mut feed, ListWatchOptions::default()) => panic!("the source still serves the resource"),
    };
    assert!(
        matches!(&waited, NotReady::SourceError { code: 500, message } if message.contains("no such path")),
        "{waited:?}"
    );
    serving.abort();
}

/// A conversion webhook can make an object too long for a while, and an API server repeats the event for each watch from
/// the same version.
#[tokio::test]
async fn an_event_that_is_too_long_leads_to_a_new_list() {
    let lists = Arc::new(AtomicUsize::new(0));
    let requested = lists.clone();
    let (connection, serving) = answering(move |path, _| {
        let object = |version: usize, rest: &str| {
            format!(r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"{version}"}},"spec":{{{rest}}}}}"#)
        };
        let has = |parameter: &str| path.contains(parameter);
        match (has("watch="), has("sendInitialEvents=true")) {
            // No list as a stream.
            (true, true) => r#"{"type":"ERROR","object":{"kind":"Status","code":400,"message":"unknown option"}}"#.to_owned() + "\n",
            (true, false) => {
                let long = format!(r#""text":"{}""#, "x".repeat(MAX_ITEM_BYTES));
                format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", object(15, &long))
            }
            (false, _) if has("limit=1&") => r#"{"metadata":{"resourceVersion":"10"},"items":[]}"#.to_owned(),
            (false, _) => {
                let version = 10 * (requested.fetch_add(1, Ordering::SeqCst) + 1);
                format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#, object(version, ""))
            }
        }
    })
    .await;
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    let listed_again = async {
        while lists.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        listed = timeout(SOON, listed_again) => listed.expect("the store must be listed again"),
        () = follow(&connection, &resource, &mut feed, ListWatchOptions::default()) => panic!("the source still serves the resource"),
    }
    serving.abort();
}

#[tokio::test]
async fn a_pause_that_a_source_requests_is_bounded() {
    let begin = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 18446744073709551615\r\n\r\n";
    let (connection, sending) = source(begin.to_owned(), Vec::new()).await;
    let Err(RequestError::Status { retry_after, .. }) = connection.get("/api/v1/pods", "*/*").await else {
        panic!("an error")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(60)));
    sending.abort();
}

/// A few megabytes of objects inside each other, each of which takes a hundred times as much memory as text.
fn dense() -> String {
    let chain = format!("{}1{}", "{\"\":".repeat(100), "}".repeat(100));
    let chains = vec![&*chain; 4_000].join(",");
    assert!(chains.len() < 3 << 20, "no bound of bytes rejects it");
    format!("[{chains}]")
}

/// A source that answers each request, by its path and whether it is for the aggregated form.
async fn answering(answer: impl Fn(&str, bool) -> String + Send + 'static) -> (Connection, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let line = request(&mut stream).await;
            let answer = answer(line.split(' ').nth(1).unwrap(), line.contains("apidiscovery"));
            let closing = OK.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
            // A server that has read enough closes the connection.
            let _ = stream.write_all(format!("{closing}{answer}").as_bytes()).await;
        }
    });
    (Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap(), serving)
}

#[tokio::test]
async fn a_document_whose_values_would_take_much_memory_is_not_decoded() {
    let (connection, serving) = answering(|_, _| dense()).await;
    let error = connection.json("/apis/a.example.com/v1", "*/*").await.unwrap_err().to_string();
    assert!(error.ends_with("its values would take more than 134217728 bytes of memory"), "{error}");
    serving.abort();
}

#[tokio::test]
async fn dense_documents_of_discovery_take_nothing_but_their_own_version_away() {
    let verbs = ["get", "list", "watch"];
    let (connection, serving) = answering(move |path, is_aggregated| {
        let version = |group: &str| json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
        let group = |name: &str| json!({"name": name, "versions": [version(name)]});
        let shirts =
            json!({"name": "shirts", "kind": "Shirt", "namespaced": true, "verbs": verbs, "storageVersionHash": "h"});
        match path {
            "/api" => {
                let row =
                    json!({"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "verbs": verbs});
                let versions = json!([{"version": "v1", "resources": [row]}]);
                json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {}, "versions": versions}]}).to_string()
            }
            "/api/v1" => format!(r#"{{"resources":[{{"name":"pods","storageVersionHash":"h"}}],"a":{}}}"#, dense()),
            "/apis" if is_aggregated => dense().repeat(2),
            "/apis" => {
                let groups = ["a", "b", "c"].map(group);
                json!({"kind": "APIGroupList", "groups": groups}).to_string()
            }
            "/apis/a/v1" => format!(r#"{{"resources":[{shirts}],"a":{}}}"#, dense()),
            // Each row is short, and long in the aggregated form.
            "/apis/b/v1" => format!(r#"{{"resources":[{}]}}"#, vec![r#"{"name":"a"}"#; 15_000].join(",")),
            "/apis/c/v1" => json!({"resources": [shirts]}).to_string(),
            other => panic!("{other}"),
        }
    })
    .await;
    let found = timeout(SOON, discover(&connection, &UpstreamDiscovery::default())).await.expect("it ends").unwrap();
    let stale: Vec<(&str, bool)> =
        found.offers.groups.iter().map(|group| (&*group.name, group.versions[0].is_stale)).collect();
    assert_eq!(stale, [("", false), ("a", true), ("b", true), ("c", false)]);
    let hash = |group: &str, name: &str| &*found.offers.resource(group, "v1", name).unwrap().storage_version_hash;
    assert_eq!((hash("", "pods"), hash("c", "shirts")), ("", "h"));
    serving.abort();
}

#[tokio::test]
async fn a_thousand_of_very_many_names_of_a_resource_are_stored() {
    let (connection, serving) = answering(|path, is_aggregated| match path {
        "/api" => json!({"kind": "APIGroupDiscoveryList", "items": []}).to_string(),
        "/apis" if is_aggregated => dense(),
        "/apis" => {
            let version = json!({"groupVersion": "a/v1", "version": "v1"});
            json!({"kind": "APIGroupList", "groups": [{"name": "a", "versions": [version]}]}).to_string()
        }
        _ => {
            let verbs = ["get", "list", "watch"];
            let names = vec!["s"; 2_000];
            json!({"resources": [{"name": "a", "kind": "A", "verbs": verbs, "shortNames": names}]}).to_string()
        }
    })
    .await;
    let found = timeout(SOON, discover(&connection, &UpstreamDiscovery::default())).await.expect("it ends").unwrap();
    assert_eq!(found.resources[0].short_names.len(), 1_000);
    serving.abort();
}

#[tokio::test]
async fn groups_that_are_read_alone_are_bounded_together() {
    let (connection, serving) = answering(|path, is_aggregated| {
        let group = |number: usize| {
            let version = json!({"groupVersion": format!("g{number}/v1"), "version": "v1"});
            json!({"name": format!("g{number}"), "versions": [version]})
        };
        match path {
            "/api" => json!({"kind": "APIGroupDiscoveryList", "items": []}).to_string(),
            "/apis" if is_aggregated => dense(),
            "/apis" => json!({"kind": "APIGroupList", "groups": (0..12).map(group).collect::<Vec<_>>()}).to_string(),
            _ => format!(r#"{{"resources":[{}]}}"#, vec![r#"{"name":"a"}"#; 8_000].join(",")),
        }
    })
    .await;
    let found = timeout(SOON, discover(&connection, &UpstreamDiscovery::default())).await.expect("it ends").unwrap();
    let read = found.offers.groups.iter().filter(|group| !group.versions[0].is_stale).count();
    assert!((8..12).contains(&read), "{read}");
    assert!(found.offers.groups[..read].iter().all(|group| !group.versions[0].is_stale), "the first ones");
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn an_older_document_that_does_not_come_is_given_up_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    let error = read_older(&connection, "/apis/a/v1").await.unwrap_err().to_string();
    assert!(error.ends_with("/apis/a/v1: no response within 5 s"), "{error}");
}

#[tokio::test]
async fn older_documents_are_requested_two_at_a_time() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let pairs = Arc::new(Barrier::new(2));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let counts = (now.clone(), most.clone(), pairs);
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (now, most, pairs) = counts.clone();
            tokio::spawn(async move {
                let line = request(&mut stream).await;
                let path = line.split(' ').nth(1).unwrap().to_owned();
                let row = json!({"resource": "a", "responseKind": {"kind": "A"}, "scope": "Cluster", "verbs": ["get", "list", "watch"]});
                let versions: Vec<_> =
                    (0..8).map(|number| json!({"version": format!("v{number}"), "resources": [row]})).collect();
                let answer = match &*path {
                    "/api" => json!({"kind": "APIGroupDiscoveryList", "items": []}),
                    "/apis" => {
                        json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "a"}, "versions": versions}]})
                    }
                    _ => {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        pairs.wait().await;
                        // A reader that requests more at a time has done so by then.
                        for _ in 0..1_000 {
                            tokio::task::yield_now().await;
                        }
                        now.fetch_sub(1, Ordering::SeqCst);
                        json!({"resources": [{"name": "a", "storageVersionHash": "h"}]})
                    }
                };
                let closing = OK.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
                stream.write_all(format!("{closing}{answer}").as_bytes()).await.unwrap();
            });
        }
    });
    let connection = Connection::open(&ClusterOptions { server, ..ClusterOptions::default() }).await.unwrap();
    let found = timeout(SOON, discover(&connection, &UpstreamDiscovery::default())).await.expect("it ends").unwrap();
    assert!(found.offers.groups[0].versions.iter().all(|version| version.resources[0].storage_version_hash == "h"));
    assert_eq!(most.load(Ordering::SeqCst), 2);
    serving.abort();
}

#[tokio::test]
async fn an_error_whose_values_would_take_much_memory_is_shown_as_text() {
    let (connection, sending) = source(String::new(), Vec::new()).await;
    let refused = |body: &Bytes| {
        connection.status_error("/x", &UpstreamResponse { code: 500, retry_after: None, body: body.clone() })
    };
    let message = |body: &Bytes| match refused(body) {
        RequestError::Status { message, .. } => message,
        other => panic!("{other}"),
    };
    let long = format!(r#"{{"message":"long","a":[{}]}}"#, vec!["{\"\":{\"\":0}}"; 5_000].join(","));
    assert!(message(&Bytes::from(long)).starts_with(r#"{"message":"long","#));
    assert_eq!(message(&Bytes::from_static(br#"{"message":"short","a":[{"":0}]}"#)), "short");
    sending.abort();
}

#[tokio::test]
async fn one_long_group_hides_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Some(format!("http://{}", listener.local_addr().unwrap()));
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let line = request(&mut stream).await;
            let (path, is_aggregated) = (line.split(' ').nth(1).unwrap(), line.contains("apidiscovery"));
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
    let found = timeout(SOON, discover(&connection, &UpstreamDiscovery::default())).await.expect("it ends").unwrap();
    let [shirts] = &found.resources[..] else { panic!("{:?}", found.resources) };
    assert_eq!(shirts.gvr.to_string(), "shirts.v1.b.example.com");
    assert_eq!(shirts.subresources[0].name, "status");
    let stale: Vec<(&str, bool)> =
        found.offers.groups.iter().map(|group| (&*group.name, group.versions[0].is_stale)).collect();
    assert_eq!(stale, [("a.example.com", true), ("b.example.com", false)]);
    serving.abort();
}
