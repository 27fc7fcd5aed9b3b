//! limit and continue: walks, counts, and tokens that are wrong, old or out of place.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::super::case::{Case, Reading, get, walk};
use super::super::dimension::{Dimension, product};
use super::{CONFIG_MAPS, PARTIAL_LIST, SHIRTS, TABLE};

pub(crate) fn cases() -> Vec<Case> {
    let walk_all = Dimension::readings(&[("all pages", Reading::Walk)]);
    let walks = product(
        "walk",
        &[
            walk_all.clone(),
            Dimension::paths(
                "of",
                [("all namespaces", SHIRTS), ("a namespace", "/apis/shop.example.com/v1/namespaces/ab/shirts")],
            ),
            Dimension::parameter("limit", &["1", "2", "3", "8", "9", "10"]),
            Dimension::values("labelSelector", [("none", None), ("app", Some("app=shop"))]),
            Dimension::values("fieldSelector", [("none", None), ("color", Some("spec.color=blue"))]),
        ],
    );
    let others = product(
        "walk",
        &[
            walk_all.clone(),
            Dimension::paths(
                "of",
                [
                    ("the other version", "/apis/shop.example.com/v1beta1/shirts"),
                    ("the cluster", "/apis/shop.example.com/v1/banners"),
                    ("config maps", CONFIG_MAPS),
                    ("pods", "/api/v1/namespaces/work/pods"),
                ],
            ),
            Dimension::parameter("limit", &["1", "2", "3"]),
        ],
    );
    let forms = product(
        "walk",
        &[
            walk_all,
            Dimension::paths("of", [("shirts", SHIRTS), ("pods", "/api/v1/pods")]),
            Dimension::header("accept", [("table", Some(TABLE)), ("metadata", Some(PARTIAL_LIST))]),
            Dimension::parameter("limit", &["1", "4"]),
        ],
    );
    let mut cases = [walks, others, forms].concat();
    // Without a limit there is nothing to walk.
    cases.retain(|case| !case.name.contains("limit=unset"));
    for (what, query) in [
        ("from version 0, which has no pages", "limit=2&resourceVersion=0"),
        ("from a version in history", "limit=2&resourceVersion={middle}&resourceVersionMatch=Exact"),
        ("not older than a version", "limit=4&resourceVersion={middle}&resourceVersionMatch=NotOlderThan"),
        ("narrowed to a namespace by 1", "fieldSelector=metadata.namespace%3Da&limit=1"),
        ("fieldSelector with a full page at the last key", "fieldSelector=spec.note%3Dlast&limit=1"),
        ("fieldSelector with a full page before the last key", "fieldSelector=spec.color%3Dgreen&limit=2"),
        ("fieldSelector of a name", "fieldSelector=metadata.name%3Dx&limit=1"),
        ("nothing selected", "labelSelector=no%3Dthing&limit=1"),
    ] {
        cases.push(walk(&format!("walk/{what}"), &format!("{SHIRTS}?{query}")));
    }
    cases.push(walk(
        "walk/by name within a namespace",
        "/apis/shop.example.com/v1/namespaces/a/shirts?fieldSelector=metadata.name%3Dx&limit=1",
    ));
    cases.extend(tokens());
    cases.extend(bad_tokens());
    cases
}

