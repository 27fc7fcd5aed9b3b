//! Lists and watch lines in every shape that JSON allows, and broken ones.

use bytes::Bytes;
use proptest::prelude::{Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::Value;

use crate::json::cursor::bytes_read;
use crate::model::Key;
use crate::source::watch_decoder::{EventType, Lines, any_watch_line, bookmark, entry, list_page, watch_line};
use fieldcache_testing::nested::{self, MAX_LEVELS, on_worker_stack};

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn watch_lines_are_split_without_touching_the_object() {
    for (line, event_type, object) in [
        (r#"{"type":"ADDED","object":{"a":1}}"#, EventType::Added, r#"{"a":1}"#),
        (r#"{"object":{"a":"}\"{"},"type":"DELETED"}"#, EventType::Deleted, r#"{"a":"}\"{"}"#),
        (
            " { \"type\" : \"MODIFIED\" , \"object\" : { \"a\" : [ 1 , {} ] } , \"x\": null } ",
            EventType::Modified,
            r#"{ "a" : [ 1 , {} ] }"#,
        ),
    ] {
        let split = watch_line(&bytes(line)).unwrap();
        assert_eq!((split.event_type, &*split.object), (event_type, object.as_bytes()), "{line}");
    }
    for line in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"type":"ADDED"}"#,
        r#"{"type":1,"object":{}}"#,
        r#"{"type":"ADDED","object":}"#,
        r#"{"type":"A" "object":{}}"#,
        r#"{"type":"A","object":{"#,
        r#"{"type":"A","object":{}}}"#,
        r#"{"type":"A","object":{}} {"#,
        r#"{"type":"A","object":{]}"#,
    ] {
        assert!(watch_line(&bytes(line)).is_err(), "{line}");
    }
}

#[test]
fn only_lines_in_the_form_of_go_are_cut_without_a_walk() {
    for (line, is_cut) in [
        (r#"{"type":"ADDED","object":{"a":]}}"#, true),
        (r#"{"type":"MODIFIED","object":{"a":]}}"#, true),
        (r#"{"type":"DELETED","object":{"a":]}}"#, true),
        (r#"{"type":"BOOKMARK","object":{"a":]}}"#, false),
        (r#"{"type":"ADDED","object":{"a":]}} "#, false),
        (r#"{"type":"ADDED", "object":{"a":]}}"#, false),
        (r#"{"type":"ADDED","object":[{"a":]}}"#, false),
        (r#"{"type":"ADDED","object":{"a":],"b":1}"#, false),
        (r#"{"type":"ADDED","object":"}"#, false),
        (r#"{"type":"ADDED","object":}"#, false),
        (r#"{"type":"ADDEDS","object":{"a":]}}"#, false),
    ] {
        assert_eq!(watch_line(&bytes(line)).is_ok(), is_cut, "only a cut does not see what is broken inside: {line}");
    }
}

#[test]
fn lists_are_split_in_any_order_of_keys() {
    let custom = r#"{"apiVersion":"v1","items":[{"a":1},{"b":"]"}],"kind":"ShirtList","metadata":{"continue":"abc","resourceVersion":"7"}}"#;
    let typed = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
    let null = r#"{"metadata":{"resourceVersion":"7"},"items":null}"#;
    for (body, items, next) in
        [(custom, vec![r#"{"a":1}"#, r#"{"b":"]"}"#], "abc"), (typed, vec![], ""), (null, vec![], "")]
    {
        let page = list_page(&bytes(body)).unwrap();
        let found: Vec<&[u8]> = page.items.iter().map(|item| &**item).collect();
        let expected: Vec<&[u8]> = items.iter().map(|item| item.as_bytes()).collect();
        assert_eq!((found, page.version.number(), &*page.next), (expected, 7, next), "{body}");
    }
    for body in [
        r#"{"items":[]}"#,
        r#"{"metadata":{},"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"x"},"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[1"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{} {}]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":{}}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[]} x"#,
    ] {
        assert!(list_page(&bytes(body)).is_err(), "{body}");
    }
}

#[test]
fn pages_of_metadata_are_read_for_keys_and_versions_only() {
    for (items, expected) in [
        ("[]", vec![]),
        ("null", vec![]),
        (r#"[{"metadata":{"name":"x","resourceVersion":"3"}}]"#, vec![("x", Some(3))]),
        (
            r#"[{"kind":"PartialObjectMetadata","metadata":{"name":"x","namespace":"a","uid":"u","resourceVersion":"3",
                "labels":{"name":"no","resourceVersion":"9"},"managedFields":[{"f:metadata":{"name":"no"}}]}},
                {"spec":{"name":"no"},"metadata":{"resourceVersion":"4","namespace":"b","name":"y\u002dz"}}]"#,
            vec![("a/x", Some(3)), ("b/y-z", Some(4))],
        ),
        (r#"[{"metadata":{"name":"x","resourceVersion":"ten"}}]"#, vec![("x", None)]),
        (r#"[{"metadata":{"name":"x","resourceVersion":7}}]"#, vec![("x", None)]),
        (r#"[{"metadata":{"name":"x"}}]"#, vec![("x", None)]),
    ] {
        let body = bytes(&format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"t"}},"items":{items}}}"#));
        let page = list_page(&body).unwrap();
        let entries: Vec<_> = page.items.iter().map(|item| entry(item).unwrap()).collect();
        let found: Vec<(&str, Option<u64>)> =
            entries.iter().map(|(key, version)| (key.as_str(), version.map(|version| version.number()))).collect();
        assert_eq!((found, page.version.number(), &*page.next), (expected, 7, "t"), "{items}");
    }
    for items in
        ["[{}]", r#"[{"metadata":{"namespace":"a"}}]"#, r#"[{"metadata":{"name":7}}]"#, "[7]", r#"[{"metadata":7}]"#]
    {
        let body = bytes(&format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":{items}}}"#));
        assert!(list_page(&body).unwrap().items.iter().any(|item| entry(item).is_err()), "{items}");
    }
}

#[test]
fn bookmarks_say_their_version_and_whether_they_end_the_initial_events() {
    for (object, expected) in [
        (r#"{"kind":"Shirt","metadata":{"resourceVersion":"12"}}"#, Some((12, false))),
        (
            r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"12"}}"#,
            Some((12, true)),
        ),
        (
            r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"false"},"resourceVersion":"12"}}"#,
            Some((12, false)),
        ),
        (r#"{"metadata":{}}"#, None),
        ("{}", None),
    ] {
        let found = bookmark(&bytes(object)).ok().map(|found| (found.version.number(), found.ends_initial_events));
        assert_eq!(found, expected, "{object}");
    }
}

#[test]
fn what_is_decoded_is_short() {
    let long = "x".repeat(70_000);
    let mark = |text: &str| bookmark(&bytes(&format!(r#"{{"metadata":{{"resourceVersion":"12"}},"a":"{text}"}}"#)));
    assert!(mark("x").is_ok());
    assert!(mark(&long).is_err());
    for member in ["name", "namespace", "resourceVersion"] {
        let item = |text: &str| bytes(&format!(r#"{{"metadata":{{"name":"a","{member}":"{text}"}}}}"#));
        assert!(entry(&item("x")).is_ok(), "{member}");
        assert!(entry(&item(&long)).is_err(), "{member}");
    }
    let other = bytes(&format!(r#"{{"metadata":{{"name":"a","uid":"{long}"}},"spec":"{long}"}}"#));
    assert!(entry(&other).is_ok(), "what is not kept may be long");
}

/// An object with brackets, quotes and escapes in its texts, and keys in any order.
fn objects() -> impl Strategy<Value = String> {
    ("[\\[\\]{}:,\\\\\" a-c]{0,12}", "[\\[\\]{}:,\\\\\" a-c]{0,12}", 1u32..30, any::<bool>()).prop_map(
        |(key, text, version, is_first)| {
            let metadata = format!(r#""metadata":{{"name":"x","resourceVersion":"{version}"}}"#);
            let data = format!("\"data\":{{{}:[{}, {{}}]}}", Value::from(key), Value::from(text));
            if is_first { format!("{{{metadata},{data}}}") } else { format!("{{{data},{metadata}}}") }
        },
    )
}

/// Watch lines in Go's form or another, whole, cut off, or with some bytes changed.
fn watch_lines() -> impl Strategy<Value = Vec<u8>> {
    let kinds = vec!["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "ADD\\u0045D", "ADDED\\\""];
    let forms = vec![
        r#"{"type":"T","object":O}"#,
        r#"{"type":"T","object":O}"#,
        r#"{"object":O,"type":"T"}"#,
        r#" { "type" : "T" , "object" : O } "#,
        r#"{"type":"T","object":O,"x":{"y":1}}"#,
        r#"{"type":"T","object":O,"object":O}"#,
        r#"{"type":"T","object":O,"type":"DELETED"}"#,
        r#"{"type":"T","type":"ADDED","object":O}"#,
        r#"{"type":"T","object":O }"#,
        r#"{"type":"T","object":O}}"#,
        r#"{"type":"T","object":O} "#,
        r#"{"type":"T","object":O}O"#,
        r#"{"type":"T","object":[O]}"#,
        r#"{"typ\u0065":"T","object":O}"#,
    ];
    let edit = (any::<prop::sample::Index>(), prop::sample::select(b"\"\\{}[]:, x".to_vec()));
    (
        prop::sample::select(forms),
        prop::sample::select(kinds),
        objects(),
        prop::option::of(any::<prop::sample::Index>()),
        prop::collection::vec(edit, 0..3),
    )
        .prop_map(|(form, kind, object, cut, edits)| {
            // The type first, so that nothing inside of the object is taken for a place.
            let mut line = form.replacen('T', kind, 1).replace('O', &object).into_bytes();
            for (place, byte) in edits {
                let place = place.index(line.len());
                line[place] = byte;
            }
            if let Some(cut) = cut {
                line.truncate(cut.index(line.len()));
            }
            line
        })
}

/// Whether more members follow the first `object`, by the standard parser.
fn has_member_behind_object(line: &[u8]) -> bool {
    let Some(start) = line.windows(9).position(|window| window == b"\"object\":") else { return false };
    let mut values = serde_json::Deserializer::from_slice(&line[start + 9..]).into_iter::<Value>();
    matches!(values.next(), Some(Ok(_)))
        && line[start + 9 + values.byte_offset()..].trim_ascii_start().starts_with(b",")
}

proptest! {
    #[test]
    fn lines_come_out_whole_however_they_are_cut(lines in proptest::collection::vec("[a-z]{0,9}", 0..20), cuts in proptest::collection::vec(1usize..7, 1..60)) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut reader = Lines::default();
        let mut found = Vec::new();
        let mut rest = text.as_bytes();
        let mut cuts = cuts.into_iter().cycle();
        while !rest.is_empty() {
            let cut = cuts.next().unwrap().min(rest.len());
            reader.push(Bytes::copy_from_slice(&rest[..cut]));
            rest = &rest[cut..];
            while let Some(line) = reader.next_line() {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        let expected: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(reader.pending(), 0);
    }

    #[test]
    fn cut_lines_and_walked_lines_hold_the_same_objects(line in watch_lines()) {
        let plan = crate::builtin::extractor("", "v1", "ConfigMap");
        let line = Bytes::from(line);
        let read = |split: Result<crate::source::watch_decoder::WatchLine, _>| {
            split.ok().and_then(|split| Some((split.event_type, plan.extract(split.object).ok()?)))
        };
        let (cut, walked) = (watch_line(&line), any_watch_line(&line));
        if walked.is_ok() && serde_json::from_slice::<Value>(&line).is_ok() && !has_member_behind_object(&line) {
            prop_assert_eq!(&cut, &walked);
        }
        let (cut, walked) = (read(cut), read(walked));
        // When the line was cut, the extractor meets what is behind an object. Of a line that is no JSON both may make
        // nothing, but never another object.
        let is_json = serde_json::from_slice::<Value>(&line).is_ok();
        let may_be_nothing = has_member_behind_object(&line) || !is_json;
        prop_assert!(cut == walked || (cut.is_none() && may_be_nothing), "{cut:?} {walked:?}");
    }

    #[test]
    fn pages_hold_what_was_put_in(objects in prop::collection::vec(objects(), 0..5), gap in prop::sample::select(vec!["", " ", "\n\t"]), cut in any::<prop::sample::Index>()) {
        let items = objects.join(&format!("{gap},{gap}"));
        let page = format!("{{{gap}\"items\"{gap}:{gap}[{gap}{items}{gap}],{gap}\"metadata\":{{\"resourceVersion\":\"7\"}}}}{gap}\n");
        let found = list_page(&bytes(&page)).unwrap();
        let found: Vec<&[u8]> = found.items.iter().map(|item| &**item).collect();
        prop_assert_eq!(found, objects.iter().map(|object| object.as_bytes()).collect::<Vec<_>>());
        let shorter = cut.index(page.trim_end().len());
        prop_assert!(list_page(&bytes(&page[..shorter])).is_err(), "{}", &page[..shorter]);
    }

    #[test]
    fn nested_objects_are_split_and_each_byte_is_read_a_few_times(
        text in nested::texts(MAX_LEVELS - 1, &["a", "metadata", "items", "object"]),
        place in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"\"\\{}[]:, x".to_vec()),
    ) {
        let metadata = r#""metadata":{"name":"x","resourceVersion":"7"}"#;
        let object = format!("{{{metadata},\"spec\":{text}}}");
        let page = bytes(&format!("{{{metadata},\"items\":[{object},{object}]}}"));
        let line = bytes(&format!("{{\"type\":\"ADDED\",\"object\":{object}}}"));
        let item = bytes(&object);
        let ((items, result, found), read) = on_worker_stack(|| {
            bytes_read(|| (list_page(&page).map(|page| page.items), any_watch_line(&line), entry(&item)))
        });
        prop_assert!(items.unwrap().iter().all(|item| **item == *object.as_bytes()));
        prop_assert_eq!(found.unwrap().0, Key::new("", "x"));
        prop_assert!(result.is_ok() && watch_line(&line).is_ok());
        prop_assert!(read <= 4 * page.len() + 2 * line.len(), "{} of {} and {}", read, page.len(), line.len());
        for whole in [&page, &line] {
            let mut broken = whole.to_vec();
            let place = place.index(broken.len());
            broken[place] = byte;
            let broken = Bytes::from(broken);
            on_worker_stack(|| {
                let _ = (watch_line(&broken), any_watch_line(&broken), list_page(&broken), entry(&broken), bookmark(&broken));
            });
        }
    }

    #[test]
    fn no_bytes_break_the_splitters(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
        let bytes = Bytes::from(bytes);
        let _ = watch_line(&bytes);
        let _ = list_page(&bytes);
        let _ = bookmark(&bytes);
    }
}
