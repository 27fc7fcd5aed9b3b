//! The rules once more, written directly from their description and without an index: the reference implementation for
//! the property tests.
//!
//! Everything is a loop over all nodes and all pods, over the documents themselves. Nothing of the room is used but the
//! documents, the options, and the syntax of keys and values.

use std::collections::{BTreeMap, BTreeSet};

use crate::placement::node::{Namespace, Node, Taint};
use crate::placement::options::Options;
use crate::placement::pod::{
    MetaV1LabelSelector, NodeSelectorTerm, Pod, PodAffinityTerm, Requirement, Toleration, WeightedPodAffinityTerm,
};
use crate::selector::syntax::{label_key_errors, label_value_errors};

type Labels = BTreeMap<String, String>;
/// A topology key and a value of it.
type Pair = (String, String);

/// All objects.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) pods: BTreeMap<(String, String), Pod>,
    pub(super) namespaces: BTreeMap<String, Namespace>,
}

/// The result for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeResult {
    /// Codes, each once, in the order of the scheduler.
    pub(super) reasons: Vec<&'static str>,
    /// Plugin, raw, normalized.
    pub(super) scores: Vec<(&'static str, i64, i64)>,
}

fn requirement_parses(requirement: &Requirement, on_node: bool) -> bool {
    let Requirement { key, operator, values } = requirement;
    let is_number = |text: &String| text.parse::<i64>().is_ok();
    label_key_errors(key).is_empty()
        && values.iter().all(|value| label_value_errors(value).is_empty())
        && match operator.as_str() {
            "In" | "NotIn" => !values.is_empty(),
            "Exists" | "DoesNotExist" => values.is_empty(),
            "Gt" | "Lt" => on_node && values.len() == 1 && values.iter().all(is_number),
            _ => false,
        }
}

fn requirement_holds(requirement: &Requirement, labels: &Labels) -> bool {
    let value = labels.get(&requirement.key);
    let number = || value.and_then(|value| value.parse::<i64>().ok());
    let bound = || requirement.values[0].parse::<i64>().unwrap();
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| requirement.values.contains(value)),
        "NotIn" => !value.is_some_and(|value| requirement.values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().is_some_and(|number| number > bound()),
        "Lt" => number().is_some_and(|number| number < bound()),
        _ => unreachable!("only parsed requirements are evaluated"),
    }
}

fn selector_parses(selector: Option<&MetaV1LabelSelector>) -> bool {
    selector.is_none_or(|selector| {
        selector.match_expressions.iter().all(|requirement| requirement_parses(requirement, false))
            && selector
                .match_labels
                .iter()
                .all(|(key, value)| label_key_errors(key).is_empty() && label_value_errors(value).is_empty())
    })
}

fn selects(selector: Option<&MetaV1LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| {
        selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && selector.match_expressions.iter().all(|requirement| requirement_holds(requirement, labels))
    })
}

fn is_empty(selector: &MetaV1LabelSelector) -> bool {
    selector.match_labels.is_empty() && selector.match_expressions.is_empty()
}

fn node_term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let is_something = !term.match_expressions.is_empty() || !term.match_fields.is_empty();
    let parses = term.match_expressions.iter().all(|requirement| requirement_parses(requirement, true))
        && term
            .match_fields
            .iter()
            .all(|field| matches!(field.operator.as_str(), "In" | "NotIn") && field.values.len() == 1);
    let field_holds = |field: &Requirement| {
        let value = if field.key == "metadata.name" { node.metadata.name.as_str() } else { "" };
        (field.values[0] == value) == (field.operator == "In")
    };
    is_something
        && parses
        && term.match_expressions.iter().all(|requirement| requirement_holds(requirement, &node.metadata.labels))
        && term.match_fields.iter().all(field_holds)
}

fn tolerates(toleration: &Toleration, taint: &Taint, options: &Options) -> bool {
    let canonical = |text: &str| text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    let numbers = canonical(&taint.value).zip(canonical(&toleration.value));
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            "Gt" => options.toleration_comparison && numbers.is_some_and(|(taint, bound)| taint > bound),
            "Lt" => options.toleration_comparison && numbers.is_some_and(|(taint, bound)| taint < bound),
            _ => false,
        }
}

fn untolerated<'a>(taints: &'a [Taint], pod: &Pod, effects: &[&str], options: &Options) -> Vec<&'a Taint> {
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .filter(|taint| !pod.spec.tolerations.iter().any(|toleration| tolerates(toleration, taint, options)))
        .collect()
}

