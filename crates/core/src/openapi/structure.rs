//! Whether a schema is structural: the rules by which kube-apiserver decides to publish it or only a bare object.
//! apiextensions-apiserver `pkg/apiserver/schema/validation.go`, `complete.go`, `convert.go`.
//!
//! The result is a boolean, without a reason: the API server rejects other schemas with a reason when a CRD is created.
//! A schema that is not structural is older than these rules or comes from a file. Patterns are not compiled.
//! `extract::validation` and `schema` report reasons. A junctor is one of the keywords `allOf`, `anyOf`, `oneOf` and
//! `not`.

use serde_json::{Map, Value};

use super::structural::{
    EMBEDDED_RESOURCE, INT_OR_STRING, JUNCTORS, PRESERVE_UNKNOWN_FIELDS, first_all_of, is_int_or_string_any_of,
    is_true, properties,
};

type Object = Map<String, Value>;

/// Whether a node is the root of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Below,
}

/// Whether the schema of a version is structural.
pub fn is_structural(schema: &Object) -> bool {
    is_node(schema, Level::Root) && junctors_are_complete(schema, schema)
}

/// Whether a schema and those below it are nodes of a structural schema: each declares the type of a value. The names
/// in junctors are not compared with the declared ones: see [`junctors_are_complete`].
fn is_node(schema: &Object, level: Level) -> bool {
    let kind = text(schema, "type");
    let is_root = level == Level::Root;
    let preserves = is_true(schema, PRESERVE_UNKNOWN_FIELDS);
    let embedded = is_true(schema, EMBEDDED_RESOURCE);
    let int_or_string = is_true(schema, INT_OR_STRING);
    // The schema of members that `properties` does not name, or a boolean.
    let values = schema.get("additionalProperties").filter(|values| !values.is_null());
    let declared = properties(schema);

    let type_is_right = if embedded { kind == "object" } else { !kind.is_empty() || int_or_string || preserves };
    type_is_right
        && keywords_are_known(schema)
        && (!is_root || matches!(kind, "" | "object"))
        && (kind != "array" || has(schema, "items"))
        && (!int_or_string || !(preserves || embedded))
        && (values.is_none() || !(is_root || embedded))
        && (!embedded || preserves || declared.is_some())
        && (!(is_root || embedded) || type_meta_is_valid(schema))
        && (!is_root || declared.and_then(|declared| declared.get("metadata")).is_none_or(restricts_names_only))
        && values.is_none_or(|values| values.is_boolean() || is_node_value(values))
        && schema.get("items").is_none_or(|items| items.is_null() || is_node_value(items))
        && declared.into_iter().flat_map(Map::values).all(is_node_value)
        && junctors_are_valid(
            schema,
            is_int_or_string_any_of(schema.get("anyOf")),
            is_int_or_string_any_of(first_all_of(schema).get("anyOf")),
        )
}

/// Whether a value is a schema, and a node of a structural schema below its root.
fn is_node_value(value: &Value) -> bool {
    value.as_object().is_some_and(|schema| is_node(schema, Level::Below))
}

/// Whether a schema has only keywords and types that structural schemas may have.
fn keywords_are_known(schema: &Object) -> bool {
    const UNSUPPORTED: [&str; 7] =
        ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
    const TYPES: [&str; 7] = ["", "string", "number", "integer", "boolean", "array", "object"];
    !UNSUPPORTED.iter().any(|key| has(schema, key))
        && TYPES.contains(&text(schema, "type"))
        // Upstream permits only true, or no such keyword.
        && schema.get(PRESERVE_UNKNOWN_FIELDS) != Some(&Value::Bool(false))
        && !schema.get("items").is_some_and(Value::is_array)
}

/// Whether apiVersion, kind and metadata, if they are declared, have their usual types.
fn type_meta_is_valid(schema: &Object) -> bool {
    [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")].into_iter().all(|(name, expected)| {
        let declared = properties(schema).and_then(|declared| declared.get(name));
        declared.is_none_or(|declared| declared.get("type").and_then(Value::as_str) == Some(expected))
    })
}

