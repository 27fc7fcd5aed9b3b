//! Watches that are compressed: which ones, what they send, and what they share.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::GzDecoder;
use futures::future::join;
use http::Method;
use http_body_util::BodyExt;
use proptest::{collection, prelude::any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use tokio::time::{sleep, timeout};

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::wire::body::Body;
use crate::wire::gzip;
use crate::wire::gzip::GzipMember;

const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
const GZIP: (&str, &str) = ("accept-encoding", "gzip");
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Reads a compressed watch as a client does that knows one member only.
struct Reader {
    body: Body,
    decoder: GzDecoder<Vec<u8>>,
}

impl Reader {
    async fn open(fixture: &Fixture, path: &str, accept: &str) -> Reader {
        let response = fixture.send(Method::GET, path, &[GZIP, ("accept", accept)]).await;
        assert_eq!(response.headers()["content-encoding"], "gzip", "{path}");
        Reader { body: response.into_body(), decoder: GzDecoder::new(Vec::new()) }
    }

    /// The next bytes as they are sent; `None` at the end.
    async fn frame(&mut self) -> Option<Bytes> {
        let frame = timeout(Duration::from_secs(86_400), self.body.frame()).await.expect("a frame or the end");
        frame.map(|frame| frame.unwrap().into_data().unwrap())
    }

    /// The content of a frame: whole lines.
    fn read(&mut self, frame: &[u8]) -> String {
        self.decoder.write_all(frame).expect("nothing may come behind the first member");
        self.decoder.flush().unwrap();
        let text = String::from_utf8(std::mem::take(self.decoder.get_mut())).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "a part of a line: {text}");
        text
    }

    async fn lines(&mut self, count: usize) -> String {
        let mut text = String::new();
        while text.lines().count() < count {
            let frame = self.frame().await;
            let frame = frame.unwrap_or_else(|| panic!("more lines: {}", &text[text.len().saturating_sub(1_000)..]));
            text += &self.read(&frame);
        }
        text
    }

    /// All that comes until the watch ends.
    async fn rest(mut self) -> String {
        let mut text = String::new();
        while let Some(frame) = self.frame().await {
            text += &self.read(&frame);
        }
        self.decoder.finish().expect("a member ends with its checksum and length");
        text
    }
}

/// The same watch without compression.
async fn plain(fixture: &Fixture, path: &str, accept: &str) -> Body {
    let response = fixture.send(Method::GET, path, &[("accept", accept)]).await;
    assert!(!response.headers().contains_key("content-encoding"), "{path}");
    response.into_body()
}

/// All that both send until they end.
async fn rest_of(reader: Reader, plain: Body) -> (String, String) {
    let (text, plain) = join(reader.rest(), plain.collect()).await;
    (text, String::from_utf8(plain.unwrap().to_bytes().to_vec()).unwrap())
}

/// Text that does not compress well.
fn noise(length: usize) -> String {
    noise_from(0, length)
}

