//! Indentation, YAML, gzip, escapes, chunks.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use flate2::read::MultiGzDecoder;
use futures::FutureExt;
use http::Method;
use http_body_util::BodyExt;
use proptest::prelude::Strategy;
use proptest::{collection, prop_assert_eq, prop_oneof, proptest, sample};
use serde_json::{Value, json};

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::model::quote;
use crate::wire::body::{Body, Finish, finish};
use crate::wire::encode::{json_bytes, write_string};
use crate::wire::indent::Indenter;
use crate::wire::{gzip, yaml};

fn indent(text: &str) -> String {
    let mut out = Vec::new();
    // Byte by byte: pieces may end anywhere.
    let mut indenter = Indenter::default();
    for byte in text.as_bytes() {
        indenter.push(&[*byte], &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// All bytes of a body, which gives up its turn now and then.
fn sent(body: Body) -> Bytes {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(body.collect()).unwrap().to_bytes()
}

#[test]
fn indentation_is_gos() {
    for (text, expected) in [
        ("{}", "{}"),
        ("[]", "[]"),
        ("{\"a\":[],\"b\":{}}\n", "{\n  \"a\": [],\n  \"b\": {}\n}"),
        (
            "{\"a\":[1,{\"b\":\"x,{}:\\\"y\"}]}",
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,{}:\\\"y\"\n    }\n  ]\n}",
        ),
        ("[\"\\\\\",2]", "[\n  \"\\\\\",\n  2\n]"),
    ] {
        assert_eq!(indent(text), expected);
    }
}

#[test]
fn strings_are_escaped_as_go_escapes_them() {
    let text = String::from_utf8(json_bytes(&json!("<a>&\u{2028}\u{2029}\"\\\n\u{1}\u{8}é"))).unwrap();
    assert_eq!(text, "\"\\u003ca\\u003e\\u0026\\u2028\\u2029\\\"\\\\\\n\\u0001\\bé\"");
    assert_eq!(quote("a\"b\\\n\u{1}"), "\"a\\\"b\\\\\\n\\x01\"");
}

#[test]
fn yaml_is_block_style() {
    let value = json!({
        "a": "plain text", "b": "true", "c": "12", "d": "", "e": "x: y", "f": "line\nbreak\n", "g": [], "h": {},
        "i": [{"k": 1, "l": [true, null]}, "s", [1, 2]], "j": "# no", "k.io/x": "kept\nend", "l": "null", "m": " lead",
        "n": "tail\n\n\n", "o": "2026-01-01T00:00:00Z", "p": "tab\there", "q": 1.5,
        "r": "kept\nends\n\n", "s": "1e3", "t": "~", "u": "-", "w": "a #b", "x": "*a", "z": "\u{e9}",
    });
    let text = String::from_utf8(yaml::from_json(&json_bytes(&value))).unwrap();
    let expected = "a: plain text\nb: \"true\"\nc: \"12\"\nd: \"\"\ne: \"x: y\"\nf: |\n  line\n  break\ng: []\nh: {}\n\
        i:\n- k: 1\n  l:\n  - true\n  - null\n- s\n- - 1\n  - 2\nj: \"# no\"\nk.io/x: |-\n  kept\n  end\nl: \"null\"\n\
        m: \" lead\"\n\"n\": \"tail\\n\\n\\n\"\no: \"2026-01-01T00:00:00Z\"\np: \"tab\\there\"\nq: 1.5\nr: |+\n  kept\n  ends\n\n\
        s: \"1e3\"\nt: \"~\"\nu: \"-\"\nw: \"a #b\"\nx: \"*a\"\nz: \"é\"\n";
    assert_eq!(text, expected);
}

#[test]
fn numbers_in_yaml_are_those_of_kube_apiserver() {
    for (json, yaml) in [
        ("0", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e+19"),
        ("-9223372036854775809", "-9.223372036854776e+18"),
        ("1.0", "1"),
        ("1.50", "1.5"),
        ("1234567.5", "1.2345675e+06"),
        ("1e3", "1000"),
        ("0.00001", "1e-05"),
        ("true", "true"),
        ("null", "null"),
    ] {
        let text = String::from_utf8(yaml::from_json(format!("{{\"n\":{json}}}").as_bytes())).unwrap();
        assert_eq!(text, format!("\"n\": {yaml}\n"), "{json}");
    }
}

#[tokio::test]
async fn lists_and_objects_come_as_yaml() {
    let mut fixture = Fixture::new();
    let accept = [("accept", "application/yaml")];
    let empty = fixture.get_with(SHIRTS, &accept).await;
    let expected = "apiVersion: stable.example.com/v1\nitems: []\nkind: ShirtList\nmetadata:\n  continue: \"\"\n  resourceVersion: \"100\"\n";
    assert_eq!((&*empty.body, empty.header("content-type")), (expected, "application/yaml"));
    fixture.put("default", "x", "blue");
    fixture.put("default", "y", "blue");
    let item = "apiVersion: stable.example.com/v1\n  kind: Shirt\n  metadata:\n    creationTimestamp: \"2026-01-01T00:00:00Z\"\n    \
                labels:\n      tone: blue\n    name: x\n    namespace: default\n    resourceVersion: \"101\"\n  spec:\n    color: blue\n    size: 7\n";
    let list = fixture.get_with(SHIRTS, &accept).await.body;
    assert!(list.starts_with(&format!("apiVersion: stable.example.com/v1\nitems:\n- {item}- apiVersion")), "{list}");
    assert!(list.ends_with("\nkind: ShirtList\nmetadata:\n  continue: \"\"\n  resourceVersion: \"102\"\n"), "{list}");
    let single = fixture.get_with(&format!("{SHIRTS}/x"), &accept).await.body;
    assert_eq!(single, item.replace("\n  ", "\n"));
    let missing = fixture.get_with(&format!("{SHIRTS}/z"), &accept).await;
    assert!(missing.body.starts_with("apiVersion: v1\ncode: 404\n"), "{}", missing.body);
    fixture.put_pod("default", "p");
    let pods = fixture.get_with("/api/v1/pods", &accept).await.body;
    assert!(pods.starts_with("apiVersion: v1\nitems:\n- metadata:\n"), "{pods}");
}

#[tokio::test]
async fn people_get_indented_answers() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let compact = fixture.get(SHIRTS).await;
    for (query, agent, is_pretty) in [
        ("", "curl/8.0", true),
        ("", "Mozilla/5.0 (X11)", true),
        ("", "kubectl/v1.36", false),
        ("pretty=true", "kubectl/v1.36", true),
        ("pretty=false", "curl/8.0", false),
        ("pretty=banana", "curl/8.0", false),
    ] {
        let answer = fixture.get_with(&format!("{SHIRTS}?{query}"), &[("user-agent", agent)]).await;
        assert_eq!(answer.body.contains("\n  \"items\": [\n    {\n      \"apiVersion\""), is_pretty, "{query} {agent}");
        assert_eq!(answer.json(), compact.json(), "{query} {agent}");
        assert!(answer.body.ends_with(if is_pretty { "\n}" } else { "}\n" }), "{query} {agent}");
    }
}

#[tokio::test]
async fn large_answers_are_streamed_and_compressed_on_request() {
    let mut fixture = Fixture::new();
    // Some 25 KB: more than a packet, less than what is worth compressing.
    for number in 0..100 {
        fixture.put_without_publishing("default", &format!("small{number:02}"), "blue");
    }
    for number in 0..2000 {
        fixture.put_without_publishing("large", &format!("x{number:04}"), "blue");
    }
    fixture.shirts.publish();
    let plain = fixture.get(ALL_SHIRTS).await;
    assert!(plain.body.len() > 400_000);
    assert_eq!((plain.header("content-length"), plain.header("content-encoding")), ("", ""));
    for (path, accepted, is_compressed) in [
        (ALL_SHIRTS, "gzip", true),
        (ALL_SHIRTS, "br, gzip", true),
        (ALL_SHIRTS, "gzip;q=1.0", false),
        (ALL_SHIRTS, "deflate", false),
        (SHIRTS, "gzip", false),
    ] {
        let response = fixture.send(Method::GET, path, &[("accept-encoding", accepted)]).await;
        let encoding = response.headers().get("content-encoding").cloned();
        assert_eq!(encoding.is_some(), is_compressed, "{path} {accepted}");
        assert_eq!(response.headers().contains_key("vary"), is_compressed, "{path} {accepted}");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut text = String::new();
        if is_compressed {
            MultiGzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
            assert!(bytes.len() * 4 < text.len(), "{path}: {} of {}", bytes.len(), text.len());
        } else {
            text = String::from_utf8(bytes.to_vec()).unwrap();
        }
        let expected = if path == SHIRTS { fixture.get(SHIRTS).await.body } else { plain.body.clone() };
        assert_eq!(text, expected, "{path} {accepted}");
    }
    let head = fixture.whole(Method::HEAD, ALL_SHIRTS, &[]).await;
    assert_eq!((head.code.as_u16(), &*head.body), (200, ""));
}

#[test]
fn compressed_answers_of_every_size_are_one_member_with_the_same_bytes() {
    // Words that repeat now and then, as those of objects do.
    let text = |size: usize| -> Vec<u8> {
        let words = (0u64..).map(|number| format!("{{\"name\":\"{:x}\"}},", number.wrapping_mul(0x9e37_79b9) % 50_021));
        words.flat_map(String::into_bytes).take(size).collect()
    };
    for (size, is_compressed, is_whole) in [
        (0, false, true),
        (1, false, true),
        (128 * 1024, false, true),
        (128 * 1024 + 1, true, true),
        (300_000, true, true),
        (gzip::WHOLE, true, true),
        (gzip::WHOLE + 1, true, false),
        (3_000_000, true, false),
    ] {
        let plain = text(size);
        for piece in [1000, 64 * 1024, 1 << 20] {
            let pieces: Vec<Bytes> = plain.chunks(piece).map(Bytes::copy_from_slice).collect();
            let (body, compressed) = finish(Box::new(pieces.into_iter()), Finish { gzip: true, ..Finish::default() });
            assert_eq!((compressed, body.length().is_some()), (is_compressed, is_whole), "{size} in {piece}");
            let sent = sent(body);
            if !is_compressed {
                assert!(sent == plain, "{size} in {piece}");
                continue;
            }
            assert!(sent.len() * 2 < size, "{size} in {piece}: {}", sent.len());
            // This reader stops at the end of a member, so whatever came behind it would be left over.
            let mut reader = GzDecoder::new(&*sent);
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            assert!(read == plain, "{size} in {piece}");
            assert!(reader.into_inner().is_empty(), "{size} in {piece}: a second member");
        }
    }
}

#[test]
fn a_compressed_answer_is_made_as_it_is_read() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let pieces = (0..1000u32).map(move |number| {
        count.fetch_add(1, Ordering::Relaxed);
        Bytes::from(number.to_le_bytes().repeat(16 * 1024))
    });
    let (mut body, compressed) = finish(Box::new(pieces), Finish { gzip: true, ..Finish::default() });
    assert!(compressed);
    let most = gzip::WHOLE / (64 * 1024) + 1;
    assert_eq!(made.load(Ordering::Relaxed), most, "what decides how to compress is held, nothing else");
    let first = body.frame().now_or_never().unwrap().unwrap().unwrap().into_data().unwrap();
    assert!(first.len() < 128 * 1024);
    let begun = made.load(Ordering::Relaxed);
    assert!(begun < 500, "a reader of the first bytes had {begun} pieces made");
    let rest = sent(body);
    let mut read = Vec::new();
    GzDecoder::new(&*[&*first, &*rest].concat()).read_to_end(&mut read).unwrap();
    assert_eq!((made.load(Ordering::Relaxed), read.len()), (1000, 1000 * 64 * 1024));
}

#[tokio::test]
async fn a_reader_in_the_middle_of_a_list_sees_one_state() {
    let mut fixture = Fixture::new();
    for number in 0..3000 {
        fixture.put_without_publishing("default", &format!("x{number:04}"), "blue");
    }
    fixture.shirts.publish();
    for path in [SHIRTS.to_owned(), format!("{SHIRTS}?limit=2500"), format!("{SHIRTS}?fieldSelector=spec.size%3D7")] {
        let mut body = fixture.send(Method::GET, &path, &[]).await.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.len() < 66 * 1024, "{path}");
        for number in 0..3000 {
            fixture.put_without_publishing("default", &format!("x{number:04}"), "blue");
        }
        fixture.shirts.publish();
        let rest = body.collect().await.unwrap().to_bytes();
        let list: Value = serde_json::from_slice(&[&*first, &*rest].concat()).unwrap();
        let listed: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let items = list["items"].as_array().unwrap();
        let version = |item: &Value| item["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        assert!(items.iter().all(|item| version(item) <= listed), "{path}");
        assert_eq!(items.len(), if path.contains("limit") { 2500 } else { 3000 }, "{path}");
    }
}

/// Letter by letter.
fn escaped(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            other => out.push(other),
        }
    }
    out + "\""
}

proptest! {
    #[test]
    fn long_strings_are_escaped_as_letter_by_letter(
        parts in collection::vec(
            prop_oneof![
                "[a-zé€]{0,70}",
                sample::select(vec!["<", ">", "&", "\"", "\\", "\n", "\r", "\t", "\u{8}", "\u{c}", "\u{0}", "\u{1f}", "\u{7f}"])
                    .prop_map(str::to_owned),
                // What begins as U+2028 does.
                sample::select(vec!["\u{2027}", "\u{2028}", "\u{2029}", "\u{202a}", "\u{20a8}", "€"]).prop_map(str::to_owned),
            ],
            0..12,
        )
    ) {
        let text = parts.concat();
        let mut out = Vec::new();
        write_string(&text, &mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), escaped(&text));
    }
}
