//! Terms ready to be matched: label selectors, node selector terms, pod affinity terms.
//!
//! Parsing a term may fail even in a stored Pod, and the consequence differs. A node selector term that cannot be
//! parsed matches no node, while the others still count. One such pod affinity term makes its whole list void.
//! [`super::evaluate`] applies the terms to pods and nodes; [`super::validate`] has the messages of validation.
//! Sources: component-helpers `scheduling/corev1/nodeaffinity`, kube-scheduler `framework/types.go`, apimachinery
//! `labels.NewRequirement`.

use std::collections::BTreeSet;
use std::fmt;

use super::labels::PackedLabels;
use super::pod;
use crate::model::quote;
use crate::selector::syntax::{label_key_errors, label_value_errors};
use crate::selector::{Dialect, LabelRequirement, LabelSelection, LabelSelector, OperandError, OperatorName};

/// A term that cannot be parsed: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Unparsable {
    /// The field, relative to the Pod.
    pub path: String,
    /// The error, in the words of apimachinery.
    pub message: String,
}

/// Whether labels satisfy a selection.
pub(super) fn selects(selection: &LabelSelection, labels: &PackedLabels) -> bool {
    match selection {
        LabelSelection::Nothing => false,
        LabelSelection::Everything => true,
        LabelSelection::Matching(selector) => all_hold(&selector.requirements, labels),
    }
}

/// Whether labels satisfy all requirements.
pub(super) fn all_hold(requirements: &[LabelRequirement], labels: &PackedLabels) -> bool {
    requirements.iter().all(|requirement| requirement.matches(labels.get(&requirement.key)))
}

/// Parses a requirement of a label selector or a node selector, which is at `path` in the Pod.
fn requirement(written: &pod::Requirement, dialect: Dialect, path: &str) -> Result<LabelRequirement, Unparsable> {
    let refused = |member: &str, message: String| Err(Unparsable { path: format!("{path}.{member}"), message });
    let pod::Requirement { key, operator, values } = written;
    let Some(name) = OperatorName::read(operator, dialect) else {
        let message = if dialect == Dialect::NodeSelector {
            let supported: Vec<String> = OperatorName::all_in(dialect).map(|name| quote(name.as_str())).collect();
            format!("Unsupported value: {}: supported values: {}", quote(operator), supported.join(", "))
        } else {
            format!("{} is not a valid label selector operator", quote(operator))
        };
        return refused("operator", message);
    };
    let operator = match name.with_values(values.clone()) {
        Ok(operator) => operator,
        Err(error) => {
            let message = match error {
                OperandError::Missing => {
                    "Invalid value: for 'in', 'notin' operators, values set can't be empty".to_owned()
                }
                OperandError::Forbidden => {
                    "Invalid value: values set must be empty for exists and does not exist".to_owned()
                }
                OperandError::NotOne => {
                    "Invalid value: for 'Gt', 'Lt' operators, exactly one value is required".to_owned()
                }
                OperandError::NotInteger(value) => {
                    let quoted = quote(&value);
                    format!("Invalid value: {quoted}: for 'Gt', 'Lt' operators, the value must be an integer")
                }
            };
            return refused("values", message);
        }
    };
    if let Some(error) = label_key_errors(key).first() {
        return refused("key", format!("Invalid value: {}: {error}", quote(key)));
    }
    for (index, value) in values.iter().enumerate() {
        if let Some(error) = label_value_errors(value).first() {
            return refused(&format!("values[{index}]"), format!("Invalid value: {}: {error}", quote(value)));
        }
    }
    Ok(LabelRequirement { key: key.clone(), operator })
}

