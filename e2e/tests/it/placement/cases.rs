//! Random clusters and pods as documents, out of so few words that rules meet each other all the time.
//!
//! Only what an API server lets through, but for what stored objects may still carry; each case is made from its number alone.

use e2e::placement::Question;
use e2e::random::Random;
use serde_json::{Map, Value, json};

const NAMESPACES: [&str; 3] = ["one", "two", "three"];
const ZONES: [&str; 3] = ["x", "y", "z"];
const TOPOLOGIES: [&str; 5] = ["host", "zone", "zone", "rack", "gen"];

/// The random choices of one case.
struct Dice(Random);

impl Dice {
    fn one_in(&mut self, sides: u64) -> bool {
        self.0.below(sides) == 0
    }

    fn word(&mut self, words: &[&str]) -> String {
        self.0.choose(words).to_owned()
    }

    fn labels(&mut self, keys: &[&str], values: &[&str], most: u64) -> Map<String, Value> {
        let count = self.0.below(most + 1);
        (0..count).map(|_| (self.word(keys), Value::from(self.word(values)))).collect()
    }

    fn list(&mut self, most: u64, mut item: impl FnMut(&mut Dice) -> Value) -> Vec<Value> {
        (0..self.0.below(most + 1)).map(|_| item(self)).collect()
    }

    fn node(&mut self, number: usize) -> Value {
        let name = format!("n{number}");
        let mut labels = self.labels(&["zone", "zone", "rack"], &ZONES, 2);
        if self.one_in(2) {
            labels.insert("gen".to_owned(), self.word(&["1", "007", "2", "ten", ""]).into());
        }
        if !self.one_in(5) {
            labels.insert("host".to_owned(), name.as_str().into());
        }
        let mut taints = Vec::new();
        for _ in 0..self.0.below(3) {
            let effect = self.word(&["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]);
            taints.push(
                json!({"key": self.word(&["k", "l"]), "value": self.word(&["", "5", "05", "v"]), "effect": effect}),
            );
        }
        json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": self.one_in(12), "taints": taints},
        })
    }

    fn namespace(&mut self, name: &str) -> Value {
        let mut labels = self.labels(&["env"], &["x", "y"], 1);
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
        json!({"metadata": {"name": name, "labels": labels}})
    }

    fn requirement(&mut self, keys: &[&str], values: &[&str], operators: &[&str]) -> Value {
        let operator = self.word(operators);
        let listed: Vec<String> = match operator.as_str() {
            "Exists" | "DoesNotExist" => Vec::new(),
            "Gt" | "Lt" => vec![self.word(values)],
            _ => (0..=self.0.below(2)).map(|_| self.word(values)).collect(),
        };
        json!({"key": self.word(keys), "operator": operator, "values": listed})
    }

    /// Often one whose share of another is no exact number in binary.
    fn weight(&mut self) -> u64 {
        if self.one_in(2) { [29, 57, 58, 100][self.0.below(4) as usize] } else { self.0.between(1, 100) }
    }

    fn node_term(&mut self) -> Value {
        let expressions = self.list(2, |dice| {
            if dice.one_in(5) {
                // A bound that is no integer passes validation and matches nothing.
                dice.requirement(&["gen"], &["0", "1", "ten", "2"], &["Gt", "Lt"])
            } else {
                let values = ["x", "y", "z", "n1", "n2"];
                dice.requirement(
                    &["zone", "rack", "gen", "host"],
                    &values,
                    &["In", "In", "NotIn", "Exists", "DoesNotExist"],
                )
            }
        });
        let mut term = json!({"matchExpressions": expressions});
        if self.one_in(3) {
            let fields = self.list(2, |dice| {
                let name = dice.word(&["n0", "n1", "n2", "n9"]);
                json!({"key": "metadata.name", "operator": dice.word(&["In", "In", "NotIn"]), "values": [name]})
            });
            term["matchFields"] = fields.into();
        }
        term
    }

    fn node_affinity(&mut self) -> Value {
        let mut affinity = json!({});
        if self.one_in(2) {
            let mut terms = self.list(2, Dice::node_term);
            terms.push(self.node_term());
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": terms});
        }
        let preferred = self.list(2, |dice| {
            let weight = dice.weight();
            let mut preference = dice.node_term();
            if dice.one_in(40) {
                preference["matchExpressions"] = json!([{"key": "zone", "operator": "In", "values": ["no value!"]}]);
            }
            json!({"weight": weight, "preference": preference})
        });
        if !preferred.is_empty() {
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred.into();
        }
        affinity
    }

