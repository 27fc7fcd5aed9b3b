//! HTTP/2: by hyper's client, and by frames made by hand for what it cannot send.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use super::{Connected, PATIENCE, Random};
use crate::flow_control::connections::MOST_HEADS;
use crate::flow_control::user::User;
use crate::transport::head_error::HeadError;
use crate::transport::heads::HEAD_TIME;
use crate::transport::heads::bounds::{MOST_FIELDS, MOST_HEAD};
use crate::transport::heads::hpack::{Decoder, write};
use crate::transport::heads::slots::{SLOT_HEADER, Slots, StoredParts};
use crate::transport::write_timeout::PREFACE;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

/// The code of an error.
const PROTOCOL_ERROR: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| write(&mut block, name.as_bytes(), value.as_bytes()));
    block
}

/// A request in frames of so many bytes, without a body.
fn request(stream: u32, fields: &[(&str, &str)], most: usize) -> Vec<u8> {
    let block = block(fields);
    let parts: Vec<&[u8]> = block.chunks(most).collect();
    let mut frames = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let end = if number + 1 == parts.len() { 4 } else { 0 };
        let (kind, flags) = if number == 0 { (HEADERS, 1 | end) } else { (CONTINUATION, end) };
        frames.extend(frame(kind, flags, stream, part));
    }
    frames
}

