//! An API server's changes to a new Pod.

use serde_json::{Value, json};

use super::{Options, incoming, required};
use crate::placement::admission::{AdmissionError, RuntimeScheduling, admit};
use crate::placement::pod::{Pod, Toleration};

fn tolerations(pod: &Pod) -> Value {
    serde_json::to_value(&pod.spec.tolerations).unwrap()
}

fn default_for(key: &str, seconds: i64) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

#[test]
fn default_tolerations_are_added_for_each_key_that_is_not_given() {
    let both = [default_for(NOT_READY, 300), default_for(UNREACHABLE, 300)];
    let rows: Vec<(Value, Vec<Value>, &str)> = vec![
        (json!([]), both.to_vec(), "none given"),
        (json!([{"key": "other", "operator": "Exists"}]), both.to_vec(), "another key"),
        (
            json!([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]),
            vec![both[1].clone()],
            "one of the two",
        ),
        (
            json!([{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}]),
            vec![both[0].clone()],
            "the other",
        ),
        (json!([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}]), both.to_vec(), "another effect"),
        (json!([{"key": NOT_READY, "operator": "Exists"}]), vec![both[1].clone()], "every effect"),
        (json!([{"operator": "Exists"}]), vec![], "everything"),
        (json!([{"operator": "Exists", "effect": "NoExecute"}]), vec![], "everything that evicts"),
        (json!([{"operator": "Exists", "effect": "NoSchedule"}]), both.to_vec(), "everything else"),
        (
            json!([{"key": NOT_READY, "operator": "Equal", "value": "never", "effect": "NoExecute"}]),
            vec![both[1].clone()],
            "operator and value are not looked at",
        ),
        (
            json!([{"key": "node.alpha.kubernetes.io/notReady", "operator": "Exists"}]),
            both.to_vec(),
            "an old key is another key",
        ),
    ];
    for (given, added, why) in rows {
        let pod = admit(incoming(json!({"tolerations": given})), None, &Options::default()).unwrap();
        let mut expected = given.as_array().unwrap().clone();
        expected.extend(added);
        assert_eq!(tolerations(&pod), Value::from(expected), "{why}: appended in this order");
    }
    let options = Options {
        default_not_ready_toleration_seconds: 10,
        default_unreachable_toleration_seconds: 20,
        ..Options::default()
    };
    let pod = admit(incoming(json!({})), None, &options).unwrap();
    assert_eq!(
        tolerations(&pod),
        json!([default_for(NOT_READY, 10), default_for(UNREACHABLE, 20)]),
        "flags of the API server"
    );
}

#[test]
fn a_pod_without_a_namespace_goes_to_default() {
    let mut pod = Pod::default();
    assert_eq!(admit(pod.clone(), None, &Options::default()).unwrap().metadata.namespace, "default");
    pod.metadata.namespace = "own".to_owned();
    assert_eq!(admit(pod, None, &Options::default()).unwrap().metadata.namespace, "own");
}

#[test]
fn a_runtime_class_merges_its_constraints() {
    let runtime: RuntimeScheduling = serde_json::from_value(json!({
        "nodeSelector": {"runtime": "gvisor"},
        "tolerations": [{"key": "runtime", "operator": "Exists"}],
    }))
    .unwrap();
    let given = json!({
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"key": "runtime", "operator": "Equal", "value": "gvisor", "effect": "NoSchedule"},
            {"operator": "Exists", "effect": "NoExecute"},
        ],
    });
    let pod = admit(incoming(given), Some(&runtime), &Options::default()).unwrap();
    assert_eq!(serde_json::to_value(&pod.spec.node_selector).unwrap(), json!({"disk": "ssd", "runtime": "gvisor"}));
    let expected = json!([{"operator": "Exists", "effect": "NoExecute"}, {"key": "runtime", "operator": "Exists"}]);
    assert_eq!(tolerations(&pod), expected, "the narrower of two goes");
    let conflict = admit(incoming(json!({"nodeSelector": {"runtime": "kata"}})), Some(&runtime), &Options::default());
    let message = "pods \"\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[runtime] = gvisor; pod.spec.nodeSelector[runtime] = kata";
    assert_eq!(conflict.unwrap_err(), AdmissionError::Forbidden(message.to_owned()));
}

#[test]
fn tolerations_are_merged_by_what_they_cover() {
    let one = |value: Value| serde_json::from_value::<Toleration>(value).unwrap();
    let rows = [
        (json!({"key": "a", "operator": "Exists"}), json!({"key": "a", "operator": "Exists"}), 1, "equals"),
        (json!({"key": "a", "operator": "Exists"}), json!({"key": "b", "operator": "Exists"}), 2, "different keys"),
        (
            json!({"key": "a", "operator": "Equal", "value": "x"}),
            json!({"key": "a", "operator": "Exists"}),
            1,
            "every value covers one",
        ),
        (
            json!({"operator": "Exists"}),
            json!({"key": "a", "operator": "Equal", "value": "x"}),
            1,
            "everything covers one",
        ),
        (
            json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"}),
            json!({"key": "a", "operator": "Exists"}),
            1,
            "every effect covers one",
        ),
        (
            json!({"key": "a", "operator": "Exists", "effect": "NoExecute"}),
            json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}),
            1,
            "no limit covers a limit",
        ),
        (
            json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}),
            json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}),
            1,
            "more time covers less",
        ),
        (
            json!({"key": "a", "operator": "Equal", "value": "x"}),
            json!({"key": "a", "operator": "Equal", "value": "y"}),
            2,
            "different values",
        ),
    ];
    for (first, second, expected, why) in rows {
        for (own, of_class) in [(&first, &second), (&second, &first)] {
            let runtime =
                RuntimeScheduling { tolerations: vec![one(of_class.clone())], ..RuntimeScheduling::default() };
            // Both defaults are suppressed by effects that nothing here covers.
            let pod = admit(incoming(json!({"tolerations": [own]})), Some(&runtime), &Options::default()).unwrap();
            let ours =
                pod.spec.tolerations.iter().filter(|toleration| !toleration.key.starts_with("node.kubernetes.io/"));
            assert_eq!(ours.count(), expected, "{why}, either way round");
        }
    }
}

#[test]
fn hard_anti_affinity_may_be_limited_to_the_hostname() {
    let limited = Options { limit_hard_anti_affinity_topology: true, ..Options::default() };
    let by_zone = incoming(required("podAntiAffinity", json!([super::term("a=1", "zone")])));
    let by_host = incoming(required("podAntiAffinity", json!([super::term("a=1", "kubernetes.io/hostname")])));
    let toward = incoming(required("podAffinity", json!([super::term("a=1", "zone")])));
    let soft = incoming(super::preferred("podAntiAffinity", 1, super::term("a=1", "zone")));
    assert!(admit(by_zone.clone(), None, &Options::default()).is_ok(), "off by default");
    let message = "pods \"\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed";
    assert_eq!(admit(by_zone, None, &limited).unwrap_err().to_string(), message);
    for (pod, what) in [(by_host, "the hostname"), (toward, "affinity"), (soft, "a preference")] {
        assert!(admit(pod, None, &limited).is_ok(), "{what} is allowed");
    }
}
