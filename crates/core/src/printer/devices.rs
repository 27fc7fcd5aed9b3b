//! Printers (table rows of `kubectl get`) of resource.k8s.io: devices, claims and taints.

use std::borrow::Cow;

use serde_json::json;

use crate::json::Json;

use super::column::{AGE, NAME, integer as integer_column, string};
use super::kind::{PrintedRow, Printer};
use super::read::{integer, is_being_deleted, is_empty, is_set, items, name, text};
use super::time::{Moment, age, since};

fn resource_claims(object: Json<'_>, now: Moment) -> PrintedRow {
    let status = object.at("status");
    let is_allocated = is_set(status.at("allocation"));
    let states = [
        ("deleted", is_being_deleted(object)),
        ("pending", !is_allocated && !is_being_deleted(object)),
        ("allocated", is_allocated),
        ("reserved", is_allocated && !is_empty(status.at("reservedFor"))),
    ];
    let states: Vec<&str> = states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state).collect();
    PrintedRow::new(vec![name(object), json!(states.join(",")), age(object, now)])
}

fn resource_slices(object: Json<'_>, now: Moment) -> PrintedRow {
    let spec = object.at("spec");
    PrintedRow::new(vec![
        name(object),
        json!(text(spec.at("nodeName"))),
        json!(text(spec.at("driver"))),
        json!(text(spec.at("pool").at("name"))),
        age(object, now),
    ])
}

fn device_taint_rules(object: Json<'_>, now: Moment) -> PrintedRow {
    let taint = object.at("spec").at("taint");
    let added = taint.at("timeAdded");
    let added = if is_set(added) { since(added, now) } else { String::new() };
    let member = |member: &str| json!(text(taint.at(member)));
    PrintedRow::new(vec![
        name(object),
        member("key"),
        member("value"),
        member("effect"),
        json!(added),
        age(object, now),
    ])
}

/// As `printResourcePoolStatusRequest` of kube-apiserver: numbers of the pools are `-` before there is a status and
/// after a failure.
fn resource_pool_status_requests(object: Json<'_>, now: Moment) -> PrintedRow {
    let status = object.at("status");
    let pools = items(status.at("pools"));
    let pool_count = integer(status.at("poolCount"));
    // The first condition that is true, of these two types, determines the status.
    let decided = items(status.at("conditions")).find(|condition| {
        matches!(&*text(condition.at("type")), "Complete" | "Failed") && text(condition.at("status")) == "True"
    });
    let kind = decided.map_or(Cow::Borrowed("Pending"), |condition| text(condition.at("type")));
    let completed =
        decided.filter(|_| kind == "Complete").map(|condition| since(condition.at("lastTransitionTime"), now));
    let listed = i64::try_from(pools.clone().count()).unwrap_or(i64::MAX);
    let state = if kind == "Complete" && pool_count > listed {
        format!("Complete ({listed}/{pool_count} pools)")
    } else {
        kind.clone().into_owned()
    };
    let are_known = is_set(status) && kind != "Failed";
    let cell = |number: i64| if are_known { json!(number.to_string()) } else { json!("-") };
    let sum = |member: &str| cell(pools.clone().map(|pool| integer(pool.at(member))).sum());
    let errors = pools.clone().filter(|pool| is_set(pool.at("validationError"))).count();
    PrintedRow::new(vec![
        name(object),
        json!(text(object.at("spec").at("driver"))),
        sum("totalDevices"),
        sum("availableDevices"),
        sum("allocatedDevices"),
        sum("unavailableDevices"),
        cell(i64::try_from(errors).unwrap_or(i64::MAX)),
        json!(pool_count),
        json!(state),
        json!(completed.unwrap_or_else(|| "<none>".to_owned())),
    ])
}

/// Prints DeviceTaintRule.
pub const DEVICE_TAINT_RULE: Printer = Printer {
    columns: &[
        NAME,
        string("Key", "The taint key to be applied to a device. Must be a label name."),
        string("Value", "The taint value corresponding to the taint key. Must be a label value."),
        string(
            "Effect",
            "The effect of the taint on claims that do not tolerate the taint and through such claims on the \
                 pods using them.\n\nValid effects are None, NoSchedule and NoExecute. PreferNoSchedule as used for \
                 nodes is not valid here. More effects may get added in the future. Consumers must treat unknown \
                 effects like None.",
        ),
        string(
            "TimeAdded",
            "TimeAdded represents the time at which the taint was added or (only in a DeviceTaintRule) the \
                 effect was modified. Added automatically during create or update if not set.\n\nIn addition, in a \
                 DeviceTaintRule a value provided during an update gets replaced with the current time if the \
                 provided value is the same as the old one and the new effect is different. Changing the key and/or \
                 value while keeping the effect unchanged is possible and does not update the time stamp because \
                 the eviction which uses it is either already started (NoExecute) or not started yet (NoEffect, \
                 NoSchedule).",
        ),
        AGE,
    ],
    print: device_taint_rules,
    order: None,
};

/// Prints ResourceClaim.
pub const RESOURCE_CLAIM: Printer = Printer {
    columns: &[NAME, string("State", "A summary of the current state (allocated, pending, reserved, etc.)."), AGE],
    print: resource_claims,
    order: None,
};

/// Prints ResourcePoolStatusRequest.
pub const RESOURCE_POOL_STATUS_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        string("Driver", "The driver to query pools for."),
        string("Total", "Total number of devices across all pools."),
        string("Available", "Number of available devices across all pools."),
        string("Allocated", "Number of allocated devices across all pools."),
        string("Unavailable", "Number of unavailable devices across all pools."),
        string("Errors", "Number of pools with validation errors."),
        integer_column("Pools", "Total number of matching pools."),
        string("Status", "Processing status."),
        string("Completed", "Time since the observation completed."),
    ],
    print: resource_pool_status_requests,
    order: None,
};

/// Prints ResourceSlice.
pub const RESOURCE_SLICE: Printer = Printer {
    columns: &[
        NAME,
        string(
            "Node",
            "NodeName identifies the node which provides the resources in this pool. A field selector can be \
                 used to list only ResourceSlice objects belonging to a certain node.\n\nThis field can be used to \
                 limit access from nodes to ResourceSlices with the same node name. It also indicates to \
                 autoscalers that adding new nodes of the same type as some old node might also make new resources \
                 available.\n\nExactly one of NodeName, NodeSelector, AllNodes, and PerDeviceNodeSelection must be \
                 set. This field is immutable.",
        ),
        string(
            "Driver",
            "Driver identifies the DRA driver providing the capacity information. A field selector can be used \
                 to list only ResourceSlice objects with a certain driver name.\n\nMust be a DNS subdomain and \
                 should end with a DNS domain owned by the vendor of the driver. It should use only lower case \
                 characters. This field is immutable.",
        ),
        string(
            "Pool",
            "Name is used to identify the pool. For node-local devices, this is often the node name, but this \
                 is not required.\n\nIt must not be longer than 253 characters and must consist of one or more DNS \
                 sub-domains separated by slashes. This field is immutable.",
        ),
        AGE,
    ],
    print: resource_slices,
    order: None,
};
