//! Protobuf of every built-in kind that the fixtures have, of metadata of every resource, of errors, discovery and watches.

use super::super::case::{Case, Reading, get};
use super::super::dimension::{Dimension, product};
use super::{CONFIG_MAPS, DISCOVERY, ONE, SHIRTS};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TYPED: &str = "application/vnd.kubernetes.protobuf,application/json";

fn metadata(form: &str, version: &str) -> String {
    format!("{PROTOBUF};as={form};g=meta.k8s.io;v={version}")
}

pub(crate) fn cases() -> Vec<Case> {
    let lists = [
        ("pods", "/api/v1/namespaces/work/pods"),
        ("config maps", CONFIG_MAPS),
        ("large config maps", "/api/v1/namespaces/big/configmaps"),
        ("secrets", "/api/v1/namespaces/work/secrets"),
        ("services", "/api/v1/namespaces/work/services"),
        ("events", "/api/v1/namespaces/work/events"),
        ("new events", "/apis/events.k8s.io/v1/namespaces/work/events"),
        ("jobs", "/apis/batch/v1/jobs"),
        ("nodes", "/api/v1/nodes"),
        ("volumes", "/api/v1/persistentvolumes"),
        ("slices", "/apis/resource.k8s.io/v1/resourceslices"),
        ("deployments", "/apis/apps/v1/namespaces/work/deployments"),
        ("leases", "/apis/coordination.k8s.io/v1/namespaces/work/leases"),
        ("endpoint slices", "/apis/discovery.k8s.io/v1/namespaces/work/endpointslices"),
        ("namespaces", "/api/v1/namespaces?labelSelector=fixture%3Dparity"),
        (
            "definitions",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.name%3Dshirts.shop.example.com",
        ),
        ("nothing", "/api/v1/namespaces/nowhere/pods"),
        ("selected pods", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1"),
        ("a page", "/api/v1/namespaces/work/pods?limit=1"),
        ("a page of selected pods", "/api/v1/namespaces/work/pods?limit=1&fieldSelector=status.phase%21%3DFailed"),
        ("version 0", "/api/v1/namespaces/work/pods?resourceVersion=0"),
        ("a bad selector", "/api/v1/namespaces/work/pods?labelSelector=%2C"),
        ("shirts", SHIRTS),
        ("a page of shirts", "/apis/shop.example.com/v1/shirts?limit=2"),
        ("no shirts", "/apis/shop.example.com/v1/namespaces/nowhere/shirts"),
    ];
    let partial = [metadata("PartialObjectMetadataList", "v1"), metadata("PartialObjectMetadataList", "v1beta1")];
    let [list_v1, list_v1beta1] = &partial;
    let table = metadata("Table", "v1");
    let mut cases = product(
        "protobuf list",
        &[
            Dimension::paths("of", lists),
            Dimension::header(
                "accept",
                [
                    ("typed", Some(TYPED)),
                    ("alone", Some(PROTOBUF)),
                    ("metadata", Some(&**list_v1)),
                    ("metadata of v1beta1", Some(&**list_v1beta1)),
                    ("a table", Some(&*table)),
                ],
            ),
        ],
    );
    let one = [metadata("PartialObjectMetadata", "v1"), metadata("PartialObjectMetadata", "v1beta1")];
    let [one_v1, one_v1beta1] = &one;
    cases.extend(product(
        "protobuf get",
        &[
            Dimension::paths(
                "of",
                [
                    ("a pod", "/api/v1/namespaces/work/pods/web"),
                    ("its status", "/api/v1/namespaces/work/pods/web/status"),
                    ("an absent pod", "/api/v1/namespaces/work/pods/no"),
                    ("a config map", "/api/v1/namespaces/work/configmaps/small"),
                    ("a secret", "/api/v1/namespaces/work/secrets/basic"),
                    ("a node", "/api/v1/nodes/node-1"),
                    ("a deployment", "/apis/apps/v1/namespaces/work/deployments/shop"),
                    ("a lease", "/apis/coordination.k8s.io/v1/namespaces/work/leases/leader"),
                    ("a lease of years that JSON has not", "/apis/coordination.k8s.io/v1/namespaces/big/leases/odd"),
                    ("an event", "/api/v1/namespaces/work/events/two"),
                    ("an absent lease", "/apis/coordination.k8s.io/v1/namespaces/work/leases/no"),
                    ("an unknown resource", "/api/v1/socks"),
                    ("a shirt", ONE),
                    ("an absent shirt", "/apis/shop.example.com/v1/namespaces/a/shirts/no"),
                ],
            ),
            Dimension::header(
                "accept",
                [
                    ("typed", Some(TYPED)),
                    ("alone", Some(PROTOBUF)),
                    ("of lower quality", Some("application/vnd.kubernetes.protobuf;q=0.4,application/json;q=0.5")),
                    ("metadata", Some(&**one_v1)),
                    ("metadata of v1beta1", Some(&**one_v1beta1)),
                    ("pretty", Some("application/vnd.kubernetes.protobuf;pretty=1")),
                ],
            ),
        ],
    ));
    cases.extend(product(
        "protobuf discovery",
        &[
            Dimension::paths("of", DISCOVERY),
            Dimension::header(
                "accept",
                [
                    ("alone", Some(PROTOBUF)),
                    ("controller-runtime", Some("application/vnd.kubernetes.protobuf, */*")),
                    (
                        "aggregated",
                        Some("application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
                    ),
                ],
            ),
        ],
    ));
    let watches = [
        ("pods", "/api/v1/namespaces/work/pods?watch=1&timeoutSeconds=1"),
        ("config maps", "/api/v1/namespaces/work/configmaps?watch=1&timeoutSeconds=1"),
        ("events", "/api/v1/namespaces/work/events?watch=1&timeoutSeconds=1"),
        ("nodes", "/api/v1/nodes?watch=1&timeoutSeconds=1"),
        ("jobs", "/apis/batch/v1/namespaces/work/jobs?watch=1&timeoutSeconds=1"),
        ("deployments", "/apis/apps/v1/namespaces/work/deployments?watch=1&timeoutSeconds=1"),
        ("leases", "/apis/coordination.k8s.io/v1/namespaces/work/leases?watch=1&timeoutSeconds=1"),
        ("services", "/api/v1/watch/namespaces/work/services?timeoutSeconds=1"),
        ("a pod", "/api/v1/watch/namespaces/work/pods/web?timeoutSeconds=1"),
        ("shirts", "/apis/shop.example.com/v1/namespaces/a/shirts?watch=1&timeoutSeconds=1"),
        (
            "bookmarks of deployments",
            "/apis/apps/v1/deployments?watch=1&timeoutSeconds=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan",
        ),
        (
            "bookmarks of stateful sets",
            "/apis/apps/v1/statefulsets?watch=1&timeoutSeconds=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan",
        ),
        (
            "bookmarks of services",
            "/api/v1/services?watch=1&timeoutSeconds=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan",
        ),
        ("a future version", "/api/v1/namespaces/work/pods?watch=1&timeoutSeconds=1&resourceVersion=99999999999"),
    ];
    cases.extend(product(
        "protobuf watch",
        &[
            Dimension::paths("of", watches),
            Dimension::header(
                "accept",
                [
                    ("typed", Some(TYPED)),
                    ("alone", Some(PROTOBUF)),
                    ("stream", Some("application/vnd.kubernetes.protobuf;stream=watch")),
                    ("metadata", Some(&**one_v1)),
                    ("metadata of v1beta1", Some(&**one_v1beta1)),
                ],
            ),
            Dimension::readings(&[("events", Reading::Events)]),
        ],
    ));
    cases.push(
        get("protobuf path/gzip", "/api/v1/namespaces/big/configmaps").accept(TYPED).header("accept-encoding", "gzip"),
    );
    cases
}
