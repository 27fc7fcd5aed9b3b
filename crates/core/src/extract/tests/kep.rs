//! KEP-4358's own table of built-in fields beside ours: every row is the same here or a listed difference.

use crate::extract::FieldRef;
use crate::extract::builtin::LabelSource;

/// The differences between KEP-4358's own table of built-in fields and API servers, and why our table follows the API
/// servers.
struct KepDifference {
    /// Kind, or kinds.
    kind: &'static str,
    /// The KEP's table.
    kep: &'static str,
    /// Our table.
    here: &'static str,
    /// Why.
    reason: &'static str,
}

/// All differences.
const KEP_DIFFERENCES: &[KepDifference] = &[
    KepDifference {
        kind: "apps ReplicaSet",
        kep: "status.replicas",
        here: "refused",
        reason: "The registry fills the value in, but apps/v1 has no conversion function that accepts the label.",
    },
    KepDifference {
        kind: "Namespace, PersistentVolume, PersistentVolumeClaim",
        kep: "name",
        here: "refused",
        reason: "The registry fills the value in, but no conversion function accepts the label; metadata.name is the way.",
    },
    KepDifference {
        kind: "Pod",
        kep: "phase",
        here: "status.phase",
        reason: "The conversion function accepts only status.phase.",
    },
    KepDifference {
        kind: "Pod",
        kep: "status.podIPs",
        here: "status.podIP; status.podIPs is accepted, reads as empty and is not published",
        reason: "The registry fills in status.podIP with the first address and never fills in status.podIPs.",
    },
    KepDifference {
        kind: "Pod",
        kep: "spec.hostNetwork is taken from spec.securityContext.hostNetwork",
        here: "spec.hostNetwork",
        reason: "The securityContext is that of the internal type; on the wire the field is spec.hostNetwork.",
    },
    KepDifference {
        kind: "Pod",
        kep: "not listed",
        here: "spec.host, an alias of spec.nodeName that is accepted and not published",
        reason: "The conversion function rewrites it for old clients.",
    },
    KepDifference {
        kind: "Node, Namespace, CertificateSigningRequest, ClusterTrustBundle, PodCertificateRequest, ResourceSlice and \
               cluster-scoped custom resources",
        kep: "every kind supports metadata.namespace",
        here: "metadata.namespace is refused",
        reason: "Their conversion functions do not accept it, PodCertificateRequest's although it is namespaced.",
    },
    KepDifference {
        kind: "Service",
        kep: "not listed",
        here: "spec.clusterIP, spec.type",
        reason: "The conversion function and the registry have both.",
    },
    KepDifference {
        kind: "ClusterTrustBundle, PodCertificateRequest",
        kep: "not listed",
        here: "spec.signerName; spec.signerName, spec.podName, spec.nodeName",
        reason: "The kinds are younger than the table.",
    },
    KepDifference {
        kind: "ResourceSlice",
        kep: "not listed",
        here: "spec.nodeName, spec.driver",
        reason: "The kind is younger than the table.",
    },
    KepDifference {
        kind: "events.k8s.io Event",
        kep: "not listed",
        here: "regarding.*, reason, reportingController, type",
        reason: "Its labels follow its own field names, unlike those of the core group's Event.",
    },
];

/// The KEP's entry and our entry for one label.
enum Here {
    /// Accepted; the first path on the wire.
    Same(&'static str),
    /// Listed in [`KEP_DIFFERENCES`]; the text there for the KEP's side contains this text.
    Differs(&'static str),
}

#[test]
fn every_row_of_the_keps_table_is_here_or_a_listed_difference() {
    use Here::{Differs, Same};
    let rows = [
        ("apps", "ReplicaSet", "status.replicas", Differs("status.replicas")),
        ("", "ReplicationController", "status.replicas", Same(".status.replicas")),
        ("batch", "Job", "status.successful", Same(".status.succeeded")),
        ("certificates.k8s.io", "CertificateSigningRequest", "spec.signerName", Same(".spec.signerName")),
        ("", "Event", "involvedObject.kind", Same(".involvedObject.kind")),
        ("", "Event", "involvedObject.namespace", Same(".involvedObject.namespace")),
        ("", "Event", "involvedObject.name", Same(".involvedObject.name")),
        ("", "Event", "involvedObject.uid", Same(".involvedObject.uid")),
        ("", "Event", "involvedObject.apiVersion", Same(".involvedObject.apiVersion")),
        ("", "Event", "involvedObject.resourceVersion", Same(".involvedObject.resourceVersion")),
        ("", "Event", "involvedObject.fieldPath", Same(".involvedObject.fieldPath")),
        ("", "Event", "reason", Same(".reason")),
        ("", "Event", "reportingComponent", Same(".reportingComponent")),
        ("", "Event", "source", Same(".source.component")),
        ("", "Event", "type", Same(".type")),
        ("", "Namespace", "name", Differs("name")),
        ("", "PersistentVolume", "name", Differs("name")),
        ("", "PersistentVolumeClaim", "name", Differs("name")),
        ("", "Namespace", "status.phase", Same(".status.phase")),
        ("", "Node", "spec.unschedulable", Same(".spec.unschedulable")),
        ("", "Pod", "spec.nodeName", Same(".spec.nodeName")),
        ("", "Pod", "spec.restartPolicy", Same(".spec.restartPolicy")),
        ("", "Pod", "spec.schedulerName", Same(".spec.schedulerName")),
        ("", "Pod", "spec.serviceAccountName", Same(".spec.serviceAccountName")),
        ("", "Pod", "spec.hostNetwork", Same(".spec.hostNetwork")),
        ("", "Pod", "phase", Differs("phase")),
        ("", "Pod", "status.podIPs", Differs("status.podIPs")),
        ("", "Pod", "status.nominatedNodeName", Same(".status.nominatedNodeName")),
        ("", "Secret", "type", Same(".type")),
    ];
    for (group, kind, label, here) in rows {
        let plan = crate::builtin::extractor(group, "v1", kind);
        match here {
            Same(path) => {
                let row = crate::builtin::find(group, kind).and_then(|row| row.fields).unwrap();
                let found = row.labels.iter().find(|found| found.label == label).unwrap();
                let LabelSource::Value { paths, .. } = found.source else { panic!("{kind} {label} reads nothing") };
                assert_eq!(paths.first(), Some(&path), "{kind} {label}");
                assert!(matches!(plan.resolve(label), Ok(FieldRef::Field(_))), "{kind} {label}");
            }
            Differs(words) => {
                let listed = KEP_DIFFERENCES.iter().find(|difference| {
                    difference.kep == words && difference.kind.split([' ', ',']).any(|name| name == kind)
                });
                let KepDifference { here, reason, .. } =
                    listed.unwrap_or_else(|| panic!("{kind} {label} is a difference that is not listed"));
                let is_same = matches!(plan.resolve(label), Ok(FieldRef::Field(_)));
                assert!(!is_same, "{kind} {label} is no difference: listed is {here}. {reason}");
            }
        }
        assert_eq!(plan.resolve("metadata.name"), Ok(FieldRef::Name), "{kind}");
    }
}
