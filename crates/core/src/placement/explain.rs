//! Explains a rejection: the term, taint, label or pod, and the origin of the parts of a term.
//!
//! Nothing is decided here. Texts are for users and may change; codes and messages of reasons may not.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::carried::Effect;
use super::cluster::{ClusterIndex, NodeFacts, Witnesses};
use super::domains::Witness;
use super::effort;
use super::evaluate::Cause;
use super::incoming::{Incoming, required_term_path};
use super::node::Taint;
use super::options::Options;
use super::pod::PodAffinityTerm;
use super::review::TermReference;
use super::term::{NAME_FIELD, NodeTerm, PodTerm, TermList, TermMismatch};
use crate::selector::LabelSelection;

/// A label selector as text; empty if it selects everything, `None` if it selects nothing.
pub(super) fn selection_text(selection: &LabelSelection) -> Option<String> {
    match selection {
        LabelSelection::Nothing => None,
        LabelSelection::Everything => Some(String::new()),
        LabelSelection::Matching(selector) => Some(selector.to_string()),
    }
}

/// A label of a node, or its absence.
#[derive(Clone, Copy, Debug)]
pub(super) struct LabelFound<'answer> {
    key: &'answer str,
    /// `None`: the node does not have the label.
    value: Option<&'answer str>,
}

impl<'answer> LabelFound<'answer> {
    fn on_node(facts: &'answer NodeFacts, key: &'answer str) -> LabelFound<'answer> {
        LabelFound { key, value: facts.labels.get(key) }
    }

    /// The label as text, in parts to concatenate: `key=value`, or `!key` if the node does not have the label.
    pub(super) fn parts(self) -> [&'answer str; 3] {
        match self.value {
            Some(value) => [self.key, "=", value],
            None => ["!", self.key, ""],
        }
    }
}

/// The cause of a rejection. It borrows all its parts, because there may be thousands of nodes.
#[derive(Debug, Default)]
pub(super) struct RejectionDetails<'answer> {
    pub(super) term: Option<Arc<TermReference>>,
    pub(super) taint: Option<&'answer Taint>,
    pub(super) label: Option<LabelFound<'answer>>,
    /// `namespace/name`.
    pub(super) pod: Option<&'answer Arc<str>>,
}

/// A pod affinity term in words.
fn pod_term_text(term: &PodTerm) -> String {
    let pods = match selection_text(&term.selection) {
        None => "pods with a null labelSelector, which matches no pod,".to_owned(),
        Some(text) if text.is_empty() => "every pod".to_owned(),
        Some(text) => format!("pods with {text}"),
    };
    let by_name = term.namespaces.join(", ");
    let namespaces = match (selection_text(&term.namespace_selection), by_name.is_empty()) {
        (None, _) => format!("namespaces [{by_name}]"),
        (Some(text), _) if text.is_empty() => "every namespace".to_owned(),
        (Some(text), true) => format!("namespaces with {text}"),
        (Some(text), false) => format!("namespaces [{by_name}] and those with {text}"),
    };
    format!("{pods} in {namespaces} (topology key {})", term.topology_key)
}

/// The maximum length of a term's text, in bytes. The text is written for every node that the term rejects, and the
/// client decides how long the term is.
const MOST_TEXT: usize = 256;

/// A reference to a term, with at most [`MOST_TEXT`] bytes of its text.
fn reference(field_path: String, text: String) -> Arc<TermReference> {
    Arc::new(TermReference { field_path, text: shortened(text, MOST_TEXT) })
}

/// Truncates a text to `most` bytes; if it was longer, `...` and its original length follow.
pub(super) fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let length = text.len();
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("... ({length} bytes)"));
    }
    text
}

/// References to the terms of the incoming Pod.
fn own_terms(list: TermList, terms: &[(PodTerm, i32)]) -> Vec<Arc<TermReference>> {
    let written = |(index, (term, _)): (usize, &(PodTerm, i32))| {
        reference(format!("spec.{}", list.path(index)), pod_term_text(term))
    };
    terms.iter().enumerate().map(written).collect()
}

