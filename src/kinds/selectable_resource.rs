//! SelectableResource: the fields by which a resource can be selected, as the operator found them. It has only a
//! status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::Conditions;

/// The maximum number of fields of a version. A CRD has up to 8 (old ones may have more), and a FieldCache adds up to
/// 32.
pub const MAX_FIELDS: usize = 128;
/// The maximum number of values of a field's enum that are shown.
pub const MAX_ENUM: usize = 128;
/// The maximum length of a value of an enum, a default or a path, in characters.
pub const MAX_TEXT: usize = 1_024;
/// The maximum length of a description or message, in characters.
pub const MAX_DESCRIPTION: usize = 4_096;
/// The maximum numbers of versions, of rejected fields and of warnings that are shown.
pub const MAX_LISTED: usize = 32;

/// Empty: users do not write this kind.
#[derive(CustomResource, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "fieldcache.dev",
    version = "v1alpha1",
    kind = "SelectableResource",
    plural = "selectableresources",
    singular = "selectableresource",
    shortname = "selres",
    category = "fieldcache-dev",
    no_spec,
    status = "SelectableResourceStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "SelectableResource shows the selectable fields of a resource, in addition to metadata.name and metadata.namespace. The operator writes a SelectableResource for each resource that has such fields or a FieldCache. Its name is PLURAL.GROUP of the resource, or PLURAL for the core group. The operator deletes the object when the resource is no longer served.",
    selectable = ".status.cached",
    printcolumn(
        name = "Fields",
        type_ = "string",
        json_path = ".status.fieldSummary",
        description = "The first selectable fields, and the number of others"
    ),
    printcolumn(
        name = "Cached",
        type_ = "boolean",
        json_path = ".status.cached",
        description = "Whether a FieldCache caches the resource"
    ),
    printcolumn(
        name = "All Fields",
        type_ = "string",
        json_path = ".status.fieldPaths",
        description = "All selectable fields",
        priority = 1
    ),
    printcolumn(
        name = "Published",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Published\")].status",
        description = "Whether the fields are in OpenAPI",
        priority = 1
    ),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status",
        description = "Whether all fields are valid"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].message",
        description = "Errors of invalid fields",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct SelectableResourceSpec {}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectableResourceStatus {
    /// The served versions, the preferred one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub versions: Vec<ResourceVersion>,
    /// The fieldPaths of all selectable fields in all versions, in addition to metadata.name and metadata.namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "set"))]
    pub field_paths: Vec<String>,
    /// A short form of fieldPaths for a column: the first paths, and the number of the other ones, such as
    /// spec.color,spec.size,+2.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub field_summary: String,
    /// Where the fields are published.
    #[serde(default, rename = "openAPI", skip_serializing_if = "Option::is_none")]
    pub open_api: Option<OpenApi>,
    /// Whether a FieldCache caches the resource.
    #[serde(default)]
    pub cached: bool,
    /// Accepted: every field of the CRD and of the FieldCache is valid.
    ///
    /// Published: the OpenAPI document of fieldcache contains the fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Conditions")]
    pub conditions: Vec<Condition>,
}

/// One version of the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceVersion {
    /// The version, such as v1.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The selectable fields, in addition to metadata.name and metadata.namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["fieldPath"]))]
    pub fields: Vec<SelectableField>,
    /// Invalid fields of the CRD or the FieldCache, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub rejected: Vec<RejectedField>,
    /// Warnings about fields that are accepted, but are probably a mistake, or do not work with some API servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub warnings: Vec<String>,
}

/// A selectable field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectableField {
    /// The name of the field in field selectors, such as spec.color.
    #[schemars(length(min = 1, max = 1024))]
    pub field_path: String,
    /// The path of the value in an object.
    #[schemars(length(max = 1024))]
    pub json_path: String,
    /// The type of the value: string, boolean or integer. The operators >, >=, < and <= need the type integer and compare
    /// numbers. All others compare the value as text.
    #[serde(rename = "type")]
    #[schemars(length(max = 63))]
    pub kind: String,
    /// The values that the schema allows; at most 128 are shown. Absent: the schema does not list values.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub allowed: Vec<String>,
    /// The format of the value in the schema, such as date-time. Absent: the schema has no format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub format: Option<String>,
    /// The value that selectors compare if an object does not have the field. Absent: the empty string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub default: Option<String>,
    /// The description of the field in its schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Where the field is defined: CustomResourceDefinition (in its selectableFields), BuiltIn (in Kubernetes itself)
    /// or FieldCache. Only reads through fieldcache can select by fields of a FieldCache.
    pub origin: FieldOrigin,
}

/// The origin of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldOrigin {
    /// The selectableFields of the CRD.
    #[default]
    CustomResourceDefinition,
    /// Kubernetes itself.
    BuiltIn,
    /// The selectableFields of a FieldCache.
    FieldCache,
}

super::string_enum::string_enum!(FieldOrigin, ["CustomResourceDefinition", "BuiltIn", "FieldCache"]);

/// An invalid field, which is not selectable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedField {
    /// The path of the field, as the CRD or the FieldCache has it.
    #[schemars(length(max = 1024))]
    pub json_path: String,
    /// The reason, as one CamelCase word such as FieldValueInvalid.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Human-readable description of the error, with the message of kube-apiserver where it has one.
    #[schemars(length(max = 4096))]
    pub message: String,
}

/// Where fields are published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenApi {
    /// The path of the OpenAPI v3 document of the first version, below the server URL of fieldcache.
    #[schemars(length(max = 1024))]
    pub url: String,
    /// The hash of the OpenAPI document. A new hash means that the fields may have changed.
    #[schemars(length(max = 128))]
    pub hash: String,
}
