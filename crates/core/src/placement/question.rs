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
use super::unknown::{PodShapeErrors, of_pod, of_workload};
use super::validate;
use super::warning::Warning;
use super::workload::Workload;
use crate::selector::{FieldError, FieldErrorType};

/// Most premises of each kind, and most names of nodes: a review is one request.
pub const MAX_PREMISES: usize = 1_000;

/// The objects that a review refers to, fetched by the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetched<'caller> {
    /// The Pod of the `podRef`.
    pub stored: Option<&'caller Pod>,
    /// The requirements of the RuntimeClass of a new Pod.
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
    /// Evaluates the review.
    ///
    /// # Errors
    /// The review is invalid, or the Pod could not be created.
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

    /// Compares the Pod or the workload with its shape; paths are within it. [`PlacementReviewSpec::answer`] rejects it
    /// or warns of it too; this function reports it even if there is no result.
    pub fn shape_errors(&self) -> PodShapeErrors {
        match (&self.pod, &self.template) {
            (Some(pod), _) => of_pod(pod),
            (None, Some(workload)) => of_workload(workload),
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

    /// The errors of the review.
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
            // Validated alone: replacing one with the same key and effect is intended.
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

/// The warnings about fields that do not exist; an error for values of another shape.
fn unknown_field_warnings(shape_errors: PodShapeErrors) -> Result<Vec<Warning>, AdmissionError> {
    if shape_errors.misshapen.is_empty() {
        Ok(shape_errors.unknown)
    } else {
        Err(AdmissionError::Invalid(shape_errors.misshapen))
    }
}

/// Sorts errors: those of metadata first, then those of containers, then the others of the spec.
fn sort_errors(containers: Vec<FieldError>, mut problems: Vec<FieldError>) -> Vec<FieldError> {
    let of_metadata = |problem: &&FieldError| problem.field.ends_with("labels");
    let metadata = problems.iter().take_while(of_metadata).count();
    problems.splice(metadata..metadata, containers);
    problems
}

/// An error about a field.
fn invalid(field: &str, detail: &str) -> FieldError {
    FieldError { reason: FieldErrorType::Invalid, field: field.to_owned(), message: format!("Invalid value: {detail}") }
}

/// Parses the Pod of a review.
fn read_pod(document: &Value) -> Result<Pod, AdmissionError> {
    use serde::Deserialize;
    Pod::deserialize(document).map_err(|error| AdmissionError::Invalid(vec![invalid("spec.pod", &error.to_string())]))
}

/// The taint that a review assumes.
fn taint_of(taint: &super::review::NodeTaint) -> Taint {
    Taint { key: taint.key.clone(), value: taint.value.clone(), effect: taint.effect.clone(), time_added: None }
}

/// The cluster with the changes that the review assumes.
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