/// Writes the explanations of rejections. Texts that many nodes have in common are written once and shared.
pub(super) struct Reporter<'answer> {
    cluster: &'answer ClusterIndex,
    incoming: &'answer Incoming,
    /// The Pod's required affinity terms, by index.
    affinity: Vec<Arc<TermReference>>,
    /// The Pod's required anti-affinity terms, by index.
    anti_affinity: Vec<Arc<TermReference>>,
    /// By index of the pair in nodeSelector: the requirement, and the key.
    pairs: Vec<(Arc<TermReference>, &'answer str)>,
    /// The explanation of a required node selector without terms, once it was needed.
    no_term: Option<Arc<TermReference>>,
    /// The explanations of required node selector terms, by index and mismatch.
    node_terms: HashMap<(usize, TermMismatch), Arc<TermReference>>,
    /// The explanations of the affinity that the scheduler's configuration adds, by the mismatches of its terms.
    enforced: HashMap<Vec<TermMismatch>, Arc<TermReference>>,
    /// The explanations of terms of existing Pods, by number of the carried term and of the group.
    existing: HashMap<(u32, u32), Arc<TermReference>>,
    witnesses: Witnesses<'answer>,
}

impl<'answer> Reporter<'answer> {
    pub(super) fn new(cluster: &'answer ClusterIndex, incoming: &'answer Incoming) -> Reporter<'answer> {
        let pair = |(key, value): (&'answer String, &String)| {
            let field_path = format!("spec.nodeSelector[{key}]");
            (reference(field_path, format!("{key}={value}")), key.as_str())
        };
        Reporter {
            cluster,
            incoming,
            affinity: own_terms(TermList::RequiredAffinity, &incoming.required_affinity),
            anti_affinity: own_terms(TermList::RequiredAntiAffinity, &incoming.required_anti_affinity),
            pairs: incoming.pod.spec.node_selector.iter().map(pair).collect(),
            no_term: None,
            node_terms: HashMap::new(),
            enforced: HashMap::new(),
            existing: HashMap::new(),
            witnesses: Witnesses::new(cluster),
        }
    }

    /// Explains the cause of the rejection of the node with this name and these facts.
    pub(super) fn details(
        &mut self,
        cause: Cause,
        name: &'answer str,
        facts: &'answer NodeFacts,
    ) -> RejectionDetails<'answer> {
        match cause {
            Cause::Rule => RejectionDetails::default(),
            Cause::Taint(index) => {
                RejectionDetails { taint: facts.taints.get(index as usize), ..RejectionDetails::default() }
            }
            Cause::Selector(index) => match self.pairs.get(index as usize) {
                Some((term, key)) => {
                    let label = Some(LabelFound::on_node(facts, key));
                    RejectionDetails { term: Some(Arc::clone(term)), label, ..RejectionDetails::default() }
                }
                None => RejectionDetails::default(),
            },
            Cause::NodeTerm(index) => self.node_term(index, name, facts),
            Cause::Enforced => self.enforced(name, facts),
            Cause::Affinity(term) => own(&self.affinity, &self.incoming.required_affinity, term, facts),
            Cause::AntiAffinity(witness) => {
                let found = own(&self.anti_affinity, &self.incoming.required_anti_affinity, witness.term, facts);
                let pod = self.witnesses.of(witness.group, witness.node).map(|entry| &entry.key);
                RejectionDetails { pod, ..found }
            }
            Cause::Existing(witness) => self.existing(witness, facts),
        }
    }

    /// The requirement of a required node selector term that the node does not satisfy. `index` is `None` if the node
    /// selector has no terms.
    fn node_term(
        &mut self,
        index: Option<u32>,
        name: &'answer str,
        facts: &'answer NodeFacts,
    ) -> RejectionDetails<'answer> {
        let terms = self.incoming.required.as_deref().unwrap_or_default();
        let found = index.and_then(|index| {
            let term = terms.get(index as usize)?;
            Some((index as usize, term, term.mismatch(name, &facts.labels)?))
        });
        let Some((index, term, mismatch)) = found else {
            let write = || {
                let field_path = required_term_path(0).trim_end_matches("[0]").to_owned();
                reference(field_path, "no term, so no node matches".to_owned())
            };
            return RejectionDetails {
                term: Some(Arc::clone(self.no_term.get_or_insert_with(write))),
                ..RejectionDetails::default()
            };
        };
        let write = || reference(required_term_path(index), term.text(mismatch));
        let written = self.node_terms.entry((index, mismatch)).or_insert_with(write);
        let label = mismatched_label(term, mismatch, name, facts);
        RejectionDetails { term: Some(Arc::clone(written)), label, ..RejectionDetails::default() }
    }

    /// For each term of the affinity that the scheduler's configuration adds, the requirement that the node does not
    /// satisfy; and the label of the first one.
    fn enforced(&mut self, name: &'answer str, facts: &'answer NodeFacts) -> RejectionDetails<'answer> {
        let terms = self.incoming.enforced.as_deref().unwrap_or_default();
        let mismatches: Vec<TermMismatch> =
            terms.iter().filter_map(|term| term.mismatch(name, &facts.labels)).collect();
        let first = terms.first().zip(mismatches.first());
        let label = first.and_then(|(term, mismatch)| mismatched_label(term, *mismatch, name, facts));
        let write = |mismatches: &Vec<TermMismatch>| {
            let texts: Vec<String> =
                terms.iter().zip(mismatches).map(|(term, mismatch)| term.text(*mismatch)).collect();
            let field_path = "NodeAffinityArgs.addedAffinity".to_owned();
            reference(field_path, texts.join(" or "))
        };
        let written = self.enforced.entry(mismatches).or_insert_with_key(write);
        RejectionDetails { term: Some(Arc::clone(written)), label, ..RejectionDetails::default() }
    }

    /// The existing Pod and its term that reject the incoming Pod.
    fn existing(&mut self, witness: Witness, facts: &'answer NodeFacts) -> RejectionDetails<'answer> {
        let pod = self.witnesses.of(witness.group, witness.node).map(|entry| &entry.key);
        let Some(carried) = self.cluster.carried.get(witness.term) else {
            return RejectionDetails { pod, ..RejectionDetails::default() };
        };
        let term = &carried.carried.term;
        let write = || {
            // The group has the terms of each of its Pods, list by list, in the order of the Pod. So the index of the
            // term in its list is found without parsing a Pod again.
            let group = self.cluster.groups.get(witness.group);
            let numbers = group.map_or(&[][..], |group| &group.key.terms);
            let is_required = |number: &&u32| {
                effort::note(1);
                let carried = self.cluster.carried.get(**number);
                carried.is_some_and(|entry| entry.carried.effect == Effect::RequiredAntiAffinity)
            };
            let index = numbers.iter().filter(is_required).position(|number| *number == witness.term);
            let field_path = format!("spec.{}", TermList::RequiredAntiAffinity.path(index.unwrap_or_default()));
            reference(field_path, pod_term_text(term))
        };
        let written = self.existing.entry((witness.term, witness.group)).or_insert_with(write);
        let label = Some(LabelFound::on_node(facts, &term.topology_key));
        RejectionDetails { term: Some(Arc::clone(written)), label, pod, ..RejectionDetails::default() }
    }
}

