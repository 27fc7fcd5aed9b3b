//! What the suite tests, point by point of the wire, and how many cases each point has.
//!
//! The subject of a request case, which precedes the slash of its name, determines its point. For a watch it is the
//! beginning of its script's name, the longest that fits. What is proven elsewhere says where.

use std::fmt::Write;

use super::cases;
use super::script::{Script, Step};
use super::scripts;

/// A part of the wire.
struct Point {
    number: u8,
    title: &'static str,
    /// Subjects of request cases: what precedes the slash of their names.
    subjects: &'static [&'static str],
    /// How the names of its watch scripts begin; the empty text is how all do.
    scripts: &'static [&'static str],
    /// The test module that tests it, where that is not this suite.
    elsewhere: Option<&'static str>,
}

/// How many cases each point has at least, and all of them.
const LEAST: usize = 10;
const LEAST_IN_ALL: usize = 400;

const POINTS: [Point; 18] = [
    point(
        1,
        "discovery: both forms, tags, unknown names, health",
        &["discovery", "discovery again", "discovery tag", "discovery slash", "discovery path"],
        &[],
    ),
    Point { elsewhere: Some("kubectl"), ..point(2, "kubectl prints what it prints against kube-apiserver", &[], &[]) },
    point(
        3,
        "lists: version, match and limit, and everything else in their queries",
        &["list matrix", "list in forms", "list selected", "list number", "list timeout", "list flags", "list query"],
        &[],
    ),
    point(
        4,
        "pages: walks, counts, tokens that are good, old, bad or out of place",
        &["walk", "page", "page and more", "page one", "page token", "bad token"],
        &[],
    ),
    point(
        5,
        "order, empty lists, scopes, methods, paths",
        &["shape", "empty", "scope", "method", "write"],
        &["in the order of keys"],
    ),
    point(
        6,
        "objects by name: versions, subresources, what is absent",
        &["get", "get with parameters", "get name"],
        &[],
    ),
    point(7, "label selectors: grammar, errors, what they select", &["label", "label operator", "label path"], &[]),
    point(
        8,
        "field selectors: grammar, errors, values, the fields of built-in kinds",
        &["field", "field operator", "field grammar", "field path", "built-in field"],
        &[],
    ),
    point(
        9,
        "how watches start: versions, initial events, their end, what is refused",
        &["bookmark"],
        &[
            "start",
            "end of initial events",
            "old path",
            "the legacy path",
            "nothing to start with",
            "opened amid changes",
            "spellings of watch",
            "resumed",
            "too old",
            "a version in the future",
            "refused",
        ],
    ),
    point(10, "what a change means to a watch", &[], &[""]),
    point(11, "how watches end", &[], &["ended by time", "ends "]),
    point(
        12,
        "Table: columns, objects in rows, single objects, pages",
        &["table", "table page", "table kind", "table refused", "table path"],
        &["tables", "errors of tables"],
    ),
    point(
        13,
        "PartialObjectMetadata: forms, versions, the clients that request it",
        &["metadata", "metadata list", "metadata client", "metadata path"],
        &["metadata", "errors of metadata", "deleted as metadata"],
    ),
    point(14, "media types: qualities, wildcards, YAML, indentation", &["media", "yaml", "pretty", "pretty path"], &[]),
    point(
        15,
        "compression: sizes, watches that begin with a list, and how it is requested",
        &["gzip", "gzip form", "gzip more"],
        &["compressed watches"],
    ),
    point(16, "OpenAPI documents", &["openapi"], &[]),
    point(17, "two faults at once", &["faults of a list", "faults of a watch", "faults of an object"], &[]),
    point(
        18,
        "protobuf: objects, metadata, errors, discovery and watches",
        &["protobuf list", "protobuf get", "protobuf discovery", "protobuf watch", "protobuf path"],
        &[],
    ),
];

const fn point(
    number: u8,
    title: &'static str,
    subjects: &'static [&'static str],
    scripts: &'static [&'static str],
) -> Point {
    Point { number, title, subjects, scripts, elsewhere: None }
}

#[test]
fn every_point_has_its_cases() {
    let cases = cases::all();
    let subjects: Vec<&str> = cases.iter().map(|case| case.name.split('/').next().unwrap_or_default()).collect();
    let scripts = scripts::all(0);
    let watches: Vec<(u8, usize)> = scripts.iter().map(|script| (point_of(script), watches_of(script))).collect();
    let mut report = format!("parity: {} request cases and {} watch scripts", cases.len(), scripts.len());
    let mut counted = 0;
    let mut few = Vec::new();
    for Point { number, title, subjects: own, elsewhere, .. } in &POINTS {
        let requests = subjects.iter().filter(|subject| own.contains(subject)).count();
        let watches: usize = watches.iter().filter(|(point, _)| point == number).map(|(_, watches)| watches).sum();
        counted += requests;
        let by = elsewhere.map(|module| format!(", by the module {module}")).unwrap_or_default();
        let _ = write!(report, "\n  {number:>2} {title}: {requests} requests, {watches} watches{by}");
        if requests + watches < LEAST && elsewhere.is_none() {
            few.push(number);
        }
    }
    super::say(&report);
    assert!(few.is_empty(), "points {few:?} have few cases\n{report}");
    assert_eq!(counted, cases.len(), "a case whose subject belongs to no point, or to two");
    assert!(cases.len() >= LEAST_IN_ALL, "{report}");
}

/// The point with the longest beginning of a script's name.
fn point_of(script: &Script) -> u8 {
    let beginnings =
        POINTS.iter().flat_map(|point| point.scripts.iter().map(|start| (start.len(), point.number, *start)));
    let longest = beginnings.filter(|(_, _, start)| script.name.starts_with(start)).max();
    longest.map_or(0, |(_, number, _)| number)
}

fn watches_of(script: &Script) -> usize {
    let watches = script.steps.iter().map(|step| match step {
        Step::Watch(_) => 1,
        Step::Tumult(_, watches) => watches.len(),
        _ => 0,
    });
    watches.sum()
}
