//! The schema of a CRD version as it is published. apiextensions-apiserver `pkg/apiserver/schema/kubeopenapi.go`,
//! `unfold.go`, and `pkg/controller/openapi/v2/conversion.go` for the keywords that Swagger 2 loses.
//!
//! Works on raw JSON and copies known keywords only, as the API server's typed form does. Keywords that it drops are
//! dropped here. Values that it would normalise (absent, null, empty and false) are left out here. Nothing is
//! validated: [`structure`](super::structure) decides whether a schema is published at all.

use serde_json::{Map, Number, Value, json};

use super::OpenApiVersion;

type Object = Map<String, Value>;

pub(super) const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";
pub(super) const EMBEDDED_RESOURCE: &str = "x-kubernetes-embedded-resource";
pub(super) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// The keywords that combine a list of schemas.
pub(super) const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Whether a node of a schema preserves unknown fields.
pub fn preserves_unknown_fields(schema: &Object) -> bool {
    is_true(schema, PRESERVE_UNKNOWN_FIELDS)
}

/// Whether a node of a schema is a whole object with apiVersion, kind and metadata.
pub fn is_embedded_resource(schema: &Object) -> bool {
    is_true(schema, EMBEDDED_RESOURCE)
}

/// The published form of a structural schema in this version of OpenAPI.
pub fn publish(schema: &Object, form: OpenApiVersion) -> Object {
    let mut published = Object::new();
    let lost = Losses::in_schema(schema, form);
    generics(schema, &mut published);
    value_validations(schema, &mut published);
    extensions(schema, &mut published);
    if form == OpenApiVersion::V3 {
        junctors(unfold(schema).as_ref().unwrap_or(schema), &mut published);
    } else {
        // kube-openapi `default_pruning.go`: Swagger 2 is published without defaults.
        published.remove("default");
        published.remove("nullable");
    }
    if lost.kind {
        published.remove("type");
    }
    if let Some(Value::Object(items)) = schema.get("items")
        && !lost.children
    {
        published.insert("items".to_owned(), Value::Object(publish(items, form)));
    }
    if let Some(properties) = properties(schema)
        && !lost.children
    {
        let children = properties.iter().map(|(name, child)| (name.clone(), publish_child(child, form)));
        published.insert("properties".to_owned(), Value::Object(children.collect()));
    }
    // Swagger 2 keeps this even where it loses `properties`, as upstream.
    match schema.get("additionalProperties") {
        Some(Value::Object(values)) => {
            published.insert("additionalProperties".to_owned(), Value::Object(publish(values, form)));
        }
        Some(Value::Bool(allowed)) => {
            published.insert("additionalProperties".to_owned(), Value::Bool(*allowed));
        }
        _ => {}
    }
    if form == OpenApiVersion::V2 {
        lose_required(schema, &lost, &mut published);
    }
    published
}

/// Publishes the schema of a property; an empty schema for a value that is not an object.
fn publish_child(child: &Value, form: OpenApiVersion) -> Value {
    child.as_object().map_or_else(|| json!({}), |child| Value::Object(publish(child, form)))
}

/// The keywords that one node of a schema loses in Swagger 2.
#[derive(Clone, Copy)]
struct Losses {
    /// `items` and `properties`.
    children: bool,
    /// `type`.
    kind: bool,
}

impl Losses {
    /// The keywords that a schema loses in this version of OpenAPI; none in v3.
    fn in_schema(schema: &Object, form: OpenApiVersion) -> Losses {
        if form == OpenApiVersion::V3 {
            return Losses { children: false, kind: false };
        }
        let nullable = is_true(schema, "nullable");
        let preserves = preserves_unknown_fields(schema);
        // kubectl cannot read `items` and `properties` of a value without a type, or next to unknown fields.
        let children = nullable || preserves;
        let has_items = !children && schema.get("items").is_some_and(Value::is_object);
        let kind = match schema.get("type").and_then(Value::as_str) {
            // kubectl cannot read a list without `items`.
            Some("array") => nullable || !has_items,
            Some("object") => nullable || preserves,
            _ => nullable,
        };
        Losses { children, kind }
    }
}