/// Another one for each seed.
fn noise_from(seed: u64, length: usize) -> String {
    let numbers = seed << 32..(seed << 32) + length as u64 / 16;
    numbers.map(|number| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

#[tokio::test(start_paused = true)]
async fn watches_with_initial_events_and_bookmarks_are_compressed_if_gzip_is_accepted() {
    let fixture = Fixture::new();
    let all = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for (query, accepted, is_compressed) in [
        (INITIAL, "gzip", true),
        (INITIAL, "br, gzip", true),
        (INITIAL, "deflate , gzip ", true),
        ("allowWatchBookmarks=true", "gzip", true),
        ("allowWatchBookmarks=true&resourceVersion=0", "gzip", true),
        (INITIAL, "gzip;q=1", false),
        (INITIAL, "GZIP", false),
        (INITIAL, "*", false),
        (INITIAL, "identity", false),
        (all, "gzip", false),
        ("", "gzip", false),
        ("allowWatchBookmarks=true&resourceVersion=100", "gzip", false),
        ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "gzip", false),
    ] {
        let path = format!("{SHIRTS}?watch=true&{query}");
        let response = fixture.send(Method::GET, &path, &[("accept-encoding", accepted)]).await;
        let header = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().unwrap());
        let expected = if is_compressed { ("gzip", "Accept-Encoding") } else { ("", "") };
        assert_eq!((header("content-encoding"), header("vary")), expected, "{query} {accepted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_compressed_watch_sends_the_same_in_one_member() {
    let mut fixture = Fixture::new();
    for number in 0..1000 {
        fixture.put_without_publishing("default", &format!("x{number:04}"), "blue");
    }
    fixture.shirts.publish();
    for accept in ["application/json", PARTIAL, TABLE] {
        let path = format!("{ALL_SHIRTS}?watch=true&{INITIAL}&timeoutSeconds=30");
        let mut reader = Reader::open(&fixture, &path, accept).await;
        let plain = plain(&fixture, &path, accept).await;
        let mut text = reader.lines(1001).await;
        fixture.put("default", "x0007", "green");
        fixture.delete("default", "x0008");
        fixture.put("other", "new", "red");
        text += &reader.lines(3).await;
        sleep(Duration::from_secs(1)).await;
        fixture.put("other", "last", "red");
        let (rest, expected) = rest_of(reader, plain).await;
        text += &rest;
        assert_eq!(text.lines().count(), 1000 + 1 + 4 + 1, "initial events, their mark, changes, the last bookmark");
        assert!(text == expected, "{accept}:\n{text}\n{expected}");
        fixture.delete("other", "new");
        fixture.delete("other", "last");
        fixture.put("default", "x0008", "blue");
    }
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_compressed_in_pieces() {
    let mut fixture = Fixture::new();
    for number in 0..8000 {
        fixture.put_without_publishing("default", &format!("x{number:04}"), "blue");
    }
    fixture.shirts.publish();
    let mut reader = Reader::open(&fixture, &format!("{SHIRTS}?watch=true&{INITIAL}"), "").await;
    let (mut frames, mut bytes, mut text) = (0, 0, String::new());
    while !text.contains("initial-events-end") {
        let frame = reader.frame().await.unwrap();
        let read = reader.read(&frame);
        assert!(read.len() < gzip::TOGETHER + 16 * 1024, "a piece of {} bytes", read.len());
        (frames, bytes, text) = (frames + 1, bytes + frame.len(), text + &read);
    }
    assert!(frames > 5 && bytes * 10 < text.len(), "{bytes} of {} in {frames} frames", text.len());
}

#[tokio::test(start_paused = true)]
async fn initial_events_are_shorter_than_in_texts_that_are_compressed_alone() {
    let mut fixture = Fixture::new();
    // Each is 8 KiB, and like the third one before it, which is as far back as a compressor looks.
    for number in 0..300 {
        fixture.put_without_publishing("default", &format!("x{number:04}"), &noise_from(number % 3, 4_096));
    }
    fixture.shirts.publish();
    let mut reader = Reader::open(&fixture, &format!("{SHIRTS}?watch=true&{INITIAL}"), "").await;
    let (mut bytes, mut text) = (0, String::new());
    while !text.contains("initial-events-end") {
        let frame = reader.frame().await.unwrap();
        bytes += frame.len();
        text += &reader.read(&frame);
    }
    let alone: usize = text.as_bytes().chunks(64 << 10).map(|text| gzip::deflate(text).blocks.len()).sum();
    assert!(bytes * 3 < alone * 2, "{bytes} bytes in pieces, {alone} in texts of 64 KiB");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_compressed_once_for_all_watches_of_a_form() {
    let mut fixture = Fixture::new();
    let path = format!("{SHIRTS}?watch=true&{INITIAL}");
    let mut readers = Vec::new();
    for accept in ["application/json", "application/json", PARTIAL] {
        let mut reader = Reader::open(&fixture, &path, accept).await;
        reader.lines(1).await;
        readers.push(reader);
    }
    // The first change of a watch is read from history, which no other watch shares.
    fixture.put("default", "x", "red");
    for reader in &mut readers {
        reader.lines(1).await;
    }
    for (color, length) in [("blue".to_owned(), "short"), (noise(750_000), "long")] {
        fixture.put("default", "x", &color);
        let mut frames = Vec::new();
        for reader in &mut readers {
            let frame = reader.frame().await.unwrap();
            assert_eq!(reader.read(&frame).lines().count(), 1);
            frames.push(frame);
        }
        assert_eq!(frames[0].as_ptr(), frames[1].as_ptr(), "the same memory: {length}");
        assert_ne!(frames[0], frames[2], "another form");
    }
}

#[tokio::test(start_paused = true)]
async fn long_events_are_compressed_too() {
    let mut fixture = Fixture::new();
    let path = format!("{SHIRTS}?watch=true&{INITIAL}&timeoutSeconds=30");
    // The second is sent as it is.
    for length in [750_000, 2_200_000] {
        let color = noise(length);
        fixture.put("default", "initial", &color);
        for accept in ["application/json", TABLE] {
            let mut reader = Reader::open(&fixture, &path, accept).await;
            let plain = plain(&fixture, &path, accept).await;
            let mut text = reader.lines(2).await;
            fixture.put_without_publishing("default", "short", "blue");
            fixture.put_without_publishing("default", "live", &color);
            fixture.put("default", "short", "red");
            text += &reader.lines(3).await;
            let (rest, expected) = rest_of(reader, plain).await;
            assert!(text + &rest == expected, "{accept}, {length} bytes");
            fixture.delete("default", "live");
            fixture.delete("default", "short");
        }
    }
}

proptest! {
    #[test]
    fn texts_compressed_alone_make_one_member_in_any_order(
        texts in collection::vec((collection::vec(any::<u8>(), 0..40), prop_oneof![8 => 0..5000_usize, 1 => 200_000..210_000_usize]), 0..6),
        order in collection::vec((0..6_usize, 1..3_usize), 0..12),
    ) {
        let texts: Vec<Vec<u8>> = texts.into_iter().map(|(text, times)| text.repeat(times)).collect();
        let parts: Vec<_> = texts.iter().map(|text| std::sync::Arc::new(gzip::deflate(text))).collect();
        let (mut member, mut expected) = (GzipMember::default(), Vec::new());
        let mut decoder = GzDecoder::new(Vec::new());
        for (first, count) in order {
            let range = first.min(parts.len())..(first + count).min(parts.len());
            let bytes = member.push(&parts[range.clone()]);
            expected.extend(texts[range].concat());
            decoder.write_all(&bytes).unwrap();
            decoder.flush().unwrap();
            prop_assert!(*decoder.get_ref() == expected, "what was sent can be read at once");
        }
        decoder.write_all(&member.end()).unwrap();
        let read = decoder.finish().unwrap();
        prop_assert_eq!(read.len(), expected.len());
        prop_assert!(read == expected);
    }
}
