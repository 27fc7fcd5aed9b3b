//! The cells that are easily mistaken, row by row. End-to-end tests compare them with kube-apiserver's, on generated
//! objects; each row has its reason.

use serde_json::{Value, json};

use super::time::{Moment, human_duration};
use super::{NAME_AND_AGE, PrintedRow};
use crate::builtin::printer;
use crate::builtin::table::kinds;

const NOW: &str = "2026-11-21T12:00:00Z";

fn print(group: &str, resource: &str, object: &Value) -> PrintedRow {
    printer(group, resource).print(object.to_string().as_bytes(), Moment::parse(NOW).unwrap())
}

/// The cell of a column.
fn cell(group: &str, resource: &str, column: &str, object: &Value) -> Value {
    let index = printer(group, resource)
        .columns
        .iter()
        .position(|one| one.name == column)
        .unwrap_or_else(|| panic!("no {column}"));
    print(group, resource, object).cells[index].clone()
}

fn check(group: &str, resource: &str, column: &str, rows: &[(Value, &str, &str)]) {
    for (object, expected, why) in rows {
        assert_eq!(cell(group, resource, column, object), *expected, "{why}: {object}");
    }
}

#[test]
fn every_row_has_a_cell_for_each_column_for_any_object() {
    let now = Moment::parse(NOW).unwrap();
    for row in kinds() {
        let (printer, what) = (row.printer, format!("{}/{}", row.group, row.plural));
        for object in [json!(null), json!({}), json!([]), json!({ "metadata": 1, "spec": "x", "status": [1] })] {
            let cells = printer.print(object.to_string().as_bytes(), now).cells;
            // Upstream has no column for the age that it prints of an IPAddress.
            let expected = printer.columns.len() + usize::from(row.plural == "ipaddresses");
            assert_eq!(cells.len(), expected, "{what}: {object}");
            assert!(cells.iter().all(|cell| !cell.is_null()), "{what}: {cells:?}");
        }
        assert!(printer.columns.iter().any(|column| column.format == "name"), "{what} has a name");
        assert!(printer.columns.iter().all(|column| !column.description.contains("  \n")), "{what}");
    }
    assert_eq!(printer("example.com", "shirts").columns, NAME_AND_AGE.columns);
}