impl World {
    /// Pods that count, with their nodes.
    fn counted(&self, incoming: &Pod) -> Vec<(&Pod, &Node)> {
        let counts = |pod: &&Pod| {
            let is_itself = (pod.metadata.namespace == incoming.metadata.namespace
                && pod.metadata.name == incoming.metadata.name)
                || (!incoming.metadata.uid.is_empty() && pod.metadata.uid == incoming.metadata.uid);
            !is_itself && !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
        };
        let pods = self.pods.values().filter(counts);
        pods.filter_map(|pod| self.nodes.get(&pod.spec.node_name).map(|node| (pod, node))).collect()
    }

    fn covers(&self, term: &PodAffinityTerm, carrier: &Pod, namespace: &str, unknown_has_no_labels: bool) -> bool {
        let object = self.namespaces.get(namespace).map(|namespace| namespace.metadata.labels.clone());
        let labels = object.or_else(|| unknown_has_no_labels.then(Labels::new));
        let by_label = term.namespace_selector.as_ref().is_some_and(|selector| {
            is_empty(selector) || labels.is_some_and(|labels| selects(Some(selector), &labels))
        });
        let is_own =
            term.namespaces.is_empty() && term.namespace_selector.is_none() && carrier.metadata.namespace == namespace;
        is_own || by_label || term.namespaces.iter().any(|name| name == namespace)
    }

    /// A term of the incoming pod and an existing pod.
    fn incoming_matches(&self, term: &PodAffinityTerm, incoming: &Pod, existing: &Pod) -> bool {
        self.covers(term, incoming, &existing.metadata.namespace, false)
            && selects(term.label_selector.as_ref(), &existing.metadata.labels)
    }

    /// A term of an existing pod and the incoming pod.
    fn existing_matches(&self, term: &PodAffinityTerm, existing: &Pod, incoming: &Pod) -> bool {
        self.covers(term, existing, &incoming.metadata.namespace, true)
            && selects(term.label_selector.as_ref(), &incoming.metadata.labels)
    }

    /// The result for each node.
    pub(super) fn evaluate(&self, incoming: &Pod, options: &Options) -> BTreeMap<String, NodeResult> {
        let mut results: BTreeMap<String, NodeResult> = BTreeMap::new();
        for (name, node) in &self.nodes {
            let reasons = [
                (!incoming.spec.scheduling_gates.is_empty()).then_some("SchedulingGated"),
                self.narrowed(incoming, name),
                self.node_rule(incoming, node, options, "NodeUnschedulable"),
                self.node_rule(incoming, node, options, "NodeNameMismatch"),
                self.node_rule(incoming, node, options, "UntoleratedTaint"),
                self.node_rule(incoming, node, options, "NodeAffinityMismatch"),
            ];
            let mut reasons: Vec<&'static str> = reasons.into_iter().flatten().collect();
            reasons.extend(self.pod_rules(incoming, node));
            results.insert(name.clone(), NodeResult { reasons, scores: Vec::new() });
        }
        self.score(incoming, options, &mut results);
        results
    }

