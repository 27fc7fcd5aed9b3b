//! From a PlacementReview to a result: validates the review, applies its premises and prepares the Pod.
//!
//! The caller has authorized the request, and has fetched the Pod of a `podRef` and the RuntimeClass that a new Pod
//! names.

use serde_json::Value;

use super::admission::{AdmissionError, RuntimeScheduling, admit};
use super::answer::PlacementResult;
use super::cluster::ClusterIndex;
use super::node::Taint;
use super::options::Options;
use super::pod::Pod;
use super::review::{PlacementReviewSpec, WhatIf};
use super::term::too_many_terms;
use super::unknown::{PodShapeErrors, pod_shape_errors, workload_shape_errors};
use super::validate;
use super::warning::Warning;
use super::workload::Workload;
use crate::selector::{FieldError, FieldErrorType};

/// The maximum number of taints, of labels and of omitted Pods in `whatIf`, and of `nodeNames`: a review is one
/// request.
pub const MAX_PREMISES: usize = 1_000;

/// The objects that a review refers to, fetched by the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetched<'caller> {
    /// The Pod of the `podRef`. `None`: the review has no `podRef`, or the Pod does not exist.
    pub stored: Option<&'caller Pod>,
    /// The scheduling constraints of a new Pod's RuntimeClass. `None`: the Pod names no RuntimeClass, or its
    /// RuntimeClass has no constraints.
    pub runtime: Option<&'caller RuntimeScheduling>,
}

/// A result, and the warnings that an API server would have returned.
#[derive(Debug)]
pub struct Reviewed {
    /// The result.
    pub answer: PlacementResult,
    /// Warnings about the Pod or the workload as it was sent, with paths in it: unknown fields, deprecated labels, null
    /// selectors.
    pub warnings: Vec<Warning>,
}

impl PlacementReviewSpec {
    /// Evaluates the review on `cluster`, changed as `whatIf` states. A new Pod is first defaulted, admitted and
    /// validated as by an API server; a stored Pod is evaluated as it is.
    ///
    /// # Errors
    /// The review is invalid, the Pod of the `podRef` does not exist, an API server would reject the Pod, or the Pod
    /// has too many terms to evaluate.
    pub fn answer(
        &self,
        cluster: &ClusterIndex,
        fetched: Fetched<'_>,
        options: &Options,
    ) -> Result<Reviewed, AdmissionError> {
        let problems = self.problems(cluster);
        if !problems.is_empty() {
            return Err(AdmissionError::Invalid(problems));
        }
        let premised = self.what_if.as_ref().map(|what_if| apply(cluster, what_if));
        let cluster = premised.as_ref().unwrap_or(cluster);
        let mut warnings = Vec::new();
        let pod = match (&self.pod, &self.template) {
            // Errors of the document's shape come first: serde would read some of these values as others.
            (Some(document), _) => {
                warnings.extend(unknown_field_warnings(self.shape_errors())?);
                let pod = read_pod(document)?;
                warnings.extend(validate::warnings(&pod.spec, "spec"));
                let missing = validate::containers(document.pointer("/spec/containers"), "spec.containers");
                match admit(pod, fetched.runtime, options) {
                    Err(AdmissionError::Invalid(problems)) => {
                        return Err(AdmissionError::Invalid(sort_errors(missing, problems)));
                    }
                    Ok(_) if !missing.is_empty() => return Err(AdmissionError::Invalid(missing)),
                    admitted => admitted?,
                }
            }
            (None, Some(document)) => {
                warnings.extend(unknown_field_warnings(self.shape_errors())?);
                let workload = Workload::read(document)
                    .map_err(|error| AdmissionError::Invalid(vec![invalid("spec.template", &error.to_string())]))?;
                let path = workload.template_path;
                warnings.extend(validate::warnings(&workload.template.spec, &format!("{path}.spec")));
                let containers = document.pointer(&format!("/{}/spec/containers", path.replace('.', "/")));
                let missing = validate::containers(containers, &format!("{path}.spec.containers"));
                let problems = sort_errors(missing, validate::template(&workload.template, path, options));
                if !problems.is_empty() {
                    return Err(AdmissionError::Invalid(problems));
                }
                admit(workload.pod, fetched.runtime, options)?
            }
            (None, None) => match fetched.stored {
                Some(stored) => {
                    if !stored.spec.node_name.is_empty() {
                        let node = &stored.spec.node_name;
                        let text = format!("the Pod is bound to {node}, so no other node is possible");
                        warnings.push(Warning::Note(text));
                    }
                    stored.clone()
                }
                None => return Err(AdmissionError::Invalid(vec![invalid("spec.podRef", "there is no such Pod")])),
            },
        };
        if let Some((field, message)) = too_many_terms(&pod.spec) {
            let field = if self.document_path().is_some() { field } else { "spec.podRef" };
            return Err(AdmissionError::Invalid(vec![invalid(field, &message)]));
        }
        let answer = cluster.review(&pod, options);
        Ok(Reviewed { answer, warnings })
    }

    /// The unknown fields, and the values of a wrong type, in the Pod or the workload; the paths begin in that
    /// document. Empty for a stored Pod. [`PlacementReviewSpec::answer`] checks the same, but a client needs the
    /// unknown fields even if the review is rejected.
    pub fn shape_errors(&self) -> PodShapeErrors {
        match (&self.pod, &self.template) {
            (Some(pod), _) => pod_shape_errors(pod),
            (None, Some(workload)) => workload_shape_errors(workload),
            (None, None) => PodShapeErrors::default(),
        }
    }

