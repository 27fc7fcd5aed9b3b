//! Copies of an object's data inside the object itself, which are pruned with the data.
//!
//! Tools that apply objects store the applied object in an annotation. metadata.managedFields names each field that a
//! manager set, with the values of list keys and of set members. As soon as anything is pruned, these copies are pruned
//! too. The list of annotations is bounded and known tools only: a View that must not show copies of other tools has to
//! prune `.metadata.annotations`.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Prune, PrunedPart};

/// Annotations that hold a copy of the object, of its spec, or a digest of it.
pub const ANNOTATIONS: [&str; 11] = [
    // kubectl apply.
    "kubectl.kubernetes.io/last-applied-configuration",
    // kube-apiserver: members of spec and status of a HorizontalPodAutoscaler that autoscaling/v1 does not have.
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/metrics",
    // Operators that use banzaicloud/k8s-objectmatcher.
    "banzaicloud.com/last-applied",
    // kapp.
    "kapp.k14s.io/original",
    "kapp.k14s.io/original-diff",
    "kapp.k14s.io/original-diff-md5",
    // Rancher.
    "objectset.rio.cattle.io/applied",
    // OpenShift: the DeploymentConfig of a ReplicationController.
    "openshift.io/encoded-deployment-config",
];

/// The members of an entry of managedFields that hold no data of the object. All others are pruned.
const OF_ENTRY: [&str; 6] = ["manager", "operation", "apiVersion", "time", "fieldsType", "subresource"];

/// The part of an object that names fields of the object: `.metadata.managedFields[*].fieldsV1`.
pub(super) static FIELDS: LazyLock<Prune> = LazyLock::new(|| {
    let mut fields = Prune::default();
    fields.insert(&["metadata", "managedFields", "fieldsV1"]);
    fields
});

/// The kind of copy that a value can hold. The `Prune` has the pruned parts of the data that the value is a copy of.
#[derive(Clone, Copy, Debug)]
pub(super) enum DataCopy<'p> {
    /// No copy.
    None,
    /// The value is the object.
    Object(&'p Prune),
    /// The value is metadata.
    Metadata(&'p Prune),
    /// The value is metadata.managedFields, or an entry of it.
    ManagedFields(&'p Prune),
    /// The value is a set of fields, as structured-merge-diff writes it.
    Fields(&'p Prune),
}

impl<'p> DataCopy<'p> {
    /// The kind of copy that the member of this name can hold. `None`: the member is pruned, because it is a copy of
    /// pruned data or may be one.
    pub(super) fn of_member(self, name: &str) -> Option<DataCopy<'p>> {
        match self {
            DataCopy::None => Some(DataCopy::None),
            DataCopy::Object(prune) if name == "metadata" => Some(DataCopy::Metadata(prune)),
            DataCopy::Metadata(prune) if name == "managedFields" => Some(DataCopy::ManagedFields(prune)),
            DataCopy::Object(_) | DataCopy::Metadata(_) => Some(DataCopy::None),
            DataCopy::ManagedFields(prune) if name == "fieldsV1" => Some(DataCopy::Fields(prune)),
            DataCopy::ManagedFields(_) => OF_ENTRY.contains(&name).then_some(DataCopy::None),
            DataCopy::Fields(prune) => of_field(prune, name),
        }
    }

    /// The kind of copy that an element of the value can hold.
    pub(super) fn of_element(self) -> DataCopy<'p> {
        match self {
            // Neither is a list.
            DataCopy::Object(_) | DataCopy::Metadata(_) => DataCopy::None,
            other @ (DataCopy::None | DataCopy::ManagedFields(_) | DataCopy::Fields(_)) => other,
        }
    }
}

/// The kind of copy that the member `name` of a set of fields can hold. `None`: the member is pruned, because it is a
/// copy of pruned data or may be one. `prune` has the pruned parts of the data that the set describes. The name of a
/// member is `.` for the value itself, or has a prefix: `f:` before a member's name, `k:` before the keys of an element
/// as JSON, `v:` before an element as JSON, and `i:` before an index.
fn of_field<'p>(prune: &'p Prune, name: &str) -> Option<DataCopy<'p>> {
    let inside = Some(DataCopy::Fields(prune));
    if name == "." {
        return inside;
    }
    match name.split_at_checked(2)? {
        ("f:", member) => match prune.part(member) {
            Some(PrunedPart::Whole) => None,
            Some(PrunedPart::Inside(prune)) => Some(DataCopy::Fields(prune)),
            None => Some(DataCopy::None),
        },
        ("k:", keys) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).ok()?;
            if keys.keys().any(|key| prune.part(key).is_some()) { None } else { inside }
        }
        ("v:", value) => match serde_json::from_str(value).ok()? {
            // An element with members may have one that is pruned.
            Value::Array(_) | Value::Object(_) => None,
            // A value without members: pruned if only members are kept.
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                if prune.keeps_named_only() {
                    None
                } else {
                    inside
                }
            }
        },
        ("i:", _) => inside,
        _ => None,
    }
}
