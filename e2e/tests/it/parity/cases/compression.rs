//! gzip: answers below and above the size from which it is worth it, and how it is requested.

use super::super::case::Case;
use super::super::dimension::{Dimension, product};
use super::{PARTIAL_LIST, TABLE};

/// All large maps are more than 200 KiB, half of them less than 128.
const LARGE: &str = "/api/v1/namespaces/big/configmaps";
const BELOW: &str = "/api/v1/namespaces/big/configmaps?labelSelector=half%3Done";

pub(crate) fn cases() -> Vec<Case> {
    let codings = [
        "gzip",
        "gzip;q=1",
        "gzip;q=1.0",
        "gzip;q=0",
        "gzip; q=1",
        "br, gzip",
        "br,gzip",
        "gzip, br",
        " gzip ",
        "GZIP",
        "x-gzip",
        "*",
        "identity",
        "deflate",
        "br",
        "",
        "gzip,",
        "gzip;",
        "gzipped",
    ];
    let mut cases = product(
        "gzip",
        &[
            Dimension::paths(
                "",
                [("above", LARGE), ("below", BELOW), ("an object", "/api/v1/namespaces/big/configmaps/map-1")],
            ),
            Dimension::header_texts("accept-encoding", &codings),
        ],
    );
    cases.extend(product(
        "gzip form",
        &[
            Dimension::paths("", [("above", LARGE), ("below", BELOW)]),
            Dimension::header(
                "accept",
                [("yaml", Some("application/yaml")), ("metadata", Some(PARTIAL_LIST)), ("table", Some(TABLE))],
            ),
            Dimension::header("accept-encoding", [("none", None), ("gzip", Some("gzip"))]),
        ],
    ));
    cases.extend(product(
        "gzip more",
        &[
            Dimension::paths(
                "",
                [
                    ("whole objects in a table", "/api/v1/namespaces/big/configmaps?includeObject=Object"),
                    (
                        "indented over the size",
                        "/api/v1/namespaces/big/configmaps?pretty=true&labelSelector=half%3Done",
                    ),
                    ("an error", "/api/v1/namespaces/big/configmaps?fieldSelector=data.x%3Dy"),
                    ("a page above", "/api/v1/namespaces/big/configmaps?limit=4"),
                    ("a page below", "/api/v1/namespaces/big/configmaps?limit=3"),
                    ("definitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
                    ("discovery", "/api/v1"),
                    ("groups", "/apis"),
                ],
            ),
            Dimension::header(
                "accept",
                [("json", None), ("table", Some("application/json;as=Table;g=meta.k8s.io;v=v1,application/json"))],
            ),
            Dimension::header("accept-encoding", [("gzip", Some("gzip"))]),
        ],
    ));
    cases
}
