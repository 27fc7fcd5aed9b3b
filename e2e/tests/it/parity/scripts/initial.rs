//! How a watch starts: versions, initial events, the end bookmark, the legacy paths.

use serde_json::json;

use super::super::script::{Reach, Script, Step};
use super::{SHIRTS, at, color, colored, ending, script, settle, shirt, watch};

const INITIAL: &str = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const NO_INITIAL: &str = "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

pub(crate) fn scripts() -> Vec<Script> {
    let state = || {
        vec![
            colored("x-y", "blue"),
            Step::Note("old".to_owned()),
            shirt("x", json!({ "app": "shop" }), json!({ "color": "green" })),
            colored("x.y", "blue"),
            color("x-y", "red"),
            Step::Note("new".to_owned()),
            settle(),
        ]
    };
    let started = |watches: Vec<Step>| {
        let mut steps = state();
        steps.extend(watches);
        steps.push(colored("last", "blue"));
        steps
    };
    let bookmarks = "&allowWatchBookmarks=true";
    let shop = "/apis/shop.example.com/v1/shirts?watch=1";
    vec![
        script(
            "a version in the future",
            vec![
                ending("initial events", &format!("{INITIAL}&resourceVersion={{future}}")),
                ending("initial events, bookmarks", &format!("{INITIAL}{bookmarks}&resourceVersion={{future}}")),
                ending("live", "&resourceVersion={future}&timeoutSeconds=1"),
                ending("live, selected", "&resourceVersion={future}&timeoutSeconds=1&fieldSelector=spec.color%3Dblue"),
            ],
        ),
        script(
            "started by default",
            started(vec![
                watch("unset", ""),
                watch("unset, bookmarks", bookmarks),
                watch("0", "&resourceVersion=0"),
                watch("0, bookmarks", &format!("&resourceVersion=0{bookmarks}")),
                watch("old", "&resourceVersion={old}"),
                watch("new", "&resourceVersion={new}"),
                watch("new, bookmarks", &format!("&resourceVersion={{new}}{bookmarks}")),
            ]),
        ),
        script(
            "started with initial events",
            started(vec![
                watch("unset", INITIAL),
                watch("unset, bookmarks", &format!("{INITIAL}{bookmarks}")),
                watch("0", &format!("{INITIAL}&resourceVersion=0")),
                watch("0, bookmarks", &format!("{INITIAL}{bookmarks}&resourceVersion=0")),
                watch("old", &format!("{INITIAL}&resourceVersion={{old}}")),
                watch("old, bookmarks", &format!("{INITIAL}{bookmarks}&resourceVersion={{old}}")),
                watch("new, bookmarks", &format!("{INITIAL}{bookmarks}&resourceVersion={{new}}")),
                watch("ancient, bookmarks", &format!("{INITIAL}{bookmarks}&resourceVersion={{ancient}}")),
            ]),
        ),
        script(
            "started without initial events",
            started(vec![
                watch("unset", NO_INITIAL),
                watch("unset, bookmarks", &format!("{NO_INITIAL}{bookmarks}")),
                watch("0", &format!("{NO_INITIAL}&resourceVersion=0")),
                watch("old", &format!("{NO_INITIAL}&resourceVersion={{old}}")),
                watch("new, bookmarks", &format!("{NO_INITIAL}{bookmarks}&resourceVersion={{new}}")),
            ]),
        ),
        script(
            "started with selectors",
            started(vec![
                watch("field", &format!("{INITIAL}{bookmarks}&fieldSelector=spec.color%3Dblue")),
                watch("name", &format!("{INITIAL}{bookmarks}&fieldSelector=metadata.name%21%3Dx")),
                watch("not", &format!("{INITIAL}{bookmarks}&labelSelector=app%21%3Dshop")),
                watch("by default", &format!("{bookmarks}&fieldSelector=spec.color%3Dblue")),
                watch("without bookmarks", "&fieldSelector=spec.color%3Dblue"),
            ]),
        ),
        script(
            "nothing to start with",
            vec![
                watch("bookmarks", bookmarks),
                watch("initial events", &format!("{INITIAL}{bookmarks}")),
                watch("without bookmarks", INITIAL),
                watch("selected", &format!("{INITIAL}{bookmarks}&fieldSelector=spec.color%3Dblue")),
                colored("last", "blue"),
            ],
        ),
        script(
            "in the order of keys",
            vec![
                at("all", &format!("{shop}{bookmarks}"), Reach::Lines(10)),
                at("selected", &format!("{shop}{bookmarks}&fieldSelector=spec.color%3Dblue"), Reach::Lines(4)),
                at("by label", &format!("{shop}{INITIAL}{bookmarks}&labelSelector=tier%3Dfront"), Reach::Lines(5)),
                at("history", &format!("{shop}&resourceVersion={{first}}"), Reach::Lines(12)),
                at(
                    "history, selected",
                    &format!("{shop}&resourceVersion={{first}}&fieldSelector=spec.quantity%3D3"),
                    Reach::Lines(2),
                ),
            ],
        ),
        script(
            "too old",
            vec![
                ending("all", "&resourceVersion={ancient}"),
                ending("bookmarks", &format!("&resourceVersion={{ancient}}{bookmarks}")),
                ending("selected", "&resourceVersion={ancient}&fieldSelector=spec.color%3Dblue"),
                ending("without initial events", &format!("{NO_INITIAL}&resourceVersion={{ancient}}")),
                at("cluster-scoped", "/apis/live.example.com/v1/banners?watch=1&resourceVersion={ancient}", Reach::End),
                at(
                    "legacy",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts?resourceVersion={ancient}",
                    Reach::End,
                ),
            ],
        ),
        script(
            "the legacy paths",
            started(vec![
                at("namespace", "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts", Reach::LastChange),
                at(
                    "namespace, bookmarks",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts?allowWatchBookmarks=true",
                    Reach::LastChange,
                ),
                at(
                    "all, selected",
                    "/apis/live.example.com/v1/watch/shirts?labelSelector=run%3D{ns}",
                    Reach::LastChange,
                ),
                at(
                    "field",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts?fieldSelector=spec.color%3Dblue",
                    Reach::LastChange,
                ),
                at(
                    "from a version",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts?resourceVersion={old}",
                    Reach::LastChange,
                ),
                at(
                    "watch=0 does not matter",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts?watch=0",
                    Reach::LastChange,
                ),
            ]),
        ),
        script(
            "the legacy path of one object",
            vec![
                colored("x", "blue"),
                colored("y", "blue"),
                settle(),
                at("custom", "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts/x", Reach::LastChange),
                at(
                    "same name selected",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts/x?fieldSelector=metadata.name%3Dx",
                    Reach::LastChange,
                ),
                color("y", "green"),
                color("x", "green"),
            ],
        ),
        script(
            "spellings of watch",
            started(vec![
                at("empty", &format!("{SHIRTS}?watch="), Reach::LastChange),
                at("no value", &format!("{SHIRTS}?watch"), Reach::LastChange),
                at("true", &format!("{SHIRTS}?watch=true"), Reach::LastChange),
                at("banana", &format!("{SHIRTS}?watch=banana"), Reach::LastChange),
                watch("limit does not matter", "&limit=1"),
                watch("timeout does not matter", "&timeout=1s"),
                watch("zero timeoutSeconds", "&timeoutSeconds=0"),
            ]),
        ),
    ]
}
