//! The canonical text of a value. The expected texts of floats, quotes and print forms were printed by Go.

use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::json;

use crate::extract::value::{text, text_of};
use crate::model::quote;
use fieldcache_testing::nested::{self, MAX_LEVELS, Nested, on_worker_stack};

#[track_caller]
fn check(raw: &str, expected: &str, why: &str) {
    assert_eq!(text(raw.as_bytes()).as_deref(), Some(expected), "{why}: {raw}");
}

#[test]
fn scalars_have_one_text() {
    for (raw, expected, why) in [
        (r#""blue""#, "blue", "a string is unchanged"),
        (r#"" Blue ""#, " Blue ", "no trim, no case fold"),
        (r#""a,b\nc""#, "a,b\nc", "commas and newlines stay"),
        (r#""""#, "", "an empty string"),
        (r#""2026-01-01T00:00:00Z""#, "2026-01-01T00:00:00Z", "formats are raw text"),
        (r#""\"\\\/\b\f\n\r\t\u00e9""#, "\"\\/\u{8}\u{c}\n\r\té", "every escape"),
        (r#""\ud83d\ude00""#, "😀", "a surrogate pair"),
        (r#""\ud800x \ud83d\u0041 \udc00""#, "\u{fffd}x \u{fffd}A \u{fffd}", "lone surrogates"),
        (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀", "a lone surrogate before a pair"),
        ("true", "true", "true"),
        ("false", "false", "false"),
        ("null", "", "null is the empty text"),
        ("0", "0", "zero"),
        ("42", "42", "an integer"),
        ("9007199254740993", "9007199254740993", "beyond 2^53, exactly"),
        ("9223372036854775807", "9223372036854775807", "the largest i64"),
        ("-9223372036854775808", "-9223372036854775808", "the smallest i64"),
        ("1.0", "1", "normalised by storage"),
        ("1e2", "100", "normalised by storage"),
        ("1E+2", "100", "normalised by storage"),
        ("-0", "0", "normalised by storage"),
        ("-0.0", "0", "normalised by storage"),
        ("1e6", "1000000", "normalised by storage"),
        ("4611686018427387904.0", "4611686018427388000", "storage keeps the shortest digits"),
        ("9223372036854775808", "9.223372036854776e+18", "2^63"),
        ("1e20", "1e+20", "beyond i64"),
        ("1e21", "1e+21", "beyond i64"),
        ("1.5", "1.5", "a fraction"),
        ("-2.5e-10", "-2.5e-10", "a negative fraction"),
        ("0.0001", "0.0001", "exponent -4"),
        ("0.00001", "1e-05", "exponent -5"),
        ("1e-7", "1e-07", "two digits of exponent"),
        ("99999.5", "99999.5", "exponent 4"),
        ("123456.5", "123456.5", "exponent 5"),
        ("1000000.5", "1.0000005e+06", "exponent 6"),
        ("1234567.5", "1.2345675e+06", "exponent 6"),
        ("1.7976931348623157e308", "1.7976931348623157e+308", "the largest"),
        ("5e-324", "5e-324", "the smallest"),
        ("1e400", "1e400", "nothing that Go reads"),
    ] {
        check(raw, expected, why);
    }
}

#[test]
fn objects_and_lists_have_go_s_print_form() {
    for (raw, expected) in [
        (r#"{"b":null,"a":1}"#, "map[a:1 b:<nil>]"),
        (r#"["a",2]"#, "[a 2]"),
        ("{}", "map[]"),
        ("[ ]", "[]"),
        (
            r#"{"b":null,"a":[1.5,"x",{}, [], true],"é":{"k":"v w"}}"#,
            "map[a:[1.5 x map[] [] true] b:<nil> é:map[k:v w]]",
        ),
        (r#"{"a":1,"\u0061":2}"#, "map[a:2]"),
        (" [ [ 1 , null ] , { \"a\" : false } ] ".trim(), "[[1 <nil>] map[a:false]]"),
    ] {
        check(raw, expected, "print form");
    }
    let depth = 9_000;
    let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    check(&deep, &deep, "deep nesting costs no stack");
}

#[test]
fn bytes_that_are_no_utf_8_become_replacement_characters_one_each() {
    let text = text(b"\"\xff\xfe ok\xe2\x82\"").unwrap();
    assert_eq!(text, "\u{fffd}\u{fffd} ok\u{fffd}\u{fffd}");
}

#[test]
fn broken_values_have_no_text() {
    for raw in ["", "\"", r#""\q""#, r#""\u12""#, r#""\u12g4""#, "{", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "[tru]", "x"]
    {
        assert_eq!(text(raw.as_bytes()), None, "{raw}");
    }
}

#[test]
fn parsed_values_have_the_same_text() {
    for (value, expected) in [
        (json!("a\"b"), "a\"b"),
        (json!(1.0), "1"),
        (json!(1.5), "1.5"),
        (json!(i64::MIN), "-9223372036854775808"),
        (json!(u64::MAX), "1.8446744073709552e+19"),
        (json!(true), "true"),
        (json!(null), ""),
        (json!({"a": [1, null]}), "map[a:[1 <nil>]]"),
    ] {
        assert_eq!(text_of(&value), expected, "{value}");
    }
}

#[test]
fn quotes_are_go_s() {
    for (text, expected) in [
        (".spec.x", r#"".spec.x""#),
        ("a\"b\\", r#""a\"b\\""#),
        ("\u{0}\u{7f}\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\x00\x7f\a\b\f\n\r\t\v""#),
        ("é \u{301} \u{200b} \u{a0} \u{feff} 😀 \u{e0001}", "\"é \u{301} \\u200b \\u00a0 \\ufeff 😀 \\U000e0001\""),
        ("a'b", r#""a'b""#),
        ("\u{2028}", r#""\u2028""#),
    ] {
        assert_eq!(quote(text), expected);
    }
}

proptest! {
    #[test]
    fn nested_values_are_printed_at_any_depth(nested in nested::values(MAX_LEVELS - 1, &["a", "b"])) {
        let (document, plain) = (nested.text(), Nested { sibling_every: 0, ..nested.clone() });
        let printed = on_worker_stack(|| text(document.as_bytes()).map(std::borrow::Cow::into_owned)).unwrap();
        prop_assert!(printed.len() <= 2 * document.len());
        // Without siblings, the print form is the JSON with other brackets.
        let document = plain.text();
        let printed = on_worker_stack(|| text(document.as_bytes()).map(std::borrow::Cow::into_owned)).unwrap();
        let brackets = |text: &str, letter| text.matches(letter).count();
        let expected = brackets(&document, "[") + brackets(&document, "{");
        // This leaf is a text with a bracket.
        let of_leaf = usize::from(plain.leaf.contains("u005b"));
        prop_assert_eq!((brackets(&printed, "["), brackets(&printed, "]")), (expected + of_leaf, expected));
    }
}

#[test]
fn go_print_of_containers_behind_containers() {
    for (raw, expected) in [
        (r#"[[],[1,[2,3]],{"b":[4],"a":{}},5]"#, "[[] [1 [2 3]] map[a:map[] b:[4]] 5]"),
        (r#"{"a":1,"a":[2],"":null}"#, "map[:<nil> a:[2]]"),
        ("[[[]]]", "[[[]]]"),
    ] {
        assert_eq!(text(raw.as_bytes()).unwrap(), expected, "{raw}");
    }
}
