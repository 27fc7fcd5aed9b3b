//! An API server's validation of the parts of a Pod that matter for placement, with its messages and warnings.
//!
//! After `ValidatePodSpec` and `ValidatePodCreate` of `pkg/apis/core/validation`, in their order, for new objects.
//! Fields without influence on placement are not validated, with one exception: there must be containers, with names
//! and images ([`containers`]). A document without them is not yet a Pod, or its `containers` are misspelt. A Pod is
//! validated with its label keys merged ([`super::admission`]), a pod template as it is. That is why an API server
//! accepts a Deployment whose pods it rejects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::effort;
use super::node::Taint;
use super::options::Options;
use super::pod::{
    Affinity, MetaV1LabelSelector, NodeSelectorTerm, Pod, PodAffinity, PodAffinityTerm, PodSpec, Requirement,
    Toleration,
};
use super::term::NAME_FIELD;
use super::toleration::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, is_canonical_integer};
use super::warning::Warning;
use crate::model::quote;
use crate::selector::syntax::{dns_label_errors, dns_subdomain_errors, label_key_errors, label_value_errors};
use crate::selector::wire::label_selector;
use crate::selector::{FieldError, FieldErrorType};

/// The maximum number of problems that are reported for one document; the number of warnings may exceed it a little.
/// The text of a problem can be hundreds of times as long as the invalid value, and more problems do not help users.
pub const MOST_PROBLEMS: usize = 100;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The first problems, up to [`MOST_PROBLEMS`].
#[derive(Default)]
struct Problems(Vec<FieldError>);

impl Problems {
    fn push(&mut self, problem: FieldError) {
        self.extend([problem]);
    }

    /// How many more problems can be added.
    fn left(&self) -> usize {
        MOST_PROBLEMS.saturating_sub(self.0.len())
    }
}

impl Extend<FieldError> for Problems {
    fn extend<All: IntoIterator<Item = FieldError>>(&mut self, problems: All) {
        self.0.extend(problems.into_iter().take(self.left()));
    }
}

/// An error about a value that breaks a rule.
fn invalid(field: impl Into<String>, value: &str, detail: impl std::fmt::Display) -> FieldError {
    FieldError::with_text(FieldErrorType::Invalid, field, &quote(value), detail)
}

/// An error about a value that is not in a list of supported ones.
fn unsupported(field: impl Into<String>, value: &str, supported: &[&str]) -> FieldError {
    let supported: Vec<String> = supported.iter().map(|one| quote(one)).collect();
    let detail = format!("supported values: {}", supported.join(", "));
    FieldError::with_text(FieldErrorType::NotSupported, field, &quote(value), detail)
}

/// A warning about a field.
fn warning(field: String, message: impl Into<String>) -> Warning {
    Warning::OfField { field, message: message.into() }
}

/// Errors about a label key.
fn key_errors(field: &str, key: &str) -> impl Iterator<Item = FieldError> {
    label_key_errors(key).into_iter().map(move |error| invalid(field, key, error))
}

/// Validates keys and values of labels.
fn labels(labels: &BTreeMap<String, String>, path: &str, problems: &mut Problems) {
    for (key, value) in labels {
        if problems.left() == 0 {
            break;
        }
        problems.extend(key_errors(path, key));
        problems.extend(label_value_errors(value).into_iter().map(|error| invalid(path, value, error)));
    }
}

/// Validates the `containers` of a Pod or a pod template, which are at `path`: there must be some, with images and
/// valid names. They come from the document, because [`PodSpec`] does not have them. `None`: the document has no
/// containers.
pub fn containers(containers: Option<&Value>, path: &str) -> Vec<FieldError> {
    let containers = containers.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        return vec![FieldError::without_value(FieldErrorType::Required, path, "")];
    }
    let mut problems = Problems::default();
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        let path = format!("{path}[{index}]");
        if !container.is_object() && !container.is_null() {
            problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, path, container, "must be an object"));
            continue;
        }
        let mut text = |member: &str| match container.get(member) {
            None | Some(Value::Null) => Some(""),
            Some(Value::String(text)) => Some(&**text),
            Some(other) => {
                let field = format!("{path}.{member}");
                problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, field, other, "must be a string"));
                None
            }
        };
        let (name, image) = (text("name"), text("image"));
        let name_path = format!("{path}.name");
        if let Some(name) = name {
            match name {
                "" => problems.push(FieldError::without_value(FieldErrorType::Required, &*name_path, "")),
                name => {
                    problems.extend(dns_label_errors(name).into_iter().map(|error| invalid(&*name_path, name, error)));
                }
            }
        }
        if image == Some("") {
            problems.push(FieldError::without_value(FieldErrorType::Required, format!("{path}.image"), ""));
        }
        if let Some(name) = name.filter(|name| !seen.insert(*name)) {
            problems.push(FieldError::with_text(FieldErrorType::Duplicate, name_path, &quote(name), ""));
        }
    }
    problems.0
}

