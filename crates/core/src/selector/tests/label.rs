//! Label selector text: refusals word by word, matching, and printing back.

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::labels;
use crate::selector::{LabelRequirement, LabelSelector, Operator};

const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                        an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                        validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                          and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                          '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[test]
fn every_error_has_the_words_of_kube_apiserver() {
    let long = "x".repeat(64);
    let rows = [
        ("a=b c", "found 'c', expected: ',' or 'end of string'", 4),
        ("!a=b", "found '=', expected: ',' or 'end of string'", 2),
        ("a in (b) c", "found 'c', expected: ',' or 'end of string'", 9),
        (",a", "found ',', expected: !, identifier, or 'end of string'", 0),
        ("=a", "found '=', expected: !, identifier, or 'end of string'", 0),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'", 0),
        ("a,", "found '', expected: identifier after ','", 2),
        ("a,,b", "found ',', expected: identifier after ','", 2),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt", 2),
        ("a(b)", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt", 1),
        ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt", 1),
        ("a in b", "unable to parse requirement: found 'b' expected: '('", 5),
        ("a in", "unable to parse requirement: found '' expected: '('", 4),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier", 6),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier", 6),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'", 7),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'", 8),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier", 8),
        ("a in (b,=)", "unable to parse requirement: found '=', expected: ',', or identifier", 8),
        ("a===b", "unable to parse requirement: found '=', expected: identifier", 3),
        ("a=!b", "unable to parse requirement: found '!', expected: identifier", 2),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier", 2),
        ("!", "unable to parse requirement: found '', expected: identifier", 1),
        ("!!a", "unable to parse requirement: found '!', expected: identifier", 1),
        ("a,!=b", "found '!=', expected: identifier after ','", 2),
    ]
    .map(|(text, message, offset)| (text.to_owned(), message.to_owned(), offset));
    let invalid = "unable to parse requirement: <nil>: Invalid value";
    let syntax_rows = [
        ("-bad".to_owned(), format!("{invalid}: \"-bad\": {KEY_RULE}"), 0),
        ("ok,é=1".to_owned(), format!("{invalid}: \"é\": {KEY_RULE}"), 3),
        ("a/b/c".to_owned(), format!(
            "{invalid}: \"a/b/c\": a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyName')",
            &KEY_RULE["name part ".len()..]
        ), 0),
        (long.clone(), format!("{invalid}: \"{long}\": name part must be no more than 63 bytes"), 0),
        ("/a".to_owned(), format!("{invalid}: \"/a\": prefix part must be non-empty"), 0),
        ("a/".to_owned(), format!("{invalid}: \"a/\": name part must be non-empty; {KEY_RULE}"), 0),
        (
            "a=-bad".to_owned(),
            format!("unable to parse requirement: values[0][a]: Invalid value: \"-bad\": {VALUE_RULE}"),
            2,
        ),
        (
            "a in (-b,c,d-)".to_owned(),
            format!(
                "unable to parse requirement: [values[0][a]: Invalid value: \"-b\": {VALUE_RULE}, values[2][a]: Invalid \
                 value: \"d-\": {VALUE_RULE}]"
            ),
            6,
        ),
        (
            format!("a={long}"),
            format!(
                "unable to parse requirement: values[0][a]: Invalid value: \"{long}\": must be no more than 63 bytes"
            ),
            2,
        ),
        (
            "a>x".to_owned(),
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an \
             integer"
                .to_owned(),
            2,
        ),
        (
            "a<".to_owned(),
            "unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an \
             integer"
                .to_owned(),
            2,
        ),
        (
            "a>-x".to_owned(),
            format!(
                "unable to parse requirement: [values[0]: Invalid value: \"-x\": for 'Gt', 'Lt' operators, the value must \
                 be an integer, values[0][a]: Invalid value: \"-x\": {VALUE_RULE}]"
            ),
            2,
        ),
        (
            "a>9223372036854775808".to_owned(),
            "unable to parse requirement: values[0]: Invalid value: \"9223372036854775808\": for 'Gt', 'Lt' operators, the \
             value must be an integer"
                .to_owned(),
            2,
        ),
    ];
    for (text, message, offset) in rows.into_iter().chain(syntax_rows) {
        let error = LabelSelector::parse(&text).unwrap_err();
        assert_eq!((error.message, error.offset), (message, offset), "{text}");
    }
}

/// An error is hundreds of times as long as the value that it is about.
#[test]
fn the_message_about_a_set_shows_its_first_ten_errors() {
    let key = format!("{}/k", "x".repeat(200));
    for count in [9, 10, 11, 1_000] {
        let values: Vec<String> = (0..count).map(|number| format!("-{number:04}")).collect();
        let shown = values.iter().take(10).enumerate();
        let mut errors: Vec<String> = shown
            .map(|(index, value)| format!("values[{index}][{key}]: Invalid value: \"{value}\": {VALUE_RULE}"))
            .collect();
        if count > 10 {
            errors.push("further values are invalid".to_owned());
        }
        let error = LabelSelector::parse(&format!("{key} in ({})", values.join(","))).unwrap_err();
        let expected = format!("unable to parse requirement: [{}]", errors.join(", "));
        assert_eq!(error.message, expected, "{count} values");
    }
}

