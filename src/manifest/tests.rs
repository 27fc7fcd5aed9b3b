//! Documents of one file.

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use super::budget::MemoryBudget;
use super::yaml::{SingleDocumentError, Syntax, documents, single};
use crate::json::{normalize_numbers, to_text};

/// The value of `k` in a one-line document.
fn plain(text: &str) -> Result<Value, String> {
    let (found, broken) = documents(format!("k: {text}\n").as_bytes(), Syntax::Yaml);
    match (&found[..], &broken[..]) {
        ([document], []) => Ok(document.value["k"].clone()),
        ([], [broken]) => Err(broken.to_string()),
        other => panic!("{text}: {other:?}"),
    }
}

/// Lines and short texts of what a file holds.
fn shown(bytes: &[u8], form: Syntax) -> (Vec<String>, Vec<String>) {
    let (found, broken) = documents(bytes, form);
    (
        found.iter().map(|document| format!("{} {}", document.line, to_text(&document.value))).collect(),
        broken.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn plain_scalars_mean_what_they_mean_to_kubectl() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("on", json!(true)),
        ("y", json!(true)),
        ("Off", json!(false)),
        ("NO", json!(false)),
        ("tRue", json!("tRue")),
        ("~", json!(null)),
        ("", json!(null)),
        ("Null", json!(null)),
        ("0", json!(0)),
        ("07", json!(7)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("-0b11", json!(-3)),
        ("1_000", json!(1000)),
        ("08", json!(8.0)),
        ("+1", json!(1)),
        ("1e3", json!(1000.0)),
        ("1.", json!(1.0)),
        (".5", json!(0.5)),
        ("9223372036854775807", json!(i64::MAX)),
        ("18446744073709551615", json!(u64::MAX)),
        ("1e400", json!("1e400")),
        ("12:30:45", json!("12:30:45")),
        ("2001-01-01", json!("2001-01-01")),
        ("1.2.3", json!("1.2.3")),
        ("\"yes\"", json!("yes")),
        ("'1'", json!("1")),
        ("!!str 1", json!("1")),
        ("!!int \"3\"", json!(3)),
        ("[yes, 1, a]", json!([true, 1, "a"])),
        ("{a: 1}", json!({"a": 1})),
        ("=", json!("=")),
    ] {
        assert_eq!(plain(text), Ok(expected), "{text}");
    }
    for (text, cause) in [
        (".nan", "line 1: .nan has no JSON form"),
        ("-.inf", "line 1: -.inf has no JSON form"),
        ("!!int x", "line 1: \"x\" is not a valid !!int"),
        ("!!binary aGk=", "line 1: !!binary has no JSON form"),
    ] {
        assert_eq!(plain(text), Err(cause.to_owned()), "{text}");
    }
}

#[test]
fn a_file_falls_into_documents_with_lines() {
    let rows: [(&str, &str, &[&str], &[&str]); 22] = [
        ("one", "a: 1\n", &["1 {\"a\":1}"], &[]),
        ("several", "a: 1\n---\nb: 2\n--- # comment\n\nc: 3", &["1 {\"a\":1}", "3 {\"b\":2}", "6 {\"c\":3}"], &[]),
        ("a leading marker and comments", "# head\n---\n# more\na: 1\n", &["4 {\"a\":1}"], &[]),
        ("empty documents", "---\n---\n\n--- \n---\n# only\n", &[], &[]),
        ("nothing at all", "", &[], &[]),
        ("null", "~\n", &[], &[]),
        ("end markers", "a: 1\n...\n---\nb: 2\n...\n", &["1 {\"a\":1}", "4 {\"b\":2}"], &[]),
        ("a directive", "%YAML 1.1\n---\na: yes\n", &["3 {\"a\":true}"], &[]),
        ("a marker with content", "--- {a: 1}\n", &["1 {\"a\":1}"], &[]),
        (
            "four dashes are no marker",
            "----\n",
            &[],
            &["line 1: not an object: expected a mapping with apiVersion and kind"],
        ),
        ("a marker inside a block", "a: |\n  ---\n  x\n", &["1 {\"a\":\"---\\nx\\n\"}"], &[]),
        ("Windows line ends", "a: 1\r\n---\r\nb: 2\r\n", &["1 {\"a\":1}", "3 {\"b\":2}"], &[]),
        ("a byte order mark", "\u{feff}a: 1\n", &["1 {\"a\":1}"], &[]),
        ("a broken one in the middle", "a: 1\n---\nb: [1\n---\nc: 3\n", &["1 {\"a\":1}", "5 {\"c\":3}"], &["?"]),
        ("a tab as indentation", "a:\n\tb: 1\n", &[], &["?"]),
        ("a list at the root", "- a\n", &[], &["line 1: not an object: expected a mapping with apiVersion and kind"]),
        ("a key twice", "a: 1\nb: 2\na: 3\n", &[], &["line 3: duplicate key \"a\""]),
        ("an unknown alias", "a: *x\n", &[], &["?"]),
        ("a List", "kind: List\nitems:\n- a: 1\n\n- b: 2\n", &["3 {\"a\":1}", "5 {\"b\":2}"], &[]),
        (
            "a typed list in a List",
            "kind: List\nitems:\n- kind: PodList\n  items:\n  - a: 1\n- 7\n",
            &["3 {\"a\":1}"],
            &["line 6: not an object: expected a mapping with apiVersion and kind"],
        ),
        ("an empty List", "kind: List\nitems: []\n---\nkind: PodList\n---\nkind: List\nitems:\n", &[], &[]),
        (
            "JSON in a YAML file",
            "{\"kind\":\"List\",\"items\":[\n{\"a\":1},\n{\"b\":\t2}]}\n",
            &["2 {\"a\":1}", "3 {\"b\":2}"],
            &[],
        ),
    ];
    for (why, text, expected, expected_broken) in rows {
        let (found, broken) = shown(text.as_bytes(), Syntax::Yaml);
        assert_eq!(found, expected, "{why}");
        assert_eq!(broken.len(), expected_broken.len(), "{why}: {broken:?}");
        for (broken, expected) in broken.iter().zip(expected_broken) {
            assert!(*expected == "?" || broken == expected, "{why}: {broken}");
        }
    }
    let (_, broken) = shown(b"a: 1\n---\nb: [1\n---\nc: 3\n", Syntax::Yaml);
    assert!(
        broken[0].starts_with("line 4: invalid YAML:") || broken[0].starts_with("line 3: invalid YAML:"),
        "{broken:?}"
    );
}

#[test]
fn bytes_that_are_no_text_break_their_document_only() {
    let (found, broken) = shown(b"a: 1\n---\nb: 2\nc: \xff\n---\nd: 3\n", Syntax::Yaml);
    assert_eq!(
        (found, broken),
        (vec!["1 {\"a\":1}".to_owned(), "6 {\"d\":3}".to_owned()], vec!["line 4: not UTF-8".to_owned()])
    );
}

#[test]
fn anchors_and_merge_keys_are_followed() {
    for (text, expected) in [
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n", json!({"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}})),
        ("d:\n  c: 3\n  <<: [{b: 1}, {b: 2, e: 5}]\n", json!({"d": {"b": 1, "c": 3, "e": 5}})),
        ("a: &x [1, *y]\n", json!(null)),
        ("&k a: 1\nb: *k\n", json!({"a": 1, "b": "a"})),
        ("a: &x 1\nb: [*x, *x]\n", json!({"a": 1, "b": [1, 1]})),
    ] {
        let (found, broken) = documents(text.as_bytes(), Syntax::Yaml);
        match expected {
            Value::Null => assert_eq!((found.len(), broken.len()), (0, 1), "{text}"),
            expected => {
                assert_eq!(found.first().map(|document| &document.value), Some(&expected), "{text}: {broken:?}")
            }
        }
    }
    let (_, broken) = shown(b"a: &x {b: *x}\n", Syntax::Yaml);
    assert_eq!(broken.len(), 1, "a value cannot contain itself: {broken:?}");
    let (_, broken) = shown(b"<<: 1\n", Syntax::Yaml);
    assert_eq!(broken, ["line 2: the value of << is not a mapping or a list of mappings"]);
}

