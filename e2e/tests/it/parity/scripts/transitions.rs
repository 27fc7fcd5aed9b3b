//! Objects entering and leaving selections, live and resumed; the content and the version of what is DELETED.

use serde_json::json;

use super::super::script::{Reach, Script, Step};
use super::{BANNERS, SHIRTS, at, color, colored, delete, label, script, set, settle, shirt, watch};
use crate::parity::fixtures;
use crate::parity::stage::LIVE;

pub(crate) fn scripts() -> Vec<Script> {
    let mut scripts = vec![
        script(
            "everything",
            vec![
                watch("all", ""),
                watch("all, bookmarks", "&allowWatchBookmarks=true"),
                colored("x", "blue"),
                color("x", "green"),
                set("x", json!({ "metadata": { "annotations": { "note": "<&>" } } })),
                delete("x"),
                colored("x", "red"),
                colored("last", "blue"),
            ],
        ),
        script(
            "a label comes and goes",
            vec![
                watch("app=shop", "&labelSelector=app%3Dshop"),
                watch("app", "&labelSelector=app"),
                watch("app!=shop", "&labelSelector=app%21%3Dshop,app%21%3Dnever"),
                watch("app in", "&labelSelector=app%20in%20(shop,depot)"),
                shirt("x", json!({ "app": "depot" }), json!({ "color": "blue" })),
                label("x", "app", Some("shop")),
                color("x", "green"),
                label("x", "app", Some("depot")),
                color("x", "red"),
                label("x", "app", None),
                label("x", "app", Some("shop")),
                delete("x"),
                shirt("outside", json!({ "app": "depot" }), json!({})),
                delete("outside"),
                shirt("last", json!({ "app": "shop" }), json!({})),
                // Leaves the negated selection, where it would not be seen otherwise.
                shirt("final", json!({ "app": "none" }), json!({})),
                label("final", "app", Some("shop")),
            ],
        ),
        script(
            "fields of every type come and go",
            vec![
                watch("color=blue", "&fieldSelector=spec.color%3Dblue"),
                watch("color!=blue", "&fieldSelector=spec.color%21%3Dblue"),
                watch("quantity=2", "&fieldSelector=spec.quantity%3D2"),
                watch("branded=true", "&fieldSelector=spec.branded%3Dtrue"),
                watch("branded missing", "&fieldSelector=spec.branded%3D"),
                watch("two fields", "&fieldSelector=spec.color%3Dblue,spec.quantity%3D2"),
                shirt("x", json!({}), json!({ "color": "blue", "quantity": 1 })),
                set("x", json!({ "spec": { "quantity": 2 } })),
                set("x", json!({ "spec": { "branded": true } })),
                color("x", "green"),
                set("x", json!({ "spec": { "branded": false, "quantity": 3 } })),
                color("x", "blue"),
                set("x", json!({ "spec": { "branded": null, "quantity": 2 } })),
                delete("x"),
                shirt("last", json!({}), json!({ "color": "blue", "quantity": 2 })),
                // One change that every one of the selections sees.
                set("last", json!({ "spec": { "color": "green", "quantity": 3, "branded": true } })),
            ],
        ),
        script(
            "label and field together",
            vec![
                watch("both", "&labelSelector=app%3Dshop&fieldSelector=spec.color%3Dblue"),
                watch("both, one negated", "&labelSelector=app%3Dshop&fieldSelector=spec.color%21%3Dgreen"),
                shirt("x", json!({ "app": "shop" }), json!({ "color": "green" })),
                color("x", "blue"),
                label("x", "app", Some("depot")),
                color("x", "red"),
                label("x", "app", Some("shop")),
                color("x", "blue"),
                set("x", json!({ "metadata": { "labels": { "app": "depot" } }, "spec": { "color": "green" } })),
                shirt("last", json!({ "app": "shop" }), json!({ "color": "blue" })),
            ],
        ),
        script(
            "deleted inside and outside",
            vec![
                colored("inside", "blue"),
                colored("outside", "green"),
                settle(),
                watch("color=blue", "&fieldSelector=spec.color%3Dblue&resourceVersion=0"),
                watch("all", "&resourceVersion=0"),
                delete("inside"),
                delete("outside"),
                colored("last", "blue"),
            ],
        ),
        script(
            "deleted in two steps",
            vec![
                watch("color=blue", "&fieldSelector=spec.color%3Dblue"),
                Step::Create(SHIRTS.to_owned(), {
                    let mut shirt = fixtures::shirt(LIVE, "x", &json!({}), &json!({ "color": "blue" }));
                    shirt["metadata"]["finalizers"] = json!(["example.com/wait"]);
                    shirt
                }),
                delete("x"),
                color("x", "green"),
                color("x", "blue"),
                set("x", json!({ "metadata": { "finalizers": null } })),
                colored("last", "blue"),
            ],
        ),
        script(
            "a selected collection is deleted",
            vec![
                shirt("one", json!({ "app": "shop" }), json!({ "color": "blue" })),
                shirt("two", json!({ "app": "shop" }), json!({ "color": "green" })),
                shirt("three", json!({ "app": "depot" }), json!({ "color": "blue" })),
                settle(),
                watch("all", ""),
                watch("color=blue", "&fieldSelector=spec.color%3Dblue"),
                Step::Delete(format!("{SHIRTS}?labelSelector=app%3Dshop")),
                colored("last", "blue"),
            ],
        ),
    ];
    scripts.extend(resumed());
    scripts.extend(others());
    scripts
}