/// Validates a Pod as it is created, after admission. Returns the problems; empty if it is valid.
pub fn pod(pod: &Pod, options: &Options) -> Vec<FieldError> {
    let mut problems = Problems::default();
    labels(&pod.metadata.labels, "metadata.labels", &mut problems);
    problems.extend(pod_spec(&pod.spec, "spec", options));
    if !pod.spec.node_name.is_empty() && !pod.spec.scheduling_gates.is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        problems.push(FieldError::without_value(FieldErrorType::Forbidden, "spec.nodeName", detail));
    }
    problems.0
}

/// Validates a pod template at `path` (`spec.template` in a Deployment). The paths are upstream's: labels
/// are directly below the template.
pub fn template(template: &Pod, path: &str, options: &Options) -> Vec<FieldError> {
    let mut problems = Problems::default();
    labels(&template.metadata.labels, &format!("{path}.labels"), &mut problems);
    problems.extend(pod_spec(&template.spec, &format!("{path}.spec"), options));
    problems.0
}

/// Validates the parts of a PodSpec that decide about placement.
fn pod_spec(spec: &PodSpec, path: &str, options: &Options) -> Vec<FieldError> {
    let mut problems = Problems::default();
    labels(&spec.node_selector, &format!("{path}.nodeSelector"), &mut problems);
    if let Some(affinity) = &spec.affinity {
        validate_affinity(affinity, &format!("{path}.affinity"), &mut problems);
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in spec.scheduling_gates.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        let field = format!("{path}.schedulingGates[{index}]");
        problems.extend(key_errors(&field, &gate.name));
        if !seen.insert(&gate.name) {
            problems.push(FieldError::with_text(FieldErrorType::Duplicate, field, &quote(&gate.name), ""));
        }
    }
    if !spec.node_name.is_empty() {
        let errors = dns_subdomain_errors(&spec.node_name).into_iter();
        problems.extend(errors.map(|error| invalid(format!("{path}.nodeName"), &spec.node_name, error)));
    }
    for (index, toleration) in spec.tolerations.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        validate_toleration(toleration, &format!("{path}.tolerations[{index}]"), options, &mut problems);
    }
    problems.0
}

/// Validates node affinity, pod affinity and anti-affinity.
fn validate_affinity(affinity: &Affinity, path: &str, problems: &mut Problems) {
    if let Some(node_affinity) = &affinity.node_affinity {
        let path = format!("{path}.nodeAffinity");
        if let Some(required) = &node_affinity.required {
            let path = format!("{path}.{REQUIRED}.nodeSelectorTerms");
            if required.node_selector_terms.is_empty() {
                let detail = "must have at least one node selector term";
                problems.push(FieldError::without_value(FieldErrorType::Required, &*path, detail));
            }
            for (index, term) in required.node_selector_terms.iter().enumerate() {
                node_term(term, true, &format!("{path}[{index}]"), problems);
            }
        }
        for (index, preferred) in node_affinity.preferred.iter().enumerate() {
            let path = format!("{path}.{PREFERRED}[{index}]");
            weight(preferred.weight, &path, problems);
            // Upstream permits values here that no label can have: if only one node fits, preferences are not parsed.
            node_term(&preferred.preference, false, &format!("{path}.preference"), problems);
        }
    }
    let both = [("podAffinity", &affinity.pod_affinity), ("podAntiAffinity", &affinity.pod_anti_affinity)];
    for (member, pods) in both {
        if let Some(pods) = pods {
            pod_affinity(pods, &format!("{path}.{member}"), problems);
        }
    }
}

