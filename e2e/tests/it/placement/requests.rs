//! Random Pods as people might send them: some right, most with a fault or two in what decides on placement.

use e2e::random::Random;
use serde_json::{Map, Value, json};

use super::documents::{PREFERRED, REQUIRED};

const KEYS: [&str; 9] = ["a", "b", "c", "d", "example.com/e", "a", "b", "-bad", "Up.Per/f"];
const VALUES: [&str; 6] = ["x", "y", "", "x", "-bad-", "5"];

struct Dice {
    random: Random,
    /// Makes no faults, so that the Pod may be accepted.
    is_careful: bool,
}

impl Dice {
    fn one_in(&mut self, sides: u64) -> bool {
        self.random.below(sides) == 0
    }

    fn errs(&mut self, sides: u64) -> bool {
        !self.is_careful && self.one_in(sides)
    }

    fn word(&mut self, words: &[&str]) -> String {
        self.random.choose(words).to_owned()
    }

    /// One of the words, of which so many are right.
    fn one_of(&mut self, words: &[&str], right: usize) -> String {
        self.word(if self.is_careful { &words[..right] } else { words })
    }

    fn list(&mut self, least: u64, most: u64, mut item: impl FnMut(&mut Dice) -> Value) -> Vec<Value> {
        (0..self.random.between(least, most)).map(|_| item(self)).collect()
    }

    fn key(&mut self) -> String {
        // Mostly right, since a fault hides what merging does.
        if self.errs(10) { self.word(&KEYS) } else { self.word(&KEYS[..5]) }
    }

    fn value(&mut self) -> String {
        if self.errs(10) { self.word(&VALUES) } else { self.word(&VALUES[..3]) }
    }

    /// One label at most where several faults would come in no certain order.
    fn labels(&mut self, most: u64) -> Map<String, Value> {
        (0..self.random.below(most + 1)).map(|_| (self.word(&KEYS[..5]), self.word(&VALUES[..3]).into())).collect()
    }

    fn requirement(&mut self, operators: &[&str]) -> Value {
        // The last one is wrong.
        let operator = if self.errs(8) { operators } else { &operators[..operators.len() - 1] };
        let operator = self.word(operator);
        let count = match operator.as_str() {
            _ if self.errs(12) => self.random.below(3),
            "Exists" | "DoesNotExist" => 0,
            "Gt" | "Lt" => 1,
            _ => self.random.between(1, 2),
        };
        let values: Vec<String> = (0..count).map(|_| self.value()).collect();
        json!({"key": self.key(), "operator": operator, "values": values})
    }

    fn node_term(&mut self) -> Value {
        let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"];
        let mut term = json!({"matchExpressions": self.list(0, 2, |dice| {
            let mut requirement = dice.requirement(&operators);
            if dice.one_in(8) {
                requirement["key"] = dice.word(&["beta.kubernetes.io/os", "failure-domain.beta.kubernetes.io/zone", "node-role.kubernetes.io/master"]).into();
            }
            requirement
        })});
        if self.one_in(3) {
            term["matchFields"] = json!(self.list(1, 2, |dice| {
                let names = dice.list(0, 2, |dice| dice.word(&["n1", "n2", "No_Name"]).into());
                let names = if dice.errs(3) { names } else { vec!["n1".into()] };
                json!({
                    "key": if dice.errs(5) { "metadata.uid" } else { "metadata.name" },
                    "operator": if dice.errs(5) { "Exists" } else { "In" }, "values": names,
                })
            }));
        }
        term
    }

    fn node_affinity(&mut self) -> Value {
        let mut affinity = json!({});
        if self.one_in(2) {
            let terms = if self.errs(10) { Vec::new() } else { self.list(1, 2, Dice::node_term) };
            affinity[REQUIRED] = json!({"nodeSelectorTerms": terms});
        }
        if self.one_in(2) {
            affinity[PREFERRED] =
                json!(self.list(1, 2, |dice| json!({"weight": dice.weight(), "preference": dice.node_term()})));
        }
        affinity
    }

    fn weight(&mut self) -> i64 {
        if self.errs(8) {
            [0, -1, 101, 1_000][self.random.below(4) as usize]
        } else {
            1 + self.random.below(100) as i64
        }
    }

