//! Makes reviews of options and files: one for each Pod and workload.

#![expect(clippy::disallowed_methods, reason = "reads the files that were named")]

use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};

use super::arguments::PlaceArguments;
use crate::cli::exit;
use crate::manifest::yaml::{Syntax, documents};
use crate::placement::review::{API_VERSION, KIND, PlacementReviewSpec, PodReference, WhatIf};
use crate::placement::workload::Workload;
use crate::placement::{Options, config};
use crate::placement_service::decode;

/// A review to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReviewRequest {
    /// The name of the Pod for people, such as `Pod default/nginx`.
    pub(super) subject: String,
    /// Its location, the prefix of its errors: `pod.yaml:1: `; empty for a Pod that exists.
    pub(super) place: String,
    pub(super) spec: PlacementReviewSpec,
}

impl ReviewRequest {
    /// The error for an invalid review. `problems` are the paths of its invalid fields, each with a message.
    pub(super) fn invalid(&self, problems: Vec<(String, String)>) -> anyhow::Error {
        let ReviewRequest { subject, place, spec } = self;
        if place.is_empty() {
            let texts: Vec<String> =
                problems.into_iter().map(|(field, message)| format!("{field}: {message}")).collect();
            return anyhow!(texts.join("; "));
        }
        // Users know the paths of the manifest, not those of the review.
        let lines = problems.into_iter().map(|(field, message)| {
            let within = field.strip_prefix("spec.pod.").or_else(|| field.strip_prefix("spec.template."));
            format!("\n  {}: {message}", within.unwrap_or(&field))
        });
        // A misspelt field can be the reason.
        let unknown = spec.shape_errors().unknown.into_iter().map(|warning| format!("\n  {warning}"));
        anyhow!("{place}{subject} is invalid:{}", lines.chain(unknown).collect::<String>())
    }
}

/// The path and query of requests to create reviews. The server warns of unknown fields, as a local evaluation does.
pub(super) fn path() -> String {
    format!("/apis/{API_VERSION}/placementreviews?fieldValidation=Warn")
}

/// The reviews of the Pod or the file that the arguments name, in the order of the file; none for `--misplaced` and
/// `--uses-match-label-keys`. `own_namespace` is that of Pods without one if `--namespace` is not given.
///
/// # Errors
/// The file cannot be read or parsed, or has no Pod, workload or PlacementReview; or a namespace in it differs from
/// `--namespace`.
pub(super) fn requests(arguments: &PlaceArguments, own_namespace: &str) -> anyhow::Result<Vec<ReviewRequest>> {
    let mut requests = match (&arguments.pod, &arguments.file) {
        (Some(name), _) => {
            let namespace = arguments.namespace.clone().unwrap_or_else(|| own_namespace.to_owned());
            let subject = format!("Pod {namespace}/{name}");
            let pod_ref = Some(PodReference { namespace, name: name.clone() });
            let spec = PlacementReviewSpec { pod_ref, ..PlacementReviewSpec::default() };
            vec![ReviewRequest { subject, place: String::new(), spec }]
        }
        (None, Some(file)) => requests_of_file(file, arguments, own_namespace)?,
        (None, None) => Vec::new(),
    };
    let what_if = WhatIf {
        taints: arguments.taints.clone(),
        labels: arguments.labels.clone(),
        without_pods: arguments.without_pods.clone(),
    };
    for request in &mut requests {
        if let Some(node) = &arguments.node {
            request.spec.node_names = vec![node.clone()];
        }
        if what_if != WhatIf::default() {
            request.spec.what_if = Some(what_if.clone());
        }
    }
    Ok(requests)
}

/// The reviews of the Pods, workloads and PlacementReviews of a file. Notes which other kinds it skips.
///
/// # Errors
/// Those of [`requests`].
fn requests_of_file(
    path: &Path,
    arguments: &PlaceArguments,
    own_namespace: &str,
) -> anyhow::Result<Vec<ReviewRequest>> {
    let (file, bytes) = read_file(path)?;
    let form = if file.ends_with(".json") { Syntax::Json } else { Syntax::Yaml };
    let (documents, broken) = documents(&bytes, form);
    if let Some(broken) = broken.first() {
        bail!("{file}:{}: {}", broken.line, broken.cause);
    }
    let mut requests = Vec::new();
    let mut others = Vec::new();
    for document in documents {
        let place = format!("{file}:{}: ", document.line);
        let kind = document.value["kind"].as_str().unwrap_or_default().to_owned();
        let spec = if kind == KIND {
            let review = decode::review_of_file(document.value).map_err(|cause| anyhow!("{place}{cause}"))?;
            review.spec
        } else if kind == "Pod" || Workload::read(&document.value).is_ok() || has_template(&document.value) {
            let mut object = document.value;
            set_namespace(&mut object, arguments.namespace.as_deref(), own_namespace)
                .with_context(|| place.trim_end_matches(": ").to_owned())?;
            match &*kind {
                "Pod" => PlacementReviewSpec { pod: Some(object), ..PlacementReviewSpec::default() },
                _ => PlacementReviewSpec { template: Some(object), ..PlacementReviewSpec::default() },
            }
        } else {
            others.push(kind);
            continue;
        };
        requests.push(ReviewRequest { subject: subject(&spec), place, spec });
    }
    if requests.is_empty() {
        let found = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        bail!("{file} has no Pod or workload, but {found}");
    }
    if !others.is_empty() {
        exit::note(&format!("skipped in {file}: {}", others.join(", ")));
    }
    Ok(requests)
}

