//! What discovery says of a cluster.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::Gvr;
use crate::source::discovery::{Discovery, read_group};

fn group(versions: &[(&str, &str, &[&str])]) -> Discovery {
    let version = |(name, freshness, resources): &(&str, &str, &[&str])| {
        let resource = |plural: &&str| {
            json!({
                "resource": plural, "responseKind": { "group": "", "version": "", "kind": "Kind" }, "scope": "Namespaced",
                "singularResource": plural, "verbs": ["get", "list", "watch"],
            })
        };
        let resources: Vec<Value> = resources.iter().map(resource).collect();
        json!({ "version": name, "freshness": freshness, "resources": resources })
    };
    let versions: Vec<Value> = versions.iter().map(version).collect();
    let mut discovery = Discovery::default();
    read_group(&json!({ "metadata": { "name": "metrics.example.com" }, "versions": versions }), &mut discovery);
    discovery
}

fn resources(discovery: &Discovery) -> Vec<String> {
    discovery.resources.iter().map(|found| found.gvr.to_string()).collect()
}

#[test]
fn the_resources_of_an_aggregated_server_remain_while_it_does_not_answer() {
    let known = group(&[("v2", "Current", &["pods"]), ("v1", "Current", &["nodes"])]);
    let mut stale = group(&[("v2", "Stale", &[]), ("v1", "Current", &["nodes"])]);
    stale.retain_stale(&known);
    assert_eq!(resources(&stale), ["nodes.v1.metrics.example.com", "pods.v2.metrics.example.com"]);
    assert_eq!(stale.groups[0].versions, ["v2", "v1"]);

    let mut again = group(&[("v2", "Stale", &[]), ("v1", "Current", &["nodes"])]);
    again.retain_stale(&stale);
    assert_eq!(again, stale, "for as long as it is stale");

    let mut unknown = group(&[("v3", "Stale", &[]), ("v1", "Current", &["nodes"])]);
    unknown.retain_stale(&known);
    assert_eq!(resources(&unknown), ["nodes.v1.metrics.example.com"], "v2 is gone, and nothing is known of v3");
    assert_eq!(unknown.groups[0].versions, ["v1"]);
}

#[test]
fn definitions_add_nothing_to_a_version_that_a_server_has_itself() {
    let kind = |group: &str| json!({ "group": group, "version": "v1", "kind": "Kind" });
    let version = |name: &str, group: &str| {
        let row = json!({ "resource": "bars", "responseKind": kind(group), "scope": "Cluster", "verbs": ["get", "list", "watch"] });
        json!({ "version": name, "resources": [row] })
    };
    let mut older = version("v3", "");
    older["isOlder"] = json!(true);
    let versions = [version("v1", ""), version("v2", "metrics.example.com"), older];
    let mut discovery = Discovery::default();
    read_group(&json!({ "metadata": { "name": "metrics.example.com" }, "versions": versions }), &mut discovery);
    let can_offer = |discovery: &Discovery, version: &str| {
        discovery.can_offer_custom(&Gvr::new("metrics.example.com", version, "foos"))
    };
    assert!(!can_offer(&discovery, "v1"), "the server has it itself");
    assert!(can_offer(&discovery, "v2"), "all that it has is custom");
    assert!(can_offer(&discovery, "v3"), "an older document does not say");
    assert!(can_offer(&discovery, "v4"), "discovery may be behind");

    let mut stale = group(&[("v1", "Stale", &[])]);
    assert!(can_offer(&stale, "v1"));
    stale.retain_stale(&discovery);
    assert!(!can_offer(&stale, "v1"), "its server comes back");
}

#[test]
fn versions_of_a_resource_share_their_lists_of_names() {
    let row = json!({
        "resource": "bars", "responseKind": { "kind": "Bar" }, "scope": "Cluster", "verbs": ["get", "list", "watch"],
        "shortNames": ["b"], "categories": ["all", "some"],
    });
    let mut other = row.clone();
    other["categories"] = json!(["all"]);
    let versions = [("v1", &row), ("v2", &row), ("v3", &other)];
    let versions = versions.map(|(name, row)| json!({ "version": name, "resources": [row] }));
    let mut discovery = Discovery::default();
    read_group(&json!({ "metadata": { "name": "a.example.com" }, "versions": versions }), &mut discovery);
    let [first, second, third] = &discovery.resources[..] else { panic!("{:?}", discovery.resources) };
    assert!(Arc::ptr_eq(&first.short_names, &second.short_names) && Arc::ptr_eq(&first.categories, &second.categories));
    assert!(Arc::ptr_eq(&first.short_names, &third.short_names));
    assert_eq!(
        (&*first.categories, &*third.categories),
        (&["all".to_owned(), "some".to_owned()][..], &["all".to_owned()][..])
    );
}
