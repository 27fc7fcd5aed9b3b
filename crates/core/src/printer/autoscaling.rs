//! Printer (table row of `kubectl get`) of HorizontalPodAutoscaler, with its metrics in one cell.
//!
//! autoscaling/v1 is an older form of the same object. It has one CPU target as a member, and all other metrics in
//! annotations that the API server writes when it converts (kubernetes `pkg/apis/autoscaling/v1/conversion.go`). This
//! module reads these annotations. The older form does not contain the position of the CPU target among the metrics.
//! The statuses are in the same order, so they show the position once a controller has written them. Before that, the
//! CPU target is printed first.

use std::borrow::Cow;

use serde_json::json;

use crate::json::Json;
use crate::json::tree::Tree;

use super::column::{AGE, NAME, string};
use super::kind::{PrintedRow, Printer};
use super::read::{integer, is_set, items, name, text};
use super::text::quantity;
use super::time::{Moment, age};

// The annotations with the metrics of autoscaling/v1 and with their statuses.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// The row of a HorizontalPodAutoscaler of v1 or v2.
fn horizontal_pod_autoscalers(object: Json<'_>, now: Moment) -> PrintedRow {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let target = spec.at("scaleTargetRef");
    let annotations = object.at("metadata").at("annotations");
    // Whether the object has the form of v1.
    let is_old = is_set(spec.at("targetCPUUtilizationPercentage"))
        || is_set(annotations.at(METRICS))
        || is_set(annotations.at(CURRENT_METRICS));
    let metrics = if is_old && !is_set(spec.at("metrics")) {
        v1_metrics(object)
    } else {
        let statuses = items(status.at("currentMetrics"));
        let current = |index: usize, kind: &str| statuses.clone().nth(index).and_then(|one| Amount::current(one, kind));
        cell(items(spec.at("metrics")).map(Metric::from_json), current)
    };
    let least = spec.at("minReplicas").as_i64().map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    PrintedRow::new(vec![
        name(object),
        json!(format!("{}/{}", text(target.at("kind")), text(target.at("name")))),
        json!(metrics),
        json!(least),
        json!(integer(spec.at("maxReplicas"))),
        json!(integer(status.at("currentReplicas"))),
        age(object, now),
    ])
}

/// The name of the member that has the details of a metric of this type; `None` for an unknown type.
fn member_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return None,
    })
}

/// The target or the current value of a metric.
struct Amount<'a> {
    /// The name of a resource, such as `cpu`; empty for other metrics.
    name: Cow<'a, str>,
    /// A quantity; [`Json::NOTHING`] if it is not set.
    value: Json<'a>,
    /// A quantity for each pod; [`Json::NOTHING`] if it is not set.
    average: Json<'a>,
    /// The mean utilization of a resource, in per cent of the request.
    percent: Option<i64>,
}

/// One metric of spec.
struct Metric<'a> {
    /// Its type, such as `Resource`.
    kind: Cow<'a, str>,
    target: Amount<'a>,
}