#[test]
fn the_number_of_requirements_can_be_bounded() {
    let text = |count: usize| (0..count).map(|number| format!("k{number}")).collect::<Vec<_>>().join(",");
    assert_eq!(LabelSelector::parse_at_most(&text(3), 3), LabelSelector::parse(&text(3)));
    let set = format!("k in ({})", text(10));
    assert_eq!(LabelSelector::parse_at_most(&set, 1), LabelSelector::parse(&set), "values are no requirements");
    // The rest is not read.
    let error = LabelSelector::parse_at_most(&format!("{},=", text(4)), 3).unwrap_err();
    let expected = "the label selector has more than 3 requirements: put all values of one key into one set, such as 'key in \
                    (a,b)', or send several requests";
    assert_eq!((&*error.message, error.offset), (expected, 9));
}

#[test]
fn what_is_accepted_prints_in_its_canonical_form() {
    for (text, canonical, why) in [
        ("", "", "nothing selects everything"),
        (" \t\r\n", "", "blanks alone are nothing"),
        ("b=1,a=2", "a=2,b=1", "requirements are sorted by key"),
        ("a==b", "a=b", "two signs are one"),
        ("a = b", "a=b", "blanks separate tokens"),
        ("a\tin\n( b , c )\r", "a in (b,c)", "all four blanks"),
        ("a in (c,b,c)", "a in (b,c)", "sets are sorted and without repetition"),
        ("a in (b)", "a=b", "a set of one value"),
        ("a notin (b)", "a!=b", "a set of one value, negated"),
        ("a in ()", "a=", "the empty set is the set of the empty value"),
        ("a notin ()", "a!=", "the same, negated"),
        ("a in (,)", "a=", "two empty values are one"),
        ("a in (,,)", "a=", "three empty values are one"),
        ("a in (b,,c)", "a in (,b,c)", "an empty value inside"),
        ("a in (b,)", "a in (,b)", "an empty value at the end"),
        ("a in (,b)", "a in (,b)", "an empty value at the start"),
        ("a=", "a=", "an empty value"),
        ("a=,b!=", "a=,b!=", "empty values before a comma and at the end"),
        ("a=in", "a=in", "in as a value"),
        ("in in (in,notin)", "in in (in,notin)", "in as key, operator and value"),
        ("notin notin (in,x)", "notin notin (in,x)", "notin as key and operator"),
        ("in,!notin", "in,!notin", "in and notin as keys that exist or not"),
        ("! a", "!a", "a blank after the sign"),
        ("a>5,a<007", "a>5,a<7", "bounds are numbers"),
        ("example.com/a=b", "example.com/a=b", "a prefix"),
        ("a\0", "a", "a NUL ends a token and is swallowed"),
        ("a,b\0\0=c", "a,b", "a NUL where a token could begin ends the text"),
        ("a=b,a!=c", "a=b,a!=c", "several requirements of one key"),
    ] {
        match LabelSelector::parse(text) {
            Ok(selector) => assert_eq!(selector.to_string(), canonical, "{text:?}: {why}"),
            Err(error) => panic!("{text:?}: {why}: {error}"),
        }
    }
}

#[test]
fn matching_follows_the_table_of_the_documentation() {
    let objects: [(&str, &[(&str, &str)]); 5] = [
        ("prod-front", &[("environment", "production"), ("tier", "frontend"), ("n", "7")]),
        ("prod-back", &[("environment", "production"), ("tier", "backend"), ("partition", "customerA"), ("n", "-3")]),
        ("qa", &[("environment", "qa"), ("partition", "customerB"), ("n", "x")]),
        ("empty", &[("environment", "")]),
        ("none", &[]),
    ];
    for (text, expected) in [
        ("", "prod-front prod-back qa empty none"),
        ("environment = production", "prod-front prod-back"),
        ("tier != frontend", "prod-back qa empty none"),
        ("environment=production,tier!=frontend", "prod-back"),
        ("environment in (production, qa)", "prod-front prod-back qa"),
        ("tier notin (frontend, backend)", "qa empty none"),
        ("partition", "prod-back qa"),
        ("!partition", "prod-front empty none"),
        ("partition,environment notin (qa)", "prod-back"),
        ("partition in (customerA, customerB),environment!=qa", "prod-back"),
        ("environment=", "empty"),
        ("environment!=", "prod-front prod-back qa none"),
        ("environment in ()", "empty"),
        ("environment=qa,environment=production", ""),
        ("n>0", "prod-front"),
        ("n<100", "prod-front prod-back"),
        ("n>7", ""),
        ("n<7", "prod-back"),
    ] {
        let selector = LabelSelector::parse(text).unwrap();
        let selected: Vec<&str> =
            objects.iter().filter(|(_, pairs)| selector.matches(&labels(pairs))).map(|(name, _)| *name).collect();
        assert_eq!(selected.join(" "), expected, "{text}");
    }
}

