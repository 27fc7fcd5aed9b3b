//! GET by name, subresources, methods.

use http::Method;

use super::super::case::{Case, exact};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (what, path) in [
        ("custom", "/apis/shop.example.com/v1/namespaces/a/shirts/x"),
        ("custom, name with a dot", "/apis/shop.example.com/v1/namespaces/a/shirts/x.y"),
        ("custom, every character", "/apis/shop.example.com/v1/namespaces/ab/shirts/x"),
        ("other version", "/apis/shop.example.com/v1beta1/namespaces/a/shirts/x"),
        ("cluster-scoped", "/apis/shop.example.com/v1/banners/left"),
        ("built-in", "/api/v1/namespaces/work/pods/web"),
        ("built-in, cluster-scoped", "/api/v1/nodes/node-2"),
        ("namespace", "/api/v1/namespaces/a-b"),
        ("definition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/banners.shop.example.com"),
        ("secret", "/api/v1/namespaces/work/secrets/basic"),
        ("version 0", "/apis/shop.example.com/v1/namespaces/a/shirts/x?resourceVersion=0"),
        ("old version", "/apis/shop.example.com/v1/namespaces/a/shirts/x?resourceVersion={first}"),
        ("current version", "/apis/shop.example.com/v1/namespaces/a/shirts/x?resourceVersion={current}"),
        ("future version", "/apis/shop.example.com/v1/namespaces/a/shirts/x?resourceVersion={future}"),
        (
            "future version of an absent object",
            "/apis/shop.example.com/v1/namespaces/a/shirts/no?resourceVersion={future}",
        ),
        ("version that is no number", "/apis/shop.example.com/v1/namespaces/a/shirts/x?resourceVersion=abc"),
        (
            "selectors do not matter",
            "/apis/shop.example.com/v1/namespaces/a/shirts/x?labelSelector=a%3D%3D%3Db&fieldSelector=spec.nope%3D1",
        ),
        ("absent", "/apis/shop.example.com/v1/namespaces/a/shirts/no"),
        ("absent, cluster-scoped", "/apis/shop.example.com/v1/banners/no"),
        ("absent, core", "/api/v1/namespaces/work/pods/no"),
        ("absent, built-in group", "/apis/batch/v1/namespaces/work/jobs/no"),
        ("absent namespace", "/api/v1/namespaces/nowhere"),
        ("absent, in an unknown namespace", "/apis/shop.example.com/v1/namespaces/nowhere/shirts/x"),
        ("gone", "/apis/shop.example.com/v1/namespaces/a/shirts/gone"),
        ("name without a namespace", "/apis/shop.example.com/v1/shirts/x"),
        ("name without a namespace, built-in", "/api/v1/pods/web"),
        ("cluster-scoped in a namespace", "/apis/shop.example.com/v1/namespaces/a/banners/left"),
        ("unknown subresource", "/apis/shop.example.com/v1/namespaces/a/shirts/x/sleeves"),
        ("unknown subresource of an absent object", "/apis/shop.example.com/v1/namespaces/a/shirts/no/sleeves"),
        ("status", "/apis/shop.example.com/v1/namespaces/a/shirts/x/status"),
        ("status of an absent object", "/apis/shop.example.com/v1/namespaces/a/shirts/no/status"),
        ("status of a definition without one", "/apis/shop.example.com/v1/banners/left/status"),
        ("status of a pod", "/api/v1/namespaces/work/pods/web/status"),
        ("unknown subresource, built-in", "/api/v1/namespaces/work/pods/web/sleeves"),
        ("pretty", "/apis/shop.example.com/v1/namespaces/a/shirts/x?pretty=true"),
        ("escaped name", "/apis/shop.example.com/v1/namespaces/a/shirts/x%2Ey"),
        ("name that is none", "/apis/shop.example.com/v1/namespaces/a/shirts/X%20Y"),
    ] {
        cases.push(exact(&format!("get/{what}"), path));
    }
    cases.extend([
        exact("get/head", "/apis/shop.example.com/v1/namespaces/a/shirts/x").method(Method::HEAD),
        exact("get/head of an absent object", "/apis/shop.example.com/v1/namespaces/a/shirts/no").method(Method::HEAD),
        exact("write/delete", "/apis/shop.example.com/v1/namespaces/a/shirts/no").method(Method::DELETE),
        exact("write/post without a body", "/apis/shop.example.com/v1/namespaces/a/shirts").method(Method::POST),
        exact("write/options", "/apis/shop.example.com/v1/namespaces/a/shirts").method(Method::OPTIONS),
    ]);
    cases
}
