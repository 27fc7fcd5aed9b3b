//! Printers (table rows of `kubectl get`) of a cluster's own objects: nodes, namespaces, configuration, quotas,
//! classes, leases, other API servers.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::json;

use crate::json::Json;

use super::column::{AGE, NAME, boolean, integer as integer_column, string};
use super::kind::{PrintedRow, Printer};
use super::read::{condition, count, flag, integer, is_set, items, members, name, pointer_or, text, text_or};
use super::text::{at_most_three, quantity};
use super::time::{Moment, age};

fn service_accounts(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), age(object, now)])
}

fn config_maps(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![
        name(object),
        json!(count(object.at("data")) + count(object.at("binaryData"))),
        age(object, now),
    ])
}

fn secrets(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![
        name(object),
        json!(text(object.at("type"))),
        json!(count(object.at("data"))),
        age(object, now),
    ])
}

fn namespaces(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(text(object.at("status").at("phase"))), age(object, now)])
}

fn nodes(object: Json<'_>, now: Moment) -> PrintedRow {
    let (spec, status) = (object.at("spec"), object.at("status"));
    // Of several conditions of that type the last one counts.
    let ready = items(status.at("conditions")).filter(|condition| text(condition.at("type")) == "Ready").last();
    let mut state = match ready.map(|ready| text(ready.at("status"))).as_deref() {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(spec.at("unschedulable")) {
        state.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = items(status.at("addresses")).find(|address| text(address.at("type")) == kind);
        json!(found.map_or(Cow::Borrowed("<none>"), |address| text(address.at("address"))))
    };
    let info = status.at("nodeInfo");
    let mut kernel = text_or(info.at("kernelVersion"), "<unknown>").into_owned();
    if !text(info.at("architecture")).is_empty() {
        kernel = format!("{kernel} ({})", text(info.at("architecture")));
    }
    PrintedRow::new(vec![
        name(object),
        json!(state),
        json!(roles(object)),
        age(object, now),
        json!(text(info.at("kubeletVersion"))),
        address("InternalIP"),
        address("ExternalIP"),
        json!(text_or(info.at("osImage"), "<unknown>")),
        json!(kernel),
        json!(text_or(info.at("containerRuntimeVersion"), "<unknown>")),
    ])
}

/// The roles of a node, from its labels, joined by commas; `<none>` without one.
fn roles(node: Json<'_>) -> String {
    let role = |(key, value): (Cow<'_, str>, _)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => role.to_owned(),
        None if key == "kubernetes.io/role" => text(value).into_owned(),
        None => String::new(),
    };
    let roles: BTreeSet<String> =
        members(node.at("metadata").at("labels")).map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn resource_quotas(object: Json<'_>, now: Moment) -> PrintedRow {
    let status = object.at("status");
    // Both are in the order of their keys.
    let mut all_used = members(status.at("used")).peekable();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in members(status.at("hard")) {
        while all_used.next_if(|(other, _)| *other < resource).is_some() {}
        let used = all_used.peek().filter(|(other, _)| *other == resource);
        let used = quantity(used.map_or(Json::NOTHING, |(_, used)| *used));
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", quantity(hard)));
    }
    PrintedRow::new(vec![name(object), json!(requests.join(", ")), json!(limits.join(", ")), age(object, now)])
}

fn component_statuses(object: Json<'_>, _now: Moment) -> PrintedRow {
    let healthy = items(object.at("conditions")).find(|condition| text(condition.at("type")) == "Healthy");
    let state = match healthy.map(|condition| text(condition.at("status"))).as_deref() {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let member = |member: &str| json!(healthy.map(|condition| text(condition.at(member))).unwrap_or_default());
    PrintedRow::new(vec![name(object), json!(state), member("message"), member("error")])
}

/// The row of an APIService (kube-aggregator `pkg/registry/apiservice/etcd`).
fn api_services(object: Json<'_>, now: Moment) -> PrintedRow {
    let service = object.at("spec").at("service");
    let shown = if is_set(service) {
        format!("{}/{}", text(service.at("namespace")), text(service.at("name")))
    } else {
        "Local".to_owned()
    };
    let available = match condition(object, "Available") {
        None => "Unknown".to_owned(),
        Some(condition) => match (&*text(condition.at("status")), &*text(condition.at("reason"))) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    };
    PrintedRow::new(vec![name(object), json!(shown), json!(available), age(object, now)])
}

fn leases(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(text(object.at("spec").at("holderIdentity"))), age(object, now)])
}

fn lease_candidates(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    let member = |member: &str| json!(text(spec.at(member)));
    PrintedRow::new(vec![
        name(object),
        member("leaseName"),
        member("binaryVersion"),
        member("emulationVersion"),
        age(object, now),
    ])
}

fn storage_versions(object: Json<'_>, now: Moment) -> PrintedRow {
    let status = object.at("status");
    let versions = items(status.at("storageVersions"))
        .map(|version| format!("{}={}", text(version.at("apiServerID")), text(version.at("encodingVersion"))));
    let common = pointer_or(status.at("commonEncodingVersion"), "<unset>");
    PrintedRow::new(vec![name(object), json!(common), json!(at_most_three(versions)), age(object, now)])
}

fn runtime_classes(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), json!(text(object.at("handler"))), age(object, now)])
}

