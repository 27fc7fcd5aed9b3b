//! Printers (table rows of `kubectl get`) of Pods, with their computed status, and of PodTemplates.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::json::Json;

use super::column::{AGE, NAME, string};
use super::kind::{PrintedRow, Printer, RowCondition};
use super::read::{flag, has_condition, integer, is_being_deleted, is_set, items, name, text, text_or};
use super::text::{containers, labels};
use super::time::{Moment, age, since};

fn pods(pod: Json<'_>, now: Moment) -> PrintedRow {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let state = State::from_pod(pod);
    let restarts = match state.last_restart.filter(|_| state.restarts != 0) {
        Some(moment) => format!("{} ({} ago)", state.restarts, since(moment, now)),
        None => state.restarts.to_string(),
    };
    let first = items(status.at("podIPs")).next().unwrap_or(Json::NOTHING);
    // If only the older field podIP is set, an API server fills podIPs from it.
    let address = text_or(first.at("ip"), text_or(status.at("podIP"), "<none>"));
    let condition = match &*text(status.at("phase")) {
        "Succeeded" => Some(RowCondition { reason: "Succeeded", message: "The pod has completed successfully." }),
        "Failed" => Some(RowCondition { reason: "Failed", message: "The pod failed." }),
        _ => None,
    };
    let cells = vec![
        name(pod),
        json!(format!("{}/{}", state.ready, state.total)),
        json!(state.reason),
        json!(restarts),
        age(pod, now),
        json!(address),
        json!(text_or(spec.at("nodeName"), "<none>")),
        json!(text_or(status.at("nominatedNodeName"), "<none>")),
        json!(readiness_gates(pod)),
    ];
    PrintedRow { cells, condition }
}

/// The readiness gates of a pod as `TRUE/ALL`: those whose condition is true, and all. `<none>` without gates.
fn readiness_gates(pod: Json<'_>) -> String {
    let gates = items(pod.at("spec").at("readinessGates"));
    let all = gates.clone().count();
    if all == 0 {
        return "<none>".to_owned();
    }
    let mut are_true: BTreeMap<Cow<'_, str>, bool> = BTreeMap::new();
    for condition in items(pod.at("status").at("conditions")) {
        // The first of its type counts.
        are_true.entry(text(condition.at("type"))).or_insert_with(|| text(condition.at("status")) == "True");
    }
    let open = gates.filter(|gate| are_true.get(&text(gate.at("conditionType"))) == Some(&true)).count();
    format!("{open}/{all}")
}

/// The computed status of a pod from all its containers.
struct State<'a> {
    /// The column Status, such as `Running` or `Init:0/1`.
    reason: String,
    /// Number of containers that are ready, with sidecars.
    ready: usize,
    /// Number of containers, with sidecars.
    total: usize,
    /// Number of restarts of all counted containers.
    restarts: i64,
    /// When the last container that was restarted had ended: a `finishedAt`.
    last_restart: Option<Json<'a>>,
}

/// The restarts of several containers.
#[derive(Clone, Copy, Default)]
struct Restarts<'a> {
    count: i64,
    /// The latest `finishedAt` of a container that was restarted.
    last: Option<Json<'a>>,
}

impl<'a> Restarts<'a> {
    /// Adds the restarts of a container, from its status.
    fn add(&mut self, container: Json<'a>) {
        self.count += integer(container.at("restartCount"));
        let ended = container.at("lastState").at("terminated").at("finishedAt");
        if Moment::from_json(ended) > self.last.and_then(Moment::from_json) {
            self.last = Some(ended);
        }
    }
}

