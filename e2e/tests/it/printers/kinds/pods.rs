//! Pods: every state that its containers can be in, and combinations of them that no kubelet would report.

use serde_json::{Value, json};

use super::super::dice::{Dice, condition};
use super::{Draft, Kind, namespaced};

pub(super) const KINDS: &[Kind] =
    &[namespaced("v1", "Pod", "pods", 160, pod), namespaced("v1", "PodTemplate", "podtemplates", 15, pod_template)];

/// One to three containers.
pub(super) fn containers(dice: &mut Dice) -> Value {
    let count = 1 + dice.below(3);
    (0..count)
        .map(|index| json!({ "name": format!("c{index}"), "image": format!("{}:{}", dice.word(), dice.below(9)) }))
        .collect()
}

/// A pod template with these labels.
pub(super) fn template(dice: &mut Dice, labels: Value, restart_policy: &str) -> Value {
    let spec = json!({ "containers": containers(dice), "restartPolicy": restart_policy });
    json!({ "metadata": { "labels": labels }, "spec": spec })
}

fn pod_template(dice: &mut Dice) -> Draft {
    let labels = dice.map(4);
    Draft::new(json!({ "template": template(dice, labels, "Always") }))
}

fn pod(dice: &mut Dice) -> Draft {
    let containers = containers(dice);
    let inits = dice.list(3, |dice, index| {
        let policy = dice.maybe(40, "Always");
        json!({ "name": format!("i{index}"), "image": "init:1", "restartPolicy": policy })
    });
    let gates = dice.list(2, |_, index| json!({ "conditionType": format!("example.com/gate-{index}") }));
    let spec = json!({
        "containers": containers, "initContainers": inits, "readinessGates": gates,
        "nodeName": dice.maybe(60, "node-1"),
        "schedulingGates": Value::Null,
    });
    let statuses = |dice: &mut Dice, containers: &Value| -> Value {
        let calm = dice.chance(30);
        let containers = containers.as_array().cloned().unwrap_or_default();
        containers.iter().filter_map(|container| container_status(dice, &container["name"], calm)).collect()
    };
    let init_statuses = if dice.chance(80) { statuses(dice, &inits) } else { json!([]) };
    let container_statuses = if dice.chance(85) { statuses(dice, &containers) } else { json!([]) };
    let kinds = ["Initialized", "Ready", "PodScheduled", "example.com/gate-0", "example.com/gate-1"];
    let mut conditions: Vec<Value> = kinds
        .iter()
        .filter(|_| dice.chance(55))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|kind| condition(dice, kind))
        .collect();
    let has_begun = !dice.chance(12);
    if !has_begun {
        let reason = dice.pick(&["SchedulingGated", "Unschedulable"]);
        conditions.push(json!({ "type": "PodScheduled", "status": "False", "reason": reason }));
    }
    let addresses: Vec<Value> = match dice.below(3) {
        0 => Vec::new(),
        1 => vec![json!({ "ip": "10.1.2.3" })],
        _ => vec![json!({ "ip": "10.1.2.3" }), json!({ "ip": "fd00::3" })],
    };
    let reason = dice.pick(&["Evicted", "NodeLost", "NodeLost", "Shutdown"]);
    let (init_statuses, container_statuses) =
        if has_begun { (init_statuses, container_statuses) } else { (Value::Null, Value::Null) };
    let status = json!({
        "phase": dice.pick(&["Pending", "Running", "Running", "Running", "Succeeded", "Failed", "Unknown"]),
        "reason": dice.maybe(12, reason),
        "conditions": conditions,
        "initContainerStatuses": init_statuses,
        "containerStatuses": container_statuses,
        "podIP": addresses.first().map_or(Value::Null, |address| address["ip"].clone()),
        "podIPs": addresses,
        "nominatedNodeName": dice.maybe(15, "node-2"),
    });
    let draft = Draft::new(json!({ "metadata": { "labels": dice.map(3) }, "spec": spec })).going(dice, 18);
    if dice.chance(92) { draft.status(status) } else { draft }
}

/// The status of a container; seldom none.
fn container_status(dice: &mut Dice, name: &Value, is_calm: bool) -> Option<Value> {
    if dice.chance(4) {
        return None;
    }
    let restarts = if dice.chance(50) { dice.below(12) } else { 0 };
    let last = if restarts > 0 && dice.chance(75) { json!({ "terminated": terminated(dice) }) } else { json!({}) };
    let state = match dice.below(if is_calm { 6 } else { 12 }) {
        0..=3 => json!({ "running": { "startedAt": dice.moment() } }),
        4 => json!({ "terminated": { "exitCode": 0, "reason": "Completed", "finishedAt": dice.moment() } }),
        5 => json!({}),
        6 => json!({ "waiting": {} }),
        7 | 8 => {
            let reasons = ["PodInitializing", "ContainerCreating", "CrashLoopBackOff", "ImagePullBackOff"];
            json!({ "waiting": { "reason": dice.pick(&reasons) } })
        }
        _ => json!({ "terminated": terminated(dice) }),
    };
    let (ready, started) = (dice.chance(60), dice.maybe(70, true));
    Some(json!({
        "name": name, "image": "x:1", "imageID": "x", "ready": ready, "started": started, "restartCount": restarts,
        "state": state, "lastState": last,
    }))
}

fn terminated(dice: &mut Dice) -> Value {
    let code = if dice.chance(35) { 0 } else { 1 + dice.below(254) };
    let reason = dice.pick(&["Completed", "Error", "OOMKilled", "ContainerCannotRun"]);
    let finished = dice.moment();
    json!({
        "exitCode": code, "signal": dice.maybe(25, 9), "reason": dice.maybe(65, reason),
        "finishedAt": dice.maybe(90, finished),
    })
}
