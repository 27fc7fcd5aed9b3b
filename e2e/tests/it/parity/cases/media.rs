//! Media types, their qualities and wildcards; YAML; pretty printing.

use super::super::case::{Case, get};
use super::super::dimension::{Dimension, product};
use super::{CONFIG_MAPS, ONE};

pub(crate) fn cases() -> Vec<Case> {
    let accepts = [
        "",
        "*/*",
        "*",
        "application/*",
        "text/html",
        "text/*",
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf, */*",
        "application/vnd.kubernetes.protobuf,application/json",
        "application/cbor",
        "application/cbor,application/json",
        "image/png, application/json",
        "text/html;q=1.0, application/json;q=0.1",
        "application/json;q=0.5, application/yaml;q=0.9",
        "application/json;q=0, application/yaml",
        "application/json;q=0",
        "application/json;q=abc",
        "application/yaml;q=0.5, */*;q=0.8",
        "*/*;q=0.1, application/yaml;q=0.1",
        "text/html, */*;q=0.1",
        "application/json;charset=utf-8",
        "application/json;colour=red",
        "application/json ; q = 0.5",
        "Application/JSON",
        "application/json;stream=watch",
        "application/json;stream=river",
        "application/json;pretty=1",
        "application/yaml;charset=utf-8",
        "application/x-yaml",
        "json",
        "/",
        ",",
        "application/json,,application/yaml",
    ];
    let mut cases = product(
        "media",
        &[
            Dimension::paths(
                "of",
                [
                    ("banners", "/apis/shop.example.com/v1/banners"),
                    ("a shirt", ONE),
                    ("an absent shirt", "/apis/shop.example.com/v1/namespaces/a/shirts/no"),
                    ("config maps", CONFIG_MAPS),
                    ("a pod", "/api/v1/namespaces/work/pods/web"),
                    ("an absent pod", "/api/v1/namespaces/work/pods/no"),
                    ("a group version", "/apis/shop.example.com/v1"),
                    ("a built-in group version", "/apis/storage.k8s.io/v1beta1"),
                ],
            ),
            Dimension::header_texts("accept", &accepts),
        ],
    );
    cases.extend(product(
        "yaml",
        &[
            Dimension::paths(
                "of",
                [
                    ("every character", "/apis/shop.example.com/v1/namespaces/ab/shirts/x"),
                    ("a value with signs", "/apis/shop.example.com/v1/namespaces/a-b/shirts/x-y"),
                    ("nested values", ONE),
                    ("empty values", "/apis/shop.example.com/v1/namespaces/a-b/shirts/x.y"),
                    ("shirts", super::SHIRTS),
                    ("a page of shirts", "/apis/shop.example.com/v1/shirts?limit=2"),
                    ("a pod", "/api/v1/namespaces/work/pods/web"),
                    ("pods", "/api/v1/pods"),
                    ("a secret", "/api/v1/namespaces/work/secrets/basic"),
                    ("an error", "/apis/shop.example.com/v1/shirts?labelSelector=%2C"),
                    ("an error with causes", "/apis/shop.example.com/v1/shirts?resourceVersionMatch=Exact"),
                    ("an unknown resource", "/api/v1/socks"),
                    ("an unknown path", "/apis/shop.example.com/v1/socks"),
                ],
            ),
            Dimension::header("accept", [("yaml", Some("application/yaml"))]),
            Dimension::parameter("pretty", &["true"]),
        ],
    ));
    cases.extend(product(
        "pretty",
        &[
            Dimension::paths(
                "of",
                [
                    ("banners", "/apis/shop.example.com/v1/banners"),
                    ("an absent shirt", "/apis/shop.example.com/v1/namespaces/a/shirts/no"),
                    ("a pod", "/api/v1/namespaces/work/pods/web"),
                    ("a group version", "/apis/shop.example.com/v1"),
                ],
            ),
            Dimension::values(
                "pretty",
                [("unset", None)].into_iter().chain(
                    ["true", "1", "t", "TRUE", "yes", "", "0", "false", "False", "f"].map(|text| (text, Some(text))),
                ),
            ),
            Dimension::header(
                "user-agent",
                [
                    ("program", Some("kubectl/v1.36")),
                    ("curl", Some("curl/8.9.1")),
                    ("Wget", Some("Wget/1.24")),
                    ("browser", Some("Mozilla/5.0 (X11; Linux x86_64)")),
                ],
            ),
        ],
    ));
    cases.push(get("pretty path/no agent", "/apis/shop.example.com/v1/banners"));
    cases.push(get("pretty path/old browser", "/apis/shop.example.com/v1/banners").header("user-agent", "Mozilla/4.0"));
    cases
}
