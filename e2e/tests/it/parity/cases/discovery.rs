//! Discovery in both forms, the version, health, and what is nowhere.

use super::super::case::{Case, Reading, get};
use super::super::dimension::{Dimension, product};
use super::DISCOVERY;

pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub(crate) fn cases() -> Vec<Case> {
    let accept = Dimension::header(
        "accept",
        [
            ("none", None),
            ("json", Some("application/json")),
            ("yaml", Some("application/yaml")),
            ("html", Some("text/html")),
            ("anything", Some("*/*")),
            ("aggregated", Some(AGGREGATED)),
            (
                "aggregated else json",
                Some("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json"),
            ),
            (
                "aggregated without peers",
                Some("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer"),
            ),
            ("aggregated v2beta1", Some("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")),
            (
                "aggregated v2, v2beta1 else json",
                Some(
                    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
                ),
            ),
            ("table", Some(super::TABLE)),
        ],
    );
    let mut cases = product("discovery", &[Dimension::paths("of", DISCOVERY), accept]);
    cases.extend(product(
        "discovery again",
        &[
            Dimension::readings(&[("not changed", Reading::SecondTime)]),
            Dimension::paths("of", [("the core versions", "/api"), ("the groups", "/apis")]),
            Dimension::header(
                "accept",
                [
                    ("aggregated", Some(AGGREGATED)),
                    (
                        "aggregated else json",
                        Some("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"),
                    ),
                ],
            ),
        ],
    ));
    cases.extend(product(
        "discovery tag",
        &[
            Dimension::paths("of", [("the core versions", "/api"), ("the groups", "/apis")]),
            Dimension::header("accept", [("aggregated", Some(AGGREGATED)), ("json", None)]),
            Dimension::header_texts("if-none-match", &["\"ABC\"", "*", "ABC", "W/\"ABC\"", "\"ABC\", *"]),
        ],
    ));
    cases.extend(product(
        "discovery slash",
        &[Dimension::paths(
            "",
            [
                ("after the groups", "/apis/"),
                ("after the core versions", "/api/"),
                ("after a group", "/apis/batch/"),
                ("after a group of definitions", "/apis/shop.example.com/"),
                ("after a group version", "/apis/shop.example.com/v1/"),
                ("after a built-in group version", "/apis/batch/v1/"),
                ("after the version", "/version/"),
                ("after health", "/healthz/"),
                ("doubled", "//apis"),
            ],
        )],
    ));
    for (what, path) in [
        ("healthz", "/healthz"),
        ("livez", "/livez"),
        ("ping of livez", "/livez/ping"),
        ("ping of healthz", "/healthz/ping"),
        ("unknown check", "/readyz/nowhere"),
        ("unknown check of livez", "/livez/nowhere"),
        ("unknown resource", "/apis/shop.example.com/v1/socks"),
        ("unknown resource of core", "/api/v1/socks"),
        ("unknown resource of a built-in group", "/apis/batch/v1/socks"),
        ("resource of an unknown group", "/apis/nowhere.example.com/v1/shirts"),
        ("version of an unknown group", "/apis/nowhere.example.com/v1"),
        ("pretty", "/apis/shop.example.com/v1?pretty=true"),
        ("pretty version", "/version?pretty=false"),
    ] {
        cases.push(get(&format!("discovery path/{what}"), path));
    }
    cases
}
