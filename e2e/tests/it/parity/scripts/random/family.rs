//! What random objects are made of: their labels and selectable fields, and how these are written, changed and selected.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::super::fixtures;
use super::super::super::script::Step;
use super::super::super::stage::LIVE;
use crate::printers::dice::Dice;

/// A kind of object.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) namespaced: bool,
    /// Where it is written: its collection of all namespaces.
    written: &'static str,
    /// How it can be watched.
    pub(super) views: &'static [View],
    fields: &'static [Field],
}

/// A resource as which a kind is watched.
pub(super) struct View {
    pub(super) name: &'static str,
    /// Of all namespaces.
    pub(super) everywhere: &'static str,
    /// The selectable fields.
    fields: &'static [&'static str],
}

/// A field that can be selected.
struct Field {
    /// Where it is, and its name in selectors.
    path: &'static str,
    /// The texts of its values; `None` is absent.
    values: &'static [Option<&'static str>],
    /// What the texts stand for.
    kind: FieldKind,
    /// Whether it can be changed.
    is_fixed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    Text,
    /// A number or a boolean: its text is its JSON.
    Json,
}

/// Labels and fields of an object; what is missing is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    labels: BTreeMap<&'static str, &'static str>,
    fields: BTreeMap<&'static str, &'static str>,
}

const LABELS: [(&str, &[&str]); 4] = [
    ("app", &["shop", "depot", ""]),
    ("tier", &["front", "back"]),
    ("rank", &["1", "05", "20", "ten"]),
    ("example.com/team", &["red"]),
];

