//! Applies defaults as kube-apiserver does on create and on every read (apiextensions `schema/defaulting`).
//!
//! A default below an absent parent is not applied. An explicit null stays where the schema is nullable. Elsewhere the
//! default replaces it, or it is removed if there is no default. Nothing is validated and nothing else is removed: see
//! [`super::prune`] and [`super::validate`].

use serde_json::{Map, Value};

use super::node::{Additional, SchemaNode};

/// Applies the defaults of a schema to an object.
pub fn apply(object: &mut Value, schema: SchemaNode<'_>) {
    remove_nulls(object, Some(schema));
    add_defaults(object, schema);
}

/// Removes the members of objects that are null, although the schema does not allow that, and have no default. Applies
/// to all levels below `value`. `None`: the schema is unknown, and nothing is removed.
fn remove_nulls(value: &mut Value, schema: Option<SchemaNode<'_>>) {
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let schema = schema.and_then(|schema| schema_of_member(schema, name));
            if is_forbidden_null(member, schema) {
                return schema.is_some_and(|schema| schema.get("default").is_some());
            }
            remove_nulls(member, schema);
            true
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items());
            items.iter_mut().for_each(|item| remove_nulls(item, schema));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds missing members that have a default, and replaces nulls that are not allowed by the default. Applies to all
/// levels below `value`.
fn add_defaults(value: &mut Value, schema: SchemaNode<'_>) {
    match value {
        Value::Object(members) => {
            add_missing(members, schema);
            for (name, member) in members {
                let Some(schema) = schema_of_member(schema, name) else { continue };
                replace_null(member, schema);
                add_defaults(member, schema);
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for item in items {
                replace_null(item, schema);
                add_defaults(item, schema);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds members that are missing and have a default.
fn add_missing(members: &mut Map<String, Value>, schema: SchemaNode<'_>) {
    for (name, property) in schema.properties().into_iter().flatten() {
        if !members.contains_key(name)
            && let Some(default) = schema.child(property).get("default")
        {
            members.insert(name.clone(), default.clone());
        }
    }
}

/// Replaces a null that the schema does not allow by the default, if the schema has one.
fn replace_null(value: &mut Value, schema: SchemaNode<'_>) {
    if is_forbidden_null(value, Some(schema))
        && let Some(default) = schema.get("default")
    {
        *value = default.clone();
    }
}

/// Whether the value is null, although the schema does not allow that. An unknown schema (`None`) allows it.
fn is_forbidden_null(value: &Value, schema: Option<SchemaNode<'_>>) -> bool {
    value.is_null() && schema.is_some_and(|schema| !schema.is("nullable"))
}

/// The schema of a member: of a declared property, or of `additionalProperties`. `None` if the schema has neither.
fn schema_of_member<'a>(schema: SchemaNode<'a>, name: &str) -> Option<SchemaNode<'a>> {
    schema.property(name).or_else(|| match schema.additional() {
        Additional::Schema(schema) => Some(schema),
        Additional::Absent | Additional::Anything | Additional::Forbidden => None,
    })
}
