//! The old `/watch/` paths: of a collection and of one object, of custom and built-in kinds.

use serde_json::json;

use super::super::script::{Reach, Script, Step};
use super::shapes::{PARTIAL, TABLE};
use super::{accept, at, color, colored, delete, label, script, settle, shirt};
use crate::parity::fixtures;
use crate::parity::stage::LIVE;

const COLLECTION: &str = "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts";
const BOOKMARKS: &str = "&allowWatchBookmarks=true";

const STARTS: [(&str, &str); 5] = [
    ("unset", ""),
    ("0", "&resourceVersion=0"),
    ("current", "&resourceVersion={new}"),
    ("old", "&resourceVersion={old}"),
    ("too old", "&resourceVersion={ancient}"),
];

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script("old path, starts of a collection", of_shirts("", &[""])),
        script("old path, starts of one object", of_shirts("/x", &[""])),
        script(
            "old path, selections of a collection",
            of_shirts("", &["&fieldSelector=spec.color%3Dblue", "&labelSelector=app%3Dshop"]),
        ),
        script(
            "old path, selections of one object",
            of_shirts(
                "/x",
                &["&fieldSelector=spec.color%3Dblue", "&labelSelector=app%3Dshop", "&fieldSelector=metadata.name%3Dx"],
            ),
        ),
        script("old path, forms", forms()),
        script("old path, one object that is not there", absent()),
        script("old path, another version", other_version()),
        script("old path, cluster-scoped", banners()),
        script("old path, built-in collection", config_maps()),
        script("old path, built-in object", pods()),
        script("old path, refused", refused()),
        script(
            "old path, ended by time",
            vec![
                colored("x", "blue"),
                Step::Note("now".to_owned()),
                settle(),
                at("1 second", &format!("{COLLECTION}?timeoutSeconds=1&resourceVersion={{now}}"), Reach::End),
                at("future", &format!("{COLLECTION}?timeoutSeconds=1&resourceVersion={{future}}"), Reach::End),
                at("4 seconds, bookmarks", &format!("{COLLECTION}?timeoutSeconds=4{BOOKMARKS}"), Reach::End),
                at("4 seconds, one object", &format!("{COLLECTION}/x?timeoutSeconds=4{BOOKMARKS}"), Reach::End),
            ],
        ),
    ]
}

fn state() -> Vec<Step> {
    vec![
        colored("x", "blue"),
        Step::Note("old".to_owned()),
        shirt("y", json!({ "app": "shop" }), json!({ "color": "blue" })),
        label("x", "app", Some("shop")),
        color("x", "green"),
        color("x", "blue"),
        Step::Note("new".to_owned()),
        settle(),
    ]
}

/// Both objects end as everything here selects them, `x` last.
fn ends() -> Vec<Step> {
    vec![
        color("x", "green"),
        color("y", "green"),
        label("x", "app", None),
        label("x", "app", Some("shop")),
        delete("y"),
        color("x", "blue"),
    ]
}

fn of_shirts(member: &str, selections: &[&str]) -> Vec<Step> {
    let mut steps = state();
    for (start, query) in STARTS {
        for (index, selection) in selections.iter().enumerate() {
            for (bookmarks, more) in [("", ""), (", bookmarks", BOOKMARKS)] {
                let path = format!("{COLLECTION}{member}?pretty=0{selection}{query}{more}");
                steps.push(at(&format!("{start}{bookmarks} {index}"), &path, Reach::LastChange));
            }
        }
    }
    steps.extend(ends());
    steps
}

fn forms() -> Vec<Step> {
    let mut steps = state();
    for (name, member) in [("collection", ""), ("object", "/x")] {
        let path = format!("{COLLECTION}{member}?allowWatchBookmarks=true");
        for (form, value, more) in [
            ("table", TABLE, ""),
            ("table alone", TABLE, "&includeObject=None"),
            ("table of objects", TABLE, "&includeObject=Object"),
            ("metadata", PARTIAL, ""),
        ] {
            let watch = at(&format!("{name}, {form}"), &format!("{path}{more}"), Reach::LastChange);
            steps.push(accept(watch, value));
        }
    }
    steps.extend(ends());
    steps
}

fn absent() -> Vec<Step> {
    vec![
        colored("y", "blue"),
        settle(),
        at("comes", &format!("{COLLECTION}/x?allowWatchBookmarks=true"), Reach::LastChange),
        at("comes, selected", &format!("{COLLECTION}/x?fieldSelector=spec.color%3Dblue"), Reach::LastChange),
        at("never comes", &format!("{COLLECTION}/never?timeoutSeconds=1"), Reach::End),
        color("y", "green"),
        colored("x", "blue"),
        delete("x"),
        colored("x", "blue"),
    ]
}

fn other_version() -> Vec<Step> {
    let path = "/apis/live.example.com/v1beta1/watch/namespaces/{ns}/shirts";
    let mut steps = state();
    steps.push(Step::Settle("/apis/live.example.com/v1beta1/namespaces/{ns}/shirts".to_owned()));
    steps.extend([
        at("collection", path, Reach::LastChange),
        at("object", &format!("{path}/x"), Reach::LastChange),
        at("field", &format!("{path}?fieldSelector=spec.size%3DM"), Reach::LastChange),
    ]);
    steps.extend(ends());
    steps
}

