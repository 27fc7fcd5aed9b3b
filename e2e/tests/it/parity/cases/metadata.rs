//! PartialObjectMetadata and its list: each form of each kind of object and list, in each version and media type.

use super::super::case::{Case, get};
use super::super::dimension::{Dimension, Part, choice, product};
use super::{CONFIG_MAPS, ONE, PARTIAL, PARTIAL_LIST, SHIRTS};

pub(crate) fn cases() -> Vec<Case> {
    let mut accepts = Vec::new();
    for (what, form) in [("one", "PartialObjectMetadata"), ("list", "PartialObjectMetadataList")] {
        for version in ["v1", "v1beta1", "v9"] {
            for media in ["json", "yaml"] {
                let accept = format!("application/{media};as={form};g=meta.k8s.io;v={version}");
                accepts.push(choice(&format!("{what} {version} {media}"), Part::Header("accept", accept)));
            }
        }
    }
    let mut cases = product(
        "metadata",
        &[
            Dimension::paths(
                "of",
                [
                    ("shirts", "/apis/shop.example.com/v1/namespaces/a/shirts"),
                    ("a shirt", ONE),
                    ("an absent shirt", "/apis/shop.example.com/v1/namespaces/a/shirts/no"),
                    ("pods", "/api/v1/namespaces/work/pods"),
                    ("a pod", "/api/v1/namespaces/work/pods/web"),
                    ("banners", "/apis/shop.example.com/v1/banners"),
                ],
            ),
            Dimension::new("form", accepts),
        ],
    );
    cases.extend(product(
        "metadata list",
        &[
            Dimension::paths(
                "of",
                [
                    ("shirts", SHIRTS),
                    ("config maps", CONFIG_MAPS),
                    ("nothing", "/apis/shop.example.com/v1/namespaces/nowhere/shirts"),
                ],
            ),
            Dimension::header("accept", [("json", Some(PARTIAL_LIST))]),
            Dimension::parameter("limit", &["1", "500"]),
            Dimension::values("fieldSelector", [("none", None), ("name", Some("metadata.name=x"))]),
            Dimension::parameter("pretty", &["true"]),
        ],
    ));
    let protobuf_list = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let protobuf_one = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let metadata_client = format!("{protobuf_list},{PARTIAL_LIST},application/json");
    let metadata_client_one = format!("{protobuf_one},{PARTIAL},application/json");
    let json_client = format!("{PARTIAL_LIST},application/json");
    let json_client_one = format!("{PARTIAL},application/json");
    cases.extend(product(
        "metadata client",
        &[
            Dimension::paths("of", [("shirts", SHIRTS), ("pods", "/api/v1/namespaces/work/pods")]),
            Dimension::header(
                "accept",
                [
                    ("metadata client", Some(&*metadata_client)),
                    ("without protobuf", Some(&*json_client)),
                    ("dynamic client", Some("application/json")),
                    ("controller-runtime", Some("application/vnd.kubernetes.protobuf, */*")),
                    ("typed client", Some("application/vnd.kubernetes.protobuf,application/json")),
                    ("only protobuf", Some(protobuf_list)),
                    ("another group", Some("application/json;as=PartialObjectMetadataList;g=example.com;v=v1")),
                ],
            ),
        ],
    ));
    cases.extend(product(
        "metadata client",
        &[
            Dimension::paths(
                "of",
                [
                    ("a shirt", ONE),
                    ("a pod", "/api/v1/namespaces/work/pods/web"),
                    ("an absent pod", "/api/v1/namespaces/work/pods/no"),
                ],
            ),
            Dimension::header(
                "accept",
                [
                    ("metadata client", Some(&*metadata_client_one)),
                    ("without protobuf", Some(&*json_client_one)),
                    ("only protobuf", Some(protobuf_one)),
                ],
            ),
        ],
    ));
    cases.push(get("metadata path/the status of a pod", "/api/v1/namespaces/work/pods/web/status").accept(PARTIAL));
    cases.push(
        get("metadata path/includeObject does not matter", "/api/v1/namespaces/work/pods/web?includeObject=Bogus")
            .accept(PARTIAL),
    );
    cases
}
