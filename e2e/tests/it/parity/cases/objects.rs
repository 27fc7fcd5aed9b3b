//! GET by name: what is there and what is not, versions, subresources, scopes, names.

use super::super::case::{Case, get};
use super::super::dimension::{Dimension, Part, choice, product};

pub(crate) fn cases() -> Vec<Case> {
    let objects = [
        ("shirt", "/apis/shop.example.com/v1/namespaces/a/shirts/x"),
        ("absent shirt", "/apis/shop.example.com/v1/namespaces/a/shirts/no"),
        ("banner", "/apis/shop.example.com/v1/banners/left"),
        ("absent banner", "/apis/shop.example.com/v1/banners/no"),
        ("pod", "/api/v1/namespaces/work/pods/web"),
        ("absent pod", "/api/v1/namespaces/work/pods/no"),
        ("node", "/api/v1/nodes/node-2"),
        ("absent job", "/apis/batch/v1/namespaces/work/jobs/no"),
    ];
    let below = ["", "/status", "/sleeves", "/status/deeper"];
    let mut choices = Vec::new();
    for (what, path) in objects {
        for part in below {
            choices.push(choice(&format!("{what}{part}"), Part::Path(format!("{path}{part}"))));
        }
    }
    let mut cases = product(
        "get",
        &[
            Dimension::new("", choices),
            Dimension::parameter("resourceVersion", &["0", "{first}", "{current}", "{future}", "abc"]),
        ],
    );
    cases.extend(product(
        "get with parameters",
        &[
            Dimension::paths("", objects),
            Dimension::new(
                "",
                [
                    ("selectors", "labelSelector", "a%3D%3D%3Db&fieldSelector=spec.nope%3D1"),
                    ("Exact", "resourceVersionMatch", "Exact"),
                    ("Exact at a version", "resourceVersion", "{first}&resourceVersionMatch=Exact"),
                    ("an unknown match", "resourceVersionMatch", "Foo"),
                    ("limit", "limit", "abc"),
                    ("watch", "watch", "true&timeoutSeconds=1"),
                    ("token", "continue", "abc"),
                    ("pretty", "pretty", "true"),
                    ("version too large", "resourceVersion", "99999999999999999999"),
                    ("version with a sign", "resourceVersion", "-1"),
                ]
                .map(|(what, name, value)| choice(what, Part::Parameter(name, value.to_owned())))
                .into(),
            ),
        ],
    ));
    for (what, path) in [
        ("name with a dot", "/apis/shop.example.com/v1/namespaces/a/shirts/x.y"),
        ("every character", "/apis/shop.example.com/v1/namespaces/ab/shirts/x"),
        ("other version", "/apis/shop.example.com/v1beta1/namespaces/a/shirts/x"),
        ("status in the other version", "/apis/shop.example.com/v1beta1/namespaces/a/shirts/x/status"),
        ("namespace", "/api/v1/namespaces/a-b"),
        ("status of a namespace", "/api/v1/namespaces/a-b/status"),
        ("absent namespace", "/api/v1/namespaces/nowhere"),
        ("definition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/banners.shop.example.com"),
        ("secret", "/api/v1/namespaces/work/secrets/basic"),
        ("absent, in an unknown namespace", "/apis/shop.example.com/v1/namespaces/nowhere/shirts/x"),
        ("gone", "/apis/shop.example.com/v1/namespaces/a/shirts/gone"),
        (
            "gone, at a version when it was there",
            "/apis/shop.example.com/v1/namespaces/a/shirts/gone?resourceVersion={present}",
        ),
        ("escaped name", "/apis/shop.example.com/v1/namespaces/a/shirts/x%2Ey"),
        ("name that is none", "/apis/shop.example.com/v1/namespaces/a/shirts/X%20Y"),
        ("name with a percent sign", "/apis/shop.example.com/v1/namespaces/a/shirts/x%25"),
        ("name of two dots", "/apis/shop.example.com/v1/namespaces/a/shirts/%2E%2E"),
        ("name that is none, built-in", "/api/v1/namespaces/work/pods/X%20Y"),
        ("unknown version", "/apis/shop.example.com/v7/namespaces/a/shirts/x"),
        ("unknown resource", "/apis/shop.example.com/v1/namespaces/a/socks/x"),
        ("unknown built-in resource", "/api/v1/namespaces/work/socks/x"),
        ("unknown group", "/apis/nowhere.example.com/v1/namespaces/a/shirts/x"),
        ("scale of a definition without one", "/apis/shop.example.com/v1/namespaces/a/shirts/x/scale"),
    ] {
        cases.push(get(&format!("get name/{what}"), path));
    }
    cases
}