const fn text(path: &'static str, values: &'static [Option<&'static str>]) -> Field {
    Field { path, values, kind: FieldKind::Text, is_fixed: false }
}

const fn fixed(path: &'static str, values: &'static [Option<&'static str>]) -> Field {
    Field { path, values, kind: FieldKind::Text, is_fixed: true }
}

const fn json(path: &'static str, values: &'static [Option<&'static str>]) -> Field {
    Field { path, values, kind: FieldKind::Json, is_fixed: false }
}

/// Custom resources stand twice: they are what fieldcache is for.
pub(super) static FAMILIES: [Family; 6] = [SHIRTS, BANNERS, SHIRTS, PODS, CONFIG_MAPS, SECRETS];

const SHIRTS: Family = Family {
    name: "shirts",
    namespaced: true,
    written: "/apis/live.example.com/v1/shirts",
    views: &[
        View {
            name: "shirts",
            everywhere: "/apis/live.example.com/v1/shirts",
            fields: &["spec.color", "spec.quantity", "spec.branded", "spec.note"],
        },
        View {
            name: "shirts v1beta1",
            everywhere: "/apis/live.example.com/v1beta1/shirts",
            fields: &["spec.color", "spec.size"],
        },
    ],
    fields: &[
        text("spec.color", &[Some("blue"), Some("green"), Some("a,b=c\\d"), Some("red <&> \u{2028}"), Some(""), None]),
        json("spec.quantity", &[Some("0"), Some("2"), Some("12345678"), None]),
        json("spec.branded", &[Some("true"), Some("false"), None]),
        text("spec.note", &[Some("blue"), Some(""), None]),
        // Never absent, for it has a default.
        text("spec.size", &[Some("S"), Some("M"), Some("L")]),
    ],
};

const BANNERS: Family = Family {
    name: "banners",
    namespaced: false,
    written: "/apis/live.example.com/v1/banners",
    views: &[View { name: "banners", everywhere: "/apis/live.example.com/v1/banners", fields: &["spec.text"] }],
    fields: &[
        text("spec.text", &[Some("sale"), Some("closed"), Some("a=b"), Some(""), None]),
        json("spec.height", &[Some("1"), Some("2"), None]),
    ],
};

const PODS: Family = Family {
    name: "pods",
    namespaced: true,
    written: "/api/v1/pods",
    views: &[View {
        name: "pods",
        everywhere: "/api/v1/pods",
        fields: &["spec.nodeName", "spec.restartPolicy", "status.phase"],
    }],
    fields: &[
        fixed("spec.nodeName", &[Some("node-1"), Some("node-2"), None]),
        fixed("spec.restartPolicy", &[Some("Always"), Some("Never")]),
        text("status.phase", &[Some("Pending"), Some("Running"), Some("Failed")]),
    ],
};

const CONFIG_MAPS: Family = Family {
    name: "config maps",
    namespaced: true,
    written: "/api/v1/configmaps",
    views: &[View { name: "config maps", everywhere: "/api/v1/configmaps", fields: &[] }],
    fields: &[text("data.k", &[Some("v"), Some("<&>"), None])],
};

const SECRETS: Family = Family {
    name: "secrets",
    namespaced: true,
    written: "/api/v1/secrets",
    views: &[View { name: "secrets", everywhere: "/api/v1/secrets", fields: &["type"] }],
    fields: &[fixed("type", &[Some("Opaque"), Some("example.com/other")])],
};

impl View {
    /// The collection of one namespace.
    pub(super) fn within(&self) -> String {
        within(self.everywhere, "")
    }
}

/// The old path of a watch.
pub(super) fn legacy(path: &str) -> String {
    let (before, after) = path.split_once("/namespaces/").map_or_else(
        || path.rsplit_once('/').map(|(version, plural)| (version, plural.to_owned())).unwrap_or_default(),
        |(version, rest)| (version, format!("namespaces/{rest}")),
    );
    format!("{before}/watch/{after}")
}

fn within(everywhere: &str, namespace: &str) -> String {
    let (version, plural) = everywhere.rsplit_once('/').unwrap_or_default();
    format!("{version}/namespaces/{{ns}}{namespace}/{plural}")
}

impl Family {
    /// The name of an object in its metadata; cluster-scoped ones share it with other scripts.
    pub(super) fn name_of(&self, name: &str) -> String {
        if self.namespaced { name.to_owned() } else { format!("{{ns}}-{name}") }
    }

    fn collection(&self, namespace: &str) -> String {
        if self.namespaced { within(self.written, namespace) } else { self.written.to_owned() }
    }

    /// The path of an object.
    pub(super) fn member(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection(namespace), self.name_of(name))
    }

    /// Any state.
    pub(super) fn state(&self, dice: &mut Dice) -> State {
        let mut state = State::default();
        for (key, values) in LABELS {
            if dice.chance(60) {
                state.labels.insert(key, dice.pick(values));
            }
        }
        for field in self.fields {
            if let Some(value) = field.values[dice.below(field.values.len())] {
                state.fields.insert(field.path, value);
            }
        }
        state
    }

    /// The state with one to three things otherwise, as far as they can be changed.
    pub(super) fn changed(&self, before: &State, dice: &mut Dice) -> State {
        let (mut after, other) = (before.clone(), self.state(dice));
        for _ in 0..=dice.below(3) {
            if dice.chance(50) {
                let (key, _) = LABELS[dice.below(LABELS.len())];
                replace(&mut after.labels, key, other.labels.get(key).copied());
            } else {
                let field = &self.fields[dice.below(self.fields.len())];
                if !field.is_fixed {
                    replace(&mut after.fields, field.path, other.fields.get(field.path).copied());
                }
            }
        }
        after
    }

    /// The steps that create an object.
    pub(super) fn create(&self, namespace: &str, name: &str, state: &State) -> Vec<Step> {
        let own_name = self.name_of(name);
        let labels: Value = state.labels.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        let mut object = match self.name {
            "shirts" => fixtures::shirt(LIVE, &own_name, &labels, &json!({})),
            "banners" => {
                let mut banner = fixtures::banner(LIVE, &own_name, &labels, "");
                banner["spec"] = json!({});
                banner
            }
            "pods" => json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": own_name, "labels": labels },
                "spec": { "containers": [{ "name": "c", "image": "c:1" }], "terminationGracePeriodSeconds": 0 },
            }),
            "secrets" => json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": own_name, "labels": labels },
            }),
            _ => json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": own_name, "labels": labels },
            }),
        };
        for field in self.fields.iter().filter(|field| !field.is_of_status()) {
            if let Some(value) = state.fields.get(field.path) {
                field.write(field.value(value), &mut object);
            }
        }
        let mut steps = vec![Step::Create(self.collection(namespace), object)];
        // A pod is pending at first, whatever it says.
        let absent = State { fields: [("status.phase", "Pending")].into(), ..State::default() };
        steps.extend(self.merge_status(namespace, name, &absent, state));
        steps
    }

    /// The steps that make one state of an object another; `number` makes the change one in any case.
    pub(super) fn merge(&self, namespace: &str, name: &str, before: &State, after: &State, number: usize) -> Vec<Step> {
        let mut labels = Map::new();
        for (key, _) in LABELS {
            if before.labels.get(key) != after.labels.get(key) {
                labels.insert(key.to_owned(), after.labels.get(key).copied().map_or(Value::Null, Value::from));
            }
        }
        let note = json!({ "change": number.to_string() });
        let mut patch = json!({ "metadata": { "labels": labels, "annotations": note } });
        for field in self.fields.iter().filter(|field| !field.is_of_status()) {
            let (old, new) = (before.fields.get(field.path), after.fields.get(field.path));
            if old != new {
                field.write(new.map_or(Value::Null, |text| field.value(text)), &mut patch);
            }
        }
        let mut steps = vec![Step::Merge(self.member(namespace, name), patch)];
        steps.extend(self.merge_status(namespace, name, before, after));
        steps
    }

    fn merge_status(&self, namespace: &str, name: &str, before: &State, after: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for field in self.fields.iter().filter(|field| field.is_of_status()) {
            let (old, new) = (before.fields.get(field.path), after.fields.get(field.path));
            if let Some(new) = new.filter(|_| old != new) {
                let mut patch = json!({});
                field.write(field.value(new), &mut patch);
                steps.push(Step::Merge(format!("{}/status", self.member(namespace, name)), patch));
            }
        }
        steps
    }

    /// Up to two requirements on labels that the state meets.
    pub(super) fn label_terms(&self, state: &State, dice: &mut Dice) -> Vec<String> {
        let mut terms = Vec::new();
        for _ in 0..dice.below(3) {
            let (key, values) = LABELS[dice.below(LABELS.len())];
            let other = dice.pick(&["shop", "depot", "front", "back", "05", "never"]);
            let any = dice.pick(values);
            terms.push(match (state.labels.get(key), dice.below(5)) {
                (Some(value), 0) => format!("{key}={value}"),
                (Some(value), 1) => format!("{key} in ({other},{value},{any})"),
                (Some(value), 2) if value.parse::<i64>().is_ok() => format!("{key}<21"),
                (Some(_), 3) => key.to_owned(),
                (Some(value), _) if *value != other => format!("{key}!={other}"),
                (Some(value), _) => format!("{key}=={value}"),
                (None, 0..2) => format!("!{key}"),
                (None, 2..4) => format!("{key} notin ({other},{any})"),
                (None, _) => format!("{key}!={other}"),
            });
        }
        terms
    }

    /// Up to two requirements on fields of a view that the state meets.
    pub(super) fn field_terms(&self, view: &View, state: &State, dice: &mut Dice) -> Vec<String> {
        let mut terms = Vec::new();
        for _ in 0..dice.below(3) {
            if view.fields.is_empty() {
                continue;
            }
            let path = view.fields[dice.below(view.fields.len())];
            let Some(field) = self.fields.iter().find(|field| field.path == path) else { continue };
            let selected = |value: Option<&str>| {
                value.unwrap_or_default().replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
            };
            let value = selected(state.fields.get(path).copied());
            let other = selected(field.values[dice.below(field.values.len())]);
            terms.push(match dice.below(3) {
                0 if other != value => format!("{path}!={other}"),
                1 => format!("{path}=={value}"),
                _ => format!("{path}={value}"),
            });
        }
        terms
    }
}

impl Field {
    fn is_of_status(&self) -> bool {
        self.path.starts_with("status.")
    }

    fn value(&self, text: &str) -> Value {
        match self.kind {
            FieldKind::Text => text.into(),
            FieldKind::Json => serde_json::from_str(text).unwrap_or_default(),
        }
    }

    fn write(&self, value: Value, object: &mut Value) {
        let mut place = object;
        for member in self.path.split('.') {
            place = &mut place[member];
        }
        *place = value;
    }
}

fn replace(values: &mut BTreeMap<&'static str, &'static str>, key: &'static str, value: Option<&'static str>) {
    match value {
        Some(value) => values.insert(key, value),
        None => values.remove(key),
    };
}
