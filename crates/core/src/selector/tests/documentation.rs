//! The Kubernetes documentation's page on labels and selectors: its examples and its equivalences, one by one.
//!
//! The examples as parameters of requests are in `server/tests/documentation.rs`, labels of objects in `schema` and
//! `source`, selectors that overlap in `server/tests/samples.rs`.

use serde_json::json;

use super::labels;
use crate::selector::wire::label_selector;
use crate::selector::{LabelSelection, LabelSelector};

fn parsed(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn equality_is_the_set_of_one_value() {
    for (one, other) in [
        ("environment=production", "environment==production"),
        ("environment=production", "environment in (production)"),
        ("environment = production", "environment=production"),
        ("tier!=frontend", "tier notin (frontend)"),
        ("component=redis", "component in (redis)"),
    ] {
        assert_eq!(parsed(one), parsed(other), "{one} and {other}");
    }
    assert_ne!(parsed("environment=production"), parsed("environment!=production"));
    assert_ne!(parsed("partition"), parsed("!partition"));
}

#[test]
fn every_example_selects_the_objects_of_the_page() {
    let objects: [(&str, &[(&str, &str)]); 6] = [
        ("production", &[("environment", "production")]),
        ("front", &[("environment", "production"), ("tier", "frontend"), ("team", "red")]),
        ("back", &[("environment", "production"), ("tier", "backend"), ("partition", "customerB")]),
        ("qa", &[("environment", "qa"), ("tier", "frontend"), ("partition", "customerA")]),
        ("odd", &[("environment", "frontend"), ("tier", "cache"), ("partition", "")]),
        ("bare", &[]),
    ];
    for (text, expected) in [
        ("environment = production", "production front back"),
        ("tier != frontend", "production back odd bare"),
        ("environment=production,tier!=frontend", "production back"),
        ("environment in (production, qa)", "production front back qa"),
        ("tier notin (frontend, backend)", "production odd bare"),
        ("partition", "back qa odd"),
        ("!partition", "production front bare"),
        ("partition,environment notin (qa)", "back odd"),
        ("partition in (customerA, customerB),environment!=qa", "back"),
        ("environment=production,tier=frontend", "front"),
        ("environment in (production),tier in (frontend)", "front"),
        ("environment,environment notin (frontend)", "production front back qa"),
    ] {
        let selector = parsed(text);
        let selected: Vec<&str> =
            objects.iter().filter(|(_, pairs)| selector.matches(&labels(pairs))).map(|(name, _)| *name).collect();
        assert_eq!(selected.join(" "), expected, "{text}");
    }
}

#[test]
fn an_entry_of_match_labels_is_an_in_of_one_value() {
    let read = |selector| label_selector(&selector, "spec.selector", usize::MAX).unwrap();
    let expression = |operator: &str| {
        let values = if operator.ends_with("In") { json!(["redis"]) } else { json!([]) };
        read(json!({"matchExpressions": [{"key": "component", "operator": operator, "values": values}]}))
    };
    assert_eq!(read(json!({"matchLabels": {"component": "redis"}})), expression("In"));
    for (operator, text) in [
        ("In", "component in (redis)"),
        ("NotIn", "component notin (redis)"),
        ("Exists", "component"),
        ("DoesNotExist", "!component"),
    ] {
        assert_eq!(expression(operator), LabelSelection::Matching(parsed(text)), "{operator}");
    }
}

#[test]
fn match_labels_and_match_expressions_must_all_hold() {
    let selector = json!({
        "matchLabels": {"component": "redis"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["cache"]},
            {"key": "environment", "operator": "NotIn", "values": ["dev"]},
        ],
    });
    let Ok(LabelSelection::Matching(selector)) = label_selector(&selector, "spec.selector", usize::MAX) else {
        panic!("{selector}")
    };
    for (pairs, expected, why) in [
        (&[("component", "redis"), ("tier", "cache")][..], true, "an absent environment is not dev"),
        (&[("component", "redis"), ("tier", "cache"), ("environment", "qa"), ("x", "y")], true, "more labels"),
        (&[("component", "redis"), ("tier", "cache"), ("environment", "dev")], false, "the last does not hold"),
        (&[("component", "redis"), ("tier", "front")], false, "the second does not hold"),
        (&[("component", "valkey"), ("tier", "cache")], false, "the first does not hold"),
        (&[("tier", "cache")], false, "the first key is absent"),
    ] {
        assert_eq!(selector.matches(&labels(pairs)), expected, "{why}");
    }
}