impl<'a> State<'a> {
    /// Computes the status by upstream's rules (kubernetes `printPod`).
    fn from_pod(pod: Json<'a>) -> State<'a> {
        let (spec, status) = (pod.at("spec"), pod.at("status"));
        let starters = items(spec.at("initContainers"));
        let sidecars = starters
            .clone()
            .filter(|container| text(container.at("restartPolicy")) == "Always")
            .map(|container| text(container.at("name")));
        let total = items(spec.at("containers")).count() + sidecars.clone().count();
        let sidecars: BTreeSet<Cow<'_, str>> = sidecars.collect();
        let mut reason = text_or(status.at("reason"), text(status.at("phase"))).into_owned();
        let gated = |condition: Json<'_>| {
            text(condition.at("type")) == "PodScheduled" && text(condition.at("reason")) == "SchedulingGated"
        };
        if items(status.at("conditions")).any(gated) {
            reason = "SchedulingGated".to_owned();
        }
        let mut ready = 0;
        let (mut starting, mut of_sidecars) = (Restarts::default(), Restarts::default());
        let mut waits_for_init = false;
        for (index, container) in items(status.at("initContainerStatuses")).enumerate() {
            starting.add(container);
            let is_sidecar = sidecars.contains(&text(container.at("name")));
            if is_sidecar {
                of_sidecars.add(container);
            }
            match InitState::from_container(container, is_sidecar) {
                InitState::Done => {}
                InitState::SidecarStarted { is_ready } => ready += usize::from(is_ready),
                InitState::Blocked(cause) => {
                    reason = format!("Init:{cause}");
                    waits_for_init = true;
                }
                InitState::Underway => {
                    reason = format!("Init:{index}/{}", starters.clone().count());
                    waits_for_init = true;
                }
            }
            if waits_for_init {
                break;
            }
        }
        let mut restarts = starting;
        if !waits_for_init || has_condition(pod, "Initialized") {
            // Once the init containers are done, only the restarts of sidecars and of the other containers count.
            restarts = of_sidecars;
            let mut has_running = false;
            // The first container with a reason decides.
            let (mut container_reason, mut failure) = (None, None);
            for container in items(status.at("containerStatuses")) {
                restarts.add(container);
                let (waiting, ended) = (container.at("state").at("waiting"), container.at("state").at("terminated"));
                let waits_for = text(waiting.at("reason"));
                if !waits_for.is_empty() {
                    container_reason.get_or_insert_with(|| waits_for.into_owned());
                } else if is_set(ended) {
                    container_reason.get_or_insert_with(|| termination_reason(ended));
                    if integer(ended.at("exitCode")) != 0 {
                        failure.get_or_insert_with(|| termination_reason(ended));
                    }
                } else if flag(container.at("ready")) && is_set(container.at("state").at("running")) {
                    has_running = true;
                    ready += 1;
                }
            }
            reason = container_reason.unwrap_or(reason);
            if reason == "Completed" {
                let is_ready = || items(status.at("conditions")).any(is_true_ready);
                reason = match failure {
                    _ if has_running && is_ready() => "Running".to_owned(),
                    Some(failure) => failure,
                    None if has_running => "NotReady".to_owned(),
                    None => reason,
                };
            }
        }
        if is_being_deleted(pod) {
            if text(status.at("reason")) == "NodeLost" {
                reason = "Unknown".to_owned();
            } else if !matches!(&*text(status.at("phase")), "Succeeded" | "Failed") {
                reason = "Terminating".to_owned();
            }
        }
        State { reason, ready, total, restarts: restarts.count, last_restart: restarts.last }
    }
}

/// The state of an init container, as it affects its pod.
enum InitState {
    /// It has succeeded.
    Done,
    /// It is a sidecar that has started and keeps running.
    SidecarStarted { is_ready: bool },
    /// It has failed, or it is waiting, for this reason.
    Blocked(String),
    /// It is running or has not started yet.
    Underway,
}

impl InitState {
    /// The state of an init container, from its status.
    fn from_container(container: Json<'_>, is_sidecar: bool) -> InitState {
        let (waiting, ended) = (container.at("state").at("waiting"), container.at("state").at("terminated"));
        if is_set(ended) && integer(ended.at("exitCode")) == 0 {
            InitState::Done
        } else if is_sidecar && flag(container.at("started")) {
            InitState::SidecarStarted { is_ready: flag(container.at("ready")) }
        } else if is_set(ended) {
            InitState::Blocked(termination_reason(ended))
        } else {
            match &*text(waiting.at("reason")) {
                "" | "PodInitializing" => InitState::Underway,
                reason => InitState::Blocked(reason.to_owned()),
            }
        }
    }
}

/// Why a container ended: its reason, else its signal, else its exit code. `ended` is its `state.terminated`.
fn termination_reason(ended: Json<'_>) -> String {
    match (&*text(ended.at("reason")), integer(ended.at("signal"))) {
        ("", 0) => format!("ExitCode:{}", integer(ended.at("exitCode"))),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Whether a condition is of type Ready and true. Unlike `has_condition`, this is used for all conditions of a pod, not
/// only for the first one of the type.
fn is_true_ready(condition: Json<'_>) -> bool {
    text(condition.at("type")) == "Ready" && text(condition.at("status")) == "True"
}

fn pod_templates(object: Json<'_>, _now: Moment) -> PrintedRow {
    let [names, images] = containers(object.at("template").at("spec"));
    PrintedRow::new(vec![name(object), names, images, json!(labels(object.at("template").at("metadata").at("labels")))])
}

/// Prints Pod.
pub const POD: Printer = Printer {
    columns: &[
        NAME,
        string("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        string("Status", "The aggregate status of the containers in this pod."),
        string(
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last container in \
                 this pod has restarted.",
        ),
        AGE,
        string(
            "IP",
            "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet \
                 allocated.",
        )
        .wide(),
        string(
            "Node",
            "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for \
                 scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for this \
                 node becomes responsible for the lifecycle of this pod. This field should not be used to express a \
                 desire for the pod to be scheduled on a specific node. \
                 https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
        )
        .wide(),
        string(
            "Nominated Node",
            "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be \
                 scheduled right away as preemption victims receive their graceful termination periods. This field \
                 does not guarantee that the pod will be scheduled on this node. Scheduler may decide to place the \
                 pod elsewhere if other nodes become available sooner. Scheduler may also decide to give the \
                 resources on this node to a higher priority pod that is created after preemption. As a result, \
                 this field may be different than PodSpec.nodeName when the pod is scheduled.",
        )
        .wide(),
        string(
            "Readiness Gates",
            "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all \
                 its containers are ready AND all conditions specified in the readiness gates have status equal to \
                 \"True\" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
        )
        .wide(),
    ],
    print: pods,
    order: None,
};

/// Prints PodTemplate.
pub const POD_TEMPLATE: Printer = Printer {
    columns: &[
        NAME,
        string("Containers", "Names of each container in the template."),
        string("Images", "Images referenced by each container in the template."),
        string("Pod Labels", "The labels for the pod template."),
    ],
    print: pod_templates,
    order: None,
};
