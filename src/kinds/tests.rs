//! The definitions: `crds/` has what the types say, and what a review of a Kubernetes API requires.

#![expect(clippy::disallowed_methods, reason = "golden files")]

mod accept;

use std::path::Path;

use serde_json::{Value, json};

use kube::Resource as _;

use super::{FieldCache, FieldCacheSpec, SelectableResource, View, ViewResource, ViewSpec, definitions};
use crate::crd::Crd;
use crate::extract::validation;
use crate::model::own_groups;
use crate::wire::yaml;

/// Compares with a file below `crds/`, or writes it when the variable UPDATE_GOLDEN is set.
fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == text, "crds/{name} is not what the types say; `make golden` rewrites it");
}

fn file_name(definition: &Value) -> String {
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
    format!("{}_{plural}.yaml", definition["spec"]["group"].as_str().unwrap())
}

/// One document in the form that kubectl writes, but for what Go escapes for the sake of HTML: people are to read the
/// rules.
fn yaml_of(document: &serde_json::Value) -> String {
    let text = String::from_utf8_lossy(&yaml::from_json(document.to_string().as_bytes())).into_owned();
    // No text of ours has a backslash in front of a `u`.
    text.replace("\\u0026", "&").replace("\\u003c", "<").replace("\\u003e", ">")
}

#[test]
fn the_folder_of_definitions_is_what_the_types_say() {
    let all = definitions::all();
    let files: Vec<String> = all.iter().map(file_name).collect();
    for (definition, file) in all.iter().zip(&files) {
        assert_golden(file, &format!("{}{}", HEAD, yaml_of(definition)));
    }
    assert_golden("kustomization.yaml", &format!("{}{}", HEAD, yaml_of(&definitions::kustomization(&files))));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_known = files.contains(&name) || ["kustomization.yaml", "README.md"].contains(&&*name);
        assert!(is_known, "crds/{name} belongs to no kind");
    }
}

const HEAD: &str = "# Made by `make golden` out of src/kinds; do not edit.\n";

#[test]
fn our_own_selectable_fields_are_right() {
    for definition in definitions::all() {
        let crd = Crd::read(&definition).unwrap();
        let validation = validation::validate(&crd, None);
        assert!(validation.is_accepted(), "{}: {:?}", crd.name, validation.causes);
        assert!(validation.warnings.is_empty(), "{}: {:?}", crd.name, validation.warnings);
        let version = crd.version("v1alpha1").unwrap();
        assert!(!version.selectable_fields.is_empty(), "{} has no selectable field", crd.name);
        assert!(version.has_status, "{} has no status subresource", crd.name);
        assert!(!version.printer_columns.is_empty(), "{} has no columns", crd.name);
        assert!(crd.names.categories.contains(&"fieldcache-dev".to_owned()), "{} is in no category", crd.name);
        assert_eq!(crd.names.short_names.len(), 1, "{}", crd.name);
    }
}

/// Visits every node of a schema with its path.
fn each_node(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        each_node(property, &format!("{path}.{name}"), visit);
    }
    if schema["items"].is_object() {
        each_node(&schema["items"], &format!("{path}[]"), visit);
    }
    if schema["additionalProperties"].is_object() {
        each_node(&schema["additionalProperties"], &format!("{path}{{}}"), visit);
    }
}