    fn selector(&mut self, keys: &[&str], values: &[&str], operators: &[&str]) -> Value {
        let mut selector = json!({"matchLabels": self.labels(keys, values, 1)});
        if self.one_in(2) {
            selector["matchExpressions"] = json!([self.requirement(keys, values, operators)]);
        }
        selector
    }

    fn pod_term(&mut self) -> Value {
        let mut term = json!({"topologyKey": self.word(&TOPOLOGIES)});
        if !self.one_in(12) {
            let operators = ["In", "In", "NotIn", "Exists", "DoesNotExist"];
            term["labelSelector"] = self.selector(&["app", "tier", "tenant"], &["x", "y", ""], &operators);
        }
        if self.one_in(3) {
            term["namespaces"] = self.list(2, |dice| dice.word(&NAMESPACES).into()).into();
        }
        if self.one_in(4) {
            term["namespaceSelector"] = match self.0.below(4) {
                0 => json!({}),
                // The scheduler errs on these: see the test.
                1 if self.one_in(3) => {
                    json!({"matchExpressions": [self.requirement(&["env"], &["x", "y"], &["NotIn", "DoesNotExist"])]})
                }
                _ => {
                    self.selector(&["env", "kubernetes.io/metadata.name"], &["x", "y", "one", "two"], &["In", "Exists"])
                }
            };
        }
        term
    }

    fn pod_affinity(&mut self) -> Value {
        let mut affinity = json!({});
        let required = self.list(2, Dice::pod_term);
        if !required.is_empty() && self.one_in(2) {
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required.into();
        }
        let mut preferred = self.list(2, |dice| json!({"weight": dice.weight(), "podAffinityTerm": dice.pod_term()}));
        if self.one_in(6) {
            // A term that occurs twice counts twice.
            preferred.extend(preferred.first().cloned());
        }
        if !preferred.is_empty() {
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred.into();
        }
        affinity
    }

    fn affinity(&mut self) -> Value {
        let mut affinity = json!({});
        for member in ["podAffinity", "podAntiAffinity"] {
            if self.one_in(2) {
                affinity[member] = self.pod_affinity();
            }
        }
        affinity
    }

    fn pod(&mut self, number: usize, nodes: usize) -> Value {
        let namespace = self.word(&NAMESPACES);
        let phase = self.word(&["Running", "Running", "Running", "Pending", "Succeeded", "Failed"]);
        // Now and then a node that is not known, or none.
        let node = match self.0.below(nodes as u64 + 2) {
            index if index < nodes as u64 => format!("n{index}"),
            index if index == nodes as u64 => "elsewhere".to_owned(),
            _ => String::new(),
        };
        let mut affinity = self.affinity();
        if self.one_in(40) {
            // What cannot be parsed makes its list void; stored by an older release.
            let broken = json!({"labelSelector": {"matchLabels": {"app": "no value!"}}, "topologyKey": "zone"});
            let good = self.pod_term();
            affinity["podAntiAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": [good, broken]});
        }
        json!({
            "metadata": {
                "namespace": namespace, "name": format!("p{number}"), "uid": format!("uid-{number}"),
                "labels": self.labels(&["app", "tier", "tenant"], &["x", "y", ""], 2),
            },
            "spec": {"nodeName": node, "affinity": affinity},
            "status": {"phase": phase},
        })
    }

    fn pending_pod(&mut self, pods: &[Value]) -> Value {
        let mut metadata = json!({
            "namespace": self.word(&NAMESPACES),
            "labels": self.labels(&["app", "tier", "tenant"], &["x", "y", ""], 2),
        });
        if self.one_in(3) && !pods.is_empty() {
            // One that is stored: it must not count.
            let index = usize::try_from(self.0.below(pods.len() as u64)).unwrap_or_default();
            metadata = pods[index]["metadata"].clone();
        }
        let mut affinity = self.affinity();
        if self.one_in(2) {
            affinity["nodeAffinity"] = self.node_affinity();
        }
        let tolerations = self.list(3, |dice| {
            let mut toleration = json!({
                "key": dice.word(&["", "k", "k", "l"]), "operator": dice.word(&["", "Equal", "Exists", "Exists", "Gt", "Lt"]),
                "effect": dice.word(&["", "", "NoSchedule", "PreferNoSchedule", "NoExecute"]),
            });
            if toleration["operator"] != "Exists" {
                toleration["value"] = dice.word(&["", "5", "4", "v"]).into();
            }
            toleration
        });
        let mut spec = json!({"affinity": affinity, "tolerations": tolerations});
        if self.one_in(4) {
            spec["nodeSelector"] = self.labels(&["zone", "rack", "host"], &["x", "y", "n1"], 2).into();
        }
        if self.one_in(15) {
            spec["nodeName"] = self.word(&["n0", "n1", "n9"]).into();
        }
        json!({"metadata": metadata, "spec": spec})
    }
}

