//! Our kinds as CustomResourceDefinitions, generated from the Rust types.
//!
//! kube's derive writes a schema, and this file brings it into the form of a Kubernetes API. It has no `nullable`,
//! which would let clients store a null. Descriptions have one line for each paragraph, and labels are the standard
//! ones. `crds/` contains the result, and a test fails when it differs from the types.

use kube::core::CustomResourceExt;
use serde_json::{Map, Value, json};

use super::field_cache::FieldCache;
use super::selectable_resource::SelectableResource;
use super::view::View;

/// The definitions, in the order of their names.
pub fn all() -> Vec<Value> {
    let mut definitions: Vec<Value> = [FieldCache::crd(), SelectableResource::crd(), View::crd()]
        .into_iter()
        // A definition is plain data with text keys.
        .map(|definition| serde_json::to_value(definition).expect("a definition must have a JSON form"))
        .map(as_an_api)
        .collect();
    definitions.sort_by(|left, right| name(left).cmp(name(right)));
    definitions
}

/// metadata.name of a CustomResourceDefinition.
pub fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

/// Adds labels and validation rules to a derived definition, and removes its empty members.
fn as_an_api(mut definition: Value) -> Value {
    definition["metadata"]["labels"] =
        json!({"app.kubernetes.io/name": "fieldcache", "app.kubernetes.io/component": "definitions"});
    let rules = rules_of(name(&definition));
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        for version in versions {
            let schema = &mut version["schema"]["openAPIV3Schema"];
            tidy(schema);
            if let Some(rules) = &rules {
                schema["x-kubernetes-validations"] = rules.clone();
            }
            // The derive writes empty members.
            if let Some(version) = version.as_object_mut() {
                version.retain(|_, member| !is_empty(member));
            }
        }
    }
    definition
}

/// Rules about metadata.name, which the types do not describe.
fn rules_of(definition: &str) -> Option<Value> {
    match definition {
        "fieldcaches.fieldcache.dev" => Some(json!([{
            "rule": "self.metadata.name == (self.spec.group == '' ? self.spec.resource : self.spec.resource + '.' + self.spec.group)",
            "message": "the name must be RESOURCE.GROUP of its spec, or RESOURCE for the core group, so that there is one FieldCache for each resource",
            "messageExpression": "'the name must be ' + (self.spec.group == '' ? self.spec.resource : self.spec.resource + '.' + self.spec.group) + ', so that there is one FieldCache for each resource'",
        }])),
        "selectableresources.fieldcache.dev" => Some(json!([{
            "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?([.].+)?$')",
            "message": "the name must be PLURAL.GROUP of a resource, or PLURAL for the core group",
        }])),
        _ => None,
    }
}

/// Whether a member has no content.
fn is_empty(member: &Value) -> bool {
    match member {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Brings a schema into the form of an API.
fn tidy(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    node.remove("nullable");
    node.remove("title");
    if let Some(Value::String(description)) = node.get_mut("description") {
        let paragraphs: Vec<String> = description.split("\n\n").map(|text| text.replace('\n', " ")).collect();
        *description = paragraphs.join("\n\n");
    }
    // kube knows bounds of numbers as floats only.
    for key in ["minimum", "maximum"] {
        if let Some(bound) = node.get_mut(key)
            && let Some(float) = bound.as_f64()
            && let Ok(integer) = format!("{float}").parse::<i64>()
        {
            *bound = Value::from(integer);
        }
    }
    for key in ["properties", "patternProperties"] {
        if let Some(Value::Object(properties)) = node.get_mut(key) {
            properties.values_mut().for_each(tidy);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            tidy(child);
        }
    }
}

/// The `kustomization.yaml` that `kubectl apply -k` of the folder reads.
pub fn kustomization(files: &[String]) -> Value {
    let mut members = Map::new();
    members.insert("apiVersion".to_owned(), json!("kustomize.config.k8s.io/v1beta1"));
    members.insert("kind".to_owned(), json!("Kustomization"));
    members.insert("resources".to_owned(), json!(files));
    Value::Object(members)
}
