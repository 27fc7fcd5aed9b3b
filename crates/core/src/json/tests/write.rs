//! Documents as Go writes them.

use proptest::{prop_assert_eq, proptest};
use serde_json::{Value, json};

use crate::json::{normalize_numbers, to_text};
use fieldcache_testing::json::any_value;

#[test]
fn documents_are_written_with_the_bytes_of_go() {
    for (value, expected) in [
        (json!("<&>\u{2028}\u{2029}"), r#""\u003c\u0026\u003e\u2028\u2029""#),
        (json!("\u{8}\u{c}\n\r\t\u{1}\u{7f}\"\\/é"), "\"\\b\\f\\n\\r\\t\\u0001\u{7f}\\\"\\\\/é\""),
        (json!([1.5, 1e21, 1e20, 1e-6, 1.5e-7, 1e-10]), "[1.5,1e+21,100000000000000000000,0.000001,1.5e-7,1e-10]"),
        (json!({"b": [], "a": {"<": null}, "c": [true, false]}), r#"{"a":{"\u003c":null},"b":[],"c":[true,false]}"#),
    ] {
        assert_eq!(to_text(&value), expected);
    }
    for (text, expected) in [
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0.0", "0"),
        ("9007199254740993", "9007199254740993"),
        ("9223372036854775808", "9223372036854776000"),
        ("1.25", "1.25"),
    ] {
        let mut value: Value = serde_json::from_str(text).unwrap();
        normalize_numbers(&mut value);
        assert_eq!(to_text(&value), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn a_written_document_reads_back(value in any_value()) {
        let mut value = value;
        normalize_numbers(&mut value);
        let read: Value = serde_json::from_str(&to_text(&value)).unwrap();
        let mut read = read;
        normalize_numbers(&mut read);
        prop_assert_eq!(read, value);
    }
}
