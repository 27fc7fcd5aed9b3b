//! Printers (table rows of `kubectl get`) of kinds that create pods (apps/v1, batch/v1, ReplicationController), and of
//! PodDisruptionBudget.

use serde_json::{Value, json};

use crate::json::Json;

use super::column::{AGE, CONTAINERS, IMAGES, NAME, boolean, integer as integer_column, string};
use super::kind::{PrintedRow, Printer};
use super::read::{
    count, flag, has_condition, integer, integer_or_string, is_being_deleted, is_set, items, name, pointer_or, text,
};
use super::text::{bare_selector, containers, labels, lower, selector};
use super::time::{Moment, age, human_duration, since};

/// The cell of a number in spec or status; 0 if it is missing.
fn number(value: Json<'_>) -> Value {
    json!(integer(value))
}

/// The spec in the pod template of an object.
fn template(object: Json<'_>) -> Json<'_> {
    object.at("spec").at("template").at("spec")
}

fn replication_controllers(object: Json<'_>, now: Moment) -> PrintedRow {
    replicas(object, labels(object.at("spec").at("selector")), now)
}

fn replica_sets(object: Json<'_>, now: Moment) -> PrintedRow {
    replicas(object, selector(object.at("spec").at("selector")), now)
}

/// The row of a ReplicationController or ReplicaSet. `selector` is the text of its selector.
fn replicas(object: Json<'_>, selector: String, now: Moment) -> PrintedRow {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let [names, images] = containers(template(object));
    PrintedRow::new(vec![
        name(object),
        number(spec.at("replicas")),
        number(status.at("replicas")),
        number(status.at("readyReplicas")),
        age(object, now),
        names,
        images,
        json!(selector),
    ])
}

/// The cell `READY/DESIRED` with the numbers of replicas.
fn ready_of_desired(object: Json<'_>) -> Value {
    let (ready, desired) =
        (integer(object.at("status").at("readyReplicas")), integer(object.at("spec").at("replicas")));
    json!(format!("{ready}/{desired}"))
}

fn deployments(object: Json<'_>, now: Moment) -> PrintedRow {
    let status = object.at("status");
    let [names, images] = containers(template(object));
    // Unlike for other workloads, an empty selector is printed as an empty text, and an invalid one as `<invalid>`.
    let selector = bare_selector(object.at("spec").at("selector")).unwrap_or_else(|| "<invalid>".to_owned());
    PrintedRow::new(vec![
        name(object),
        ready_of_desired(object),
        number(status.at("updatedReplicas")),
        number(status.at("availableReplicas")),
        age(object, now),
        names,
        images,
        json!(selector),
    ])
}

fn stateful_sets(object: Json<'_>, now: Moment) -> PrintedRow {
    let [names, images] = containers(template(object));
    PrintedRow::new(vec![name(object), ready_of_desired(object), age(object, now), names, images])
}

fn daemon_sets(object: Json<'_>, now: Moment) -> PrintedRow {
    let status = object.at("status");
    let [names, images] = containers(template(object));
    PrintedRow::new(vec![
        name(object),
        number(status.at("desiredNumberScheduled")),
        number(status.at("currentNumberScheduled")),
        number(status.at("numberReady")),
        number(status.at("updatedNumberScheduled")),
        number(status.at("numberAvailable")),
        json!(labels(template(object).at("nodeSelector"))),
        age(object, now),
        names,
        images,
        json!(selector(object.at("spec").at("selector"))),
    ])
}

fn controller_revisions(object: Json<'_>, now: Moment) -> PrintedRow {
    let owner = items(object.at("metadata").at("ownerReferences")).find(|owner| flag(owner.at("controller")));
    let controller = owner.map(|owner| {
        let version = text(owner.at("apiVersion"));
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = match (text(owner.at("kind")), group) {
            (kind, "") => kind.into_owned(),
            (kind, group) => format!("{kind}.{group}"),
        };
        let name = text(owner.at("name"));
        if kind.is_empty() { name.into_owned() } else { format!("{}/{name}", lower(&kind)) }
    });
    let controller = controller.unwrap_or_else(|| "<none>".to_owned());
    PrintedRow::new(vec![name(object), json!(controller), number(object.at("revision")), age(object, now)])
}

fn jobs(object: Json<'_>, now: Moment) -> PrintedRow {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let succeeded = integer(status.at("succeeded"));
    let completions = match (spec.at("completions").as_i64(), integer(spec.at("parallelism"))) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let moment = |member: &str| Moment::from_json(status.at(member));
    let duration =
        moment("startTime").map(|start| human_duration(moment("completionTime").unwrap_or(now).seconds_since(start)));
    let state = if has_condition(object, "Complete") {
        "Complete"
    } else if has_condition(object, "Failed") {
        "Failed"
    } else if is_being_deleted(object) {
        "Terminating"
    } else if has_condition(object, "Suspended") {
        "Suspended"
    } else if has_condition(object, "FailureTarget") {
        "FailureTarget"
    } else if has_condition(object, "SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let [names, images] = containers(template(object));
    PrintedRow::new(vec![
        name(object),
        json!(state),
        json!(completions),
        json!(duration.unwrap_or_default()),
        age(object, now),
        names,
        images,
        json!(selector(spec.at("selector"))),
    ])
}

fn cron_jobs(object: Json<'_>, now: Moment) -> PrintedRow {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let job = spec.at("jobTemplate").at("spec");
    let suspended = match spec.at("suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = status.at("lastScheduleTime");
    let last = if is_set(last) { since(last, now) } else { "<none>".to_owned() };
    let [names, images] = containers(job.at("template").at("spec"));
    PrintedRow::new(vec![
        name(object),
        json!(text(spec.at("schedule"))),
        json!(pointer_or(spec.at("timeZone"), "<none>")),
        json!(suspended),
        json!(count(status.at("active"))),
        json!(last),
        age(object, now),
        names,
        images,
        json!(selector(job.at("selector"))),
    ])
}

fn pod_disruption_budgets(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    PrintedRow::new(vec![
        name(object),
        json!(integer_or_string(spec.at("minAvailable"), "N/A")),
        json!(integer_or_string(spec.at("maxUnavailable"), "N/A")),
        number(object.at("status").at("disruptionsAllowed")),
        age(object, now),
    ])
}

/// Prints ReplicationController.
pub const REPLICATION_CONTROLLER: Printer = Printer {
    columns: &[
        NAME,
        integer_column(
            "Desired",
            "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit \
                 zero and unspecified. Defaults to 1. More info: \
                 https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
        ),
        integer_column(
            "Current",
            "Replicas is the most recently observed number of replicas. More info: \
                 https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
        ),
        integer_column("Ready", "The number of ready replicas for this replication controller."),
        AGE,
        CONTAINERS,
        IMAGES,
        string(
            "Selector",
            "Selector is a label query over pods that should match the Replicas count. If Selector is empty, \
                 it is defaulted to the labels present on the Pod template. Label keys and values that must match \
                 in order to be controlled by this replication controller, if empty defaulted to labels on Pod \
                 template. More info: \
                 https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        )
        .wide(),
    ],
    print: replication_controllers,
    order: None,
};

/// Prints ControllerRevision.
pub const CONTROLLER_REVISION: Printer = Printer {
    columns: &[
        NAME,
        string("Controller", "Controller of the object"),
        string("Revision", "Revision indicates the revision of the state represented by Data."),
        AGE,
    ],
    print: controller_revisions,
    order: None,
};

/// Prints DaemonSet.
pub const DAEMON_SET: Printer = Printer {
    columns: &[
        NAME,
        integer_column(
            "Desired",
            "The total number of nodes that should be running the daemon pod (including nodes correctly \
                 running the daemon pod). More info: \
                 https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        ),
        integer_column(
            "Current",
            "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon \
                 pod. More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        ),
        integer_column(
            "Ready",
            "numberReady is the number of nodes that should be running the daemon pod and have one or more of \
                 the daemon pod running with a Ready Condition.",
        ),
        integer_column("Up-to-date", "The total number of nodes that are running updated daemon pod"),
        integer_column(
            "Available",
            "The number of nodes that should be running the daemon pod and have one or more of the daemon pod \
                 running and available (ready for at least spec.minReadySeconds)",
        ),
        string(
            "Node Selector",
            "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must \
                 match a node's labels for the pod to be scheduled on that node. More info: \
                 https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        string(
            "Selector",
            "A label query over pods that are managed by the daemon set. Must match in order to be controlled. \
                 It must match the pod template's labels. More info: \
                 https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        )
        .wide(),
    ],
    print: daemon_sets,
    order: None,
};

/// Prints Deployment.
pub const DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        string("Ready", "Number of the pod with ready state"),
        string(
            "Up-to-date",
            "Total number of non-terminating pods targeted by this deployment that have the desired template \
                 spec.",
        ),
        string(
            "Available",
            "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by \
                 this deployment.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        string(
            "Selector",
            "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones \
                 affected by this deployment. It must match the pod template's labels.",
        )
        .wide(),
    ],
    print: deployments,
    order: None,
};

/// Prints ReplicaSet.
pub const REPLICA_SET: Printer = Printer {
    columns: &[
        NAME,
        integer_column(
            "Desired",
            "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero \
                 and unspecified. Defaults to 1. More info: \
                 https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
        ),
        integer_column(
            "Current",
            "Replicas is the most recently observed number of non-terminating pods. More info: \
                 https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
        ),
        integer_column(
            "Ready",
            "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
        ),
        AGE,
        CONTAINERS,
        IMAGES,
        string(
            "Selector",
            "Selector is a label query over pods that should match the replica count. Label keys and values \
                 that must match in order to be controlled by this replica set. It must match the pod template's \
                 labels. More info: \
                 https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        )
        .wide(),
    ],
    print: replica_sets,
    order: None,
};

/// Prints StatefulSet.
pub const STATEFUL_SET: Printer = Printer {
    columns: &[NAME, string("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES],
    print: stateful_sets,
    order: None,
};

/// Prints CronJob.
pub const CRON_JOB: Printer = Printer {
    columns: &[
        NAME,
        string("Schedule", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron."),
        string(
            "Timezone",
            "The time zone name for the given schedule, see \
                 https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. If not specified, this will default \
                 to the time zone of the kube-controller-manager process. The set of valid time zone names and the \
                 time zone offset is loaded from the system-wide time zone database by the API server during \
                 CronJob validation and the controller manager during execution. If no system-wide time zone \
                 database can be found a bundled version of the database is used instead. If the time zone name \
                 becomes invalid during the lifetime of a CronJob or due to a change in host configuration, the \
                 controller will stop creating new new Jobs and will create a system event with the reason \
                 UnknownTimeZone. More information can be found in \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones",
        ),
        boolean(
            "Suspend",
            "This flag tells the controller to suspend subsequent executions, it does not apply to already \
                 started executions.  Defaults to false.",
        ),
        integer_column("Active", "A list of pointers to currently running jobs."),
        string("Last Schedule", "Information when was the last time the job was successfully scheduled."),
        AGE,
        CONTAINERS,
        IMAGES,
        string(
            "Selector",
            "A label query over pods that should match the pod count. Normally, the system sets this field for \
                 you. More info: \
                 https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        )
        .wide(),
    ],
    print: cron_jobs,
    order: None,
};

/// Prints Job.
pub const JOB: Printer = Printer {
    columns: &[
        NAME,
        string("Status", "Status of the job."),
        string(
            "Completions",
            "The number of pods which reached phase Succeeded. The value increases monotonically for a given \
                 spec. However, it may decrease in reaction to scale down of elastic indexed jobs.",
        ),
        string("Duration", "Time required to complete the job."),
        AGE,
        CONTAINERS,
        IMAGES,
        string(
            "Selector",
            "A label query over pods that should match the pod count. Normally, the system sets this field for \
                 you. More info: \
                 https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        )
        .wide(),
    ],
    print: jobs,
    order: None,
};

/// Prints PodDisruptionBudget.
pub const POD_DISRUPTION_BUDGET: Printer = Printer {
    columns: &[
        NAME,
        string("Min Available", "The minimum number of pods that must be available."),
        string("Max Unavailable", "The maximum number of pods that may be unavailable."),
        integer_column("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
        AGE,
    ],
    print: pod_disruption_budgets,
    order: None,
};
