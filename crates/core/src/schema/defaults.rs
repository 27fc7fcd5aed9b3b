//! Applies defaults as kube-apiserver does on create and on every read (apiextensions `schema/defaulting`).
//!
//! A default below an absent parent is not applied. An explicit null stays where the schema is nullable, becomes the
//! default where it is not, and is taken away where there is none. Nothing is validated and nothing else is removed:
//! see [`super::prune`] and [`super::validate`].

use serde_json::{Map, Value};

use super::node::{Additional, SchemaNode};

/// Applies the defaults of a schema to an object.
pub fn apply(object: &mut Value, schema: SchemaNode<'_>) {
    take_away_nulls(object, Some(schema));
    fill_in(object, schema);
}

/// Removes nulls that are not allowed and have no default.
fn take_away_nulls(value: &mut Value, schema: Option<SchemaNode<'_>>) {
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let schema = schema.and_then(|schema| schema_of_member(schema, name));
            if is_refused_null(member, schema) {
                return schema.is_some_and(|schema| schema.get("default").is_some());
            }
            take_away_nulls(member, schema);
            true
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items());
            items.iter_mut().for_each(|item| take_away_nulls(item, schema));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds the defaults of a schema to a value, and to its members.
fn fill_in(value: &mut Value, schema: SchemaNode<'_>) {
    match value {
        Value::Object(members) => {
            add_missing(members, schema);
            for (name, member) in members {
                let Some(schema) = schema_of_member(schema, name) else { continue };
                replace_null(member, schema);
                fill_in(member, schema);
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for item in items {
                replace_null(item, schema);
                fill_in(item, schema);
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

/// Replaces a null that the schema does not allow by its default.
fn replace_null(value: &mut Value, schema: SchemaNode<'_>) {
    if is_refused_null(value, Some(schema))
        && let Some(default) = schema.get("default")
    {
        *value = default.clone();
    }
}

/// Whether the value is null where the schema does not allow that.
fn is_refused_null(value: &Value, schema: Option<SchemaNode<'_>>) -> bool {
    value.is_null() && schema.is_some_and(|schema| !schema.is("nullable"))
}

fn schema_of_member<'a>(schema: SchemaNode<'a>, name: &str) -> Option<SchemaNode<'a>> {
    schema.property(name).or_else(|| match schema.additional() {
        Additional::Schema(schema) => Some(schema),
        Additional::Absent | Additional::Anything | Additional::Forbidden => None,
    })
}
