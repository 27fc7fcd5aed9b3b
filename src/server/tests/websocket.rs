//! Watches over WebSocket: handshakes, messages, tokens in subprotocols, pages of other sites, and what is forwarded.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::listen::{Running, run_listener};
use super::pass_through::{Behind, answered, before};
use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::access::authentication::Peer;
use crate::access::tests::certificates::{authority, client, signed};
use crate::access::tests::cluster::Cluster;
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::limit::LimitSettings;
use crate::server::Settings;
use crate::server::guards::Guard;
use crate::server::pass_through::PassThrough;
use crate::store::HistoryLimits;
use crate::transport::listen::Listener;
use crate::wire::body::Body;

type Header<'a> = (&'a str, &'a str);

/// Subprotocols, other headers, the code, the subprotocol that is echoed, and a message.
type TokenRow<'a> = (&'a [&'a str], &'a [Header<'a>], u16, Option<&'a str>, &'a str);

const UPGRADE: [Header<'static>; 4] = [
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "WebSocket"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-version", "13"),
];
const OWN: Header<'static> = ("origin", "http://127.0.0.1:8181");
const FOREIGN: Header<'static> = ("origin", "https://evil.example.com");

/// A subprotocol that carries a token.
const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// A token without another subprotocol.
const ONLY_TOKEN: Header<'static> = ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.YWxpY2U");

/// The Close frame of a client.
const CLOSE: &[u8] = b"\x88\x80\0\0\0\0";

/// The path of a watch without initial events.
fn watch() -> String {
    format!("{ALL_SHIRTS}?watch=1&resourceVersion=100")
}

fn with(headers: &[Header<'static>]) -> Vec<Header<'static>> {
    [&UPGRADE[..], headers].concat()
}

async fn open(fixture: &Fixture, path: &str, headers: &[Header<'static>]) -> Response<Body> {
    let response = fixture.send(Method::GET, path, &with(headers)).await;
    assert_eq!(response.status(), 101, "{path}");
    response
}

/// The frames of some bytes, as first byte and payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, second, rest @ ..] = bytes {
        let (length, rest) = match second {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            127 => (usize::try_from(u64::from_be_bytes(rest[..8].try_into().unwrap())).unwrap(), &rest[8..]),
            short => (usize::from(*short), rest),
        };
        frames.push((*first, rest[..length].to_vec()));
        bytes = &rest[length..];
    }
    frames
}

/// The frames of a body that ends.
async fn sent(response: Response<Body>) -> Vec<(u8, Vec<u8>)> {
    frames(&response.into_body().collect().await.unwrap().to_bytes())
}

#[tokio::test(start_paused = true)]
async fn handshakes_are_those_of_kube_apiserver() {
    let fixture = Fixture::new();
    let rows: [(Vec<Header<'static>>, u16, &str, &str); 17] = [
        (with(&[OWN]), 101, "", "as a client should"),
        (with(&[OWN, ("sec-websocket-protocol", "x.example.com")]), 101, "", "any subprotocol"),
        (with(&[OWN, ("sec-websocket-extensions", "permessage-deflate")]), 101, "", "an extension, which is not used"),
        (with(&[("origin", "http://127.0.0.1:8181/")]), 101, "", "a path of nothing"),
        (with(&[]), 403, "needs a header Origin", "no Origin"),
        (with(&[("origin", "null")]), 403, "needs a header Origin", "a page without one"),
        (with(&[FOREIGN]), 403, "is not this server", "a foreign page"),
        (with(&[OWN, FOREIGN]), 403, "is not this server", "a foreign page, too"),
        (with(&[("origin", "http://127.0.0.1:8182")]), 403, "is not this server", "another port"),
        (with(&[("origin", "http://127.0.0.1:8181@evil.example.com")]), 403, "is not this server", "a user name"),
        (with(&[OWN, ("sec-websocket-protocol", "a, b")]), 400, "at most one subprotocol", "two subprotocols"),
        ([&UPGRADE[..3], &[OWN]].concat(), 400, "missing or bad WebSocket Version", "no version"),
        ([&UPGRADE[..3], &[OWN, ("sec-websocket-version", "8")]].concat(), 400, "bad WebSocket Version", "an old one"),
        ([&UPGRADE[..2], &[OWN, UPGRADE[3]]].concat(), 400, "mismatch challenge/response", "no key"),
        (with(&[OWN, ("content-length", "5")]), 400, "has no body", "a body"),
        (with(&[OWN, ("accept", "text/html")]), 406, "application/json", "no media type"),
        (with(&[("origin", "x")]), 403, "needs a header Origin", "no URL"),
    ];
    for (headers, code, says, what) in rows {
        let response = fixture.send(Method::GET, &watch(), &headers).await;
        assert_eq!(response.status().as_u16(), code, "{what}");
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let is_version = says.ends_with("WebSocket Version");
        assert_eq!(header("sec-websocket-version").as_deref(), is_version.then_some("13"), "{what}");
        let protocol = headers.iter().find(|(name, _)| *name == "sec-websocket-protocol" && code == 101);
        assert_eq!(header("sec-websocket-protocol").as_deref(), protocol.map(|(_, value)| *value), "{what}");
        if code == 101 {
            assert_eq!(header("sec-websocket-accept").as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{what}");
            assert_eq!(header("upgrade").as_deref(), Some("websocket"), "{what}");
            assert_eq!([header("content-type"), header("content-length")], [None, None], "{what}");
            continue;
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(says), "{what}: {body:?}");
    }
    assert_eq!(fixture.shirts.resource.state.open_watches(), 0, "a watch whose handshake is invalid ends");
}

#[tokio::test(start_paused = true)]
async fn only_watches_over_http_1_1_are_upgraded() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let timed = format!("{ALL_SHIRTS}?watch=1&timeoutSeconds=1");
    let upgrade = with(&[OWN]);
    for (method, path, headers, code, what) in [
        (Method::GET, "/apis/stable.example.com/v1/watch/shirts?timeoutSeconds=1", &upgrade[..], 101, "the old path"),
        (
            Method::GET,
            "/apis/stable.example.com/v1/watch/namespaces/default/shirts/x?timeoutSeconds=1",
            &upgrade,
            101,
            "of one object",
        ),
        (Method::GET, ALL_SHIRTS, &upgrade, 200, "a list"),
        (Method::GET, &format!("{SHIRTS}/x?watch=1"), &upgrade, 200, "a get, whose watch parameter counts for nothing"),
        (Method::HEAD, &timed, &upgrade, 200, "HEAD"),
        (Method::POST, SHIRTS, &upgrade, 405, "a write"),
        (Method::GET, &timed, &upgrade[1..], 200, "no option of the connection"),
        (
            Method::GET,
            &timed,
            &[&[("connection", "keep-alive, no-upgrade")], &upgrade[1..]].concat(),
            200,
            "another option of the connection",
        ),
        (Method::GET, &timed, &[&upgrade[..1], &upgrade[2..]].concat(), 200, "no protocol"),
        (Method::GET, &timed, &[("connection", "upgrade"), ("upgrade", "h2c")], 200, "another protocol"),
        (Method::GET, "/apis/stable.example.com/v1/caps?watch=1", &upgrade, 404, "an error is an ordinary response"),
        (Method::GET, &format!("{timed}&fieldSelector=banana"), &upgrade, 400, "an invalid selector"),
    ] {
        let answer = fixture.whole(method, path, headers).await;
        assert_eq!(answer.code.as_u16(), code, "{what}: {}", answer.body);
    }
    let mut request = Request::builder().version(http::Version::HTTP_10).uri(&timed);
    for (name, value) in upgrade {
        request = request.header(name, value);
    }
    let request = request.header("host", "127.0.0.1:8181").body(String::new()).unwrap();
    assert_eq!(fixture.server.answer(request).await.status(), 200, "HTTP/1.0 has no upgrades");
}

#[tokio::test(start_paused = true)]
async fn the_messages_are_the_events_of_the_watch_over_http() {
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let mut fixture = Fixture::with_shirts(Settings::default());
    fixture.put_pod("default", "p");
    let streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for (path, accept, count, what) in [
        (format!("{ALL_SHIRTS}?watch=1"), "application/json", 9, "JSON"),
        (format!("{ALL_SHIRTS}?watch=1&{streamed}"), "application/json", 10, "with bookmarks"),
        (format!("{ALL_SHIRTS}?watch=1&fieldSelector=spec.color%3Dblue"), TABLE, 6, "rows"),
        (format!("{ALL_SHIRTS}?watch=1&{streamed}&labelSelector=tone%3Dgreen"), METADATA, 4, "metadata"),
        (format!("{ALL_SHIRTS}?watch=1&resourceVersion=7"), "application/json", 1, "an ERROR event"),
        (format!("/api/v1/pods?watch=1&{streamed}"), PROTOBUF, 2, "protobuf"),
        ("/api/v1/pods?watch=1".to_owned(), TABLE, 1, "a built-in kind"),
    ] {
        let path = format!("{path}&timeoutSeconds=2");
        let plain = fixture.send(Method::GET, &path, &[("accept", accept)]).await;
        let plain = plain.into_body().collect().await.unwrap().to_bytes();
        let headers = with(&[OWN, ("accept", accept), ("accept-encoding", "gzip")]);
        let response = fixture.send(Method::GET, &path, &headers).await;
        assert_eq!(response.status(), 101, "{what}");
        assert!(!response.headers().contains_key("content-encoding"), "{what}: not compressed");
        let messages = sent(response).await;
        assert_eq!(messages.len(), count, "{what}");
        let is_binary = accept == PROTOBUF;
        let opcode = if is_binary { 0x82 } else { 0x81 };
        assert!(messages.iter().all(|(first, _)| *first == opcode), "{what}: whole messages");
        let prefix =
            |message: &[u8]| if is_binary { (message.len() as u32).to_be_bytes().to_vec() } else { Vec::new() };
        let joined: Vec<u8> =
            messages.iter().flat_map(|(_, message)| [&prefix(message)[..], message].concat()).collect();
        assert_eq!(joined, plain, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_in_the_subprotocols_is_a_bearer_token_and_is_not_echoed() {
    let cluster = Cluster::new(|spec| spec["user"] != "mallory");
    let settings = Settings { access: Some(cluster.access()), ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let alice = format!("{TOKEN}YWxpY2U");
    let rows: [TokenRow<'_>; 13] = [
        (&["x", &alice], &[], 101, Some("x"), "the token of alice"),
        (&[&alice, "x"], &[], 101, Some("x"), "before the other one"),
        (&[&format!("{alice}, x")], &[], 101, Some("x"), "in one header"),
        (&["x", &alice, "y"], &[], 400, None, "with two others"),
        (&[&alice], &[], 401, None, "without another one"),
        (&["x", &alice, &alice], &[], 401, None, "twice"),
        (&["x", &format!("{TOKEN}YWxpY2U=")], &[], 401, None, "with padding"),
        (&["x", &format!("{TOKEN}_w")], &[], 401, None, "not UTF-8"),
        (&["x", &format!("{TOKEN}YWxpY2UgYm9i")], &[], 401, None, "two words"),
        (&["x", &format!("{TOKEN}d3Jvbmc")], &[], 401, None, "an invalid one"),
        (&["x", &format!("{TOKEN}bWFsbG9yeQ")], &[], 403, None, "the token of mallory"),
        (&["x"], &[], 401, None, "no token"),
        (
            &["x", &format!("{TOKEN}d3Jvbmc")],
            &[("authorization", "Bearer alice")],
            101,
            Some("x"),
            "beside that of the header",
        ),
    ];
    for (protocols, headers, code, echoed, what) in rows {
        let mut request = Request::builder().uri(watch()).header("host", "127.0.0.1:8181");
        // A page of another site that knows a token.
        for (name, value) in with(&[FOREIGN]) {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        for protocol in protocols {
            request = request.header("sec-websocket-protocol", *protocol);
        }
        let response = fixture.server.answer(request.body(String::new()).unwrap()).await;
        assert_eq!(response.status().as_u16(), code, "{what}");
        let found = response.headers().get("sec-websocket-protocol").map(|value| value.to_str().unwrap());
        assert_eq!(found, echoed, "{what}");
    }
    let open = Fixture::new();
    let response = open.send(Method::GET, &watch(), &with(&[OWN, ONLY_TOKEN])).await;
    let echoed = response.headers().get("sec-websocket-protocol");
    assert_eq!((response.status().as_u16(), echoed), (101, None), "without authentication, the token is only removed");
    let plain = [("sec-websocket-protocol", &*format!("x, {alice}"))];
    assert_eq!(fixture.get_with(&watch(), &plain).await.code, 401, "only of a request for a WebSocket");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_token_of_its_subprotocol() {
    let cluster = Cluster::new(|_| true);
    let settings = Settings { access: Some(cluster.access()), ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let protocols = ("sec-websocket-protocol", "x, base64url.bearer.authorization.k8s.io.YWxpY2U");
    let response = open(&fixture, &watch(), &[OWN, protocols]).await;
    cluster.is_revoked.store(true, std::sync::atomic::Ordering::Relaxed);
    let ended = timeout(Duration::from_secs(1_000), sent(response)).await;
    assert_eq!(ended.expect("the watch ends"), []);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_use_the_certificate_of_its_reader() {
    let known = authority("known");
    let cluster = Cluster::new(|_| true);
    let access = cluster.access();
    access.set_authentication_config(&json!({ "client-ca-file": known.pem() }));
    let settings = Settings { access: Some(access), ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let peer = Arc::new(Peer::new(None, vec![signed(&client("alice"), &known)]));
    let token = ("sec-websocket-protocol", "x, base64url.bearer.authorization.k8s.io.YWxpY2U");
    let instead = "the client certificate authenticated this request, and the bearer token was not used";
    let needed = "needs a bearer token: send";
    for (host, headers, says, what) in [
        ("fieldcache.svc", &[("origin", "https://fieldcache.svc")][..], None, "its own page"),
        ("fieldcache.svc:443", &[("origin", "https://FIELDCACHE.svc")], None, "the usual port"),
        ("fieldcache.svc", &[FOREIGN], Some(needed), "a foreign page"),
        ("fieldcache.svc", &[FOREIGN, token], Some(instead), "with a token, which is not what authenticates it"),
        ("fieldcache.svc", &[("origin", "https://fieldcache.svc:8443")], Some(needed), "another port"),
        ("fieldcache.svc", &[("origin", "http://fieldcache.svc")], Some(needed), "its page without TLS"),
        ("fc:8443", &[("origin", "http://fc:8443")], Some(needed), "that of its port"),
    ] {
        let mut request = Request::builder().uri(watch()).header("host", host);
        for (name, value) in with(headers) {
            request = request.header(name, value);
        }
        let mut request = request.body(String::new()).unwrap();
        request.extensions_mut().insert(peer.clone());
        let response = fixture.server.answer(request).await;
        assert_eq!(response.status().as_u16(), if says.is_some() { 403 } else { 101 }, "{what}");
        let Some(says) = says else { continue };
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(says), "{what}: {body:?}");
    }
}

#[tokio::test]
async fn a_websocket_behind_a_front_proxy_counts_for_its_user() {
    let (clients, proxies) = (authority("clients"), authority("proxies"));
    let cluster = Cluster::new(|_| true);
    let access = cluster.access();
    access.set_authentication_config(&json!({
        "client-ca-file": clients.pem(),
        "requestheader-client-ca-file": proxies.pem(),
        "requestheader-allowed-names": r#"["proxy"]"#,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
    }));
    let settings = Settings { access: Some(access), ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    let peer = Arc::new(Peer::new(None, vec![signed(&client("proxy"), &proxies)]));
    let connections = fixture.server.limits().connections();
    let mut open = Vec::new();
    for (user, headers, code) in [
        ("alice", with(&[OWN]), 101),
        ("alice", with(&[OWN]), 101),
        ("bob", with(&[OWN]), 101),
        ("bob", Vec::new(), 200),
        ("carol", Vec::new(), 200),
        ("dave", Vec::new(), 200),
    ] {
        let state = Arc::new(ConnectionState::new("192.0.2.1".parse().unwrap(), false));
        let place = connections.enter(&state).unwrap();
        let mut request = Request::builder().uri(watch()).header("host", "127.0.0.1:8181");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut request = request.header("x-remote-user", user).body(String::new()).unwrap();
        request.extensions_mut().insert(peer.clone());
        let response = fixture.server.answer_to(&state, request).await;
        assert_eq!(response.status(), code, "{user}");
        open.push((state, place, response));
    }
    assert_eq!(connections.of_busiest_user(), 3, "the connections of the proxy");
    assert_eq!(connections.of_busiest(), 3, "those of its address");
    open.truncate(3);
    assert_eq!((connections.of_busiest_user(), connections.of_busiest()), (2, 0), "alice has two WebSockets");
    drop(open);
    assert_eq!((connections.open(), connections.of_busiest()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn guards_hold_for_upgrades() {
    let settings = Settings { guard: Some(Guard::default()), ..Settings::default() };
    let fixture = Fixture::with(settings, HistoryLimits::default());
    for (host, headers, code, what) in [
        ("127.0.0.1:8181", &[OWN][..], 101, "a program, or the server's own page"),
        ("localhost", &[("origin", "http://localhost")], 101, "by its name"),
        ("evil.example.com", &[("origin", "http://evil.example.com")], 403, "a name that was made to resolve here"),
        ("127.0.0.1:8181", &[FOREIGN], 403, "a foreign page"),
        ("127.0.0.1:8181", &[OWN, ("sec-fetch-site", "cross-site")], 403, "another mark of one"),
        ("127.0.0.1:8181", &[("origin", "https://127.0.0.1:8181")], 101, "a proxy with TLS before it"),
    ] {
        let mut request = Request::builder().uri(watch()).header("host", host);
        for (name, value) in with(headers) {
            request = request.header(name, value);
        }
        let response = fixture.server.answer(request.body(String::new()).unwrap()).await;
        assert_eq!(response.status().as_u16(), code, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_forwarded_becomes_a_websocket() {
    let secrets = "/api/v1/secrets?watch=1";
    let token = ("sec-websocket-protocol", "x, base64url.bearer.authorization.k8s.io.YWxpY2U");
    let headers = [OWN, token, ("accept-encoding", "gzip")];
    let line = json!({"type": "ADDED", "object": {"kind": "Secret"}});
    let behind = Behind::new(move |_| answered(200, &line));
    let fixture = before(&behind, PassThrough::Read);
    let response = open(&fixture, secrets, &headers).await;
    assert_eq!(response.headers()["fieldcache-read"], "forwarded");
    let ended = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    assert_eq!(ended.unwrap_err().to_string(), "the body ended within an event");
    let seen = format!("{:?}", behind.last());
    for absent in ["upgrade", "sec-websocket", "origin", "accept-encoding", "authorization", "YWxpY2U"] {
        assert!(!seen.to_lowercase().contains(&absent.to_lowercase()), "{absent}: {seen}");
    }
    assert_eq!(behind.lines(), ["GET /api/v1/secrets?watch=1"]);
    for (answer, code, what) in [
        (answered(403, &json!({"kind": "Status"})), 403, "an error"),
        (
            answered(200, &json!({})).map(|mut answer| {
                answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/cbor-seq"));
                answer
            }),
            406,
            "events that cannot be divided",
        ),
    ] {
        let answer = std::sync::Mutex::new(Some(answer));
        let behind = Behind::new(move |_| answer.lock().unwrap().take().unwrap());
        let fixture = before(&behind, PassThrough::Read);
        assert_eq!(fixture.get_with(secrets, &with(&headers)).await.code.as_u16(), code, "{what}");
    }
    let fixture = before(&Behind::teapot(), PassThrough::Off);
    assert_eq!(fixture.get_with(secrets, &with(&headers)).await.code, 404, "nothing is forwarded");
}

async fn run(fixture: &Fixture) -> Running {
    run_listener(fixture, Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap())
}

/// A client over a real socket.
struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    /// Sends a handshake, and reads the head of the response.
    async fn open(running: &Running, path: &str, more: &str) -> (Client, String) {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let headers: String = UPGRADE.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let host = running.address;
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{headers}{more}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut client = Client { stream, read: Vec::new() };
        let head = loop {
            if let Some(end) = client.read.windows(4).position(|part| part == b"\r\n\r\n") {
                let rest = client.read.split_off(end + 4);
                break String::from_utf8(std::mem::replace(&mut client.read, rest)).unwrap();
            }
            assert!(client.more().await, "a head");
        };
        (client, head)
    }

    /// Reads more; false at the end.
    async fn more(&mut self) -> bool {
        timeout(Duration::from_secs(60), self.stream.read_buf(&mut self.read)).await.unwrap().is_ok_and(|read| read > 0)
    }

    /// The next frame; `None` at the end.
    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let needed = match self.read[..] {
                [_, 126, high, low, ..] => 4 + usize::from(u16::from_be_bytes([high, low])),
                [_, short @ 0..=125, ..] => 2 + usize::from(short),
                _ => usize::MAX,
            };
            if self.read.len() >= needed {
                let rest = self.read.split_off(needed);
                return frames(&std::mem::replace(&mut self.read, rest)).pop();
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn event(&mut self) -> Value {
        let (first, message) = self.frame().await.expect("a message");
        assert_eq!(first, 0x81);
        serde_json::from_slice(&message).unwrap()
    }
}

#[tokio::test]
async fn a_socket_carries_events_both_ways_until_the_end() {
    let mut fixture = Fixture::new();
    let running = run(&fixture).await;
    let (mut client, head) = Client::open(&running, &watch(), "").await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    // A head that hyper cannot read is shortened, but still an upgrade.
    let many: String = (0..120).map(|number| format!("x-{number}: {number}\r\n")).collect();
    let (mut other, head) = Client::open(&running, &watch(), &many).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    fixture.put("default", "x", "blue");
    assert_eq!(client.event().await["object"]["metadata"]["name"], "x");
    assert_eq!(other.event().await["type"], "ADDED");
    client.stream.write_all(b"\x89\x82\0\0\0\0hi\x81\x81\0\0\0\0x").await.unwrap();
    assert_eq!(client.frame().await, Some((0x8a, b"hi".to_vec())));
    // A client that resumes gets what it has missed, and then closes.
    let (mut early, head) = Client::open(&running, &watch(), "").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    early.stream.write_all(CLOSE).await.unwrap();
    let close = Some((0x88, vec![3, 232]));
    assert_eq!(early.event().await["type"], "ADDED");
    assert_eq!((early.frame().await, early.frame().await), (close.clone(), None), "the client closes");
    running.stop.send(()).unwrap();
    for client in [&mut client, &mut other] {
        assert_eq!((client.frame().await, client.frame().await), (close.clone(), None), "the process ends");
    }
    running.task.await.unwrap();
    assert_eq!(fixture.shirts.resource.state.open_watches(), 0);
}

#[tokio::test]
async fn watches_over_websocket_have_the_limits_of_watches() {
    let limits = LimitSettings { watches_per_user: 2, ..LimitSettings::default() };
    let fixture = Fixture::with(Settings { limits, ..Settings::default() }, HistoryLimits::default());
    let running = run(&fixture).await;
    let (mut first, _) = Client::open(&running, &watch(), "").await;
    let (_second, _) = Client::open(&running, &watch(), "").await;
    let (_, head) = Client::open(&running, &watch(), "").await;
    assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
    first.stream.write_all(CLOSE).await.unwrap();
    assert_eq!(first.frame().await, Some((0x88, vec![3, 232])), "its place is free before that");
    let (_, head) = Client::open(&running, &watch(), "").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_loses_its_websocket() {
    let mut fixture = Fixture::new();
    let long = "x".repeat(200_000);
    for number in 0..200 {
        fixture.put_without_publishing("default", &format!("{long}{number}"), "blue");
    }
    fixture.shirts.publish();
    let running = run(&fixture).await;
    let (mut stopped, head) = Client::open(&running, &format!("{ALL_SHIRTS}?watch=1"), "").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(fixture.shirts.resource.state.open_watches(), 1);
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(fixture.shirts.resource.state.open_watches(), 0);
    let mut rest = Vec::new();
    let end = stopped.stream.read_to_end(&mut rest).await;
    assert!(end.is_err() || !rest.ends_with(&[0x88, 2, 3, 232]), "it was cut: {}", rest.len());
    assert!(rest.len() < 40_000_000);
    running.stop.send(()).unwrap();
    running.task.await.unwrap();
}
