//! The bookmark that ends initial events: where it is and what is in it; the ends of watches by time; what was opened amid changes.

use serde_json::json;

use super::super::script::{Reach, Script, Step, Watch};
use super::shapes::{METADATA, PARTIAL, TABLE, TYPED};
use super::{BANNERS, SHIRTS, accept, at, color, colored, delete, ending, label, script, settle, shirt, watch};

const INITIAL: &str = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
const BOOKMARKS: &str = "&allowWatchBookmarks=true";

pub(crate) fn scripts() -> Vec<Script> {
    let mut scripts = vec![ends(), no_ends(), quiet()];
    scripts.extend(end_bookmarks());
    scripts.extend(tumults());
    scripts
}

/// In every form, for a state that is empty, has one object, or several of which some are selected.
fn end_bookmarks() -> Vec<Script> {
    let shirts = |count: usize| -> Vec<Step> {
        let rows = [("x", "blue"), ("x-y", "green"), ("x.y", "blue"), ("a", "green")];
        let mut steps: Vec<Step> = rows.iter().take(count).map(|(name, value)| colored(name, value)).collect();
        steps.push(settle());
        steps
    };
    let of_nothing = "/api/v1/namespaces/{ns}/secrets?watch=1";
    let mut scripts = Vec::new();
    for (name, count) in [("nothing", 0), ("one object", 1), ("several objects", 4)] {
        let mut steps = shirts(count);
        for (form, value, more) in FORMS {
            for (start, query) in [("by default", ""), ("requested", INITIAL), ("from 0", "&resourceVersion=0")] {
                let all = format!("{SHIRTS}?watch=1{BOOKMARKS}{query}{more}");
                steps.push(in_form(at(&format!("{form}, {start}"), &all, Reach::LastChange), value));
            }
            let some = format!("{SHIRTS}?watch=1{BOOKMARKS}{INITIAL}&fieldSelector=spec.color%3Dblue{more}");
            steps.push(in_form(at(&format!("{form}, selected"), &some, Reach::LastChange), value));
        }
        steps.push(colored("last", "blue"));
        scripts.push(script(&format!("end of initial events, {name}"), steps));
    }
    let mut steps = vec![colored("x", "blue"), settle()];
    for (form, value, more) in FORMS {
        let banners = format!("{BANNERS}?watch=1{BOOKMARKS}{more}&fieldSelector=spec.text%3Dnever");
        steps.push(in_form(at(&format!("{form}, cluster-scoped"), &banners, Reach::Lines(1)), value));
        let beta = format!("/apis/live.example.com/v1beta1/namespaces/never/shirts?watch=1{BOOKMARKS}{more}");
        steps.push(in_form(at(&format!("{form}, another version"), &beta, Reach::Lines(1)), value));
        let secrets = format!("{of_nothing}{BOOKMARKS}{more}");
        steps.push(in_form(at(&format!("{form}, built-in"), &secrets, Reach::Lines(1)), value));
        let pods = format!("/api/v1/namespaces/never/pods?watch=1{BOOKMARKS}{more}");
        steps.push(in_form(at(&format!("{form}, pods, bookmarks"), &pods, Reach::Lines(1)), value));
        let events =
            format!("/api/v1/namespaces/work/events?watch=1{BOOKMARKS}{INITIAL}&fieldSelector=reason%3DFailed{more}");
        steps.push(in_form(at(&format!("{form}, events"), &events, Reach::Lines(3)), value));
        let nodes = format!("/api/v1/nodes?watch=1{BOOKMARKS}{INITIAL}&fieldSelector=spec.unschedulable%3Dtrue{more}");
        steps.push(in_form(at(&format!("{form}, nodes"), &nodes, Reach::Lines(2)), value));
    }
    scripts.push(script("end of initial events, other kinds", steps));
    scripts
}

const FORMS: [(&str, &str, &str); 7] = [
    ("whole", "", ""),
    ("table", TABLE, ""),
    ("table of objects", TABLE, "&includeObject=Object"),
    ("table alone", TABLE, "&includeObject=None"),
    ("metadata", PARTIAL, ""),
    ("protobuf", TYPED, ""),
    ("metadata in protobuf", METADATA, ""),
];

fn in_form(step: Step, value: &'static str) -> Step {
    if value.is_empty() { step } else { accept(step, value) }
}

