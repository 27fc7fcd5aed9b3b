//! FieldCache: the configuration of one store.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::absence::Absence;
use super::conditions::Conditions;
use super::selectors::{FieldSelectorSpec, LabelSelectorSpec};

/// The resource to cache.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "fieldcache.dev",
    version = "v1alpha1",
    kind = "FieldCache",
    plural = "fieldcaches",
    singular = "fieldcache",
    shortname = "fc",
    category = "fieldcache-dev",
    status = "FieldCacheStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "FieldCache makes fieldcache store a resource with indexes. fieldcache serves get, list and watch from the store, with field and label selectors. The name of a FieldCache is PLURAL.GROUP of its resource, or PLURAL for the core group, so that each resource has at most one FieldCache.",
    selectable = ".spec.group",
    selectable = ".spec.resource",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether reads are served from the store"
    ),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status",
        description = "Whether all versions and fields of the spec are valid"
    ),
    printcolumn(
        name = "Objects",
        type_ = "integer",
        json_path = ".status.objects",
        description = "Approximate number of cached objects"
    ),
    printcolumn(
        name = "Bytes",
        type_ = "integer",
        json_path = ".status.bytes",
        description = "Approximate memory of all stores of the resource, in bytes",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Reason of the Ready condition"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "Human-readable message of the Ready condition",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct FieldCacheSpec {
    /// The API group of the resource, such as stable.example.com. Empty, which is the default, for the core group.
    #[serde(default)]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [{
        "rule": "self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "message": "must be an API group such as stable.example.com, without a version, or empty for the core group",
    }]))]
    pub group: String,
    /// The plural name of the resource, in lower case, such as shirts.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [{
        "rule": "self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "message": "must be the plural name of a resource such as shirts: in lower case, without a group or subresource",
    }]))]
    pub resource: String,
    /// The versions to cache, such as v1. Each version has its own store, with its own memory.
    ///
    /// Absent or empty: the version that the API server prefers. If the API server later prefers another version,
    /// fieldcache caches that version too. It keeps a cached version as long as the API server serves it, because
    /// clients may read it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 63), pattern(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")))]
    pub versions: Vec<String>,
    /// Selectable fields, in addition to those that the CRD of the resource or Kubernetes defines. Only reads through
    /// fieldcache can select by these fields. They may be inside of lists, and built-in resources may have them too. At
    /// most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub selectable_fields: Vec<ExtraField>,
    /// Cache only a part of the objects. Only Views serve such a partial store, because its lists lack objects of the
    /// resource. Absent: all objects are cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<StoreScope>,
    /// Why the spec is not in memory: then the other fields are empty. `None`: the spec is in memory.
    #[serde(skip)]
    #[schemars(skip)]
    pub absent: Option<Absence>,
}

/// A selectable field. Exactly one of jsonPath and printerColumn must be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.jsonPath) != has(self.printerColumn)",
    "message": "exactly one of jsonPath and printerColumn must be set",
}]))]
pub struct ExtraField {
    /// The name of the field in field selectors, such as images in `--field-selector images=nginx`. The name has no
    /// dot, so it cannot equal the path of another field.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [{
        "rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "message": "must consist of lower-case letters, digits and '-', and begin and end with a letter or digit",
    }]))]
    pub name: String,
    /// The path of the values in an object: an RFC 9535 path of names, wildcards and list elements, such as
    /// $.spec.steps[*].image. The values must be strings, booleans or integers. fieldcache indexes up to 64 different
    /// values for an object. It compares an object with more values individually, which is slower.
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "the comment is also the description in the definition, unchanged"
    )]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), extend("x-kubernetes-validations" = [{
        "rule": "self.startsWith('$')",
        "message": "must be an RFC 9535 path, which begins with $, such as $.spec.color",
    }]))]
    pub json_path: Option<String>,
    /// The name of a column in the additionalPrinterColumns of the resource's CRD. The field has the path of this
    /// column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub printer_column: Option<String>,
}

/// The part of a resource that is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreScope {
    /// Cache only objects with these labels. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelectorSpec>,
    /// Cache only objects with these values of selectable fields. The API server selects the objects. So only the API
    /// server's own selectable fields are valid, and only In and NotIn with one value each. Absent or empty: no
    /// restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!has(self.matchExpressions) || self.matchExpressions.all(each, each.operator in ['In', 'NotIn'] && has(each.values) && size(each.values) == 1)",
        "message": "the API server selects the objects of a scope, and supports only In and NotIn, each with exactly one value",
    }]))]
    pub field_selector: Option<FieldSelectorSpec>,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldCacheStatus {
    /// Accepted: the spec is valid.
    ///
    /// Synced: the store is complete and current.
    ///
    /// Ready: reads are served from the store, with spec.scope only those through Views. With the reason PartlyAccepted,
    /// the store lacks the versions and fields that Accepted reports as invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Conditions")]
    pub conditions: Vec<Condition>,
    /// The cached versions, the preferred one first. If spec.versions is empty, each of them is cached until the API
    /// server no longer serves it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 63)))]
    pub versions: Vec<String>,
    /// Approximate number of cached objects in all versions. Updated when the number has changed by a tenth, at most
    /// every 5 minutes. The metric fieldcache_store_objects is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub objects: Option<i64>,
    /// Approximate memory of all stores of the resource, in bytes. Updated together with `objects`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bytes: Option<i64>,
}

impl FieldCacheSpec {
    /// The only name that a FieldCache of this resource may have. The SelectableResource has the same name.
    pub fn object_name(&self) -> String {
        object_name(&self.group, &self.resource)
    }
}

/// The name of the FieldCache of a resource: `PLURAL.GROUP`, or `PLURAL` for the core group.
pub fn object_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
