//! `drop=metadata.managedFields` in Accept: every format, at the root and in Views, and shared lines of watches.

use bytes::Bytes;
use serde_json::{Value, json};

use super::protobuf::{assert_same, encoded, got};
use super::shared::{pruned, serve};
use super::{ALL_SHIRTS, Fixture, SHIRTS};

const DROP: &str = "drop=metadata.managedFields";
const TABLE: &str = "as=Table;v=v1;g=meta.k8s.io";
const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/pruned/proxy";

/// A shirt and a Pod with managed fields, and the shirts in a View without `.spec.size`.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    put(&mut fixture, "blue");
    serve(&fixture, &[("pruned", pruned(".spec.size"))]);
    fixture
}

fn managed_fields() -> Value {
    json!([{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:color": {}, "f:size": {}}}}])
}

fn put(fixture: &mut Fixture, color: &str) {
    let version = fixture.next_version().to_string();
    let metadata =
        json!({"name": "a", "namespace": "default", "resourceVersion": version, "managedFields": managed_fields()});
    let shirt = json!({"apiVersion": "stable.example.com/v1", "kind": "Shirt", "metadata": metadata,
                       "spec": {"color": color, "size": 7}});
    let pod = json!({"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
    for (stored, object) in [(&mut fixture.shirts, shirt), (&mut fixture.pods, pod)] {
        stored.store.apply(&stored.resource.extractor.extract(Bytes::from(object.to_string())).unwrap());
        stored.publish();
    }
}

/// The document without managed fields, wherever they are.
fn without(mut document: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(strip),
            Value::Object(members) => {
                members.remove("managedFields");
                members.values_mut().for_each(strip);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    strip(&mut document);
    document
}

#[tokio::test]
async fn managed_fields_are_dropped_in_every_form() {
    let fixture = fixture();
    for path in [
        ALL_SHIRTS.to_owned(),
        format!("{SHIRTS}/a"),
        format!("{SHIRTS}?limit=1"),
        format!("{VIEW}{ALL_SHIRTS}"),
        format!("{VIEW}{SHIRTS}/a"),
        "/api/v1/pods".to_owned(),
        "/api/v1/namespaces/default/pods/a".to_owned(),
        format!("{ALL_SHIRTS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"),
    ] {
        for form in [
            "",
            TABLE,
            "as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        ] {
            let path = if form == TABLE {
                format!("{path}{}includeObject=Object", if path.contains('?') { '&' } else { '?' })
            } else {
                path.clone()
            };
            let accept = |drop: &str| format!("application/json;{form}{drop}").trim_end_matches(';').replace(";;", ";");
            let whole = fixture.get_with(&path, &[("accept", &accept(""))]).await;
            let dropped = fixture.get_with(&path, &[("accept", &accept(&format!(";{DROP}")))]).await;
            assert_eq!(whole.code, dropped.code, "{path} {form}");
            if whole.code != 200 {
                assert_eq!(whole.body, dropped.body, "{path} {form}");
                continue;
            }
            assert!(whole.body.contains("managedFields"), "{path} {form}: {}", whole.body);
            let lines =
                |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
            let expected: Vec<Value> = lines(&whole.body).into_iter().map(without).collect();
            assert_eq!(lines(&dropped.body), expected, "{path} {form}");
        }
    }
    let (_, _, json) = got(&fixture, "/api/v1/pods", &format!("application/json;{DROP}")).await;
    let (code, _, protobuf) =
        got(&fixture, "/api/v1/pods", &format!("application/vnd.kubernetes.protobuf;{DROP}")).await;
    assert_eq!(code, 200);
    assert_same(&protobuf, &encoded(&json), "a list in protobuf");
    let yaml = fixture.get_with(ALL_SHIRTS, &[("accept", &format!("application/yaml;{DROP}"))]).await;
    assert!(!yaml.body.contains("managedFields") && yaml.body.contains("color: blue"), "{}", yaml.body);
}

#[tokio::test]
async fn names_to_drop_are_joined_and_unknown_ones_are_ignored() {
    let fixture = fixture();
    let path = format!("{SHIRTS}/a");
    for (accept, code, drops, why) in [
        ("application/json;drop=metadata.managedFields", 200, true, "the name"),
        ("application/json; drop=metadata.managedFields", 200, true, "a space"),
        ("application/json;drop=\"metadata.managedFields\"", 200, true, "in quotes"),
        ("application/json;drop=spec+metadata.managedFields+x", 200, true, "among unknown ones"),
        ("application/json;drop=spec.color", 200, false, "only an unknown one"),
        ("application/json;drop=", 200, false, "no name"),
        ("application/json;drop=metadata", 200, false, "a parent is another name"),
        ("application/json;drop=metadata.managedFields+metadata.managedFields", 406, false, "twice"),
        ("application/json;drop=x+x", 406, false, "an unknown one twice"),
        ("application/json;drop=x+x,application/json", 200, false, "a clause that is not valid is passed over"),
        ("application/json;drop=metadata.managedFields,application/yaml", 200, true, "of the clause that is chosen"),
        (
            "application/vnd.kubernetes.protobuf;drop=metadata.managedFields,application/json",
            200,
            false,
            "not of another",
        ),
    ] {
        let answer = fixture.get_with(&path, &[("accept", accept)]).await;
        assert_eq!(answer.code.as_u16(), code, "{why}: {accept}");
        if code == 200 {
            assert_eq!(!answer.body.contains("managedFields"), drops, "{why}: {accept}");
            assert!(answer.body.contains("\"size\":7"), "nothing else is dropped: {why}: {accept}");
        }
    }
}

/// A watch shows the change, and selection is by the whole object.
#[tokio::test]
async fn watches_drop_managed_fields_too() {
    let mut fixture = fixture();
    let accept = format!("application/json;{DROP}");
    let path = format!("?watch=true&resourceVersion={}&fieldSelector=spec.size%3D7", fixture.version);
    let mut whole = fixture.watch(&format!("{ALL_SHIRTS}{path}")).await;
    let mut dropped = fixture.watch_with(&format!("{ALL_SHIRTS}{path}"), &[("accept", &accept)]).await;
    let mut in_view = fixture
        .watch_with(
            &format!("{VIEW}{}", ALL_SHIRTS.to_owned() + path.split("&field").next().unwrap()),
            &[("accept", &accept)],
        )
        .await;
    put(&mut fixture, "green");
    let event = whole.next().await.unwrap();
    assert!(event.to_string().contains("managedFields"));
    assert_eq!(dropped.next().await.unwrap(), without(event.clone()));
    let mut pruned = without(event);
    pruned["object"]["spec"].as_object_mut().unwrap().remove("size");
    assert_eq!(in_view.next().await.unwrap(), pruned);
}
