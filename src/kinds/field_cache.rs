//! FieldCache: one store, as people ask for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::absence::Absence;
use super::conditions::Conditions;
use super::selectors::{FieldSelector, LabelSelector};

/// Most entries of spec.selectableFields.
pub const MAX_EXTRA_FIELDS: usize = 32;

/// What to keep a copy of.
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
    doc = "FieldCache makes fieldcache keep one indexed copy of a resource, from which it answers get, list and watch with field and label selectors. Its name is PLURAL.GROUP of the resource, or PLURAL for the core group, so that there is one for each resource.",
    selectable = ".spec.group",
    selectable = ".spec.resource",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether reads are answered from the copy"
    ),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status",
        description = "Whether all versions and fields of the spec are right"
    ),
    printcolumn(
        name = "Objects",
        type_ = "integer",
        json_path = ".status.objects",
        description = "About how many objects the copy has"
    ),
    printcolumn(
        name = "Bytes",
        type_ = "integer",
        json_path = ".status.bytes",
        description = "About how much memory the copy takes, in bytes",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it is ready or not"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "The same for people",
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
    /// The versions to keep, such as v1. Absent or empty: the version that the API server prefers. When it prefers another one, the
    /// versions that were kept until then are kept too, for as long as they are served, because clients may read them. Each version has
    /// a copy of its own and costs as much memory again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 63), pattern(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")))]
    pub versions: Vec<String>,
    /// Fields to select by, beyond those that the resource's own definition or Kubernetes itself offers. They may lie in lists,
    /// and built-in resources may have them too. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub selectable_fields: Vec<ExtraField>,
    /// Keep only a part of the objects. Such a copy is served through Views only, because a list of it is not a list of the
    /// resource. Absent: all objects are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Why the spec was left out, if it was: then it has no other members.
    #[serde(skip)]
    #[schemars(skip)]
    pub absent: Option<Absence>,
}

/// A field to select by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.jsonPath) != has(self.printerColumn)",
    "message": "exactly one of jsonPath and printerColumn must be set",
}]))]
pub struct ExtraField {
    /// The name by which field selectors mean the field, such as images in `--field-selector images=nginx`. It has no dot, so
    /// that it can never mean a path of the resource.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [{
        "rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "message": "must be lower-case letters, digits and '-', begin and end with a letter or digit, and have no dot",
    }]))]
    pub name: String,
    /// Where the values stand in an object: an RFC 9535 path of names, wildcards and list elements, such as
    /// $.spec.steps[*].image. The values must be strings, booleans or integers. Up to 64 different ones are indexed for an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), extend("x-kubernetes-validations" = [{
        "rule": "self.startsWith('$')",
        "message": "must be an RFC 9535 path, which begins with $, such as $.spec.color",
    }]))]
    pub json_path: Option<String>,
    /// Instead of jsonPath: the name of a column of the resource's own definition (additionalPrinterColumns), whose path is
    /// taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub printer_column: Option<String>,
}

/// The part of a resource that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// Keep only objects with these labels. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Keep only objects with these values. It is the API server that selects, so only fields that it knows can be named, and
    /// only In and NotIn with one value each. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!has(self.matchExpressions) || self.matchExpressions.all(each, each.operator in ['In', 'NotIn'] && has(each.values) && size(each.values) == 1)",
        "message": "a scope is selected by the API server, which knows In and NotIn with exactly one value",
    }]))]
    pub field_selector: Option<FieldSelector>,
}

/// What has become of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldCacheStatus {
    /// Accepted: the spec is right and can be served. Synced: the copy is complete and up to date. Ready: reads are answered
    /// from it; with the reason PartlyAccepted without what Accepted names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Conditions")]
    pub conditions: Vec<Condition>,
    /// The versions that are kept, the preferred one first. Where spec.versions is empty, each of them is kept until it is no longer
    /// served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "set"), inner(length(min = 1, max = 63)))]
    pub versions: Vec<String>,
    /// About how many objects the copy has, all versions together. Written when it has moved by a tenth, at most every 5 minutes; the metric
    /// fieldcache_store_objects is exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub objects: Option<i64>,
    /// About how much memory the copy takes, in bytes, all versions together. Written like objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bytes: Option<i64>,
}

impl FieldCacheSpec {
    /// The only name that a FieldCache of this resource may have; also that of its SelectableResource.
    pub fn object_name(&self) -> String {
        object_name(&self.group, &self.resource)
    }
}

/// `PLURAL.GROUP`, or `PLURAL` for the core group.
pub fn object_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
