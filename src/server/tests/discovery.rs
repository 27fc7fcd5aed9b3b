//! Discovery in both forms, version, health.

use std::sync::Arc;

use serde_json::json;

use super::pass_through::{Behind, answered, before};
use super::{Fixture, catalog};
use crate::model::GroupVersion;
use crate::registry::{DiscoveredGroup, OfferedResource, OfferedVersion, Readiness, UpstreamDiscovery};
use crate::server::Settings;
use crate::server::health::Check;
use crate::server::pass_through::PassThrough;
use crate::store::HistoryLimits;

const AGGREGATED: &str = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList;profile=nopeer,\
    application/json;v=v2beta1;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList,application/json";

#[tokio::test]
async fn plain_discovery() {
    let fixture = Fixture::new();
    let core = fixture.get("/api").await.json();
    assert_eq!(
        (&core["kind"], &core["versions"], core.get("apiVersion")),
        (&json!("APIVersions"), &json!(["v1"]), None)
    );
    assert_eq!(core["serverAddressByClientCIDRs"][0]["serverAddress"], "127.0.0.1:8181");
    let version = json!({"groupVersion": "stable.example.com/v1", "version": "v1"});
    let group = json!({"name": "stable.example.com", "versions": [version], "preferredVersion": version});
    let groups = fixture.get("/apis/").await.json();
    let own_version = json!({"groupVersion": "view.fieldcache.dev/v1alpha1", "version": "v1alpha1"});
    let own = json!({"name": "view.fieldcache.dev", "versions": [own_version], "preferredVersion": own_version});
    assert_eq!(groups, json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group, own]}));
    let single = fixture.get("/apis/stable.example.com").await.json();
    assert_eq!((&single["kind"], &single["preferredVersion"]), (&json!("APIGroup"), &version));
    let resources = fixture.get("/apis/stable.example.com/v1").await.json();
    assert_eq!(resources["groupVersion"], "stable.example.com/v1");
    let rows = resources["resources"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["hats", "hats/status", "shirts", "shirts/status"]);
    assert_eq!(
        rows[2],
        json!({
            "name": "shirts", "singularName": "shirt", "namespaced": true, "kind": "Shirt", "shortNames": ["st"],
            "categories": ["all"], "storageVersionHash": "hash=", "verbs": ["get", "list", "watch"],
        })
    );
    assert_eq!(
        rows[3],
        json!({
            "name": "shirts/status", "singularName": "", "namespaced": true, "kind": "Shirt", "verbs": ["get"],
        })
    );
    let core = fixture.get("/api/v1").await.json();
    assert_eq!(core["groupVersion"], "v1");
    assert_eq!(core["resources"][1]["name"], "pods/status", "log is not served and not listed");
    assert_eq!(core["resources"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn aggregated_discovery_has_its_type_and_a_tag() {
    let fixture = Fixture::new();
    let accept = [("accept", AGGREGATED)];
    let answer = fixture.get_with("/apis", &accept).await;
    let media_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    assert_eq!((answer.header("content-type"), answer.header("vary")), (media_type, "Accept"));
    assert_eq!(answer.header("cache-control"), "public");
    let body = answer.json();
    assert_eq!(
        (&body["kind"], &body["apiVersion"]),
        (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
    );
    assert_eq!(body["items"].as_array().unwrap().len(), 2);
    let own = &body["items"][1]["versions"][0]["resources"][0];
    assert_eq!((&own["resource"], &own["verbs"]), (&json!("placementreviews"), &json!(["create"])));
    let group = &body["items"][0];
    assert_eq!(group["metadata"], json!({"name": "stable.example.com"}));
    assert_eq!(
        (&group["versions"][0]["version"], &group["versions"][0]["freshness"]),
        (&json!("v1"), &json!("Current"))
    );
    let kind = json!({"group": "stable.example.com", "version": "v1", "kind": "Shirt"});
    assert_eq!(
        group["versions"][0]["resources"][1],
        json!({
            "resource": "shirts", "responseKind": kind, "scope": "Namespaced", "singularResource": "shirt",
            "verbs": ["get", "list", "watch"], "shortNames": ["st"], "categories": ["all"],
            "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}],
        })
    );
    let tag = answer.header("etag");
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "{tag}");
    let again = fixture.get_with("/apis", &[accept[0], ("if-none-match", tag)]).await;
    assert_eq!((again.code.as_u16(), &*again.body, again.header("etag")), (304, "", tag));
    let core = fixture.get_with("/api", &accept).await;
    assert_eq!(core.json()["items"][0]["metadata"], json!({}));
    let pods = &core.json()["items"][0]["versions"][0]["resources"][0];
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "", "kind": "Pod"}));
    assert_ne!(core.header("etag"), tag);
    let beta = "application/json;v=v2beta1;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList";
    assert_eq!(fixture.get_with("/apis", &[("accept", beta)]).await.code, 406);
    assert_eq!(fixture.get_with("/apis", &[("accept", "text/html")]).await.code, 406);
    let yaml = fixture.get_with("/apis", &[("accept", "application/yaml")]).await;
    assert!(yaml.body.starts_with("apiVersion: v1\ngroups:\n- name: stable.example.com\n"), "{}", yaml.body);
}

#[tokio::test]
async fn version_is_indented_and_root_lists_paths() {
    let fixture = Fixture::new();
    assert_eq!(fixture.get("/version").await.body, "{\n  \"major\": \"1\",\n  \"minor\": \"36\"\n}");
    let paths = fixture.get("/").await.json()["paths"].clone();
    assert!(paths.as_array().unwrap().contains(&json!("/apis/stable.example.com/v1")), "{paths}");
}

