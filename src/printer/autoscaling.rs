//! HorizontalPodAutoscaler: its metrics in one cell.
//!
//! autoscaling/v1 is an older view of the same object: one CPU target as a member, all else in annotations that the API server
//! makes while it converts (kubernetes `pkg/apis/autoscaling/v1/conversion.go`). It is read back here. Where the CPU target stood
//! among the metrics is not told by that view; the statuses, which keep their order, give it away once a controller has written
//! them. Before that it is printed first.

use serde_json::{Value, json};

use super::read::{integer, is_set, items, name, text};
use super::text::quantity;
use super::time::{Moment, age};
use super::{AGE, NAME, Printer, Row, string};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

fn horizontal_pod_autoscalers(object: &Value, now: Moment) -> Row {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let annotations = &object["metadata"]["annotations"];
    let is_old = is_set(&spec["targetCPUUtilizationPercentage"])
        || is_set(&annotations[METRICS])
        || is_set(&annotations[CURRENT_METRICS]);
    let metrics = if is_old && !is_set(&spec["metrics"]) {
        of_old_form(object)
    } else {
        cell(items(&spec["metrics"]), items(&status["currentMetrics"]))
    };
    let least = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    Row::of(vec![
        name(object),
        json!(format!("{}/{}", text(&target["kind"]), text(&target["name"]))),
        json!(metrics),
        json!(least),
        json!(integer(&spec["maxReplicas"])),
        json!(integer(&status["currentReplicas"])),
        age(object, now),
    ])
}

/// Two metrics, and how many more there are.
fn cell(metrics: &[Value], statuses: &[Value]) -> String {
    const SHOWN: usize = 2;
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let one = |(index, metric)| one(metric, statuses.get(index).unwrap_or(&Value::Null));
    let shown = metrics.iter().enumerate().take(SHOWN).map(one).collect::<Vec<_>>().join(", ");
    match metrics.len() {
        ..=SHOWN => shown,
        more => format!("{shown} + {} more...", more - SHOWN),
    }
}

fn one(metric: &Value, status: &Value) -> String {
    let kind = text(&metric["type"]);
    let member = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, status) = (&metric[member]["target"], &status[member]);
    let current = &status["current"];
    let known = |text: String| if is_set(status) { text } else { "<unknown>".to_owned() };
    match kind {
        "External" | "Object" if is_set(&target["averageValue"]) => {
            let current = match &current["averageValue"] {
                Value::Null => "<unknown>".to_owned(),
                average => quantity(average),
            };
            format!("{current}/{} (avg)", quantity(&target["averageValue"]))
        }
        "External" | "Object" => format!("{}/{}", known(pointer(&current["value"])), pointer(&target["value"])),
        "Pods" => format!("{}/{}", known(pointer(&current["averageValue"])), pointer(&target["averageValue"])),
        _ => {
            let resource = text(&metric[member]["name"]);
            if is_set(&target["averageValue"]) {
                let current = known(pointer(&current["averageValue"]));
                return format!("{resource}: {current}/{}", quantity(&target["averageValue"]));
            }
            let percent = |value: &Value, otherwise: &str| {
                value.as_i64().map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
            };
            let current = percent(&current["averageUtilization"], "<unknown>");
            format!("{resource}: {current}/{}", percent(&target["averageUtilization"], "<auto>"))
        }
    }
}

/// A pointer to a quantity as Go prints it.
fn pointer(value: &Value) -> String {
    if is_set(value) { quantity(value) } else { "<nil>".to_owned() }
}

/// The metrics of autoscaling/v1.
fn of_old_form(object: &Value) -> String {
    let (spec, annotations) = (&object["spec"], &object["metadata"]["annotations"]);
    let list = |annotation: &str, convert: fn(&Value) -> Value| -> Vec<Value> {
        let parsed: Value = serde_json::from_str(text(&annotations[annotation])).unwrap_or_default();
        items(&parsed).iter().map(convert).collect()
    };
    let mut metrics = list(METRICS, new_metric);
    let statuses = list(CURRENT_METRICS, new_status);
    if let Some(percent) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let cpu =
            json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "averageUtilization": percent } } });
        let is_cpu = |status: &Value| {
            let current = &status["resource"];
            text(&current["name"]) == "cpu" && is_set(&current["current"]["averageUtilization"])
        };
        let place = statuses.iter().position(is_cpu).unwrap_or_default();
        metrics.insert(place.min(metrics.len()), cpu);
    }
    cell(&metrics, &statuses)
}

fn new_metric(old: &Value) -> Value {
    let kind = text(&old["type"]);
    let resource = |old: &Value| {
        json!({ "name": old["name"], "target": {
            "averageValue": old["targetAverageValue"], "averageUtilization": old["targetAverageUtilization"],
        } })
    };
    match kind {
        "External" => {
            let old = &old["external"];
            let target = json!({ "value": old["targetValue"], "averageValue": old["targetAverageValue"] });
            json!({ "type": kind, "external": { "target": target } })
        }
        "Object" => {
            let old = &old["object"];
            let target = json!({ "value": old["targetValue"], "averageValue": old["averageValue"] });
            json!({ "type": kind, "object": { "target": target } })
        }
        "Pods" => json!({ "type": kind, "pods": { "target": { "averageValue": old["pods"]["targetAverageValue"] } } }),
        "Resource" => json!({ "type": kind, "resource": resource(&old["resource"]) }),
        "ContainerResource" => json!({ "type": kind, "containerResource": resource(&old["containerResource"]) }),
        _ => json!({ "type": kind }),
    }
}

fn new_status(old: &Value) -> Value {
    let kind = text(&old["type"]);
    let of = |member: &str, value: &str, average: &str| {
        let old = &old[member];
        if old.is_null() {
            return json!({ "type": kind });
        }
        json!({ "type": kind, member: { "name": old["name"], "current": {
            "value": old[value], "averageValue": old[average],
            "averageUtilization": old["currentAverageUtilization"],
        } } })
    };
    match kind {
        "External" => of("external", "currentValue", "currentAverageValue"),
        "Object" => of("object", "currentValue", "averageValue"),
        "Pods" => of("pods", "", "currentAverageValue"),
        "Resource" => of("resource", "", "currentAverageValue"),
        "ContainerResource" => of("containerResource", "", "currentAverageValue"),
        _ => json!({ "type": kind }),
    }
}

pub(super) const PRINTERS: &[Printer] = &[Printer {
    group: "autoscaling",
    resource: "horizontalpodautoscalers",
    columns: &[
        NAME,
        string(
            "Reference",
            "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics \
                 should be collected, as well as to actually change the replica count.",
        ),
        string(
            "Targets",
            "metrics contains the specifications for which to use to calculate the desired replica count (the \
                 maximum replica count across all metrics will be used).  The desired replica count is calculated \
                 multiplying the ratio between the target value and the current value by the current number of \
                 pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the \
                 individual metric source types for more information about how each type of metric must respond. If \
                 not set, the default metric will be set to 80% average CPU utilization.",
        ),
        string(
            "MinPods",
            "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale \
                 down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature gate \
                 HPAScaleToZero is enabled and at least one Object or External metric is configured.  Scaling is \
                 active as long as at least one metric value is available.",
        ),
        string(
            "MaxPods",
            "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. \
                 It cannot be less that minReplicas.",
        ),
        string(
            "Replicas",
            "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by \
                 the autoscaler.",
        ),
        AGE,
    ],
    print: horizontal_pod_autoscalers,
}];