    /// The path of the Pod or the workload in a review; `None` for a stored Pod.
    pub fn document_path(&self) -> Option<&'static str> {
        match (&self.pod, &self.template) {
            (Some(_), _) => Some("spec.pod"),
            (None, Some(_)) => Some("spec.template"),
            (None, None) => None,
        }
    }

    /// Validates the review, but not its Pod: the number of its items, and the nodes, taints and labels of `whatIf`.
    /// Returns the errors; empty if the review is valid.
    fn problems(&self, cluster: &ClusterIndex) -> Vec<FieldError> {
        let mut problems = Vec::new();
        let given = [self.pod.is_some(), self.template.is_some(), self.pod_ref.is_some()];
        if given.iter().filter(|is_given| **is_given).count() != 1 {
            problems.push(invalid("spec", "exactly one of pod, template and podRef must be given"));
        }
        let mut limit = |field: &str, length: usize| {
            if length > MAX_PREMISES {
                let detail = format!("must have at most {MAX_PREMISES} items");
                problems.push(FieldError::with_text(FieldErrorType::TooMany, field, &length.to_string(), detail));
            }
        };
        limit("spec.nodeNames", self.node_names.len());
        let Some(what_if) = &self.what_if else { return problems };
        limit("spec.whatIf.taints", what_if.taints.len());
        limit("spec.whatIf.labels", what_if.labels.len());
        limit("spec.whatIf.withoutPods", what_if.without_pods.len());
        let unknown = |field: String, name: &str| {
            let value = Value::from(name);
            FieldError::with_value(FieldErrorType::Invalid, field, &value, "there is no node with that name")
        };
        for (index, taint) in what_if.taints.iter().enumerate() {
            if problems.len() >= validate::MOST_PROBLEMS {
                break;
            }
            let path = format!("spec.whatIf.taints[{index}]");
            if cluster.known_node(&taint.node).is_none() {
                problems.push(unknown(format!("{path}.node"), &taint.node));
            }
            // Each taint is validated alone, because duplicates are valid: a later one replaces an earlier one.
            for mut problem in validate::taints(&[taint_of(taint)], "taints") {
                problem.field = problem.field.replacen("taints[0]", &path, 1);
                problems.push(problem);
            }
        }
        for (index, label) in what_if.labels.iter().enumerate() {
            if problems.len() >= validate::MOST_PROBLEMS {
                break;
            }
            let path = format!("spec.whatIf.labels[{index}]");
            if cluster.known_node(&label.node).is_none() {
                problems.push(unknown(format!("{path}.node"), &label.node));
            }
            let key_errors = crate::selector::syntax::label_key_errors(&label.key);
            let value_errors = crate::selector::syntax::label_value_errors(&label.value);
            let errors = key_errors.into_iter().map(|error| ("key", &label.key, error));
            for (member, value, error) in
                errors.chain(value_errors.into_iter().map(|error| ("value", &label.value, error)))
            {
                let value = Value::from(value.as_str());
                problems.push(FieldError::with_value(
                    FieldErrorType::Invalid,
                    format!("{path}.{member}"),
                    &value,
                    error,
                ));
            }
        }
        problems
    }
}

/// The warnings about unknown fields.
///
/// # Errors
/// Some values have a wrong type.
fn unknown_field_warnings(shape_errors: PodShapeErrors) -> Result<Vec<Warning>, AdmissionError> {
    if shape_errors.misshapen.is_empty() {
        Ok(shape_errors.unknown)
    } else {
        Err(AdmissionError::Invalid(shape_errors.misshapen))
    }
}

/// Inserts the errors of containers where an API server has them: after the errors of labels, with which `problems`
/// begins, and before the other errors of the spec.
fn sort_errors(containers: Vec<FieldError>, mut problems: Vec<FieldError>) -> Vec<FieldError> {
    let of_metadata = |problem: &&FieldError| problem.field.ends_with("labels");
    let metadata = problems.iter().take_while(of_metadata).count();
    problems.splice(metadata..metadata, containers);
    problems
}

/// An `Invalid` error about a field, without the field's value.
fn invalid(field: &str, detail: &str) -> FieldError {
    FieldError { reason: FieldErrorType::Invalid, field: field.to_owned(), message: format!("Invalid value: {detail}") }
}

/// Parses the Pod of a review.
fn read_pod(document: &Value) -> Result<Pod, AdmissionError> {
    use serde::Deserialize;
    Pod::deserialize(document).map_err(|error| AdmissionError::Invalid(vec![invalid("spec.pod", &error.to_string())]))
}

/// Converts a taint of `whatIf` to a taint of a Node.
fn taint_of(taint: &super::review::NodeTaint) -> Taint {
    Taint { key: taint.key.clone(), value: taint.value.clone(), effect: taint.effect.clone(), time_added: None }
}

/// A copy of the cluster with the changes of `whatIf`. Unknown nodes and Pods change nothing.
fn apply(cluster: &ClusterIndex, what_if: &WhatIf) -> ClusterIndex {
    let mut cluster = cluster.clone();
    for premise in &what_if.taints {
        let taint = taint_of(premise);
        cluster.change_node(&premise.node, |_, taints| {
            taints.retain(|existing| existing.key != taint.key || existing.effect != taint.effect);
            taints.push(taint);
        });
    }
    for premise in &what_if.labels {
        cluster.change_node(&premise.node, |labels, _| {
            labels.insert(premise.key.clone(), premise.value.clone());
        });
    }
    for pod in &what_if.without_pods {
        cluster.remove_pod(&pod.namespace, &pod.name);
    }
    cluster
}
