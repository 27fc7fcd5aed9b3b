//! KEP-4358's own table of built-in fields beside ours: every row is the same here or a listed difference.

use crate::extract::builtin::{self, KEP_DIFFERENCES, Source};
use crate::extract::{FieldRef, Plan};
use crate::model::Scope;

/// What the KEP says of one label, and what ours says.
enum Here {
    /// Accepted; the first path on the wire.
    Same(&'static str),
    /// Named in [`KEP_DIFFERENCES`], in whose words for the KEP's side this text stands.
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
        let plan = Plan::built_in(group, "v1", kind, Scope::Namespaced);
        match here {
            Same(path) => {
                let row = builtin::find(group, "v1", kind).unwrap();
                let found = row.labels.iter().find(|found| found.label == label).unwrap();
                let Source::Value { paths, .. } = found.source else { panic!("{kind} {label} reads nothing") };
                assert_eq!(paths.first(), Some(&path), "{kind} {label}");
                assert!(matches!(plan.resolve(label), Ok(FieldRef::Field(_))), "{kind} {label}");
            }
            Differs(words) => {
                let listed = KEP_DIFFERENCES.iter().any(|difference| {
                    difference.kep == words && difference.kind.split([' ', ',']).any(|name| name == kind)
                });
                assert!(listed, "{kind} {label} is a difference that is not listed");
                assert!(!matches!(plan.resolve(label), Ok(FieldRef::Field(_))), "{kind} {label} is no difference");
            }
        }
        assert_eq!(plan.resolve("metadata.name"), Ok(FieldRef::Name), "{kind}");
    }
}