/// Parses a metav1.LabelSelector, which is at `path` in the Pod. `None` (null) selects nothing.
pub(super) fn selection(written: Option<&pod::MetaV1LabelSelector>, path: &str) -> Result<LabelSelection, Unparsable> {
    let Some(written) = written else { return Ok(LabelSelection::Nothing) };
    let mut requirements = Vec::new();
    for (key, value) in &written.match_labels {
        let equality = pod::Requirement { key: key.clone(), operator: "In".to_owned(), values: vec![value.clone()] };
        requirements.push(requirement(&equality, Dialect::Requirement, &format!("{path}.matchLabels[{key}]"))?);
    }
    for (index, expression) in written.match_expressions.iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        requirements.push(requirement(expression, Dialect::Requirement, &path)?);
    }
    Ok(if requirements.is_empty() {
        LabelSelection::Everything
    } else {
        LabelSelection::Matching(LabelSelector::new(requirements))
    })
}

/// The only field of a node that a term can name.
pub(super) const NAME_FIELD: &str = "metadata.name";

/// One requirement on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeFieldRequirement {
    key: String,
    is_equal: bool,
    value: String,
}

impl NodeFieldRequirement {
    /// Whether a node of this name satisfies the requirement. Fields other than the name are empty.
    fn holds(&self, name: &str) -> bool {
        let value = if self.key == NAME_FIELD { name } else { "" };
        (value == self.value) == self.is_equal
    }
}

/// The requirements of a node selector term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeTerm {
    /// No requirement at all: it matches no node.
    Empty,
    /// The term cannot be parsed, and matches no node.
    Unparsable(Unparsable),
    /// All must hold.
    Parsed { labels: Vec<LabelRequirement>, fields: Vec<NodeFieldRequirement> },
}

/// The reason why a node selector term does not match a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TermMismatch {
    /// The term has no requirements.
    Empty,
    /// The term cannot be parsed.
    Unparsable,
    /// The requirement on a label, by its position.
    Label(usize),
    /// The requirement on a field, by its position.
    Field(usize),
}

impl NodeTerm {
    /// Parses a term, which is at `path` in the Pod. A term that cannot be parsed becomes [`NodeTerm::Unparsable`].
    pub(super) fn new(written: &pod::NodeSelectorTerm, path: &str) -> NodeTerm {
        if written.match_expressions.is_empty() && written.match_fields.is_empty() {
            return NodeTerm::Empty;
        }
        match NodeTerm::parse(written, path) {
            Ok(parsed) => parsed,
            Err(error) => NodeTerm::Unparsable(error),
        }
    }

    /// Parses the requirements of a term. The error has the path of the first requirement that cannot be parsed.
    fn parse(written: &pod::NodeSelectorTerm, path: &str) -> Result<NodeTerm, Unparsable> {
        let mut labels = Vec::new();
        for (index, expression) in written.match_expressions.iter().enumerate() {
            labels.push(requirement(expression, Dialect::NodeSelector, &format!("{path}.matchExpressions[{index}]"))?);
        }
        let mut fields = Vec::new();
        for (index, field) in written.match_fields.iter().enumerate() {
            let refused = |member: &str, message: String| Unparsable {
                path: format!("{path}.matchFields[{index}].{member}"),
                message,
            };
            let is_equal = match &*field.operator {
                "In" => true,
                "NotIn" => false,
                unknown => {
                    let message = format!("Unsupported value: {}: supported values: \"In\", \"NotIn\"", quote(unknown));
                    return Err(refused("operator", message));
                }
            };
            let [value] = &field.values[..] else {
                return Err(refused("values", "Invalid value: must have one element".to_owned()));
            };
            fields.push(NodeFieldRequirement { key: field.key.clone(), is_equal, value: value.clone() });
        }
        Ok(NodeTerm::Parsed { labels, fields })
    }

    /// Whether a node has the labels and the name that the term requires.
    pub(super) fn matches(&self, name: &str, node_labels: &PackedLabels) -> bool {
        match self {
            NodeTerm::Empty | NodeTerm::Unparsable(_) => false,
            NodeTerm::Parsed { labels, fields } => {
                all_hold(labels, node_labels) && fields.iter().all(|field| field.holds(name))
            }
        }
    }

