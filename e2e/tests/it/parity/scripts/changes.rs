//! Every transition, of every kind of resource, in every form, live and resumed.
//!
//! A script is one transition of one kind. Its watches differ in the form that they request and in when they are
//! opened: before the change, or after it from an older version.

use serde_json::{Value, json};

use super::super::script::{Reach, Script, Step};
use super::shapes::{METADATA, PARTIAL, TABLE, TYPED};
use super::{accept, at, script};
use crate::parity::fixtures;
use crate::parity::stage::LIVE;

/// A resource as it is written and watched here.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// What is watched.
    watched: &'static str,
    /// Where it is written.
    written: &'static str,
    /// How an object is called in its metadata.
    prefix: &'static str,
    /// What every watch must select besides, if it would see objects of others.
    scope: &'static str,
    /// A requirement on a field, how it is written, and its values inside and outside.
    field: Option<(&'static str, &'static str, &'static str, &'static str)>,
}

const LIVE_SHIRTS: &str = "/apis/live.example.com/v1/namespaces/{ns}/shirts";

const KINDS: [Kind; 6] = [
    Kind {
        name: "shirts",
        watched: LIVE_SHIRTS,
        written: LIVE_SHIRTS,
        prefix: "",
        scope: "",
        field: Some(("spec.color%3Dblue", "color", "blue", "green")),
    },
    Kind {
        name: "shirts of all namespaces",
        watched: "/apis/live.example.com/v1/shirts",
        written: LIVE_SHIRTS,
        prefix: "",
        scope: "run%3D{ns}",
        field: Some(("spec.quantity%21%3D3", "quantity", "2", "3")),
    },
    Kind {
        name: "shirts of another version",
        watched: "/apis/live.example.com/v1beta1/namespaces/{ns}/shirts",
        written: LIVE_SHIRTS,
        prefix: "",
        scope: "",
        field: Some(("spec.size%3DS", "size", "S", "L")),
    },
    Kind {
        name: "banners",
        watched: "/apis/live.example.com/v1/banners",
        written: "/apis/live.example.com/v1/banners",
        prefix: "{ns}-",
        scope: "run%3D{ns}",
        field: Some(("spec.text%3Dsale", "text", "sale", "closed")),
    },
    Kind {
        name: "pods",
        watched: "/api/v1/namespaces/{ns}/pods",
        written: "/api/v1/namespaces/{ns}/pods",
        prefix: "",
        scope: "",
        field: Some(("status.phase%3DRunning", "phase", "Running", "Failed")),
    },
    Kind {
        name: "config maps",
        watched: "/api/v1/namespaces/{ns}/configmaps",
        written: "/api/v1/namespaces/{ns}/configmaps",
        prefix: "",
        scope: "",
        field: None,
    },
];

/// Whether an object is selected by the label, and by the field.
type Place = (bool, bool);

const INSIDE: Place = (true, true);
const OUTSIDE: Place = (false, false);

pub(crate) fn scripts() -> Vec<Script> {
    let mut scripts = Vec::new();
    for kind in KINDS {
        for (name, before, changes) in transitions(kind) {
            scripts.push(script(&format!("{name}, {}", kind.name), steps(kind, before, changes)));
        }
    }
    scripts
}

/// Name, what is there before, what happens.
fn transitions(kind: Kind) -> Vec<(&'static str, Vec<Step>, Vec<Step>)> {
    let x = |place| kind.create("x", place);
    let mut rows = vec![
        ("created inside and outside", vec![], [x(INSIDE), kind.create("y", OUTSIDE)].concat()),
        ("label in", x((false, true)), vec![kind.label("x", true)]),
        ("label out", x(INSIDE), vec![kind.label("x", false)]),
        ("changed inside", x(INSIDE), vec![kind.touch("x", 1), kind.touch("x", 2)]),
        ("deleted inside", x(INSIDE), vec![kind.delete("x")]),
        ("deleted outside", x(OUTSIDE), vec![kind.delete("x")]),
        (
            "deleted and made again",
            [x(INSIDE), kind.create("y", INSIDE)].concat(),
            [vec![kind.delete("x")], x(INSIDE), vec![kind.delete("y")], kind.create("y", OUTSIDE)].concat(),
        ),
        ("several at once", kind.create("y", INSIDE), kind.burst()),
    ];
    if kind.field.is_some() {
        rows.push(("field in", x((true, false)), vec![kind.set_field("x", true)]));
        rows.push(("field out", x(INSIDE), vec![kind.set_field("x", false)]));
        let both =
            [kind.label("x", false), kind.set_field("x", false), kind.label("x", true), kind.set_field("x", true)];
        rows.push(("in and out by both", x(INSIDE), both.to_vec()));
    }
    rows
}