/// Whether metadata at the root restricts name and generateName only.
fn restricts_names_only(metadata: &Value) -> bool {
    let Value::Object(metadata) = metadata else { return false };
    metadata.keys().all(|key| match key.as_str() {
        "type" | "default" => true,
        "properties" => properties(metadata)
            .into_iter()
            .flat_map(Map::keys)
            .all(|name| matches!(name.as_str(), "name" | "generateName")),
        // No other keyword may have a value.
        _ => !has(metadata, key),
    })
}

/// Whether the junctors of a schema are valid. An int-or-string node may list its two types in an `anyOf`, which is
/// then not checked. `skip_any_of`: this is the `anyOf` of the schema. `skip_first_all_of`: it is the `anyOf` of the
/// first branch of `allOf`.
fn junctors_are_valid(schema: &Object, skip_any_of: bool, skip_first_all_of: bool) -> bool {
    branches(schema, "anyOf").all(|branch| skip_any_of || is_branch(branch, false))
        && branches(schema, "allOf")
            .enumerate()
            .all(|(index, branch)| is_branch(branch, skip_first_all_of && index == 0))
        && branches(schema, "oneOf").all(|branch| is_branch(branch, false))
        && schema.get("not").is_none_or(|not| not.is_null() || is_branch(not, false))
}

/// Whether a branch of a junctor only restricts values, and declares no types. `skip_any_of`: its `anyOf` lists the
/// types of an int-or-string node and is not checked.
fn is_branch(branch: &Value, skip_any_of: bool) -> bool {
    /// Keywords that a branch must not have.
    const FORBIDDEN: [&str; 12] = [
        "type",
        "default",
        "title",
        "description",
        "nullable",
        PRESERVE_UNKNOWN_FIELDS,
        EMBEDDED_RESOURCE,
        INT_OR_STRING,
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    ];
    let Value::Object(branch) = branch else { return false };
    let has_values = match branch.get("additionalProperties") {
        Some(Value::Bool(allowed)) => *allowed,
        Some(values) => !values.is_null(),
        None => false,
    };
    let declared = properties(branch);
    keywords_are_known(branch)
        && !has_values
        && !FORBIDDEN.iter().any(|key| has(branch, key))
        && !declared.is_some_and(|declared| declared.contains_key("metadata"))
        && declared.into_iter().flat_map(Map::values).all(|property| is_branch(property, false))
        && branch.get("items").is_none_or(|items| items.is_null() || is_branch(items, false))
        && junctors_are_valid(branch, skip_any_of, false)
}

/// Whether everything that the junctors of `branch` restrict is declared in `declared`, the node that they belong to.
/// Upstream checks this for the junctors at the root only.
fn junctors_are_complete(branch: &Object, declared: &Object) -> bool {
    let not = branch.get("not").and_then(Value::as_object);
    let nested = JUNCTORS.iter().flat_map(|key| branches(branch, key)).filter_map(Value::as_object).chain(not);
    nested.into_iter().all(|nested| is_declared(nested, declared))
}

/// Whether everything that a branch of a junctor restricts is declared in `declared`, the node that the junctor belongs
/// to.
fn is_declared(branch: &Object, declared: &Object) -> bool {
    let within = |child: &Value, place: Option<&Value>| match (child.as_object(), place.and_then(Value::as_object)) {
        (Some(child), Some(place)) => is_declared(child, place),
        (Some(_), None) => false,
        (None, _) => true,
    };
    junctors_are_complete(branch, declared)
        && branch.get("items").is_none_or(|items| within(items, declared.get("items")))
        && properties(branch)
            .into_iter()
            .flatten()
            .all(|(name, property)| within(property, properties(declared).and_then(|declared| declared.get(name))))
}

/// The branches of the junctor `key`, which is a list; none if it is missing.
fn branches<'a>(schema: &'a Object, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A string member; empty if missing.
fn text<'a>(schema: &'a Object, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a keyword has a value: null, false and empty values count as absent, as in Go.
fn has(schema: &Object, key: &str) -> bool {
    match schema.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(value)) => *value,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        // A pointer in Go, so that an empty schema is a value.
        Some(Value::Object(_)) if key == "items" => true,
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::Number(_)) => true,
    }
}
