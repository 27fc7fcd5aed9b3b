//! Evaluates one review, from its spec to its status. The objects that the spec names are read from the stores, and
//! [`crate::placement`] evaluates them.
//!
//! Shared by the server and the command line, which differ in authorization and in the form of errors. No permissions
//! are checked here.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::field_validation::FieldValidation;
use super::index::{IndexSnapshot, PlacementStores};
use crate::model::{Gvr, quote};
use crate::placement::admission::{AdmissionError, RuntimeScheduling};
use crate::placement::question::Fetched;
use crate::placement::review::{PlacementReviewSpec, PlacementReviewStatus, PodReference};
use crate::placement::warning::Warning;
use crate::placement::workload::Workload;
use crate::placement::{Options, PlacementResult, Pod, ReadError};
use crate::registry::Catalog;
use crate::selector::FieldError;

/// Why a review cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The Pod of `podRef` does not exist.
    #[error("pods {} not found in namespace {}", quote(&.0.name), quote(&.0.namespace))]
    NoPod(PodReference),
    /// The Pod of `podRef` exists, but cannot be parsed.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// The review is invalid, or its Pod could not be created; fields are paths in the review.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
    /// An admission plugin forbids the Pod.
    #[error("{0}")]
    Forbidden(String),
}

/// What is known of the RuntimeClass that a new Pod names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// The Pod names no RuntimeClass.
    #[default]
    NotNamed,
    /// The RuntimeClass exists and has these requirements.
    Known(RuntimeScheduling),
    /// There is no RuntimeClass of this name.
    Absent(String),
    /// RuntimeClasses are not cached here, their store is not ready, or the one of this name cannot be parsed.
    NotCached(String),
}

#[derive(Default, Deserialize)]
struct RuntimeClass {
    #[serde(default)]
    scheduling: Option<RuntimeScheduling>,
}

impl Runtime {
    /// Looks up the RuntimeClass of the new Pod of a review. Waits at most `patience` for the store.
    pub async fn look_up(spec: &PlacementReviewSpec, catalog: &Catalog, patience: Duration) -> Runtime {
        let Some(name) = runtime_class(spec) else { return Runtime::NotNamed };
        let Some(resource) = catalog.resource(&Gvr::new("node.k8s.io", "v1", "runtimeclasses")) else {
            return Runtime::NotCached(name);
        };
        let Ok(snapshot) = resource.state.snapshot(patience).await else { return Runtime::NotCached(name) };
        match snapshot.get(&name).map(|object| serde_json::from_slice::<RuntimeClass>(&object.json())) {
            None => Runtime::Absent(name),
            Some(Ok(class)) => Runtime::Known(class.scheduling.unwrap_or_default()),
            Some(Err(_)) => Runtime::NotCached(name),
        }
    }
}

/// The RuntimeClass that the new Pod of a review names; `None` if there is no new Pod, or it names none.
pub fn runtime_class(spec: &PlacementReviewSpec) -> Option<String> {
    let template = spec.template.as_ref().and_then(|document| {
        let workload = Workload::read(document).ok()?;
        Some(workload.pod.spec.runtime_class_name)
    });
    let named = |pod: &Value| pod.pointer("/spec/runtimeClassName").and_then(Value::as_str).map(str::to_owned);
    spec.pod.as_ref().and_then(named).or(template).filter(|name| !name.is_empty())
}

/// The stored Pod that a review names in `podRef`; `None` if the review has no `podRef`.
///
/// # Errors
/// [`Unanswered::NoPod`] and [`Unanswered::Unreadable`].
pub fn stored_pod(spec: &PlacementReviewSpec, stores: &PlacementStores) -> Result<Option<Pod>, Unanswered> {
    let Some(reference) = &spec.pod_ref else { return Ok(None) };
    let key = format!("{}/{}", reference.namespace, reference.name);
    match stores.pods.snapshot.get(&key) {
        Some(object) => Ok(Some(Pod::read(&object.json())?)),
        None => Err(Unanswered::NoPod(reference.clone())),
    }
}

/// The result of a review.
#[derive(Debug)]
pub struct ReviewOutcome {
    /// The result for each node.
    pub answer: PlacementResult,
    /// The status of the review, without reports of nodes: `answer` writes these, as documents or as text. The warnings
    /// in it have paths in the Pod or the workload.
    pub status: PlacementReviewStatus,
    /// The warnings that an API server would send for the Pod, with paths in the review. Warnings about unknown fields
    /// are not among them: [`super::decode`] returns those.
    pub warnings: Vec<String>,
}