/// Three nodes whose scores are nothing, a part and the whole. Some parts are no exact binary numbers, so the order of
/// multiplication, division and truncation shows.
fn shares(dice: &mut Dice, reviewed: usize) -> Question {
    let node =
        |index: usize| json!({"metadata": {"name": format!("n{index}"), "labels": {"host": format!("n{index}")}}});
    let pod = |index: usize| {
        json!({
            "metadata": {"namespace": "one", "name": format!("p{index}"), "labels": {"app": format!("a{index}")}},
            "spec": {"nodeName": format!("n{index}")}, "status": {"phase": "Running"},
        })
    };
    let mut pod_to_review = || {
        let [part, whole] = [[29, 100], [57, 100], [58, 100], [29, 50], [dice.weight(), 100]][dice.0.below(5) as usize];
        let term = |index: usize, weight: u64| {
            let selector = json!({"matchLabels": {"app": format!("a{index}")}});
            json!({"weight": weight, "podAffinityTerm": {"labelSelector": selector, "topologyKey": "host"}})
        };
        let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [term(1, part), term(2, whole)]});
        json!({"metadata": {"namespace": "one"}, "spec": {"affinity": {"podAffinity": preferred}}})
    };
    let reviewed = (0..reviewed).map(|_| pod_to_review()).collect();
    Question {
        nodes: (0..3).map(node).collect(),
        pods: (1..3).map(pod).collect(),
        namespaces: Vec::new(),
        reviewed,
        options: json!({"hardPodAffinityWeight": 1}),
    }
}

/// The cluster of that number, and so many pods that are reviewed.
pub(crate) fn question(number: u64, reviewed: usize) -> Question {
    let mut dice = Dice(Random::from_seed(0x706c_6163_656d_656e, number));
    if number % 50 == 49 {
        return shares(&mut dice, reviewed);
    }
    // Now and then so many that a count of the event has two digits.
    let most_nodes = if dice.one_in(20) { 30 } else { 8 };
    let node_count = usize::try_from(dice.0.below(most_nodes)).unwrap_or_default();
    let pod_count = usize::try_from(dice.0.below(16)).unwrap_or_default();
    let nodes = (0..node_count).map(|index| dice.node(index)).collect();
    let mut pods: Vec<Value> = Vec::new();
    for index in 0..pod_count {
        let mut pod = dice.pod(index, node_count);
        if dice.one_in(2) && !pods.is_empty() {
            // Another one of a template, now and then on the same node.
            let first = dice.0.below(pods.len() as u64) as usize;
            pod["metadata"]["namespace"] = pods[first]["metadata"]["namespace"].clone();
            pod["metadata"]["labels"] = pods[first]["metadata"]["labels"].clone();
            pod["spec"]["affinity"] = pods[first]["spec"]["affinity"].clone();
            if dice.one_in(2) {
                pod["spec"]["nodeName"] = pods[first]["spec"]["nodeName"].clone();
            }
        }
        pods.push(pod);
    }
    let namespaces = NAMESPACES.into_iter().filter(|_| !dice.one_in(5)).collect::<Vec<_>>();
    let namespaces = namespaces.into_iter().map(|name| dice.namespace(name)).collect();
    let reviewed = (0..reviewed).map(|_| dice.pending_pod(&pods)).collect();
    let hard_weight = [1, 0, 100][usize::try_from(dice.0.below(3)).unwrap_or_default()];
    let mut options = json!({
        "hardPodAffinityWeight": hard_weight,
        "ignorePreferredTermsOfExistingPods": dice.one_in(3),
        "tolerationComparison": dice.one_in(2),
    });
    if dice.one_in(6) {
        // The scheduler does not start with one that cannot be parsed.
        let term =
            json!([{"matchExpressions": [dice.requirement(&["zone", "rack"], &ZONES, &["In", "NotIn", "Exists"])]}]);
        options["addedAffinity"] =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": term}});
        if dice.one_in(2) {
            options["addedAffinity"] =
                json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term[0]}]});
        }
    }
    Question { nodes, pods, namespaces, reviewed, options }
}
