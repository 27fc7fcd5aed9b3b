//! Trees against serde_json, and values of every depth that an API server stores.

use proptest::prelude::{any, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use crate::crd::DEFINITION_LEVELS;
use crate::json::cursor::bytes_read;
use crate::json::tree::{NodeId, NodeKind, Tree, shallow, value};
use fieldcache_testing::json::written;
use fieldcache_testing::nested::{self, MAX_LEVELS, Nested, Nesting, on_worker_stack};

/// The value of a tree that is not deep.
fn value_of(tree: &Tree<'_>, id: NodeId) -> Value {
    match tree.kind(id) {
        NodeKind::Scalar => value(tree.bytes(id), 0).unwrap(),
        NodeKind::List => tree.children(id).map(|item| value_of(tree, item)).collect(),
        NodeKind::Map => {
            Value::Object(tree.children(id).map(|id| (tree.key(id).into_owned(), value_of(tree, id))).collect())
        }
    }
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

fn shapes() -> [Nesting; 3] {
    [Nesting::Lists, Nesting::Maps, Nesting::Mixed(vec![true, false, false])]
}

proptest! {
    #[test]
    fn trees_and_values_are_those_of_serde_json(document in written(), most in 0..6usize) {
        let expected: Value = serde_json::from_str(&document).unwrap();
        let tree = Tree::read(document.as_bytes()).unwrap();
        prop_assert_eq!(value_of(&tree, tree.root()), expected.clone(), "{}", document);
        prop_assert_eq!(tree.children(tree.root()).count(), expected.as_object().unwrap().len());
        prop_assert_eq!(&value(document.as_bytes(), 100).unwrap(), &expected, "{}", document);
        let is_allowed = levels(&expected) <= most;
        // A key that comes twice can hide a level that was read.
        if let Ok(found) = value(document.as_bytes(), most) {
            prop_assert_eq!((found, is_allowed), (expected.clone(), true));
        }
        let outer = shallow(document.as_bytes(), most).unwrap();
        prop_assert!(levels(&outer) <= most + 1, "{} in {} levels", document, most);
        prop_assert!(!is_allowed || outer == expected, "{}", document);
    }

    #[test]
    fn broken_bytes_are_rejected_or_read_as_serde_json_reads_them(
        document in written(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"\"\\{}[]:, x0e-\xff".to_vec())), 1..4),
    ) {
        let mut bytes = document.into_bytes();
        for (place, byte) in edits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let found = (Tree::read(&bytes).is_ok(), value(&bytes, 100).is_ok());
        if serde_json::from_slice::<Value>(&bytes).is_ok() {
            prop_assert_eq!(found, (true, true), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn each_byte_of_a_nested_value_is_read_once(document in nested::texts(MAX_LEVELS, &["a", "b\\u0062"])) {
        let ((read, shallow), bytes) = on_worker_stack(|| {
            bytes_read(|| (Tree::read(document.as_bytes()).map(|tree| tree.children(tree.root()).count()), shallow(document.as_bytes(), 3)))
        });
        prop_assert!(read.is_ok(), "{:?}", read);
        prop_assert!(levels(&shallow.unwrap()) <= 4);
        prop_assert!(bytes <= 2 * document.len(), "{} of {}", bytes, document.len());
    }

    #[test]
    fn broken_nested_values_break_nothing(
        document in nested::texts(MAX_LEVELS, &["a"]),
        place in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"\"\\{}[]:, x".to_vec()),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = document.into_bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        bytes.truncate(if is_cut { place + 1 } else { bytes.len() });
        let _ = on_worker_stack(|| (Tree::read(&bytes).is_ok(), value(&bytes, DEFINITION_LEVELS).is_ok(), shallow(&bytes, 9).is_ok()));
    }
}

#[test]
fn values_nest_as_deep_as_allowed_and_no_deeper() {
    for shape in shapes() {
        for depth in [0, 1, 127, 128, 129, DEFINITION_LEVELS] {
            let document = Nested::new(depth, shape.clone()).text();
            // Everything that serde_json does recursively with a value.
            let written = on_worker_stack(|| {
                let found = value(document.as_bytes(), depth).unwrap();
                let copy = found.clone();
                (found == copy && !format!("{found:?}").is_empty()).then(|| copy.to_string())
            });
            assert_eq!(written.as_deref(), Some(&*document), "{shape:?} {depth}");
            if depth > 0 {
                assert!(value(document.as_bytes(), depth - 1).is_err(), "{shape:?} {depth}");
                assert!(shallow(document.as_bytes(), depth - 1).is_ok(), "{shape:?} {depth}");
            }
        }
        let deepest = Nested::new(MAX_LEVELS, shape.clone()).text();
        assert!(on_worker_stack(|| Tree::read(deepest.as_bytes()).is_ok()), "{shape:?}");
        let deeper = Nested::new(MAX_LEVELS + 1, shape).text();
        assert!(on_worker_stack(|| Tree::read(deeper.as_bytes()).is_err() && shallow(deeper.as_bytes(), 3).is_err()));
    }
    assert_eq!(
        shallow(br#"{"a":{"b":{"c":1},"d":[1]},"e":[]}"#, 2).unwrap(),
        json!({"a": {"b": {}, "d": []}, "e": []})
    );
    assert_eq!(shallow(b"[1]", 0).unwrap(), json!([]));
    assert_eq!(value(br#"{"a":"\ud800"}"#, 1).unwrap(), json!({"a": "\u{fffd}"}));
}

#[test]
fn keys_are_compared_by_their_text_whatever_their_escapes_are() {
    for (written, key, is_same) in [
        (r"a\u0062", "ab", true),
        (r"\u0061\u0062", "ab", true),
        (r"\u0061\u0062c", "ab", false),
        (r"a\ud83d\ude00b", "a😀b", true),
        (r"a\ud83d\ude00b", "a😀", false),
        (r#"a\""#, "a\"", true),
        (r#"a\""#, "a", false),
        (r"a\\", "a\\", true),
        (r"a\n", "a\nb", false),
        (r"\u00e9", "é", true),
        (&format!("a{}", r"\n".repeat(100_000)), "a\n\n", false),
        ("a", "", false),
        ("", "", true),
    ] {
        let object = format!("{{\"{written}\":1}}");
        let tree = Tree::read(object.as_bytes()).unwrap();
        let member = tree.first(tree.root()).unwrap();
        let (found, read) = tree.compare_key(member, key);
        assert_eq!(found, is_same, "{key:?} of {:.20}", written);
        // However long the written key is; a byte of an escaped one counts as 16.
        assert!(read <= 16 * (6 * key.len() + 2), "{key:?} of {:.20}: {read}", written);
    }
}
