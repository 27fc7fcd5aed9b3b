//! What is behind a rejection, in words: the term, taint, label or pod; and where parts of a term come from.
//!
//! Nothing is decided here. Texts are for people and may change; codes and messages of reasons may not.

use std::collections::HashMap;

use super::cluster::{Cluster, NodeFacts};
use super::domains::Witness;
use super::evaluate::Cause;
use super::incoming::{Incoming, required_term_path};
use super::options::Options;
use super::pod::PodAffinityTerm;
use super::review::{RejectionReport, TermReference};
use super::term::{NAME_FIELD, NodeTerm, PodTerm, TermFault, TermList};
use crate::selector::{LabelOperator, LabelSelection};

/// A label selector as text; none when it selects nothing.
pub(super) fn selection_text(selection: &LabelSelection) -> Option<String> {
    match selection {
        LabelSelection::Nothing => None,
        LabelSelection::Everything => Some(String::new()),
        LabelSelection::Matching(selector) => Some(selector.to_string()),
    }
}

/// `key=value` of a node, or `!key`.
fn label_of(facts: &NodeFacts, key: &str) -> String {
    facts.labels.get(key).map_or_else(|| format!("!{key}"), |value| format!("{key}={value}"))
}

fn pod_term_text(term: &PodTerm) -> String {
    let pods = match selection_text(&term.selection) {
        None => "no pod (its labelSelector is null)".to_owned(),
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
    format!("{pods} in {namespaces}, by {}", term.topology_key)
}

fn own_terms(list: TermList, terms: &[(PodTerm, i32)]) -> Vec<TermReference> {
    let reference = |(index, (term, _)): (usize, &(PodTerm, i32))| TermReference {
        field_path: format!("spec.{}", list.path(index)).into(),
        text: pod_term_text(term).into(),
    };
    terms.iter().enumerate().map(reference).collect()
}

/// Says what is behind rejections. What many nodes have in common is written once and shared.
pub(super) struct Reporter<'answer> {
    cluster: &'answer Cluster,
    incoming: &'answer Incoming,
    affinity: Vec<TermReference>,
    anti_affinity: Vec<TermReference>,
    /// By index of the pair in nodeSelector: what is asked, and the key.
    pairs: Vec<(TermReference, &'answer str)>,
    node_terms: HashMap<(usize, TermFault), TermReference>,
    enforced: HashMap<Vec<TermFault>, TermReference>,
    /// By number of a carried term and group.
    existing: HashMap<(u32, u32), TermReference>,
}

impl<'answer> Reporter<'answer> {
    pub(super) fn new(cluster: &'answer Cluster, incoming: &'answer Incoming) -> Reporter<'answer> {
        let pair = |(key, value): (&'answer String, &String)| {
            let field_path = format!("spec.nodeSelector[{key}]").into();
            (TermReference { field_path, text: format!("{key}={value}").into() }, key.as_str())
        };
        Reporter {
            cluster,
            incoming,
            affinity: own_terms(TermList::RequiredAffinity, &incoming.required_affinity),
            anti_affinity: own_terms(TermList::RequiredAntiAffinity, &incoming.required_anti_affinity),
            pairs: incoming.pod.spec.node_selector.iter().map(pair).collect(),
            node_terms: HashMap::new(),
            enforced: HashMap::new(),
            existing: HashMap::new(),
        }
    }

    /// Adds what is behind the rejection of a node.
    pub(super) fn add_cause(&mut self, report: &mut RejectionReport, cause: &Cause, name: &str, facts: &NodeFacts) {
        match cause {
            Cause::Rule => {}
            Cause::Taint(index) => report.taint = facts.taints.get(*index as usize).map(ToString::to_string),
            Cause::Selector(index) => {
                if let Some((term, key)) = self.pairs.get(*index as usize) {
                    report.term = Some(term.clone());
                    report.label = Some(label_of(facts, key));
                }
            }
            Cause::NodeTerm(index) => self.add_node_term(report, *index, name, facts),
            Cause::Enforced => self.add_enforced(report, name, facts),
            Cause::Affinity(term) => {
                let terms = &self.incoming.required_affinity;
                add_own(report, &self.affinity, terms, *term, facts);
            }
            Cause::AntiAffinity(witness) => {
                let terms = &self.incoming.required_anti_affinity;
                add_own(report, &self.anti_affinity, terms, witness.term, facts);
                report.pod = self.cluster.witness(witness.group, witness.node).map(|entry| entry.key.to_string());
            }
            Cause::Existing(witness) => self.add_existing(report, *witness, facts),
        }
    }

    fn add_node_term(&mut self, report: &mut RejectionReport, index: Option<u32>, name: &str, facts: &NodeFacts) {
        let terms = self.incoming.required.as_deref().unwrap_or_default();
        let found = index.and_then(|index| {
            let term = terms.get(index as usize)?;
            Some((index as usize, term, term.fault(name, &facts.labels)?))
        });
        let Some((index, term, fault)) = found else {
            let field_path = required_term_path(0).trim_end_matches("[0]").into();
            report.term = Some(TermReference { field_path, text: "no term, so no node".into() });
            return;
        };
        let write = || TermReference { field_path: required_term_path(index).into(), text: term.text(fault).into() };
        report.term = Some(self.node_terms.entry((index, fault)).or_insert_with(write).clone());
        report.label = fault_label(term, fault, name, facts);
    }

    fn add_enforced(&mut self, report: &mut RejectionReport, name: &str, facts: &NodeFacts) {
        let terms = self.incoming.enforced.as_deref().unwrap_or_default();
        let faults: Vec<TermFault> = terms.iter().filter_map(|term| term.fault(name, &facts.labels)).collect();
        if let (Some(term), Some(fault)) = (terms.first(), faults.first()) {
            report.label = fault_label(term, *fault, name, facts);
        }
        let write = |faults: &Vec<TermFault>| {
            let texts: Vec<String> = terms.iter().zip(faults).map(|(term, fault)| term.text(*fault)).collect();
            TermReference { field_path: "NodeAffinityArgs.addedAffinity".into(), text: texts.join(" or ").into() }
        };
        report.term = Some(self.enforced.entry(faults).or_insert_with_key(write).clone());
    }

    fn add_existing(&mut self, report: &mut RejectionReport, witness: Witness, facts: &NodeFacts) {
        let entry = self.cluster.witness(witness.group, witness.node);
        report.pod = entry.map(|entry| entry.key.to_string());
        let Some(carried) = self.cluster.carried.get(witness.term) else { return };
        let term = &carried.carried.term;
        report.label = Some(label_of(facts, &term.topology_key));
        let write = || {
            let list = TermList::RequiredAntiAffinity;
            let parsed = entry.map(|entry| list.parse(&self.cluster.document(entry)).unwrap_or_default());
            let index = parsed.and_then(|terms| terms.iter().position(|(candidate, _)| candidate == term));
            TermReference {
                field_path: format!("spec.{}", list.path(index.unwrap_or_default())).into(),
                text: pod_term_text(term).into(),
            }
        };
        report.term = Some(self.existing.entry((witness.term, witness.group)).or_insert_with(write).clone());
    }
}

