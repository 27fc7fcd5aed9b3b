//! `keep=` in Accept: which parts of objects a request receives, in every format, at the root and in Views.

use bytes::Bytes;
use serde_json::{Value, json};

use super::shared::{pruned, serve};
use super::{ALL_SHIRTS, Fixture, SHIRTS};

const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/pruned/proxy";
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A shirt with annotations, and the shirts in a View without `.spec.size`.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    put(&mut fixture, 7);
    serve(&fixture, &[("pruned", pruned(".spec.size"))]);
    fixture
}

fn put(fixture: &mut Fixture, size: u64) {
    let version = fixture.next_version().to_string();
    let shirt = json!({
        "apiVersion": "stable.example.com/v1", "kind": "Shirt",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": version,
                     "labels": {"tone": "blue"}, "annotations": {"note": "n", APPLIED: "{}"}},
        "spec": {"color": "blue", "size": size}, "status": {"phase": "New"},
    });
    let stored = &mut fixture.shirts;
    stored.store.apply(&stored.resource.extractor.extract(Bytes::from(shirt.to_string())).unwrap());
    stored.publish();
}

/// The object with these members besides those that identify it.
fn object(version: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": "stable.example.com/v1", "kind": "Shirt",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": version},
    });
    for (name, value) in more.as_object().unwrap() {
        match (name.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                object["metadata"].as_object_mut().unwrap().extend(metadata.clone());
            }
            _ => object[name] = value.clone(),
        }
    }
    object
}

#[tokio::test]
async fn requests_receive_what_they_keep() {
    let fixture = fixture();
    let in_view = format!("{VIEW}{SHIRTS}/a");
    let at_root = format!("{SHIRTS}/a");
    for (path, keep, expected, why) in [
        (&at_root, "spec.color", json!({"spec": {"color": "blue"}}), "one field"),
        (&at_root, ".spec.color", json!({"spec": {"color": "blue"}}), "with a dot before it"),
        (&at_root, "metadata.name", json!({}), "what identifies the object remains anyway"),
        (&at_root, "spec.size+status", json!({"spec": {"size": 7}, "status": {"phase": "New"}}), "two fields"),
        (&at_root, "spec.size,status", json!({"spec": {"size": 7}, "status": {"phase": "New"}}), "with a comma"),
        (
            &at_root,
            "metadata.annotations",
            json!({"metadata": {"annotations": {"note": "n", APPLIED: "{}"}}}),
            "also copies: the caller may read everything",
        ),
        (
            &at_root,
            "metadata.annotations['note']",
            json!({"metadata": {"annotations": {"note": "n"}}}),
            "a name in brackets",
        ),
        (&in_view, "spec", json!({"spec": {"color": "blue"}}), "what the View hides is left out too"),
        (&in_view, "spec.size", json!({"spec": {}}), "and cannot be kept"),
        (&in_view, "metadata.annotations", json!({"metadata": {"annotations": {"note": "n"}}}), "nor copies of it"),
    ] {
        for drop in ["", ";drop=metadata.managedFields"] {
            let accept = format!("application/json;keep={keep}{drop}");
            let answer = fixture.get_with(path, &[("accept", &accept)]).await;
            assert_eq!(answer.json(), object("101", expected.clone()), "{why}: {path} {accept}");
            let list = path.trim_end_matches("/a");
            let list = fixture.get_with(list, &[("accept", &accept)]).await.json();
            let mut item = object("101", expected.clone());
            for name in ["apiVersion", "kind"] {
                assert_eq!(list["items"][0][name], item[name], "{why}");
            }
            item["apiVersion"] = list["items"][0]["apiVersion"].clone();
            assert_eq!(list["items"], json!([item]), "{why}: {path} {accept}");
        }
    }
    let yaml = fixture.get_with(&at_root, &[("accept", "application/yaml;keep=spec.color")]).await;
    assert!(yaml.body.contains("color: blue") && !yaml.body.contains("size"), "{}", yaml.body);
    let selected = format!("{ALL_SHIRTS}?fieldSelector=spec.size%3D7&labelSelector=tone");
    let selected = fixture.get_with(&selected, &[("accept", "application/json;keep=metadata.name")]).await;
    assert_eq!(selected.names(), ["default/a"], "selectors use all fields that the caller may read");
}

#[tokio::test]
async fn an_invalid_keep_is_an_error() {
    let fixture = fixture();
    let many = format!("a{}", "+b.c.d".repeat(100));
    for (accept, expected) in [
        ("application/json;keep=", "keep must have a path, such as keep=metadata.name+spec.color"),
        ("application/json;keep=spec[0]", ".spec[0]"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io;keep=spec", "keep is only supported for whole objects"),
        (&*format!("application/json;keep={many}"), "all paths together have more than 256 names"),
        (&*format!("application/json;keep={}", "a".repeat(8_193)), "the paths have more than 8192 bytes"),
    ] {
        let answer = fixture.get_with(ALL_SHIRTS, &[("accept", accept)]).await;
        assert_eq!(answer.code.as_u16(), 400, "{accept}: {}", answer.body);
        assert!(answer.message().contains("keep in the header Accept: "), "{accept}: {}", answer.message());
        assert!(answer.message().contains(expected), "{accept}: {}", answer.message());
    }
    let other = fixture.get_with("/version", &[("accept", "application/json;keep=spec[0]")]).await;
    assert_eq!(other.code.as_u16(), 200, "other documents have no parts");
    let other = fixture.get_with(ALL_SHIRTS, &[("accept", "application/json;keep=spec.color, application/yaml")]).await;
    assert_eq!(other.names(), ["default/a"], "another clause is no path");
}

#[tokio::test(start_paused = true)]
async fn watches_send_what_they_keep_and_can_be_quiet() {
    let mut fixture = fixture();
    let accept = [("accept", "application/json;keep=spec.color")];
    let path = format!("{ALL_SHIRTS}?watch=1&resourceVersion=101");
    let mut all = fixture.watch_with(&path, &accept).await;
    let mut quiet = fixture.watch_with(&format!("{path}&quiet=true"), &accept).await;
    put(&mut fixture, 8);
    let event = all.next().await.unwrap();
    assert_eq!(event["object"], object("102", json!({"spec": {"color": "blue"}})));
    quiet.expect_silence().await;
    let version = fixture.delete("default", "a").to_string();
    for watch in [&mut all, &mut quiet] {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "DELETED");
        assert_eq!(event["object"], object(&version, json!({"spec": {"color": "blue"}})));
    }
}

#[tokio::test]
async fn what_a_watch_keeps_counts_as_its_memory() {
    let fixture = fixture();
    let counted = async |keep: &str| {
        let accept = format!("application/json{keep}");
        let path = format!("{ALL_SHIRTS}?watch=1&resourceVersion=101");
        let watch = fixture.watch_with(&path, &[("accept", &accept)]).await;
        let counted = fixture.server.limits().watches().of_busiest();
        drop(watch);
        counted
    };
    let few = counted(";keep=spec.color").await;
    let names: Vec<String> = (0..128).map(|number| format!("spec.{}{number}", "n".repeat(50))).collect();
    let many = counted(&format!(";keep={}", names.join("+"))).await;
    assert!(many > few, "{many} and {few}");
}