#[test]
fn every_list_map_and_text_has_a_bound_and_every_field_a_description() {
    let mut problems = Vec::new();
    let mut visited = 0;
    for definition in definitions::all() {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        each_node(schema, definition["spec"]["names"]["kind"].as_str().unwrap(), &mut |path, node| {
            visited += 1;
            let depth = path.matches('.').count();
            // apiVersion, kind and metadata are not ours to say.
            if depth == 1 && ["apiVersion", "kind", "metadata"].iter().any(|name| path.ends_with(&format!(".{name}"))) {
                return;
            }
            let kind = node["type"].as_str().unwrap_or_default();
            match kind {
                "array" => {
                    if !node["maxItems"].is_u64() {
                        problems.push(format!("{path}: no maxItems"));
                    }
                    if !node["x-kubernetes-list-type"].is_string() {
                        problems.push(format!("{path}: no list type"));
                    }
                }
                "string" => {
                    let is_bounded =
                        node["maxLength"].is_u64() || node["enum"].is_array() || node["format"] == "date-time";
                    if !is_bounded {
                        problems.push(format!("{path}: no maxLength"));
                    }
                }
                "object" => {
                    if node["additionalProperties"].is_object() && !node["maxProperties"].is_u64() {
                        problems.push(format!("{path}: no maxProperties"));
                    }
                }
                "integer" => {
                    if !node["minimum"].is_number() {
                        problems.push(format!("{path}: no minimum"));
                    }
                }
                "boolean" => {}
                other => problems.push(format!("{path}: type {other:?}")),
            }
            let is_item = path.ends_with("[]") || path.ends_with("{}");
            let description = node["description"].as_str().unwrap_or_default();
            if !is_item && (description.is_empty() || !description.ends_with(['.', ')']) && depth > 0) {
                problems.push(format!("{path}: description {description:?}"));
            }
            for keyword in ["nullable", "oneOf", "anyOf", "allOf", "$ref", "const", "title"] {
                if node.get(keyword).is_some() {
                    problems.push(format!("{path}: {keyword}"));
                }
            }
            let says = |text: &str| description.to_lowercase().contains(text);
            if path.ends_with("elector") && !says("absent or empty: no restriction") {
                problems.push(format!("{path}: does not say what an absent selector means"));
            }
        });
    }
    assert!(visited > 80, "the schemas were walked: {visited}");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn rules_have_messages() {
    let mut rules = 0;
    for definition in definitions::all() {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        each_node(schema, "", &mut |path, node| {
            for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
                rules += 1;
                let message = rule["message"].as_str().unwrap_or_default();
                assert!(!message.is_empty() && !message.contains('\n'), "{path}: {rule}");
            }
        });
    }
    assert!(rules >= 15, "{rules} rules");
}

#[test]
fn objects_read_and_write_as_people_write_them() {
    let document = json!({
        "apiVersion": "fieldcache.dev/v1alpha1",
        "kind": "FieldCache",
        "metadata": {"name": "shirts.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "resource": "shirts",
            "selectableFields": [
                {"name": "images", "jsonPath": "$.spec.steps[*].image"},
                {"name": "size", "printerColumn": "Size"},
            ],
            "scope": {"fieldSelector": {"matchExpressions": [{"key": "spec.color", "operator": "In", "values": ["blue"]}]}},
        },
    });
    let read: FieldCache = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(read.spec.object_name(), "shirts.stable.example.com");
    assert_eq!(serde_json::to_value(&read).unwrap(), document, "nothing is added");

    let core: FieldCacheSpec = serde_json::from_value(json!({"resource": "pods"})).unwrap();
    assert_eq!(core.object_name(), "pods");

    let view = View::new(
        "blue",
        ViewSpec {
            resources: vec![ViewResource { resource: "pods".to_owned(), ..ViewResource::default() }],
            ..ViewSpec::default()
        },
    );
    assert_eq!(
        serde_json::to_value(&view).unwrap()["spec"],
        json!({"resources": [{"group": "", "resource": "pods"}], "authorization": "Caller", "consistency": "Eventual"})
    );

    let selectable: SelectableResource = serde_json::from_value(json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "SelectableResource", "metadata": {"name": "pods"},
        "status": {"cached": true, "openAPI": {"url": "/openapi/v3/api/v1", "hash": "A"}, "versions": [{"name": "v1", "fields": [
            {"fieldPath": "spec.nodeName", "jsonPath": ".spec.nodeName", "type": "string", "origin": "BuiltIn"},
        ]}]},
    }))
    .unwrap();
    let written = serde_json::to_value(&selectable).unwrap();
    assert!(written.get("spec").is_none(), "there is no spec: {written}");
    assert_eq!(written["status"]["openAPI"]["hash"], "A");
}

#[test]
fn kinds_belong_to_the_own_groups() {
    let own = |group: &str, version: &str| format!("{group}/{version}");
    let expected = own(own_groups::GROUP, own_groups::VERSION);
    assert_eq!(own(own_groups::VIEW_GROUP, own_groups::VERSION), own_groups::VIEW_API_VERSION);
    for (kind, api_version) in [
        ("FieldCache", FieldCache::api_version(&())),
        ("View", View::api_version(&())),
        ("SelectableResource", SelectableResource::api_version(&())),
    ] {
        assert_eq!(api_version, expected, "{kind}");
    }
}
