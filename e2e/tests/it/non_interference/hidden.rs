//! What the View hides, in two kinds: names, labels, values, how much there is, which paths are selectable, what schemas allow. Nothing of
//! either may be recognized in the answers.

use e2e::random::Random;
use serde_json::{Value, json};

use super::visible::{GROUP, key};

/// One cluster's secrets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secrets {
    /// Occurs in every hidden name, label and value.
    pub(crate) word: &'static str,
    /// How many hidden objects of each kind there are in the beginning.
    pub(crate) count: usize,
    /// How many hidden changes stand at most between two visible ones.
    pub(crate) churn: u64,
    /// What the pruned field may be.
    pub(crate) allowed: &'static [&'static str],
    /// Which pruned field is selectable, and has a column and a field of the FieldCache.
    pub(crate) selectable: &'static str,
    /// The first revision that any client sees: with as many digits in both, so that lengths are the same.
    pub(crate) first_revision: u64,
    /// Whether a hidden object has more values of a field than are kept.
    pub(crate) overflows: bool,
    /// Whether another kind of the same group is kept, too.
    pub(crate) more_kinds: bool,
}

pub(crate) const ONE: Secrets = Secrets {
    word: "alpha",
    count: 12,
    churn: 2,
    allowed: &["alpha-1", "alpha-2"],
    selectable: ".spec.secret",
    first_revision: 1_200,
    overflows: false,
    more_kinds: false,
};

pub(crate) const OTHER: Secrets = Secrets {
    word: "omega",
    count: 57,
    churn: 5,
    allowed: &["omega-1", "omega-2", "omega-3", "omega-4"],
    selectable: ".spec.nested.private",
    first_revision: 2_500,
    overflows: true,
    more_kinds: true,
};

impl Secrets {
    /// A value that is left out of visible objects.
    pub(crate) fn value(&self, seed: u64) -> String {
        let mut random = Random::from_seed(seed, self.count as u64);
        let length = usize::try_from(random.between(1, 40)).unwrap_or(1);
        format!("{}-{}", self.word, random.suffix(length))
    }

