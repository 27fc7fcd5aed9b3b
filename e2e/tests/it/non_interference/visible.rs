//! What the View shows: the same in both clusters but for what is left out of it.

use e2e::random::Random;
use serde_json::{Value, json};

use super::hidden::Secrets;

pub(crate) const GROUP: &str = "stable.example.com";
pub(crate) const NAMESPACES: [&str; 2] = ["team-a", "team-b"];

/// A namespace that is the same in both clusters, and whose reader may read nothing else.
pub(crate) const SAME: &str = "team-same";

/// Where a custom resource is in etcd.
pub(crate) fn key(plural: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("/registry/{GROUP}/{plural}/{namespace}/{name}"),
        None => format!("/registry/{GROUP}/{plural}/{name}"),
    }
}

/// What the View shows of Pods.
pub(crate) const KEPT_OF_PODS: [&str; 6] = [
    ".metadata.labels",
    ".metadata.creationTimestamp",
    ".spec.nodeName",
    ".spec.containers.name",
    ".spec.containers.image",
    ".status.phase",
];

/// The View under test, by its name: a right of its own.
pub(crate) fn window(name: &str) -> Value {
    let expression = |key: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": "In", "values": values }] });
    json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": name },
        "spec": { "authorization": "View", "resources": [
            {
                "group": GROUP, "resource": "shirts", "namespaces": NAMESPACES, "labelSelector": { "matchLabels": { "app": "shop" } },
                "fieldSelector": expression("spec.color", &["blue", "cyan"]),
                "prune": [
                    ".metadata.annotations['example.com/secret.note']", ".spec.secret", ".spec.hidden", ".spec.nested.private",
                    ".spec.rows.secret", ".status.note",
                ],
            },
            {
                "group": "", "resource": "pods", "fieldSelector": expression("spec.nodeName", &["node-shown"]),
                // Leaves out managedFields, annotations, env and podIP, which differ.
                "keep": KEPT_OF_PODS,
            },
            { "group": GROUP, "resource": "hats", "labelSelector": { "matchLabels": { "show": "yes" } } },
        ] },
    })
}

/// A change that is seen in the View, or the beginning of something that is.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Shirt {
        namespace: &'static str,
        name: String,
        seed: u64,
        color: &'static str,
    },
    Hat {
        name: String,
        seed: u64,
    },
    /// A cap of the namespace that is the same in both clusters; the View does not show it.
    Cap {
        name: String,
        seed: u64,
    },
    /// The pod of this number gets another label, or another node.
    Pod {
        number: usize,
        tone: &'static str,
        node: &'static str,
    },
    Delete {
        plural: &'static str,
        namespace: Option<&'static str>,
        name: String,
    },
}

/// Pods: how many, and what their changing parts are; all of one length.
pub(crate) const PODS: usize = 8;
pub(crate) const TONES: [&str; 3] = ["dark", "pale", "loud"];
pub(crate) const NODES: [&str; 2] = ["node-shown", "node-other"];

pub(crate) fn pod_name(number: usize) -> String {
    format!("pod-{number}")
}

/// The name of the shirt or hat of a number, in an order that is not theirs.
pub(crate) fn name(number: u64) -> String {
    const WORDS: [&str; 8] = ["linen", "wool", "silk", "denim", "satin", "tweed", "felt", "hemp"];
    format!("{}-{number}", WORDS[usize::try_from(number % 8).unwrap_or_default()])
}

pub(crate) fn shirt_names() -> impl Iterator<Item = (&'static str, String)> {
    (0..28).map(|number| (NAMESPACES[usize::try_from(number % 2).unwrap_or_default()], name(number)))
}

pub(crate) fn hat_names() -> impl Iterator<Item = String> {
    (0..6).map(name)
}

/// A shirt that has parts which the View leaves out; those are of the cluster's own.
pub(crate) fn shirt(secrets: &Secrets, namespace: &str, name: &str, seed: u64, color: &str) -> Value {
    let mut random = Random::from_seed(seed, 1);
    let tags: Vec<String> = (0..random.below(4)).map(|_| format!("tag-{}", random.below(5))).collect();
    let tier = random.choose(&["web", "db", "batch"]);
    let value = |number: u64| secrets.value(seed.wrapping_add(number));
    let spec = json!({
        "color": color, "size": random.choose(&["S", "M", "L", "XL"]), "quantity": random.below(50), "tags": tags,
        "secret": secrets.allowed[usize::try_from(seed % 2).unwrap_or_default()], "hidden": { format!("{}Level", secrets.word): value(11) },
        "nested": { "public": random.suffix(6), "private": value(12) },
        "rows": [{ "public": "row", "secret": value(14) }],
    });
    // What tools keep of it inside of the object: values, names, and how many of them there are.
    let applied = json!({ "spec": spec, "note": value(15) }).to_string();
    let annotations = json!({
        "example.com/secret.note": value(16), "example.com/plain": "shown",
        "kubectl.kubernetes.io/last-applied-configuration": applied, "kapp.k14s.io/original": applied,
        "banzaicloud.com/last-applied": applied, "objectset.rio.cattle.io/applied": value(17),
    });
    let mut hidden = json!({ ".": {}, format!("f:{}Level", secrets.word): {} });
    for number in 0..secrets.churn {
        hidden[format!("v:\"{}\"", value(number))] = json!({});
    }
    let written = json!({
        "f:metadata": { "f:annotations": {
            ".": {}, "f:example.com/secret.note": {}, "f:example.com/plain": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {},
        } },
        "f:spec": {
            ".": {}, "f:color": {}, "f:secret": {}, "f:hidden": hidden, "f:nested": { "f:public": {}, "f:private": { format!("f:{}", secrets.word): {} } },
            "f:rows": {
                ".": {}, format!("k:{{\"public\":\"row\",\"secret\":\"{}\"}}", value(14)): { ".": {}, "f:public": {}, "f:secret": {} },
                "k:{\"public\":\"row\"}": { ".": {}, "f:secret": { format!("f:{}", secrets.word): {} } },
            },
        },
        "f:status": { "f:phase": {}, "f:note": { format!("v:\"{}\"", secrets.word): {} } },
    });
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Shirt",
        "metadata": {
            "name": name, "namespace": namespace, "uid": Random::from_seed(1, hash(name)).uid(), "creationTimestamp": "2020-01-02T03:04:05Z",
            "generation": 1, "labels": { "app": "shop", "tier": tier }, "annotations": annotations,
            "managedFields": [{
                "manager": "tailor", "operation": "Update", "apiVersion": format!("{GROUP}/v1"), "time": "2020-01-02T03:04:05Z",
                "fieldsType": "FieldsV1", "fieldsV1": written,
            }],
        },
        "spec": spec,
        "status": { "phase": random.choose(&["Sewn", "Cut"]), "note": value(13) },
    })
}

