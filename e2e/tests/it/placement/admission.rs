//! What becomes of a Pod on its way into a cluster, beside kube-apiserver: random Pods and Deployments, sent as dry runs.
//!
//! The tests compare which Pods are rejected with which message, and which warnings are sent. Of an accepted Pod they
//! compare what would be stored: default tolerations and merged label keys.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use e2e::control_plane::ControlPlane;
use e2e::http::{Answer, Client, Request};
use e2e::versions::Kubernetes;
use fieldcache::placement::admission::AdmissionError;
use fieldcache::placement::question::Fetched;
use fieldcache::placement::review::PlacementReviewSpec;
use fieldcache::placement::unknown::PodShapeErrors;
use fieldcache::placement::warning::Warning;
use fieldcache::placement::{ClusterIndex, Options, Pod};
use fieldcache::selector::FieldError;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use super::requests;

/// How many Pods; a third of them goes into Deployments too.
const PODS: u64 = 1_200;

/// What one side says.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Reason, field and message of each fault, in order.
    causes: Vec<(String, String, String)>,
    /// Without order: upstream walks maps.
    warnings: BTreeSet<String>,
    /// As it would be stored, if it is accepted.
    stored: Option<Pod>,
}

fn causes(problems: &[FieldError]) -> Vec<(String, String, String)> {
    let cause =
        |problem: &FieldError| (problem.reason.as_str().to_owned(), problem.field.clone(), problem.message.clone());
    problems.iter().map(cause).collect()
}

async fn create(client: &Client, path: &str, document: &Value) -> Result<Answer> {
    client.send(Request::new(Method::POST, format!("{path}?dryRun=All")).json(document)).await
}

fn theirs(answer: &Answer) -> Result<Outcome> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let warnings = answer.headers.get_all("warning").iter().map(|value| {
        // `299 - "TEXT"`, quotes in the text escaped.
        let warning = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let warning = warning.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"')).unwrap_or(&warning);
        warning.replace("\\\"", "\"").replace("\\\\", "\\")
    });
    let warnings = warnings.collect();
    match answer.status.as_u16() {
        201 => Ok(Outcome { causes: Vec::new(), warnings, stored: Some(Pod::read(&answer.body)?) }),
        422 => {
            let status = answer.json()?;
            let given = status["details"]["causes"].as_array().context("refused without causes")?;
            let cause = |cause: &Value| (text(&cause["reason"]), text(&cause["field"]), text(&cause["message"]));
            Ok(Outcome { causes: given.iter().map(cause).collect(), warnings, stored: None })
        }
        status => bail!("{status}: {}", answer.text()),
    }
}

fn ours(document: &Value) -> Result<Outcome> {
    let spec = PlacementReviewSpec { pod: Some(document.clone()), ..PlacementReviewSpec::default() };
    // Warnings of what is refused are not reported here: a review is refused whole.
    match spec.answer(&ClusterIndex::default(), Fetched::default(), &Options::default()) {
        Ok(reviewed) => {
            // What we say of unknown fields beyond upstream's words is in brackets.
            let upstream = |warning: Warning| match warning {
                Warning::UnknownField { field, .. } => Warning::UnknownField { field, hint: "" }.to_string(),
                other => other.to_string(),
            };
            let warnings = reviewed.warnings.into_iter().map(upstream).collect();
            Ok(Outcome { causes: Vec::new(), warnings, stored: Some(reviewed.answer.pod().clone()) })
        }
        Err(AdmissionError::Invalid(problems)) => {
            Ok(Outcome { causes: causes(&problems), warnings: BTreeSet::new(), stored: None })
        }
        Err(refusal @ AdmissionError::Forbidden(_)) => bail!("{refusal}"),
    }
}

/// Of a stored Pod what placement reads, without what only a server gives.
fn comparable(mut outcome: Outcome) -> Outcome {
    if let Some(pod) = &mut outcome.stored {
        pod.metadata.uid.clear();
        pod.status.phase.clear();
    }
    outcome
}

/// The words of each rule that must be met.
const RULES: [&str; 21] = [
    "must have at least one node selector term",
    "must be specified when `operator` is 'In' or 'NotIn'",
    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
    "must be specified single value when `operator` is 'Lt' or 'Gt'",
    "not a valid selector operator",
    "name part must consist of",
    "a valid label must be an empty string or consist of",
    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
    "not a valid field selector key",
    "must be in the range 1-100",
    "can not be empty",
    "a lowercase RFC 1123 label must consist of",
    "must not be specified when labelSelector is not set",
    "exists in both matchLabelKeys and mismatchLabelKeys",
    "exists in both matchLabelKeys and labelSelector",
    "operator must be Exists when `key` is empty",
    "value must be empty when `operator` is 'Exists'",
    "supported values: \"Equal\", \"Exists\"",
    "effect must be 'NoExecute' when `tolerationSeconds` is set",
    "supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
    "cannot be set until all schedulingGates have been cleared",
];