    /// Why the term does not match the node: the first requirement that the node does not satisfy. `None` if it
    /// matches.
    pub(super) fn mismatch(&self, name: &str, node_labels: &PackedLabels) -> Option<TermMismatch> {
        match self {
            NodeTerm::Empty => Some(TermMismatch::Empty),
            NodeTerm::Unparsable(_) => Some(TermMismatch::Unparsable),
            NodeTerm::Parsed { labels, fields } => {
                let label = labels.iter().position(|label| !label.matches(node_labels.get(&label.key)));
                let field = || fields.iter().position(|field| !field.holds(name)).map(TermMismatch::Field);
                label.map(TermMismatch::Label).or_else(field)
            }
        }
    }

    /// The requirement of a mismatch as text for users, or a message if the term is empty or cannot be parsed.
    pub(super) fn text(&self, mismatch: TermMismatch) -> String {
        match (self, mismatch) {
            (NodeTerm::Unparsable(error), _) => format!("a term that cannot be parsed matches no node: {error}"),
            (NodeTerm::Parsed { labels, .. }, TermMismatch::Label(position)) => {
                labels.get(position).map(ToString::to_string).unwrap_or_default()
            }
            (NodeTerm::Parsed { fields, .. }, TermMismatch::Field(position)) => {
                fields.get(position).map(ToString::to_string).unwrap_or_default()
            }
            _ => "an empty term matches no node".to_owned(),
        }
    }

    /// The key of the label that did not match; `None` if the mismatch is not about a label.
    pub(super) fn label_key(&self, mismatch: TermMismatch) -> Option<&str> {
        match (self, mismatch) {
            (NodeTerm::Parsed { labels, .. }, TermMismatch::Label(position)) => {
                labels.get(position).map(|label| label.key.as_str())
            }
            _ => None,
        }
    }
}

impl fmt::Display for NodeFieldRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeFieldRequirement { key, is_equal, value } = self;
        write!(formatter, "{key}{}{value}", if *is_equal { "=" } else { "!=" })
    }
}

/// The nodes that required node affinity allows by name (`matchFields` with `metadata.name In`). The scheduler decides
/// this before it evaluates any node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Narrowing {
    /// All nodes: there is no term, or a term without node names.
    All,
    /// Only these nodes, whether or not they exist.
    Names(BTreeSet<String>),
    /// No node: the names contradict each other. The scheduler stops.
    Conflict,
}

impl Narrowing {
    /// Reads the node names of required node affinity. A term allows the names that all its `metadata.name In` fields
    /// have, and one term is enough. Terms that cannot be parsed count too, as in the scheduler.
    pub(super) fn from_terms(required: Option<&pod::NodeSelector>) -> Narrowing {
        let terms = required.map_or(&[][..], |required| &required.node_selector_terms);
        let mut names = BTreeSet::new();
        for term in terms {
            let fields = term.match_fields.iter().filter(|field| field.key == NAME_FIELD && field.operator == "In");
            let sets = fields.map(|field| field.values.iter().cloned().collect::<BTreeSet<String>>());
            match sets.reduce(|left, right| &left & &right) {
                // This term allows any name.
                None => return Narrowing::All,
                Some(common) => names.extend(common),
            }
        }
        match (terms.is_empty(), names.is_empty()) {
            (true, _) => Narrowing::All,
            (false, true) => Narrowing::Conflict,
            (false, false) => Narrowing::Names(names),
        }
    }
}

/// A pod affinity term whose default namespace is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PodTerm {
    pub(super) selection: LabelSelection,
    /// Sorted, without repetition.
    pub(super) namespaces: Vec<String>,
    /// Null is [`LabelSelection::Nothing`].
    pub(super) namespace_selection: LabelSelection,
    pub(super) topology_key: String,
}

