//! What an answer looks like before its content matters: the order of a list, empty lists, scopes, methods, slashes.

use http::Method;

use super::super::case::{Case, get};
use super::super::dimension::{Dimension, product};
use super::{DISCOVERY, ONE, SHIRTS};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        ("all namespaces, in the order of keys", SHIRTS),
        ("one namespace", "/apis/shop.example.com/v1/namespaces/a/shirts"),
        ("namespace with a dash", "/apis/shop.example.com/v1/namespaces/a-b/shirts"),
        ("other version", "/apis/shop.example.com/v1beta1/shirts"),
        ("cluster-scoped", "/apis/shop.example.com/v1/banners"),
        ("built-in", "/api/v1/namespaces/work/configmaps"),
        ("pods", "/api/v1/namespaces/work/pods"),
        ("services of a namespace", "/api/v1/namespaces/work/services"),
        ("nodes", "/api/v1/nodes"),
        ("trailing slash", "/apis/shop.example.com/v1/namespaces/a/shirts/"),
        ("doubled slash", "/apis/shop.example.com/v1//namespaces/a/shirts"),
        ("a namespace without a name", "/apis/shop.example.com/v1/namespaces//shirts"),
        ("a namespace without a name, cluster-scoped", "/apis/shop.example.com/v1/namespaces//banners"),
        ("a namespace without a name, built-in", "/api/v1/namespaces//configmaps"),
        ("a namespace without a name, by name", "/apis/shop.example.com/v1/namespaces//shirts/x"),
        ("leading slashes", "//apis/shop.example.com/v1/namespaces/a/shirts"),
        ("dots", "/apis/shop.example.com/v1/namespaces/b/../a/shirts"),
        ("escaped slash", "/apis/shop.example.com/v1/namespaces%2Fa%2Fshirts"),
        ("escaped letter", "/apis/shop.example.com/v1/namespaces/%61/shirts"),
        ("unknown version", "/apis/shop.example.com/v7/shirts"),
        ("resource in upper case", "/apis/shop.example.com/v1/Shirts"),
        ("kind instead of the resource", "/apis/shop.example.com/v1/shirt"),
        ("namespaces alone", "/apis/shop.example.com/v1/namespaces"),
        ("a namespace of a group", "/apis/shop.example.com/v1/namespaces/a"),
        ("proxy as verb", "/api/v1/proxy/namespaces/work/pods/web"),
    ]
    .map(|(what, path)| get(&format!("shape/{what}"), path))
    .into();
    cases.extend(product(
        "empty",
        &[
            Dimension::paths(
                "of",
                [
                    ("shirts of an unknown namespace", "/apis/shop.example.com/v1/namespaces/nowhere/shirts"),
                    ("config maps of an unknown namespace", "/api/v1/namespaces/nowhere/configmaps"),
                    ("banners without a label", "/apis/shop.example.com/v1/banners?labelSelector=no%3Dthing"),
                    ("limit ranges", "/api/v1/limitranges"),
                ],
            ),
            Dimension::header(
                "accept",
                [
                    ("json", None),
                    ("yaml", Some("application/yaml")),
                    ("table", Some(super::TABLE)),
                    ("metadata", Some(super::PARTIAL_LIST)),
                ],
            ),
            Dimension::parameter("limit", &["1"]),
        ],
    ));
    cases.extend(product(
        "scope",
        &[
            Dimension::paths(
                "",
                [
                    ("cluster-scoped in a namespace", "/apis/shop.example.com/v1/namespaces/a/banners"),
                    ("cluster-scoped in a namespace by name", "/apis/shop.example.com/v1/namespaces/a/banners/left"),
                    ("built-in cluster-scoped in a namespace", "/api/v1/namespaces/a/nodes"),
                    ("built-in cluster-scoped in a namespace by name", "/api/v1/namespaces/a/nodes/node-1"),
                    ("by name without a namespace", "/apis/shop.example.com/v1/shirts/x"),
                    ("built-in by name without a namespace", "/api/v1/pods/web"),
                    ("status by name without a namespace", "/apis/shop.example.com/v1/shirts/x/status"),
                ],
            ),
            Dimension::header("accept", [("json", None), ("table", Some(super::TABLE)), ("html", Some("text/html"))]),
        ],
    ));
    cases.extend(methods());
    cases
}

/// Methods that read nothing on every kind of path. Requests that write are sent to what is no object or missing: the
/// suite's objects stay as they are.
fn methods() -> Vec<Case> {
    let mut no_objects = DISCOVERY.to_vec();
    no_objects.extend([
        ("the OpenAPI index", "/openapi/v3"),
        ("an OpenAPI document", "/openapi/v3/apis/shop.example.com/v1"),
        ("an unknown OpenAPI document", "/openapi/v3/apis/nowhere.example.com/v1"),
        ("an unknown resource", "/apis/shop.example.com/v1/socks"),
        ("an unknown built-in resource", "/api/v1/socks"),
    ]);
    let mut everywhere = vec![
        ("shirts", "/apis/shop.example.com/v1/namespaces/a/shirts"),
        ("shirts of all namespaces", SHIRTS),
        ("a shirt", ONE),
        ("a shirt that is absent", "/apis/shop.example.com/v1/namespaces/a/shirts/no"),
        ("the status of a shirt", "/apis/shop.example.com/v1/namespaces/a/shirts/x/status"),
        ("an unknown subresource", "/apis/shop.example.com/v1/namespaces/a/shirts/x/sleeves"),
        ("a wrong scope", "/apis/shop.example.com/v1/namespaces/a/banners"),
        ("pods", "/api/v1/namespaces/work/pods"),
        ("a pod", "/api/v1/namespaces/work/pods/web"),
        ("a pod that is absent", "/api/v1/namespaces/work/pods/no"),
        ("the status of a pod", "/api/v1/namespaces/work/pods/web/status"),
        ("an unknown subresource of a pod", "/api/v1/namespaces/work/pods/web/sleeves"),
        ("jobs", "/apis/batch/v1/namespaces/work/jobs"),
        ("a bad selector", "/apis/shop.example.com/v1/shirts?labelSelector=a%3D%3D%3Db"),
    ];
    everywhere.extend(&no_objects);
    let reading = product(
        "method",
        &[Dimension::methods(&[Method::HEAD, Method::OPTIONS]), Dimension::paths("", everywhere.iter().copied())],
    );
    let other = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let writing = product("method", &[Dimension::methods(&other), Dimension::paths("", no_objects)]);
    let refused = product(
        "write",
        &[
            Dimension::methods(&[Method::POST, Method::PUT, Method::PATCH, Method::DELETE]),
            Dimension::paths(
                "",
                [
                    ("an absent shirt", "/apis/shop.example.com/v1/namespaces/a/shirts/no"),
                    ("an absent pod", "/api/v1/namespaces/work/pods/no"),
                    ("a wrong scope", "/apis/shop.example.com/v1/namespaces/a/banners/left"),
                    ("an unknown resource", "/apis/shop.example.com/v1/socks/x"),
                    ("an unknown built-in resource", "/api/v1/socks/x"),
                ],
            ),
        ],
    );
    // "shirts" without a body: what is no object cannot be created.
    let created = product(
        "write",
        &[
            Dimension::methods(&[Method::POST]),
            Dimension::paths(
                "",
                [("shirts", "/apis/shop.example.com/v1/namespaces/a/shirts"), ("pods", "/api/v1/namespaces/work/pods")],
            ),
            Dimension::header(
                "content-type",
                [("none", None), ("json", Some("application/json")), ("html", Some("text/html"))],
            ),
        ],
    );
    [reading, writing, refused, created].concat()
}
