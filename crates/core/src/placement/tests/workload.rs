//! The next pod of a workload.

use serde_json::{Value, json};

use super::Options;
use crate::placement::admission::admit;
use crate::placement::pod::Pod;
use crate::placement::workload::{NEW_REVISION, Workload, add_daemon_tolerations};

fn workload(kind: &str, extra: Value) -> Workload {
    let mut spec = json!({"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"nodeSelector": {"a": "1"}}}});
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    Workload::read(&json!({"kind": kind, "metadata": {"name": "w", "namespace": "team", "uid": "u1"}, "spec": spec}))
        .unwrap()
}

/// A kind, more of its spec, and the labels that are added.
type LabelRow = (&'static str, Value, &'static [(&'static str, &'static str)]);

#[test]
fn controllers_add_their_labels() {
    let rows: [LabelRow; 6] = [
        ("Deployment", json!({}), &[("pod-template-hash", NEW_REVISION)]),
        ("ReplicaSet", json!({}), &[]),
        (
            "StatefulSet",
            json!({"ordinals": {"start": 5}}),
            &[
                ("controller-revision-hash", NEW_REVISION),
                ("statefulset.kubernetes.io/pod-name", "w-5"),
                ("apps.kubernetes.io/pod-index", "5"),
            ],
        ),
        ("DaemonSet", json!({}), &[("controller-revision-hash", NEW_REVISION), ("pod-template-generation", "1")]),
        (
            "Job",
            json!({"completionMode": "Indexed"}),
            &[
                ("batch.kubernetes.io/controller-uid", "u1"),
                ("controller-uid", "u1"),
                ("batch.kubernetes.io/job-name", "w"),
                ("job-name", "w"),
                ("batch.kubernetes.io/job-completion-index", "0"),
            ],
        ),
        ("ReplicationController", json!({}), &[]),
    ];
    for (kind, extra, added) in rows {
        let workload = workload(kind, extra);
        let mut expected = std::collections::BTreeMap::from([("app".to_owned(), "x".to_owned())]);
        expected.extend(added.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        assert_eq!(workload.pod.metadata.labels, expected, "{kind}");
        assert_eq!(workload.pod.metadata.namespace, "team", "{kind}: in the namespace of the workload");
        assert_eq!(workload.pod.spec.node_selector["a"], "1", "{kind}");
        assert_eq!(workload.template_path, "spec.template");
    }
    assert_eq!(
        workload("StatefulSet", json!({})).pod.metadata.name,
        "w-0",
        "only pods of a StatefulSet have names of their own"
    );
    assert_eq!(workload("Deployment", json!({})).pod.metadata.name, "");
}

#[test]
fn templates_are_read_from_the_path_of_their_kind() {
    let template = json!({"spec": {"nodeSelector": {"a": "1"}}});
    let cron = json!({"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": {"template": template}}}});
    let cron = Workload::read(&cron).unwrap();
    assert_eq!(
        (cron.template_path, &*cron.pod.metadata.labels["job-name"]),
        ("spec.jobTemplate.spec.template", "c-new")
    );
    let bare = Workload::read(&json!({"kind": "PodTemplate", "template": template})).unwrap();
    assert_eq!(bare.pod.spec.node_selector["a"], "1");
    let rows = [
        (json!({"kind": "Service"}), "\"Service\" is not a supported workload: use a Deployment"),
        (json!({}), "\"\" is not a supported workload"),
        (json!({"kind": "Job", "spec": {}}), "cannot read the Job: spec.template is missing"),
        (
            json!({"kind": "Job", "spec": {"template": {"spec": {"nodeSelector": ["x"]}}}}),
            "cannot read the Job: invalid type",
        ),
    ];
    for (document, expected) in rows {
        let error = Workload::read(&document).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn pods_of_a_daemon_set_tolerate_the_taints_of_node_conditions() {
    let listed = |spec: Value| {
        let mut pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        add_daemon_tolerations(&mut pod.spec);
        let tolerations = pod.spec.tolerations.iter();
        tolerations
            .map(|toleration| {
                (
                    toleration.key.trim_start_matches("node.kubernetes.io/").to_owned(),
                    toleration.effect.clone(),
                    toleration.toleration_seconds,
                )
            })
            .collect::<Vec<_>>()
    };
    let expected: Vec<(String, String, Option<i64>)> = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ]
    .map(|(key, effect)| (key.to_owned(), effect.to_owned(), None))
    .to_vec();
    assert_eq!(listed(json!({})), expected, "without a limit of time");
    let mut with_network = expected.clone();
    with_network.push(("network-unavailable".to_owned(), "NoSchedule".to_owned(), None));
    assert_eq!(listed(json!({"hostNetwork": true})), with_network);
    let given = json!({"tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]});
    let found = listed(given);
    assert_eq!(found[0], ("unreachable".to_owned(), "NoExecute".to_owned(), None), "the template's loses its seconds");
    assert_eq!(found.len(), 6);
    let other = json!({"tolerations": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "tolerationSeconds": 5}]});
    assert_eq!(listed(other).len(), 7, "another operator is another toleration");
    let admitted = admit(workload("DaemonSet", json!({})).pod, None, &Options::default()).unwrap();
    assert_eq!(admitted.spec.tolerations.len(), 6, "so that no default is added");
}

#[test]
fn a_daemon_set_runs_where_its_template_fits_and_its_pods_name_their_node() {
    let mut cordoned = super::node("cordoned", &["a=1"]);
    cordoned.spec.unschedulable = true;
    let mut sick = super::tainted(
        "sick",
        &["node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/disk-pressure:NoSchedule"],
    );
    sick.metadata.labels.insert("a".to_owned(), "1".to_owned());
    let mut closed = super::tainted("closed", &["own:NoSchedule"]);
    closed.metadata.labels.insert("a".to_owned(), "1".to_owned());
    let nodes = [cordoned, sick, closed, super::node("other", &[])];
    let pod = admit(workload("DaemonSet", json!({})).pod, None, &Options::default()).unwrap();
    let answer = super::review(&nodes, &[], &pod);
    assert_eq!(super::fitting(&answer), ["cordoned", "sick"]);
    // As the controller writes the Pod of one node.
    let mut one = pod;
    let by_name = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["sick"]}]},
    ]}}});
    one.spec.affinity = Some(serde_json::from_value(by_name).unwrap());
    let answer = super::review(&nodes, &[], &one);
    assert_eq!(super::fitting(&answer), ["sick"]);
    assert_eq!(super::reasons(&answer, "cordoned"), ["NodeNotNamed"]);
}