    fn narrowed(&self, incoming: &Pod, name: &str) -> Option<&'static str> {
        let terms = incoming.spec.required_node_affinity().map(|required| &required.node_selector_terms[..]);
        let terms = terms.filter(|terms| !terms.is_empty())?;
        let mut union: BTreeSet<&str> = BTreeSet::new();
        for term in terms {
            let is_name = |field: &&Requirement| field.key == "metadata.name" && field.operator == "In";
            let sets: Vec<&Vec<String>> = term.match_fields.iter().filter(is_name).map(|field| &field.values).collect();
            let first = sets.first()?;
            union.extend(first.iter().filter(|value| sets.iter().all(|set| set.contains(value))).map(String::as_str));
        }
        match (union.is_empty(), union.contains(name)) {
            (true, _) => Some("AffinityTermsConflict"),
            (false, false) => Some("NodeNotNamed"),
            (false, true) => None,
        }
    }

    fn node_rule(&self, incoming: &Pod, node: &Node, options: &Options, rule: &'static str) -> Option<&'static str> {
        let spec = &incoming.spec;
        let cordon = [Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        }];
        let is_rejected = match rule {
            "NodeUnschedulable" => {
                node.spec.unschedulable && !untolerated(&cordon, incoming, &["NoSchedule"], options).is_empty()
            }
            "NodeNameMismatch" => !spec.node_name.is_empty() && spec.node_name != node.metadata.name,
            "UntoleratedTaint" => {
                !untolerated(&node.spec.taints, incoming, &["NoSchedule", "NoExecute"], options).is_empty()
            }
            _ => {
                let by_selector =
                    spec.node_selector.iter().all(|(key, value)| node.metadata.labels.get(key) == Some(value));
                let matches = |terms: &[NodeSelectorTerm]| terms.iter().any(|term| node_term_matches(term, node));
                // A node that the names leave out is reported once.
                let by_affinity = self.narrowed(incoming, &node.metadata.name).is_some()
                    || spec.required_node_affinity().is_none_or(|required| matches(&required.node_selector_terms));
                let added = options.added_affinity.as_ref().and_then(|added| added.required.as_ref());
                let by_added = added.is_none_or(|required| matches(&required.node_selector_terms));
                !by_selector || !by_affinity || !by_added
            }
        };
        is_rejected.then_some(rule)
    }

    /// The term's pair on a node.
    fn pair(term: &PodAffinityTerm, node: &Node) -> Option<Pair> {
        node.metadata.labels.get(&term.topology_key).map(|value| (term.topology_key.clone(), value.clone()))
    }

    fn required(pod: &Pod, is_anti: bool) -> Vec<&PodAffinityTerm> {
        let affinity = if is_anti { pod.spec.pod_anti_affinity() } else { pod.spec.pod_affinity() };
        let terms: Vec<&PodAffinityTerm> = affinity.into_iter().flat_map(|affinity| &affinity.required).collect();
        let parse = |term: &&PodAffinityTerm| {
            selector_parses(term.label_selector.as_ref()) && selector_parses(term.namespace_selector.as_ref())
        };
        // One that cannot be parsed makes the list void.
        if terms.iter().all(parse) { terms } else { Vec::new() }
    }

    fn preferred(pod: &Pod, is_anti: bool) -> Vec<&WeightedPodAffinityTerm> {
        let affinity = if is_anti { pod.spec.pod_anti_affinity() } else { pod.spec.pod_affinity() };
        let terms: Vec<&WeightedPodAffinityTerm> =
            affinity.into_iter().flat_map(|affinity| &affinity.preferred).collect();
        let parse = |weighted: &&WeightedPodAffinityTerm| {
            let term = &weighted.pod_affinity_term;
            selector_parses(term.label_selector.as_ref()) && selector_parses(term.namespace_selector.as_ref())
        };
        if terms.iter().all(parse) { terms } else { Vec::new() }
    }

    fn is_void(pod: &Pod) -> bool {
        [false, true].into_iter().any(|is_anti| {
            let affinity = if is_anti { pod.spec.pod_anti_affinity() } else { pod.spec.pod_affinity() };
            let written = affinity.map_or((0, 0), |affinity| (affinity.required.len(), affinity.preferred.len()));
            written != (World::required(pod, is_anti).len(), World::preferred(pod, is_anti).len())
        })
    }

    fn pod_rules(&self, incoming: &Pod, node: &Node) -> Vec<&'static str> {
        if World::is_void(incoming) {
            return vec!["PodAffinityMismatch"];
        }
        let counted = self.counted(incoming);
        let affinity = World::required(incoming, false);
        let anti_affinity = World::required(incoming, true);
        let mut aff: BTreeSet<Pair> = BTreeSet::new();
        let mut anti: BTreeSet<Pair> = BTreeSet::new();
        let mut exist: BTreeSet<Pair> = BTreeSet::new();
        for (existing, place) in &counted {
            if affinity.iter().all(|term| self.incoming_matches(term, incoming, existing)) {
                aff.extend(affinity.iter().filter_map(|term| World::pair(term, place)));
            }
            let met = anti_affinity.iter().filter(|term| self.incoming_matches(term, incoming, existing));
            anti.extend(met.filter_map(|term| World::pair(term, place)));
            let carried = World::required(existing, true);
            let met = carried.iter().filter(|term| self.existing_matches(term, existing, incoming));
            exist.extend(met.filter_map(|term| World::pair(term, place)));
        }
        let is_in = |set: &BTreeSet<Pair>, term: &PodAffinityTerm| {
            World::pair(term, node).is_some_and(|pair| set.contains(&pair))
        };
        let has_keys = affinity.iter().all(|term| node.metadata.labels.contains_key(&term.topology_key));
        let is_first = aff.is_empty() && affinity.iter().all(|term| self.incoming_matches(term, incoming, incoming));
        let mut reasons = Vec::new();
        if !has_keys || !(is_first || affinity.iter().all(|term| is_in(&aff, term))) {
            reasons.push("PodAffinityMismatch");
        }
        if anti_affinity.iter().any(|term| is_in(&anti, term)) {
            reasons.push("PodAntiAffinityMismatch");
        }
        if node.metadata.labels.iter().any(|(key, value)| exist.contains(&(key.clone(), value.clone()))) {
            reasons.push("ExistingPodAntiAffinity");
        }
        reasons
    }

    fn score(&self, incoming: &Pod, options: &Options, results: &mut BTreeMap<String, NodeResult>) {
        let feasible: Vec<&Node> =
            self.nodes.values().filter(|node| results[&node.metadata.name].reasons.is_empty()).collect();
        let added = options.added_affinity.as_ref();
        let own = incoming.spec.preferred_node_affinity().iter();
        let preferences: Vec<_> = own.clone().chain(added.into_iter().flat_map(|added| &added.preferred)).collect();
        let breaks = |term: &NodeSelectorTerm| {
            term.match_expressions.iter().any(|requirement| !requirement_parses(requirement, true))
                || term
                    .match_fields
                    .iter()
                    .any(|field| !matches!(field.operator.as_str(), "In" | "NotIn") || field.values.len() != 1)
        };
        if own.clone().any(|preferred| preferred.weight != 0 && breaks(&preferred.preference)) {
            return;
        }
        let mut give = |plugin: &'static str, raws: Vec<i64>, normalize: &dyn Fn(i64, i64, i64) -> i64| {
            let least = raws.iter().copied().min().unwrap_or(0);
            let most = raws.iter().copied().max().unwrap_or(0);
            for (node, raw) in feasible.iter().zip(raws) {
                let scores = &mut results.get_mut(&node.metadata.name).unwrap().scores;
                scores.push((plugin, raw, normalize(raw, least, most)));
            }
        };
        let raws = |raw: &dyn Fn(&Node) -> i64| feasible.iter().map(|node| raw(node)).collect::<Vec<i64>>();
        let taints =
            |node: &Node| untolerated(&node.spec.taints, incoming, &["PreferNoSchedule"], options).len() as i64;
        give("TaintToleration", raws(&taints), &|raw, _, most| if most == 0 { 100 } else { 100 - 100 * raw / most });
        if !preferences.is_empty() {
            let matching = |node: &Node| {
                let met = preferences.iter().filter(|preferred| node_term_matches(&preferred.preference, node));
                met.map(|preferred| i64::from(preferred.weight)).sum()
            };
            give("NodeAffinity", raws(&matching), &|raw, _, most| if most == 0 { raw } else { 100 * raw / most });
        }
        let table = self.table(incoming, options);
        if !table.is_empty() {
            let sum = |node: &Node| {
                let labels = node.metadata.labels.iter();
                labels.filter_map(|(key, value)| table.get(&(key.clone(), value.clone()))).sum()
            };
            give("InterPodAffinity", raws(&sum), &|raw, least, most| {
                if most == least { 0 } else { (100.0 * ((raw - least) as f64 / (most - least) as f64)) as i64 }
            });
        }
    }

    fn table(&self, incoming: &Pod, options: &Options) -> BTreeMap<Pair, i64> {
        let mut table: BTreeMap<Pair, i64> = BTreeMap::new();
        let (toward, away) = (World::preferred(incoming, false), World::preferred(incoming, true));
        if options.ignore_preferred_terms_of_existing_pods && toward.is_empty() && away.is_empty() {
            return table;
        }
        for (existing, place) in self.counted(incoming) {
            let mut add = |term: &PodAffinityTerm, weight: i64| {
                if let Some(pair) = World::pair(term, place) {
                    *table.entry(pair).or_insert(0) += weight;
                }
            };
            for (sign, terms) in [(1, &toward), (-1, &away)] {
                for WeightedPodAffinityTerm { weight, pod_affinity_term } in terms {
                    if self.incoming_matches(pod_affinity_term, incoming, existing) {
                        add(pod_affinity_term, sign * i64::from(*weight));
                    }
                }
            }
            for term in World::required(existing, false) {
                if options.hard_pod_affinity_weight > 0 && self.existing_matches(term, existing, incoming) {
                    add(term, options.hard_pod_affinity_weight);
                }
            }
            for (sign, is_anti) in [(1, false), (-1, true)] {
                for WeightedPodAffinityTerm { weight, pod_affinity_term } in World::preferred(existing, is_anti) {
                    if self.existing_matches(pod_affinity_term, existing, incoming) {
                        add(pod_affinity_term, sign * i64::from(*weight));
                    }
                }
            }
        }
        table
    }
}
