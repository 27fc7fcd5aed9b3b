//! LIST: the matrix of resourceVersion, resourceVersionMatch and limit, on every kind of path and in every form; states in history;
//! parameters that are no numbers.

use super::super::case::{Case, get};
use super::super::dimension::{Dimension, product};
use super::{CONFIG_MAPS, PARTIAL_LIST, SHIRTS, TABLE};

/// A version of every kind: unset, any, now, of a moment in history, ahead of everything, compacted, no number.
const VERSIONS: [&str; 6] = ["0", "{current}", "{middle}", "{future}", "{ancient}", "abc"];

pub(crate) fn cases() -> Vec<Case> {
    let matrix = product(
        "list matrix",
        &[
            Dimension::paths(
                "of",
                [
                    ("all namespaces", SHIRTS),
                    ("a namespace", "/apis/shop.example.com/v1/namespaces/a/shirts"),
                    ("the cluster", "/apis/shop.example.com/v1/banners"),
                ],
            ),
            Dimension::parameter("resourceVersion", &VERSIONS),
            Dimension::parameter("resourceVersionMatch", &["Exact", "NotOlderThan", "Foo"]),
            Dimension::parameter("limit", &["2"]),
        ],
    );
    let in_forms = product(
        "list in forms",
        &[
            Dimension::paths("of", [("shirts", SHIRTS), ("a built-in", CONFIG_MAPS)]),
            Dimension::header("accept", [("table", Some(TABLE)), ("metadata", Some(PARTIAL_LIST))]),
            Dimension::parameter("resourceVersion", &["0", "{middle}", "abc"]),
            Dimension::parameter("resourceVersionMatch", &["Exact"]),
            Dimension::parameter("limit", &["1"]),
        ],
    );
    let selected = product(
        "list selected",
        &[
            Dimension::paths("of", [("the other version", "/apis/shop.example.com/v1beta1/shirts")]),
            Dimension::parameter("resourceVersion", &["{first}", "{middle}", "{present}"]),
            Dimension::parameter("resourceVersionMatch", &["Exact", "NotOlderThan"]),
            Dimension::values("labelSelector", [("none", None), ("tier", Some("tier=front"))]),
            Dimension::values("fieldSelector", [("none", None), ("color", Some("spec.color=blue"))]),
        ],
    );
    let numbers = product(
        "list number",
        &[
            Dimension::paths("of", [("shirts", SHIRTS), ("a built-in", CONFIG_MAPS)]),
            Dimension::new("", [numbers("limit"), numbers("timeoutSeconds")].concat()),
        ],
    );
    let timeouts = product(
        "list timeout",
        &[
            Dimension::paths("of", [("shirts", SHIRTS), ("one", "/apis/shop.example.com/v1/namespaces/a/shirts/x")]),
            Dimension::values(
                "timeout",
                ["32s", "1m30s", "500ms", "1.5h", "0", "-1s", "abc", "5", "1x", "+2m", "s", "1s ", ""]
                    .map(|text| (text, Some(text))),
            ),
        ],
    );
    let flags = product(
        "list flags",
        &[
            Dimension::paths("of", [("a namespace", "/apis/shop.example.com/v1/namespaces/a/shirts")]),
            Dimension::parameter("watch", &["0", "false", "False", "FALSE"]),
            Dimension::parameter("allowWatchBookmarks", &["true"]),
            Dimension::parameter("sendInitialEvents", &["true", "false"]),
            Dimension::parameter("resourceVersionMatch", &["NotOlderThan"]),
        ],
    );
    let mut cases = [matrix, in_forms, selected, numbers, timeouts, flags].concat();
    for (what, query) in [
        ("first of two limits", "limit=1&limit=2"),
        ("first of two selectors", "labelSelector=tier%3Dfront&labelSelector=tier%3Dback"),
        ("first of two versions", "resourceVersion=0&resourceVersion=abc"),
        ("unknown parameters", "colour=red&x"),
        ("a name of a parameter in other letters", "LIMIT=1&Limit=1"),
        ("an escaped name of a parameter", "%6Cimit=1"),
        ("a semicolon", "limit=1;resourceVersion=0"),
        ("a broken escape", "limit=%zz"),
        ("the parameters of another verb", "dryRun=All&fieldManager=x&gracePeriodSeconds=abc"),
        (
            "an object that is gone",
            "resourceVersion={present}&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Dgone",
        ),
        ("a field as it was", "resourceVersion={present}&resourceVersionMatch=Exact&fieldSelector=spec.quantity%3D3"),
        ("a version with a leading zero", "resourceVersion=0{current}"),
        ("a version with a sign", "resourceVersion=%2B1"),
        ("a version too large for 64 bits", "resourceVersion=99999999999999999999"),
        ("a version of two zeros", "resourceVersion=00"),
        ("a version with a blank", "resourceVersion=1%20"),
        ("an empty shard", "shardSelector="),
    ] {
        cases.push(get(&format!("list query/{what}"), &format!("{SHIRTS}?{query}")));
    }
    cases
}

/// Texts of numbers.
fn numbers(parameter: &'static str) -> Vec<super::super::dimension::Choice> {
    let texts = [
        "abc",
        "1.5",
        "1e3",
        "0x10",
        "+1",
        "-1",
        "0",
        "",
        " 1",
        "1_000",
        "00",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
    ];
    let mut choices = Dimension::values(parameter, texts.map(|text| (text, Some(text)))).choices;
    for choice in &mut choices {
        choice.name = format!("{parameter}={:?}", choice.name);
    }
    choices
}
