//! Indented JSON and YAML: what deep objects become, in pieces of which length, and what they count as.

use std::fmt::Write;

use bytes::Bytes;
use http_body_util::BodyExt;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, prop_assert, prop_assert_eq, proptest, sample};
use serde_json::{Map, Value, json};

use super::limits::{get_as, user, with_limits};
use super::{Fixture, SHIRTS};
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::limit::LimitSettings;
use crate::flow_control::lists::LARGE;
use crate::wire::body::{Body, Finish, finish};
use crate::wire::encode::{CHUNK, json_bytes};
use crate::wire::indent;
use crate::wire::indent::{DEEPEST, Indenter};
use crate::wire::yaml;

/// How a value of so many levels nests.
const SHAPES: [(&str, &str, &str); 3] = [("lists", "[", "]"), ("maps", "{\"a\":", "}"), ("both", "[{\"a\":", "}]")];

/// A value of about so many levels around a list of numbers.
fn nested((_, open, close): (&str, &str, &str), depth: usize, numbers: usize) -> String {
    let levels = depth / open.matches(['[', '{']).count();
    format!("{}[1{}]{}", open.repeat(levels), ",1".repeat(numbers), close.repeat(levels))
}

/// A JSON text without white space outside of strings.
fn compact(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        if in_string || !letter.is_ascii_whitespace() {
            kept.push(letter);
        }
        in_string = if in_string { escaped || letter != '"' } else { letter == '"' };
        escaped = in_string && letter == '\\' && !escaped;
    }
    kept
}

/// A body's pieces.
async fn pieces(mut body: Body) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    while let Some(frame) = body.frame().await {
        pieces.push(frame.unwrap().into_data().unwrap());
    }
    pieces
}

fn put(fixture: &mut Fixture, name: &str, spec: &str) {
    let version = fixture.next_version();
    let text = format!(
        "{{\"apiVersion\":\"stable.example.com/v1\",\"kind\":\"Shirt\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"default\",\
         \"resourceVersion\":\"{version}\"}},\"spec\":{spec}}}"
    );
    let record = fixture.shirts.resource.extractor.extract(Bytes::from(text)).unwrap();
    fixture.shirts.store.apply(&record);
    fixture.shirts.publish();
}

#[tokio::test]
async fn a_deep_object_is_sent_in_small_pieces_and_stays_within_a_multiple_of_its_size() {
    let mut fixture = Fixture::new();
    for shape in SHAPES {
        for depth in [50, 100, 1000, 9000] {
            put(&mut fixture, "deep", &format!("{{\"free\":{}}}", nested(shape, depth, 20_000)));
            let plain = fixture.get(&format!("{SHIRTS}/deep")).await.body;
            for (query, accept) in [("?pretty=true", "application/json"), ("", "application/yaml")] {
                for place in ["/deep", ""] {
                    let why = format!("{} of {depth} levels, {accept}, {place}", shape.0);
                    let path = format!("{SHIRTS}{place}{query}");
                    let body = fixture.send(http::Method::GET, &path, &[("accept", accept)]).await.into_body();
                    let pieces = pieces(body).await;
                    let longest = pieces.iter().map(Bytes::len).max().unwrap();
                    // A piece of YAML may hold one long scalar: what is deeper than the bound is one.
                    assert!(longest <= 2 * CHUNK + plain.len(), "{why}: {longest}");
                    let sent = pieces.concat();
                    assert!(sent.len() <= 120 * plain.len(), "{why}: {} of {}", sent.len(), plain.len());
                    if query.is_empty() || !place.is_empty() {
                        continue;
                    }
                    let list = compact(std::str::from_utf8(&sent).unwrap());
                    assert!(list.contains(plain.trim_end()), "{why}: nothing is lost");
                }
            }
        }
    }
}

