//! Fields of a Pod or a workload that the Kubernetes API does not have, which an API server drops with a warning, or
//! rejects.
//!
//! Users misspell fields, and copy them from proposals: requiredDuringSchedulingRequiredDuringExecution was never
//! built, matchLabelSelector became matchLabelKeys. A dropped field changes where a Pod may run, so ignoring it
//! silently would evaluate another Pod. The members are those of `core/v1`, `apps/v1`, `batch/v1` and ObjectMeta from
//! Kubernetes 1.31 to 1.37 together. Whether a cluster is too old for a valid field is not checked here.
//!
//! The check descends into fields that decide on placement. Of all others (containers, volumes, update strategies, the
//! status), only the name is checked: they affect no result, and a real create validates them.

use serde_json::Value;

use crate::model::object_meta::OBJECT_META_MEMBERS;

use super::warning::Warning;
use crate::selector::{FieldError, FieldErrorType};

/// The maximum number of unknown fields, and of values of a wrong type, that are reported for one document; as in an
/// API server (`sigs.k8s.io/json`).
const MOST: usize = 100;

/// The shape of a document: which members an object may have, and the shape of each.
#[derive(Clone, Copy)]
enum Shape {
    /// Any value; its content is not checked.
    Any,
    /// A list of values of this shape.
    List(&'static Shape),
    /// An object with these members; the content of those that are only named is not checked.
    Object(&'static [(&'static str, Shape)], &'static [&'static str]),
}

const REQUIREMENT: Shape = Shape::Object(&[], &["key", "operator", "values"]);
const LABEL_SELECTOR: Shape = Shape::Object(&[("matchExpressions", Shape::List(&REQUIREMENT))], &["matchLabels"]);
const NODE_TERM: Shape =
    Shape::Object(&[("matchExpressions", Shape::List(&REQUIREMENT)), ("matchFields", Shape::List(&REQUIREMENT))], &[]);
const POD_TERM: Shape = Shape::Object(
    &[("labelSelector", LABEL_SELECTOR), ("namespaceSelector", LABEL_SELECTOR)],
    &["namespaces", "topologyKey", "matchLabelKeys", "mismatchLabelKeys"],
);
const POD_AFFINITY: Shape = Shape::Object(
    &[
        ("requiredDuringSchedulingIgnoredDuringExecution", Shape::List(&POD_TERM)),
        (
            "preferredDuringSchedulingIgnoredDuringExecution",
            Shape::List(&Shape::Object(&[("podAffinityTerm", POD_TERM)], &["weight"])),
        ),
    ],
    &[],
);
const NODE_AFFINITY: Shape = Shape::Object(
    &[
        (
            "requiredDuringSchedulingIgnoredDuringExecution",
            Shape::Object(&[("nodeSelectorTerms", Shape::List(&NODE_TERM))], &[]),
        ),
        (
            "preferredDuringSchedulingIgnoredDuringExecution",
            Shape::List(&Shape::Object(&[("preference", NODE_TERM)], &["weight"])),
        ),
    ],
    &[],
);
const AFFINITY: Shape = Shape::Object(
    &[("nodeAffinity", NODE_AFFINITY), ("podAffinity", POD_AFFINITY), ("podAntiAffinity", POD_AFFINITY)],
    &[],
);
const TOLERATION: Shape = Shape::Object(&[], &["key", "operator", "value", "effect", "tolerationSeconds"]);
const SCHEDULING_GATE: Shape = Shape::Object(&[], &["name"]);
const SPREAD_CONSTRAINT: Shape = Shape::Object(
    &[("labelSelector", LABEL_SELECTOR)],
    &[
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "matchLabelKeys",
    ],
);

const METADATA: Shape = Shape::Object(&[], OBJECT_META_MEMBERS);

const POD_SPEC: Shape = Shape::Object(
    &[
        ("affinity", AFFINITY),
        ("tolerations", Shape::List(&TOLERATION)),
        ("schedulingGates", Shape::List(&SCHEDULING_GATE)),
        ("topologySpreadConstraints", Shape::List(&SPREAD_CONSTRAINT)),
        ("containers", Shape::List(&Shape::Any)),
    ],
    &[
        // Labels and their values: any name is valid.
        "nodeSelector",
        "activeDeadlineSeconds",
        "automountServiceAccountToken",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "evictionResponders",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "os",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGroup",
        "securityContext",
        // The name before serviceAccountName, which is still read.
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "volumes",
        // Of 1.35, before it became schedulingGroup.
        "workloadRef",
    ],
);

const POD: Shape = Shape::Object(&[("metadata", METADATA), ("spec", POD_SPEC)], &["apiVersion", "kind", "status"]);
const TEMPLATE: Shape = Shape::Object(&[("metadata", METADATA), ("spec", POD_SPEC)], &[]);

const DEPLOYMENT_SPEC: Shape = Shape::Object(
    &[("selector", LABEL_SELECTOR), ("template", TEMPLATE)],
    &["replicas", "strategy", "minReadySeconds", "revisionHistoryLimit", "paused", "progressDeadlineSeconds"],
);
const REPLICA_SET_SPEC: Shape =
    Shape::Object(&[("selector", LABEL_SELECTOR), ("template", TEMPLATE)], &["replicas", "minReadySeconds"]);
