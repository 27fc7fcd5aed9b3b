//! What a cluster is furnished with: nodes, namespaces, configuration, quotas, classes, leases, other API servers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::read::{condition, count, flag, integer, is_set, items, members, name, text, text_or};
use super::text::{at_most_three, quantity};
use super::time::{Moment, age};
use super::{AGE, CREATED_AT, NAME, Printer, Row, boolean, integer as integer_column, string};

/// Name and creation time: the kinds that have no printer upstream either (apiserver `registry/rest/table.go`).
pub(super) fn created_at(object: &Value, _now: Moment) -> Row {
    let created = &object["metadata"]["creationTimestamp"];
    // The zero time of Go, as a bookmark has it.
    Row::of(vec![name(object), json!(text_or(created, "0001-01-01T00:00:00Z"))])
}

fn service_accounts(object: &Value, now: Moment) -> Row {
    Row::of(vec![name(object), age(object, now)])
}

fn config_maps(object: &Value, now: Moment) -> Row {
    Row::of(vec![name(object), json!(count(&object["data"]) + count(&object["binaryData"])), age(object, now)])
}

fn secrets(object: &Value, now: Moment) -> Row {
    Row::of(vec![name(object), json!(text(&object["type"])), json!(count(&object["data"])), age(object, now)])
}

fn namespaces(object: &Value, now: Moment) -> Row {
    Row::of(vec![name(object), json!(text(&object["status"]["phase"])), age(object, now)])
}