#[tokio::test]
async fn indented_json_is_gos_to_the_stated_depth_and_compact_below() {
    for shape in SHAPES {
        for depth in [1, 2, 98, 99, 100, 101, 102, 1000, 10_000] {
            let json = nested(shape, depth, 3);
            let body = finish(
                Box::new(std::iter::once(Bytes::from(json.clone()))),
                Finish { pretty: true, ..Finish::default() },
            );
            let sent = pieces(body.0).await.concat();
            let text = String::from_utf8(sent).unwrap();
            let why = format!("{} of {depth} levels", shape.0);
            assert_eq!(compact(&text), json, "{why}");
            assert_eq!(indent::json_length(json.as_bytes()), text.len() as u64, "{why}");
            let deepest = text.lines().map(|line| line.len() - line.trim_start().len()).max().unwrap();
            let levels = json.matches(['[', '{']).count();
            assert_eq!(deepest, 2 * levels.min(DEEPEST), "{why}: as deep as the text, up to the bound");
        }
    }
}

#[tokio::test]
async fn large_single_objects_take_their_turn_with_large_lists() {
    let mut fixture = with_limits(LimitSettings { lists: 1, ..LimitSettings::default() });
    // Less than a tenth of what counts as large, until it is indented.
    let deep = nested(SHAPES[0], 90, 100_000);
    assert!(10 * (deep.len() as u64) < LARGE);
    put(&mut fixture, "deep", &format!("{{\"free\":{deep}}}"));
    let lines = format!("{{\"free\":{}\"{}\"{}}}", "[".repeat(90), "a\\n".repeat(100_000), "]".repeat(90));
    put(&mut fixture, "lines", &lines);
    fixture.put("default", "small", "blue");
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let rows = [
        ("deep?pretty=true", "application/json", true, "indented"),
        ("deep", "application/yaml", true, "as YAML"),
        ("lines", "application/yaml", true, "a text of many lines, each indented"),
        ("deep?includeObject=Object&pretty=true", table, true, "a table"),
        ("deep?pretty=true", table, false, "a table without the object"),
        ("deep", "application/json", false, "as it is"),
        ("lines?pretty=true", "application/json", false, "a text stays on its line"),
        ("small?pretty=true", "application/json", false, "a small one"),
    ];
    for (path, accept, is_large, why) in rows {
        let read_whole = async || {
            let request = http::Request::builder().uri(format!("{SHIRTS}/{path}")).header("host", "127.0.0.1");
            let request = request.header("accept", accept).body(String::new()).unwrap();
            fixture.server.answer_to(&ConnectionState::for_user(user("a"), true), request).await
        };
        let first = read_whole().await;
        let in_flight = fixture.server.limits().lists().in_flight();
        assert_eq!((in_flight.lists, in_flight.bytes > LARGE), (usize::from(is_large), is_large), "{why}");
        let sent = first.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(sent.len() as u64 > LARGE, is_large, "{why}: {}", sent.len());
        assert!(!is_large || in_flight.bytes * 4 < sent.len() as u64 * 5, "{why}: an estimate: {in_flight:?}");
        assert_eq!(fixture.server.limits().lists().in_flight().lists, 0, "{why}: its place is free again");
    }

    // With the only place taken, the next one waits, and shows what there is when its turn comes.
    let path = format!("{SHIRTS}/deep?pretty=true");
    let first = get_as(&fixture, &user("a"), &path).await;
    let server = fixture.server.clone();
    let request = http::Request::builder().uri(&path).header("host", "127.0.0.1").body(String::new()).unwrap();
    let peer = ConnectionState::for_user(user("a"), true);
    let mut waiting = Box::pin(server.answer_to(&peer, request));
    // On a busy machine it waits for a seat first.
    for _ in 0..1_000 {
        assert!(futures::poll!(&mut waiting).is_pending());
        if fixture.server.limits().lists().in_flight().waiting > 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.server.limits().lists().in_flight().waiting, 1);
    assert_eq!(get_as(&fixture, &user("a"), &format!("{SHIRTS}/small")).await.status(), 200, "others pass by");
    put(&mut fixture, "deep", "{\"color\":\"new\"}");
    drop(first);
    let sent = waiting.await.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<Value>(&sent).unwrap()["spec"]["color"], "new");
}

