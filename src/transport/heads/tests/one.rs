//! HTTP/1.1.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::time::{Instant, sleep, timeout};

use super::{Connected, Random, response};
use crate::flow_control::connections::{Connections, MOST_HEADS};
use crate::transport::heads::HEAD_TIME;
use crate::transport::heads::bounds::{MOST_FIELDS, MOST_HEAD, USUAL_HEAD};

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn characters_that_go_accepts_reach_the_service() {
    let mut connected = Connected::new();
    for (target, path, query) in [
        ("/plain?a=b", "/plain", "a=b"),
        ("/a?labelSelector=tier>1", "/a", "labelSelector=tier%3E1"),
        ("/a?x=<\"{|}^`\\[]>'", "/a", "x=%3C%22{|}^`\\[]%3E'"),
        ("/a?x=1#y", "/a", "x=1%23y"),
        ("/a#b/c", "/a%23b/c", ""),
        ("/a<`>\"b", "/a%3C%60%3E\"b", ""),
        ("/a?x=ü&y=<ü>", "/a", "x=ü&y=%3Cü%3E"),
        ("/a??x=>?", "/a", "?x=%3E?"),
        ("/a?", "/a", ""),
        ("/a%3E?%3E=%zz", "/a%3E", "%3E=%zz"),
        ("http://host.example/a?x=>", "/a", "x=%3E"),
        ("//a//b", "//a//b", ""),
    ] {
        connected.write(&get(target)).await;
        let seen = connected.seen().await;
        assert_eq!((&seen["path"], &seen["query"]), (&json!(path), &json!(query)), "{target}");
        assert_eq!(seen["headers"], json!(["host: x"]), "{target}");
    }
}

#[tokio::test]
async fn heads_as_long_as_with_go_reach_the_service() {
    let connections = Arc::new(Connections::new(8));
    let mut connected = Connected::among(&connections);
    let values: Vec<String> = (0..100_000).map(|number| format!("v{number}")).collect();
    for (length, what) in [
        (50_000, "http::Uri can be so long"),
        (65_000, "and so long with the path"),
        (66_000, "longer than http::Uri"),
        (100 << 10, "longer than hyper's buffer"),
        (900 << 10, "nearly as long as may be"),
    ] {
        let query = format!("labelSelector=app+in+(%22{}%22)", &values.join(",")[..length.min(680_000)]);
        let query = if length > 680_000 { format!("{query}&x={}", "y".repeat(length - 680_000)) } else { query };
        connected.write(&get(&format!("/a/b?{query}"))).await;
        let seen = connected.seen().await;
        assert_eq!(seen["path"], "/a/b", "{what}");
        assert!(seen["query"] == query.as_str(), "{what}: the query is another one");
        assert_eq!(seen["headers"], json!(["host: x"]), "{what}");
    }
    // The raw character makes it three times as long.
    let query = ">".repeat(30_000);
    connected.write(&get(&format!("/a?{query}"))).await;
    assert!(connected.seen().await["query"] == query.replace('>', "%3E").as_str());

    for (count, length) in [(80, 10), (100, 10), (101, 10), (500, 10), (MOST_FIELDS - 1, 10), (900, 1000), (1, 200_000)]
    {
        let mut head = b"POST /a?q=>1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n".to_vec();
        let fields: Vec<String> = (0..count - 1).map(|number| format!("x-{number}: {}", "v".repeat(length))).collect();
        fields.iter().for_each(|field| head.extend_from_slice(format!("{field}\r\n").as_bytes()));
        head.extend_from_slice(b"\r\nabc");
        connected.write(&head).await;
        let seen = connected.seen().await;
        assert_eq!((&seen["body"], &seen["query"]), (&json!("abc"), &json!("q=%3E1")), "{count} of {length}");
        let expected: Vec<String> =
            ["host: x".to_owned(), "content-length: 3".to_owned()].into_iter().chain(fields).collect();
        assert!(seen["headers"] == json!(expected), "{count} of {length}: other headers");
    }
    assert_eq!(connections.long_heads(), 0, "nothing is counted any more");
}

