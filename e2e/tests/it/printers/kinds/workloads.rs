//! What makes pods, and what guards and scales it.

use serde_json::{Value, json};

use super::super::dice::{Dice, condition};
use super::pods::template;
use super::{Draft, Kind, namespaced};

pub(super) const KINDS: &[Kind] = &[
    namespaced("v1", "ReplicationController", "replicationcontrollers", 25, replication_controller),
    namespaced("apps/v1", "ControllerRevision", "controllerrevisions", 15, controller_revision),
    namespaced("apps/v1", "DaemonSet", "daemonsets", 25, daemon_set),
    namespaced("apps/v1", "Deployment", "deployments", 40, deployment),
    namespaced("apps/v1", "ReplicaSet", "replicasets", 30, replica_set),
    namespaced("apps/v1", "StatefulSet", "statefulsets", 25, stateful_set),
    namespaced("batch/v1", "CronJob", "cronjobs", 30, cron_job),
    namespaced("batch/v1", "Job", "jobs", 60, job),
    namespaced("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", 20, budget),
    namespaced("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", 60, autoscaler),
];

/// Numbers that go down: of so many, so many are ready, so many of these available.
fn falling(dice: &mut Dice) -> [usize; 3] {
    let all = dice.below(12);
    let ready = dice.below(all + 1);
    [all, ready, dice.below(ready + 1)]
}

/// A selector and labels that it selects.
fn selected(dice: &mut Dice) -> (Value, Value) {
    let mut labels = dice.map(3);
    labels["app"] = dice.word().into();
    let app = labels["app"].clone();
    let tier = labels.get("tier").cloned();
    let mut expressions = vec![json!({ "key": "nowhere", "operator": "DoesNotExist" })];
    if dice.chance(50) {
        expressions.push(json!({ "key": "app", "operator": "In", "values": ["zz", app, "aa"] }));
    }
    if let Some(tier) = tier.filter(|_| dice.chance(60)) {
        expressions.push(json!({ "key": "tier", "operator": "Exists" }));
        expressions.push(json!({ "key": "tier", "operator": "In", "values": [tier] }));
    }
    if dice.chance(50) {
        expressions.remove(0);
    }
    let mut matched = labels.clone();
    if dice.chance(30) && !expressions.is_empty() {
        matched = json!({});
    }
    (json!({ "matchLabels": matched, "matchExpressions": expressions }), labels)
}

fn replication_controller(dice: &mut Dice) -> Draft {
    let (_, labels) = selected(dice);
    let [all, ready, available] = falling(dice);
    let count = dice.below(5);
    let spec = json!({
        "replicas": dice.maybe(80, count), "selector": labels, "template": template(dice, labels.clone(), "Always"),
    });
    Draft::new(json!({ "spec": spec })).status(json!({
        "replicas": all, "readyReplicas": ready, "availableReplicas": available,
    }))
}

fn replica_set(dice: &mut Dice) -> Draft {
    let (selector, labels) = selected(dice);
    let [all, ready, available] = falling(dice);
    let count = dice.below(5);
    let spec = json!({
        "replicas": dice.maybe(80, count), "selector": selector, "template": template(dice, labels, "Always"),
    });
    Draft::new(json!({ "spec": spec }))
        .status(json!({ "replicas": all, "readyReplicas": ready, "availableReplicas": available }))
}

fn deployment(dice: &mut Dice) -> Draft {
    let (selector, labels) = selected(dice);
    let [all, ready, available] = falling(dice);
    let (count, updated) = (dice.below(5), dice.below(all + 1));
    let spec = json!({
        "replicas": dice.maybe(80, count), "selector": selector, "template": template(dice, labels, "Always"),
    });
    let draft = Draft::new(json!({ "spec": spec })).going(dice, 5);
    if dice.chance(10) {
        return draft;
    }
    draft.status(json!({
        "replicas": all, "readyReplicas": ready, "availableReplicas": available, "updatedReplicas": updated,
        "unavailableReplicas": all - available,
    }))
}

fn stateful_set(dice: &mut Dice) -> Draft {
    let (selector, labels) = selected(dice);
    let [all, ready, available] = falling(dice);
    let count = dice.below(5);
    let spec = json!({
        "replicas": dice.maybe(80, count), "serviceName": "x", "selector": selector,
        "template": template(dice, labels, "Always"),
    });
    Draft::new(json!({ "spec": spec }))
        .status(json!({ "replicas": all, "readyReplicas": ready, "availableReplicas": available }))
}

