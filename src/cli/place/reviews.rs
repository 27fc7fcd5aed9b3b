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
    /// For people: `Pod default/nginx`.
    pub(super) subject: String,
    /// Its location, for errors: `pod.yaml:1: `; empty for a Pod that exists.
    pub(super) place: String,
    pub(super) spec: PlacementReviewSpec,
}

impl ReviewRequest {
    /// The error for an invalid review: its fields, and the problem of each.
    pub(super) fn invalid(&self, faults: Vec<(String, String)>) -> anyhow::Error {
        let ReviewRequest { subject, place, spec } = self;
        if place.is_empty() {
            let texts: Vec<String> = faults.into_iter().map(|(field, message)| format!("{field}: {message}")).collect();
            return anyhow!(texts.join("; "));
        }
        // Users know the paths of the manifest, not those of the review.
        let lines = faults.into_iter().map(|(field, message)| {
            let within = field.strip_prefix("spec.pod.").or_else(|| field.strip_prefix("spec.template."));
            format!("\n  {}: {message}", within.unwrap_or(&field))
        });
        // A misspelt field can be the reason.
        let unknown = spec.shape_errors().unknown.into_iter().map(|warning| format!("\n  {warning}"));
        anyhow!("{place}{subject} is invalid:{}", lines.chain(unknown).collect::<String>())
    }
}

/// The path for reviews. The server warns of unknown fields, as a local evaluation does.
pub(super) fn path() -> String {
    format!("/apis/{API_VERSION}/placementreviews?fieldValidation=Warn")
}

/// The reviews in the order of the file; none for `--misplaced` and the like.
pub(super) fn requests(arguments: &PlaceArguments, own_namespace: &str) -> anyhow::Result<Vec<ReviewRequest>> {
    let mut requests = match (&arguments.pod, &arguments.file) {
        (Some(name), _) => {
            let namespace = arguments.namespace.clone().unwrap_or_else(|| own_namespace.to_owned());
            let subject = format!("Pod {namespace}/{name}");
            let pod_ref = Some(PodReference { namespace, name: name.clone() });
            let spec = PlacementReviewSpec { pod_ref, ..PlacementReviewSpec::default() };
            vec![ReviewRequest { subject, place: String::new(), spec }]
        }
        (None, Some(file)) => of_file(file, arguments, own_namespace)?,
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

/// The reviews for the Pods and workloads of a file.
fn of_file(path: &Path, arguments: &PlaceArguments, own_namespace: &str) -> anyhow::Result<Vec<ReviewRequest>> {
    let (file, bytes) = read(path)?;
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
            let review = decode::of_file(document.value).map_err(|cause| anyhow!("{place}{cause}"))?;
            review.spec
        } else if kind == "Pod" || Workload::read(&document.value).is_ok() || has_template(&document.value) {
            let mut object = document.value;
            settle(&mut object, arguments.namespace.as_deref(), own_namespace)
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

/// Whether a document looks like a workload, so that an unknown kind is an error.
fn has_template(document: &Value) -> bool {
    document.pointer("/spec/template/spec/containers").is_some()
}

/// Reads a file, `-` is standard input; returns its name for errors, too.
fn read(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let file = path.display().to_string();
    if file == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("standard input")?;
        return Ok(("standard input".to_owned(), bytes));
    }
    let bytes = std::fs::read(path).with_context(|| format!("{file} cannot be read"))?;
    Ok((file, bytes))
}

/// Sets the namespace of a manifest, as kubectl does.
fn settle(object: &mut Value, named: Option<&str>, own: &str) -> anyhow::Result<()> {
    let in_document = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    match (&*in_document, named) {
        ("", named) => {
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            object["metadata"]["namespace"] = json!(named.unwrap_or(own));
        }
        (in_document, Some(named)) if in_document != named => {
            bail!("the namespace of the manifest ({in_document}) differs from --namespace ({named})")
        }
        _ => {}
    }
    Ok(())
}

/// The name of what is reviewed, such as `pod default/web`.
fn subject(spec: &PlacementReviewSpec) -> String {
    let subject_of = |document: &Value, next: &str| {
        let text = |member: &str| document["metadata"][member].as_str().unwrap_or_default();
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

/// The options of the evaluation, from the command line and the version of the cluster.
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
    let (file, bytes) = read(path)?;
    let form = if file.ends_with(".json") { Syntax::Json } else { Syntax::Yaml };
    let (documents, broken) = documents(&bytes, form);
    match (&documents[..], broken.first()) {
        (_, Some(broken)) => bail!("{file}:{}: {}", broken.line, broken.cause),
        ([document], None) => config::apply(&document.value, None, options).with_context(|| file),
        (documents, None) => {
            bail!("{file} has {} documents; it must have one, a KubeSchedulerConfiguration", documents.len())
        }
    }
}
