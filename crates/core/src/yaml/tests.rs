//! The style of go-yaml, against texts that it wrote. The style of kubectl is tested where responses are written.

use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use super::go_yaml;
use super::go_yaml::{INDENT, MOST_INDENTATION, is_literal, one_line};
use crate::json::tree;
use fieldcache_testing::json::any_value;
use fieldcache_testing::nested::{Nested, Nesting, on_worker_stack};

/// The same by recursion.
fn naive(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(object) if !object.is_empty() => mapping(object, 0, &mut out),
        Value::Array(items) if !items.is_empty() => sequence(items, 0, &mut out),
        _ => {
            scalar(value, INDENT, &mut out);
            end_line(&mut out);
        }
    }
    out
}

/// Lines of a mapping. The cursor is at column `indent` of the first line.
fn mapping(object: &Map<String, Value>, indent: usize, out: &mut String) {
    for (position, (key, value)) in object.iter().enumerate() {
        if position > 0 {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(&one_line(key));
        out.push(':');
        // Below a list item the column is no multiple of four; deeper values align to the next one.
        let below = INDENT * ((indent + INDENT) / INDENT);
        match value {
            Value::Object(_) | Value::Array(_) if below > MOST_INDENTATION => flow(value, " ", out),
            Value::Object(child) if !child.is_empty() => {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', below));
                mapping(child, below, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', below));
                sequence(items, below, out);
            }
            _ => {
                out.push(' ');
                scalar(value, below, out);
                end_line(out);
            }
        }
    }
}

/// Lines of a list. The cursor is at column `indent` of the first line.
fn sequence(items: &[Value], indent: usize, out: &mut String) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str("- ");
        match item {
            Value::Object(_) | Value::Array(_) if indent > MOST_INDENTATION => flow(item, "", out),
            Value::Object(object) if !object.is_empty() => mapping(object, indent + 2, out),
            Value::Array(children) if !children.is_empty() => sequence(children, indent + 2, out),
            _ => {
                scalar(item, indent + 2, out);
                end_line(out);
            }
        }
    }
}

/// An object or list on one line. JSON is YAML.
fn flow(value: &Value, space: &str, out: &mut String) {
    out.push_str(space);
    out.push_str(&value.to_string());
    out.push('\n');
}

/// Ends the line, unless a block text ended it already.
fn end_line(out: &mut String) {
    if !out.ends_with('\n') {
        out.push('\n');
    }
}

/// A value on one line, or a block text whose lines are indented by `indent`.
fn scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) if is_literal(text) => literal(text, indent, out),
        Value::String(text) => out.push_str(&one_line(text)),
        // Null, booleans, numbers, and containers without members.
        other => out.push_str(&other.to_string()),
    }
}

/// `|` and the lines. The indicators after `|` show whether the first line begins with space, and whether the text ends
/// with no newline (`-`), or with more than one (`+`).
fn literal(text: &str, indent: usize, out: &mut String) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push_str(&INDENT.to_string());
    }
    if !text.ends_with('\n') {
        out.push('-');
    } else if text == "\n" || text.ends_with("\n\n") {
        out.push('+');
    }
    out.push('\n');
    for line in text.split_inclusive('\n') {
        if line != "\n" {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(line);
    }
}

