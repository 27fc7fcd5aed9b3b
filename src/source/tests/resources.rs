//! What definitions are read to, how much of them stays in memory, and when they are read again.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::crd::Crd;
use crate::source::resources::{CustomResources, custom_resource, definition, unchanged_definition};

fn shirts(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "shirts.example.com", "uid": "u", "generation": 3, "resourceVersion": "7", "labels": {"a": "1"}},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "shirts", "kind": "Shirt", "shortNames": ["sh"], "categories": ["all"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                 "selectableFields": [{"jsonPath": ".a"}]},
                {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}},
            ],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    })
}

fn read(document: &Value) -> Result<Crd, String> {
    definition(document.to_string().as_bytes())
}

/// As many properties as one object that etcd takes by default can have.
fn plain() -> Value {
    let properties: serde_json::Map<String, Value> =
        (0..50_000).map(|number| (format!("p{number}"), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties})
}

#[test]
fn a_long_definition_is_read_and_its_schemas_are_stored_as_text() {
    let mut document = shirts(&json!({"type": "object"}));
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = plain();
    let text = document.to_string();
    assert!((1_300_000..1_572_864).contains(&text.len()), "{}", text.len());
    let crd = read(&document).unwrap();
    let kept: usize = crd.versions.iter().flat_map(|version| &version.schema).map(|schema| schema.json().len()).sum();
    assert!(kept < text.len(), "{kept}");
    assert_eq!(&**crd.versions[0].schema.as_ref().unwrap().json(), plain().to_string().as_bytes());
}

#[test]
fn a_definition_of_dense_values_is_not_read() {
    let dense = format!("[{}]", vec![r#"{"":{"":{"":0}}}"#; 60_000].join(","));
    let text = shirts(&json!({"type": "object", "example": "dense"})).to_string().replacen("\"dense\"", &dense, 1);
    assert!(text.len() < 1_572_864, "etcd takes it");
    assert_eq!(
        definition(text.as_bytes()),
        Err("its values would take more than 100663296 bytes of memory".to_owned())
    );
}

#[test]
fn a_definition_is_read_again_only_with_another_generation() {
    let document = shirts(&json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let known = Arc::new(read(&document).unwrap());
    let again = |path: &str, value: Value| {
        let mut document = document.clone();
        *document.pointer_mut(path).unwrap() = value;
        unchanged_definition(&known, document.to_string().as_bytes())
    };
    for (path, value) in [
        ("/metadata/labels/a", json!("2")),
        ("/metadata/resourceVersion", json!("8")),
        ("/status/conditions/0/x", json!(1)),
    ] {
        let mut document = document.clone();
        document["status"]["conditions"][0]["x"] = json!(0);
        *document.pointer_mut(path).unwrap() = value;
        let same = unchanged_definition(&known, document.to_string().as_bytes()).unwrap();
        assert!(Arc::ptr_eq(&same, &known), "{path}");
    }
    for (path, value) in [("/metadata/generation", json!(4)), ("/metadata/uid", json!("other"))] {
        assert_eq!(again(path, value), None, "{path}");
    }
    let pending = again("/status/conditions/0/status", json!("False")).unwrap();
    assert_eq!(*pending, Crd { established: false, ..(*known).clone() });
    let schema = |crd: &Crd| crd.versions[0].schema.as_ref().map(|schema| schema.json().as_ptr());
    assert_eq!(schema(&pending), schema(&known), "its schemas are shared");
    let established = unchanged_definition(&pending, document.to_string().as_bytes()).unwrap();
    assert_eq!(established, known);
    let unnumbered = Arc::new(Crd { generation: 0, ..(*known).clone() });
    let mut document = document.clone();
    document["metadata"]["generation"] = json!(0);
    assert_eq!(
        unchanged_definition(&unnumbered, document.to_string().as_bytes()),
        None,
        "nothing says that it is the same"
    );
}

#[test]
fn resources_are_made_once_for_each_state_of_a_definition_and_share_its_names() {
    let crd = Arc::new(read(&shirts(&json!({"type": "object", "properties": {"a": {"type": "string"}}}))).unwrap());
    let mut custom = CustomResources::default();
    assert!(custom.make(&crd));
    assert!(!custom.make(&crd), "they are there");
    let made: Vec<_> = custom.of_definition(&crd).collect();
    assert_eq!(made.len(), 2);
    for (resource, version) in made.iter().zip(["v2", "v1"]) {
        assert!(resource.same_definition(&custom_resource(&crd, crd.version(version).unwrap())), "{version}");
        assert!(Arc::ptr_eq(&resource.categories, &crd.names.categories));
        assert!(Arc::ptr_eq(&resource.short_names, &crd.names.short_names));
    }
    let other: Vec<_> = custom.of_definition(&crd).collect();
    assert!(!Arc::ptr_eq(&made[0].state, &other[0].state), "each catalog gets data of its own");
    assert!(custom.make(&Arc::new(Crd { generation: 4, ..(*crd).clone() })), "another state");
    custom.retain(&[]);
    assert_eq!(custom.of_definition(&crd).count(), 0);
}
