//! Objects that the index leaves out: which ones, and how responses report them.

use http::Method;
use serde_json::{Value, json};

use super::{Fixture, REVIEWS, cluster, on_ssd, review_document};
use crate::server::Settings;
use crate::server::placement_review::IGNORED;

/// Long labels, different for each object.
fn labelled(namespace: &str, name: &str, bytes: usize) -> Value {
    let label = format!("{namespace}-{name}-{}", "x".repeat(bytes));
    let mut metadata = json!({"name": name, "labels": {"a": label}});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({"metadata": metadata})
}

#[tokio::test]
async fn long_parts_of_one_namespace_leave_room_for_nodes_and_other_namespaces() {
    let mut fixture = Fixture::with(Settings::default());
    for number in 0..200 {
        fixture.put("pods", labelled("greedy", &format!("p{number:03}"), 100_000));
    }
    fixture.put("pods", labelled("other", "long", 100_000));
    for number in 0..100 {
        fixture.put("nodes", labelled("", &format!("n{number:03}"), 100_000));
    }
    fixture.put("namespaces", labelled("", "long", 100_000));
    let warnings = fixture.review(&review_document(&on_ssd())).await.json()["status"]["warnings"].clone();
    let warnings: Vec<&str> = warnings.as_array().unwrap().iter().map(|said| said.as_str().unwrap()).collect();
    assert!(warnings.iter().all(|said| said.starts_with("Pod greedy/") || said.starts_with("16 more")), "{warnings:?}");
    // 84 Pods of the namespace take half of the bound, and a hundred others are named.
    assert_eq!(warnings.len(), 101, "{warnings:?}");
}

#[tokio::test]
async fn every_ignored_object_is_named_or_counted_and_users_without_permission_learn_no_names() {
    let mut fixture = Fixture::with(Settings { access: Some(cluster().access()), ..Settings::default() });
    let broken = |name: usize| json!({"metadata": {"name": format!("p{name:03}"), "namespace": "secret"}, "spec": 7});
    let pending = review_document(&json!({"podRef": {"namespace": "default", "name": "pending"}})).to_string();
    let warnings = async |fixture: &Fixture, user: &str| {
        let token = format!("Bearer {user}");
        let headers = [("authorization", &*token), ("content-type", "application/json")];
        let status = fixture.send(Method::POST, REVIEWS, &headers, &pending).await.json()["status"].clone();
        let warnings = status["warnings"].as_array().cloned().unwrap_or_default();
        warnings.iter().map(|said| said.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for number in 0..250 {
        fixture.put("pods", broken(number));
    }
    let named = warnings(&fixture, "alice").await;
    assert_eq!(
        (named.len(), &*named[100]),
        (101, "150 more objects are ignored, so the result can be wrong: the log names them")
    );
    assert!(
        named[99].starts_with("Pod secret/p099 is ignored, so the result can be wrong: cannot read the Pod"),
        "{}",
        named[99]
    );
    assert_eq!(warnings(&fixture, "bob").await, [IGNORED]);
    // A node comes before them, although their errors were stored first.
    fixture.put("nodes", json!({"metadata": {"name": "two"}, "spec": {"taints": 7}}));
    let named = warnings(&fixture, "alice").await;
    assert_eq!(
        (&*named[0], named.len()),
        ("Node two is ignored, so the result can be wrong: the log has the reason", 101)
    );
    for number in 0..200 {
        fixture.delete("pods", "secret", &format!("p{number:03}"));
    }
    assert_eq!(warnings(&fixture, "alice").await.len(), 51);
    for number in 200..250 {
        fixture.delete("pods", "secret", &format!("p{number:03}"));
    }
    fixture.put("nodes", json!({"metadata": {"name": "two"}}));
    assert!(warnings(&fixture, "alice").await.is_empty());
    assert!(warnings(&fixture, "bob").await.is_empty());
}