fn banners() -> Vec<Step> {
    let path = "/apis/live.example.com/v1/watch/banners";
    let written = "/apis/live.example.com/v1/banners";
    let banner = |name: &str, text: &str| {
        Step::Create(written.to_owned(), fixtures::banner(LIVE, &format!("{{ns}}-{name}"), &json!({}), text))
    };
    let text =
        |name: &str, text: &str| Step::Merge(format!("{written}/{{ns}}-{name}"), json!({ "spec": { "text": text } }));
    vec![
        banner("x", "sale"),
        banner("y", "sale"),
        Step::Settle(format!("{written}?labelSelector=run%3D{{ns}}")),
        at("collection", &format!("{path}?labelSelector=run%3D{{ns}}{BOOKMARKS}"), Reach::LastChange),
        at("field", &format!("{path}?labelSelector=run%3D{{ns}}&fieldSelector=spec.text%3Dsale"), Reach::LastChange),
        at("object", &format!("{path}/{{ns}}-x"), Reach::LastChange),
        at("object, field", &format!("{path}/{{ns}}-x?fieldSelector=spec.text%3Dsale"), Reach::LastChange),
        text("y", "closed"),
        text("x", "closed"),
        text("x", "sale"),
    ]
}

fn config_maps() -> Vec<Step> {
    let written = "/api/v1/namespaces/{ns}/configmaps";
    let path = "/api/v1/watch/namespaces/{ns}/configmaps";
    let map = |name: &str| {
        let metadata = json!({ "name": name });
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        Step::Create(written.to_owned(), map)
    };
    vec![
        map("x"),
        map("y"),
        Step::Settle(written.to_owned()),
        at("collection", path, Reach::LastChange),
        at("collection, bookmarks", &format!("{path}?allowWatchBookmarks=true"), Reach::LastChange),
        at("everywhere", "/api/v1/watch/configmaps?labelSelector=run%3D{ns}", Reach::LastChange),
        at(
            "everywhere, by field",
            "/api/v1/watch/configmaps?fieldSelector=metadata.namespace%3D{ns}",
            Reach::LastChange,
        ),
        accept(at("table", path, Reach::LastChange), TABLE),
        accept(at("metadata", path, Reach::LastChange), PARTIAL),
        Step::Delete(format!("{written}/y")),
        Step::Merge(format!("{written}/x"), json!({ "data": { "k": "v" } })),
    ]
}

fn pods() -> Vec<Step> {
    let written = "/api/v1/namespaces/{ns}/pods";
    let path = "/api/v1/watch/namespaces/{ns}/pods";
    let pod = |name: &str| {
        let spec = json!({ "containers": [{ "name": "c", "image": "c:1" }] });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
        Step::Create(written.to_owned(), pod)
    };
    let phase = |name: &str, phase: &str| {
        Step::Merge(format!("{written}/{name}/status"), json!({ "status": { "phase": phase } }))
    };
    vec![
        pod("x"),
        pod("y"),
        Step::Settle(written.to_owned()),
        at("object", &format!("{path}/x"), Reach::LastChange),
        at("object, running", &format!("{path}/x?fieldSelector=status.phase%3DRunning"), Reach::LastChange),
        accept(at("object, table", &format!("{path}/x"), Reach::LastChange), TABLE),
        at("running", &format!("{path}?fieldSelector=status.phase%3DRunning"), Reach::LastChange),
        phase("y", "Running"),
        phase("x", "Running"),
        phase("x", "Failed"),
        phase("x", "Running"),
    ]
}

fn refused() -> Vec<Step> {
    let rows = [
        ("initial events", "sendInitialEvents=true"),
        ("no initial events", "sendInitialEvents=false"),
        ("initial events and match", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        (
            "initial events, match and version",
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
        ),
        ("match", "resourceVersionMatch=NotOlderThan"),
        ("unknown match", "resourceVersionMatch=Foo"),
        ("exact", "resourceVersionMatch=Exact"),
        ("exact at 0", "resourceVersionMatch=Exact&resourceVersion=0"),
        ("match and token", "resourceVersionMatch=NotOlderThan&resourceVersion={current}&continue=abc"),
        ("version that is no number", "resourceVersion=abc"),
        ("unknown field", "fieldSelector=spec.nope%3Dx"),
        ("broken label selector", "labelSelector=a%3D%3D%3Db"),
        ("timeoutSeconds that is no number", "timeoutSeconds=abc"),
    ];
    let mut steps = Vec::new();
    for (name, query) in rows {
        for (place, member) in [("collection", ""), ("object", "/x")] {
            steps.push(at(&format!("{place}, {name}"), &format!("{COLLECTION}{member}?{query}"), Reach::End));
        }
    }
    steps.push(at("another name", &format!("{COLLECTION}/x?fieldSelector=metadata.name%3Dy"), Reach::End));
    steps.push(at("unknown resource", "/apis/live.example.com/v1/watch/namespaces/{ns}/socks", Reach::End));
    steps.push(at("unknown group version", "/apis/live.example.com/v9/watch/namespaces/{ns}/shirts", Reach::End));
    steps
}