/// Validates the weight of a preference.
fn weight(weight: i32, path: &str, problems: &mut Problems) {
    if !(1..=100).contains(&weight) {
        let value = Value::from(weight);
        let detail = "must be in the range 1-100";
        problems.push(FieldError::with_value(FieldErrorType::Invalid, format!("{path}.weight"), &value, detail));
    }
}

/// Validates a term of a node selector. `checks_values`: whether values of labels are validated.
fn node_term(term: &NodeSelectorTerm, checks_values: bool, path: &str, problems: &mut Problems) {
    for (index, requirement) in term.match_expressions.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        node_requirement(requirement, checks_values, &format!("{path}.matchExpressions[{index}]"), problems);
    }
    for (index, requirement) in term.match_fields.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        field_requirement(requirement, &format!("{path}.matchFields[{index}]"), problems);
    }
}

/// Validates a requirement on a node's labels. `checks_values`: whether its values are validated.
fn node_requirement(requirement: &Requirement, checks_values: bool, path: &str, problems: &mut Problems) {
    let Requirement { key, operator, values } = requirement;
    let wrong_values =
        |reason: FieldErrorType, detail: &str| FieldError::without_value(reason, format!("{path}.values"), detail);
    match &**operator {
        "In" | "NotIn" => {
            problems.extend(values.is_empty().then(|| {
                wrong_values(FieldErrorType::Required, "must be specified when `operator` is 'In' or 'NotIn'")
            }))
        }
        "Exists" | "DoesNotExist" => problems.extend((!values.is_empty()).then(|| {
            wrong_values(
                FieldErrorType::Forbidden,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )
        })),
        "Gt" | "Lt" => problems.extend((values.len() != 1).then(|| {
            wrong_values(FieldErrorType::Required, "must be specified single value when `operator` is 'Lt' or 'Gt'")
        })),
        unknown => problems.push(invalid(format!("{path}.operator"), unknown, "not a valid selector operator")),
    }
    problems.extend(key_errors(&format!("{path}.key"), key));
    for (index, value) in values.iter().enumerate().filter(|_| checks_values) {
        if problems.left() == 0 {
            break;
        }
        let errors = label_value_errors(value).into_iter();
        problems.extend(errors.map(|error| invalid(format!("{path}.values[{index}]"), value, error)));
    }
}

/// Validates a requirement on a node's fields.
fn field_requirement(requirement: &Requirement, path: &str, problems: &mut Problems) {
    let Requirement { key, operator, values } = requirement;
    match &**operator {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            problems.push(FieldError::without_value(FieldErrorType::Required, format!("{path}.values"), detail));
        }
        unknown => problems.push(invalid(format!("{path}.operator"), unknown, "not a valid selector operator")),
    }
    if key != NAME_FIELD {
        problems.push(invalid(format!("{path}.key"), key, "not a valid field selector key"));
        return;
    }
    for (index, value) in values.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        let errors = dns_subdomain_errors(value).into_iter();
        problems.extend(errors.map(|error| invalid(format!("{path}.values[{index}]"), value, error)));
    }
}

/// Validates pod affinity or anti-affinity.
fn pod_affinity(affinity: &PodAffinity, path: &str, problems: &mut Problems) {
    for (index, term) in affinity.required.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        pod_term(term, &format!("{path}.{REQUIRED}[{index}]"), problems);
    }
    for (index, weighted) in affinity.preferred.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        let path = format!("{path}.{PREFERRED}[{index}]");
        weight(weighted.weight, &path, problems);
        pod_term(&weighted.pod_affinity_term, &format!("{path}.podAffinityTerm"), problems);
    }
}

/// Validates a label selector.
fn selector(selector: Option<&MetaV1LabelSelector>, path: &str, problems: &mut Problems) {
    let written = selector.map(|selector| serde_json::to_value(selector).unwrap_or_default()).unwrap_or_default();
    if let Err(found) = label_selector(&written, path, problems.left()) {
        problems.extend(found);
    }
}