#[tokio::test]
async fn health_runs_its_checks() {
    let check = |name, is_vital, is_well: bool| {
        Check::one(name, is_vital, move || if is_well { Ok(()) } else { Err("no".to_owned()) })
    };
    let stores = [
        ("store/hats".to_owned(), Readiness::Unavailable("no permission".to_owned())),
        ("store/socks".to_owned(), Readiness::Loading("7 objects read".to_owned())),
    ];
    let store = move || stores.to_vec();
    let store = Check { is_vital: false, probe: Arc::new(store) };
    let checks = vec![check("source", false, false), check("disk", true, true), store];
    let fixture = Fixture::with(Settings { checks, ..Settings::default() }, HistoryLimits::default());
    for (path, code, body) in [
        ("/livez", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\n[+]disk ok\nlivez check passed\n"),
        (
            "/readyz",
            500,
            "[+]ping ok\n[-]source failed: reason withheld\n[+]disk ok\n[!]store/hats unavailable (not required): reason withheld\n\
             [!]store/socks loading (not required): reason withheld\n[+]shutdown ok\nreadyz check failed\n",
        ),
        ("/readyz?exclude=source", 200, "ok"),
        (
            "/readyz?exclude=source&exclude=frob&verbose=1",
            200,
            "[+]ping ok\n[+]source excluded: ok\n[+]disk ok\n\
             [!]store/hats unavailable (not required): reason withheld\n\
             [!]store/socks loading (not required): reason withheld\n[+]shutdown ok\n\
             warn: some health checks cannot be excluded: no matches for \"frob\"\nreadyz check passed\n",
        ),
        ("/readyz/disk", 200, "ok"),
        ("/readyz/source", 500, "internal server error: reason withheld\n"),
        ("/readyz/store/hats", 500, "internal server error: reason withheld\n"),
        ("/readyz/store/socks", 500, "internal server error: reason withheld\n"),
        ("/readyz/frob", 404, "404 page not found\n"),
        ("/livez/source", 404, "404 page not found\n"),
        ("/healthz/ping", 200, "ok"),
    ] {
        let answer = fixture.get(path).await;
        assert_eq!((answer.code.as_u16(), &*answer.body), (code, body), "{path}");
    }
}

/// What a source offers in one version of a group.
fn offers(group_version: &GroupVersion, resources: &[(&str, &str)]) -> UpstreamDiscovery {
    let resource = |(name, hash): &(&str, &str)| {
        let row = json!({
            "resource": name, "responseKind": {"group": "", "version": "", "kind": "Kind"}, "scope": "Namespaced",
            "singularResource": "", "verbs": ["get", "list", "watch"],
        });
        let mut offered = OfferedResource::new(*name, &row);
        (*hash).clone_into(&mut offered.storage_version_hash);
        offered
    };
    let version = OfferedVersion {
        name: group_version.version.clone(),
        is_stale: false,
        resources: resources.iter().map(resource).collect(),
    };
    UpstreamDiscovery { groups: vec![DiscoveredGroup { name: group_version.group.clone(), versions: vec![version] }] }
}

#[tokio::test]
async fn resources_have_the_clusters_order_and_hashes() {
    let fixture = Fixture::new();
    let offered =
        offers(&GroupVersion::new("stable.example.com", "v1"), &[("socks", "a="), ("shirts", "b="), ("hats", "c=")]);
    fixture.registry.replace(catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]).with_offers(offered), |_| None);
    let list = fixture.get("/apis/stable.example.com/v1").await.json();
    let rows = list["resources"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["shirts", "shirts/status", "hats", "hats/status"], "socks are not served");
    assert_eq!(rows[0]["storageVersionHash"], "hash=", "a definition's hash is never behind");
    let offered = offers(&GroupVersion::new("", "v1"), &[("pods", "d=")]);
    fixture.registry.replace(catalog(&[&fixture.pods]).with_offers(offered), |_| None);
    let list = fixture.get("/api/v1").await.json();
    assert_eq!(list["resources"][0]["storageVersionHash"], "d=", "{list}");
}

/// What is described is listed; what cannot be listed in time is not described either.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_new_behind_is_described_when_it_is_listed() {
    let known = ["/apis/new.example.com", "/apis/new.example.com/v1"];
    for path in known {
        let behind = Behind::new(|_| answered(200, &json!({"kind": "Whatever"})));
        let fixture = before(&behind, PassThrough::Read);
        assert_eq!(fixture.get(path).await.code, 404, "{path}: no client reads discovery");
        let reading = async {
            let mut requests = fixture.registry.rediscovery().requests();
            requests.changed().await.unwrap();
            let request = *requests.borrow_and_update();
            let offered = offers(&GroupVersion::new("new.example.com", "v1"), &[("socks", "")]);
            let shirts = catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]);
            fixture.registry.replace(shirts.with_offers(offered), |_| None);
            fixture.registry.rediscovery().complete(request);
        };
        let ((), described) = futures::future::join(reading, fixture.get(path)).await;
        assert_eq!(described.code, 200, "{path}: {}", described.json());
        assert_ne!(described.json()["kind"], "Whatever", "{path}: from the catalog");
        assert!(fixture.get("/apis").await.json().to_string().contains("new.example.com"), "{path}");
        let requests_before = behind.lines().len();
        assert_eq!(fixture.get(path).await.code, 200);
        assert_eq!(behind.lines().len(), requests_before, "{path}: known now");
    }
    let behind = Behind::new(|_| answered(404, &json!({"kind": "Status"})));
    let fixture = before(&behind, PassThrough::Read);
    let requests = fixture.registry.rediscovery().requests();
    for path in known {
        assert_eq!(fixture.get(path).await.code, 404);
    }
    assert_eq!(*requests.borrow(), 0, "what the source does not have is no reason to read its discovery");
}