#[test]
fn expansion_and_nesting_are_bounded() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs += &format!("a{level}: &a{level} [{below}]\n");
    }
    let (found, broken) = shown(laughs.as_bytes(), Syntax::Yaml);
    assert!(found.is_empty());
    assert!(broken[0].ends_with("document contains excessive aliasing"), "{broken:?}");
    let mut deep = "a0: &a0 [x]\n".to_owned();
    for level in 1..200 {
        deep += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    assert!(shown(deep.as_bytes(), Syntax::Yaml).1[0].ends_with("nested deeper than 100 levels"), "by aliases");
    let brackets = format!("a: {}{}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(shown(brackets.as_bytes(), Syntax::Yaml).1.len(), 1, "by brackets in YAML");
    let brackets = format!("{{\"a\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(shown(brackets.as_bytes(), Syntax::Json).1, ["line 1: nested deeper than 100 levels"], "in JSON");
}

/// What a text is charged, and whether it is read.
fn charged(text: &str, form: Syntax, limit: usize) -> (usize, Result<Value, SingleDocumentError>) {
    let mut budget = MemoryBudget::new(limit);
    let read = single(text.as_bytes(), form, &mut budget);
    (budget.used(), read)
}

fn nested_anchors(anchors: usize, items: usize) -> String {
    let opened: String = (0..anchors).map(|index| format!("&a{index} [")).collect();
    format!("k: {opened}{}[]{}\n", "[], ".repeat(items), "]".repeat(anchors))
}

#[test]
fn the_longest_file_takes_no_more_than_a_fixed_amount_of_memory() {
    for (size, most, what) in [(1 << 20, 128 << 20, "a file"), (256 << 20, 2 << 30, "the longest file")] {
        let mut budget = MemoryBudget::of_file(size);
        // A text of this length, so that a few thousand reach the bound.
        let text = "x".repeat(64 << 10);
        while budget.charge_text(&text).is_ok() {}
        assert!(budget.used() <= most && budget.used() > most - (1 << 20), "{what}: {}", budget.used());
    }
}

#[test]
fn nested_anchors_cost_as_much_as_one() {
    let most = 64 << 20;
    let (plain, _) = charged(&nested_anchors(1, 5_000), Syntax::Yaml, most);
    let (nested, read) = charged(&nested_anchors(95, 5_000), Syntax::Yaml, most);
    assert!(nested < plain + 95 * 1_000, "{nested} after {plain}");
    let value = read.unwrap();
    let innermost = (0..94).fold(&value["k"], |value, _| &value[0]);
    assert_eq!(innermost.as_array().map(Vec::len), Some(5_001));
    let (per_item, _) = charged(&nested_anchors(95, 10_000), Syntax::Yaml, most);
    assert!(per_item < 2 * nested, "linear in the items");
}

#[test]
fn aliases_repeat_what_they_name_within_anchors_too() {
    let text = "a: &a {x: &b [1, yes], z: *b}\nb: [*a, *b]\n&c k: *c\n*c : 1\n";
    let (_, read) = charged(text, Syntax::Yaml, 1 << 20);
    assert!(
        matches!(&read, Err(SingleDocumentError::Invalid(broken)) if broken.cause == "duplicate key \"k\""),
        "{read:?}"
    );
    let text = text.replace("*c : 1\n", "");
    let inner = json!([1, true]);
    let outer = json!({"x": inner, "z": inner});
    assert_eq!(charged(&text, Syntax::Yaml, 1 << 20).1, Ok(json!({"a": outer, "b": [outer, inner], "k": "k"})));
    for (text, cause) in [
        ("a: &a [*a]\n", "an alias refers to the value that contains it"),
        ("a: &a [1]\n? *a\n: 1\n", "a key is a mapping or a list"),
    ] {
        let (_, read) = charged(text, Syntax::Yaml, 1 << 20);
        assert!(
            matches!(&read, Err(SingleDocumentError::Invalid(broken)) if broken.cause == cause),
            "{text}: {read:?}"
        );
    }
}

#[test]
fn small_texts_of_large_values_are_rejected() {
    let limit = 1 << 20;
    let count = 60_000;
    let chain: String = (1..40).map(|level| format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1)).collect();
    for (why, text, form) in [
        ("lists", format!("{{\"k\":[{}0]}}", "[],".repeat(count)), Syntax::Json),
        ("objects", format!("{{\"k\":[{}0]}}", "{\"\":0},".repeat(count)), Syntax::Json),
        ("numbers", format!("{{\"k\":[{}0]}}", "0,".repeat(count)), Syntax::Json),
        (
            "members",
            format!("{{{}\"k\":0}}", (0..count).map(|i| format!("\"{i}\":0,")).collect::<String>()),
            Syntax::Json,
        ),
        ("documents", "{}".repeat(count), Syntax::Json),
        ("nested", format!("{{\"k\":[{}0]}}", "[[[[0]]]],".repeat(count)), Syntax::Json),
        ("block lists", format!("k:\n{}", "- -\n".repeat(count)), Syntax::Yaml),
        ("block members", (0..count).map(|i| format!("{i}: \n")).collect(), Syntax::Yaml),
        ("a list in brackets", format!("k: [{}]\n", "0, ".repeat(count)), Syntax::Yaml),
        ("anchors", format!("k:\n{}", "- &a\n".repeat(count)), Syntax::Yaml),
        ("aliases", format!("k: &a [0, 0, 0, 0, 0, 0]\nl:\n{}", "- *a\n".repeat(count)), Syntax::Yaml),
        ("aliases of aliases", format!("a0: &a0 x\n{chain}"), Syntax::Yaml),
        ("merges", format!("k: &a {{a: 0}}\nl:\n{}", "- <<: *a\n".repeat(count)), Syntax::Yaml),
        ("keys", format!("k: {{{}}}\n", "? ".repeat(count)), Syntax::Yaml),
        ("tags", format!("{}---\nk: 1\n", "%TAG !a! x\n".repeat(count * 2)), Syntax::Yaml),
        ("commas", format!("k: [{}]\n", ",".repeat(count * 2)), Syntax::Yaml),
    ] {
        let (used, read) = charged(&text, form, limit);
        assert!(read.is_err(), "{why}");
        assert!(used <= limit, "{why}: {used}");
    }
    let several = format!("a: 1\n---\nb: 2\n---\n{}", "]\n---\n".repeat(100));
    assert_eq!(charged(&several, Syntax::Yaml, limit).1, Err(SingleDocumentError::Several), "no more is read");
    assert_eq!(charged("# nothing\n", Syntax::Yaml, limit).1, Err(SingleDocumentError::None));
    // A Pod is far from it.
    let container = json!({"name": "main", "env": [{"name": "A", "value": "B"}], "ports": [{"containerPort": 80}]});
    let pod = json!({"spec": {"containers": vec![container; 100]}});
    for form in [Syntax::Json, Syntax::Yaml] {
        assert_eq!(charged(&pod.to_string(), form, limit).1.as_ref(), Ok(&pod));
    }
}

#[test]
fn json_texts_are_read_strictly() {
    let rows: [(&str, &[&str], &[&str]); 9] = [
        ("{\"a\": 1}\n\n{\"b\": [true, null, 1.5]}", &["1 {\"a\":1}", "3 {\"b\":[true,null,1.5]}"], &[]),
        ("", &[], &[]),
        ("{\"a\": 1} x", &["1 {\"a\":1}"], &["line 1: invalid JSON: expected a value, found 'x'"]),
        ("{\"a\": 1,\n\"a\": 2}", &[], &["line 2: duplicate key \"a\""]),
        ("{\"a\": 1,\n}", &[], &["line 2: invalid JSON: expected a key, found '}'"]),
        ("{\"a\":\n\n", &[], &["line 3: invalid JSON: expected a value, found the end"]),
        ("{\"a\": \"b\n\"}", &[], &["line 1: invalid JSON: a string does not end"]),
        ("{\"a\": 01}", &[], &["line 1: invalid JSON number 01"]),
        ("{\"a\": \"\\u00e9\\n\\/\"}", &["1 {\"a\":\"é\\n/\"}"], &[]),
    ];
    for (text, expected, expected_broken) in rows {
        let (found, broken) = shown(text.as_bytes(), Syntax::Json);
        assert_eq!(
            (found, broken),
            (expected.iter().map(|&s| s.to_owned()).collect(), expected_broken.iter().map(|&s| s.to_owned()).collect()),
            "{text:?}"
        );
    }
    let (found, _) = documents(b"{\"a\": 8.534277080485875e+141}", Syntax::Json);
    assert_eq!(found[0].value["a"], json!(8.534_277_080_485_875e141), "fractions are read exactly");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]{1,2}", inner, 0..4)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_as_json_is_read_in_both_forms(value in any_value()) {
        let mut value = json!({"k": value});
        normalize_numbers(&mut value);
        let text = to_text(&value);
        for form in [Syntax::Json, Syntax::Yaml] {
            let (mut found, broken) = documents(text.as_bytes(), form);
            prop_assert!(broken.is_empty(), "{:?} {:?}", form, broken);
            prop_assert_eq!(found.len(), 1);
            normalize_numbers(&mut found[0].value);
            prop_assert_eq!(&found[0].value, &value);
        }
    }

    #[test]
    fn no_bytes_break_the_reader(text in prop_oneof![
        any::<Vec<u8>>(),
        "[-a:{}\\[\\]&*!|>'\"#%@,?~ \n\t]{0,40}".prop_map(String::into_bytes),
    ]) {
        for form in [Syntax::Json, Syntax::Yaml] {
            let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
            let (found, broken) = documents(&text, form);
            prop_assert!(found.iter().all(|document| document.value.is_object() && document.line <= lines));
            prop_assert!(broken.iter().all(|broken| (1..=lines + 1).contains(&broken.line) && !broken.cause.contains('\n')), "{:?}", broken);
        }
    }
}
