//! Selectors as JSON.

use serde_json::{Value, json};

use crate::selector::wire::{field_expressions, label_selector};
use crate::selector::{FieldError, LabelSelection, LabelSelector};

fn shown(problems: Vec<FieldError>) -> Vec<String> {
    problems.iter().map(|problem| format!("{} {problem}", problem.reason.as_str())).collect()
}

#[test]
fn match_labels_and_match_expressions_mean_the_same_as_their_text() {
    for (selector, text) in [
        (json!({"matchLabels": {"component": "redis"}}), "component=redis"),
        (
            json!({"matchLabels": {"component": "redis"}, "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["cache"]},
                {"key": "environment", "operator": "NotIn", "values": ["qa", "dev", "dev"]},
            ]}),
            "component=redis,tier in (cache),environment notin (dev,qa)",
        ),
        (
            json!({"matchExpressions": [
                {"key": "b", "operator": "DoesNotExist"},
                {"key": "a", "operator": "Exists", "values": []},
                {"key": "a", "operator": "In", "values": [""]},
            ]}),
            "a,a=,!b",
        ),
    ] {
        let expected = LabelSelector::parse(text).unwrap();
        assert_eq!(
            label_selector(&selector, "spec.selector", usize::MAX),
            Ok(LabelSelection::Matching(expected)),
            "{selector}"
        );
    }
}

#[test]
fn an_empty_selector_selects_everything_and_a_null_one_nothing() {
    for (selector, selects, why) in [
        (json!(null), LabelSelection::Nothing, "null"),
        (json!({}), LabelSelection::Everything, "empty"),
        (json!({"matchLabels": {}, "matchExpressions": []}), LabelSelection::Everything, "both members empty"),
        (json!({"matchLabels": null, "matchExpressions": null}), LabelSelection::Everything, "both members null"),
    ] {
        assert_eq!(label_selector(&selector, "s", usize::MAX), Ok(selects), "{why}");
    }
}

#[test]
fn every_error_of_a_label_selector_is_reported_in_upstreams_words() {
    let rows: [(Value, &[&str]); 8] = [
        (
            json!({"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "NotIn", "values": []}]}),
            &[
                "FieldValueRequired s.matchExpressions[0].values: Required value: must be specified when `operator` is \
                 'In' or 'NotIn'",
                "FieldValueRequired s.matchExpressions[1].values: Required value: must be specified when `operator` is \
                 'In' or 'NotIn'",
            ],
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
            &["FieldValueForbidden s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is \
               'Exists' or 'DoesNotExist'"],
        ),
        (
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["x"]}, {"key": "a"}]}),
            &[
                "FieldValueInvalid s.matchExpressions[0].operator: Invalid value: \"in\": not a valid selector operator",
                "FieldValueInvalid s.matchExpressions[1].operator: Invalid value: \"\": not a valid selector operator",
            ],
        ),
        (
            json!({"matchExpressions": [{"key": "/a", "operator": "Exists"}]}),
            &["FieldValueInvalid s.matchExpressions[0].key: Invalid value: \"/a\": prefix part must be non-empty"],
        ),
        (json!(7), &["FieldValueTypeInvalid s: Invalid value: 7: must be an object"]),
        (
            json!({"matchLabels": {"a": 7}}),
            &["FieldValueTypeInvalid s.matchLabels[a]: Invalid value: 7: must be a string"],
        ),
        (
            json!({"matchExpressions": {}}),
            &["FieldValueTypeInvalid s.matchExpressions: Invalid value: {}: must be a list"],
        ),
        (
            json!({"matchExpressions": [{"key": 1, "operator": "In", "values": [true]}]}),
            &[
                "FieldValueTypeInvalid s.matchExpressions[0].key: Invalid value: 1: must be a string",
                "FieldValueTypeInvalid s.matchExpressions[0].values[0]: Invalid value: true: must be a string",
            ],
        ),
    ];
    for (selector, expected) in rows {
        assert_eq!(shown(label_selector(&selector, "s", usize::MAX).unwrap_err()), expected, "{selector}");
    }
    let bad_syntax = json!({"matchLabels": {"-k": "-v"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["ok", "-v"]}]});
    let fields: Vec<String> =
        label_selector(&bad_syntax, "s", usize::MAX).unwrap_err().into_iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["s.matchLabels", "s.matchLabels", "s.matchExpressions[0].values[1]"]);
}

#[test]
fn field_expressions_speak_of_some_value_or_of_none() {
    let selector = json!({"matchExpressions": [
        {"key": "k", "operator": "In", "values": ["b", "a"]},
        {"key": "k", "operator": "NotIn", "values": ["a"]},
        {"key": "k", "operator": "Exists"},
        {"key": "k", "operator": "DoesNotExist"},
    ]});
    let expressions = field_expressions(&selector, "s", usize::MAX).unwrap();
    let rows: [(&[&str], [bool; 4]); 5] = [
        (&["a"], [true, false, true, false]),
        (&["c"], [false, true, true, false]),
        (&[""], [false, true, false, true]),
        (&[], [false, true, false, true]),
        (&["b", "c", ""], [true, true, true, false]),
    ];
    for (values, expected) in rows {
        let found: Vec<bool> =
            expressions.iter().map(|it| it.operator.matches_field(|is| values.iter().any(|value| is(value)))).collect();
        assert_eq!(found, expected, "{values:?}");
    }
}

#[test]
fn errors_of_field_expressions_are_reported_and_absence_means_no_restriction() {
    for selector in [json!(null), json!({}), json!({"matchExpressions": []})] {
        assert_eq!(field_expressions(&selector, "s", usize::MAX), Ok(Vec::new()), "{selector}");
    }
    let selector = json!({"matchExpressions": [
        {"operator": "In", "values": ["a"]},
        {"key": "k", "operator": "NotIn"},
        {"key": "k", "operator": "Exists", "values": ["a"]},
        {"key": "k", "operator": "Gt", "values": ["1"]},
    ]});
    assert_eq!(
        shown(field_expressions(&selector, "s", usize::MAX).unwrap_err()),
        [
            "FieldValueRequired s.matchExpressions[0].key: Required value: must be specified",
            "FieldValueRequired s.matchExpressions[1].values: Required value: must be specified when `operator` is 'In' \
             or 'NotIn'",
            "FieldValueForbidden s.matchExpressions[2].values: Forbidden: may not be specified when `operator` is \
             'Exists' or 'DoesNotExist'",
            "FieldValueInvalid s.matchExpressions[3].operator: Invalid value: \"Gt\": not a valid selector operator",
        ]
    );
}