/// A pod with these container statuses and the members of `more`.
fn pod(containers: &[Value], more: &Value) -> Value {
    let names: Vec<Value> = (0..containers.len().max(1)).map(|index| json!({ "name": format!("c{index}") })).collect();
    let mut pod = json!({
        "metadata": { "name": "p", "creationTimestamp": "2026-11-21T11:00:00Z" },
        "spec": { "containers": names },
        "status": { "phase": "Running", "containerStatuses": containers },
    });
    merge(&mut pod, more);
    pod
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn running() -> Value {
    json!({ "ready": true, "state": { "running": {} } })
}

fn waiting(reason: &str) -> Value {
    json!({ "state": { "waiting": { "reason": reason } } })
}

fn ended(code: i64, reason: &str) -> Value {
    json!({ "state": { "terminated": { "exitCode": code, "reason": reason } } })
}

#[test]
fn the_status_of_a_pod_is_that_of_its_deciding_container() {
    let none = json!({});
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let going = json!({ "metadata": { "deletionTimestamp": NOW } });
    let gated = json!({ "status": { "phase": "Pending", "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "SchedulingGated" }] } });
    let lost = json!({ "metadata": { "deletionTimestamp": NOW }, "status": { "reason": "NodeLost" } });
    let over = json!({ "metadata": { "deletionTimestamp": NOW }, "status": { "phase": "Succeeded" } });
    let failed = json!({ "metadata": { "deletionTimestamp": NOW }, "status": { "phase": "Failed" } });
    let completed = || ended(0, "Completed");
    let rows = [
        (pod(&[running()], &none), "Running", "nothing but the phase"),
        (pod(&[running()], &json!({ "status": { "reason": "Evicted" } })), "Evicted", "a reason of the pod itself"),
        (pod(&[], &gated), "SchedulingGated", "not to be scheduled yet"),
        (pod(&[waiting("CrashLoopBackOff"), running()], &none), "CrashLoopBackOff", "one waits"),
        (pod(&[waiting("First"), waiting("Second")], &none), "First", "the first container has the last word"),
        (pod(&[waiting(""), ended(1, "Error")], &none), "Error", "waiting without a reason has no effect"),
        (pod(&[ended(1, "")], &none), "ExitCode:1", "no reason, no signal"),
        (pod(&[json!({ "state": { "terminated": { "exitCode": 137, "signal": 9 } } })], &none), "Signal:9", "a signal"),
        (pod(&[completed()], &none), "Completed", "all have ended well"),
        (pod(&[completed(), running()], &none), "NotReady", "one ended well, one runs, the pod is not ready"),
        (pod(&[completed(), running()], &ready), "Running", "the same, and the pod is ready"),
        (pod(&[completed(), ended(2, "OOMKilled")], &none), "OOMKilled", "one ended well, one badly"),
        (
            pod(&[completed(), ended(2, "OOMKilled"), running()], &ready),
            "Running",
            "running and ready outdoes a failure",
        ),
        (pod(&[running()], &going), "Terminating", "it is being deleted"),
        (pod(&[running()], &lost), "Unknown", "deleted, but its node does not answer"),
        (pod(&[completed()], &over), "Completed", "deleted after its end"),
        (pod(&[ended(1, "Error")], &failed), "Error", "deleted after its failure"),
    ];
    check("", "pods", "Status", &rows);
}

/// A pod with init containers, `sidecars` of them restartable, and their statuses.
fn starting(sidecars: &[usize], statuses: &[Value], more: &Value) -> Value {
    let count = statuses.len();
    let specs: Vec<Value> = (0..count)
        .map(|index| {
            let policy = if sidecars.contains(&index) { json!("Always") } else { Value::Null };
            json!({ "name": format!("i{index}"), "restartPolicy": policy })
        })
        .collect();
    let statuses: Vec<Value> = statuses
        .iter()
        .enumerate()
        .map(|(index, status)| {
            let mut status = status.clone();
            status["name"] = format!("i{index}").into();
            status
        })
        .collect();
    let mut pod = pod(
        &[],
        &json!({ "spec": { "initContainers": specs }, "status": {
        "phase": "Pending", "initContainerStatuses": statuses } }),
    );
    merge(&mut pod, more);
    pod
}

#[test]
fn a_starting_pod_prints_its_progress() {
    let none = json!({});
    let done = || ended(0, "Completed");
    let sidecar = |ready: bool| json!({ "started": true, "ready": ready, "state": { "running": {} } });
    let initialized = json!({ "status": {
        "conditions": [{ "type": "Initialized", "status": "True" }],
        "containerStatuses": [{ "state": { "waiting": { "reason": "ImagePullBackOff" } } }],
    } });
    let rows = [
        (starting(&[], &[running()], &none), "Init:0/1", "the first of one"),
        (starting(&[], &[done(), running(), waiting("")], &none), "Init:1/3", "the second of three"),
        (starting(&[], &[waiting("PodInitializing")], &none), "Init:0/1", "waiting for its turn is no trouble"),
        (starting(&[], &[waiting("ImagePullBackOff")], &none), "Init:ImagePullBackOff", "trouble"),
        (starting(&[], &[ended(1, "Error")], &none), "Init:Error", "failed"),
        (starting(&[], &[ended(3, "")], &none), "Init:ExitCode:3", "failed without a reason"),
        (
            starting(&[], &[json!({ "state": { "terminated": { "exitCode": 1, "signal": 15 } } })], &none),
            "Init:Signal:15",
            "killed",
        ),
        (starting(&[], &[done(), done()], &none), "Pending", "all done: the containers' turn"),
        (starting(&[0], &[sidecar(true), running()], &none), "Init:1/2", "a sidecar that runs is done"),
        (starting(&[0], &[running()], &none), "Init:0/1", "a sidecar that has not started"),
        (starting(&[0], &[sidecar(true)], &none), "Pending", "only a sidecar"),
        (
            starting(&[], &[running()], &initialized),
            "ImagePullBackOff",
            "once initialized, the containers decide, whatever the status of init containers",
        ),
    ];
    check("", "pods", "Status", &rows);
    let rows = [
        (starting(&[0], &[sidecar(true)], &none), "1/2", "a sidecar counts among the containers"),
        (starting(&[0], &[sidecar(false)], &none), "0/2", "one that is not ready"),
        (starting(&[], &[done()], &none), "0/1", "an init container does not count"),
        (starting(&[0], &[done()], &none), "0/2", "a sidecar that has ended is not ready"),
    ];
    check("", "pods", "Ready", &rows);
}

#[test]
fn restarts_are_those_of_the_containers_whose_turn_it_is() {
    let none = json!({});
    let restarted = |count: u64, finished: &str| {
        let mut status = running();
        status["restartCount"] = count.into();
        status["lastState"] = json!({ "terminated": { "exitCode": 1, "finishedAt": finished } });
        status
    };
    let quiet = json!({ "restartCount": 4, "state": { "running": {} } });
    let (early, late) = ("2026-11-21T10:30:00Z", "2026-11-21T11:55:00Z");
    let done_after = |count: u64| {
        let mut status = ended(0, "Completed");
        status["restartCount"] = count.into();
        status["lastState"] = json!({ "terminated": { "exitCode": 1, "finishedAt": late } });
        status
    };
    let containers = |restarts: &[Value]| json!({ "status": { "containerStatuses": restarts } });
    let started = |status: &Value| {
        let mut status = status.clone();
        status["started"] = true.into();
        status
    };
    let rows = [
        (pod(&[running()], &none), "0", "none"),
        (pod(&[restarted(3, early)], &none), "3 (90m ago)", "with the time of the last one"),
        (pod(&[restarted(3, early), restarted(1, late)], &none), "4 (5m ago)", "the latest counts"),
        (pod(&[restarted(1, late), restarted(3, early)], &none), "4 (5m ago)", "in any order"),
        (pod(std::slice::from_ref(&quiet), &none), "4", "no time is printed"),
        (pod(&[restarted(0, early)], &none), "0", "a time without a restart is not shown"),
        (pod(&[restarted(2, "2026-11-21T12:00:30Z")], &none), "2 (<invalid> ago)", "a time to come"),
        (starting(&[], &[restarted(5, early)], &none), "5 (90m ago)", "while it starts: the init containers'"),
        (
            starting(&[], &[ended(0, "Completed"), restarted(2, early)], &none),
            "2 (90m ago)",
            "while it starts: of all that have had their turn",
        ),
        (
            starting(&[0], &[started(&restarted(2, early))], &containers(&[restarted(1, late)])),
            "3 (5m ago)",
            "afterwards: the containers' and the sidecars'",
        ),
        (
            starting(&[], &[done_after(5)], &containers(std::slice::from_ref(&quiet))),
            "4",
            "afterwards: not those of init containers",
        ),
    ];
    check("", "pods", "Restarts", &rows);
}

#[test]
fn what_has_run_to_its_end_carries_a_condition() {
    let of = |phase: &str| print("", "pods", &pod(&[], &json!({ "status": { "phase": phase } }))).condition;
    assert_eq!(of("Running"), None);
    assert_eq!(of("Succeeded").map(|condition| condition.reason), Some("Succeeded"));
    assert_eq!(of("Failed").map(|condition| condition.message), Some("The pod failed."));
}

#[test]
fn services_print_their_addresses() {
    let service =
        |spec: Value, ingress: Value| json!({ "spec": spec, "status": { "loadBalancer": { "ingress": ingress } } });
    let none = || Value::Null;
    let rows = [
        (service(json!({ "type": "ClusterIP" }), none()), "<none>", "nowhere"),
        (service(json!({ "type": "NodePort", "externalIPs": ["b", "a"] }), none()), "b,a", "in their order"),
        (service(json!({ "type": "LoadBalancer" }), none()), "<pending>", "not balanced yet"),
        (
            service(
                json!({ "type": "LoadBalancer" }),
                json!([{ "ip": "9" }, { "hostname": "h" }, { "ip": "1" }, { "ip": "9" }]),
            ),
            "1,9,h",
            "sorted, each once",
        ),
        (
            service(json!({ "type": "LoadBalancer" }), json!([{ "ip": "1", "hostname": "h" }, {}])),
            "1",
            "addresses come before names, and none is left out",
        ),
        (
            service(json!({ "type": "LoadBalancer", "externalIPs": ["0"] }), json!([{ "ip": "9" }])),
            "9,0",
            "the balancer's first",
        ),
        (service(json!({ "type": "LoadBalancer", "externalIPs": ["0"] }), none()), "0", "not pending"),
        (service(json!({ "type": "ExternalName", "externalName": "e" }), none()), "e", "a name elsewhere"),
        (service(json!({}), none()), "<unknown>", "no type at all: a bookmark"),
    ];
    check("", "services", "External-IP", &rows);
    let ports = |ports: Value| service(json!({ "ports": ports }), none());
    let rows = [
        (ports(json!([])), "<none>", "none"),
        (ports(json!([{ "port": 80, "protocol": "TCP" }, { "port": 53, "protocol": "UDP" }])), "80/TCP,53/UDP", "two"),
        (ports(json!([{ "port": 80, "nodePort": 30080, "protocol": "TCP" }])), "80:30080/TCP", "on nodes"),
    ];
    check("", "services", "Port(s)", &rows);
}

#[test]
fn lists_are_cut_after_three() {
    let subset = |addresses: &[&str], ports: &[u16]| {
        let addresses: Vec<Value> = addresses.iter().map(|address| json!({ "ip": address })).collect();
        let ports: Vec<Value> = ports.iter().map(|port| json!({ "port": port })).collect();
        json!({ "addresses": addresses, "ports": ports })
    };
    let endpoints = |subsets: &[Value]| json!({ "subsets": subsets });
    let rows = [
        (endpoints(&[]), "<none>", "no subsets"),
        (endpoints(&[subset(&[], &[80])]), "", "a subset without addresses is not nothing"),
        (endpoints(&[subset(&["a", "b"], &[])]), "a,b", "no ports"),
        (endpoints(&[subset(&["a", "b"], &[1, 2])]), "a:1,b:1,a:2 + 1 more...", "every port of every address counts"),
        (endpoints(&[subset(&["a", "b", "c"], &[1])]), "a:1,b:1,c:1", "exactly three"),
        (endpoints(&[subset(&["fd00::1"], &[1])]), "[fd00::1]:1", "an address with colons"),
        (endpoints(&[subset(&["a"], &[1]), subset(&["b", "c", "d"], &[])]), "a:1,b,c + 1 more...", "two subsets"),
    ];
    check("", "endpoints", "Endpoints", &rows);
    let ports = |ports: Value| json!({ "ports": ports });
    let rows = [
        (ports(Value::Null), "<unset>", "absent"),
        (ports(json!([{ "name": "", "port": 80 }])), "80", "a number"),
        (ports(json!([{ "name": "web" }])), "web", "no number: the name"),
        (ports(json!([{}])), "*", "neither"),
        (ports(json!([{ "name": "" }])), "<unset>", "an empty name is as if nothing were there"),
        (ports(json!([{ "port": 1 }, { "port": 2 }, { "port": 3 }, { "port": 4 }])), "1,2,3 + 1 more...", "four"),
    ];
    check("discovery.k8s.io", "endpointslices", "Ports", &rows);
    let hosts = |hosts: &[&str]| json!({ "spec": { "rules": hosts.iter().map(|host| json!({ "host": host })).collect::<Vec<_>>() } });
    let rows = [
        (hosts(&[]), "*", "no rules"),
        (hosts(&["", ""]), "*", "no hosts"),
        (hosts(&["a", "", "b"]), "a,b", "rules without a host are not listed"),
        (hosts(&["a", "b", "c"]), "a,b,c", "exactly three"),
        (hosts(&["a", "b", "c", ""]), "a,b,c + 1 more...", "a rule without a host is one more"),
        (hosts(&["a", "", "b", "c", "d"]), "a,b,c + 2 more...", "what is more is counted in rules, not in hosts"),
    ];
    check("networking.k8s.io", "ingresses", "Hosts", &rows);
}

#[test]
fn jobs_print_their_completions_and_their_duration() {
    let job = |spec: Value, status: Value| json!({ "spec": spec, "status": status });
    let none = || json!({});
    let rows = [
        (job(json!({ "completions": 3 }), json!({ "succeeded": 1 })), "1/3", "of so many"),
        (job(none(), none()), "0/1", "one is enough"),
        (job(json!({ "parallelism": 1 }), none()), "0/1", "one at a time"),
        (job(json!({ "parallelism": 2 }), json!({ "succeeded": 2 })), "2/1 of 2", "a queue of work"),
    ];
    check("batch", "jobs", "Completions", &rows);
    let (start, end) = ("2026-11-21T11:00:00Z", "2026-11-21T11:01:30Z");
    let rows = [
        (job(none(), none()), "", "not started"),
        (job(none(), json!({ "startTime": start })), "60m", "up to now"),
        (job(none(), json!({ "startTime": start, "completionTime": end })), "90s", "up to its end"),
    ];
    check("batch", "jobs", "Duration", &rows);
    let conditions = |conditions: &[(&str, &str)], more: Value| {
        let conditions: Vec<Value> =
            conditions.iter().map(|(kind, status)| json!({ "type": kind, "status": status })).collect();
        let mut job = job(none(), json!({ "conditions": conditions }));
        merge(&mut job, &more);
        job
    };
    let going = || json!({ "metadata": { "deletionTimestamp": NOW } });
    let rows = [
        (conditions(&[], none()), "Running", "no other reason is set"),
        (
            conditions(&[("SuccessCriteriaMet", "True"), ("Complete", "True")], none()),
            "Complete",
            "the end outdoes what led to it",
        ),
        (conditions(&[("FailureTarget", "True"), ("Failed", "True")], none()), "Failed", "likewise"),
        (conditions(&[("FailureTarget", "True")], none()), "FailureTarget", "failing"),
        (conditions(&[("Suspended", "True")], none()), "Suspended", "suspended"),
        (conditions(&[("Suspended", "False"), ("Suspended", "True")], none()), "Running", "the first of a type counts"),
        (conditions(&[("Suspended", "True")], going()), "Terminating", "deletion outdoes suspension"),
        (conditions(&[("Complete", "True")], going()), "Complete", "but not the end"),
    ];
    check("batch", "jobs", "Status", &rows);
}

#[test]
fn metrics_of_autoscalers_are_current_and_target() {
    let scaler = |metrics: Value, statuses: Value| json!({ "spec": { "metrics": metrics }, "status": { "currentMetrics": statuses } });
    let cpu = |target: Value| json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
    let now = |current: Value| json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } });
    let percent = || cpu(json!({ "averageUtilization": 80 }));
    let external = |target: Value| json!({ "type": "External", "external": { "target": target } });
    let none = || json!([]);
    let rows = [
        (scaler(none(), none()), "<none>", "none"),
        (scaler(json!([percent()]), none()), "cpu: <unknown>/80%", "no status yet"),
        (scaler(json!([percent()]), json!([now(json!({ "averageUtilization": 7 }))])), "cpu: 7%/80%", "percents"),
        (scaler(json!([cpu(json!({}))]), none()), "cpu: <unknown>/<auto>", "no target"),
        (
            scaler(json!([cpu(json!({ "averageValue": "100m" }))]), json!([now(json!({ "averageValue": "5m" }))])),
            "cpu: 5m/100m",
            "an average",
        ),
        (
            scaler(json!([cpu(json!({ "averageValue": "100m" }))]), json!([now(json!({}))])),
            "cpu: <nil>/100m",
            "a status without the value: upstream prints the pointer",
        ),
        (scaler(json!([external(json!({ "averageValue": "1" }))]), none()), "<unknown>/1 (avg)", "external, average"),
        (scaler(json!([external(json!({ "value": "1" }))]), none()), "<unknown>/1", "external, value"),
        (
            scaler(json!([external(json!({ "value": "1" }))]), json!([now(json!({ "averageValue": "5m" }))])),
            "<unknown>/1",
            "a status of another kind has no effect",
        ),
        (scaler(json!([{ "type": "New" }]), none()), "<unknown type>", "a kind of later"),
        (
            scaler(json!([percent(), percent(), percent()]), none()),
            "cpu: <unknown>/80%, cpu: <unknown>/80% + 1 more...",
            "three",
        ),
    ];
    check("autoscaling", "horizontalpodautoscalers", "Targets", &rows);
    let old = |cpu: Value, metrics: Value, statuses: Value| {
        let text = |value: Value| if value.is_null() { value } else { Value::from(value.to_string()) };
        json!({ "spec": { "targetCPUUtilizationPercentage": cpu }, "metadata": { "annotations": {
            "autoscaling.alpha.kubernetes.io/metrics": text(metrics),
            "autoscaling.alpha.kubernetes.io/current-metrics": text(statuses),
        } } })
    };
    let pods = json!([{ "type": "Pods", "pods": { "metricName": "m", "targetAverageValue": "10" } }]);
    let statuses = json!([
        { "type": "Pods", "pods": { "metricName": "m", "currentAverageValue": "3" } },
        { "type": "Resource", "resource": { "name": "cpu", "currentAverageUtilization": 40, "currentAverageValue": "4m" } },
    ]);
    let rows = [
        (old(json!(80), Value::Null, Value::Null), "cpu: <unknown>/80%", "the old form, alone"),
        (
            old(json!(80), pods.clone(), Value::Null),
            "cpu: <unknown>/80%, <unknown>/10",
            "its position is unknown: first",
        ),
        (old(json!(80), pods, statuses), "3/10, cpu: 40%/80%", "the statuses show its position"),
    ];
    check("autoscaling", "horizontalpodautoscalers", "Targets", &rows);
}

#[test]
fn labels_and_selectors_are_sorted_as_upstream_sorts_them() {
    let labels = json!({ "metadata": { "labels": {} }, "template": { "metadata": { "labels": { "a": "1", "a-b": "2", "B": "" } } } });
    assert_eq!(cell("", "podtemplates", "Pod Labels", &labels), "B=,a-b=2,a=1", "pairs are sorted, not keys");
    let policy = |selector: Value| json!({ "spec": { "podSelector": selector, "selector": selector } });
    let expression =
        |key: &str, operator: &str, values: &[&str]| json!({ "key": key, "operator": operator, "values": values });
    let with = |expressions: &[Value]| policy(json!({ "matchLabels": { "m": "1" }, "matchExpressions": expressions }));
    let rows = [
        (policy(Value::Null), "<none>", "absent"),
        (policy(json!({})), "<none>", "empty"),
        (with(&[]), "m=1", "labels"),
        (with(&[expression("z", "Exists", &[]), expression("a", "DoesNotExist", &[])]), "!a,m=1,z", "by key"),
        (with(&[expression("m", "In", &["c", "a", "c"])]), "m=1,m in (a,c,c)", "values sorted, repeated ones kept"),
        (with(&[expression("n", "In", &["a"])]), "m=1,n in (a)", "a set of one stays a set"),
        (with(&[expression("n", "NotIn", &["", "a"])]), "m=1,n notin (,a)", "the empty value"),
        (with(&[expression("n", "In", &[])]), "<error>", "a set of none"),
        (with(&[expression("n", "Exists", &["a"])]), "<error>", "a value too many"),
        (with(&[expression("n", "Gt", &["1"])]), "<error>", "no such operator here"),
        (with(&[expression("n n", "Exists", &[])]), "<error>", "no such key"),
        (with(&[expression("n", "In", &["a b"])]), "<error>", "no such value"),
    ];
    check("networking.k8s.io", "networkpolicies", "Pod-Selector", &rows);
    let rows = [
        (policy(json!({})), "", "a deployment shows an empty selector as nothing"),
        (with(&[expression("n", "In", &[])]), "<invalid>", "and an impossible one in its own word"),
    ];
    check("apps", "deployments", "Selector", &rows);
    let binding = |reference: Value| json!({ "spec": { "paramRef": reference } });
    let rows = [
        (binding(Value::Null), "<unset>", "no parameters"),
        (binding(json!({ "name": "n" })), "*/n", "of no or any namespace"),
        (binding(json!({ "name": "n", "namespace": "s" })), "s/n", "of one"),
        (
            binding(
                json!({ "selector": { "matchLabels": { "b": "2", "a": "1" }, "matchExpressions": [expression("k", "In", &["x", "y"])] } }),
            ),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{\
             LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}",
            "the struct as Go prints it",
        ),
    ];
    check("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ParamRef", &rows);
}

#[test]
fn events_compute_times_from_the_members_that_they_have() {
    let (old, new) = ("2026-11-21T11:00:00Z", "2026-11-21T11:59:00Z");
    let fine = "2026-11-21T11:58:01.500000Z";
    let rows = [
        (json!({}), "<unknown>", "nothing"),
        (json!({ "firstTimestamp": old, "lastTimestamp": new }), "60s", "the last time"),
        (json!({ "firstTimestamp": old, "lastTimestamp": null }), "60m", "else the first"),
        (json!({ "eventTime": fine }), "118s", "else the time of the event, seconds cut off"),
        (json!({ "lastTimestamp": old, "series": { "lastObservedTime": fine } }), "118s", "a series takes precedence"),
        (json!({ "lastTimestamp": old, "series": {} }), "<unknown>", "even without a time"),
    ];
    check("", "events", "Last Seen", &rows);
    let counts = [
        (json!({}), 1, "once"),
        (json!({ "count": 4 }), 4, "as stated"),
        (json!({ "count": 4, "series": { "count": 9 } }), 9, "a series takes precedence"),
    ];
    for (event, expected, why) in counts {
        assert_eq!(cell("", "events", "Count", &event), expected, "{why}");
    }
    let new_form = json!({ "deprecatedLastTimestamp": new, "note": " said ", "regarding": { "kind": "Pod", "name": "p" },
        "reportingController": "c", "reportingInstance": "i" });
    let row = print("events.k8s.io", "events", &new_form).cells;
    assert_eq!(row[..7], [json!("60s"), json!(""), json!(""), json!("pod/p"), json!(""), json!("c, i"), json!("said")]);
}

#[test]
fn nodes_claims_and_quotas() {
    let node = |labels: Value, conditions: Value, unschedulable: bool| json!({ "metadata": { "labels": labels }, "spec": { "unschedulable": unschedulable }, "status": { "conditions": conditions } });
    let ready = |status: &str| json!([{ "type": "Ready", "status": status }]);
    let none = || json!({});
    let rows = [
        (node(none(), ready("True"), false), "Ready", "ready"),
        (node(none(), ready("Unknown"), true), "NotReady,SchedulingDisabled", "unknown is not ready"),
        (node(none(), json!([]), false), "Unknown", "no condition is set"),
        (
            node(none(), json!([{ "type": "Ready", "status": "True" }, { "type": "Ready", "status": "False" }]), false),
            "NotReady",
            "the last one counts",
        ),
    ];
    check("", "nodes", "Status", &rows);
    let rows = [
        (node(none(), json!([]), false), "<none>", "no roles"),
        (
            node(
                json!({ "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/": "x", "kubernetes.io/role": "all" }),
                json!([]),
                false,
            ),
            "all,worker",
            "two forms of the label, sorted; an empty role is none",
        ),
        (
            node(json!({ "node-role.kubernetes.io/a": "", "kubernetes.io/role": "a" }), json!([]), false),
            "a",
            "each once",
        ),
    ];
    check("", "nodes", "Roles", &rows);
    let claim = |annotations: Value, volume: &str| {
        json!({ "metadata": { "annotations": annotations }, "spec": { "storageClassName": "new", "volumeName": volume },
                "status": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteMany"] } })
    };
    let annotated = json!({ "volume.beta.kubernetes.io/storage-class": "" });
    check(
        "",
        "persistentvolumeclaims",
        "StorageClass",
        &[(claim(none(), ""), "new", "the member"), (claim(annotated, ""), "", "the annotation, were it empty")],
    );
    check(
        "",
        "persistentvolumeclaims",
        "Access Modes",
        &[
            (claim(none(), ""), "", "not bound: nothing is shown"),
            (claim(none(), "v"), "RWO,ROX,RWX", "short, each once, in a fixed order"),
        ],
    );
    let quota =
        json!({ "status": { "hard": { "pods": "3", "limits.cpu": "2", "cpu": "1" }, "used": { "cpu": "500m" } } });
    let row = print("", "resourcequotas", &quota).cells;
    assert_eq!(row[1..3], [json!("cpu: 500m/1, pods: 0/3"), json!("limits.cpu: 0/2")]);
}

#[test]
fn small_cells() {
    let going = || json!({ "deletionTimestamp": NOW });
    let conditions = |kinds: &[&str]| -> Value {
        kinds.iter().map(|kind| json!({ "type": kind, "status": "True", "reason": "R" })).collect()
    };
    let subjects = json!({ "subjects": [
        { "kind": "User", "name": "u" }, { "kind": "Group", "name": "g" }, { "kind": "User", "name": "v" },
        { "kind": "ServiceAccount", "name": "s", "namespace": "n" },
    ] });
    let kernel =
        |kernel: &str| json!({ "status": { "nodeInfo": { "kernelVersion": kernel, "architecture": "arm64" } } });
    let owners = json!({ "metadata": { "ownerReferences": [
        { "apiVersion": "v1", "kind": "Other", "name": "o" },
        { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true },
    ] } });
    let request = |kinds: &[&str], certificate: &str| json!({ "status": { "conditions": conditions(kinds), "certificate": certificate } });
    let claim = |metadata: Value, status: Value| json!({ "metadata": metadata, "status": status });
    let none = || json!({});
    let service = |service: Value, kinds: &[&str]| json!({ "spec": { "service": service }, "status": { "conditions": conditions(kinds) } });
    let (rbac, certificates, devices) = ("rbac.authorization.k8s.io", "certificates.k8s.io", "resource.k8s.io");
    let rows = [
        (rbac, "rolebindings", "Users", subjects.clone(), json!("u, v")),
        (rbac, "rolebindings", "Groups", subjects.clone(), json!("g")),
        (rbac, "clusterrolebindings", "ServiceAccounts", subjects, json!("n/s")),
        ("", "nodes", "Kernel-Version", kernel("6"), json!("6 (arm64)")),
        ("", "nodes", "Kernel-Version", kernel(""), json!("<unknown> (arm64)")),
        ("", "configmaps", "Data", json!({ "data": { "a": "" }, "binaryData": { "b": "", "c": "" } }), json!(3)),
        (
            "",
            "persistentvolumes",
            "Status",
            json!({ "metadata": going(), "status": { "phase": "Bound" } }),
            json!("Terminating"),
        ),
        ("", "persistentvolumes", "Capacity", none(), json!("0")),
        ("apps", "controllerrevisions", "Controller", owners, json!("statefulset.apps/s")),
        ("apps", "controllerrevisions", "Controller", none(), json!("<none>")),
        ("batch", "cronjobs", "Suspend", none(), json!("<unset>")),
        ("batch", "cronjobs", "Suspend", json!({ "spec": { "suspend": false } }), json!("False")),
        ("policy", "poddisruptionbudgets", "Min Available", json!({ "spec": { "minAvailable": 2 } }), json!("2")),
        ("policy", "poddisruptionbudgets", "Min Available", json!({ "spec": { "minAvailable": "2%" } }), json!("2%")),
        ("policy", "poddisruptionbudgets", "Max Unavailable", none(), json!("N/A")),
        ("storage.k8s.io", "csidrivers", "AttachRequired", none(), json!(true)),
        ("storage.k8s.io", "csidrivers", "TokenRequests", none(), json!("<unset>")),
        ("storage.k8s.io", "csidrivers", "TokenRequests", json!({ "spec": { "tokenRequests": [] } }), json!("")),
        (
            certificates,
            "certificatesigningrequests",
            "Condition",
            request(&["Approved", "Denied"], ""),
            json!("Denied"),
        ),
        (
            certificates,
            "certificatesigningrequests",
            "Condition",
            request(&["Approved"], "x"),
            json!("Approved,Issued"),
        ),
        (certificates, "certificatesigningrequests", "Condition", request(&["Failed"], ""), json!("Pending,Failed")),
        (certificates, "podcertificaterequests", "State", request(&["Other", "Issued", "Failed"], ""), json!("Failed")),
        ("flowcontrol.apiserver.k8s.io", "flowschemas", "MissingPL", none(), json!("?")),
        ("flowcontrol.apiserver.k8s.io", "flowschemas", "MissingPL", request(&["Dangling"], ""), json!("True")),
        (devices, "resourceclaims", "State", none(), json!("pending")),
        (devices, "resourceclaims", "State", claim(going(), none()), json!("deleted")),
        (devices, "resourceclaims", "State", claim(none(), json!({ "reservedFor": [1] })), json!("pending")),
        (
            devices,
            "resourceclaims",
            "State",
            claim(going(), json!({ "allocation": {}, "reservedFor": [1] })),
            json!("deleted,allocated,reserved"),
        ),
        ("apiregistration.k8s.io", "apiservices", "Service", none(), json!("Local")),
        ("apiregistration.k8s.io", "apiservices", "Available", service(json!({}), &["Available"]), json!("True")),
        ("apiregistration.k8s.io", "apiservices", "Available", service(json!({}), &[]), json!("Unknown")),
    ];
    for (group, resource, column, object, expected) in rows {
        assert_eq!(cell(group, resource, column, &object), expected, "{resource}, {column}: {object}");
    }
}

#[test]
fn kinds_without_a_printer_upstream_show_when_they_were_made() {
    let role = json!({ "metadata": { "name": "r", "creationTimestamp": "2026-11-21T11:00:00Z" } });
    assert_eq!(print("rbac.authorization.k8s.io", "roles", &role).cells, [json!("r"), json!("2026-11-21T11:00:00Z")]);
    let bookmark = print("rbac.authorization.k8s.io", "roles", &Value::Null).cells;
    assert_eq!(bookmark, [json!(""), json!("0001-01-01T00:00:00Z")], "the zero time");
    let fallback = NAME_AND_AGE.print(role.to_string().as_bytes(), Moment::parse(NOW).unwrap()).cells;
    assert_eq!(fallback, [json!("r"), json!("60m")]);
}

#[test]
fn quotas_print_used_and_allowed_amounts_side_by_side() {
    let quota = json!({ "status": {
        "hard": { "b": "2", "c": "3", "limits.cpu": "4", "d": 5, "\"": "6" },
        "used": { "a": "1", "c": "1", "limits.cpu": "2", "z": "1", "\"": "3" },
    } });
    assert_eq!(cell("", "resourcequotas", "Request", &quota), "\": 3/6, b: 0/2, c: 1/3, d: 0/5");
    assert_eq!(cell("", "resourcequotas", "Limit", &quota), "limits.cpu: 2/4");
}

#[test]
fn addresses_of_endpoints_are_counted_with_each_port() {
    let addresses = |count: usize| vec![json!({ "ip": "::1" }); count];
    let ports = |count: usize| vec![json!({ "port": 80 }); count];
    let rows = [
        (json!([]), "<none>", "no subset"),
        (json!([{ "addresses": addresses(2) }]), "::1,::1", "no port"),
        (json!([{ "ports": ports(2) }]), "", "no address"),
        (json!([{ "addresses": addresses(3), "ports": ports(1) }]), "[::1]:80,[::1]:80,[::1]:80", "three"),
        (
            json!([{ "addresses": addresses(1) }, { "addresses": addresses(2), "ports": ports(2) }]),
            "::1,[::1]:80,[::1]:80 + 2 more...",
            "two subsets",
        ),
        (
            json!([{ "addresses": addresses(4_000), "ports": ports(4_000) }]),
            "[::1]:80,[::1]:80,[::1]:80 + 15999997 more...",
            "millions",
        ),
    ];
    for (subsets, expected, why) in rows {
        assert_eq!(cell("", "endpoints", "Endpoints", &json!({ "subsets": subsets })), expected, "{why}");
    }
}

#[test]
fn flow_schemas_are_in_the_order_in_which_they_are_tried() {
    let order = printer("flowcontrol.apiserver.k8s.io", "flowschemas").order().unwrap();
    let schema = |name: &str, precedence: u64| json!({ "metadata": { "name": name }, "spec": { "matchingPrecedence": precedence } });
    let mut schemas = [schema("a", 20), schema("c", 3), schema("b", 3)];
    schemas.sort_by_key(|schema| order(schema.to_string().as_bytes()));
    let names: Vec<&Value> = schemas.iter().map(|schema| &schema["metadata"]["name"]).collect();
    assert_eq!(names, ["b", "c", "a"]);
    assert!(printer("", "pods").order().is_none());
}

#[test]
fn durations_are_printed_in_at_most_two_units() {
    for (seconds, expected) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_799, "7h59m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_199, "7d23h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_287_999, "7y364d"),
        (252_288_000, "8y"),
    ] {
        assert_eq!(human_duration(seconds), expected, "{seconds}");
    }
}

#[test]
fn moments_are_read_as_api_servers_write_them() {
    let at = |text: &str| Moment::parse(text);
    assert_eq!(at("1970-01-01T00:00:00Z"), Some(Moment::of_microseconds(0)));
    assert_eq!(at("2000-02-29T23:59:59.000006Z"), Some(Moment::of_microseconds(951_868_799_000_006)));
    assert_eq!(at("1969-12-31T23:59:59.5Z"), Some(Moment::of_microseconds(-500_000)));
    assert_eq!(at("2024-03-01T01:00:00+02:30"), at("2024-02-29T22:30:00Z"), "another zone");
    assert_eq!(at("2024-01-02T03:04:05.123456789Z"), at("2024-01-02T03:04:05.123456Z"), "what is finer is cut off");
    for broken in [
        "",
        "now",
        "2024-01-02",
        "2024-01-02T03:04:05",
        "2024-13-02T03:04:05Z",
        "2024-01-32T03:04:05Z",
        "2024-01-02T24:04:05Z",
        "2024-01-02 03:04:05Z",
        "2024-01-02T03:04:05.Z",
        "2024-01-02T03:04:05Zulu",
        "2024-01-02T03:04:05+1",
        "ünf-01-02T03:04:05Z",
        "2024-01-0üT03:04:05Z",
        "+024-01-02T03:04:05Z",
    ] {
        assert_eq!(at(broken), None, "{broken}");
    }
    let (early, late) = (at("0001-01-01T00:00:00Z").unwrap(), at("9999-12-31T23:59:59Z").unwrap());
    assert_eq!(human_duration(late.seconds_since(early)), "292y", "as far as Go can count");
    assert_eq!(
        at("2024-01-02T03:04:05.5Z").unwrap().seconds_since(at("2024-01-02T03:04:07Z").unwrap()),
        -1,
        "towards zero"
    );
}