/// To read a large object takes as long for a short response, and many users may request one at a time.
#[tokio::test]
async fn large_objects_are_read_in_turn_with_large_lists() {
    let mut fixture = with_limits(LimitSettings { lists: 1, ..LimitSettings::default() });
    let long = "x".repeat(usize::try_from(LARGE).unwrap());
    put(&mut fixture, "long", &format!("{{\"free\":\"{long}\"}}"));
    let response = get_as(&fixture, &user("a"), &format!("{SHIRTS}/long")).await;
    assert_eq!(fixture.server.limits().lists().in_flight().lists, 1);
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let request = http::Request::builder().uri(format!("{SHIRTS}/long")).header("host", "127.0.0.1");
    let request = request.header("accept", metadata).body(String::new()).unwrap();
    let (server, peer) = (fixture.server.clone(), ConnectionState::for_user(user("a"), true));
    let mut waiting = Box::pin(server.answer_to(&peer, request));
    // On a busy machine it waits for a seat first.
    for _ in 0..1_000 {
        assert!(futures::poll!(&mut waiting).is_pending(), "it has no place");
        if fixture.server.limits().lists().in_flight().waiting > 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.server.limits().lists().in_flight().waiting, 1);
    drop(response);
    let sent = waiting.await.into_body().collect().await.unwrap().to_bytes();
    assert!(sent.len() < 1_000, "{} bytes", sent.len());
    assert_eq!(fixture.server.limits().lists().in_flight().lists, 0, "its place is free again");
}

#[tokio::test(start_paused = true)]
async fn initial_events_of_large_objects_take_their_turn_one_by_one() {
    let mut fixture = with_limits(LimitSettings { lists: 1, ..LimitSettings::default() });
    let long = "x".repeat(usize::try_from(LARGE).unwrap());
    for name in ["b", "c"] {
        put(&mut fixture, name, &format!("{{\"free\":\"{long}\"}}"));
    }
    for name in ["a", "d"] {
        fixture.put("default", name, "blue");
    }
    let version = fixture.version;
    let path =
        format!("{SHIRTS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let open = async |name: &str| {
        let request = http::Request::builder().uri(&path).header("host", "127.0.0.1").body(String::new()).unwrap();
        super::Watched {
            body: fixture.server.answer_to(&ConnectionState::for_user(user(name), true), request).await.into_body(),
            text: String::new(),
        }
    };
    let in_flight = || fixture.server.limits().lists().in_flight();
    let (mut first, mut second) = (open("u").await, open("u").await);
    assert_eq!(first.line().await, "ADDED default/a@103");
    assert_eq!(in_flight().lists, 0, "a small object takes no place");
    assert_eq!(first.line().await, "ADDED default/b@101");
    assert_eq!(in_flight().lists, 1, "a large one does, until the connection takes more");
    assert_eq!(second.line().await, "ADDED default/a@103");
    {
        let mut blocked = std::pin::pin!(second.line());
        assert!(futures::poll!(&mut blocked).is_pending(), "there is one place");
        assert_eq!(in_flight().waiting, 1);
        // Another user's first is not kept waiting.
        let mut other = open("v").await;
        assert_eq!(other.lines(2).await, ["ADDED default/a@103", "ADDED default/b@101"]);
        drop(other);
        let mut third = open("u").await;
        third.line().await;
        let line = blocked.await;
        assert!(line.starts_with("ERROR"), "after some seconds it ends: {line}");
        drop(third);
    }
    assert_eq!(second.line().await, "end");
    assert_eq!(first.lines(2).await, ["ADDED default/c@102", "ADDED default/d@104"]);
    assert_eq!(first.line().await, format!("BOOKMARK @{version}"));
    assert_eq!(in_flight().lists, 0);
}

