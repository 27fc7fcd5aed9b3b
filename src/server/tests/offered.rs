//! Discovery of what is reached behind.

use serde_json::{Value, json};

use super::pass_through::{Behind, before};
use super::{Fixture, catalog};
use crate::registry::{DiscoveredGroup, OfferedResource, OfferedVersion, UpstreamDiscovery};
use crate::server::pass_through::PassThrough;

fn row(resource: &str, group: &str, verbs: &[&str], subresources: &[(&str, &[&str])]) -> OfferedResource {
    let kind = |kind: &str| json!({"group": group, "version": if group.is_empty() { "" } else { "v1" }, "kind": kind});
    let subresources: Vec<Value> = subresources
        .iter()
        .map(|(name, verbs)| json!({"subresource": name, "responseKind": {"group": "policy", "version": "v1", "kind": "Sub"}, "verbs": verbs}))
        .collect();
    let mut row = json!({
        "resource": resource, "responseKind": kind("Kind"), "scope": "Namespaced", "singularResource": "one",
        "verbs": verbs,
    });
    if !subresources.is_empty() {
        row["subresources"] = subresources.into();
    }
    OfferedResource::new(resource, &row)
}

fn offers() -> UpstreamDiscovery {
    let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let group = |name: &str, version: &str, is_stale, resources| DiscoveredGroup {
        name: name.to_owned(),
        versions: vec![OfferedVersion { name: version.to_owned(), is_stale, resources }],
    };
    UpstreamDiscovery {
        groups: vec![
            group(
                "",
                "v1",
                false,
                vec![
                    row("bindings", "", &["create"], &[]),
                    row(
                        "pods",
                        "",
                        &all,
                        &[
                            ("log", &["get"]),
                            ("exec", &["create", "get"]),
                            ("proxy", &["get"]),
                            ("eviction", &["create"]),
                            ("status", &["get", "patch", "update"]),
                        ],
                    ),
                    row("secrets", "", &all, &[]),
                ],
            ),
            group("authorization.k8s.io", "v1", false, vec![row("selfsubjectaccessreviews", "", &["create"], &[])]),
            group("metrics.k8s.io", "v1", true, vec![]),
        ],
    }
}

/// `GROUP/VERSION RESOURCE verbs [subresource verbs..]` of the aggregated documents.
async fn aggregated(fixture: &Fixture) -> Vec<String> {
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let mut lines = Vec::new();
    for path in ["/api", "/apis"] {
        for group in fixture.get_with(path, &accept).await.json()["items"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                let name = group["metadata"]["name"].as_str().unwrap_or("core");
                let list = |verbs: &Value| {
                    verbs.as_array().unwrap().iter().map(|verb| verb.as_str().unwrap()).collect::<Vec<_>>().join(",")
                };
                let begins = format!("{name}/{}", version["version"].as_str().unwrap());
                if version["freshness"] != "Current" {
                    lines.push(format!("{begins} {}", version["freshness"].as_str().unwrap()));
                }
                for row in version["resources"].as_array().into_iter().flatten() {
                    let mut line = format!("{begins} {} {}", row["resource"].as_str().unwrap(), list(&row["verbs"]));
                    for below in row["subresources"].as_array().into_iter().flatten() {
                        let name = below["subresource"].as_str().unwrap();
                        line.push_str(&format!(" [{name} {}]", list(&below["verbs"])));
                    }
                    lines.push(line);
                }
            }
        }
    }
    lines
}

#[tokio::test]
async fn discovery_shows_what_can_be_reached() {
    let custom = |resource: &str, verbs: &str, status: &str| {
        format!("stable.example.com/v1 {resource} {verbs} [status {status}]")
    };
    let standard = "delete,deletecollection,get,list,patch,create,update,watch";
    for (mode, expected) in [
        (
            PassThrough::Off,
            vec![
                "core/v1 pods get,list,watch [status get]".to_owned(),
                custom("hats", "get,list,watch", "get"),
                custom("shirts", "get,list,watch", "get"),
            ],
        ),
        (
            PassThrough::Read,
            vec![
                "core/v1 pods get,list,watch [log get] [status get]".to_owned(),
                "core/v1 secrets get,list,watch".to_owned(),
                "authorization.k8s.io/v1 selfsubjectaccessreviews create".to_owned(),
                "metrics.k8s.io/v1 Stale".to_owned(),
                custom("hats", "get,list,watch", "get"),
                custom("shirts", "get,list,watch", "get"),
            ],
        ),
        (
            PassThrough::All,
            vec![
                "core/v1 bindings create".to_owned(),
                "core/v1 pods create,delete,get,list,patch,update,watch [log get] [eviction create] [status \
                 get,patch,update]"
                    .to_owned(),
                "core/v1 secrets create,delete,get,list,patch,update,watch".to_owned(),
                "authorization.k8s.io/v1 selfsubjectaccessreviews create".to_owned(),
                "metrics.k8s.io/v1 Stale".to_owned(),
                custom("hats", standard, "get,patch,update"),
                custom("shirts", standard, "get,patch,update"),
            ],
        ),
    ] {
        let mut expected = expected;
        expected.push("view.fieldcache.dev/v1alpha1 placementreviews create".to_owned());
        expected.push("view.fieldcache.dev/v1alpha1 dependents get".to_owned());
        let behind = Behind::teapot();
        let fixture = before(&behind, mode);
        fixture
            .registry
            .replace(catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]).with_offers(offers()), |_| None);
        assert_eq!(aggregated(&fixture).await, expected, "{mode:?}");
        assert!(behind.lines().is_empty(), "{mode:?}: discovery is ours");

        // The older documents say the same.
        let mut older = Vec::new();
        let names: Vec<String> = fixture.get("/apis").await.json()["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["preferredVersion"]["groupVersion"].as_str().unwrap().to_owned())
            .collect();
        for (group, path) in [("core/v1".to_owned(), "/api/v1".to_owned())]
            .into_iter()
            .chain(names.iter().map(|name| (name.clone(), format!("/apis/{name}"))))
        {
            let list = fixture.get(&path).await.json();
            for row in list["resources"].as_array().unwrap() {
                older.push(format!("{group} {}", row["name"].as_str().unwrap()));
            }
        }
        let newer: Vec<String> = expected
            .iter()
            .filter(|line| !line.ends_with("Stale"))
            .flat_map(|line| {
                let (own, below) = line.split_once(" [").unwrap_or((line, ""));
                let name = own.rsplit_once(' ').unwrap().0.to_owned();
                let below = below.split(" [").filter(|text| !text.is_empty());
                let below = below.map(|text| format!("{name}/{}", text.split(' ').next().unwrap())).collect::<Vec<_>>();
                [name.clone()].into_iter().chain(below)
            })
            .collect();
        assert_eq!(older, newer, "{mode:?}");
    }
}

#[tokio::test]
async fn a_row_of_another_groups_kind_names_it_in_the_older_documents() {
    let behind = Behind::teapot();
    let fixture = before(&behind, PassThrough::All);
    fixture.registry.replace(catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]).with_offers(offers()), |_| None);
    let list = fixture.get("/api/v1").await.json();
    let rows = list["resources"].as_array().unwrap();
    let named = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(
        *named("pods/eviction"),
        json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
            "kind": "Sub", "verbs": ["create"]})
    );
    assert_eq!(named("secrets").get("group"), None);
    assert_eq!(fixture.get("/apis/authorization.k8s.io").await.code, 200);
    let custom = fixture.get("/apis/stable.example.com/v1").await.json();
    assert_eq!(custom["resources"][0]["storageVersionHash"], "hash=", "known of custom resources: {custom}");
}
