//! OpenAPI documents, with `x-kubernetes-selectable-fields`.
//!
//! Map: [`structural`] turns the schema of a CRD version into the published one. In OpenAPI v3 it is whole; Swagger 2
//! lacks the parts that kubectl cannot read. [`structure`] decides whether it is published at all. [`definitions`]
//! builds Kind and KindList around it, and [`operations`] lists the paths. [`v3`] writes the document of one
//! group-version, [`v2`] merges CRDs into a Swagger document. [`selectable`] adds the extension to definitions without
//! it. [`hash`] names a document by its content. [`filter`] reduces a document to the content of a View. [`protobuf`]
//! writes the binary forms that Go clients request.
//!
//! This module has no HTTP: `server::documents` answers requests. It does not depend on the built-in kinds. Callers
//! pass the texts and definitions that all documents share as [`Shared`], from a cluster's own documents or from
//! `builtin::schemas`.
//!
//! Upstream: apiextensions-apiserver `pkg/controller/openapi`, kube-openapi `pkg/builder` and `pkg/builder3`, KEP-4358.

pub mod definitions;
pub mod filter;
pub mod hash;
pub mod operations;
pub mod protobuf;
pub mod selectable;
pub mod structural;
pub mod structure;
pub mod v2;
pub mod v3;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::crd::DEFINITION_LEVELS;

/// The maximum nesting of an OpenAPI document: that of a CustomResourceDefinition, and the levels added around its
/// schema and inside of it.
pub const DOCUMENT_LEVELS: usize = DEFINITION_LEVELS + 24;

/// The key of the extension that lists the selectable fields of a definition.
pub const SELECTABLE_FIELDS: &str = "x-kubernetes-selectable-fields";

/// The key of the extension with which definitions and operations name their kind.
pub const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// Prefix of the names of the definitions that every resource refers to.
pub const META_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The version of the specification that a document follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiVersion {
    /// Swagger 2.0, one document for everything.
    V2,
    /// OpenAPI 3.0, one document a group-version.
    V3,
}

impl OpenApiVersion {
    /// The beginning of a reference to a definition.
    pub fn reference_prefix(self) -> &'static str {
        match self {
            OpenApiVersion::V2 => "#/definitions/",
            OpenApiVersion::V3 => "#/components/schemas/",
        }
    }

    /// A reference to the definition of that name.
    pub fn reference(self, name: &str) -> Value {
        Value::from(format!("{}{name}", self.reference_prefix()))
    }
}

/// The definitions and descriptions that the documents of all resources share: those of meta/v1.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// Definitions by name in their OpenAPI v3 form, at least meta/v1 and `io.k8s.api.autoscaling.v1.Scale` with what
    /// they refer to. One that is missing leaves a dangling reference, never an error.
    pub definitions: &'a Map<String, Value>,
    /// Descriptions of query parameters by name, such as `fieldSelector`, or `patch/NAME` where PATCH has its own. A
    /// missing one is published without a description.
    pub parameters: &'a Map<String, Value>,
}

/// A finished document: its bytes and their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenApiDocument {
    /// JSON without a newline at its end, as kube-apiserver sends it.
    pub json: Bytes,
    /// Upper-case hexadecimal SHA-512 of `json`: the ETag without quotes, and the `hash` of v3 discovery.
    pub hash: String,
}

impl OpenApiDocument {
    /// Serializes a document with its keys in alphabetical order, so that equal documents have equal bytes.
    pub fn new(value: &Value) -> OpenApiDocument {
        let json = Bytes::from(value.to_string());
        OpenApiDocument { hash: hash::sha512(&json), json }
    }
}

/// One published field of a built-in kind, in the form of KEP-4358.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableEntry {
    /// The label that a field selector names, such as `spec.nodeName`.
    pub field_path: String,
    /// The value of an object that does not have the field; `None`: the empty string.
    pub default: Option<String>,
    /// Where the value comes from; `None` if the label is the path of the field.
    pub description: Option<String>,
}

/// The name of a definition: `stable.example.com/v1 Shirt` is `com.example.stable.v1.Shirt`.
pub fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// The part of `definitions` that `roots` refer to, directly or through other definitions. References without a
/// definition are ignored.
pub fn reachable(roots: &[&Value], definitions: &Map<String, Value>) -> Map<String, Value> {
    let mut found = Map::new();
    let mut waiting: Vec<String> = Vec::new();
    for root in roots {
        collect_references(root, &mut waiting);
    }
    while let Some(name) = waiting.pop() {
        if found.contains_key(&name) {
            continue;
        }
        if let Some(definition) = definitions.get(&name) {
            collect_references(definition, &mut waiting);
            found.insert(name, definition.clone());
        }
    }
    found
}

/// Appends the names of the definitions that a value refers to.
fn collect_references(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, member) in object {
                match member {
                    Value::String(reference) if key == "$ref" => {
                        let prefixes = [OpenApiVersion::V2.reference_prefix(), OpenApiVersion::V3.reference_prefix()];
                        names.extend(prefixes.iter().find_map(|prefix| reference.strip_prefix(prefix)).map(unescape));
                    }
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_) => collect_references(member, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Resolves the escapes of a JSON pointer token.
fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}