#[tokio::test]
async fn a_request_that_cannot_be_routed_is_a_status_and_the_last_of_its_connection() {
    let long = "x".repeat(MOST_HEAD);
    let fields = "x: y\r\n".repeat(MOST_FIELDS + 1);
    let rows: Vec<(Vec<u8>, u16, &str)> = vec![
        (get("/a b"), 400, "percent-encode spaces"),
        (get("/a\u{1}b"), 400, "percent-encode spaces"),
        (get("a"), 200, ""),
        (get("a/b?c"), 400, "is not a URL"),
        (b"GET  / HTTP/1.1\r\n\r\n".to_vec(), 400, "one space"),
        (b"G(T / HTTP/1.1\r\n\r\n".to_vec(), 400, "first line"),
        (b"GET / HTTP/1.1 \r\n\r\n".to_vec(), 400, "CR LF"),
        (b"GET /\r\n\r\n".to_vec(), 400, "first line"),
        (b"GET / HTTP/2.0\r\n\r\n".to_vec(), 505, "HTTP/1.1 or HTTP/2"),
        (b"GET / HTTP/0.9\r\n\r\n".to_vec(), 505, "HTTP/1.1 or HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01\x00".to_vec(), 400, "first line"),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n".to_vec(), 400, "no colon directly after"),
        (b"GET / HTTP/1.1\r\nA b\r\n\r\n".to_vec(), 400, "no colon directly after"),
        (b"GET / HTTP/1.1\r\n: b\r\n\r\n".to_vec(), 400, "an invalid name"),
        (b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n".to_vec(), 400, "name"),
        (b"GET / HTTP/1.1\r\nA: b\x00c\r\n\r\n".to_vec(), 400, "control character"),
        (b"GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n".to_vec(), 400, "header"),
        (b"GET / HTTP/1.1\rA: b\r\n\r\n".to_vec(), 400, "CR LF"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n".to_vec(), 400, "several headers Host"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), 400, "no header Host"),
        (b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n".to_vec(), 400, "no header Host"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(), 400, "no header Host"),
        (format!("{} / HTTP/1.1\r\nHost: x\r\n\r\n", "A".repeat(2000)).into_bytes(), 400, "the method"),
        (b"GET / HTTP/1.1\r\nfieldcache-head: 0\r\n\r\n".to_vec(), 400, "reserved for the server"),
        (b"GET / HTTP/1.1\r\nFieldcache-Head: 0\r\n\r\n".to_vec(), 400, "reserved for the server"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n".to_vec(), 400, "several"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n".to_vec(), 400, "not a number"),
        (b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n".to_vec(), 400, "not a number"),
        (b"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n".to_vec(), 400, "not a number"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1234567890123456789\r\n\r\n".to_vec(), 400, "not a number"),
        (b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(), 400, "one of them"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_vec(), 501, "only once"),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
            501,
            "only once",
        ),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r\n\r\n".to_vec(), 400, "control character"),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(), 400, "HTTP/1.0"),
        (get(&format!("/{}", &long[..70_000])), 414, "70001 bytes"),
        (get(&format!("/?{long}")), 431, "more than 1052672 bytes"),
        (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n").into_bytes(), 431, "more than 1052672 bytes"),
        (format!("GET / HTTP/1.1\r\n{fields}\r\n").into_bytes(), 431, "more than 4096 headers"),
    ];
    for (bytes, code, message) in rows {
        let what = bytes[..bytes.len().min(80)].escape_ascii().to_string();
        let mut connected = Connected::new();
        // Some of it is not read, and then writing fails.
        let (mut read, mut write) = split(connected.stream);
        let second = get("/second");
        let writing = async {
            let _ = write.write_all(&bytes).await;
            let _ = write.write_all(&second).await;
            let _ = write.shutdown().await;
        };
        let mut all = Vec::new();
        let (_, ()) = tokio::join!(read.read_to_end(&mut all), writing);
        connected.stream = read.unsplit(write);
        let all = String::from_utf8(all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{what}: no response: {all}"));
        assert_eq!(head[9..12].parse::<u16>().unwrap(), code, "{what}: {all}");
        if code == 200 {
            continue;
        }
        let status: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{what}: {error}: {body}"));
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)), "{what}");
        assert!(status["message"].as_str().unwrap().contains(message), "{what}: {status}");
        assert!(head.contains("\r\nconnection: close"), "{what}: {head}");
    }
}

#[tokio::test]
async fn a_body_in_chunks_makes_its_request_the_last_one() {
    let many = "x: y\r\n".repeat(200);
    for headers in ["", "Connection: keep-alive\r\n", &many] {
        let mut connected = Connected::new();
        let head = format!("POST /a?x=> HTTP/1.1\r\nHost: x\r\n{headers}Transfer-Encoding: Chunked\r\n\r\n");
        connected.write(&[head.as_bytes(), b"3\r\nabc\r\n0\r\n\r\n", &get("/second")].concat()).await;
        let (head, body) = connected.response().await;
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["body"], "abc");
        assert_eq!(connected.rest().await, b"");
    }
}

#[tokio::test]
async fn headers_that_hyper_reads_itself_may_be_many_and_long() {
    let mut connected = Connected::new();
    for (name, values) in [
        ("connection", vec!["x"; 500]),
        ("connection", vec!["keep-alive"; 200]),
        ("upgrade", vec!["x"; 200]),
        ("expect", vec!["x"; 200]),
        ("connection", vec![&*"x".repeat(200_000)]),
    ] {
        let fields: Vec<String> = values.iter().map(|value| format!("{name}: {value}")).collect();
        let fields = [vec!["host: x".to_owned()], fields, vec!["content-length: 3".to_owned()]].concat();
        connected.write(format!("POST /a HTTP/1.1\r\n{}\r\n\r\nabc", fields.join("\r\n")).as_bytes()).await;
        let seen = connected.seen().await;
        assert_eq!(seen["body"], "abc", "{name}");
        assert!(seen["headers"] == json!(fields), "{} of {name}: other headers", values.len());
    }
    let close = "Connection: x\r\n".repeat(200) + "Connection: y, Close\r\n";
    connected.write(format!("GET /a HTTP/1.1\r\nHost: x\r\n{close}\r\n").as_bytes()).await;
    assert!(connected.response().await.0.contains("\r\nconnection: close\r\n"));
    assert_eq!(connected.rest().await, b"");
}

#[tokio::test]
async fn a_rejected_head_gets_no_body() {
    let mut connected = Connected::new();
    connected.write(format!("HEAD /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(70_000)).as_bytes()).await;
    connected.stream.shutdown().await.unwrap();
    let all = String::from_utf8(connected.rest().await).unwrap();
    assert!(all.starts_with("HTTP/1.1 414 ") && all.ends_with("\r\n\r\n"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_has_begun_arrives_in_time_or_its_connection_ends() {
    for (before, responses) in
        [("", 0), ("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 1), ("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", 0)]
    {
        let mut connected = Connected::new();
        connected.write(format!("{before}GET /second HTTP/1.1\r\nHost").as_bytes()).await;
        for _ in 0..responses {
            connected.seen().await;
        }
        let begun = Instant::now();
        timeout(2 * HEAD_TIME, connected.rest()).await.unwrap_or_else(|_| panic!("open after {before:?}"));
        assert!(begun.elapsed() <= HEAD_TIME + Duration::from_secs(1), "{before:?}: {:?}", begun.elapsed());
    }
    // Each head has a time of its own.
    let mut connected = Connected::new();
    for _ in 0..5 {
        connected.write(b"GET /a HTTP/1.1\r\nHo").await;
        sleep(HEAD_TIME - Duration::from_secs(5)).await;
        connected.write(b"st: x\r\n\r\n").await;
        connected.seen().await;
    }
}

/// Requests in a row, cut anywhere: the service sees each of them as it was sent, and no other one.
#[tokio::test]
async fn requests_cut_anywhere_are_the_requests_that_were_sent() {
    let seeds = 0..300_u64;
    println!("heads: seeds {seeds:?}");
    for seed in seeds {
        let mut random = Random(seed);
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        let count = 1 + random.below(6);
        for number in 0..count {
            let path = format!("/{number}");
            let query = match random.below(4) {
                0 => String::new(),
                1 => format!("q={}", ">".repeat(random.below(20))),
                2 => format!("q={}", "v".repeat(random.below(300))),
                _ => format!("q={}", "v".repeat(60_000 + random.below(30_000))),
            };
            // A body that looks like a request.
            let body = match random.below(3) {
                0 => String::new(),
                1 => "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n".repeat(random.below(4)),
                _ => "b".repeat(random.below(5000)),
            };
            let is_chunked = number + 1 == count && random.below(3) == 0;
            let mut head = format!("{} {path}", if body.is_empty() { "GET" } else { "POST" });
            if !query.is_empty() {
                head += &format!("?{query}");
            }
            head += " HTTP/1.1\r\nHost: x\r\n";
            for field in 0..[0, 3, 120][random.below(3)] {
                head += &format!("x-{field}: y\r\n");
            }
            if is_chunked {
                head += "Transfer-Encoding: chunked\r\n\r\n";
                for part in body.as_bytes().chunks(50 + random.below(900)) {
                    head += &format!("{:x};name=\"a b\"\r\n", part.len());
                    head += &format!("{}\r\n", std::str::from_utf8(part).unwrap());
                }
                head += "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
            } else {
                if !body.is_empty() || random.below(2) == 0 {
                    head += &format!("cOntent-length: {}\r\n", body.len());
                }
                head += "\r\n";
                head += &body;
                head += ["", "\r\n", "\n\r\n"][random.below(3)];
            }
            bytes.extend_from_slice(head.as_bytes());
            expected.push((path, query.replace('>', "%3E"), body));
        }
        let connected = Connected::new();
        let (mut read, mut write) = split(connected.stream);
        let longest = [1, 7, 100, 5000, 200_000][random.below(5)];
        let is_tiny = longest < 100 && bytes.len() > 20_000;
        let writing = async {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let length = (1 + random.below(if is_tiny { 2000 } else { longest })).min(rest.len());
                if write.write_all(&rest[..length]).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
                rest = &rest[length..];
            }
        };
        let reading = async {
            for (path, query, body) in &expected {
                let (head, seen) = response(&mut read).await;
                assert!(head.starts_with("HTTP/1.1 200"), "seed {seed}: {path}: {head}\n{seen}");
                let seen: Value = serde_json::from_str(&seen).unwrap();
                assert!(seen["path"] == path.as_str(), "seed {seed}: {} in place of {path}", seen["path"]);
                assert!(seen["query"] == query.as_str(), "seed {seed}: {path}: another query");
                assert!(seen["body"] == body.as_str(), "seed {seed}: {path}: another body");
            }
        };
        tokio::join!(writing, reading);
        // hyper takes the end of what is sent for the end of the client, so it comes after the responses.
        let _ = write.shutdown().await;
        let mut rest = Vec::new();
        let _ = read.read_to_end(&mut rest).await;
        assert_eq!(rest.escape_ascii().to_string(), "", "seed {seed}: more responses than requests");
    }
}

#[tokio::test]
async fn long_heads_of_one_address_take_no_more_than_their_share() {
    let connections = Arc::new(Connections::new(1000));
    let part = format!("GET /?{}", "x".repeat(USUAL_HEAD));
    let mut open = Vec::new();
    for number in 0..200 {
        let mut connected = Connected::among(&connections);
        connected.write(part.as_bytes()).await;
        let before = connections.long_heads();
        while connections.long_heads() == before && connections.rejected_streams() == 0 {
            tokio::task::yield_now().await;
        }
        if connections.rejected_streams() > 0 {
            let (head, body) = connected.response().await;
            assert!(head.starts_with("HTTP/1.1 429 ") && head.contains("\r\nretry-after: 1\r\n"), "{head}");
            assert!(body.contains("too many long requests") && body.contains("of 64Mi"), "{body}");
            assert!((8..=32).contains(&number), "{number} long heads of one address");
            assert!(connections.long_heads() <= MOST_HEADS / 2 + (2 << 20));
            drop(open);
            while connections.long_heads() > 0 {
                tokio::task::yield_now().await;
            }
            return;
        }
        open.push(connected);
    }
    panic!("200 long heads of one address");
}
