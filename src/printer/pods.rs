//! Pods, whose status is a story, and pod templates.

use serde_json::{Value, json};

use super::read::{flag, has_condition, integer, is_going, is_set, items, name, text, text_or};
use super::text::{containers, labels};
use super::time::{Moment, age, since};
use super::{AGE, NAME, Printer, Row, RowCondition, string};

fn pods(pod: &Value, now: Moment) -> Row {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let state = State::of(pod);
    let restarts = match state.last_restart.filter(|_| state.restarts != 0) {
        Some(moment) => format!("{} ({} ago)", state.restarts, since(moment, now)),
        None => state.restarts.to_string(),
    };
    // Where only the old single address is told, an API server makes the list from it.
    let address = text_or(&status["podIPs"][0]["ip"], text_or(&status["podIP"], "<none>"));
    let gates = items(&spec["readinessGates"]);
    let open = gates.iter().filter(|gate| has_condition(pod, text(&gate["conditionType"]))).count();
    let gates = if gates.is_empty() { "<none>".to_owned() } else { format!("{open}/{}", gates.len()) };
    let condition = match text(&status["phase"]) {
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
        json!(text_or(&spec["nodeName"], "<none>")),
        json!(text_or(&status["nominatedNodeName"], "<none>")),
        json!(gates),
    ];
    Row { cells, condition }
}

/// What the containers of a pod add up to.
struct State<'a> {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    /// The end of the container that ended last and was started again.
    last_restart: Option<&'a Value>,
}

/// Restarts that are counted together.
#[derive(Clone, Copy, Default)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a Value>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: &'a Value) {
        self.count += integer(&container["restartCount"]);
        let ended = &container["lastState"]["terminated"]["finishedAt"];
        let moment = |value: &Value| value.as_str().and_then(Moment::parse);
        if moment(ended) > self.last.and_then(moment) {
            self.last = Some(ended);
        }
    }
}

impl<'a> State<'a> {
    fn of(pod: &'a Value) -> State<'a> {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let sidecars: Vec<&str> = items(&spec["initContainers"])
            .iter()
            .filter(|container| text(&container["restartPolicy"]) == "Always")
            .map(|container| text(&container["name"]))
            .collect();
        let total = items(&spec["containers"]).len() + sidecars.len();
        let mut reason = text_or(&status["reason"], text(&status["phase"])).to_owned();
        let gated = |condition: &Value| {
            text(&condition["type"]) == "PodScheduled" && text(&condition["reason"]) == "SchedulingGated"
        };
        if items(&status["conditions"]).iter().any(gated) {
            reason = "SchedulingGated".to_owned();
        }
        let mut ready = 0;
        let (mut starting, mut of_sidecars) = (Restarts::default(), Restarts::default());
        let mut waits_for_init = false;
        for (index, container) in items(&status["initContainerStatuses"]).iter().enumerate() {
            starting.add(container);
            let is_sidecar = sidecars.contains(&text(&container["name"]));
            if is_sidecar {
                of_sidecars.add(container);
            }
            match InitState::of(container, is_sidecar) {
                InitState::Done => {}
                InitState::RunsBeside { is_ready } => ready += usize::from(is_ready),
                InitState::Troubled(trouble) => {
                    reason = format!("Init:{trouble}");
                    waits_for_init = true;
                }
                InitState::Underway => {
                    reason = format!("Init:{index}/{}", items(&spec["initContainers"]).len());
                    waits_for_init = true;
                }
            }
            if waits_for_init {
                break;
            }
        }
        let mut restarts = starting;
        if !waits_for_init || has_condition(pod, "Initialized") {
            restarts = of_sidecars;
            let mut has_running = false;
            let mut failure = None;
            // The first container has the last word.
            for container in items(&status["containerStatuses"]).iter().rev() {
                restarts.add(container);
                let (waiting, ended) = (&container["state"]["waiting"], &container["state"]["terminated"]);
                if !text(&waiting["reason"]).is_empty() {
                    reason = text(&waiting["reason"]).to_owned();
                } else if is_set(ended) {
                    reason = end_of(ended);
                    if integer(&ended["exitCode"]) != 0 {
                        failure = Some(reason.clone());
                    }
                } else if flag(&container["ready"]) && is_set(&container["state"]["running"]) {
                    has_running = true;
                    ready += 1;
                }
            }
            if reason == "Completed" {
                let is_ready = || items(&status["conditions"]).iter().any(is_true_ready);
                reason = match failure {
                    _ if has_running && is_ready() => "Running".to_owned(),
                    Some(failure) => failure,
                    None if has_running => "NotReady".to_owned(),
                    None => reason,
                };
            }
        }
        if is_going(pod) {
            if text(&status["reason"]) == "NodeLost" {
                reason = "Unknown".to_owned();
            } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
                reason = "Terminating".to_owned();
            }
        }
        State { reason, ready, total, restarts: restarts.count, last_restart: restarts.last }
    }
}

/// What an init container means to its pod.
enum InitState {
    /// It has succeeded.
    Done,
    /// It is a sidecar that has started and stays.
    RunsBeside { is_ready: bool },
    /// It has failed, or waits for a reason.
    Troubled(String),
    /// It has not ended.
    Underway,
}

impl InitState {
    fn of(container: &Value, is_sidecar: bool) -> InitState {
        let (waiting, ended) = (&container["state"]["waiting"], &container["state"]["terminated"]);
        if is_set(ended) && integer(&ended["exitCode"]) == 0 {
            InitState::Done
        } else if is_sidecar && flag(&container["started"]) {
            InitState::RunsBeside { is_ready: flag(&container["ready"]) }
        } else if is_set(ended) {
            InitState::Troubled(end_of(ended))
        } else {
            match text(&waiting["reason"]) {
                "" | "PodInitializing" => InitState::Underway,
                reason => InitState::Troubled(reason.to_owned()),
            }
        }
    }
}

/// Why a container ended: its reason, else its signal, else its exit code.
fn end_of(ended: &Value) -> String {
    match (text(&ended["reason"]), integer(&ended["signal"])) {
        ("", 0) => format!("ExitCode:{}", integer(&ended["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Any condition will do here, not only the first of its type.
fn is_true_ready(condition: &Value) -> bool {
    text(&condition["type"]) == "Ready" && text(&condition["status"]) == "True"
}

fn pod_templates(object: &Value, _now: Moment) -> Row {
    let [names, images] = containers(&object["template"]["spec"]);
    Row::of(vec![name(object), names, images, json!(labels(&object["template"]["metadata"]["labels"]))])
}

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        resource: "pods",
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
    },
    Printer {
        group: "",
        resource: "podtemplates",
        columns: &[
            NAME,
            string("Containers", "Names of each container in the template."),
            string("Images", "Images referenced by each container in the template."),
            string("Pod Labels", "The labels for the pod template."),
        ],
        print: pod_templates,
    },
];
