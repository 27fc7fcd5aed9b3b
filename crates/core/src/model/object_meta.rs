//! The members of ObjectMeta, which every object of Kubernetes has (apimachinery `pkg/apis/meta/v1`, types.go).

/// The names of the members, in the order of the Go type.
pub const OBJECT_META_MEMBERS: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Whether ObjectMeta has a member of this name.
pub fn is_object_meta_member(name: &str) -> bool {
    OBJECT_META_MEMBERS.contains(&name)
}