/// Removes nullable properties from `required`, because Swagger 2 cannot express that null is allowed. As upstream,
/// removes all of `required` if the values of `additionalProperties` are nullable. `schema` is the original of
/// `published`.
fn lose_required(schema: &Object, lost: &Losses, published: &mut Object) {
    let nullable_values = schema.get("additionalProperties").and_then(Value::as_object);
    let nullable_values = nullable_values.is_some_and(|values| is_true(values, "nullable"));
    let Some(Value::Array(required)) = published.get_mut("required") else { return };
    // Upstream looks only at properties that are not lost.
    if !lost.children
        && let Some(properties) = properties(schema)
    {
        required.retain(|name| {
            let property = name.as_str().and_then(|name| properties.get(name)).and_then(Value::as_object);
            !property.is_some_and(|property| is_true(property, "nullable"))
        });
    }
    if nullable_values || required.is_empty() {
        published.remove("required");
    }
}

/// Adds apiVersion, kind and metadata to every embedded resource of a published schema. `type_meta` and `metadata` are
/// the property schemas to add. In Swagger 2, nodes that preserve unknown fields do not change, because kubectl rejects
/// unknown fields next to declared ones.
pub fn add_embedded(published: &mut Object, form: OpenApiVersion, type_meta: &[(String, Value)], metadata: &Value) {
    if let Some(Value::Object(properties)) = published.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            add_embedded(property, form, type_meta, metadata);
        }
    }
    for place in ["items", "additionalProperties"] {
        if let Some(Value::Object(child)) = published.get_mut(place) {
            add_embedded(child, form, type_meta, metadata);
        }
    }
    if !is_embedded_resource(published) || (form == OpenApiVersion::V2 && preserves_unknown_fields(published)) {
        return;
    }
    let properties = published.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.extend(type_meta.iter().cloned());
        properties.insert("metadata".to_owned(), metadata.clone());
    }
    if let Value::Array(required) = published.entry("required").or_insert_with(|| json!([])) {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|present| present == name) {
                required.push(Value::from(name));
            }
        }
    }
}