impl PodTerm {
    /// Parses a term, which is at `path` in its Pod. `namespace` is the namespace of that Pod, which the term covers if
    /// it does not state namespaces.
    pub(super) fn new(written: &pod::PodAffinityTerm, namespace: &str, path: &str) -> Result<PodTerm, Unparsable> {
        let own = written.namespaces.is_empty() && written.namespace_selector.is_none();
        let mut namespaces = if own { vec![namespace.to_owned()] } else { written.namespaces.clone() };
        namespaces.sort();
        namespaces.dedup();
        Ok(PodTerm {
            selection: selection(written.label_selector.as_ref(), &format!("{path}.labelSelector"))?,
            namespaces,
            namespace_selection: selection(written.namespace_selector.as_ref(), &format!("{path}.namespaceSelector"))?,
            topology_key: written.topology_key.clone(),
        })
    }

    /// Whether a term of an existing pod covers a namespace with these labels, which are empty if there is no such
    /// Namespace object. For terms of the incoming pod see `ClusterIndex::coverage`, which selects only existing
    /// namespaces by label.
    pub(super) fn covers(&self, namespace: &str, labels: &PackedLabels) -> bool {
        let by_label = || selects(&self.namespace_selection, labels);
        self.namespaces.binary_search_by(|candidate| candidate.as_str().cmp(namespace)).is_ok() || by_label()
    }
}

/// One of the four lists of pod affinity terms of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TermList {
    /// podAffinity, required.
    RequiredAffinity,
    /// podAntiAffinity, required.
    RequiredAntiAffinity,
    /// podAffinity, preferred.
    PreferredAffinity,
    /// podAntiAffinity, preferred.
    PreferredAntiAffinity,
}

/// The maximum number of node affinity and pod affinity terms of a Pod that a review evaluates. kube-apiserver limits
/// only the size of an object, to about 8,500 terms. Each term is compared with all groups of Pods or all nodes. Pods
/// usually have a handful.
pub const MOST_TERMS: usize = 256;

/// Requirements on nodes and Pods, label keys and tolerations of one Pod that a review evaluates at most. Each is
/// tested for all nodes or namespaces.
pub const MOST_REQUIREMENTS: usize = 1_024;

/// The maximum number of pod affinity terms of an existing Pod in the index, which all tenants share.
pub const MOST_CARRIED: usize = 1_024;

/// The number of pod affinity and anti-affinity terms.
fn pod_term_count(spec: &pod::PodSpec) -> usize {
    TermList::ALL.iter().map(|list| list.written(spec).len()).sum()
}

/// The number of requirements and label keys in all affinity terms.
fn requirement_count(spec: &pod::PodSpec) -> usize {
    let of_term = |term: &pod::NodeSelectorTerm| term.match_expressions.len() + term.match_fields.len();
    let required = spec.required_node_affinity().into_iter().flat_map(|required| &required.node_selector_terms);
    let preferred = spec.preferred_node_affinity().iter().map(|preferred| &preferred.preference);
    let of_selector = |selector: &Option<pod::MetaV1LabelSelector>| {
        selector.as_ref().map_or(0, |selector| selector.match_labels.len() + selector.match_expressions.len())
    };
    let of_pod_term = |term: &pod::PodAffinityTerm| {
        let keys = term.match_label_keys.len() + term.mismatch_label_keys.len();
        of_selector(&term.label_selector) + of_selector(&term.namespace_selector) + keys
    };
    let pod_terms = TermList::ALL.iter().flat_map(|list| list.written(spec));
    required.chain(preferred).map(of_term).sum::<usize>() + pod_terms.map(|(term, _)| of_pod_term(term)).sum::<usize>()
}

