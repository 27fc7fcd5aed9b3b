//! What the suite proves, point by point of the wire, and how many cases each point has.
//!
//! A request case or a watch script belongs to a point by the beginning of its name.

use std::fmt::Write;

use super::{cases, scripts};

/// A part of the wire.
struct Point {
    number: u8,
    title: &'static str,
    /// Subjects of request cases: what stands before the slash of their names.
    subjects: &'static [&'static str],
    /// How the names of its watch scripts begin.
    scripts: &'static [&'static str],
    /// The test module that proves it, where that is not this suite.
    elsewhere: Option<&'static str>,
}

/// How many cases each point has at least, and all of them.
const LEAST: usize = 10;
const LEAST_IN_ALL: usize = 400;

const POINTS: [Point; 17] = [
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
        &["start", "from ", "too old", "a version in the future", "refused"],
    ),
    point(10, "what a change means to a watch", &[], &[""]),
    point(11, "how watches end", &[], &["ended by time"]),
    point(
        12,
        "Table: columns, objects in rows, single objects, pages",
        &["table", "table page", "table kind", "table refused", "table path"],
        &[],
    ),
    point(
        13,
        "PartialObjectMetadata: forms, versions, the clients that ask for it",
        &["metadata", "metadata list", "metadata client", "metadata path"],
        &[],
    ),
    point(14, "media types: qualities, wildcards, YAML, indentation", &["media", "yaml", "pretty", "pretty path"], &[]),
    point(15, "compression: sizes and how it is asked for", &["gzip", "gzip form", "gzip more"], &[]),
    point(16, "OpenAPI documents", &["openapi"], &[]),
    point(17, "two faults at once", &["faults of a list", "faults of a watch", "faults of an object"], &[]),
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
    let scripts = scripts::all();
    let mut report = format!("parity: {} request cases and {} watch scripts", cases.len(), scripts.len());
    let mut counted = 0;
    for Point { number, title, subjects: own, scripts: beginnings, elsewhere } in &POINTS {
        let requests = subjects.iter().filter(|subject| own.contains(subject)).count();
        let watches =
            scripts.iter().filter(|script| beginnings.iter().any(|start| script.name.starts_with(start))).count();
        counted += requests;
        let by = elsewhere.map(|module| format!(", by the module {module}")).unwrap_or_default();
        let _ = write!(report, "\n  {number:>2} {title}: {requests} requests, {watches} scripts{by}");
        assert!(requests + watches >= LEAST || elsewhere.is_some(), "point {number} has few cases\n{report}");
    }
    super::say(&report);
    assert_eq!(counted, cases.len(), "a case whose subject belongs to no point, or to two");
    assert!(cases.len() >= LEAST_IN_ALL, "{report}");
}
