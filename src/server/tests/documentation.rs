//! The Kubernetes documentation's page on labels and selectors: its requests, as it writes them.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Fixture;

const PODS: &str = "/api/v1/pods";

/// The page's two styles, and the others it gives to kubectl, which sends them the same way.
const ROWS: [(&str, &str, &[&str]); 5] = [
    ("equality-based", "environment%3Dproduction,tier%3Dfrontend", &["default/front"]),
    ("set-based", "environment+in+%28production%2Cqa%29%2Ctier+in+%28frontend%29", &["default/front", "default/qa"]),
    ("set-based, one value each", "environment%20in%20(production),tier%20in%20(frontend)", &["default/front"]),
    ("an OR of values", "environment+in+%28production%2C+qa%29", &["default/back", "default/front", "default/qa"]),
    (
        "exists and a negation",
        "environment%2Cenvironment+notin+%28frontend%29",
        &["default/back", "default/front", "default/qa"],
    ),
];

fn put(fixture: &mut Fixture, name: &str, labels: &Value) {
    let version = fixture.next_version().to_string();
    let object =
        json!({"metadata": {"name": name, "namespace": "default", "labels": labels, "resourceVersion": version}});
    let record = fixture.pods.resource.extractor.extract(Bytes::from(object.to_string())).unwrap();
    fixture.pods.store.apply(&record);
    fixture.pods.publish();
}

fn put_all(fixture: &mut Fixture) {
    for (name, labels) in [
        ("back", json!({"environment": "production", "tier": "backend"})),
        ("front", json!({"environment": "production", "tier": "frontend", "team": "red"})),
        ("odd", json!({"environment": "frontend"})),
        ("qa", json!({"environment": "qa", "tier": "frontend"})),
        ("zero", json!({})),
    ] {
        put(fixture, name, &labels);
    }
}

#[tokio::test]
async fn both_styles_of_label_selectors_filter_lists() {
    let mut fixture = Fixture::new();
    put_all(&mut fixture);
    for (why, selector, expected) in ROWS {
        assert_eq!(fixture.get(&format!("{PODS}?labelSelector={selector}")).await.names(), expected, "{why}");
    }
    assert_eq!(fixture.get(&format!("{PODS}?labelSelector=")).await.names().len(), 5, "the empty selector");
}

#[tokio::test(start_paused = true)]
async fn both_styles_of_label_selectors_filter_watches() {
    let mut fixture = Fixture::new();
    let mut watches = Vec::new();
    for (why, selector, expected) in ROWS {
        watches.push((why, fixture.watch(&format!("{PODS}?watch=1&labelSelector={selector}")).await, expected));
    }
    put_all(&mut fixture);
    for (why, watched, expected) in &mut watches {
        let seen: Vec<String> = watched.lines(expected.len()).await;
        let seen: Vec<&str> = seen.iter().filter_map(|line| line.strip_prefix("ADDED ")?.split('@').next()).collect();
        assert_eq!(seen, *expected, "{why}");
        watched.expect_silence().await;
    }
    // Labels may be changed at any time: the selections follow.
    put(&mut fixture, "front", &json!({"environment": "dev", "tier": "frontend"}));
    for (why, watched, _) in &mut watches {
        let expected = if *why == "exists and a negation" { "MODIFIED" } else { "DELETED" };
        assert_eq!(watched.line().await, format!("{expected} default/front@106"), "{why}");
    }
}