#[tokio::test]
async fn pods_are_refused_warned_of_and_completed_as_by_kube_apiserver() -> Result<()> {
    if !Kubernetes::under_test()?.is_usual() {
        // Words and fields of the usual version are meant.
        return Ok(());
    }
    let client = ControlPlane::shared().await?.client();
    let pods: Vec<Value> = (0..PODS).map(requests::pod).collect();
    let reviewed = stream::iter(&pods).map(|pod| create(&client, "/api/v1/namespaces/default/pods", pod));
    let answers: Vec<Answer> = reviewed.buffered(8).try_collect().await?;
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut stored, mut merged, mut warned) = (0, 0, 0);
    let mut faults = Vec::new();
    for (pod, answer) in pods.iter().zip(&answers) {
        let mut theirs = theirs(answer).map(comparable).with_context(|| pod.to_string())?;
        let ours = comparable(ours(pod)?);
        if theirs.stored.is_none() {
            theirs.warnings.clear();
        }
        for rule in RULES.iter().filter(|rule| theirs.causes.iter().any(|(_, _, message)| message.contains(**rule))) {
            *met.entry(rule).or_default() += 1;
        }
        if let Some(accepted) = &theirs.stored {
            stored += 1;
            warned += u64::from(!theirs.warnings.is_empty());
            let sent = Pod::read(pod.to_string().as_bytes())?;
            merged += u64::from(accepted.spec.affinity != sent.spec.affinity);
        }
        if ours != theirs {
            faults.push(format!("{pod}\nwe say\n{ours:#?}\nkube-apiserver says\n{theirs:#?}"));
        }
    }
    println!("admission: {} pods, {stored} accepted, {merged} with merged keys, {warned} with warnings", pods.len());
    ensure!(faults.is_empty(), "{} pods differ, such as\n{}", faults.len(), faults.first().map_or("", String::as_str));
    ensure!(stored >= 300 && merged >= 100 && warned >= 20, "too few are accepted, merged or warned of");
    for rule in RULES {
        let count = met.get(rule).copied().unwrap_or_default();
        ensure!(count >= 2, "{rule:?} was met {count} times");
    }
    Ok(())
}

#[tokio::test]
async fn pod_templates_are_validated_unmerged_as_by_kube_apiserver() -> Result<()> {
    if !Kubernetes::under_test()?.is_usual() {
        return Ok(());
    }
    let client = ControlPlane::shared().await?.client();
    let deployment = |number: u64| {
        let mut pod = requests::pod(number);
        pod["metadata"]["labels"]["case"] = "yes".into();
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("d{number}"), "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"case": "yes"}},
                "template": {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]},
            },
        })
    };
    let deployments: Vec<Value> = (0..PODS / 3).map(deployment).collect();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let reviewed = stream::iter(&deployments).map(|deployment| create(&client, path, deployment));
    let answers: Vec<Answer> = reviewed.buffered(8).try_collect().await?;
    let mut accepted_but_no_pod = 0;
    for (deployment, answer) in deployments.iter().zip(&answers) {
        let causes_there = match answer.status.as_u16() {
            201 => Vec::new(),
            _ => theirs(answer).with_context(|| deployment.to_string())?.causes,
        };
        let spec = PlacementReviewSpec { template: Some(deployment.clone()), ..PlacementReviewSpec::default() };
        let reviewed = spec.answer(&ClusterIndex::default(), Fetched::default(), &Options::default());
        let of_template = |problem: &FieldError| problem.field.starts_with("spec.template.");
        let causes_here = match &reviewed {
            Err(AdmissionError::Invalid(problems)) if problems.iter().all(of_template) => causes(problems),
            // Those of the pod that would be made of it.
            _ => Vec::new(),
        };
        ensure!(
            causes_here == causes_there,
            "{deployment}\nwe say\n{causes_here:#?}\nkube-apiserver says\n{causes_there:#?}"
        );
        accepted_but_no_pod += u64::from(causes_there.is_empty() && reviewed.is_err());
        ensure!(causes_there.is_empty() || reviewed.is_err(), "a template that is refused has an answer: {deployment}");
    }
    println!("admission: {} deployments, {accepted_but_no_pod} accepted whose pods are refused", deployments.len());
    ensure!(accepted_but_no_pod > 0, "no Deployment is accepted whose pods are refused");
    Ok(())
}

/// A document that has every field of a schema, and of those that it refers to.
fn filled(schemas: &Value, schema: &Value, depth: u64) -> Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    let named = reference.and_then(|reference| reference.rsplit('/').next());
    let schema = named.map_or(schema, |name| &schemas[name]);
    match (schema["properties"].as_object(), &schema["items"]) {
        // Deep enough for the labels that a preferred term of a CronJob selects by.
        _ if depth > 20 => Value::Null,
        (Some(properties), _) => {
            properties.iter().map(|(name, schema)| (name.clone(), filled(schemas, schema, depth + 1))).collect()
        }
        (None, Value::Object(_)) => json!([filled(schemas, &schema["items"], depth + 1)]),
        (None, _) => Value::Null,
    }
}

#[tokio::test]
async fn every_field_that_kube_apiserver_knows_is_known() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let mut count = 0;
    for (path, package, kinds) in [
        ("/openapi/v3/api/v1", "core.v1", &["Pod", "PodTemplate", "ReplicationController"][..]),
        ("/openapi/v3/apis/apps/v1", "apps.v1", &["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"]),
        ("/openapi/v3/apis/batch/v1", "batch.v1", &["Job", "CronJob"]),
    ] {
        let document = client.send(Request::new(Method::GET, path)).await?.json()?;
        let schemas = &document["components"]["schemas"];
        for kind in kinds {
            let mut object = filled(schemas, &schemas[format!("io.k8s.api.{package}.{kind}")], 0);
            object["kind"] = json!(kind);
            count += object.to_string().matches(':').count();
            let mut spec = PlacementReviewSpec::default();
            if *kind == "Pod" {
                spec.pod = Some(object)
            } else {
                spec.template = Some(object)
            }
            let shape_errors = spec.shape_errors();
            ensure!(shape_errors == PodShapeErrors::default(), "{kind}: {shape_errors:?}");
        }
    }
    println!("admission: {count} fields of nine kinds are known");
    ensure!(count > 5_000, "only {count} fields");
    Ok(())
}