/// Good tokens: what they say, and what is said besides.
fn tokens() -> Vec<Case> {
    let keys = ["a/x", "a/m", "/a/x", "zzz/z", "0"];
    let versions = ["current", "middle", "newest", "ancient", "future"];
    let mut tokens = Vec::new();
    for version in versions {
        for key in keys {
            tokens.push(format!("{{token:{version}:{key}}}"));
        }
    }
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let mut token = Dimension::parameter("continue", &tokens);
    token.choices.remove(0);
    let page =
        product("page", &[Dimension::paths("", [("shirts", SHIRTS)]), token, Dimension::parameter("limit", &["3"])]);
    let mut with = Dimension::parameter(
        "continue",
        &["{token:current:a/x}", "{token:middle:a-b/x}", "{token:ancient:a/x}", "{token:newest:a/x}"],
    );
    with.choices.remove(0);
    let besides = product(
        "page and more",
        &[
            Dimension::paths(
                "of",
                [("shirts", SHIRTS), ("a namespace", "/apis/shop.example.com/v1/namespaces/a/shirts")],
            ),
            with,
            Dimension::parameter("resourceVersion", &["0", "{current}", "abc"]),
            Dimension::parameter("resourceVersionMatch", &["Exact", "NotOlderThan"]),
        ],
    );
    let first = product(
        "page one",
        &[
            Dimension::paths("of", [("shirts", SHIRTS), ("config maps", CONFIG_MAPS), ("pods", "/api/v1/pods")]),
            Dimension::parameter("limit", &["1", "2", "500"]),
            Dimension::values("labelSelector", [("none", None), ("absent", Some("!nothing"))]),
        ],
    );
    let mut cases = [page, besides, first].concat();
    for (what, path) in [
        ("in a namespace", "/apis/shop.example.com/v1/namespaces/a/shirts?limit=1&continue={token:present:x}"),
        ("of another namespace", "/apis/shop.example.com/v1/namespaces/ab/shirts?limit=1&continue={token:current:x}"),
        (
            "other selectors than before",
            "/apis/shop.example.com/v1/shirts?limit=3&fieldSelector=spec.color%3Dblue&continue={token:current:a/x}",
        ),
        (
            "by name within a namespace",
            "/apis/shop.example.com/v1/namespaces/a/shirts?limit=1&fieldSelector=metadata.name%3Dx&continue={token:current:x}",
        ),
        (
            "with initial events",
            "/apis/shop.example.com/v1/shirts?limit=3&sendInitialEvents=true&continue={token:current:a/x}",
        ),
        ("empty", "/apis/shop.example.com/v1/shirts?limit=3&continue="),
    ] {
        cases.push(get(&format!("page token/{what}"), path));
    }
    cases
}

fn bad_tokens() -> Vec<Case> {
    let encoded = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let rows = [
        ("no base64", "%25%25".to_owned()),
        ("no base64 at the end", "abc!".to_owned()),
        ("padded", "YQ%3D%3D".to_owned()),
        ("of one letter", "a".to_owned()),
        ("with a line break", "YWJj%0AYWJj".to_owned()),
        ("no JSON", encoded("hello")),
        ("a number", encoded("7")),
        ("an array", encoded("[]")),
        ("an open object", encoded("{")),
        ("empty object", encoded("{}")),
        ("unknown version", encoded(r#"{"v":"meta.k8s.io/v9","rv":1,"start":"a/x\u0000"}"#)),
        ("version 0", encoded(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a/x\u0000"}"#)),
        ("empty key", encoded(r#"{"v":"meta.k8s.io/v1","rv":7,"start":""}"#)),
        ("key that climbs", encoded(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"../x\u0000"}"#)),
        ("key that climbs later", encoded(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"a/../../x\u0000"}"#)),
        ("wrong type", encoded(r#"{"v":"meta.k8s.io/v1","rv":"7","start":"a/x\u0000"}"#)),
        ("fraction as version", encoded(r#"{"v":"meta.k8s.io/v1","rv":1.5,"start":"a/x\u0000"}"#)),
        ("something after it", encoded(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"a/x\u0000"} x"#)),
    ];
    let rows: Vec<(String, String)> = rows.into_iter().map(|(name, token)| (name.to_owned(), token)).collect();
    let choices = rows.iter().map(|(name, token)| {
        super::super::dimension::choice(name, super::super::dimension::Part::Parameter("continue", token.clone()))
    });
    product(
        "bad token",
        &[
            Dimension::paths("of", [("shirts", SHIRTS), ("config maps", CONFIG_MAPS)]),
            Dimension::new("", choices.collect()),
            Dimension::parameter("resourceVersion", &["0"]),
        ],
    )
}