const STATEFUL_SET_SPEC: Shape = Shape::Object(
    &[
        ("selector", LABEL_SELECTOR),
        ("template", TEMPLATE),
        // Its start is in the name of the next pod.
        ("ordinals", Shape::Object(&[], &["start"])),
    ],
    &[
        "replicas",
        "volumeClaimTemplates",
        "serviceName",
        "podManagementPolicy",
        "updateStrategy",
        "revisionHistoryLimit",
        "minReadySeconds",
        "persistentVolumeClaimRetentionPolicy",
    ],
);
const DAEMON_SET_SPEC: Shape = Shape::Object(
    &[("selector", LABEL_SELECTOR), ("template", TEMPLATE)],
    &["updateStrategy", "minReadySeconds", "revisionHistoryLimit"],
);
const JOB_SPEC: Shape = Shape::Object(
    &[("selector", LABEL_SELECTOR), ("template", TEMPLATE)],
    &[
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "podFailurePolicy",
        "successPolicy",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "manualSelector",
        "ttlSecondsAfterFinished",
        "completionMode",
        "suspend",
        "podReplacementPolicy",
        "managedBy",
        "scheduling",
    ],
);
const CRON_JOB_SPEC: Shape = Shape::Object(
    &[("jobTemplate", Shape::Object(&[("metadata", METADATA), ("spec", JOB_SPEC)], &[]))],
    &[
        "schedule",
        "timeZone",
        "startingDeadlineSeconds",
        "concurrencyPolicy",
        "suspend",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ],
);
// Its selector is of labels and their values.
const REPLICATION_CONTROLLER_SPEC: Shape =
    Shape::Object(&[("template", TEMPLATE)], &["replicas", "minReadySeconds", "selector"]);

/// A workload with the spec of its kind.
macro_rules! workload {
    ($spec:expr) => {
        Shape::Object(&[("metadata", METADATA), ("spec", $spec)], &["apiVersion", "kind", "status"])
    };
}

/// The parts of a document that do not have the shape of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodShapeErrors {
    /// Fields that do not exist, with paths in the document.
    pub unknown: Vec<Warning>,
    /// Values that are not a list or an object where the API has one: such a document is rejected. They are reported
    /// here because serde would read a list as the members of an object in their order. The path of the document itself
    /// is empty.
    pub misshapen: Vec<FieldError>,
}

/// Finds unknown fields and values of a wrong type in a Pod.
pub(super) fn pod_shape_errors(document: &Value) -> PodShapeErrors {
    shape_errors(document, POD)
}

/// Finds unknown fields and values of a wrong type in a workload. Returns none for a kind that is not a workload.
pub(super) fn workload_shape_errors(document: &Value) -> PodShapeErrors {
    let shape = match document.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "Deployment" => workload!(DEPLOYMENT_SPEC),
        "ReplicaSet" => workload!(REPLICA_SET_SPEC),
        "StatefulSet" => workload!(STATEFUL_SET_SPEC),
        "DaemonSet" => workload!(DAEMON_SET_SPEC),
        "Job" => workload!(JOB_SPEC),
        "CronJob" => workload!(CRON_JOB_SPEC),
        "ReplicationController" => workload!(REPLICATION_CONTROLLER_SPEC),
        "PodTemplate" => Shape::Object(&[("metadata", METADATA), ("template", TEMPLATE)], &["apiVersion", "kind"]),
        _ => Shape::Any,
    };
    shape_errors(document, shape)
}

/// Compares a document with a shape.
fn shape_errors(document: &Value, shape: Shape) -> PodShapeErrors {
    let mut found = PodShapeErrors::default();
    walk(document, shape, "", &mut found);
    found
}

/// Compares a value at `path` with a shape, and its members or items with theirs; adds the differences to `found`.
fn walk(value: &Value, shape: Shape, path: &str, found: &mut PodShapeErrors) {
    let expected = match (shape, value) {
        (_, Value::Null)
        | (Shape::Any, _)
        | (Shape::List(_), Value::Array(_))
        | (Shape::Object(..), Value::Object(_)) => None,
        (Shape::List(_), _) => Some("must be a list"),
        (Shape::Object(..), _) => Some("must be an object"),
    };
    if let Some(expected) = expected.filter(|_| found.misshapen.len() < MOST) {
        found.misshapen.push(FieldError::with_value(FieldErrorType::TypeInvalid, path, value, expected));
    }
    match (shape, value) {
        (Shape::List(item), Value::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                walk(value, *item, &format!("{path}[{index}]"), found);
            }
        }
        (Shape::Object(members, named), Value::Object(values)) => {
            for (name, value) in values {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if let Some((_, shape)) = members.iter().find(|(member, _)| member == name) {
                    walk(value, *shape, &path, found);
                } else if !named.contains(&&**name) && found.unknown.len() < MOST {
                    found.unknown.push(Warning::UnknownField { field: path, hint: hint(name) });
                }
            }
        }
        _ => {}
    }
}

/// What to use instead of a field that was proposed for Kubernetes but never released, in brackets; empty for other
/// names.
fn hint(name: &str) -> &'static str {
    match name {
        "requiredDuringSchedulingRequiredDuringExecution" => {
            " (never implemented: a Pod that no longer fits keeps running; `fieldcache place --misplaced` finds such Pods)"
        }
        "matchLabelSelector" | "matchLabelSelectors" => " (use matchLabelKeys and mismatchLabelKeys)",
        _ => "",
    }
}