fn get(path: &str) -> Vec<(&str, &str)> {
    vec![(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", path)]
}

/// A connection by hand.
struct Hand {
    connected: Connected,
    decoder: Decoder,
}

impl Hand {
    async fn new() -> Hand {
        Hand::on(Connected::new()).await
    }

    async fn on(mut connected: Connected) -> Hand {
        connected.write(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await;
        Hand { connected, decoder: Decoder::default() }
    }

    async fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        timeout(PATIENCE, self.connected.stream.read_exact(&mut head)).await.expect("a frame in time").ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.connected.stream.read_exact(&mut payload).await.ok()?;
        Some((head[3], u32::from_be_bytes(head[5..].try_into().unwrap()), payload))
    }

    /// Code and body of the response on a stream, whose body fits the window.
    async fn response(&mut self, stream: u32) -> (u16, Vec<u8>) {
        let (mut code, mut length, mut body) = (0, None, Vec::new());
        while length != Some(body.len()) {
            let (kind, id, payload) = self.frame().await.expect("a response");
            match kind {
                HEADERS => self
                    .decoder
                    .decode(&payload, |name, value| {
                        let value = std::str::from_utf8(value).unwrap();
                        match name {
                            b":status" => code = value.parse().unwrap(),
                            b"content-length" => length = Some(value.parse().unwrap()),
                            _ => {}
                        }
                    })
                    .unwrap(),
                DATA if id == stream => body.extend(payload),
                RST_STREAM | GOAWAY => panic!("no response: {kind} {payload:?}"),
                _ => {}
            }
        }
        (code, body)
    }

    /// Code of the next response, which is on this stream.
    async fn status(&mut self, stream: u32) -> u16 {
        let (_, id, payload) = self.next(&[HEADERS]).await;
        assert_eq!(id, stream);
        let mut code = None;
        let read = self.decoder.decode(&payload, |name, value| {
            if name == b":status" {
                code = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            }
        });
        read.unwrap();
        code.unwrap()
    }

    /// The next frame of these kinds; panics at the end of the connection.
    async fn next(&mut self, kinds: &[u8]) -> (u8, u32, Vec<u8>) {
        loop {
            let frame = self.frame().await.expect("a frame");
            assert_ne!(frame.0, GOAWAY, "{:?}", frame.2.escape_ascii().to_string());
            if kinds.contains(&frame.0) {
                return frame;
            }
        }
    }

    async fn seen(&mut self, stream: u32) -> Value {
        let (code, body) = self.response(stream).await;
        assert_eq!(code, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }
}

#[tokio::test]
async fn characters_that_go_accepts_reach_the_service() {
    let mut hand = Hand::new().await;
    for (number, (path, expected, query)) in [
        ("/plain?a=b", "/plain", "a=b"),
        ("/a?labelSelector=tier>1", "/a", "labelSelector=tier%3E1"),
        ("/a?x=<\"{|}^`\\[]>'", "/a", "x=%3C%22{|}^`\\[]%3E'"),
        ("/a#b?x=1#y", "/a%23b", "x=1%23y"),
        ("/a b?c d", "/a%20b", "c%20d"),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = 2 * number as u32 + 1;
        let fields = [get(path), vec![("fieldcache-head", "0"), ("a", "b")]].concat();
        hand.connected.write(&request(stream, &fields, 10)).await;
        let seen = hand.seen(stream).await;
        assert_eq!((&seen["path"], &seen["query"]), (&json!(expected), &json!(query)), "{path}");
        assert_eq!(seen["headers"], json!(["a: b"]), "{path}: no client chooses a slot");
    }
    // Also where the headers wait in a slot.
    let path = format!("/a?{}", "q".repeat(20_000));
    let fields = [get(&path), vec![("fieldcache-head", "0"), ("a", "b")]].concat();
    hand.connected.write(&request(11, &fields, 16_384)).await;
    assert_eq!(hand.seen(11).await["headers"], json!(["a: b"]), "no client chooses a slot");
}

#[tokio::test]
async fn heads_as_long_as_with_go_reach_the_service_and_longer_ones_get_a_status() {
    let mut hand = Hand::new().await;
    // The echo of a longer one would not fit the window of the connection, which is not enlarged here.
    for (stream, length) in [(1, 30_000), (3, 20_000)] {
        let query = ">".repeat(length / 3);
        hand.connected.write(&request(stream, &get(&format!("/a?{query}")), 16_384)).await;
        assert!(hand.seen(stream).await["query"] == query.replace('>', "%3E").as_str());
    }
    let long = "x".repeat(MOST_HEAD);
    let many: Vec<String> = (0..=MOST_FIELDS).map(|number| format!("x-{number}")).collect();
    let mut with_many = get("/");
    with_many.extend(many.iter().map(|name| (&**name, "")));
    let url = format!("/?{}", &long[..MOST_HEAD - 160]);
    let path = format!("/{}", &long[..70_000]);
    let connection: Vec<(&str, &str)> = [get("/"), vec![("long", &long[..100_000]), ("connection", "close")]].concat();
    for (fields, code, message) in [
        (get(&url), 431, "more than 1052672 bytes"),
        (with_many, 431, "4096 headers"),
        (get(&path), 414, "70001 bytes"),
        (get("/\u{1}"), 400, "is not a URL"),
        (get("a/b?c"), 400, "is not a URL"),
        (connection, 400, "HTTP/2 has no header connection"),
    ] {
        let mut hand = Hand::new().await;
        hand.connected.write(&request(1, &fields, 16_384)).await;
        let (answered, body) = hand.response(1).await;
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((answered, &status["code"], &status["kind"]), (code, &json!(code), &json!("Status")), "{message}");
        assert!(status["message"].as_str().unwrap().contains(message), "{message}: {status}");
        // The other streams go on.
        hand.connected.write(&request(3, &get("/again?>"), 16_384)).await;
        assert_eq!(hand.seen(3).await["path"], "/again", "{message}");
    }
}

#[tokio::test]
async fn what_is_no_valid_frame_ends_the_connection_with_the_error_of_the_standard() {
    let begun = frame(HEADERS, 1, 1, &block(&get("/")));
    let empty = frame(CONTINUATION, 0, 1, &[]).repeat(2000);
    let rows: [(Vec<u8>, &str); 8] = [
        (frame(HEADERS, 5, 1, &[0x80]), "a block that cannot be read"),
        ([&begun[..], &frame(DATA, 1, 1, b"x")].concat(), "another frame within a block"),
        ([&begun[..], &frame(CONTINUATION, 4, 3, &[])].concat(), "a block that goes on on another stream"),
        ([&begun[..], &begun[..]].concat(), "a block within a block"),
        (frame(CONTINUATION, 4, 1, &[]), "what continues nothing"),
        ([&begun[..], &empty].concat(), "frames without end"),
        (frame(HEADERS, 5 | 8, 1, &[200, 0]), "padding longer than the frame"),
        (frame(HEADERS, 5, 1, &vec![0; 20_000]), "a frame that is too long"),
    ];
    for (bytes, why) in rows {
        let mut hand = Hand::new().await;
        // The connection may end before all of it is written.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut hand.connected.stream, &bytes).await;
        let mut went = None;
        while let Some((kind, _, payload)) = hand.frame().await {
            assert_ne!(kind, HEADERS, "{why}: a response");
            if kind == GOAWAY {
                went = Some(payload[7]);
            }
        }
        assert!(went.is_some_and(|code| code != 0), "{why}: {went:?}");
    }
}

#[tokio::test]
async fn padding_priorities_and_other_frames_change_nothing() {
    let mut hand = Hand::new().await;
    let payload = [&[3, 0, 0, 0, 0, 16][..], &block(&get("/a?>")), &[0, 0, 0]].concat();
    let frames = [
        frame(PING, 0, 0, b"12345678"),
        frame(HEADERS, 5 | 8 | 0x20, 1, &payload),
        frame(0xbe, 0, 0, b"unknown"),
        frame(HEADERS, 4, 3, &block(&[(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/b")])),
        frame(DATA, 0, 3, b"some"),
        frame(DATA, 0, 3, b" body"),
        frame(HEADERS, 5, 3, &block(&[("trailer", "t")])),
    ];
    for byte in frames.concat() {
        hand.connected.write(&[byte]).await;
    }
    let mut bodies = Vec::new();
    while bodies.len() < 2 {
        let (kind, _, payload) = hand.frame().await.unwrap();
        assert!(kind != RST_STREAM && kind != GOAWAY, "{payload:?}");
        if kind == DATA && !payload.is_empty() {
            bodies.push(serde_json::from_slice::<Value>(&payload).unwrap());
        }
    }
    bodies.sort_by_key(|seen| seen["path"].to_string());
    assert_eq!((&bodies[0]["path"], &bodies[0]["query"]), (&json!("/a"), &json!("%3E")));
    assert_eq!((&bodies[1]["path"], &bodies[1]["body"]), (&json!("/b"), &json!("some body")));
}

/// h2 rejects requests after their parts have been put into slots.
#[tokio::test]
async fn requests_that_h2_rejects_leave_nothing_behind() {
    let mut hand = Hand::new().await;
    let path = format!("/a?{}", "q".repeat(20_000));
    for number in 0..200 {
        let stream = 2 * number + 1;
        hand.connected.write(&request(stream, &[get(&path), vec![("te", "gzip")]].concat(), 16_384)).await;
        let (_, id, code) = hand.next(&[HEADERS, RST_STREAM]).await;
        assert_eq!((id, code), (stream, vec![0, 0, 0, PROTOCOL_ERROR]));
    }
    hand.connected.write(&request(401, &get("/b?>"), 16_384)).await;
    assert_eq!(hand.seen(401).await["path"], "/b");
    let pinging = async {
        while hand.connected.connections.long_heads() > 0 {
            hand.connected.write(&frame(PING, 0, 0, b"12345678")).await;
            hand.next(&[PING]).await;
        }
    };
    timeout(PATIENCE, pinging).await.expect("nothing is held of rejected requests");
}

#[tokio::test]
async fn thousands_of_requests_that_are_reset_stop_no_later_one() {
    let mut hand = Hand::new().await;
    let long = format!("/a?{}", "q".repeat(17_000));
    // Those of the last kind are rejected by h2.
    let kinds = [get("/wait"), get("/\u{1}"), get(&long), [get(&long), vec![("te", "gzip")]].concat()];
    for number in 0..2000_u32 {
        let reset = frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]);
        let request = request(2 * number + 1, &kinds[number as usize % kinds.len()], 16_384);
        hand.connected.write(&[request, reset].concat()).await;
        // Of requests that are reset before they are accepted, h2 takes 20.
        if number % 10 == 9 {
            hand.connected.write(&frame(PING, 0, 0, b"12345678")).await;
            hand.next(&[PING]).await;
        }
    }
    hand.connected.write(&request(4001, &get("/b?>"), 16_384)).await;
    assert_eq!(hand.seen(4001).await["path"], "/b");
}

/// kube-apiserver sends the requests of all users on one connection.
#[tokio::test]
async fn a_user_who_resets_requests_does_not_end_the_connection_of_a_front_proxy() {
    for (is_shared, survives) in [(true, true), (false, false)] {
        let connected = if is_shared { Connected::shared() } else { Connected::new() };
        let mut hand = Hand::on(connected).await;
        for burst in 0..20_u32 {
            let one = |number: u32| {
                let stream = 2 * (burst * 500 + number) + 1;
                [request(stream, &get("/wait"), 16_384), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
            };
            let all: Vec<u8> = (0..500).flat_map(one).collect();
            if hand.connected.stream.write_all(&all).await.is_err() {
                break;
            }
        }
        let last = 2 * 20 * 500 + 1;
        let _ = hand.connected.stream.write_all(&request(last, &get("/b"), 16_384)).await;
        let answered = loop {
            match hand.frame().await {
                Some((HEADERS, id, _)) if id == last => break true,
                Some((GOAWAY, ..)) | None => break false,
                Some(_) => {}
            }
        };
        assert_eq!(answered, survives, "shared: {is_shared}");
    }
}

#[test]
fn a_request_whose_slot_is_unknown_is_answered_with_an_error() {
    let slots = Slots::default();
    let number = slots.store(StoredParts { query: Some("a=b".into()), ..StoredParts::default() }).to_string();
    let path_of = |number: &str| {
        let mut request = Request::get("/").header(SLOT_HEADER, number).body(()).unwrap();
        slots.restore(&mut request).map(|()| request.uri().to_string())
    };
    assert_eq!(path_of(&number).unwrap(), "/?a=b");
    for number in [&*number, "7", "", "x"] {
        let HeadError::Unsupported(code, _) = path_of(number).unwrap_err() else { panic!("{number:?}") };
        assert_eq!(code, 503, "{number:?}");
    }
}

#[tokio::test]
async fn malformed_blocks_reset_their_stream_however_long_they_are() {
    let mut hand = Hand::new().await;
    let long = "x".repeat(20_000);
    let fields = |more: &[(&'static str, &'static str)]| [&get("/a")[..], more].concat();
    for (number, (fields, why)) in [
        ([fields(&[])[..3].to_vec(), vec![("a", "b"), (":path", "/a")]].concat(), "out of order"),
        (fields(&[(":path", "/\u{1}")]), "twice"),
        (fields(&[(":method", "GET")]), "twice the same"),
        (fields(&[(":status", "200")]), "of a response"),
        (fields(&[(":unknown", "")]), "unknown"),
        (
            vec![("fieldcache-head", "0"), (":method", "GET"), (":scheme", "http"), (":path", "/\u{1}")],
            "after the slot",
        ),
        (vec![("a", "b")], "none"),
    ]
    .into_iter()
    .enumerate()
    {
        for (is_long, place) in [(false, 0), (true, 2)] {
            let mut fields = fields.clone();
            if is_long {
                fields.push(("long", &long));
                if why == "out of order" {
                    fields.rotate_right(2);
                }
            }
            let stream = 4 * number as u32 + place + 1;
            hand.connected.write(&request(stream, &fields, 16_384)).await;
            let (kind, id, code) = hand.next(&[HEADERS, RST_STREAM]).await;
            assert_eq!((kind, id, code), (RST_STREAM, stream, vec![0, 0, 0, PROTOCOL_ERROR]), "{why}, long: {is_long}");
        }
    }
    // Trailers that could be a request, of any length.
    let posted = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/wait")];
    for (stream, long) in [(101, "short"), (103, &*long)] {
        hand.connected.write(&frame(HEADERS, 4, stream, &block(&posted))).await;
        let trailers = [&get("/\u{1}?>")[..], &[("long", long)]].concat();
        hand.connected.write(&request(stream, &trailers, 16_384)).await;
        assert_eq!(hand.next(&[HEADERS, RST_STREAM]).await, (RST_STREAM, stream, vec![0, 0, 0, PROTOCOL_ERROR]));
    }
    hand.connected.write(&request(105, &get("/b"), 16_384)).await;
    assert_eq!(hand.seen(105).await["path"], "/b");
}

/// h2 keeps trailers as long as their stream is open, even if the request was dropped.
#[test]
fn trailers_take_no_memory_but_change_the_table() {
    const STREAMS: u32 = 100;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let names: Vec<String> = (0..440).map(|number| format!("a{number:x}")).collect();
    let trailers = block(&names.iter().map(|name| (&**name, "")).collect::<Vec<_>>());
    let mut hand = runtime.block_on(async {
        let mut hand = Hand::new().await;
        for number in 0..STREAMS {
            hand.connected.write(&frame(HEADERS, 4, 2 * number + 1, &block(&get("/wait")))).await;
        }
        hand.connected.write(&frame(PING, 0, 0, b"12345678")).await;
        hand.next(&[PING]).await;
        hand
    });
    let taken = allocation_counter::measure(|| {
        runtime.block_on(async {
            for number in 0..STREAMS {
                hand.connected.write(&frame(HEADERS, 5, 2 * number + 1, &trailers)).await;
            }
            hand.connected.write(&frame(PING, 0, 0, b"12345678")).await;
            hand.next(&[PING]).await;
        });
    });
    assert!(taken.bytes_current < i64::from(STREAMS) * 2_000, "{taken:?}");
    // A field of trailers can be in the dynamic table.
    let next = 2 * STREAMS + 1;
    runtime.block_on(async {
        hand.connected.write(&frame(HEADERS, 4, next, &block(&get("/b")))).await;
        hand.connected.write(&frame(HEADERS, 5, next, &[&[0x40, 4][..], b"kept", &[5], b"value"].concat())).await;
        assert_eq!(hand.seen(next).await["body"], "");
        hand.connected.write(&frame(HEADERS, 5, next + 2, &[block(&get("/c")), vec![0x80 | 62]].concat())).await;
        assert_eq!(hand.seen(next + 2).await["headers"], json!(["kept: value"]));
    });
}

/// kube-apiserver sends the requests of all its users over one connection.
#[tokio::test]
async fn a_long_head_without_room_leaves_the_other_requests_of_its_connection() {
    let mut hand = Hand::new().await;
    let taken: Vec<_> = (0..40)
        .filter_map(|number| {
            let user = User::named(&format!("user-{number}"));
            (0..6).find_map(|halves| hand.connected.connections.take_head(&user, MOST_HEADS >> (halves + 1)).ok())
        })
        .collect();
    let mut stream = 1;
    for method in ["GET", "HEAD"] {
        let fields = [vec![(":method", method)], get("/a")[1..].to_vec()].concat();
        let kept = [&[0x40, 4][..], b"kept", &[5], b"value"].concat();
        let long = block(&[("long", &*"l".repeat(100_000))]);
        let whole = [block(&fields), kept, long].concat();
        let parts: Vec<&[u8]> = whole.chunks(16_384).collect();
        for (number, part) in parts.iter().enumerate() {
            let (kind, flags) = if number == 0 { (HEADERS, 1) } else { (CONTINUATION, 0) };
            let flags = if number + 1 == parts.len() { flags | 4 } else { flags };
            hand.connected.write(&frame(kind, flags, stream, part)).await;
        }
        let code = hand.status(stream).await;
        assert_eq!(code, 429, "{method}");
        // The next one means a field of it.
        let next = [block(&get("/b")), vec![0x80 | 62]].concat();
        hand.connected.write(&frame(HEADERS, 5, stream + 2, &next)).await;
        assert_eq!(hand.seen(stream + 2).await["headers"], json!(["kept: value"]), "{method}");
        stream += 4;
    }
    // Trailers of such a length need no room, because they are not passed on.
    let posted = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/b")];
    hand.connected.write(&frame(HEADERS, 4, stream, &block(&posted))).await;
    hand.connected.write(&request(stream, &[("long", &*"l".repeat(100_000))], 16_384)).await;
    assert_eq!(hand.seen(stream).await["body"], "");
    drop(taken);
    hand.connected
        .write(&request(stream + 2, &[get("/c"), vec![("long", &*"l".repeat(100_000))]].concat(), 16_384))
        .await;
    assert_eq!(hand.status(stream + 2).await, 200, "there is room again");
}

#[tokio::test]
async fn a_rejected_head_gets_no_body() {
    let mut hand = Hand::new().await;
    let path = format!("/{}", "x".repeat(70_000));
    let fields = [vec![(":method", "HEAD")], get(&path)[1..].to_vec()].concat();
    hand.connected.write(&[request(1, &fields, 16_384), frame(PING, 0, 0, b"12345678")].concat()).await;
    let (mut code, mut has_body) = (0, false);
    let mut ponged = false;
    while !(ponged && code != 0) {
        let (kind, _, payload) = hand.next(&[HEADERS, DATA, PING]).await;
        match kind {
            HEADERS => hand
                .decoder
                .decode(&payload, |name, value| {
                    if name == b":status" {
                        code = std::str::from_utf8(value).unwrap().parse().unwrap();
                    }
                })
                .unwrap(),
            PING => ponged = true,
            _ => has_body |= !payload.is_empty(),
        }
    }
    hand.connected.write(&request(3, &get("/b"), 16_384)).await;
    loop {
        let (kind, id, payload) = hand.next(&[DATA]).await;
        assert_eq!(kind, DATA);
        if id == 3 {
            break;
        }
        has_body |= !payload.is_empty();
    }
    assert_eq!((code, has_body), (414, false));
}

#[tokio::test(start_paused = true)]
async fn a_block_that_has_begun_arrives_in_time_or_its_connection_ends() {
    let begun = frame(HEADERS, 1, 3, &block(&get("/b")));
    for (bytes, why) in [(&begun[..], "a block"), (&begun[..20], "a frame")] {
        let mut hand = Hand::new().await;
        hand.connected.write(&[&request(1, &get("/wait"), 16_384)[..], bytes].concat()).await;
        let begun = Instant::now();
        timeout(2 * HEAD_TIME, hand.connected.rest()).await.unwrap_or_else(|_| panic!("{why}: open"));
        assert!(begun.elapsed() <= HEAD_TIME + Duration::from_secs(1), "{why}: {:?}", begun.elapsed());
    }
    // Each block has a time of its own.
    let mut hand = Hand::new().await;
    for number in 0..5 {
        hand.connected.write(&frame(HEADERS, 1, 2 * number + 1, &block(&get("/a")))).await;
        sleep(HEAD_TIME - Duration::from_secs(5)).await;
        hand.connected.write(&frame(CONTINUATION, 4, 2 * number + 1, &[])).await;
        assert_eq!(hand.seen(2 * number + 1).await["path"], "/a");
    }
}

/// hyper's client uses its table and the code for texts. What it sends arrives, also where its frames are cut.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a client connection needs a task; it ends with the server's")]
async fn requests_of_another_encoder_arrive_as_they_were_sent() {
    let seeds = 0..20_u64;
    println!("header blocks: seeds {seeds:?}");
    for seed in seeds {
        let mut random = Random(seed);
        let connected = Connected::new();
        let Connected { stream, connections, _ending } = connected;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_header_list_size(2 << 20);
        let (client, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut sent_requests = Vec::new();
        for number in 0..40 {
            let mut headers = Vec::new();
            for _ in 0..[2, 5, 150][random.below(3)] {
                let length = [0, 3, 40, 700][random.below(4)];
                let value: String = (0..length).map(|_| char::from(b' ' + 1 + random.below(94) as u8)).collect();
                headers.push((format!("x-{}", random.below(40)), value));
            }
            if random.below(10) == 0 {
                headers.push(("long".to_owned(), "l".repeat(100_000)));
            }
            let query = "q".repeat([1, 100, 60_000][random.below(3)]);
            let body = "b".repeat([0, 10, 100_000][random.below(3)]);
            let mut request = Request::post(format!("http://x/{number}?{query}"));
            for (name, value) in &headers {
                request = request.header(name, value);
            }
            let request = request.body(Full::new(Bytes::from(body.clone()))).unwrap();
            let mut sent: Vec<String> = request
                .headers()
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .chain((!body.is_empty()).then(|| format!("content-length: {}", body.len())))
                .collect();
            sent.sort();
            let mut client = client.clone();
            let answer = tokio::spawn(async move {
                let answer = client.send_request(request).await.unwrap();
                assert_eq!(answer.status(), 200);
                answer.into_body().collect().await.unwrap().to_bytes()
            });
            sent_requests.push((number, query, body, sent, answer));
        }
        for (number, query, body, sent, answer) in sent_requests {
            let seen: Value = serde_json::from_slice(&answer.await.unwrap()).unwrap();
            assert_eq!(seen["path"], format!("/{number}"), "seed {seed}");
            assert!(seen["query"] == query.as_str() && seen["body"] == body.as_str(), "seed {seed}: {number}");
            let mut headers: Vec<&str> = seen["headers"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            headers.sort_unstable();
            headers.retain(|header| *header != "content-length: 0");
            assert!(headers == sent, "seed {seed}: {number}: other headers");
        }
        assert_eq!(connections.long_heads(), 0, "seed {seed}");
        drop(Arc::clone(&connections));
    }
}