fn steps(kind: Kind, before: Vec<Step>, changes: Vec<Step>) -> Vec<Step> {
    // Something older, so that there is a version to resume from, and something that stays.
    let mut steps = kind.create("a", INSIDE);
    steps.extend(before);
    let settle = format!("{}{}", kind.watched, kind.selecting('?', &[]));
    steps.extend([Step::Note("start".to_owned()), Step::Settle(settle)]);
    let opened = |when: &str, start: &str| {
        let watch = |name: &str, selection: &str, more: &str| {
            let path = format!("{}?watch=1{selection}{start}{more}", kind.watched);
            at(&format!("{when}, {name}"), &path, Reach::LastChange)
        };
        let (label, field) = (kind.selecting('&', &["app%3Dshop"]), kind.field_selecting());
        let both = format!("{label}{field}");
        vec![
            watch("all", &kind.selecting('&', &[]), ""),
            watch("label", &label, "&allowWatchBookmarks=true"),
            watch("field", &format!("{}{field}", kind.selecting('&', &[])), ""),
            watch("both", &both, ""),
            accept(watch("both, table", &both, ""), TABLE),
            accept(watch("both, table of objects", &both, "&includeObject=Object"), TABLE),
            accept(watch("both, table alone", &both, "&includeObject=None"), TABLE),
            accept(watch("both, metadata", &both, "&allowWatchBookmarks=1"), PARTIAL),
            accept(watch("both, protobuf", &both, ""), TYPED),
            accept(watch("both, metadata in protobuf", &both, "&allowWatchBookmarks=1"), METADATA),
        ]
    };
    steps.extend(opened("live with bookmarks", ""));
    steps.extend(changes);
    steps.extend(opened("resumed", "&resourceVersion={start}"));
    steps.extend(kind.create("last", INSIDE));
    steps
}

impl Kind {
    fn member(&self, name: &str) -> String {
        format!("{}/{}{name}", self.written, self.prefix)
    }

    /// The label selector of the scope and these requirements, after `first`; nothing if there are none.
    fn selecting(&self, first: char, requirements: &[&str]) -> String {
        let all: Vec<&str> = [self.scope].iter().chain(requirements).copied().filter(|one| !one.is_empty()).collect();
        if all.is_empty() { String::new() } else { format!("{first}labelSelector={}", all.join("%2C")) }
    }

    fn field_selecting(&self) -> String {
        self.field.map_or(String::new(), |(requirement, ..)| format!("&fieldSelector={requirement}"))
    }

    fn create(&self, name: &str, (label, field): Place) -> Vec<Step> {
        let name = format!("{}{name}", self.prefix);
        let labels = json!({ "app": if label { "shop" } else { "depot" } });
        let metadata = json!({ "name": name, "labels": labels });
        let spec = self.field_patch(field)["spec"].clone();
        let object = match self.name {
            text if text.starts_with("shirts") => fixtures::shirt(LIVE, &name, &labels, &spec),
            "banners" => fixtures::banner(LIVE, &name, &labels, spec["text"].as_str().unwrap_or_default()),
            text if text.starts_with("pods") => json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": { "containers": [{ "name": "c", "image": "c:1" }], "terminationGracePeriodSeconds": 0 },
            }),
            _ => json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }),
        };
        let mut steps = vec![Step::Create(self.written.to_owned(), object)];
        if self.name.starts_with("pods") {
            steps.push(self.set_field(name.trim_start_matches(self.prefix), field));
        }
        steps
    }

    fn field_patch(&self, inside: bool) -> Value {
        let Some((_, field, yes, no)) = self.field else { return json!({}) };
        let text = if inside { yes } else { no };
        let value =
            if field == "quantity" { text.parse::<u64>().map_or(Value::Null, Value::from) } else { text.into() };
        json!({ if field == "phase" { "status" } else { "spec" }: { field: value } })
    }

    fn set_field(&self, name: &str, inside: bool) -> Step {
        let member = self.member(name);
        let path = if self.name.starts_with("pods") { format!("{member}/status") } else { member };
        Step::Merge(path, self.field_patch(inside))
    }

    fn label(&self, name: &str, inside: bool) -> Step {
        let app = if inside { "shop" } else { "depot" };
        Step::Merge(self.member(name), json!({ "metadata": { "labels": { "app": app } } }))
    }

    fn touch(&self, name: &str, number: u32) -> Step {
        Step::Merge(self.member(name), json!({ "metadata": { "annotations": { "touched": number.to_string() } } }))
    }

    fn delete(&self, name: &str) -> Step {
        Step::Delete(self.member(name))
    }

    fn burst(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for name in ["b", "x-y", "x.y", "x"] {
            steps.extend(self.create(name, (name != "b", true)));
        }
        for number in 0..3 {
            steps.push(self.touch("y", number));
            steps.push(self.label("x", number % 2 == 1));
            steps.push(self.touch("x-y", number));
            steps.push(self.label("b", number % 2 == 0));
        }
        steps.extend(["x", "x-y", "b"].map(|name| self.delete(name)));
        steps
    }
}
