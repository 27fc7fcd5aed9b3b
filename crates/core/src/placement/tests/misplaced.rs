//! Running pods: misplaced ones, evictions, uses of label keys.

use serde_json::json;

use super::{Options, cluster, node, required, running, tainted, term};
use crate::placement::Eviction;
use crate::placement::review::PodReference;

fn name(pod: &PodReference) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

#[test]
fn pods_that_could_not_be_placed_again_are_found_with_their_reasons() {
    let mut place = tainted("n1", &["new:NoSchedule"]);
    place.metadata.labels.insert("disk".to_owned(), "hdd".to_owned());
    let tolerant = |spec: serde_json::Value| {
        let mut spec = spec;
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        spec
    };
    let pods = [
        running("default/fine", "n1", &[], tolerant(json!({}))),
        running("default/tainted", "n1", &[], json!({})),
        running("default/ssd", "n1", &[], tolerant(json!({"nodeSelector": {"disk": "ssd"}}))),
        running(
            "default/alone",
            "n1",
            &["app=x"],
            tolerant(required("podAntiAffinity", json!([term("app=x", "disk")]))),
        ),
        running("default/twin", "n1", &["app=x"], tolerant(json!({}))),
        running("default/elsewhere", "n2", &[], json!({"nodeSelector": {"disk": "ssd"}})),
    ];
    let mut over = running("default/over", "n1", &[], json!({"nodeSelector": {"disk": "ssd"}}));
    over.status.phase = "Succeeded".to_owned();
    let mut cluster = cluster(&[place, node("n2", &[])], &pods);
    cluster.upsert_pod(&over);
    let found = cluster.misplaced("n1", &Options::default()).unwrap();
    let reported: Vec<(String, Vec<&str>)> = found
        .iter()
        .map(|resident| (name(&resident.pod), resident.rejections.iter().map(|rejection| &*rejection.reason).collect()))
        .collect();
    assert_eq!(
        reported,
        [
            ("default/alone".to_owned(), vec!["PodAntiAffinityMismatch"]),
            ("default/ssd".to_owned(), vec!["NodeAffinityMismatch"]),
            ("default/tainted".to_owned(), vec!["UntoleratedTaint"]),
            ("default/twin".to_owned(), vec!["ExistingPodAntiAffinity"]),
        ]
    );
    assert_eq!(found[0].rejections[0].pod.as_deref(), Some("default/twin"), "not the pod itself");
    assert!(found.iter().all(|resident| resident.eviction == Eviction::Never), "nothing of this evicts");
    assert_eq!(cluster.residents("n1", &Options::default()).unwrap().len(), 6, "all pods of the node");
    assert!(cluster.misplaced("nowhere", &Options::default()).is_none());
}

#[test]
fn evictions_are_reported_with_seconds_and_the_time_of_the_taint() {
    let mut place = tainted("n1", &["gone:NoExecute"]);
    place.spec.taints[0].time_added = Some("2026-01-01T00:00:00Z".to_owned());
    let tolerating = |seconds: serde_json::Value| json!({"tolerations": [{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]});
    let mut over = running("default/over", "n1", &[], json!({}));
    over.status.phase = "Failed".to_owned();
    let pods = [
        running("default/hour", "n1", &[], tolerating(json!(3600))),
        running("default/forever", "n1", &[], tolerating(json!(null))),
        running("default/now", "n1", &[], json!({})),
        over,
    ];
    let residents = cluster(&[place], &pods).residents("n1", &Options::default()).unwrap();
    let reported: Vec<(String, Eviction, Option<&str>)> = residents
        .iter()
        .map(|resident| (name(&resident.pod), resident.eviction, resident.tainted_since.as_deref()))
        .collect();
    assert_eq!(
        reported,
        [
            ("default/forever".to_owned(), Eviction::Never, None),
            ("default/hour".to_owned(), Eviction::After(3600), Some("2026-01-01T00:00:00Z")),
            ("default/now".to_owned(), Eviction::Now, None),
            ("default/over".to_owned(), Eviction::Now, None),
        ],
        "pods that are over are evicted too"
    );
}

#[test]
fn uses_of_label_keys_are_listed_with_the_derived_requirements() {
    let with_keys = json!([{
        "labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}, {"key": "tenant", "operator": "NotIn", "values": ["a"]}]},
        "topologyKey": "pool", "mismatchLabelKeys": ["tenant"],
    }]);
    let pods = [
        running("default/b", "n1", &["tenant=a"], required("podAntiAffinity", with_keys)),
        running(
            "default/a",
            "",
            &[],
            required("podAffinity", json!([{"labelSelector": {}, "topologyKey": "pool", "matchLabelKeys": ["gone"]}])),
        ),
        running("default/c", "n1", &[], required("podAffinity", json!([term("x=y", "pool")]))),
    ];
    let uses = cluster(&[node("n1", &[])], &pods).label_key_uses();
    let reported: Vec<String> = uses
        .iter()
        .map(|one| {
            format!("{} {:?} {:?} {:?}", name(&one.pod), one.match_label_keys, one.mismatch_label_keys, one.derived)
        })
        .collect();
    let expected = [r#"default/a ["gone"] [] []"#, r#"default/b [] ["tenant"] ["tenant!=a"]"#];
    assert_eq!(reported, expected, "whether they run or not");
    assert_eq!(uses[1].field_path, "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]");
}
