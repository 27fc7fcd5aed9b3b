//! The definitions of a custom resource: Kind and KindList. apiextensions-apiserver
//! `pkg/controller/openapi/builder/builder.go`.
//!
//! CRDs are not validated here. A schema that cannot be published becomes a bare object, so that clients still find the
//! kind.

use serde_json::{Map, Value, json};

use super::{
    GROUP_VERSION_KIND, META_V1, OpenApiVersion, SELECTABLE_FIELDS, Shared, definition_name, selectable, structural,
    structure,
};
use crate::crd::{Crd, CrdVersion, Schema};

/// The URL of the API conventions, for descriptions.
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// The definitions of the kind and of its list in one version, with their names.
pub fn of_version(crd: &Crd, version: &CrdVersion, form: OpenApiVersion, shared: &Shared<'_>) -> [(String, Value); 2] {
    let name = |kind: &str| definition_name(&crd.group, &version.name, kind);
    let selectable_fields = selectable::of_custom_resource(&version.selectable_fields);
    [(&crd.names.kind, kind(crd, version, form, shared)), (&crd.names.list_kind, list(crd, version, form, shared))].map(
        |(kind_name, mut definition)| {
            let kinds = json!([{"group": crd.group, "version": version.name, "kind": kind_name}]);
            definition.insert(GROUP_VERSION_KIND.to_owned(), kinds);
            definition.extend(selectable_fields.clone().map(|fields| (SELECTABLE_FIELDS.to_owned(), fields)));
            (name(kind_name), Value::Object(definition))
        },
    )
}

/// The definition of a custom resource's kind. Without a schema that can be published, it is a bare object.
fn kind(crd: &Crd, version: &CrdVersion, form: OpenApiVersion, shared: &Shared<'_>) -> Map<String, Value> {
    let bare = || Map::from_iter([("type".to_owned(), Value::from("object"))]);
    let schema = version.schema.as_ref().map(Schema::to_value);
    let schema = schema.as_ref().and_then(Value::as_object).filter(|schema| structure::is_structural(schema));
    let Some(schema) = schema else { return bare() };
    let preserves = structural::preserves_unknown_fields(schema) || crd.preserve_unknown_fields;
    if form == OpenApiVersion::V2 && preserves {
        // Declared properties next to unknown ones would make kubectl reject the unknown ones.
        return bare();
    }
    let mut published = structural::publish(schema, form);
    let metadata = meta(form, "ObjectMeta", &object_meta_description());
    let properties = published.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        properties.insert("metadata".to_owned(), metadata.clone());
        properties.extend(type_meta(shared));
    }
    structural::add_embedded(&mut published, form, &embedded_type_meta(), &metadata);
    published
}

/// The definition of a custom resource's list kind.
fn list(crd: &Crd, version: &CrdVersion, form: OpenApiVersion, shared: &Shared<'_>) -> Map<String, Value> {
    list_of(
        &crd.names.kind,
        &crd.names.list_kind,
        &definition_name(&crd.group, &version.name, &crd.names.kind),
        &format!("List of {}. More info: {CONVENTIONS}", crd.names.plural),
        form,
        shared,
    )
}

/// The definition of a list kind. `kind` and `list_kind` are for its description. `item` is the name of the definition
/// of one item, and `items_description` the description of the items.
pub fn list_of(
    kind: &str,
    list_kind: &str,
    item: &str,
    items_description: &str,
    form: OpenApiVersion,
    shared: &Shared<'_>,
) -> Map<String, Value> {
    let mut properties = Map::from_iter(type_meta(shared));
    properties.insert(
        "items".to_owned(),
        json!({"description": items_description, "type": "array", "items": {"$ref": form.reference(item)}}),
    );
    let metadata_description = format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds");
    properties.insert("metadata".to_owned(), meta(form, "ListMeta", &metadata_description));
    Map::from_iter([
        ("description".to_owned(), Value::from(format!("{list_kind} is a list of {kind}"))),
        ("properties".to_owned(), Value::Object(properties)),
        ("required".to_owned(), json!(["items"])),
        ("type".to_owned(), Value::from("object")),
    ])
}

fn object_meta_description() -> String {
    format!("Standard object's metadata. More info: {CONVENTIONS}#metadata")
}

/// A reference to the definition `name` of meta/v1, with a description. OpenAPI 3.0 ignores siblings of `$ref`, hence
/// the `allOf`.
fn meta(form: OpenApiVersion, name: &str, description: &str) -> Value {
    let reference = form.reference(&format!("{META_V1}.{name}"));
    match form {
        OpenApiVersion::V2 => json!({"description": description, "$ref": reference}),
        OpenApiVersion::V3 => json!({"description": description, "allOf": [{"$ref": reference}]}),
    }
}

/// The properties `apiVersion` and `kind`, which every kind has, with the descriptions of meta/v1.
fn type_meta(shared: &Shared<'_>) -> [(String, Value); 2] {
    ["apiVersion", "kind"].map(|key| {
        // Status has both, as every kind does.
        let holder = shared.definitions.get(&format!("{META_V1}.Status"));
        let property = holder.and_then(|status| status.pointer(&format!("/properties/{key}")));
        (key.to_owned(), property.cloned().unwrap_or_else(|| json!({"type": "string"})))
    })
}

/// Like [`type_meta`], for an embedded resource, which upstream describes in other words.
fn embedded_type_meta() -> [(String, Value); 2] {
    let api_version = format!(
        "apiVersion defines the versioned schema of this representation of an object. More info: {CONVENTIONS}#resources"
    );
    let kind = format!(
        "kind is a string value representing the type of this object. In CamelCase. More info: {CONVENTIONS}#types-kinds"
    );
    [("apiVersion", api_version), ("kind", kind)]
        .map(|(key, text)| (key.to_owned(), json!({"description": text, "type": "string"})))
}