fn add_own(
    report: &mut RejectionReport,
    written: &[TermReference],
    terms: &[(PodTerm, i32)],
    index: u32,
    facts: &NodeFacts,
) {
    report.term = written.get(index as usize).cloned();
    report.label = terms.get(index as usize).map(|(term, _)| label_of(facts, &term.topology_key));
}

fn fault_label(term: &NodeTerm, fault: TermFault, name: &str, facts: &NodeFacts) -> Option<String> {
    match fault {
        TermFault::Label(_) => term.label_key(fault).map(|key| label_of(facts, key)),
        TermFault::Field(_) => Some(format!("{NAME_FIELD}={name}")),
        TermFault::Empty | TermFault::Unparsable => None,
    }
}

/// The requirements of a term that come from matchLabelKeys or mismatchLabelKeys, as far as a stored term can tell: the key
/// is in a list, the operator is that list's, and there is one value.
pub fn derived(term: &PodAffinityTerm) -> Vec<String> {
    let expressions = term.label_selector.iter().flat_map(|selector| &selector.match_expressions);
    let is_derived = |requirement: &&super::pod::Requirement| {
        let keys = match &*requirement.operator {
            "In" => &term.match_label_keys,
            "NotIn" => &term.mismatch_label_keys,
            _ => return false,
        };
        keys.contains(&requirement.key) && requirement.values.len() == 1
    };
    let text = |requirement: &super::pod::Requirement| {
        let operator = if requirement.operator == "In" { "=" } else { "!=" };
        format!("{}{operator}{}", requirement.key, requirement.values.join(","))
    };
    expressions.filter(is_derived).map(text).collect()
}

/// Where kube-scheduler 1.34 to 1.36 answers differently: it lets a namespaceSelector of the incoming pod that only
/// excludes cover the namespaces it excludes too (kubernetes/kubernetes#141526).
pub(super) fn negative_namespace_selectors(incoming: &Incoming, options: &Options) -> Vec<String> {
    if !(34..=36).contains(&options.target_minor) {
        return Vec::new();
    }
    let only_excludes = |term: &PodTerm| match &term.namespace_selection {
        LabelSelection::Nothing | LabelSelection::Everything => false,
        LabelSelection::Matching(selector) => selector
            .requirements
            .iter()
            .all(|requirement| matches!(requirement.operator, LabelOperator::NotIn(_) | LabelOperator::DoesNotExist)),
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
                "spec.{path}.namespaceSelector only excludes: kube-scheduler 1.34 to 1.36 wrongly covers the excluded \
                 namespaces too (kubernetes/kubernetes#141526)"
            )
        })
        .collect()
}