fn ends() -> Script {
    let note = |name: &str| Step::Note(name.to_owned());
    let mut steps = vec![colored("x", "green"), note("before"), color("x", "blue"), note("now"), settle()];
    for (form, value, more) in FORMS {
        for (name, query) in [
            // Without initial events, for which there is no time on a slow machine.
            ("1 second", "&timeoutSeconds=1&resourceVersion={now}".to_owned()),
            ("2 seconds, bookmarks", format!("&timeoutSeconds=2{BOOKMARKS}&resourceVersion={{now}}")),
            ("3 seconds, selected", format!("&timeoutSeconds=3{BOOKMARKS}&fieldSelector=spec.color%3Dblue")),
            ("4 seconds, bookmarks", format!("&timeoutSeconds=4{BOOKMARKS}")),
            ("4 seconds, from a version", format!("&timeoutSeconds=4{BOOKMARKS}&resourceVersion={{before}}")),
            ("5 seconds, too old", format!("&timeoutSeconds=5{BOOKMARKS}&resourceVersion={{ancient}}")),
        ] {
            steps.push(in_form(ending(&format!("{form}, {name}"), &format!("{query}{more}")), value));
        }
    }
    // Their time is over before they begin. Whether kube-apiserver notices before it sends something is a race.
    for (form, value, more) in FORMS {
        let now = format!("{SHIRTS}?watch=1&timeoutSeconds=-1{more}");
        steps.push(in_form(at(&format!("{form}, negative"), &now, Reach::SomeEnd), value));
        let resumed = format!("{SHIRTS}?watch=1&timeoutSeconds=-5{BOOKMARKS}&resourceVersion={{now}}{more}");
        steps.push(in_form(at(&format!("{form}, negative, bookmarks, from now"), &resumed, Reach::SomeEnd), value));
    }
    for (name, path) in [
        ("cluster-scoped", "/apis/shop.example.com/v1/banners"),
        ("another version", "/apis/shop.example.com/v1beta1/shirts"),
        ("built-in", "/api/v1/namespaces/work/secrets"),
        ("nothing there", "/apis/live.example.com/v1/namespaces/never/shirts"),
    ] {
        steps.push(at(name, &format!("{path}?watch=1&timeoutSeconds=4{BOOKMARKS}"), Reach::End));
    }
    script("ends by time in every form", steps)
}

fn no_ends() -> Script {
    let mut steps = vec![colored("x", "blue"), settle()];
    for (form, value, more) in FORMS {
        steps.push(in_form(watch(&format!("{form}, 0 is as unset"), &format!("&timeoutSeconds=0{more}")), value));
        steps.push(in_form(watch(&format!("{form}, an hour"), &format!("&timeoutSeconds=3600{more}")), value));
    }
    steps.push(colored("last", "blue"));
    script("ends that do not come", steps)
}

/// A resource on which nothing happens while another one changes.
fn quiet() -> Script {
    let map = |name: &str| {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        Step::Create("/api/v1/namespaces/{ns}/configmaps".to_owned(), map)
    };
    let mut steps: Vec<Step> = ["a", "b", "c"].map(map).to_vec();
    let path = "/apis/shop.example.com/v1/banners?watch=1&allowWatchBookmarks=true";
    steps.extend([
        at("initial", &format!("{path}{INITIAL}"), Reach::Lines(4)),
        at("to the end", &format!("{path}&timeoutSeconds=4"), Reach::End),
        at("from 0 to the end", &format!("{path}&timeoutSeconds=4&resourceVersion=0"), Reach::End),
        at("nothing selected", &format!("{path}&timeoutSeconds=4&fieldSelector=spec.text%3Dnever"), Reach::End),
    ]);
    steps.extend(["d", "e", "f"].map(map));
    script("a quiet resource beside another", steps)
}

/// Watches opened while the resource changes.
fn tumults() -> Vec<Script> {
    let opened = |more: &'static str| -> Vec<Watch> {
        let rows = [
            ("by default", String::new()),
            ("requested", INITIAL.to_owned()),
            ("from 0", "&resourceVersion=0".to_owned()),
            ("from an old version", format!("{INITIAL}&resourceVersion={{start}}")),
            ("again", INITIAL.to_owned()),
            ("once more", String::new()),
        ];
        let watches = rows.map(|(name, query)| Watch {
            name: name.to_owned(),
            path: format!("{SHIRTS}?watch=1{BOOKMARKS}{query}{more}"),
            headers: Vec::new(),
            reach: Reach::LastChange,
        });
        watches.to_vec()
    };
    let changes = |rounds: usize| {
        let mut changes = Vec::new();
        for round in 0..rounds {
            let name = ["x", "x-y", "x.y", "y"][round % 4];
            changes.extend([
                shirt(name, json!({ "app": "shop" }), json!({ "color": "blue" })),
                color(name, "green"),
                label("a", "app", (round % 2 == 0).then_some("shop")),
                color(name, "blue"),
                color("b", if round % 2 == 0 { "blue" } else { "green" }),
                delete(name),
            ]);
        }
        changes
    };
    [
        ("opened amid changes", ""),
        ("opened amid changes, field", "&fieldSelector=spec.color%3Dblue"),
        ("opened amid changes, label", "&labelSelector=app%3Dshop"),
    ]
    .into_iter()
    .map(|(name, more)| {
        let steps = vec![
            colored("a", "green"),
            colored("b", "green"),
            Step::Note("start".to_owned()),
            Step::Tumult(changes(6), opened(more)),
            color("a", "blue"),
            label("a", "app", Some("shop")),
            shirt("last", json!({ "app": "shop" }), json!({ "color": "blue" })),
        ];
        script(name, steps)
    })
    .collect()
}