fn priority_classes(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![
        name(object),
        json!(integer(object.at("value"))),
        json!(flag(object.at("globalDefault"))),
        age(object, now),
        json!(text(object.at("preemptionPolicy"))),
    ])
}

/// Prints ComponentStatus.
pub const COMPONENT_STATUS: Printer = Printer {
    columns: &[
        NAME,
        string("Status", "Status of the component conditions"),
        string("Message", "Message of the component conditions"),
        string("Error", "Error of the component conditions"),
    ],
    print: component_statuses,
    order: None,
};

/// Prints ConfigMap.
pub const CONFIG_MAP: Printer = Printer {
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
    order: None,
};

/// Prints Namespace.
pub const NAMESPACE: Printer =
    Printer { columns: &[NAME, string("Status", "The status of the namespace"), AGE], print: namespaces, order: None };

/// Prints Node.
pub const NODE: Printer = Printer {
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
        string("OS-Image", "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).")
            .wide(),
        string("Kernel-Version", "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).")
            .wide(),
        string(
            "Container-Runtime",
            "ContainerRuntime Version reported by the node through runtime remote API (e.g. \
                 containerd://1.4.2).",
        )
        .wide(),
    ],
    print: nodes,
    order: None,
};

/// Prints ResourceQuota.
pub const RESOURCE_QUOTA: Printer = Printer {
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
    order: None,
};

/// Prints Secret.
pub const SECRET: Printer = Printer {
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
    order: None,
};

/// Prints ServiceAccount.
pub const SERVICE_ACCOUNT: Printer = Printer { columns: &[NAME, AGE], print: service_accounts, order: None };

/// Prints APIService.
pub const API_SERVICE: Printer = Printer {
    columns: &[
        NAME,
        string("Service", "The reference to the service that hosts this API endpoint."),
        string("Available", "Whether this service is available."),
        AGE,
    ],
    print: api_services,
    order: None,
};

/// Prints Lease.
pub const LEASE: Printer = Printer {
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
    order: None,
};

/// Prints LeaseCandidate.
pub const LEASE_CANDIDATE: Printer = Printer {
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
    order: None,
};

/// Prints StorageVersion.
pub const STORAGE_VERSION: Printer = Printer {
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
    order: None,
};

/// Prints RuntimeClass.
pub const RUNTIME_CLASS: Printer =
    Printer { columns: &[NAME, string("Handler", ""), AGE], print: runtime_classes, order: None };

/// Prints PriorityClass.
pub const PRIORITY_CLASS: Printer = Printer {
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
    order: None,
};