    /// The definition of shirts: what is not under a pruned path is the same.
    pub(crate) fn definition(&self) -> Value {
        let text = json!({ "type": "string" });
        let secret = json!({
            "type": "string", "enum": self.allowed, "default": self.allowed[0], "description": format!("One of {}.", self.word),
        });
        let spec = json!({
            "type": "object",
            "description": "What a shirt is like.",
            "required": ["color"],
            "x-kubernetes-validations": [{
                "rule": format!("!has(self.secret) || self.secret != '{}-0'", self.word), "message": format!("not {}-0", self.word),
            }],
            "properties": {
                "color": text, "size": { "type": "string", "enum": ["S", "M", "L", "XL"] }, "quantity": { "type": "integer" },
                "tags": { "type": "array", "items": text },
                "secret": secret,
                "rows": { "type": "array", "items": { "type": "object", "properties": {
                    "public": text, "secret": { "type": "string", "maxLength": 100 + self.count },
                } } },
                "hidden": { "type": "object", "properties": { format!("{}Level", self.word): text } },
                "nested": { "type": "object", "properties": { "public": text, "private": { "type": "string", "maxLength": 100 + self.count } } },
            },
        });
        let status = json!({ "type": "object", "properties": { "phase": text, "note": { "type": "string", "description": self.word } } });
        let column = |name: &str, path: &str| json!({ "name": name, "type": "string", "jsonPath": path });
        let version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec, "status": status } } },
            "subresources": { "status": {} },
            "selectableFields": [
                { "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }, { "jsonPath": ".spec.quantity" }, { "jsonPath": self.selectable },
            ],
            "additionalPrinterColumns": [
                column("Color", ".spec.color"), column(&format!("{} column", self.word), self.selectable), column("Phase", ".status.phase"),
                column(&format!("{} note", self.word), ".status.note"), column("Public", ".spec.nested.public"),
                { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
            ],
        });
        definition(("shirts", "Shirt", "Namespaced"), &version)
    }

    /// Definitions beside that of shirts; hats are shown.
    pub(crate) fn more_definitions(&self) -> Vec<Value> {
        let version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": { "brim": { "type": "string" } } } } } },
            "selectableFields": [{ "jsonPath": ".spec.brim" }],
        });
        let tags = json!({ "type": "array", "items": { "type": "string" } });
        let mut of_caps = version.clone();
        of_caps["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["tags"] = tags;
        let caps = definition(("caps", "Cap", "Namespaced"), &of_caps);
        let mut all = vec![definition(("hats", "Hat", "Cluster"), &version), caps];
        if self.more_kinds {
            all.push(definition(("gloves", "Glove", "Namespaced"), &version));
        }
        all
    }

    /// One more, that comes later: its schema is beside the others' in the same document.
    pub(crate) fn late_definition() -> Value {
        let version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": { "omega": { "type": "string" } } } } } },
        });
        definition(("socks", "Sock", "Namespaced"), &version)
    }

    /// What is kept: shirts with a field of this cluster's own, which is pruned, beside one that is not.
    pub(crate) fn field_caches(&self) -> Vec<Value> {
        let cache = |group: &str, resource: &str, fields: Value| {
            let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
            json!({
                "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": name },
                "spec": { "group": group, "resource": resource, "selectableFields": fields },
            })
        };
        let fields = json!([
            { "name": "tags", "jsonPath": "$.spec.tags[*]" },
            { "name": format!("{}-field", self.word), "jsonPath": format!("${}", self.selectable) },
            { "name": "applied", "jsonPath": "$.metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']" },
            { "name": "notes", "jsonPath": "$.metadata.annotations[*]" },
            { "name": "managers", "jsonPath": "$.metadata.managedFields[*].manager" },
        ]);
        let mut all =
            vec![cache(GROUP, "shirts", fields), cache(GROUP, "hats", json!([])), cache("", "pods", json!([]))];
        all.push(cache(GROUP, "caps", json!([{ "name": "tags", "jsonPath": "$.spec.tags[*]" }])));
        if self.more_kinds {
            all.push(cache(GROUP, "gloves", json!([])));
        }
        all
    }

    /// A shirt or hat that the View does not show, each time another one or another state of it. The result is its key
    /// in etcd and its content.
    pub(crate) fn object(&self, random: &mut Random) -> (String, Option<Value>) {
        let number = random.below(self.count as u64);
        let name = format!("{}-{number}", self.word);
        let elsewhere = format!("team-{}", self.word);
        // For one reason or another: the namespace, the label, the field. Which one is a matter of its name, so that it stays hidden.
        let (namespace, app, color) = match number % 4 {
            0 => (&*elsewhere, "shop", "blue"),
            1 => ("team-a", "other", "blue"),
            2 => ("team-b", "shop", "red"),
            _ => ("team-a", self.word, self.word),
        };
        if random.below(8) == 0 {
            let hat = hat(random, &name, self.word);
            return (key("hats", None, &name), Some(hat));
        }
        if random.below(6) == 0 {
            return (key("caps", Some(&elsewhere), &name), Some(self.cap(random, &elsewhere, &name, number)));
        }
        if random.below(8) == 0 {
            return (key("shirts", Some(namespace), &name), None);
        }
        let tags = if self.overflows && number == 1 { 200 } else { random.below(4) };
        let tags: Vec<String> = (0..tags).map(|tag| format!("{}-{tag}", self.word)).collect();
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Shirt",
            "metadata": {
                "name": name, "namespace": namespace, "uid": random.uid(), "creationTimestamp": "2021-01-01T00:00:00Z", "generation": 1,
                "labels": { "app": app, self.word: "yes" },
            },
            "spec": { "color": color, "size": "XL", "quantity": random.below(100), "tags": tags, "secret": self.allowed[0] },
        });
        (key("shirts", Some(namespace), &name), Some(object))
    }
}

impl Secrets {
    /// A cap of another namespace, with values that those of the shown namespace have too.
    fn cap(&self, random: &mut Random, namespace: &str, name: &str, number: u64) -> Value {
        let tags = if self.overflows && number == 1 { 200 } else { random.below(4) };
        let tags: Vec<String> = (0..tags).map(|tag| format!("tag-{tag}")).collect();
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Cap",
            "metadata": {
                "name": name, "namespace": namespace, "uid": random.uid(), "creationTimestamp": "2021-01-01T00:00:00Z", "generation": 1,
                "labels": { "tier": random.choose(&["web", "db"]), self.word: "yes" },
            },
            "spec": { "brim": random.choose(&["wide", "thin"]), "tags": tags },
        })
    }
}

fn hat(random: &mut Random, name: &str, word: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Hat",
        "metadata": { "name": name, "uid": random.uid(), "creationTimestamp": "2021-01-01T00:00:00Z", "generation": 1, "labels": { "show": word } },
        "spec": { "brim": word },
    })
}

fn definition((plural, kind, scope): (&str, &str, &str), version: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP, "scope": scope, "versions": [version],
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
        },
    })
}