/// A hat, of which nothing is left out.
pub(crate) fn hat(name: &str, seed: u64) -> Value {
    let mut random = Random::from_seed(seed, 2);
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Hat",
        "metadata": {
            "name": name, "uid": Random::from_seed(2, hash(name)).uid(), "creationTimestamp": "2020-01-02T03:04:05Z", "generation": 1,
            "labels": { "show": "yes" },
            "managedFields": [{ "manager": "milliner", "operation": "Update", "apiVersion": format!("{GROUP}/v1"), "time": "2020-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": {} } }],
        },
        "spec": { "brim": random.choose(&["wide", "thin", "none"]) },
    })
}

/// A cap, of which nothing is left out.
pub(crate) fn cap(name: &str, seed: u64) -> Value {
    let mut random = Random::from_seed(seed, 12);
    let tags: Vec<String> = (0..random.below(4)).map(|_| format!("tag-{}", random.below(5))).collect();
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Cap",
        "metadata": {
            "name": name, "namespace": SAME, "uid": Random::from_seed(3, hash(name)).uid(), "creationTimestamp": "2020-01-02T03:04:05Z",
            "generation": 1, "labels": { "tier": random.choose(&["web", "db"]) },
        },
        "spec": { "brim": random.choose(&["wide", "thin", "none"]), "tags": tags },
    })
}

/// A pod as it is created; its changing parts are exchanged in etcd.
pub(crate) fn pod(secrets: &Secrets, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": "web", "tone": TONES[0] }, "annotations": { secrets.word: secrets.value(20) } },
        "spec": {
            "nodeName": NODES[0],
            "containers": [{ "name": "main", "image": "nginx", "env": [{ "name": "WORD", "value": secrets.word }] }],
        },
    })
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(14_695_981_039_346_656_037, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211))
}

/// The objects at the first read.
pub(crate) fn first_changes() -> Vec<Change> {
    let colors = ["blue", "cyan"];
    let shirts = shirt_names().zip(0..).filter(|(_, number)| number % 7 != 6).map(|((namespace, name), number)| {
        Change::Shirt { namespace, name, seed: number, color: colors[usize::try_from(number % 2).unwrap_or_default()] }
    });
    let hats = hat_names().zip(0..).map(|(name, seed)| Change::Hat { name, seed });
    let pods =
        (0..PODS).map(|number| Change::Pod { number, tone: TONES[number % 3], node: NODES[usize::from(number == 3)] });
    let caps = (0..8).map(|number| Change::Cap { name: name(number), seed: number });
    caps.chain(shirts).chain(hats).chain(pods).collect()
}

/// Changes that watches see; objects are only deleted while they exist.
pub(crate) fn later_changes(seed: u64, count: usize) -> Vec<Change> {
    let mut random = Random::from_seed(seed, 3);
    let mut gone: Vec<bool> = (0..28).map(|number| number % 7 == 6).collect();
    let mut changes = Vec::new();
    while changes.len() < count {
        let seed = random.number();
        changes.push(match random.below(10) {
            0 => Change::Hat { name: name(random.below(6)), seed },
            1 | 2 => {
                let number = usize::try_from(random.below(PODS as u64)).unwrap_or_default();
                let node = NODES[usize::from(random.below(3) == 0)];
                Change::Pod { number, tone: random.choose(&TONES), node }
            }
            dice => {
                let number = random.below(28);
                let index = usize::try_from(number).unwrap_or_default();
                let namespace = NAMESPACES[index % 2];
                if dice == 3 && !gone[index] {
                    gone[index] = true;
                    Change::Delete { plural: "shirts", namespace: Some(namespace), name: name(number) }
                } else {
                    gone[index] = false;
                    // One that leaves the View and one that enters it are seen, too.
                    let color =
                        ["blue", "cyan", "blue", "cyan", "red"][usize::try_from(random.below(5)).unwrap_or_default()];
                    Change::Shirt { namespace, name: name(number), seed, color }
                }
            }
        });
    }
    changes
}
