//! What is behind a rejection, in words: the term, taint, label or pod; and where parts of a term come from.
//!
//! Nothing is decided here. Texts are for people and may change; codes and messages of reasons may not.

use super::cluster::{Cluster, NodeFacts};
use super::evaluate::Cause;
use super::incoming::{Incoming, required_term_path};
use super::options::Options;
use super::pod::PodAffinityTerm;
use super::review::{RejectionReport, TermReference};
use super::term::{NAME_FIELD, NodeTerm, PodTerm, TermFault, TermList};
use crate::selector::{LabelOperator, LabelSelection};

/// What a cause is about.
pub(super) struct Context<'answer> {
    pub(super) cluster: &'answer Cluster,
    pub(super) incoming: &'answer Incoming,
    /// Of the node.
    pub(super) name: &'answer str,
    pub(super) facts: &'answer NodeFacts,
}

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

fn fault_text(fault: &TermFault<'_>) -> String {
    match fault {
        TermFault::Empty => "an empty term matches no node".to_owned(),
        TermFault::Unparsable(fault) => format!("a term that cannot be parsed matches no node: {fault}"),
        TermFault::Label(requirement) => requirement.to_string(),
        TermFault::Field(requirement) => requirement.to_string(),
    }
}

/// Adds what is behind a rejection.
pub(super) fn add_cause(mut report: RejectionReport, context: &Context<'_>, cause: &Cause) -> RejectionReport {
    let Context { cluster, incoming, name, facts } = context;
    match cause {
        Cause::Rule => {}
        Cause::Taint(index) => report.taint = facts.taints.get(*index as usize).map(ToString::to_string),
        Cause::Selector { key, value } => {
            report.term =
                Some(TermReference { field_path: format!("spec.nodeSelector[{key}]"), text: format!("{key}={value}") });
            report.label = Some(label_of(facts, key));
        }
        Cause::NodeTerm(index) => {
            let terms = incoming.required.as_deref().unwrap_or_default();
            let term = index.and_then(|index| terms.get(index as usize).map(|term| (index, term)));
            let fault = term.and_then(|(_, term)| term.fault(name, &facts.labels));
            report.term = Some(TermReference {
                field_path: term.map_or_else(
                    || required_term_path(0).trim_end_matches("[0]").to_owned(),
                    |(index, _)| required_term_path(index as usize),
                ),
                text: fault.as_ref().map_or_else(|| "no term, so no node".to_owned(), fault_text),
            });
            report.label = fault.and_then(|fault| fault_label(&fault, name, facts));
        }
        Cause::Enforced => {
            let terms = incoming.enforced.as_deref().unwrap_or_default();
            let faults: Vec<TermFault<'_>> =
                terms.iter().filter_map(|term: &NodeTerm| term.fault(name, &facts.labels)).collect();
            let texts: Vec<String> = faults.iter().map(fault_text).collect();
            report.term = Some(TermReference {
                field_path: "NodeAffinityArgs.addedAffinity".to_owned(),
                text: texts.join(" or "),
            });
            report.label = faults.first().and_then(|fault| fault_label(fault, name, facts));
        }
        Cause::Affinity { term, has_domain } => {
            let list = TermList::RequiredAffinity;
            report.term = own_term(list, &incoming.required_affinity, *term);
            if let Some((term, _)) = incoming.required_affinity.get(*term as usize) {
                report.label = Some(label_of(facts, &term.topology_key));
                debug_assert_eq!(facts.labels.get(&term.topology_key).is_some(), *has_domain);
            }
        }
        Cause::AntiAffinity(witness) => {
            report.term = own_term(TermList::RequiredAntiAffinity, &incoming.required_anti_affinity, witness.term);
            if let Some((term, _)) = incoming.required_anti_affinity.get(witness.term as usize) {
                report.label = Some(label_of(facts, &term.topology_key));
            }
            report.pod = cluster.witness(witness.group, witness.node).map(|entry| entry.key.to_string());
        }
        Cause::Existing(witness) => {
            let entry = cluster.witness(witness.group, witness.node);
            if let Some(carried) = cluster.carried.get(witness.term) {
                let term = &carried.carried.term;
                let list = TermList::RequiredAntiAffinity;
                let index = entry.and_then(|entry| {
                    let parsed = list.parse(&cluster.document(entry)).unwrap_or_default();
                    parsed.iter().position(|(candidate, _)| candidate == term)
                });
                report.term = Some(TermReference {
                    field_path: format!("spec.{}", list.path(index.unwrap_or_default())),
                    text: pod_term_text(term),
                });
                report.label = Some(label_of(facts, &term.topology_key));
            }
            report.pod = entry.map(|entry| entry.key.to_string());
        }
    }
    report
}

fn own_term(list: TermList, terms: &[(PodTerm, i32)], index: u32) -> Option<TermReference> {
    let (term, _) = terms.get(index as usize)?;
    Some(TermReference { field_path: format!("spec.{}", list.path(index as usize)), text: pod_term_text(term) })
}

fn fault_label(fault: &TermFault<'_>, name: &str, facts: &NodeFacts) -> Option<String> {
    match fault {
        TermFault::Label(requirement) => Some(label_of(facts, &requirement.key)),
        TermFault::Field(_) => Some(format!("{NAME_FIELD}={name}")),
        TermFault::Empty | TermFault::Unparsable(_) => None,
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
