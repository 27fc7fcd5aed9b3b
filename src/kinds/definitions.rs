//! fieldcache's kinds as CustomResourceDefinitions, generated from the Rust types.
//!
//! kube's derive writes a schema, and this file changes it as is usual for Kubernetes APIs. It removes `nullable`,
//! which would let clients store a null. It joins the lines of each paragraph of a description, and adds the standard
//! labels. `crds/` contains the result, and a test fails when it differs from the types.

use kube::core::CustomResourceExt;
use serde_json::{Map, Value, json};

use super::field_cache::FieldCache;
use super::selectable_resource::SelectableResource;
use super::view::View;

/// The CustomResourceDefinitions, sorted by name.
pub fn all() -> Vec<Value> {
    let mut definitions: Vec<Value> = [FieldCache::crd(), SelectableResource::crd(), View::crd()]
        .into_iter()
        // A definition is plain data with text keys.
        .map(|definition| serde_json::to_value(definition).expect("a definition must have a JSON form"))
        .map(with_labels_and_rules)
        .collect();
    definitions.sort_by(|left, right| name(left).cmp(name(right)));
    definitions
}

/// metadata.name of a CustomResourceDefinition.
pub fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

/// A derived definition with labels, validation rules and tidy schemas, and without the empty fields of its versions.
fn with_labels_and_rules(mut definition: Value) -> Value {
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

/// The CEL rules about metadata.name, which the Rust types do not have. `None` for definitions without such rules.
/// `name`: that of the definition.
fn rules_of(name: &str) -> Option<Value> {
    match name {
        "fieldcaches.fieldcache.dev" => Some(json!([{
            "rule": "self.metadata.name == (self.spec.group == '' ? self.spec.resource : self.spec.resource + '.' + self.spec.group)",
            "message": "the name must be PLURAL.GROUP of the resource in the spec, or PLURAL for the core group, so that there is one FieldCache for each resource",
            "messageExpression": "'the name must be ' + (self.spec.group == '' ? self.spec.resource : self.spec.resource + '.' + self.spec.group) + ', so that there is one FieldCache for each resource'",
        }])),
        "selectableresources.fieldcache.dev" => Some(json!([{
            "rule": "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?([.].+)?$')",
            "message": "the name must be PLURAL.GROUP of a resource, or PLURAL for the core group",
        }])),
        _ => None,
    }
}

/// Whether a value is null, or an object or a list without content.
fn is_empty(member: &Value) -> bool {
    match member {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Removes `nullable` and `title` from a schema and from the schemas in it. Joins the lines of each paragraph of their
/// descriptions, and makes bounds integers.
fn tidy(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    node.remove("nullable");
    node.remove("title");
    if let Some(Value::String(description)) = node.get_mut("description") {
        let paragraphs: Vec<String> = description.split("\n\n").map(|text| text.replace('\n', " ")).collect();
        *description = paragraphs.join("\n\n");
    }
    // The derive writes the bounds of numbers as floats.
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

/// The `kustomization.yaml` for these files, which `kubectl apply -k` reads.
pub fn kustomization(files: &[String]) -> Value {
    let mut members = Map::new();
    members.insert("apiVersion".to_owned(), json!("kustomize.config.k8s.io/v1beta1"));
    members.insert("kind".to_owned(), json!("Kustomization"));
    members.insert("resources".to_owned(), json!(files));
    Value::Object(members)
}