fn nodes(object: &Value, now: Moment) -> Row {
    let (spec, status) = (&object["spec"], &object["status"]);
    // Of several conditions of that type the last one counts.
    let ready = items(&status["conditions"]).iter().rfind(|condition| text(&condition["type"]) == "Ready");
    let mut state = match ready.map(|ready| text(&ready["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(&spec["unschedulable"]) {
        state.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = items(&status["addresses"]).iter().find(|address| text(&address["type"]) == kind);
        json!(found.map_or("<none>", |address| text(&address["address"])))
    };
    let info = &status["nodeInfo"];
    let mut kernel = text_or(&info["kernelVersion"], "<unknown>").to_owned();
    if !text(&info["architecture"]).is_empty() {
        kernel = format!("{kernel} ({})", text(&info["architecture"]));
    }
    Row::of(vec![
        name(object),
        json!(state),
        json!(roles(object)),
        age(object, now),
        json!(text(&info["kubeletVersion"])),
        address("InternalIP"),
        address("ExternalIP"),
        json!(text_or(&info["osImage"], "<unknown>")),
        json!(kernel),
        json!(text_or(&info["containerRuntimeVersion"], "<unknown>")),
    ])
}

fn roles(node: &Value) -> String {
    let role = |(key, value)| match (str::strip_prefix(key, "node-role.kubernetes.io/"), key) {
        (Some(role), _) => role,
        (None, "kubernetes.io/role") => text(value),
        (None, _) => "",
    };
    let roles: BTreeSet<&str> =
        members(&node["metadata"]["labels"]).map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn resource_quotas(object: &Value, now: Moment) -> Row {
    let status = &object["status"];
    let mut resources: Vec<(&str, &Value)> = members(&status["hard"]).collect();
    resources.sort_unstable_by_key(|(resource, _)| *resource);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in resources {
        let used = quantity(&status["used"][resource]);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", quantity(hard)));
    }
    Row::of(vec![name(object), json!(requests.join(", ")), json!(limits.join(", ")), age(object, now)])
}

fn component_statuses(object: &Value, _now: Moment) -> Row {
    let healthy = items(&object["conditions"]).iter().find(|condition| text(&condition["type"]) == "Healthy");
    let state = match healthy.map(|condition| text(&condition["status"])) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let member = |member: &str| json!(healthy.map_or("", |condition| text(&condition[member])));
    Row::of(vec![name(object), json!(state), member("message"), member("error")])
}

/// kube-aggregator `pkg/registry/apiservice/etcd`.
fn api_services(object: &Value, now: Moment) -> Row {
    let service = &object["spec"]["service"];
    let shown = if is_set(service) {
        format!("{}/{}", text(&service["namespace"]), text(&service["name"]))
    } else {
        "Local".to_owned()
    };
    let available = match condition(object, "Available") {
        None => "Unknown".to_owned(),
        Some(condition) => match (text(&condition["status"]), text(&condition["reason"])) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    };
    Row::of(vec![name(object), json!(shown), json!(available), age(object, now)])
}

fn leases(object: &Value, now: Moment) -> Row {
    Row::of(vec![name(object), json!(text(&object["spec"]["holderIdentity"])), age(object, now)])
}

fn lease_candidates(object: &Value, now: Moment) -> Row {
    let spec = &object["spec"];
    let member = |member: &str| json!(text(&spec[member]));
    Row::of(vec![
        name(object),
        member("leaseName"),
        member("binaryVersion"),
        member("emulationVersion"),
        age(object, now),
    ])
}

fn storage_versions(object: &Value, now: Moment) -> Row {
    let status = &object["status"];
    let versions: Vec<String> = items(&status["storageVersions"])
        .iter()
        .map(|version| format!("{}={}", text(&version["apiServerID"]), text(&version["encodingVersion"])))
        .collect();
    let common = status["commonEncodingVersion"].as_str().unwrap_or("<unset>");
    Row::of(vec![name(object), json!(common), json!(at_most_three(&versions)), age(object, now)])
}

fn runtime_classes(object: &Value, now: Moment) -> Row {
    Row::of(vec![name(object), json!(text(&object["handler"])), age(object, now)])
}

fn priority_classes(object: &Value, now: Moment) -> Row {
    Row::of(vec![
        name(object),
        json!(integer(&object["value"])),
        json!(flag(&object["globalDefault"])),
        age(object, now),
        json!(text(&object["preemptionPolicy"])),
    ])
}

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        resource: "componentstatuses",
        columns: &[
            NAME,
            string("Status", "Status of the component conditions"),
            string("Message", "Message of the component conditions"),
            string("Error", "Error of the component conditions"),
        ],
        print: component_statuses,
    },
    Printer {
        group: "",
        resource: "configmaps",
        columns: &[
            NAME,
            string(
                "Data",
                "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' \
                 or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in \
                 Data must not overlap with the keys in the BinaryData field, this is enforced during validation \
                 process.",
            ),
            AGE,
        ],
        print: config_maps,
    },
    Printer { group: "", resource: "limitranges", columns: &[NAME, CREATED_AT], print: created_at },
    Printer {
        group: "",
        resource: "namespaces",
        columns: &[NAME, string("Status", "The status of the namespace"), AGE],
        print: namespaces,
    },
    Printer {
        group: "",
        resource: "nodes",
        columns: &[
            NAME,
            string("Status", "The status of the node"),
            string("Roles", "The roles of the node"),
            AGE,
            string("Version", "Kubelet Version reported by the node."),
            string(
                "Internal-IP",
                "List of addresses reachable to the node. Queried from cloud provider, if available. More info: \
                 https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as \
                 mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it \
                 is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an \
                 example. Consumers should assume that addresses can change during the lifetime of a Node. However, \
                 there are some exceptions where this may not be possible, such as Pods that inherit a Node's \
                 address in its own status or consumers of the downward API (status.hostIP).",
            )
            .wide(),
            string(
                "External-IP",
                "List of addresses reachable to the node. Queried from cloud provider, if available. More info: \
                 https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as \
                 mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it \
                 is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an \
                 example. Consumers should assume that addresses can change during the lifetime of a Node. However, \
                 there are some exceptions where this may not be possible, such as Pods that inherit a Node's \
                 address in its own status or consumers of the downward API (status.hostIP).",
            )
            .wide(),
            string(
                "OS-Image",
                "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
            )
            .wide(),
            string(
                "Kernel-Version",
                "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
            )
            .wide(),
            string(
                "Container-Runtime",
                "ContainerRuntime Version reported by the node through runtime remote API (e.g. \
                 containerd://1.4.2).",
            )
            .wide(),
        ],
        print: nodes,
    },
    Printer {
        group: "",
        resource: "resourcequotas",
        columns: &[
            NAME,
            string("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
            string(
                "Limit",
                "Limits control the maximum amount of cpu/memory that a container may use independent of \
                 contention on the node.",
            ),
            AGE,
        ],
        print: resource_quotas,
    },
    Printer {
        group: "",
        resource: "secrets",
        columns: &[
            NAME,
            string(
                "Type",
                "Used to facilitate programmatic handling of secret data. More info: \
                 https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
            ),
            string(
                "Data",
                "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. \
                 The serialized form of the secret data is a base64 encoded string, representing the arbitrary \
                 (possibly non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
            ),
            AGE,
        ],
        print: secrets,
    },
    Printer { group: "", resource: "serviceaccounts", columns: &[NAME, AGE], print: service_accounts },
    Printer {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        columns: &[NAME, CREATED_AT],
        print: created_at,
    },
    Printer {
        group: "apiregistration.k8s.io",
        resource: "apiservices",
        columns: &[
            NAME,
            string("Service", "The reference to the service that hosts this API endpoint."),
            string("Available", "Whether this service is available."),
            AGE,
        ],
        print: api_services,
    },
    Printer {
        group: "coordination.k8s.io",
        resource: "leases",
        columns: &[
            NAME,
            string(
                "Holder",
                "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader \
                 Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name \
                 field.",
            ),
            AGE,
        ],
        print: leases,
    },
    Printer {
        group: "coordination.k8s.io",
        resource: "leasecandidates",
        columns: &[
            NAME,
            string(
                "LeaseName",
                "LeaseName is the name of the lease for which this candidate is contending. This field is \
                 immutable.",
            ),
            string("BinaryVersion", ""),
            string("EmulationVersion", ""),
            AGE,
        ],
        print: lease_candidates,
    },
    Printer {
        group: "internal.apiserver.k8s.io",
        resource: "storageversions",
        columns: &[
            NAME,
            string(
                "CommonEncodingVersion",
                "commonEncodingVersion is set to an encoding storage version if all API server instances share \
                 that same version. If they don't share one storage version, this field is left empty. API servers \
                 should finish updating its storageVersionStatus entry before serving write operations, so that \
                 this field will be in sync with the reality.",
            ),
            string("StorageVersions", "storageVersions lists the reported versions per API server instance."),
            AGE,
        ],
        print: storage_versions,
    },
    Printer {
        group: "node.k8s.io",
        resource: "runtimeclasses",
        columns: &[NAME, string("Handler", ""), AGE],
        print: runtime_classes,
    },
    Printer {
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        columns: &[
            NAME,
            integer_column(
                "Value",
                "value represents the integer value of this priority class. This is the actual priority that pods \
                 receive when they have the name of this class in their pod spec.",
            ),
            boolean(
                "Global-Default",
                "globalDefault specifies whether this PriorityClass should be considered as the default priority \
                 for pods that do not have any priority class. Only one PriorityClass can be marked as \
                 `globalDefault`. However, if more than one PriorityClasses exists with their `globalDefault` field \
                 set to true, the smallest value of such global default PriorityClasses will be used as the default \
                 priority.",
            ),
            AGE,
            string(
                "PreemptionPolicy",
                "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, \
                 PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.",
            ),
        ],
        print: priority_classes,
    },
];