impl<'a> Metric<'a> {
    /// Reads a metric of autoscaling/v2.
    fn from_json(metric: Json<'a>) -> Metric<'a> {
        let kind = text(metric.at("type"));
        let metric = member_of(&kind).map_or(Json::NOTHING, |member| metric.at(member));
        Metric { kind, target: Amount::from_json(text(metric.at("name")), metric.at("target")) }
    }

    /// Reads a metric in the form of autoscaling/v1.
    fn from_v1(metric: Json<'a>) -> Metric<'a> {
        let kind = text(metric.at("type"));
        let metric = member_of(&kind).map_or(Json::NOTHING, |member| metric.at(member));
        let average = if kind == "Object" { "averageValue" } else { "targetAverageValue" };
        let target = Amount {
            name: text(metric.at("name")),
            value: metric.at("targetValue"),
            average: metric.at(average),
            percent: metric.at("targetAverageUtilization").as_i64(),
        };
        Metric { kind, target }
    }
}

impl<'a> Amount<'a> {
    /// Reads the target or the current value of a metric of autoscaling/v2. `name` is that of its resource.
    fn from_json(name: Cow<'a, str>, amount: Json<'a>) -> Amount<'a> {
        let (value, average) = (amount.at("value"), amount.at("averageValue"));
        Amount { name, value, average, percent: amount.at("averageUtilization").as_i64() }
    }

    /// The current value in the status of a metric of type `kind`, in the form of autoscaling/v2; `None` if it has none
    /// of that type.
    fn current(status: Json<'a>, kind: &str) -> Option<Amount<'a>> {
        let status = status.at(member_of(kind)?);
        is_set(status).then(|| Amount::from_json(text(status.at("name")), status.at("current")))
    }

    /// Like [`Amount::current`], in the form of autoscaling/v1.
    fn current_v1(status: Json<'a>, kind: &str) -> Option<Amount<'a>> {
        let member = member_of(kind).filter(|_| text(status.at("type")) == kind)?;
        let status = status.at(member);
        let average = if kind == "Object" { "averageValue" } else { "currentAverageValue" };
        is_set(status).then(|| Amount {
            name: text(status.at("name")),
            value: status.at("currentValue"),
            average: status.at(average),
            percent: status.at("currentAverageUtilization").as_i64(),
        })
    }
}

/// The cell with the first two metrics and the number of further ones; `<none>` without metrics. `current` returns the
/// current value of a metric, from its index and its type.
fn cell<'a>(
    mut metrics: impl Iterator<Item = Metric<'a>>,
    current: impl Fn(usize, &str) -> Option<Amount<'a>>,
) -> String {
    const SHOWN: usize = 2;
    let shown: Vec<String> = metrics
        .by_ref()
        .take(SHOWN)
        .enumerate()
        .map(|(index, metric)| metric_text(&metric, current(index, &metric.kind)))
        .collect();
    match (metrics.count(), shown.is_empty()) {
        (_, true) => "<none>".to_owned(),
        (0, false) => shown.join(", "),
        (more, false) => format!("{} + {more} more...", shown.join(", ")),
    }
}

/// A metric as `CURRENT/TARGET`. `current` is its current value; `None` if it is unknown.
fn metric_text(metric: &Metric<'_>, current: Option<Amount<'_>>) -> String {
    let target = &metric.target;
    let known = |show: fn(&Amount<'_>) -> String| current.as_ref().map_or_else(|| "<unknown>".to_owned(), show);
    match &*metric.kind {
        "External" | "Object" if is_set(target.average) => {
            let current =
                known(
                    |current| {
                        if is_set(current.average) { quantity(current.average) } else { "<unknown>".to_owned() }
                    },
                );
            format!("{current}/{} (avg)", quantity(target.average))
        }
        "External" | "Object" => format!("{}/{}", known(|current| pointer(current.value)), pointer(target.value)),
        "Pods" => format!("{}/{}", known(|current| pointer(current.average)), pointer(target.average)),
        "Resource" | "ContainerResource" if is_set(target.average) => {
            format!("{}: {}/{}", target.name, known(|current| pointer(current.average)), quantity(target.average))
        }
        "Resource" | "ContainerResource" => {
            let percent = |percent: Option<i64>, otherwise: &str| {
                percent.map_or_else(|| otherwise.to_owned(), |percent| format!("{percent}%"))
            };
            let current = percent(current.as_ref().and_then(|current| current.percent), "<unknown>");
            format!("{}: {current}/{}", target.name, percent(target.percent, "<auto>"))
        }
        _ => "<unknown type>".to_owned(),
    }
}

/// A quantity that is a pointer in Go, as upstream prints it: `<nil>` if it is not set.
fn pointer(value: Json<'_>) -> String {
    if is_set(value) { quantity(value) } else { "<nil>".to_owned() }
}

/// The cell with the metrics of an object in the form of autoscaling/v1.
fn v1_metrics(object: Json<'_>) -> String {
    let annotations = object.at("metadata").at("annotations");
    let (metrics, statuses) = (text(annotations.at(METRICS)), text(annotations.at(CURRENT_METRICS)));
    let (metrics, statuses) = (Tree::read(metrics.as_bytes()).ok(), Tree::read(statuses.as_bytes()).ok());
    let metrics = items(Json::root(metrics.as_ref())).map(Metric::from_v1);
    let statuses = items(Json::root(statuses.as_ref()));
    let current = |index: usize, kind: &str| statuses.clone().nth(index).and_then(|one| Amount::current_v1(one, kind));
    let Some(percent) = object.at("spec").at("targetCPUUtilizationPercentage").as_i64() else {
        return cell(metrics, current);
    };
    let is_cpu = |status: Json<'_>| {
        let resource = status.at("resource");
        text(status.at("type")) == "Resource"
            && text(resource.at("name")) == "cpu"
            && is_set(resource.at("currentAverageUtilization"))
    };
    let place = statuses.clone().position(is_cpu).unwrap_or_default();
    let target =
        Amount { name: Cow::Borrowed("cpu"), value: Json::NOTHING, average: Json::NOTHING, percent: Some(percent) };
    let cpu = Metric { kind: Cow::Borrowed("Resource"), target };
    cell(metrics.clone().take(place).chain([cpu]).chain(metrics.skip(place)), current)
}

/// Prints HorizontalPodAutoscaler.
pub const HORIZONTAL_POD_AUTOSCALER: Printer = Printer {
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
    order: None,
};
