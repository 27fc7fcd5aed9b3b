//! Printers (table rows of `kubectl get`) of Events of core/v1 and of events.k8s.io/v1, which has other names for the
//! same members.

use serde_json::json;

use crate::json::Json;

use super::column::{Column, NAME, string};
use super::kind::{PrintedRow, Printer};
use super::read::{integer, is_set, name, text, text_or};
use super::text::lower;
use super::time::{Moment, since};

/// The names of the members of an Event in one API group.
struct Names {
    first: &'static str,
    last: &'static str,
    count: &'static str,
    object: &'static str,
    source: &'static str,
    reporter: &'static str,
    message: &'static str,
}

/// The row of an Event of core/v1.
fn core_events(event: Json<'_>, now: Moment) -> PrintedRow {
    let names = Names {
        first: "firstTimestamp",
        last: "lastTimestamp",
        count: "count",
        object: "involvedObject",
        source: "source",
        reporter: "reportingComponent",
        message: "message",
    };
    events(event, &names, now)
}

/// The row of an Event of events.k8s.io/v1.
fn events_k8s_io(event: Json<'_>, now: Moment) -> PrintedRow {
    let names = Names {
        first: "deprecatedFirstTimestamp",
        last: "deprecatedLastTimestamp",
        count: "deprecatedCount",
        object: "regarding",
        source: "deprecatedSource",
        reporter: "reportingController",
        message: "note",
    };
    events(event, &names, now)
}

/// The row of an Event whose members have these names.
fn events(event: Json<'_>, names: &Names, now: Moment) -> PrintedRow {
    let (object, source, series) = (event.at(names.object), event.at(names.source), event.at("series"));
    let first = if is_set(event.at(names.first)) { event.at(names.first) } else { event.at("eventTime") };
    let last = if is_set(event.at(names.last)) { event.at(names.last) } else { first };
    let (last, count) = if is_set(series) {
        (series.at("lastObservedTime"), integer(series.at("count")))
    } else {
        // An event that happened once has no count in the new form.
        (last, Some(integer(event.at(names.count))).filter(|count| *count != 0).unwrap_or(1))
    };
    let mut target = lower(&text(object.at("kind")));
    if !text(object.at("name")).is_empty() {
        target = format!("{target}/{}", text(object.at("name")));
    }
    let mut reporter = text_or(source.at("component"), text(event.at(names.reporter))).into_owned();
    let instance = text_or(source.at("host"), text(event.at("reportingInstance")));
    if !instance.is_empty() {
        reporter = format!("{reporter}, {instance}");
    }
    PrintedRow::new(vec![
        json!(since(last, now)),
        json!(text(event.at("type"))),
        json!(text(event.at("reason"))),
        json!(target),
        json!(text(object.at("fieldPath"))),
        json!(reporter),
        json!(text(event.at(names.message)).trim()),
        json!(since(first, now)),
        json!(count),
        name(event),
    ])
}

/// The columns of Events of both API groups.
const COLUMNS: &[Column] = &[
    string("Last Seen", "The time at which the most recent occurrence of this event was recorded."),
    string("Type", "Type of this event (Normal, Warning), new types could be added in the future"),
    string(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition \
         into the object's current status.",
    ),
    string("Object", "The object that this event is about."),
    string(
        "Subobject",
        "If referring to a piece of an object instead of an entire object, this string should contain a \
         valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if \
         the object reference is to a container within a pod, this would take on a value like: \
         \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the \
         event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this \
         pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
    )
    .wide(),
    string("Source", "The component reporting this event. Should be a short machine understandable string.").wide(),
    string("Message", "A human-readable description of the status of this operation."),
    string("First Seen", "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)")
        .wide(),
    string("Count", "The number of times this event has occurred.").wide(),
    NAME.wide(),
];

/// Prints Event.
pub const CORE_EVENT: Printer = Printer { columns: COLUMNS, print: core_events, order: None };

/// Prints Event of events.k8s.io.
pub const EVENT: Printer = Printer { columns: COLUMNS, print: events_k8s_io, order: None };