    fn selector(&mut self) -> Value {
        if self.is_careful {
            // Of keys that no list of label keys has.
            return json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]});
        }
        let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt"];
        let mut selector = json!({"matchLabels": self.labels(1)});
        if self.one_in(2) {
            selector["matchExpressions"] = json!(self.list(1, 2, |dice| dice.requirement(&operators)));
        }
        selector
    }

    fn pod_term(&mut self) -> Value {
        let topology = if self.errs(8) { self.word(&["", "-bad", "UP/zone"]) } else { "zone".to_owned() };
        let mut term = json!({"topologyKey": topology});
        match self.random.below(6) {
            0 if !self.is_careful => {}
            1 => term["labelSelector"] = json!({}),
            _ => term["labelSelector"] = self.selector(),
        }
        for (member, right) in [("matchLabelKeys", ["a", "b"]), ("mismatchLabelKeys", ["c", "d"])] {
            if self.one_in(2) {
                let key = |dice: &mut Dice| if dice.is_careful { dice.word(&right) } else { dice.key() }.into();
                term[member] = json!(self.list(0, 3, key));
            }
        }
        if self.one_in(4) {
            term["namespaces"] = json!(self.list(0, 2, |dice| if dice.errs(5) { "Not_A_Name" } else { "one" }.into()));
        }
        if self.one_in(4) {
            term["namespaceSelector"] = self.selector();
        }
        if self.one_in(25) {
            term["matchLabelSelector"] = json!({"key": "a", "operator": "ExistsWithSameValue"});
        }
        term
    }

    fn pod_affinity(&mut self) -> Value {
        let mut affinity = json!({});
        if self.one_in(2) {
            affinity[REQUIRED] = json!(self.list(1, 2, Dice::pod_term));
        }
        if self.one_in(2) {
            affinity[PREFERRED] =
                json!(self.list(1, 2, |dice| json!({"weight": dice.weight(), "podAffinityTerm": dice.pod_term()})));
        }
        affinity
    }

    fn toleration(&mut self) -> Value {
        let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "a", "", "", "-bad"];
        let operators = ["Exists", "Equal", "", "Exists", "Like", "Gt", "Lt"];
        let effects = ["NoExecute", "NoSchedule", "PreferNoSchedule", "", "NoExecute", "Never"];
        let mut toleration = json!({"key": self.one_of(&keys, 3), "operator": self.one_of(&operators, 3)});
        if toleration["operator"] != "Exists" || self.errs(6) {
            toleration["value"] = self.value().into();
        }
        toleration["effect"] = self.one_of(&effects, 4).into();
        if self.one_in(3) && (!self.is_careful || toleration["effect"] == "NoExecute") {
            toleration["tolerationSeconds"] = json!([-100, 0, 100, 200][self.random.below(4) as usize]);
        }
        toleration
    }
}

/// The Pod of that number: mostly about affinity to pods, about affinity to nodes, or about tolerations.
pub(crate) fn pod(number: u64) -> Value {
    let mut dice = Dice { random: Random::from_seed(0x6164_6d69_7373_696f, number), is_careful: number / 4 % 2 == 1 };
    let mut spec = json!({"containers": [{"name": "main", "image": "nginx"}]});
    match number % 4 {
        0 | 1 => {
            let mut affinity = json!({});
            for member in ["podAffinity", "podAntiAffinity"] {
                if !dice.one_in(3) {
                    affinity[member] = dice.pod_affinity();
                }
            }
            spec["affinity"] = affinity;
        }
        2 => spec["affinity"] = json!({"nodeAffinity": dice.node_affinity()}),
        _ => spec["tolerations"] = json!(dice.list(0, 3, Dice::toleration)),
    }
    if dice.one_in(5) {
        let (key, value) = (dice.key(), dice.value());
        spec["nodeSelector"] = json!({key: value});
    }
    if dice.one_in(10) {
        spec["schedulingGates"] = json!(dice.list(
            1,
            2,
            |dice| json!({"name": if dice.errs(3) { "-bad" } else { dice.random.choose(&["example.com/g", "h"]) }})
        ));
    }
    if dice.errs(12) {
        spec["nodeName"] = dice.word(&["n1", "No_Name"]).into();
    }
    // Unknown fields, and documents that are no Pod yet because they have no containers. None of them is about affinity
    // to Pods, and the first three have no other fault.
    match number % 40 {
        6 => spec["nodeSelectr"] = json!({"a": "b"}),
        7 => spec["topologySpreadConstraint"] = json!([]),
        14 => spec["Containers"] = json!(null),
        2 => spec["containers"] = json!([]),
        3 => spec["containers"] = json!([{"name": "main"}, {"image": "nginx"}, {}]),
        10 => {
            let named = |name: &str, image: &str| json!({"name": name, "image": image});
            spec["containers"] = json!([named("Main", "a"), named("b", "a"), named("b", "")]);
        }
        _ => {}
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{number}"), "namespace": "default", "labels": dice.labels(4)}, "spec": spec,
    })
}
