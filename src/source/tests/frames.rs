//! Lists and watch lines in every shape that JSON allows, and broken ones.

use bytes::Bytes;
use proptest::{prop_assert_eq, proptest};

use crate::source::frames::{Lines, bookmark, list_page, watch_line};

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn watch_lines_are_split_without_touching_the_object() {
    for (line, kind, object) in [
        (r#"{"type":"ADDED","object":{"a":1}}"#, "ADDED", r#"{"a":1}"#),
        (r#"{"object":{"a":"}\"{"},"type":"DELETED"}"#, "DELETED", r#"{"a":"}\"{"}"#),
        (
            " { \"type\" : \"MODIFIED\" , \"object\" : { \"a\" : [ 1 , {} ] } , \"x\": null } ",
            "MODIFIED",
            r#"{ "a" : [ 1 , {} ] }"#,
        ),
    ] {
        let split = watch_line(&bytes(line)).unwrap();
        assert_eq!((&*split.kind, &*split.object), (kind, object.as_bytes()), "{line}");
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
    ] {
        assert!(watch_line(&bytes(line)).is_err(), "{line}");
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
    ] {
        assert!(list_page(&bytes(body)).is_err(), "{body}");
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
        let found = bookmark(&bytes(object)).ok().map(|(version, ends)| (version.number(), ends));
        assert_eq!(found, expected, "{object}");
    }
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
            reader.push(&rest[..cut]);
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
    fn no_bytes_break_the_splitters(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
        let bytes = Bytes::from(bytes);
        let _ = watch_line(&bytes);
        let _ = list_page(&bytes);
        let _ = bookmark(&bytes);
    }
}