/// The incoming Pod's pod affinity term at `index`, and the node's label with its topology key. `written` and `terms`
/// are the same list, as text and parsed.
fn own<'answer>(
    written: &[Arc<TermReference>],
    terms: &'answer [(PodTerm, i32)],
    index: u32,
    facts: &'answer NodeFacts,
) -> RejectionDetails<'answer> {
    let label = terms.get(index as usize).map(|(term, _)| LabelFound::on_node(facts, &term.topology_key));
    RejectionDetails { term: written.get(index as usize).cloned(), label, ..RejectionDetails::default() }
}

/// The node's label, or its name, that does not satisfy a term. `None` if the term is empty or cannot be parsed.
fn mismatched_label<'answer>(
    term: &'answer NodeTerm,
    mismatch: TermMismatch,
    name: &'answer str,
    facts: &'answer NodeFacts,
) -> Option<LabelFound<'answer>> {
    match mismatch {
        TermMismatch::Label(_) => term.label_key(mismatch).map(|key| LabelFound::on_node(facts, key)),
        TermMismatch::Field(_) => Some(LabelFound { key: NAME_FIELD, value: Some(name) }),
        TermMismatch::Empty | TermMismatch::Unparsable => None,
    }
}

/// The requirements of a term that were probably merged from matchLabelKeys or mismatchLabelKeys, as `key=value` or
/// `key!=value`. A stored term does not record their origin. They are recognized by their form: the key is in one of
/// the two lists, the operator is the one that this list gives, and there is one value.
pub fn derived(term: &PodAffinityTerm) -> Vec<String> {
    let expressions = term.label_selector.iter().flat_map(|selector| &selector.match_expressions);
    let matched: HashSet<&str> = term.match_label_keys.iter().map(String::as_str).collect();
    let mismatched: HashSet<&str> = term.mismatch_label_keys.iter().map(String::as_str).collect();
    let is_derived = |requirement: &&super::pod::Requirement| {
        let keys = match &*requirement.operator {
            "In" => &matched,
            "NotIn" => &mismatched,
            _ => return false,
        };
        effort::note(1);
        keys.contains(requirement.key.as_str()) && requirement.values.len() == 1
    };
    let text = |requirement: &super::pod::Requirement| {
        let operator = if requirement.operator == "In" { "=" } else { "!=" };
        format!("{}{operator}{}", requirement.key, requirement.values.join(","))
    };
    expressions.filter(is_derived).map(text).collect()
}