/// The error for a Pod with more than [`MOST_TERMS`] terms or [`MOST_REQUIREMENTS`] requirements: the field with most
/// of them, and the message. `None` if it has no more.
pub fn too_many_terms(spec: &pod::PodSpec) -> Option<(&'static str, String)> {
    let of_nodes = spec.required_node_affinity().map_or(0, |required| required.node_selector_terms.len());
    let terms = of_nodes + spec.preferred_node_affinity().len() + pod_term_count(spec);
    if terms > MOST_TERMS {
        let message = format!("the Pod has {terms} affinity terms; a review evaluates at most {MOST_TERMS}");
        return Some(("spec.affinity", message));
    }
    let parts = [
        (requirement_count(spec), "spec.affinity"),
        (spec.node_selector.len(), "spec.nodeSelector"),
        (spec.tolerations.len(), "spec.tolerations"),
    ];
    let all: usize = parts.iter().map(|(number, _)| number).sum();
    let (_, field) = parts.into_iter().max()?;
    let message = || {
        format!(
            "the Pod has {all} requirements, label keys and tolerations; a review evaluates at most {MOST_REQUIREMENTS}"
        )
    };
    (all > MOST_REQUIREMENTS).then(|| (field, message()))
}

/// The message for an existing Pod with more than [`MOST_CARRIED`] pod affinity terms; `None` if it has no more.
pub fn too_many_carried_terms(spec: &pod::PodSpec) -> Option<String> {
    let terms = pod_term_count(spec);
    (terms > MOST_CARRIED)
        .then(|| format!("it has {terms} pod affinity terms, and placement evaluates at most {MOST_CARRIED} of an existing Pod: remove some"))
}

impl TermList {
    /// All four lists.
    pub const ALL: [TermList; 4] = [
        TermList::RequiredAffinity,
        TermList::RequiredAntiAffinity,
        TermList::PreferredAffinity,
        TermList::PreferredAntiAffinity,
    ];

    /// The path of the term at `index` of this list, within a Pod's spec.
    pub fn path(self, index: usize) -> String {
        let (affinity, list, tail) = match self {
            TermList::RequiredAffinity => ("podAffinity", "required", ""),
            TermList::RequiredAntiAffinity => ("podAntiAffinity", "required", ""),
            TermList::PreferredAffinity => ("podAffinity", "preferred", ".podAffinityTerm"),
            TermList::PreferredAntiAffinity => ("podAntiAffinity", "preferred", ".podAffinityTerm"),
        };
        format!("affinity.{affinity}.{list}DuringSchedulingIgnoredDuringExecution[{index}]{tail}")
    }

    /// The terms of this list as they are written, with their weights; the weight of a required term is 0.
    pub fn written(self, spec: &pod::PodSpec) -> Vec<(&pod::PodAffinityTerm, i32)> {
        let affinity = match self {
            TermList::RequiredAffinity | TermList::PreferredAffinity => spec.pod_affinity(),
            TermList::RequiredAntiAffinity | TermList::PreferredAntiAffinity => spec.pod_anti_affinity(),
        };
        let Some(affinity) = affinity else { return Vec::new() };
        match self {
            TermList::RequiredAffinity | TermList::RequiredAntiAffinity => {
                affinity.required.iter().map(|term| (term, 0)).collect()
            }
            TermList::PreferredAffinity | TermList::PreferredAntiAffinity => {
                affinity.preferred.iter().map(|term| (&term.pod_affinity_term, term.weight)).collect()
            }
        }
    }

    /// Parses the terms of this list, with their weights; the weight of a required term is 0.
    ///
    /// # Errors
    /// The first term that cannot be parsed. The scheduler then ignores the whole list if the Pod exists, and rejects
    /// the Pod if it is to be placed.
    pub(super) fn parse(self, pod: &pod::Pod) -> Result<Vec<(PodTerm, i32)>, Unparsable> {
        let written = self.written(&pod.spec).into_iter().enumerate();
        written
            .map(|(index, (term, weight))| {
                let path = format!("spec.{}", self.path(index));
                PodTerm::new(term, &pod.metadata.namespace, &path).map(|term| (term, weight))
            })
            .collect()
    }
}
