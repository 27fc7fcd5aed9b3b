//! The OpenAPI v3 document of a group-version. kube-openapi `pkg/builder3/openapi.go`, apiextensions-apiserver
//! `pkg/controller/openapi/builder/merge.go`.
//!
//! All custom resources of a group-version are in one document. The kinds of built-in groups are not built here:
//! `builtin::schemas` uses [`path_item`] and [`document`] with its own definitions.

use serde_json::{Map, Value, json};

use super::operations::{Operation, Parameter, Path, operation_extensions};
use super::{META_V1, OpenApiVersion, Shared, definitions, operations, reachable};
use crate::crd::Crd;

/// The document of `group`/`version` from every CRD that serves it. This function skips CRDs of other groups and those
/// that do not serve the version. The caller omits those that are not established. `None` if no CRD remains: the
/// document must then not be announced.
pub fn custom_resources(crds: &[&Crd], group: &str, version: &str, shared: &Shared<'_>) -> Option<Value> {
    let mut own_definitions = Map::new();
    let mut paths = Map::new();
    for crd in crds.iter().filter(|crd| crd.group == group) {
        let Some(served) = crd.version(version).filter(|served| served.served) else { continue };
        for (name, definition) in definitions::of_version(crd, served, OpenApiVersion::V3, shared) {
            // The first wins, as upstream; the naming controller prevents two CRDs from claiming one kind.
            own_definitions.entry(name).or_insert(definition);
        }
        paths.extend(
            operations::of_version(crd, served, shared.parameters)
                .into_iter()
                .map(|path| (path.path.clone(), path_item(&path))),
        );
    }
    if paths.is_empty() {
        return None;
    }
    // As upstream, ObjectMeta is published even if no schema refers to it.
    let always = json!({"$ref": OpenApiVersion::V3.reference(&format!("{META_V1}.ObjectMeta"))});
    for (name, definition) in reachable(&[&always], shared.definitions) {
        own_definitions.entry(name).or_insert(definition);
    }
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    Some(document(info, paths, own_definitions, shared))
}

/// A document with these paths and definitions, and the shared definitions that they refer to. `info` is the member of
/// that name.
pub fn document(
    info: Value,
    paths: Map<String, Value>,
    own_definitions: Map<String, Value>,
    shared: &Shared<'_>,
) -> Value {
    let paths = Value::Object(paths);
    let own = Value::Object(own_definitions);
    let mut schemas = reachable(&[&paths, &own], shared.definitions);
    if let Value::Object(own) = own {
        schemas.extend(own);
    }
    json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}})
}

/// A path item as JSON.
pub fn path_item(path: &Path) -> Value {
    let mut item = Map::new();
    if !path.parameters.is_empty() {
        item.insert("parameters".to_owned(), path.parameters.iter().map(parameter).collect());
    }
    item.extend(path.operations.iter().map(|operation| (operation.method.to_owned(), write(operation))));
    Value::Object(item)
}

/// An operation as JSON.
fn write(operation: &Operation) -> Value {
    let content = |types: &[&str], definition: &str| -> Value {
        let media = json!({"schema": {"$ref": OpenApiVersion::V3.reference(definition)}});
        types.iter().map(|name| ((*name).to_owned(), media.clone())).collect::<Map<_, _>>().into()
    };
    let responses: Map<String, Value> = operation
        .responses
        .iter()
        .map(|(code, text, definition)| {
            let mut response = json!({"description": text});
            if let Some(definition) = definition {
                response["content"] = content(operation.produces, definition);
            }
            ((*code).to_owned(), response)
        })
        .collect();
    let mut written = json!({
        "description": operation.description,
        "operationId": operation.id,
        "tags": [operation.tag],
        "responses": responses,
    });
    if !operation.parameters.is_empty() {
        written["parameters"] = operation.parameters.iter().map(parameter).collect();
    }
    if let Some(body) = &operation.body {
        let mut request_body = json!({"content": content(operation.consumes, &body.definition)});
        if body.required {
            request_body["required"] = Value::Bool(true);
        }
        written["requestBody"] = request_body;
    }
    for (key, value) in operation_extensions(operation) {
        written[key] = value;
    }
    written
}

/// A parameter as JSON.
fn parameter(parameter: &Parameter) -> Value {
    let mut written = json!({
        "name": parameter.name,
        "in": parameter.place,
        "schema": {"type": parameter.kind, "uniqueItems": true},
    });
    if !parameter.description.is_empty() {
        written["description"] = Value::from(&*parameter.description);
    }
    if parameter.place == "path" {
        written["required"] = Value::Bool(true);
    }
    written
}