#[test]
fn yaml_is_written_as_go_yaml_writes_it() {
    for (value, expected) in [
        (json!("plain"), "plain\n"),
        (json!("two words"), "two words\n"),
        (json!(""), "\"\"\n"),
        (json!("true"), "\"true\"\n"),
        (json!("True"), "\"True\"\n"),
        (json!("yes"), "yes\n"),
        (json!("null"), "\"null\"\n"),
        (json!("~"), "\"~\"\n"),
        (json!("12"), "\"12\"\n"),
        (json!("0x1F"), "\"0x1F\"\n"),
        (json!("0b12"), "0b12\n"),
        (json!("1_000"), "\"1_000\"\n"),
        (json!("08"), "\"08\"\n"),
        (json!("1.5"), "\"1.5\"\n"),
        (json!("1e999"), "1e999\n"),
        (json!(".5"), "\".5\"\n"),
        (json!(".inf"), "\".inf\"\n"),
        (json!("1.2.3"), "1.2.3\n"),
        (json!("2020-01-02"), "\"2020-01-02\"\n"),
        (json!("2020-02-30"), "2020-02-30\n"),
        (json!("2020-01-02T03:04:05Z"), "\"2020-01-02T03:04:05Z\"\n"),
        (json!("- x"), "'- x'\n"),
        (json!("-x"), "-x\n"),
        (json!("a: b"), "'a: b'\n"),
        (json!("a:b"), "a:b\n"),
        (json!("a #b"), "'a #b'\n"),
        (json!("a#b"), "a#b\n"),
        (json!("'q'"), "'''q'''\n"),
        (json!("*"), "'*'\n"),
        (json!(" x"), "' x'\n"),
        (json!("x "), "'x '\n"),
        (json!("a\tb"), "\"a\\tb\"\n"),
        (json!("é"), "é\n"),
        (json!("😀"), "\"\\U0001F600\"\n"),
        (json!("a\nb"), "|-\n    a\n    b\n"),
        (json!("a\n\nb\n"), "|\n    a\n\n    b\n"),
        (json!(" a\nb"), "|4-\n     a\n    b\n"),
        (json!("a \nb"), "\"a \\nb\"\n"),
        (json!(null), "null\n"),
        (json!(false), "false\n"),
        (json!(1.5), "1.5\n"),
        (json!([]), "[]\n"),
        (json!({}), "{}\n"),
        (json!([[1, [2]], {"a": []}]), "- - 1\n  - - 2\n- a: []\n"),
        (
            json!({"a": {"b": [{"c": 1, "d": {"e": 2}}]}}),
            "a:\n    b:\n        - c: 1\n          d:\n            e: 2\n",
        ),
        (json!({"a": "x\ny"}), "a: |-\n    x\n    y\n"),
        (json!(["x\ny"]), "- |-\n  x\n  y\n"),
        (json!({"true": 1, "a b": 2, "": 3}), "\"\": 3\na b: 2\n\"true\": 1\n"),
    ] {
        assert_eq!(go_yaml(&value), expected, "{value}");
    }
}

/// Values with the texts that a YAML writer gets wrong.
fn values() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        "[ -~]{0,8}",
        "[0-9_.eExXoOb+:TZ -]{1,12}",
        "[a-z:#'\" \n-]{0,10}",
        Just("true".to_owned()),
        Just("null".to_owned()),
    ];
    let leaf = prop_oneof![
        words.clone().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null)
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    /// Every container and every leaf takes its own line, so lines can be counted without a YAML reader.
    #[test]
    fn yaml_has_a_line_for_every_leaf_and_ends_with_a_newline(value in values()) {
        fn lines(value: &Value) -> usize {
            match value {
                Value::Array(items) if !items.is_empty() => items.iter().map(lines).sum(),
                Value::Object(object) if !object.is_empty() => object
                    .values()
                    .map(|member| match member {
                        Value::Array(items) if !items.is_empty() => 1 + lines(member),
                        Value::Object(members) if !members.is_empty() => 1 + lines(member),
                        _ => lines(member),
                    })
                    .sum(),
                Value::String(text) => {
                    let written = go_yaml(&json!(text));
                    written.matches('\n').count()
                }
                _ => 1,
            }
        }
        let written = go_yaml(&value);
        assert!(written.ends_with('\n'));
        assert_eq!(written.matches('\n').count(), lines(&value), "{written}");
    }

    #[test]
    fn yaml_is_written_as_by_recursion(value in prop_oneof![values(), any_value()], levels in 0..30_usize, is_list in any::<bool>()) {
        let value = (0..levels).fold(value, |value, level| {
            if is_list == level.is_multiple_of(3) { json!([1, value, []]) } else { json!({"k": value, "l\n": {}}) }
        });
        proptest::prop_assert_eq!(go_yaml(&value), naive(&value));
    }
}

#[test]
fn yaml_of_nested_values_is_bounded() {
    let wide = format!("[{}1]", "1,".repeat(10_000));
    for shape in [Nesting::Lists, Nesting::Maps, Nesting::Mixed(vec![true, false, false])] {
        for depth in [100, 500, 1000] {
            let json = Nested { leaf: "L", ..Nested::new(depth, shape.clone()) }.text().replace('L', &wide);
            let value = tree::value(json.as_bytes(), 1_001).unwrap();
            let text = on_worker_stack(|| go_yaml(&value));
            assert!(text.len() < 2 * json.len() + 4096, "{shape:?} {depth}: {} of {}", text.len(), json.len());
            assert!(text.ends_with("]\n") || text.ends_with("}\n"), "{shape:?} {depth}");
        }
    }
}
