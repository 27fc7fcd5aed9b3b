//! Nodes, namespaces, events, configuration, quotas, classes, leases.

use serde_json::{Map, Value, json};

use super::super::dice::{Dice, condition};
use super::{ABSENT, Draft, Kind, NAMESPACE, cluster_wide, namespaced};

pub(super) const KINDS: &[Kind] = &[
    namespaced("v1", "ConfigMap", "configmaps", 15, config_map),
    namespaced("v1", "Event", "events", 60, core_event),
    namespaced("events.k8s.io/v1", "Event", "events", 40, new_event),
    namespaced("v1", "LimitRange", "limitranges", 3, limit_range),
    cluster_wide("v1", "Namespace", "namespaces", 10, namespace),
    cluster_wide("v1", "Node", "nodes", 50, node),
    namespaced("v1", "ResourceQuota", "resourcequotas", 25, quota),
    namespaced("v1", "Secret", "secrets", 15, secret),
    namespaced("v1", "ServiceAccount", "serviceaccounts", 3, account),
    namespaced("coordination.k8s.io/v1", "Lease", "leases", 15, lease),
    cluster_wide("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", 5, runtime_class),
    cluster_wide("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", 12, priority_class),
    cluster_wide("apiregistration.k8s.io/v1", "APIService", "apiservices", 6, api_service),
];

fn data(dice: &mut Dice, prefix: &str, value: &str) -> Value {
    let count = dice.below(5);
    let members: Map<String, Value> = (0..count).map(|index| (format!("{prefix}{index}"), value.into())).collect();
    dice.maybe(70, members)
}

fn config_map(dice: &mut Dice) -> Draft {
    Draft::new(json!({ "data": data(dice, "text", "x"), "binaryData": data(dice, "bytes", "eA==") }))
}

fn secret(dice: &mut Dice) -> Draft {
    let kind = dice.pick(&["example.com/kind", "Opaque"]);
    Draft::new(json!({ "data": data(dice, "key", "eA=="), "type": dice.maybe(70, kind) }))
}

fn account(_dice: &mut Dice) -> Draft {
    Draft::new(json!({}))
}

fn limit_range(_dice: &mut Dice) -> Draft {
    Draft::new(json!({ "spec": { "limits": [{ "type": "Pod", "max": { "cpu": "2" } }] } }))
}

fn namespace(dice: &mut Dice) -> Draft {
    Draft::new(json!({ "metadata": { "labels": dice.map(2) } })).going(dice, 30)
}

fn quota(dice: &mut Dice) -> Draft {
    let names = [
        "pods",
        "cpu",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
        "services",
        "count/jobs.batch",
        "requests.storage",
        "limits.ephemeral-storage",
        "gold.storageclass.storage.k8s.io/requests.storage",
    ];
    let (mut hard, mut used) = (Map::new(), Map::new());
    for name in names {
        if dice.chance(45) {
            hard.insert(name.to_owned(), dice.pick(&["1", "20", "4000Mi"]).into());
            if dice.chance(75) {
                used.insert(name.to_owned(), dice.pick(&["0", "1", "7"]).into());
            }
        }
    }
    Draft::new(json!({ "spec": { "hard": hard } })).status(json!({ "hard": hard, "used": used }))
}

fn node(dice: &mut Dice) -> Draft {
    let mut labels = dice.map(2);
    for role in ["control-plane", "worker", "", "ingress"] {
        if dice.chance(25) {
            labels[format!("node-role.kubernetes.io/{role}").trim_end_matches('/')] = dice.pick(&["", "true"]).into();
        }
    }
    if dice.chance(25) {
        labels["kubernetes.io/role"] = dice.pick(&["", "special", "worker"]).into();
    }
    let closed = dice.chance(50);
    let kinds = ["Ready", "MemoryPressure", "DiskPressure"];
    let conditions: Vec<Value> = kinds
        .iter()
        .filter(|_| dice.chance(75))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|kind| condition(dice, kind))
        .collect();
    let addresses = dice.list(5, |dice, index| {
        let kind = dice.pick(&["InternalIP", "ExternalIP", "Hostname", "InternalDNS"]);
        let address = match kind {
            "InternalIP" | "ExternalIP" => format!("10.0.{index}.1"),
            _ => format!("n{index}.example.com"),
        };
        json!({ "type": kind, "address": address })
    });
    let texts: Vec<Value> = ["v1.36.3", "Debian GNU/Linux 13", "6.12.0 <x&y>", "containerd://2.1", "amd64"]
        .into_iter()
        .map(|text| if dice.chance(70) { json!(text) } else { json!("") })
        .collect();
    let info = json!({
        "kubeletVersion": texts[0], "osImage": texts[1], "kernelVersion": texts[2], "containerRuntimeVersion": texts[3],
        "architecture": texts[4], "bootID": "", "machineID": "", "systemUUID": "", "kubeProxyVersion": "", "operatingSystem": "",
    });
    Draft::new(json!({ "metadata": { "labels": labels }, "spec": { "unschedulable": dice.maybe(40, closed) } }))
        .status(json!({ "conditions": conditions, "addresses": addresses, "nodeInfo": info }))
}