fn daemon_set(dice: &mut Dice) -> Draft {
    let (selector, labels) = selected(dice);
    let mut template = template(dice, labels, "Always");
    template["spec"]["nodeSelector"] = dice.map(3);
    let mut number = || dice.below(9);
    let status = json!({
        "desiredNumberScheduled": number(), "currentNumberScheduled": number(), "numberReady": number(),
        "updatedNumberScheduled": number(), "numberAvailable": number(), "numberMisscheduled": number(),
    });
    Draft::new(json!({ "spec": { "selector": selector, "template": template } })).status(status)
}

fn controller_revision(dice: &mut Dice) -> Draft {
    let (kinds, groups) = (["StatefulSet", "DaemonSet", "Odd"], ["apps/v1", "v1", "example.com/v1beta1"]);
    let owners = dice.list(2, |dice, index| {
        json!({
            "apiVersion": dice.pick(&groups), "kind": dice.pick(&kinds), "name": format!("owner-{index}"),
            "uid": format!("uid-{index}"), "controller": dice.maybe(70, index == 0),
        })
    });
    Draft::new(json!({ "metadata": { "ownerReferences": owners }, "revision": dice.below(1000), "data": { "x": 1 } }))
}

fn cron_job(dice: &mut Dice) -> Draft {
    let labels = dice.map(2);
    let template = template(dice, labels, "Never");
    let (suspended, zone) = (dice.chance(50), dice.pick(&["Europe/Berlin", "Etc/UTC"]));
    let spec = json!({
        "schedule": dice.pick(&["* * * * *", "*/5 1 * * *", "@daily"]), "suspend": dice.maybe(70, suspended),
        "timeZone": dice.maybe(40, zone), "jobTemplate": { "spec": { "template": template } },
    });
    let active = dice.list(3, |_, index| {
        json!({ "kind": "Job", "apiVersion": "batch/v1", "name": format!("j{index}"), "namespace": super::NAMESPACE,
                "uid": format!("u{index}") })
    });
    let last = dice.moment();
    Draft::new(json!({ "spec": spec })).status(json!({ "active": active, "lastScheduleTime": dice.maybe(70, last) }))
}

fn job(dice: &mut Dice) -> Draft {
    let labels = dice.map(2);
    let (wanted, at_once) = (1 + dice.below(5), dice.below(4));
    let suspended = dice.chance(20);
    let spec = json!({
        "template": template(dice, labels, "Never"), "completions": dice.maybe(50, wanted),
        "parallelism": dice.maybe(60, at_once), "suspend": dice.maybe(50, suspended),
    });
    let draft = Draft::new(json!({ "spec": spec })).going(dice, 15);
    // Moments must be in order, and what has ended must say so in two conditions.
    let moments = ["2021-01-02T03:04:05Z", "2021-01-02T03:04:55Z", "2021-01-02T04:14:05Z", "2021-03-09T03:04:06Z"];
    let first = dice.below(3);
    let end = moments[first + 1 + dice.below(3 - first)];
    let is = |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastTransitionTime": end });
    let succeeded = dice.below(wanted + 1);
    let status = match dice.below(8) {
        0 => return draft,
        1 => json!({ "startTime": moments[first], "completionTime": end, "succeeded": wanted,
                     "conditions": [is("SuccessCriteriaMet", "True"), is("Complete", "True")] }),
        2 => json!({ "startTime": moments[first], "failed": 2, "succeeded": succeeded,
                     "conditions": [is("FailureTarget", "True"), is("Failed", "True")] }),
        3 => json!({ "startTime": moments[first], "active": 1, "conditions": [is("FailureTarget", "True")] }),
        4 => json!({ "startTime": moments[first], "active": 1, "conditions": [is("SuccessCriteriaMet", "True")] }),
        5 => json!({ "conditions": [is("Suspended", "True")] }),
        6 => json!({ "startTime": dice.moment(), "conditions": [is("Suspended", "False")], "succeeded": succeeded }),
        _ => json!({ "startTime": dice.moment(), "active": 1, "succeeded": succeeded, "ready": 0 }),
    };
    draft.status(status)
}

