//! LIST: the matrix of resourceVersion, resourceVersionMatch and limit; order, shape, scope, parameters that are no numbers.

use http::Method;

use super::super::case::{Case, exact, get};

const SHIRTS: &str = "/apis/shop.example.com/v1/shirts";

pub fn cases() -> Vec<Case> {
    let mut cases = matrix();
    cases.extend([
        get("list/all namespaces, in the order of keys", SHIRTS),
        get("list/one namespace", "/apis/shop.example.com/v1/namespaces/a/shirts"),
        get("list/namespace with a dash", "/apis/shop.example.com/v1/namespaces/a-b/shirts"),
        get("list/other version", "/apis/shop.example.com/v1beta1/shirts"),
        get("list/cluster-scoped", "/apis/shop.example.com/v1/banners"),
        get("list/unknown namespace", "/apis/shop.example.com/v1/namespaces/nowhere/shirts"),
        get("list/unknown namespace, built-in", "/api/v1/namespaces/nowhere/configmaps"),
        get("list/empty built-in", "/api/v1/limitranges"),
        get("list/empty custom", "/apis/live.example.com/v1/banners?labelSelector=nothing%3Dhere"),
        get("list/built-in", "/api/v1/namespaces/work/configmaps"),
        get("list/pods", "/api/v1/namespaces/work/pods"),
        get("list/services of a namespace", "/api/v1/namespaces/work/services"),
        get("list/nodes", "/api/v1/nodes"),
        get("list/wrong scope", "/apis/shop.example.com/v1/namespaces/a/banners"),
        get("list/wrong scope, built-in", "/api/v1/namespaces/a/nodes"),
        get("list/head", "/apis/shop.example.com/v1/namespaces/a/shirts").method(Method::HEAD),
        get("list/trailing slash", "/apis/shop.example.com/v1/namespaces/a/shirts/"),
        get("list/doubled slash", "/apis/shop.example.com/v1//namespaces/a/shirts"),
        get("list/limit that is no number", "/apis/shop.example.com/v1/shirts?limit=abc"),
        get("list/limit that is no integer", "/apis/shop.example.com/v1/shirts?limit=1.5"),
        get("list/limit too large for 64 bits", "/apis/shop.example.com/v1/shirts?limit=99999999999999999999"),
        get("list/negative limit", "/apis/shop.example.com/v1/shirts?limit=-1"),
        get("list/limit 0", "/apis/shop.example.com/v1/shirts?limit=0"),
        get("list/empty limit", "/apis/shop.example.com/v1/shirts?limit="),
        get("list/timeoutSeconds that is no number", "/apis/shop.example.com/v1/shirts?timeoutSeconds=abc"),
        get("list/timeout", "/apis/shop.example.com/v1/namespaces/a/shirts?timeout=32s"),
        get("list/bad timeout", "/apis/shop.example.com/v1/namespaces/a/shirts?timeout=abc"),
        get("list/first of two limits", "/apis/shop.example.com/v1/namespaces/a/shirts?limit=1&limit=2"),
        get("list/first of two selectors", "/apis/shop.example.com/v1/shirts?labelSelector=tier%3Dfront&labelSelector=tier%3Dback"),
        get("list/unknown parameters", "/apis/shop.example.com/v1/namespaces/a/shirts?colour=red&x"),
        get("list/watch=0", "/apis/shop.example.com/v1/namespaces/a/shirts?watch=0"),
        get("list/watch=False", "/apis/shop.example.com/v1/namespaces/a/shirts?watch=False"),
        get("list/sendInitialEvents", "/apis/shop.example.com/v1/shirts?sendInitialEvents=true"),
        get("list/sendInitialEvents with match", "/apis/shop.example.com/v1/shirts?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"),
        get("list/bookmarks are for watches", "/apis/shop.example.com/v1/namespaces/a/shirts?allowWatchBookmarks=true"),
        get("list/bad selector before bad match", "/apis/shop.example.com/v1/shirts?labelSelector=a%3D%3D%3Db&resourceVersionMatch=Foo"),
        get("list/bad match before unknown field", "/apis/shop.example.com/v1/shirts?fieldSelector=spec.nope%3Db&resourceVersionMatch=Foo"),
        get("list/history: one object", "/apis/shop.example.com/v1/shirts?resourceVersion={first}&resourceVersionMatch=Exact"),
        exact("list/history: an object that is gone", "/apis/shop.example.com/v1/namespaces/a/shirts?resourceVersion={present}&resourceVersionMatch=Exact"),
        exact("list/history: with a field as it was", "/apis/shop.example.com/v1/shirts?resourceVersion={present}&resourceVersionMatch=Exact&fieldSelector=spec.quantity%3D3"),
        exact("list/history: with a label", "/apis/shop.example.com/v1/shirts?resourceVersion={middle}&resourceVersionMatch=Exact&labelSelector=tier%3Dfront"),
        exact("list/history: in the other version", "/apis/shop.example.com/v1beta1/shirts?resourceVersion={middle}&resourceVersionMatch=Exact"),
        exact("list/history: before everything", "/apis/shop.example.com/v1/shirts?resourceVersion={ancient}&resourceVersionMatch=Exact"),
        exact("list/history: before everything, limit", "/apis/shop.example.com/v1/shirts?resourceVersion={ancient}&limit=2"),
    ]);
    cases
}

/// {unset, 0, now, old, future, no number} x {unset, Exact, NotOlderThan, unknown} x {no limit, limit 2}.
fn matrix() -> Vec<Case> {
    let mut cases = Vec::new();
    for version in ["", "0", "{current}", "{middle}", "{future}", "abc"] {
        for kind in ["", "Exact", "NotOlderThan", "Foo"] {
            for limit in ["", "2"] {
                let mut query = Vec::new();
                for (name, value) in [("resourceVersion", version), ("resourceVersionMatch", kind), ("limit", limit)] {
                    if !value.is_empty() {
                        query.push(format!("{name}={value}"));
                    }
                }
                let shown =
                    |value: &str| if value.is_empty() { "unset".to_owned() } else { value.replace(['{', '}'], "") };
                let name = format!("list matrix/{}, {}, limit {}", shown(version), shown(kind), shown(limit));
                let path = format!("{SHIRTS}?{}", query.join("&"));
                // A known version with Exact, or with a limit and no match, is the version of the answer.
                let determined = version.starts_with('{') && (kind == "Exact" || (kind.is_empty() && limit == "2"));
                cases.push(if determined { exact(&name, &path) } else { get(&name, &path) });
            }
        }
    }
    cases
}