/// Copies type, description, title, nullable, default, example and externalDocs.
fn generics(schema: &Object, published: &mut Object) {
    for key in ["type", "description", "title"] {
        copy_text(schema, key, published);
    }
    if is_true(schema, "nullable") {
        published.insert("nullable".to_owned(), Value::Bool(true));
    }
    for key in ["default", "example"] {
        if let Some(value) = schema.get(key).filter(|value| !value.is_null()) {
            published.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(Value::Object(link)) = schema.get("externalDocs") {
        let mut copied = Object::new();
        copy_text(link, "description", &mut copied);
        copy_text(link, "url", &mut copied);
        published.insert("externalDocs".to_owned(), Value::Object(copied));
    }
}

/// Copies the validations of values.
fn value_validations(schema: &Object, published: &mut Object) {
    for key in ["format", "pattern"] {
        copy_text(schema, key, published);
    }
    for key in ["maximum", "minimum", "multipleOf"] {
        if let Some(Value::Number(number)) = schema.get(key) {
            published.insert(key.to_owned(), Value::Number(go_float(number)));
        }
    }
    for key in ["maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"] {
        if let Some(value) = schema.get(key).filter(|value| value.is_number()) {
            published.insert(key.to_owned(), value.clone());
        }
    }
    for key in ["exclusiveMaximum", "exclusiveMinimum", "uniqueItems"] {
        if is_true(schema, key) {
            published.insert(key.to_owned(), Value::Bool(true));
        }
    }
    for key in ["enum", "required"] {
        copy_list(schema, key, published);
    }
}

/// Copies the extensions `x-kubernetes-*`.
fn extensions(schema: &Object, published: &mut Object) {
    for key in [PRESERVE_UNKNOWN_FIELDS, EMBEDDED_RESOURCE, INT_OR_STRING] {
        if is_true(schema, key) {
            published.insert(key.to_owned(), Value::Bool(true));
        }
    }
    copy_list(schema, "x-kubernetes-list-map-keys", published);
    for key in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if let Some(value) = schema.get(key).filter(|value| value.is_string()) {
            published.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(Value::Array(rules)) = schema.get("x-kubernetes-validations")
        && !rules.is_empty()
    {
        let rules = rules.iter().filter_map(Value::as_object).map(validation_rule);
        published.insert("x-kubernetes-validations".to_owned(), Value::Array(rules.collect()));
    }
}

/// An entry of x-kubernetes-validations.
fn validation_rule(rule: &Object) -> Value {
    let mut copied = Object::from_iter([("rule".to_owned(), rule.get("rule").cloned().unwrap_or_else(|| json!("")))]);
    for key in ["message", "messageExpression", "fieldPath"] {
        copy_text(rule, key, &mut copied);
    }
    for key in ["reason", "optionalOldSelf"] {
        if let Some(value) = rule.get(key).filter(|value| !value.is_null()) {
            copied.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(copied)
}

/// Copies allOf, anyOf, oneOf and not.
fn junctors(schema: &Object, published: &mut Object) {
    for key in JUNCTORS {
        if let Some(Value::Array(branches)) = schema.get(key)
            && !branches.is_empty()
        {
            let branches = branches.iter().map(branch);
            published.insert(key.to_owned(), Value::Array(branches.collect()));
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        published.insert("not".to_owned(), branch(not));
    }
}

/// Publishes a branch of a junctor. Its `additionalProperties` is not published, as upstream.
fn branch(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return json!({}) };
    let mut published = Object::new();
    generics(schema, &mut published);
    value_validations(schema, &mut published);
    extensions(schema, &mut published);
    junctors(schema, &mut published);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        published.insert("items".to_owned(), branch(items));
    }
    if let Some(properties) = properties(schema) {
        let children = properties.iter().map(|(name, child)| (name.clone(), branch(child)));
        published.insert("properties".to_owned(), Value::Object(children.collect()));
    }
    Value::Object(published)
}

/// The junctors of an int-or-string node with the `anyOf` of both types, which plain OpenAPI needs. `None` for another
/// node, and if the schema has that `anyOf`. The result has nothing but junctors: a copy of everything below, at each
/// level, would take time that grows with the square of the depth.
fn unfold(schema: &Object) -> Option<Object> {
    if !is_true(schema, INT_OR_STRING)
        || is_int_or_string_any_of(schema.get("anyOf"))
        || is_int_or_string_any_of(first_all_of(schema).get("anyOf"))
    {
        return None;
    }
    let juncture = |key: &&str| schema.get(*key).map(|branches| ((*key).to_owned(), branches.clone()));
    let mut schema: Object = JUNCTORS.iter().chain(&["not"]).filter_map(juncture).collect();
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let any_of = schema.get("anyOf").and_then(Value::as_array).filter(|branches| !branches.is_empty());
    if any_of.is_none() {
        schema.insert("anyOf".to_owned(), either);
    } else if let Value::Array(all_of) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all_of.insert(0, json!({"anyOf": either}));
    }
    Some(schema)
}

/// Whether an `anyOf` is exactly the one of int-or-string.
pub(super) fn is_int_or_string_any_of(any_of: Option<&Value>) -> bool {
    any_of.is_some_and(|any_of| *any_of == json!([{"type": "integer"}, {"type": "string"}]))
}

/// The first branch of `allOf`, or null.
pub(super) fn first_all_of(schema: &Object) -> &Value {
    schema.get("allOf").and_then(|all_of| all_of.get(0)).unwrap_or(&Value::Null)
}

/// The declared properties; `None` when there are none.
pub(super) fn properties(schema: &Object) -> Option<&Object> {
    schema.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty())
}

/// Whether the member `key` is true.
pub(super) fn is_true(schema: &Object, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

/// Copies the member `key` if it is a non-empty string.
fn copy_text(from: &Object, key: &str, into: &mut Object) {
    if let Some(Value::String(text)) = from.get(key)
        && !text.is_empty()
    {
        into.insert(key.to_owned(), Value::from(&**text));
    }
}

/// Copies the member `key` if it is a non-empty list.
fn copy_list(from: &Object, key: &str, into: &mut Object) {
    if let Some(Value::Array(items)) = from.get(key)
        && !items.is_empty()
    {
        into.insert(key.to_owned(), Value::Array(items.clone()));
    }
}

/// A bound as Go prints it after reading it as a float64: an integer has no point and no exponent. A number that is not
/// an integer, or an integer outside the range of 64 bits, stays as it was written.
fn go_float(number: &Number) -> Number {
    // Up to 2^53, an integer is exact in a float64.
    let Some(float) =
        number.as_f64().filter(|_| number.as_i64().is_none_or(|integer| integer.unsigned_abs() > 1 << 53))
    else {
        return number.clone();
    };
    let digits = float.to_string();
    let integer = digits.parse::<i64>().map(Number::from).or_else(|_| digits.parse::<u64>().map(Number::from));
    integer.unwrap_or_else(|_| number.clone())
}