/// Validates a pod affinity term.
fn pod_term(term: &PodAffinityTerm, path: &str, problems: &mut Problems) {
    selector(term.label_selector.as_ref(), &format!("{path}.labelSelector"), problems);
    selector(term.namespace_selector.as_ref(), &format!("{path}.namespaceSelector"), problems);
    for name in &term.namespaces {
        if problems.left() == 0 {
            break;
        }
        // The member is called `namespaces`; upstream's path is not.
        let errors = dns_label_errors(name).into_iter();
        problems.extend(errors.map(|error| invalid(format!("{path}.namespace"), name, error)));
    }
    label_keys(term, path, problems);
    let topology_path = format!("{path}.topologyKey");
    if term.topology_key.is_empty() {
        problems.push(FieldError::without_value(FieldErrorType::Required, &*topology_path, "can not be empty"));
    }
    problems.extend(key_errors(&topology_path, &term.topology_key));
}

/// Validates matchLabelKeys and mismatchLabelKeys. A key of matchLabelKeys must not also be in the selector. Admission
/// has already added one requirement for each key to the selector, so only a second requirement with the key is an
/// error. As upstream, the path of this error has no member, and mismatchLabelKeys are not checked for it.
fn label_keys(term: &PodAffinityTerm, path: &str, problems: &mut Problems) {
    let lists = [("matchLabelKeys", &term.match_label_keys), ("mismatchLabelKeys", &term.mismatch_label_keys)];
    for (member, keys) in lists.into_iter().filter(|(_, keys)| !keys.is_empty()) {
        let path = format!("{path}.{member}");
        if term.label_selector.is_none() {
            let detail = "must not be specified when labelSelector is not set";
            problems.push(FieldError::without_value(FieldErrorType::Forbidden, path, detail));
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            problems.extend(key_errors(&format!("{path}[{index}]"), key));
        }
    }
    if let Some(selector) = &term.label_selector {
        let last_index: HashMap<&str, usize> =
            term.match_label_keys.iter().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
        let mut met: BTreeSet<&str> = selector.match_labels.keys().map(String::as_str).collect();
        for Requirement { key, .. } in &selector.match_expressions {
            if let Some(index) = last_index.get(key.as_str()).filter(|_| met.contains(key.as_str())) {
                let detail = "exists in both matchLabelKeys and labelSelector";
                problems.push(invalid(format!("{path}[{index}]"), key, detail));
            }
            met.insert(key);
        }
    }
    let mismatched: HashSet<&str> = term.mismatch_label_keys.iter().map(String::as_str).collect();
    for (index, key) in term.match_label_keys.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        effort::note(1);
        if mismatched.contains(key.as_str()) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            problems.push(invalid(format!("{path}.matchLabelKeys[{index}]"), key, detail));
        }
    }
}

