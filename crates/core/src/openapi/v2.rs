//! The Swagger 2 document: a base (a cluster's own, or `builtin::schemas`) with custom resources merged in.
//! kube-openapi `pkg/builder/openapi.go`, `pkg/aggregator/aggregator.go`.
//!
//! Parameters of custom resources are written in place, not hoisted to the root under a hashed name. The hash is an
//! artefact of upstream's writer, and clients resolve both forms alike.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::operations::{Operation, Parameter, Path, RequestBody, operation_extensions};
use super::{GROUP_VERSION_KIND, OpenApiVersion, Shared, definitions, operations, reachable};
use crate::crd::Crd;

/// Adds every served version of every CRD to `base`. The caller passes only CRDs that are established.
///
/// A path that the base already has does not change, and definitions that only such paths need are not added. The base
/// may already have a definition of the same name. If it is equal, nothing is added, and it then lists the
/// group-version-kinds of both. Otherwise the new definition is added as `NAME_v2`, `NAME_v3` and so on.
pub fn merge(base: &mut Value, crds: &[&Crd], shared: &Shared<'_>) {
    let mut own_definitions = Map::new();
    let mut own_paths = Map::new();
    for crd in crds {
        for version in crd.served_versions() {
            own_definitions.extend(definitions::of_version(crd, version, OpenApiVersion::V2, shared));
            let paths = operations::of_version(crd, version, shared.parameters);
            own_paths.extend(paths.into_iter().map(|path| (path.path.clone(), path_item(&path))));
        }
    }
    for (name, definition) in shared.definitions {
        // The base has the shared definitions itself; one that it lacks comes from the v3 form.
        if base.get("definitions").and_then(|known| known.get(name)).is_none() && !own_definitions.contains_key(name) {
            own_definitions.insert(name.clone(), from_v3(definition));
        }
    }
    merge_parts(base, own_paths, own_definitions);
}

/// Adds paths, and those definitions that they need, to a document, by the rules of [`merge`].
pub fn merge_parts(base: &mut Value, mut paths: Map<String, Value>, definitions: Map<String, Value>) {
    let known_paths = base.get("paths").and_then(Value::as_object);
    paths.retain(|path, _| known_paths.is_none_or(|known| !known.contains_key(path)));
    let mut paths = Value::Object(paths);
    let mut added = reachable(&[&paths], &definitions);
    let Value::Object(base) = base else { return };
    let known = base.entry("definitions").or_insert_with(|| json!({}));
    let Value::Object(known) = known else { return };

    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    for (name, definition) in &added {
        let chosen = free_name(name, definition, known);
        if chosen != *name {
            renamed.insert(name.clone(), chosen);
        }
    }
    if !renamed.is_empty() {
        rename(&mut paths, &renamed);
        added.values_mut().for_each(|definition| rename(definition, &renamed));
    }
    for (name, definition) in added {
        let name = renamed.remove(&name).unwrap_or(name);
        match known.get_mut(&name) {
            Some(present) => unite_kinds(present, &definition),
            None => {
                known.insert(name, definition);
            }
        }
    }
    let known_paths = base.entry("paths").or_insert_with(|| json!({}));
    if let (Value::Object(known_paths), Value::Object(paths)) = (known_paths, paths) {
        known_paths.extend(paths);
    }
}

/// The name to add a definition under: `name`, or the first numbered one. A definition in `known` with that name is
/// equal apart from its group-version-kinds, or there is none.
fn free_name(name: &str, definition: &Value, known: &Map<String, Value>) -> String {
    let mut candidate = name.to_owned();
    let mut number = 1;
    while known.get(&candidate).is_some_and(|present| !equal_but_for_kinds(present, definition)) {
        number += 1;
        candidate = format!("{name}_v{number}");
    }
    candidate
}

/// Whether two definitions are equal apart from their group-version-kinds.
fn equal_but_for_kinds(left: &Value, right: &Value) -> bool {
    let bare = |value: &Value| {
        let mut value = value.clone();
        if let Value::Object(object) = &mut value {
            object.remove(GROUP_VERSION_KIND);
        }
        value
    };
    bare(left) == bare(right)
}

/// Adds the group-version-kinds of `added` to an otherwise equal definition.
fn unite_kinds(present: &mut Value, added: &Value) {
    let Some(Value::Array(more)) = added.get(GROUP_VERSION_KIND) else { return };
    let Value::Object(present) = present else { return };
    if let Value::Array(kinds) = present.entry(GROUP_VERSION_KIND).or_insert_with(|| json!([])) {
        for kind in more {
            if !kinds.contains(kind) {
                kinds.push(kind.clone());
            }
        }
    }
}

