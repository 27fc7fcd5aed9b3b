//! Removes fields that a schema does not declare, as kube-apiserver does (apiextensions `schema/pruning`). For built-in
//! kinds it does the same as a Go server that decodes into structs.
//!
//! Never removed: declared properties, members for which `additionalProperties` is true or a schema, and everything
//! below `x-kubernetes-preserve-unknown-fields` that is not declared there. At the root and in embedded resources,
//! apiVersion, kind and metadata are not removed either. `additionalProperties: true` declares nothing about the value
//! of a member. As upstream, pruning then removes all members of this value.

use serde_json::Value;

use super::node::{Additional, SchemaNode};

/// Prunes an object of a custom resource by the schema of its version.
pub fn prune(object: &mut Value, schema: SchemaNode<'_>) {
    prune_at(object, Some(schema), IsResource::Yes);
}

/// Brings an object of a built-in kind into the form after decoding into Go structs. Unknown fields and nulls are
/// removed, and a quantity written as a number becomes a string. Objects whose schema declares no properties keep all
/// members.
pub fn decode_built_in(object: &mut Value, schema: SchemaNode<'_>) {
    match object {
        Value::Object(members) => {
            let is_struct = schema.properties().is_some();
            let is_open = schema.is("x-kubernetes-preserve-unknown-fields");
            members.retain(|name, member| {
                let kind_or_version = matches!(&**name, "apiVersion" | "kind");
                let known = schema.property(name);
                let schema = match (known, schema.additional()) {
                    (Some(schema), _) | (None, Additional::Schema(schema)) => schema,
                    _ => return !is_struct || is_open || kind_or_version,
                };
                decode_built_in(member, schema);
                !member.is_null()
            });
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                items.iter_mut().for_each(|item| decode_built_in(item, schema));
            }
        }
        // A fraction distinguishes a quantity from an int-or-string, even after references have been resolved.
        Value::Number(number)
            if schema.definition().is_some_and(|name| name.ends_with("resource.Quantity"))
                || (number.is_f64() && schema.is("x-kubernetes-int-or-string")) =>
        {
            *object = Value::String(number.to_string());
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a value is a whole object of the API, whose apiVersion, kind and metadata are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsResource {
    Yes,
    No,
}

/// Removes undeclared members of a value, at all levels. `None`: nothing is declared, so all members are removed.
fn prune_at(value: &mut Value, schema: Option<SchemaNode<'_>>, is_resource: IsResource) {
    let keeps_unknown = schema.is_some_and(|schema| schema.is("x-kubernetes-preserve-unknown-fields"));
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let Some(schema) = schema else { return false };
            let is_embedded = is_resource == IsResource::Yes || schema.is("x-kubernetes-embedded-resource");
            if is_embedded && matches!(&**name, "apiVersion" | "kind" | "metadata") {
                return true;
            }
            match (schema.property(name), schema.additional()) {
                (Some(property), _) => prune_at(member, Some(property), IsResource::No),
                (None, Additional::Schema(additional)) => prune_at(member, Some(additional), IsResource::No),
                // `additionalProperties: true` keeps the member, but declares nothing below it: see the module.
                (None, Additional::Anything) => prune_at(member, None, IsResource::No),
                (None, _) => return keeps_unknown,
            }
            true
        }),
        Value::Array(items) => {
            let item_schema = schema.and_then(|schema| schema.items());
            // In a list that keeps unknown fields, items keep their undeclared members too (`skip_prune`). Items
            // without a schema stay as they are.
            if item_schema.is_none() && keeps_unknown {
                return;
            }
            for item in items {
                if keeps_unknown && let Some(item_schema) = item_schema {
                    skip_prune(item, item_schema);
                } else {
                    prune_at(item, item_schema, IsResource::No);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Prunes an item of a list with `x-kubernetes-preserve-unknown-fields`. The item keeps all of its own members. Below a
/// member, its schema applies as usual: that of the declared property, or of `additionalProperties`. As upstream,
/// `additionalProperties: true` keeps a member, but declares nothing below it, so all members of its value are removed.
/// If the item is a list itself, its items are treated in the same way.
fn skip_prune(value: &mut Value, schema: SchemaNode<'_>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if schema.is("x-kubernetes-embedded-resource") && matches!(&**name, "apiVersion" | "kind" | "metadata")
                {
                    continue;
                }
                match (schema.property(name), schema.additional()) {
                    (Some(below), _) | (None, Additional::Schema(below)) => {
                        prune_at(member, Some(below), IsResource::No);
                    }
                    (None, Additional::Anything) => prune_at(member, None, IsResource::No),
                    (None, Additional::Absent | Additional::Forbidden) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                items.iter_mut().for_each(|item| skip_prune(item, schema));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