/// The obvious way, by recursion: only for shallow values.
fn naive_yaml(value: &Value, indent: usize, out: &mut String) {
    let line = |out: &mut String, indent: usize| write!(out, "\n{}", " ".repeat(indent)).unwrap();
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    line(out, indent);
                }
                write!(out, "{key}:").unwrap();
                match member {
                    Value::Object(inside) if !inside.is_empty() => {
                        line(out, indent + 2);
                        naive_yaml(member, indent + 2, out);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        line(out, indent);
                        naive_yaml(member, indent, out);
                    }
                    other => {
                        out.push(' ');
                        naive_yaml(other, indent + 2, out);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    line(out, indent);
                }
                out.push_str("- ");
                naive_yaml(item, indent + 2, out);
            }
        }
        Value::String(text) if text.contains('\n') => {
            out.push_str("|-");
            for each in text.split('\n') {
                line(out, indent);
                out.push_str(each);
            }
        }
        Value::String(text) => out.push_str(text),
        other => out.push_str(&String::from_utf8(json_bytes(other)).unwrap()),
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(1)),
        Just(json!(1.5)),
        Just(json!("plain")),
        Just(json!("two\nlines")),
        Just(json!(null)),
        Just(json!({})),
        Just(json!([]))
    ];
    leaf.prop_recursive(5, 60, 5, |inside| {
        let key = sample::select(vec!["a", "b", "c", "d"]);
        prop_oneof![
            collection::vec(inside.clone(), 0..4).prop_map(Value::Array),
            collection::vec((key, inside), 0..4).prop_map(|members| {
                Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn yaml_is_written_as_by_recursion(value in values()) {
        let json = json_bytes(&json!({ "spec": value }));
        let mut expected = String::new();
        naive_yaml(&json!({ "spec": value }), 0, &mut expected);
        let written = String::from_utf8(yaml::from_json(&json)).unwrap();
        prop_assert_eq!(&written, &format!("{expected}\n"));
        prop_assert!(written.len() as u64 <= indent::yaml_length(&json) + 2, "the length is not underestimated");
    }

    #[test]
    fn pieces_of_any_length_are_indented_alike(value in values(), cuts in collection::vec(1usize..9, 1..20)) {
        let json = json_bytes(&value);
        let (mut whole, mut by_pieces) = (Vec::new(), Vec::new());
        Indenter::default().push(&json, &mut whole);
        let mut indenter = Indenter::default();
        let mut rest = &json[..];
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            indenter.push(piece, &mut by_pieces);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&by_pieces, &whole);
        prop_assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap(), value);
    }
}

#[test]
fn yaml_of_any_depth_is_yaml() {
    for shape in SHAPES {
        for depth in [50, 99, 100, 101, 126, 127, 128, 1000, 9_998] {
            let json = format!("{{\"z\":1,\"free\":{}}}", nested(shape, depth, 2));
            let text = String::from_utf8(yaml::from_json(json.as_bytes())).unwrap();
            let why = format!("{} of {depth} levels", shape.0);
            assert!(text.starts_with("free:\n") && text.ends_with("\nz: 1\n"), "{why}: {text:.200}");
            assert!(text.len() < json.len() + 3 * DEEPEST * DEEPEST, "{why}: {}", text.len());
            let deepest = text.lines().map(|line| line.len() - line.trim_start().len()).max().unwrap();
            assert!(deepest <= 2 * DEEPEST, "{why}");
        }
    }
    let doubled = "{\"b\":1,\"a\":{\"x\":[1]},\"\\u0061\":2}";
    assert_eq!(String::from_utf8(yaml::from_json(doubled.as_bytes())).unwrap(), "a: 2\nb: 1\n", "the last one counts");
    assert_eq!(yaml::from_json(b"[1,"), b"[1,", "what is no JSON comes out as it is");
}