/// Replaces references to renamed definitions. `renamed` has the new name by the old one.
fn rename(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            for (key, member) in object.iter_mut() {
                match member {
                    Value::String(reference) if key == "$ref" => {
                        let name = reference.strip_prefix(OpenApiVersion::V2.reference_prefix());
                        if let Some(new_name) = name.and_then(|name| renamed.get(name)) {
                            *member = OpenApiVersion::V2.reference(new_name);
                        }
                    }
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_) => rename(member, renamed),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, renamed)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Converts a built-in definition from OpenAPI v3 to Swagger 2. References get the other prefix, an `allOf` with only a
/// reference becomes that reference, and keywords that Swagger 2 is published without are removed.
pub fn from_v3(definition: &Value) -> Value {
    match definition {
        Value::Object(object) => {
            let mut written = Map::new();
            for (key, member) in object {
                match (key.as_str(), member) {
                    ("$ref", Value::String(reference)) => {
                        let name = reference.strip_prefix(OpenApiVersion::V3.reference_prefix()).unwrap_or(reference);
                        written.insert(key.clone(), OpenApiVersion::V2.reference(name));
                    }
                    ("allOf", Value::Array(branches)) if matches!(&**branches, [one] if one.get("$ref").is_some()) => {
                        if let Value::Object(reference) = from_v3(&branches[0]) {
                            written.extend(reference);
                        }
                    }
                    ("properties", Value::Object(properties)) => {
                        // Names of properties are not keywords: one may be `default`.
                        let properties: Map<_, _> =
                            properties.iter().map(|(name, property)| (name.clone(), from_v3(property))).collect();
                        written.insert(key.clone(), Value::Object(properties));
                    }
                    ("default" | "nullable" | "oneOf" | "anyOf" | "not" | "allOf", _) => {}
                    ("enum" | "example", _) => {
                        written.insert(key.clone(), member.clone());
                    }
                    _ if key.starts_with("x-") => {
                        written.insert(key.clone(), member.clone());
                    }
                    _ => {
                        written.insert(key.clone(), from_v3(member));
                    }
                }
            }
            // Only int-or-string and quantities have a oneOf; in Swagger 2 both are strings.
            if object.contains_key("oneOf") && !written.contains_key("type") {
                written.insert("type".to_owned(), Value::from("string"));
            }
            Value::Object(written)
        }
        Value::Array(items) => items.iter().map(from_v3).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other.clone(),
    }
}

/// A path item as JSON.
pub fn path_item(path: &Path) -> Value {
    let mut item = Map::new();
    item.insert("parameters".to_owned(), path.parameters.iter().map(parameter).collect());
    item.extend(path.operations.iter().map(|operation| (operation.method.to_owned(), write(operation))));
    Value::Object(item)
}

/// An operation as JSON.
fn write(operation: &Operation) -> Value {
    let responses: Map<String, Value> = operation
        .responses
        .iter()
        .map(|(code, text, definition)| {
            let mut response = json!({"description": text});
            if let Some(definition) = definition {
                response["schema"] = json!({"$ref": OpenApiVersion::V2.reference(definition)});
            }
            ((*code).to_owned(), response)
        })
        .collect();
    let mut written = json!({
        "consumes": operation.consumes,
        "description": operation.description,
        "operationId": operation.id,
        "produces": operation.produces,
        "responses": responses,
        "schemes": ["https"],
        "tags": [operation.tag],
    });
    let parameters: Vec<Value> =
        operation.body.iter().map(body_parameter).chain(operation.parameters.iter().map(parameter)).collect();
    if !parameters.is_empty() {
        written["parameters"] = Value::Array(parameters);
    }
    for (key, value) in operation_extensions(operation) {
        written[key] = value;
    }
    written
}

/// The request body as JSON: Swagger 2 has it among the parameters.
fn body_parameter(body: &RequestBody) -> Value {
    let mut written =
        json!({"in": "body", "name": "body", "schema": {"$ref": OpenApiVersion::V2.reference(&body.definition)}});
    if body.required {
        written["required"] = Value::Bool(true);
    }
    written
}

/// A parameter as JSON.
fn parameter(parameter: &Parameter) -> Value {
    let mut written =
        json!({"name": parameter.name, "in": parameter.place, "type": parameter.kind, "uniqueItems": true});
    if !parameter.description.is_empty() {
        written["description"] = Value::from(&*parameter.description);
    }
    if parameter.place == "path" {
        written["required"] = Value::Bool(true);
    }
    written
}
