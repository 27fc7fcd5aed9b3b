//! Table: columns of every type, values that are missing or of another type, includeObject, single objects, errors.

use super::super::case::{Case, get};
use super::super::dimension::{Dimension, product};
use super::{ONE, SHIRTS, TABLE};

pub(crate) fn cases() -> Vec<Case> {
    let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    let media = Dimension::header(
        "accept",
        [
            ("json v1", Some(TABLE)),
            ("json v1beta1", Some("application/json;as=Table;g=meta.k8s.io;v=v1beta1")),
            ("yaml v1", Some("application/yaml;as=Table;g=meta.k8s.io;v=v1")),
            ("as kubectl requests", Some(kubectl)),
        ],
    );
    let include = Dimension::parameter("includeObject", &["Object", "Metadata", "None", "Bogus", ""]);
    let mut cases = product(
        "table",
        &[
            Dimension::paths(
                "of",
                [
                    ("shirts", SHIRTS),
                    ("a shirt", ONE),
                    ("a version without columns", "/apis/shop.example.com/v1beta1/namespaces/a/shirts"),
                    ("one of a version without columns", "/apis/shop.example.com/v1beta1/namespaces/a/shirts/x"),
                    ("nothing", "/apis/shop.example.com/v1/namespaces/nowhere/shirts"),
                    ("pods", "/api/v1/namespaces/work/pods"),
                    ("a pod", "/api/v1/namespaces/work/pods/web-2"),
                    ("no pods", "/api/v1/namespaces/nowhere/pods"),
                    ("an absent pod", "/api/v1/namespaces/work/pods/no"),
                ],
            ),
            media.clone(),
            include,
        ],
    );
    cases.extend(product(
        "table page",
        &[
            Dimension::paths("of", [("shirts", SHIRTS), ("pods", "/api/v1/namespaces/work/pods")]),
            media.clone(),
            Dimension::parameter("limit", &["2", "500"]),
            Dimension::values("labelSelector", [("none", None), ("app", Some("app in (shop,web)"))]),
        ],
    ));
    cases.extend(product(
        "table kind",
        &[
            Dimension::paths(
                "of",
                [
                    ("banners", "/apis/shop.example.com/v1/banners"),
                    ("a banner", "/apis/shop.example.com/v1/banners/left"),
                    ("config maps", super::CONFIG_MAPS),
                    ("secrets", "/api/v1/namespaces/work/secrets"),
                    ("services", "/api/v1/namespaces/work/services"),
                    ("events", "/api/v1/namespaces/work/events"),
                    ("new events", "/apis/events.k8s.io/v1/namespaces/work/events"),
                    ("nodes", "/api/v1/nodes"),
                    ("a node", "/api/v1/nodes/node-2"),
                    ("jobs", "/apis/batch/v1/jobs"),
                    ("volumes", "/api/v1/persistentvolumes"),
                    ("definitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
                    ("limit ranges, of which there are none", "/api/v1/limitranges"),
                    ("the status of a pod", "/api/v1/namespaces/work/pods/web-2/status"),
                ],
            ),
            media,
        ],
    ));
    cases.extend(product(
        "table refused",
        &[
            Dimension::paths(
                "of",
                [("banners", "/apis/shop.example.com/v1/banners"), ("a pod", "/api/v1/namespaces/work/pods/web")],
            ),
            Dimension::header_texts(
                "accept",
                &[
                    "application/json;as=Table;g=meta.k8s.io;v=v9",
                    "application/json;as=Table;g=example.com;v=v1",
                    "application/json;as=Table",
                    "application/json;as=Table;g=meta.k8s.io",
                    "application/json;as=Table;v=v1",
                    "application/json;as=table;g=meta.k8s.io;v=v1",
                    "application/json;as=Chair;g=meta.k8s.io;v=v1",
                    "text/html;as=Table;g=meta.k8s.io;v=v1",
                    "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
                    "application/json;as=Table;g=meta.k8s.io;v=v9,application/json",
                    "application/json;g=meta.k8s.io;v=v1",
                    "*/*;as=Table;g=meta.k8s.io;v=v1",
                ],
            ),
        ],
    ));
    for (what, path, accept) in [
        ("absent", "/apis/shop.example.com/v1/namespaces/a/shirts/no", kubectl),
        ("absent, only tables accepted", "/apis/shop.example.com/v1/namespaces/a/shirts/no", TABLE),
        ("error", "/apis/shop.example.com/v1/shirts?fieldSelector=spec.nope%3Dx", kubectl),
        ("error, only tables accepted", "/apis/shop.example.com/v1/shirts?fieldSelector=spec.nope%3Dx", TABLE),
        (
            "includeObject without a table",
            "/apis/shop.example.com/v1/namespaces/a/shirts?includeObject=Bogus",
            "application/json",
        ),
        ("includeObject in other letters", "/apis/shop.example.com/v1/namespaces/a/shirts?includeObject=none", TABLE),
        (
            "first of two includeObject",
            "/apis/shop.example.com/v1/namespaces/a/shirts?includeObject=None&includeObject=Bogus",
            TABLE,
        ),
        ("history", "/apis/shop.example.com/v1/shirts?resourceVersion={middle}&resourceVersionMatch=Exact", TABLE),
        ("from version 0", "/apis/shop.example.com/v1/shirts?resourceVersion=0", TABLE),
        ("selected by a field", "/apis/shop.example.com/v1/shirts?fieldSelector=spec.color%3Dblue", TABLE),
        ("built-in selected by a field", "/api/v1/pods?fieldSelector=status.phase%3DSucceeded", TABLE),
        ("built-in, sorted page", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas?limit=4", TABLE),
        ("pretty", "/apis/shop.example.com/v1/banners?pretty=true", TABLE),
    ] {
        cases.push(get(&format!("table path/{what}"), path).accept(accept));
    }
    cases
}