/// Evaluates a review over a snapshot of the index. `stores` has the Pod of `podRef`, and `runtime` is the RuntimeClass
/// of the new Pod. `validation` decides whether the status has warnings about unknown fields.
///
/// # Errors
/// [`Unanswered`].
pub fn answer(
    spec: &PlacementReviewSpec,
    stores: &PlacementStores,
    indexed: &IndexSnapshot,
    runtime: &Runtime,
    options: &Options,
    validation: FieldValidation,
) -> Result<ReviewOutcome, Unanswered> {
    let outer = spec.document_path().unwrap_or_default();
    // These errors come first, because their paths can be outside of the Pod.
    let misshapen = spec.shape_errors().misshapen;
    if !misshapen.is_empty() {
        let placed = |problem: FieldError| match problem.field.is_empty() {
            true => FieldError { field: outer.to_owned(), ..problem },
            false => FieldError { field: format!("{outer}.{}", problem.field), ..problem },
        };
        return Err(Unanswered::Invalid(misshapen.into_iter().map(placed).collect()));
    }
    let stored = stored_pod(spec, stores)?;
    let mut warnings = Vec::new();
    let known = match runtime {
        Runtime::NotNamed => None,
        Runtime::Known(known) => Some(known),
        Runtime::Absent(name) => {
            let pod = spec.pod.as_ref().and_then(|pod| pod.pointer("/metadata/name")).and_then(Value::as_str);
            return Err(Unanswered::Forbidden(format!(
                "pods {} is forbidden: pod rejected: RuntimeClass {} not found",
                quote(pod.unwrap_or_default()),
                quote(name)
            )));
        }
        Runtime::NotCached(name) => {
            warnings.push(format!(
                "the node requirements of RuntimeClass {} were not evaluated, because runtimeclasses.node.k8s.io are not cached: create the FieldCache runtimeclasses.node.k8s.io",
                quote(name)
            ));
            None
        }
    };
    let fetched = Fetched { stored: stored.as_ref(), runtime: known };
    let reviewed = spec.answer(&indexed.cluster, fetched, options).map_err(|refusal| match refusal {
        AdmissionError::Invalid(problems) => Unanswered::Invalid(within(spec, problems)),
        AdmissionError::Forbidden(message) => Unanswered::Forbidden(message),
    })?;
    // Stores of a folder have no progress notifications, because they cannot lag: the age is then unknown.
    let states = stores.resource_states();
    let lag = states
        .iter()
        .filter(|resource_state| resource_state.freshness().last_progress().is_some())
        .map(|resource_state| resource_state.freshness().lag())
        .max();
    let age = lag.map(|lag| i64::try_from(lag.as_secs()).unwrap_or(i64::MAX));
    let mut status = reviewed.answer.summary(indexed.resource_versions.clone(), age);
    let is_reported = |warning: &&Warning| validation != FieldValidation::Ignore || !warning.is_unknown_field();
    status.warnings.extend(reviewed.warnings.iter().filter(is_reported).map(ToString::to_string));
    status.warnings.extend(warnings);
    status.warnings.extend(indexed.ignored.iter().cloned());
    let is_sent = |warning: &&Warning| warning.is_upstream() && !warning.is_unknown_field();
    let warnings = reviewed.warnings.iter().filter(is_sent).map(|warning| warning.within(outer).to_string());
    let warnings = warnings.collect();
    Ok(ReviewOutcome { answer: reviewed.answer, status, warnings })
}

/// Prefixes the paths of errors in the Pod, so that they are paths in the review. Paths in the review stay.
fn within(spec: &PlacementReviewSpec, problems: Vec<FieldError>) -> Vec<FieldError> {
    let is_in_review = |field: &str| {
        matches!(field, "spec" | "spec.pod" | "spec.template" | "spec.podRef")
            || ["spec.nodeNames", "spec.whatIf"].iter().any(|start| field.starts_with(start))
    };
    let template = spec.template.as_ref().and_then(|document| Workload::read(document).ok());
    // Errors of a template have paths in the workload; errors of the Pod made from it have paths in the Pod.
    let path = |field: &str| match (&template, &spec.pod) {
        (Some(workload), _) if field.starts_with(workload.template_path) => format!("spec.template.{field}"),
        (Some(workload), _) => format!("spec.template.{}.{field}", workload.template_path),
        (None, Some(_)) => format!("spec.pod.{field}"),
        (None, None) => field.to_owned(),
    };
    let placed = |problem: FieldError| match is_in_review(&problem.field) {
        true => problem,
        false => FieldError { field: path(&problem.field), ..problem },
    };
    problems.into_iter().map(placed).collect()
}