/// Validates a toleration.
fn validate_toleration(toleration: &Toleration, path: &str, options: &Options, problems: &mut Problems) {
    let Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    let operator_path = format!("{path}.operator");
    if !key.is_empty() {
        problems.extend(key_errors(&format!("{path}.key"), key));
    } else if operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        problems.push(invalid(&*operator_path, operator, detail));
    }
    if toleration_seconds.is_some() && effect != NO_EXECUTE {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        problems.push(invalid(format!("{path}.effect"), effect, detail));
    }
    match &**operator {
        "" | "Equal" => {
            let errors = label_value_errors(value);
            if !errors.is_empty() {
                // The path of the operator with the value is upstream's.
                problems.push(invalid(&*operator_path, value, errors.join(";")));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => {
            problems.push(invalid(&*operator_path, value, "value must be empty when `operator` is 'Exists'"));
        }
        // Upstream's list has both operators, although the feature gate is off.
        "Lt" | "Gt" if !options.toleration_comparison => {
            problems.push(unsupported(&*operator_path, operator, &["Equal", "Exists", "Lt", "Gt"]));
        }
        "Lt" | "Gt" => {
            problems.extend(integer_errors(value).map(|error| invalid(format!("{path}.value"), value, error)))
        }
        unknown => problems.push(unsupported(&*operator_path, unknown, &["Equal", "Exists"])),
    }
    if !effect.is_empty() {
        problems.extend(effect_error(effect, &format!("{path}.effect")));
    }
}

/// The errors of the value of a toleration with `Gt` or `Lt`, in the order of upstream's two checks: the form, then the
/// range of 64 bits.
fn integer_errors(value: &str) -> impl Iterator<Item = String> {
    let form = match value {
        "" => Some("must be non-empty".to_owned()),
        value if is_canonical_integer(value) => None,
        _ => Some("must be a valid decimal integer in canonical form".to_owned()),
    };
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let range = value.parse::<i64>().is_err().then(|| {
        let error = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {}: {error}", quote(value))
    });
    form.into_iter().chain(range)
}

/// An error if the text is not an effect of a taint; `None` if it is.
fn effect_error(effect: &str, path: &str) -> Option<FieldError> {
    let supported = [NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE];
    (!supported.contains(&effect)).then(|| unsupported(path, effect, &supported))
}

/// Validates the taints of a Node as an API server does. `path` is the path of the list: `spec.taints` in a Node.
pub fn taints(taints: &[Taint], path: &str) -> Vec<FieldError> {
    let mut problems = Problems::default();
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        if problems.left() == 0 {
            break;
        }
        let path = format!("{path}[{index}]");
        problems.extend(key_errors(&format!("{path}.key"), &taint.key));
        let errors = label_value_errors(&taint.value);
        if !errors.is_empty() {
            problems.push(invalid(format!("{path}.value"), &taint.value, errors.join(";")));
        }
        let effect_path = format!("{path}.effect");
        if taint.effect.is_empty() {
            problems.push(FieldError::without_value(FieldErrorType::Required, effect_path, ""));
        } else {
            problems.extend(effect_error(&taint.effect, &effect_path));
        }
        if !seen.insert((&taint.effect, &taint.key)) {
            let shown = serde_json::to_value(taint).unwrap_or_default();
            let detail = "taints must be unique by key and effect pair";
            problems.push(FieldError::with_value(FieldErrorType::Duplicate, path, &shown, detail));
        }
    }
    problems.0
}

/// The message about a deprecated node label (upstream's `pkg/api/node`); `None` if the key is not deprecated.
pub fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// The warnings that an API server returns about a Pod's spec at `path`: deprecated node labels, values of preferences
/// that no label can have, and null label selectors.
pub fn warnings(spec: &PodSpec, path: &str) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for key in spec.node_selector.keys() {
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(warning(format!("{path}.nodeSelector[{key}]"), message));
        }
    }
    let affinity = format!("{path}.affinity");
    let required = spec.required_node_affinity().into_iter().flat_map(|required| &required.node_selector_terms);
    for (index, term) in required.enumerate() {
        let path = format!("{affinity}.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{index}]");
        warn_of_node_term(term, false, &path, &mut warnings);
    }
    for (index, preferred) in spec.preferred_node_affinity().iter().enumerate() {
        let path = format!("{affinity}.nodeAffinity.{PREFERRED}[{index}].preference");
        warn_of_node_term(&preferred.preference, true, &path, &mut warnings);
    }
    for list in super::term::TermList::ALL {
        for (index, (term, _)) in list.written(spec).into_iter().enumerate() {
            if term.label_selector.is_none() {
                let field = format!("{path}.{}.labelSelector", list.path(index));
                warnings.push(warning(field, "a null labelSelector results in matching no pod"));
            }
        }
    }
    warnings
}

/// Adds warnings about deprecated labels in a node selector term, and, if `checks_values`, about values that no label
/// can have.
fn warn_of_node_term(term: &NodeSelectorTerm, checks_values: bool, path: &str, warnings: &mut Vec<Warning>) {
    for (index, Requirement { key, values, .. }) in term.match_expressions.iter().enumerate() {
        if warnings.len() >= MOST_PROBLEMS {
            break;
        }
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(warning(format!("{path}.matchExpressions[{index}].key"), format!("{key} is {message}")));
        }
        for (position, value) in values.iter().enumerate().filter(|_| checks_values) {
            if warnings.len() >= MOST_PROBLEMS {
                break;
            }
            let errors = label_value_errors(value).into_iter();
            let field = format!("{path}.matchExpressions[{index}].values[{position}]");
            warnings.extend(errors.map(|error| warning(field.clone(), format!("{value} is invalid, {error}"))));
        }
    }
}