fn resumed() -> Vec<Script> {
    vec![
        script(
            "resumed from before",
            vec![
                colored("before", "blue"),
                Step::Note("start".to_owned()),
                colored("x", "green"),
                Step::Note("green".to_owned()),
                color("x", "blue"),
                Step::Note("blue".to_owned()),
                shirt("y", json!({ "app": "shop" }), json!({ "color": "blue" })),
                color("x", "red"),
                label("y", "app", None),
                delete("x"),
                Step::Note("late".to_owned()),
                watch("all", "&resourceVersion={start}"),
                watch("all, bookmarks", "&resourceVersion={start}&allowWatchBookmarks=true"),
                watch("color=blue", "&resourceVersion={start}&fieldSelector=spec.color%3Dblue"),
                watch("color=blue, from when it was green", "&resourceVersion={green}&fieldSelector=spec.color%3Dblue"),
                watch("color=blue, from when it was blue", "&resourceVersion={blue}&fieldSelector=spec.color%3Dblue"),
                watch("color!=blue", "&resourceVersion={start}&fieldSelector=spec.color%21%3Dblue"),
                watch("app=shop", "&resourceVersion={start}&labelSelector=app%3Dshop"),
                watch("late", "&resourceVersion={late}"),
                colored("between", "blue"),
                shirt("last", json!({ "app": "shop" }), json!({ "color": "blue" })),
                color("last", "green"),
                set("last", json!({ "spec": { "color": "blue" }, "metadata": { "labels": { "app": "shop" } } })),
            ],
        ),
        script("resumed after many changes", {
            let mut steps = vec![colored("x", "blue"), Step::Note("start".to_owned())];
            for round in 0..20 {
                steps.push(color("x", if round % 3 == 0 { "green" } else { "blue" }));
            }
            steps.push(watch("color=blue", "&resourceVersion={start}&fieldSelector=spec.color%3Dblue"));
            steps.push(watch("all", "&resourceVersion={start}"));
            for round in 0..20 {
                steps.push(color("x", if round % 4 == 0 { "green" } else { "blue" }));
            }
            steps
        }),
        script(
            "by name",
            vec![
                colored("x", "blue"),
                colored("y", "blue"),
                settle(),
                watch("as kubectl does", "&resourceVersion=0&fieldSelector=metadata.name%3Dx"),
                watch("from now", "&fieldSelector=metadata.name%3Dx"),
                watch("with a field", "&fieldSelector=metadata.name%3Dx,spec.color%3Dblue"),
                watch("not this name", "&fieldSelector=metadata.name%21%3Dy"),
                color("y", "green"),
                color("x", "green"),
                delete("x"),
                colored("x", "blue"),
            ],
        ),
    ]
}

