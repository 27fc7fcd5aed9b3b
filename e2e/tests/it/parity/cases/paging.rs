//! limit and continue: walks, counts, and tokens that are wrong, old or out of place.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::super::case::{Case, exact, get, walk};

const SHIRTS: &str = "/apis/shop.example.com/v1/shirts";

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for limit in [1, 2, 3, 8, 9, 10] {
        cases.push(walk(&format!("walk/all shirts by {limit}"), &format!("{SHIRTS}?limit={limit}")));
    }
    for (what, path) in [
        ("one namespace by 2", "/apis/shop.example.com/v1/namespaces/a-b/shirts?limit=2"),
        ("the other version by 4", "/apis/shop.example.com/v1beta1/shirts?limit=4"),
        ("cluster-scoped by 2", "/apis/shop.example.com/v1/banners?limit=2"),
        ("built-in by 2", "/api/v1/namespaces/big/configmaps?limit=2"),
        ("pods by 3", "/api/v1/namespaces/work/pods?limit=3"),
        ("from version 0, which has no pages", "/apis/shop.example.com/v1/shirts?limit=2&resourceVersion=0"),
        ("selected by label by 1", "/apis/shop.example.com/v1/shirts?labelSelector=app%3Dshop&limit=1"),
        ("selected by label by 2", "/apis/shop.example.com/v1/shirts?labelSelector=app%3Dshop&limit=2"),
        ("selected by field by 2", "/apis/shop.example.com/v1/shirts?fieldSelector=spec.color%3Dblue&limit=2"),
        (
            "selected by both by 1",
            "/apis/shop.example.com/v1/shirts?labelSelector=app%3Dshop&fieldSelector=spec.color%3Dblue&limit=1",
        ),
        (
            "selected, full page at the last key",
            "/apis/shop.example.com/v1/shirts?fieldSelector=spec.note%3Dlast&limit=1",
        ),
        (
            "selected, full page before the last key",
            "/apis/shop.example.com/v1/shirts?fieldSelector=spec.color%3Dgreen&limit=2",
        ),
    ] {
        cases.push(walk(&format!("walk/{what}"), path));
    }
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    cases.extend([
        walk("walk/tables by 4", "/apis/shop.example.com/v1/shirts?limit=4").accept(table),
        walk("walk/metadata by 4", "/apis/shop.example.com/v1/shirts?limit=4").accept(partial),
        get("page/first, with the count of the rest", "/apis/shop.example.com/v1/shirts?limit=4"),
        get("page/first, selected, without a count", "/apis/shop.example.com/v1/shirts?limit=1&labelSelector=app%3Dshop"),
        get("page/first of a built-in", "/api/v1/namespaces/big/configmaps?limit=4"),
        exact("page/after a key that exists", "/apis/shop.example.com/v1/shirts?limit=3&continue={token:middle:a/x}"),
        exact("page/after a key that is gone", "/apis/shop.example.com/v1/shirts?limit=3&continue={token:middle:a/m}"),
        exact("page/after a key, without a limit", "/apis/shop.example.com/v1/shirts?continue={token:current:a/x}"),
        exact("page/after a key with the slash of a cache", "/apis/shop.example.com/v1/shirts?limit=3&continue={token:middle:/a/x}"),
        exact("page/in a namespace", "/apis/shop.example.com/v1/namespaces/a/shirts?limit=1&continue={token:present:x}"),
        exact("page/other selectors than before", "/apis/shop.example.com/v1/shirts?limit=3&fieldSelector=spec.color%3Dblue&continue={token:current:a/x}"),
        exact("page/after everything", "/apis/shop.example.com/v1/shirts?limit=3&continue={token:current:zzz/z}"),
        get("page/newest again, version -1", "/apis/shop.example.com/v1/shirts?limit=3&continue={token:newest:a/x}"),
        get("page/expired", "/apis/shop.example.com/v1/shirts?limit=3&continue={token:ancient:a/x}"),
        get("page/token and version", "/apis/shop.example.com/v1/shirts?limit=3&resourceVersion={current}&continue={token:current:a/x}"),
        get("page/token and match", "/apis/shop.example.com/v1/shirts?limit=3&resourceVersionMatch=Exact&continue={token:current:a/x}"),
        get("page/token, version and match", "/apis/shop.example.com/v1/shirts?limit=3&resourceVersion={current}&resourceVersionMatch=Exact&continue={token:current:a/x}"),
        exact("page/token and version 0", "/apis/shop.example.com/v1/shirts?limit=3&resourceVersion=0&continue={token:current:a/x}"),
        exact("page/old token and version 0", "/apis/shop.example.com/v1/shirts?limit=3&resourceVersion=0&continue={token:middle:a-b/x}"),
        get("page/bad token and version 0", "/apis/shop.example.com/v1/shirts?limit=3&resourceVersion=0&continue=%25"),
    ]);
    let encoded = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    for (what, token) in [
        ("no base64", "%25%25".to_owned()),
        ("no base64 at the end", "abc!".to_owned()),
        ("padded", "YQ==".to_owned()),
        ("no JSON", encoded("hello")),
        ("empty object", encoded("{}")),
        ("unknown version", encoded(r#"{"v":"meta.k8s.io/v9","rv":1,"start":"a/x\u0000"}"#)),
        ("version 0", encoded(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a/x\u0000"}"#)),
        ("empty key", encoded(r#"{"v":"meta.k8s.io/v1","rv":7,"start":""}"#)),
        ("key that climbs", encoded(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"../x\u0000"}"#)),
        ("wrong type", encoded(r#"{"v":"meta.k8s.io/v1","rv":"7","start":"a/x\u0000"}"#)),
    ] {
        cases.push(get(&format!("bad token/{what}"), &format!("{SHIRTS}?limit=3&continue={token}")));
    }
    cases
}