/// Whether a document has a Pod template, so that an unknown kind of workload is an error and is not skipped.
fn has_template(document: &Value) -> bool {
    document.pointer("/spec/template/spec/containers").is_some()
}

/// Reads a file; `-` is standard input. Returns its name, for errors, and its content.
fn read_file(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let file = path.display().to_string();
    if file == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
        return Ok(("standard input".to_owned(), bytes));
    }
    let bytes = std::fs::read(path).with_context(|| format!("{file} cannot be read"))?;
    Ok((file, bytes))
}

/// Sets the namespace of a manifest without one, as kubectl does: to `named`, that of `--namespace`, otherwise to
/// `own`.
///
/// # Errors
/// The manifest has another namespace than `--namespace`.
fn set_namespace(object: &mut Value, named: Option<&str>, own: &str) -> anyhow::Result<()> {
    let in_document = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    match (&*in_document, named) {
        ("", named) => {
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            object["metadata"]["namespace"] = json!(named.unwrap_or(own));
        }
        (in_document, Some(named)) if in_document != named => {
            bail!(
                "the namespace of the manifest ({in_document}) differs from --namespace ({named}): change or omit one of them"
            )
        }
        _ => {}
    }
    Ok(())
}

/// The name of the reviewed Pod for people, such as `Pod default/web`, or `the next Pod of Deployment default/web`.
fn subject(spec: &PlacementReviewSpec) -> String {
    let subject_of = |document: &Value, next: &str| {
        let text = |key: &str| document["metadata"][key].as_str().unwrap_or_default();
        let kind = document["kind"].as_str().unwrap_or("Pod");
        let name = if text("name").is_empty() { format!("{}*", text("generateName")) } else { text("name").to_owned() };
        let namespace = if text("namespace").is_empty() { "default" } else { text("namespace") };
        format!("{next}{kind} {namespace}/{name}")
    };
    match (&spec.pod, &spec.template, &spec.pod_ref) {
        (Some(pod), _, _) => subject_of(pod, ""),
        (_, Some(template), _) => subject_of(template, "the next Pod of "),
        (_, _, Some(reference)) => format!("Pod {}/{}", reference.namespace, reference.name),
        (None, None, None) => "nothing".to_owned(),
    }
}

/// The options of the evaluation, from the command line, the file of `--scheduler-config`, and the minor version of the
/// cluster; 0: it is not known.
///
/// # Errors
/// The file of `--scheduler-config` cannot be read, or is invalid.
pub(super) fn options(arguments: &PlaceArguments, cluster_minor: u64) -> anyhow::Result<Options> {
    let usual = Options::default();
    let of_cluster = u32::try_from(cluster_minor).ok().filter(|minor| *minor > 0).unwrap_or(usual.target_minor);
    let options = Options {
        toleration_comparison: arguments.toleration_comparison,
        limit_hard_anti_affinity_topology: arguments.limit_hard_anti_affinity_topology,
        target_minor: arguments.target_version.unwrap_or(of_cluster),
        ..usual
    };
    let Some(path) = &arguments.scheduler_config else { return Ok(options) };
    let (file, bytes) = read_file(path)?;
    let form = if file.ends_with(".json") { Syntax::Json } else { Syntax::Yaml };
    let (documents, broken) = documents(&bytes, form);
    match (&documents[..], broken.first()) {
        (_, Some(broken)) => bail!("{file}:{}: {}", broken.line, broken.cause),
        // `None`: the profile of the default scheduler.
        ([document], None) => config::apply(&document.value, None, options).with_context(|| file),
        (documents, None) => {
            bail!("{file} has {} documents; it must have one, a KubeSchedulerConfiguration", documents.len())
        }
    }
}
