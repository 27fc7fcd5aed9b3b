//! The built-in table, row by row.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::extractor::values;
use crate::builtin::table::kinds;
use crate::extract::builtin::{LabelErrorFormat, LabelSource};
use crate::extract::{FieldRef, Origin};
use crate::model::Scope;

/// The text of a label for an object with these members; the refusal when the label is not accepted.
fn read(group: &str, version: &str, kind: &str, label: &str, members: &Value) -> Result<String, String> {
    let plan = crate::builtin::extractor(group, version, kind);
    let mut object = members.clone();
    object["metadata"] = json!({"name": "the-name", "namespace": "the-namespace", "resourceVersion": "1"});
    match plan.resolve(label).map_err(|error| error.to_string())? {
        FieldRef::Name => Ok("the-name".to_owned()),
        FieldRef::Namespace => Ok("the-namespace".to_owned()),
        FieldRef::Empty => Ok(String::new()),
        FieldRef::Field(index) => Ok(values(&plan, &object.to_string())[usize::from(index.0)].clone()),
    }
}

#[test]
fn every_row_reads_its_source_and_its_value_when_absent() {
    let event = json!({
        "involvedObject": {"kind": "K", "namespace": "N", "name": "M", "uid": "U", "apiVersion": "A", "resourceVersion": "R",
            "fieldPath": "F"},
        "reason": "Re", "type": "T", "reportingComponent": "Rc", "source": {"component": "Sc"}});
    let mut event_v1 = json!({"regarding": event["involvedObject"], "reportingController": "Rc"});
    event_v1["reason"] = json!("Re");
    event_v1["type"] = json!("T");
    let pod = json!({"spec": {"nodeName": "n1", "restartPolicy": "Never", "schedulerName": "s", "serviceAccountName": "sa",
        "hostNetwork": true}, "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        "nominatedNodeName": "n2"}});
    let signer = json!({"spec": {"signerName": "s", "podName": "p", "nodeName": "n"}});
    for (group, versions, kind, full, rows) in [
        (
            "",
            &["v1"][..],
            "Pod",
            &pod,
            &[
                ("spec.nodeName", "n1", ""),
                ("spec.host", "n1", ""),
                ("spec.restartPolicy", "Never", ""),
                ("spec.schedulerName", "s", ""),
                ("spec.serviceAccountName", "sa", ""),
                ("spec.hostNetwork", "true", "false"),
                ("status.phase", "Running", ""),
                ("status.podIP", "10.0.0.1", ""),
                ("status.podIPs", "", ""),
                ("status.nominatedNodeName", "n2", ""),
            ][..],
        ),
        ("", &["v1"], "Node", &json!({"spec": {"unschedulable": true}}), &[("spec.unschedulable", "true", "false")]),
        ("", &["v1"], "ReplicationController", &json!({"status": {"replicas": 3}}), &[("status.replicas", "3", "0")]),
        ("", &["v1"], "Namespace", &json!({"status": {"phase": "Active"}}), &[("status.phase", "Active", "")]),
        ("", &["v1"], "Secret", &json!({"type": "Opaque"}), &[("type", "Opaque", "")]),
        (
            "",
            &["v1"],
            "Service",
            &json!({"spec": {"clusterIP": "None", "type": "ClusterIP"}}),
            &[("spec.clusterIP", "None", ""), ("spec.type", "ClusterIP", "")],
        ),
        (
            "",
            &["v1"],
            "Event",
            &event,
            &[
                ("involvedObject.kind", "K", ""),
                ("involvedObject.namespace", "N", ""),
                ("involvedObject.name", "M", ""),
                ("involvedObject.uid", "U", ""),
                ("involvedObject.apiVersion", "A", ""),
                ("involvedObject.resourceVersion", "R", ""),
                ("involvedObject.fieldPath", "F", ""),
                ("reason", "Re", ""),
                ("type", "T", ""),
                ("reportingComponent", "Rc", ""),
                ("source", "Sc", ""),
            ],
        ),
        (
            "events.k8s.io",
            &["v1"],
            "Event",
            &event_v1,
            &[
                ("regarding.kind", "K", ""),
                ("regarding.namespace", "N", ""),
                ("regarding.name", "M", ""),
                ("regarding.uid", "U", ""),
                ("regarding.apiVersion", "A", ""),
                ("regarding.resourceVersion", "R", ""),
                ("regarding.fieldPath", "F", ""),
                ("reason", "Re", ""),
                ("type", "T", ""),
                ("reportingController", "Rc", ""),
            ],
        ),
        ("batch", &["v1"], "Job", &json!({"status": {"succeeded": 2}}), &[("status.successful", "2", "0")]),
        ("certificates.k8s.io", &["v1"], "CertificateSigningRequest", &signer, &[("spec.signerName", "s", "")]),
        (
            "certificates.k8s.io",
            &["v1beta1", "v1alpha1"],
            "ClusterTrustBundle",
            &signer,
            &[("spec.signerName", "s", "")],
        ),
        (
            "certificates.k8s.io",
            &["v1beta1", "v1alpha1"],
            "PodCertificateRequest",
            &signer,
            &[("spec.signerName", "s", ""), ("spec.podName", "p", ""), ("spec.nodeName", "n", "")],
        ),
        (
            "resource.k8s.io",
            &["v1", "v1beta2", "v1beta1"],
            "ResourceSlice",
            &json!({"spec": {"nodeName": "n", "driver": "d"}}),
            &[("spec.nodeName", "n", ""), ("spec.driver", "d", "")],
        ),
    ] {
        for version in versions {
            let row = crate::builtin::find(group, kind).and_then(|row| row.fields).unwrap();
            assert!(row.versions.contains(version), "{kind} {version}");
            let listed: BTreeSet<&str> = row.labels.iter().map(|label| label.label).collect();
            assert_eq!(listed, rows.iter().map(|row| row.0).collect(), "{kind}: the rows here are all rows there");
            for (label, present, absent) in rows {
                assert_eq!(read(group, version, kind, label, full).as_deref(), Ok(*present), "{kind} {label}");
                assert_eq!(
                    read(group, version, kind, label, &json!({})).as_deref(),
                    Ok(*absent),
                    "{kind} {label} absent"
                );
            }
        }
    }
}

#[test]
fn sources_fall_back() {
    for (kind, label, members, expected) in [
        ("Pod", "status.podIP", json!({"status": {"podIP": "1.1.1.1"}}), "1.1.1.1"),
        ("Pod", "status.podIP", json!({"status": {"podIP": "1.1.1.1", "podIPs": []}}), "1.1.1.1"),
        (
            "Pod",
            "status.podIP",
            json!({"status": {"podIPs": [{"ip": "2.2.2.2"}, {"ip": "3.3.3.3"}], "podIP": "x"}}),
            "2.2.2.2",
        ),
        ("Pod", "status.podIP", json!({"status": {"podIPs": [{}, {"ip": "3.3.3.3"}]}}), ""),
        ("Pod", "status.podIP", json!({"status": {"podIPs": {"ip": "3.3.3.3"}}}), ""),
        ("Pod", "status.podIPs", json!({"status": {"podIPs": [{"ip": "2.2.2.2"}]}}), ""),
        ("Pod", "spec.hostNetwork", json!({"spec": {"hostNetwork": false}}), "false"),
        ("Pod", "spec.hostNetwork", json!({"spec": {"hostNetwork": null}}), "false"),
        ("Event", "source", json!({"source": {"component": "kubelet"}, "reportingComponent": "r"}), "kubelet"),
        ("Event", "source", json!({"source": {}, "reportingComponent": "r"}), "r"),
        ("Event", "source", json!({"source": {"component": ""}, "reportingComponent": "r"}), "r"),
    ] {
        assert_eq!(read("", "v1", kind, label, &members).as_deref(), Ok(expected), "{label} of {members}");
    }
}

#[test]
fn refusals_have_the_words_of_the_kind() {
    let known = |label: &str| {
        format!("\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    };
    let plain = |label: &str| format!("field label not supported: {label}");
    for (group, version, kind, label, expected) in [
        ("", "v1", "Pod", "spec.x", plain("spec.x")),
        ("", "v1", "Node", "metadata.namespace", plain("metadata.namespace")),
        ("", "v1", "Namespace", "metadata.namespace", plain("metadata.namespace")),
        ("", "v1", "Namespace", "name", plain("name")),
        ("", "v1", "Event", "source.component", plain("source.component")),
        ("events.k8s.io", "v1", "Event", "involvedObject.name", plain("involvedObject.name")),
        ("events.k8s.io", "v1", "Event", "source", plain("source")),
        ("certificates.k8s.io", "v1beta1", "PodCertificateRequest", "metadata.namespace", plain("metadata.namespace")),
        ("batch", "v1", "Job", "status.succeeded", "field label \"status.succeeded\" not supported for Job".to_owned()),
        (
            "resource.k8s.io",
            "v1beta2",
            "ResourceSlice",
            "metadata.namespace",
            "field label not supported for resource.k8s.io/v1beta2, Kind=ResourceSlice: metadata.namespace".to_owned(),
        ),
        ("apps", "v1", "ReplicaSet", "status.replicas", known("status.replicas")),
        ("", "v1", "ConfigMap", "spec.\"x\"", known("spec.\\\"x\\\"")),
        ("", "v1", "PersistentVolume", "name", known("name")),
        ("batch", "v1", "CronJob", "status.successful", known("status.successful")),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "spec.group", known("spec.group")),
    ] {
        assert_eq!(read(group, version, kind, label, &json!({})), Err(expected), "{kind} {label}");
    }
}

#[test]
fn kinds_without_a_row_accept_name_and_namespace_in_either_scope() {
    let plan = crate::builtin::extractor("", "v1", "PersistentVolume");
    assert_eq!(plan.resolve("metadata.namespace"), Ok(FieldRef::Namespace));
    assert_eq!((plan.fields().len(), plan.accepts_namespace()), (0, true));
}

#[test]
fn publications_begin_with_name_and_namespace_where_accepted() {
    let paths = |group: &str, version: &str, kind: &str, scope: Scope| -> Vec<(&str, Option<&str>)> {
        crate::builtin::published_fields(group, version, kind, scope)
            .iter()
            .map(|entry| (entry.field_path, entry.default))
            .collect()
    };
    assert_eq!(
        paths("", "v1", "Pod", Scope::Namespaced),
        [
            ("metadata.name", None),
            ("metadata.namespace", None),
            ("spec.nodeName", None),
            ("spec.restartPolicy", None),
            ("spec.schedulerName", None),
            ("spec.serviceAccountName", None),
            ("spec.hostNetwork", Some("false")),
            ("status.phase", None),
            ("status.podIP", Some("")),
            ("status.nominatedNodeName", None),
        ]
    );
    assert_eq!(
        paths("", "v1", "Node", Scope::Cluster),
        [("metadata.name", None), ("spec.unschedulable", Some("false"))]
    );
    assert_eq!(
        paths("apps", "v1", "Deployment", Scope::Namespaced),
        [("metadata.name", None), ("metadata.namespace", None)]
    );
    assert_eq!(
        paths("", "v1", "PersistentVolume", Scope::Cluster),
        [("metadata.name", None), ("metadata.namespace", Some(""))]
    );
}

#[test]
fn a_label_that_is_not_the_path_of_its_value_is_described() {
    for row in kinds() {
        let Some(fields) = row.fields else { continue };
        let plan = crate::builtin::extractor(row.group, fields.versions[0], row.kind);
        for field in plan.fields() {
            assert_eq!(field.origin, Origin::BuiltIn);
            assert!(matches!(&*field.kind, "string" | "integer" | "boolean"), "{}", field.label);
            if field.json_path != format!(".{}", field.label) {
                assert!(!field.description.is_empty(), "{} {}", row.kind, field.label);
            }
        }
        let sources = fields.labels.iter().filter(|label| matches!(label.source, LabelSource::Value { .. })).count();
        assert_eq!(plan.fields().len(), sources);
        assert_ne!(fields.refusal, LabelErrorFormat::NotKnown, "a kind with a row has a conversion function");
    }
}
