//! Watches in other forms: tables, metadata alone, compressed, pretty.

use serde_json::json;

use super::super::script::{Reach, Script, Step};
use super::{
    SHIRTS, accept, at, color, colored, delete, ending, label, script, set, settle, shirt, watch, with_header,
};

pub(super) const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const KUBECTL: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
/// As client-go's typed clients request.
pub(super) const TYPED: &str = "application/vnd.kubernetes.protobuf,application/json";
/// As its metadata client requests.
pub(super) const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
pub(super) const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Watches that begin with a list or not, and how compression is requested.
fn compressed() -> Vec<Step> {
    const BOOKMARKS: &str = "&allowWatchBookmarks=true";
    const INITIAL: &str = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let requested = |name: &str, query: &str, coding: &'static str| {
        with_header(watch(&format!("{name}, {coding}"), query), "accept-encoding", coding)
    };
    let initial = format!("{INITIAL}{BOOKMARKS}");
    let mut watches: Vec<Step> = ["gzip", "br, gzip", " gzip ,deflate", "gzip;q=1", "GZIP", "*", "identity", "deflate"]
        .into_iter()
        .map(|coding| requested("initial events", &initial, coding))
        .collect();
    watches.extend([
        requested("initial events without bookmarks", INITIAL, "gzip"),
        requested("initial events of version 0", &format!("{initial}&resourceVersion=0"), "gzip"),
        requested("initial events of a version", &format!("{initial}&resourceVersion={{start}}"), "gzip"),
        requested("selected", &format!("{initial}&fieldSelector=spec.color%3Dblue"), "gzip"),
        requested("nothing requested", "", "gzip"),
        requested("version 0", &format!("{BOOKMARKS}&resourceVersion=0"), "gzip"),
        requested("from a version", &format!("{BOOKMARKS}&resourceVersion={{start}}"), "gzip"),
        requested(
            "no initial events",
            &format!("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan{BOOKMARKS}"),
            "gzip",
        ),
        accept(requested("metadata", &initial, "gzip"), PARTIAL),
        accept(requested("a table", &initial, "gzip"), TABLE),
    ]);
    watches
}

pub(crate) fn scripts() -> Vec<Script> {
    let state = || {
        vec![
            shirt("x", json!({ "app": "shop" }), json!({ "color": "blue", "quantity": 2, "tags": ["a", "b"] })),
            colored("y", "green"),
            Step::Note("start".to_owned()),
            settle(),
        ]
    };
    let changes = || {
        vec![
            color("x", "green"),
            label("x", "app", None),
            color("x", "blue"),
            set("x", json!({ "spec": { "made": "2001-02-03T04:05:06Z", "price": 1.5 } })),
            delete("y"),
            colored("last", "blue"),
        ]
    };
    let with = |watches: Vec<Step>| {
        let mut steps = state();
        steps.extend(watches);
        steps.extend(changes());
        steps
    };
    vec![
        script(
            "tables",
            with(vec![
                accept(watch("by default", ""), TABLE),
                accept(watch("bookmarks", "&allowWatchBookmarks=true"), TABLE),
                accept(watch("as kubectl requests", "&resourceVersion={start}"), KUBECTL),
                accept(watch("selected", "&fieldSelector=spec.color%3Dblue&allowWatchBookmarks=true"), TABLE),
                accept(watch("whole objects", "&includeObject=Object"), TABLE),
                accept(watch("no objects", "&includeObject=None&allowWatchBookmarks=true"), TABLE),
                accept(watch("metadata", "&includeObject=Metadata&resourceVersion={start}"), TABLE),
            ]),
        ),
        script(
            "tables of a version without columns",
            with(vec![accept(
                at(
                    "all",
                    "/apis/live.example.com/v1beta1/namespaces/{ns}/shirts?watch=1&allowWatchBookmarks=true",
                    Reach::LastChange,
                ),
                TABLE,
            )]),
        ),
        script(
            "errors of tables",
            vec![
                accept(ending("too old", "&resourceVersion={ancient}"), TABLE),
                accept(ending("too old, as kubectl requests", "&resourceVersion={ancient}"), KUBECTL),
                accept(ending("includeObject unknown", "&includeObject=Bogus&timeoutSeconds=1"), KUBECTL),
                accept(ending("unknown field", "&fieldSelector=spec.nope%3Dx"), KUBECTL),
            ],
        ),
        script(
            "metadata",
            with(vec![
                accept(watch("by default", ""), PARTIAL),
                accept(watch("bookmarks", "&allowWatchBookmarks=true"), PARTIAL),
                accept(
                    watch(
                        "initial events",
                        "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                    ),
                    PARTIAL,
                ),
                accept(watch("selected", "&fieldSelector=spec.color%3Dblue"), PARTIAL),
                accept(watch("resumed", "&resourceVersion={start}&fieldSelector=spec.color%3Dblue"), PARTIAL),
            ]),
        ),
        script(
            "errors of metadata",
            vec![
                accept(ending("too old", "&resourceVersion={ancient}"), PARTIAL),
                accept(ending("too old, in protobuf", "&resourceVersion={ancient}"), METADATA),
                accept(ending("unknown field, in protobuf", "&fieldSelector=spec.nope%3Dx"), METADATA),
                accept(ending("unknown field, typed", "&fieldSelector=spec.nope%3Dx"), TYPED),
                accept(
                    at("unknown field of Pods", "/api/v1/pods?watch=1&fieldSelector=spec.nope%3Dx", Reach::End),
                    "application/vnd.kubernetes.protobuf",
                ),
            ],
        ),
        script(
            "other headers",
            with(vec![
                with_header(watch("gzip", "&allowWatchBookmarks=true"), "accept-encoding", "gzip"),
                with_header(watch("agent curl", ""), "user-agent", "curl/8.9.1"),
                watch("pretty", "&pretty=true&resourceVersion={start}"),
                accept(watch("stream", ""), "application/json;stream=watch"),
                accept(watch("anything", ""), "*/*"),
                accept(watch("protobuf, else anything", ""), "application/vnd.kubernetes.protobuf, */*"),
            ]),
        ),
        script("compressed watches", with(compressed())),
        script(
            "deleted as metadata",
            vec![
                accept(watch("label", "&labelSelector=app%3Dshop"), PARTIAL),
                accept(at("table", &format!("{SHIRTS}?watch=1&labelSelector=app%3Dshop"), Reach::LastChange), TABLE),
                shirt("x", json!({ "app": "shop" }), json!({ "color": "blue" })),
                label("x", "app", Some("depot")),
                label("x", "app", Some("shop")),
                delete("x"),
                shirt("last", json!({ "app": "shop" }), json!({})),
            ],
        ),
    ]
}
