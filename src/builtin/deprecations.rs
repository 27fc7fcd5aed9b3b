//! Deprecated built-in kinds, and the warning that kube-apiserver sends with every response about one.
//!
//! The facts are those of `k8s.io/api` 0.32 to 0.37 (`*/zz_generated.prerelease-lifecycle.go`, `core/v1/lifecycle.go`), for kinds that
//! can be listed; the text is that of apiserver `endpoints/deprecation`. A server warns from the release on in which the kind is
//! deprecated, whether it serves the version by default or because of `--runtime-config`.

/// The replacement that a warning recommends.
#[derive(Clone, Copy, Debug)]
enum Replacement {
    /// It names none.
    None,
    /// The same kind in `v1` of its group.
    V1,
    /// The same, from this minor release on.
    V1Since(u64),
    /// Another kind.
    Other(&'static str),
}

/// A deprecated kind: group, version, kind, the minor release of its deprecation, that of its removal, and what replaces it.
type Deprecated = (&'static str, &'static str, &'static str, u64, Option<u64>, Replacement);

const ADMISSION: &str = "admissionregistration.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const COORDINATION: &str = "coordination.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const MIGRATION: &str = "storagemigration.k8s.io";

const DEPRECATED: [Deprecated; 30] = [
    ("", "v1", "ComponentStatus", 19, None, Replacement::None),
    ("", "v1", "Endpoints", 33, None, Replacement::Other("discovery.k8s.io/v1 EndpointSlice")),
    (ADMISSION, "v1alpha1", "MutatingAdmissionPolicy", 35, Some(38), Replacement::None),
    (ADMISSION, "v1alpha1", "MutatingAdmissionPolicyBinding", 35, Some(38), Replacement::None),
    (ADMISSION, "v1beta1", "MutatingAdmissionPolicy", 37, Some(40), Replacement::V1),
    (ADMISSION, "v1beta1", "MutatingAdmissionPolicyBinding", 37, Some(40), Replacement::V1),
    (ADMISSION, "v1beta1", "ValidatingAdmissionPolicy", 31, Some(34), Replacement::None),
    (ADMISSION, "v1beta1", "ValidatingAdmissionPolicyBinding", 31, Some(34), Replacement::None),
    (CERTIFICATES, "v1alpha1", "ClusterTrustBundle", 34, Some(37), Replacement::None),
    (CERTIFICATES, "v1beta1", "ClusterTrustBundle", 37, Some(40), Replacement::V1),
    (CERTIFICATES, "v1beta1", "PodCertificateRequest", 37, Some(40), Replacement::V1),
    (COORDINATION, "v1alpha2", "LeaseCandidate", 35, Some(38), Replacement::None),
    (COORDINATION, "v1beta1", "LeaseCandidate", 36, Some(39), Replacement::None),
    (NETWORKING, "v1alpha1", "IPAddress", 30, Some(33), Replacement::None),
    (NETWORKING, "v1alpha1", "ServiceCIDR", 30, Some(33), Replacement::None),
    (NETWORKING, "v1beta1", "IPAddress", 34, Some(37), Replacement::None),
    (NETWORKING, "v1beta1", "ServiceCIDR", 34, Some(37), Replacement::None),
    (RESOURCE, "v1alpha3", "DeviceTaintRule", 36, Some(39), Replacement::None),
    (RESOURCE, "v1beta1", "DeviceClass", 35, Some(38), Replacement::None),
    (RESOURCE, "v1beta1", "ResourceClaim", 35, Some(38), Replacement::None),
    (RESOURCE, "v1beta1", "ResourceClaimTemplate", 35, Some(38), Replacement::None),
    (RESOURCE, "v1beta1", "ResourceSlice", 35, Some(38), Replacement::None),
    (RESOURCE, "v1beta2", "DeviceClass", 36, Some(39), Replacement::None),
    (RESOURCE, "v1beta2", "ResourceClaim", 36, Some(39), Replacement::None),
    (RESOURCE, "v1beta2", "ResourceClaimTemplate", 36, Some(39), Replacement::None),
    (RESOURCE, "v1beta2", "ResourceSlice", 36, Some(39), Replacement::None),
    (STORAGE, "v1alpha1", "VolumeAttributesClass", 32, Some(35), Replacement::V1Since(34)),
    (STORAGE, "v1beta1", "VolumeAttributesClass", 34, Some(37), Replacement::V1),
    (MIGRATION, "v1alpha1", "StorageVersionMigration", 33, Some(36), Replacement::None),
    (MIGRATION, "v1beta1", "StorageVersionMigration", 37, Some(40), Replacement::V1),
];

/// The warning of a server of Kubernetes 1.`minor` about a kind of its own; `None`: the kind is not deprecated there.
pub fn deprecation_warning(group: &str, version: &str, kind: &str, minor: u64) -> Option<String> {
    let is_meant = |row: &&Deprecated| (row.0, row.1, row.2) == (group, version, kind) && row.3 <= minor;
    let (.., deprecated, removed, replacement) = DEPRECATED.iter().find(is_meant)?;
    let slash = if group.is_empty() { "" } else { "/" };
    let mut text = format!("{group}{slash}{version} {kind} is deprecated in v1.{deprecated}+");
    if let Some(removed) = removed {
        text.push_str(&format!(", unavailable in v1.{removed}+"));
    }
    match replacement {
        Replacement::V1Since(since) if minor < *since => {}
        Replacement::None => {}
        Replacement::V1 | Replacement::V1Since(_) => text.push_str(&format!("; use {group}/v1 {kind}")),
        Replacement::Other(other) => text.push_str(&format!("; use {other}")),
    }
    Some(text)
}