fn others() -> Vec<Script> {
    let all = "/apis/live.example.com/v1/shirts?watch=1&labelSelector=run%3D{ns}";
    let other = "/apis/live.example.com/v1beta1/namespaces/{ns}/shirts?watch=1";
    let mut nodes = Vec::new();
    for (name, node) in [("one", "node-1"), ("two", "node-2")] {
        nodes.push(Step::Create(
            "/api/v1/namespaces/{ns}/pods".to_owned(),
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
                "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "c:1" }] },
            }),
        ));
    }
    let pods = "/api/v1/namespaces/{ns}/pods";
    let mut pod_steps = vec![
        at("by node", &format!("{pods}?watch=1&fieldSelector=spec.nodeName%3Dnode-1"), Reach::LastChange),
        at("by phase", &format!("{pods}?watch=1&fieldSelector=status.phase%3DRunning"), Reach::LastChange),
        at("all, bookmarks", &format!("{pods}?watch=1&allowWatchBookmarks=true"), Reach::LastChange),
        at("by alias", &format!("{pods}?watch=1&fieldSelector=spec.host%3Dnode-1"), Reach::LastChange),
    ];
    pod_steps.extend(nodes);
    for phase in ["Running", "Succeeded", "Running"] {
        let patch = json!({ "status": { "phase": phase } });
        pod_steps.push(Step::Merge(format!("{pods}/two/status"), patch.clone()));
        pod_steps.push(Step::Merge(format!("{pods}/one/status"), patch));
    }
    vec![
        script(
            "all namespaces",
            vec![
                at("selected", all, Reach::LastChange),
                at("selected, with a field", &format!("{all}&fieldSelector=spec.color%3Dblue"), Reach::LastChange),
                at(
                    "one of them by field",
                    &format!("{all}&fieldSelector=metadata.namespace%3D{{ns}}"),
                    Reach::LastChange,
                ),
                colored("x", "blue"),
                Step::Create("/apis/live.example.com/v1/namespaces/a-b/shirts".to_owned(), {
                    let mut shirt = fixtures::shirt(LIVE, "x", &json!({}), &json!({ "color": "blue" }));
                    shirt["metadata"]["generateName"] = "x-".into();
                    shirt["metadata"]["name"] = "".into();
                    shirt
                }),
                color("x", "green"),
                colored("last", "blue"),
            ],
        ),
        script(
            "the other version",
            vec![
                at("its own field", &format!("{other}&fieldSelector=spec.size%3DS"), Reach::LastChange),
                at("shared field", &format!("{other}&fieldSelector=spec.color%3Dblue"), Reach::LastChange),
                at("all", other, Reach::LastChange),
                shirt("x", json!({}), json!({ "color": "blue", "size": "S" })),
                set("x", json!({ "spec": { "size": "L" } })),
                set("x", json!({ "spec": { "size": "S", "color": "green" } })),
                shirt("last", json!({}), json!({ "color": "blue", "size": "S" })),
            ],
        ),
        script(
            "cluster-scoped",
            vec![
                at("selected", &format!("{BANNERS}?watch=1&labelSelector=run%3D{{ns}}"), Reach::LastChange),
                at(
                    "with a field",
                    &format!("{BANNERS}?watch=1&labelSelector=run%3D{{ns}}&fieldSelector=spec.text%3Dsale"),
                    Reach::LastChange,
                ),
                Step::Create(BANNERS.to_owned(), generated("sale")),
                Step::Create(BANNERS.to_owned(), generated("closed")),
                Step::Create(BANNERS.to_owned(), generated("sale")),
            ],
        ),
        script(
            "status",
            vec![
                watch("all", ""),
                watch("color=blue", "&fieldSelector=spec.color%3Dblue"),
                colored("x", "blue"),
                Step::Merge(format!("{SHIRTS}/x/status"), json!({ "status": { "phase": "Sold" } })),
                color("x", "green"),
                Step::Merge(format!("{SHIRTS}/x/status"), json!({ "status": { "phase": "Gone" } })),
                color("x", "blue"),
            ],
        ),
        script(
            "values with every character",
            vec![
                watch("escaped", "&fieldSelector=spec.color%3Da%5C%2Cb%5C%3Dc%5C%5Cd"),
                watch("markup", "&fieldSelector=spec.color%3Dred%20%3C%26%3E%20%E2%80%A8"),
                colored("x", "a,b=c\\d"),
                color("x", "red <&> \u{2028}"),
                colored("y", "blue"),
                colored("last", "a,b=c\\d"),
                color("last", "red <&> \u{2028}"),
                color("last", "a,b=c\\d"),
                color("last", "blue"),
                color("last", "red <&> \u{2028}"),
                // Leaves the first and enters the second.
                colored("end", "a,b=c\\d"),
                color("end", "red <&> \u{2028}"),
            ],
        ),
        script("pods", pod_steps),
        script("config maps", {
            let maps = "/api/v1/namespaces/{ns}/configmaps";
            let map = |name: &str| {
                Step::Create(
                    maps.to_owned(),
                    json!({
                        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": "v" },
                    }),
                )
            };
            vec![
                map("x"),
                Step::Settle(maps.to_owned()),
                at("all", &format!("{maps}?watch=1"), Reach::LastChange),
                at("by name", &format!("{maps}?watch=1&fieldSelector=metadata.name%3Dx"), Reach::LastChange),
                at("bookmarks", &format!("{maps}?watch=1&allowWatchBookmarks=1"), Reach::LastChange),
                map("y"),
                Step::Merge(format!("{maps}/x"), json!({ "data": { "k": "w" } })),
                Step::Delete(format!("{maps}/x")),
                map("x"),
            ]
        }),
    ]
}

fn generated(text: &str) -> serde_json::Value {
    let mut banner = fixtures::banner(LIVE, "", &json!({}), text);
    banner["metadata"]["generateName"] = "b-".into();
    banner
}