/// The documentation's meaning of one requirement, computed on its text without any type of this module.
fn naive(key: &str, sign: &str, values: &[String], labels: &[(String, String)]) -> bool {
    let mut here = None;
    for (label, value) in labels {
        if label == key {
            here = Some(value.clone());
        }
    }
    let number = |text: &String| text.parse::<i64>().ok();
    match (sign, here) {
        ("=" | "==" | "in", Some(value)) => values.contains(&value),
        ("=" | "==" | "in", None) => false,
        ("!=" | "notin", Some(value)) => !values.contains(&value),
        ("!=" | "notin", None) => true,
        ("exists", here) => here.is_some(),
        ("!", here) => here.is_none(),
        (">", Some(value)) => matches!((number(&value), number(&values[0])), (Some(a), Some(b)) if a > b),
        ("<", Some(value)) => matches!((number(&value), number(&values[0])), (Some(a), Some(b)) if a < b),
        _ => false,
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("in".to_owned()),
        Just("notin".to_owned()),
        Just("example.com/a".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("x".to_owned()),
        Just("y".to_owned()),
        Just("in".to_owned()),
        (0..4_i64).prop_map(|number| number.to_string()),
    ]
}

fn blank() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\t\n"), 1 => Just(" \r ")]
}

/// One requirement: key, sign, values and a way to write it.
fn requirement() -> impl Strategy<Value = (String, &'static str, Vec<String>, String)> {
    let sign = prop::sample::select(vec!["=", "==", "!=", "in", "notin", "exists", "!", ">", "<"]);
    (key(), sign, prop::collection::vec(value(), 1..4), 0..4_i64, prop::collection::vec(blank(), 10)).prop_map(
        |(key, sign, values, bound, blanks)| {
            let [b0, b1, b2, ..] = blanks[..] else { unreachable!("there are ten blanks") };
            match sign {
                "in" | "notin" => {
                    let list = values.join(&format!("{b1},{b2}"));
                    let text = format!("{b0}{key} {b1}{sign}{b2}({b0}{list}{b1}){b2}");
                    (key, sign, values, text)
                }
                "exists" => (key.clone(), sign, Vec::new(), format!("{b0}{key}{b1}")),
                "!" => (key.clone(), sign, Vec::new(), format!("{b0}!{b1}{key}{b2}")),
                ">" | "<" => (key.clone(), sign, vec![bound.to_string()], format!("{b0}{key}{b1}{sign}{b2}{bound}")),
                _ => {
                    let value = values[0].clone();
                    let text = format!("{b0}{key}{b1}{sign}{b2}{value}{b0}");
                    (key, sign, vec![value], text)
                }
            }
        },
    )
}

proptest! {
    #[test]
    fn parsing_and_matching_agree_with_the_naive_filter(
        requirements in prop::collection::vec(requirement(), 0..5),
        pairs in prop::collection::btree_map(key(), value(), 0..5),
    ) {
        let text = requirements.iter().map(|(_, _, _, text)| &**text).collect::<Vec<_>>().join(",");
        let selector = LabelSelector::parse(&text).map_err(|error| {
            proptest::test_runner::TestCaseError::fail(format!("{text:?}: {error}"))
        })?;
        let labels: Vec<(String, String)> = pairs.into_iter().collect();
        let expected = requirements.iter().all(|(key, sign, values, _)| naive(key, sign, values, &labels));
        prop_assert_eq!(selector.matches(&labels), expected, "{:?} on {:?}", text, labels);
        prop_assert!(selector.requirements.is_sorted_by_key(|requirement| requirement.key.clone()));
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn no_text_breaks_the_parser_and_accepted_ones_print_back(
        text in prop_oneof![any::<String>(), "[ab=!<>(),\\-/ \\x00innot05]{0,24}"]
    ) {
        match LabelSelector::parse(&text) {
            Ok(selector) => prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector)),
            Err(error) => prop_assert!(error.offset <= text.len() && !error.message.is_empty()),
        }
    }
}

#[test]
fn a_selector_made_in_any_order_is_sorted_by_key() {
    let exists = |key: &str| LabelRequirement { key: key.to_owned(), operator: Operator::Exists };
    assert_eq!(LabelSelector::new(vec![exists("b"), exists("a")]).to_string(), "a,b");
}