fn budget(dice: &mut Dice) -> Draft {
    let (number, percent) = (dice.below(5), format!("{}%", dice.below(101)));
    let amount = if dice.chance(50) { json!(number) } else { json!(percent) };
    let member = dice.pick(&["minAvailable", "maxUnavailable", "none"]);
    let mut spec = json!({ "selector": dice.selector() });
    if member != "none" {
        spec[member] = amount;
    }
    Draft::new(json!({ "spec": spec })).status(json!({
        "disruptionsAllowed": dice.below(7), "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
    }))
}

fn quantity(dice: &mut Dice) -> &'static str {
    dice.pick(&["100m", "1", "1500m", "2k", "0.5", "12Mi", "1e3", "3000Ki", "0"])
}

/// A target as API servers accept it for metrics of this kind.
fn target(dice: &mut Dice, kinds: &[&str]) -> Value {
    match dice.pick(kinds) {
        "Value" => json!({ "type": "Value", "value": quantity(dice) }),
        "AverageValue" => json!({ "type": "AverageValue", "averageValue": quantity(dice) }),
        _ => json!({ "type": "Utilization", "averageUtilization": 1 + dice.below(120) }),
    }
}

/// A metric and its status.
fn metric(dice: &mut Dice, index: usize) -> (Value, Value) {
    let named =
        json!({ "name": format!("m{index}"), "selector": dice.maybe(20, json!({ "matchLabels": { "a": "b" } })) });
    let (value, average, percent) = (quantity(dice), quantity(dice), dice.below(200));
    let current = json!({
        "value": dice.maybe(60, value), "averageValue": dice.maybe(60, average),
        "averageUtilization": dice.maybe(60, percent),
    });
    let resource = dice.pick(&["cpu", "cpu", "memory"]);
    match dice.below(5) {
        0 => (
            json!({ "type": "External", "external": { "metric": named, "target": target(dice, &["Value", "AverageValue"]) } }),
            json!({ "type": "External", "external": { "metric": named, "current": current } }),
        ),
        1 => (
            json!({ "type": "Pods", "pods": { "metric": named, "target": target(dice, &["AverageValue"]) } }),
            json!({ "type": "Pods", "pods": { "metric": named, "current": current } }),
        ),
        2 => {
            let object = json!({ "kind": "Service", "name": "x", "apiVersion": "v1" });
            let target = target(dice, &["Value", "AverageValue"]);
            (
                json!({ "type": "Object", "object": { "metric": named, "describedObject": object, "target": target } }),
                json!({ "type": "Object", "object": { "metric": named, "describedObject": object, "current": current } }),
            )
        }
        3 => (
            json!({ "type": "Resource", "resource": {
                "name": resource, "target": target(dice, &["Utilization", "AverageValue"]) } }),
            json!({ "type": "Resource", "resource": { "name": resource, "current": current } }),
        ),
        _ => (
            json!({ "type": "ContainerResource", "containerResource": {
                "name": resource, "container": "c", "target": target(dice, &["Utilization", "AverageValue"]) } }),
            json!({ "type": "ContainerResource", "containerResource": {
                "name": resource, "container": "c", "current": current } }),
        ),
    }
}

fn autoscaler(dice: &mut Dice) -> Draft {
    let count = dice.below(5);
    let (mut metrics, mut statuses) = (Vec::new(), Vec::new());
    for index in 0..count {
        let (metric, mut status) = metric(dice, index);
        metrics.push(metric);
        if dice.chance(8) {
            // A status that speaks of something else.
            status = self::metric(dice, index).1;
        }
        statuses.push(status);
    }
    statuses.truncate(dice.below(count + 2));
    let least = 1 + dice.below(3);
    let reference =
        json!({ "kind": dice.pick(&["Deployment", "StatefulSet"]), "name": dice.word(), "apiVersion": "apps/v1" });
    let spec = json!({
        "scaleTargetRef": reference, "minReplicas": dice.maybe(60, least), "maxReplicas": 3 + dice.below(10), "metrics": metrics,
    });
    let draft = Draft::new(json!({ "spec": spec }));
    if dice.chance(15) {
        return draft;
    }
    draft.status(json!({
        "currentReplicas": dice.below(9), "desiredReplicas": dice.below(9), "currentMetrics": statuses,
        "conditions": [condition(dice, "ScalingActive")],
    }))
}