/// Warnings about terms that kube-scheduler 1.34 to 1.36 evaluates differently. In those versions, a namespaceSelector
/// of the incoming Pod with only negative operators (NotIn, DoesNotExist) also covers the namespaces that it excludes.
pub(super) fn negative_namespace_selectors(incoming: &Incoming, options: &Options) -> Vec<String> {
    if !(34..=36).contains(&options.target_minor) {
        return Vec::new();
    }
    let only_excludes = |term: &PodTerm| match &term.namespace_selection {
        LabelSelection::Nothing | LabelSelection::Everything => false,
        LabelSelection::Matching(selector) => {
            selector.requirements.iter().all(|requirement| requirement.operator.is_negative())
        }
    };
    let lists = [
        (TermList::RequiredAffinity, &incoming.required_affinity),
        (TermList::RequiredAntiAffinity, &incoming.required_anti_affinity),
        (TermList::PreferredAffinity, &incoming.preferred_affinity),
        (TermList::PreferredAntiAffinity, &incoming.preferred_anti_affinity),
    ];
    let found = lists.iter().flat_map(|(list, terms)| {
        terms.iter().enumerate().filter(|(_, (term, _))| only_excludes(term)).map(|(index, _)| list.path(index))
    });
    found
        .map(|path| {
            format!(
                "spec.{path}.namespaceSelector has only NotIn and DoesNotExist: kube-scheduler 1.34 to 1.36 also counts \
                 Pods of the namespaces that it excludes (kubernetes/kubernetes#141526). This result does not, so the \
                 scheduler can decide differently. Add a requirement with In or Exists, or a label to matchLabels"
            )
        })
        .collect()
}