fn object(dice: &mut Dice) -> Value {
    let (kind, name) = (dice.pick(&["Pod", "ReplicaSet", "HorizontalPodAutoscaler"]), dice.word());
    let path = dice.maybe(40, "spec.containers{c}");
    json!({ "kind": dice.maybe(90, kind), "name": dice.maybe(90, name), "namespace": NAMESPACE, "fieldPath": path })
}

fn message(dice: &mut Dice) -> &'static str {
    dice.pick(&["Started.", "  with space around \n", "two\nlines\t<&>", "", "ümläut \u{2028} and more"])
}

fn core_event(dice: &mut Dice) -> Draft {
    let source = json!({ "component": dice.maybe(70, "kubelet"), "host": dice.maybe(50, "node-1") });
    let (first, last, fine) = (dice.moment(), dice.moment(), dice.fine_moment());
    let (count, kind) = (dice.below(30), dice.pick(&["Normal", "Warning"]));
    let series = json!({ "count": 2 + dice.below(9), "lastObservedTime": dice.fine_moment() });
    let is_new = dice.chance(35);
    Draft::new(json!({
        "involvedObject": object(dice),
        "reason": dice.pick(&["Happened", "Failed"]),
        "message": message(dice),
        "source": source,
        "firstTimestamp": dice.maybe(70, first),
        "lastTimestamp": dice.maybe(70, last),
        "count": dice.maybe(60, count),
        "type": kind,
        "eventTime": if is_new { json!(fine) } else { Value::Null },
        "action": "Acted",
        "reportingComponent": if is_new || dice.chance(50) { "example.com/reporter" } else { "" },
        "reportingInstance": if is_new || dice.chance(40) { "reporter-1" } else { "" },
        "series": if is_new { dice.maybe(50, series) } else { Value::Null },
    }))
}

fn new_event(dice: &mut Dice) -> Draft {
    let (kind, fine) = (dice.pick(&["Normal", "Warning"]), dice.fine_moment());
    let series = json!({ "count": 2 + dice.below(9), "lastObservedTime": dice.fine_moment() });
    Draft::new(json!({
        "regarding": object(dice), "reason": dice.pick(&["Happened", "Failed"]), "note": message(dice), "type": kind, "action": "Acted",
        "eventTime": fine, "reportingController": "example.com/reporter", "reportingInstance": "reporter-2",
        "series": dice.maybe(50, series),
    }))
}

fn lease(dice: &mut Dice) -> Draft {
    let holder = dice.word();
    Draft::new(json!({ "spec": { "holderIdentity": dice.maybe(70, holder), "leaseDurationSeconds": 15 } }))
}

fn runtime_class(dice: &mut Dice) -> Draft {
    Draft::new(json!({ "handler": dice.word() }))
}

fn priority_class(dice: &mut Dice) -> Draft {
    let (policy, number) = (dice.pick(&["Never", "PreemptLowerPriority"]), dice.below(2000));
    let number = i64::try_from(number).expect("a small number") - 1000;
    // The second default is refused.
    let is_default = dice.chance(12);
    Draft::new(
        json!({ "value": number, "globalDefault": is_default, "preemptionPolicy": dice.maybe(60, policy), "description": "x" }),
    )
}

/// Named by its group and version; see `mod`.
fn api_service(dice: &mut Dice) -> Draft {
    Draft::new(json!({ "spec": {
        "group": ABSENT, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "insecureSkipTLSVerify": true, "service": { "name": dice.word(), "namespace": NAMESPACE },
    } }))
}
