//! Sends PlacementReviews to a fieldcache server. No lists are read, so the user needs only the permissions that the server checks.
//!
//! Results are printed like those of a local evaluation. Options that a review cannot contain need a local evaluation ([`is_remote`]).
//! [`super::remote_error`] explains rejections.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{anyhow, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::arguments::PlaceArguments;
use super::node_report::NodeDetails;
use super::nodes::{MOST_NAMED, no_such_node};
use super::progress::{PATIENCE, progress};
use super::remote_error;
use super::reviewed::ReviewResult;
use super::reviews::{ReviewRequest, path};
use crate::model::quote;
use crate::placement::admission::RuntimeScheduling;
use crate::placement::pod::Toleration;
use crate::placement::question::Fetched;
use crate::placement::review::{API_VERSION, KIND, PlacementReview, PlacementReviewSpec, PlacementReviewStatus};
use crate::placement::{ClusterIndex, Node, Options, Pod};
use crate::placement_service::answer::runtime_class;
use crate::source::connection::{Connection, RequestError, UpstreamResponse};

const JSON: &str = "application/json";

/// The media type for names alone, from servers that support it.
const NAMES: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The message of kube-apiserver, and so of fieldcache, while a store is loading.
const LOADING: &str = "storage is (re)initializing";

/// Whether the server evaluates the placement. Options without a field in a review need a local evaluation, from lists.
pub(super) fn is_remote(arguments: &PlaceArguments) -> bool {
    let evaluates = arguments.misplaced
        || arguments.uses_match_label_keys
        || arguments.scheduler_config.is_some()
        || arguments.limit_hard_anti_affinity_topology
        || arguments.toleration_comparison
        || arguments.target_version.is_some();
    arguments.source.server.is_some() && !evaluates
}

/// The server's results, in the order of the reviews.
pub(super) async fn answers(
    arguments: &PlaceArguments,
    requests: Vec<ReviewRequest>,
) -> anyhow::Result<Vec<ReviewResult>> {
    let connection = Connection::open(&arguments.source.cluster()).await?;
    let mut answers = Vec::new();
    for request in requests {
        answers.push(evaluate(&connection, arguments, request).await?);
    }
    Ok(answers)
}

/// Sends a PlacementReview to the server and reads the result.
async fn evaluate(
    connection: &Connection,
    arguments: &PlaceArguments,
    request: ReviewRequest,
) -> anyhow::Result<ReviewResult> {
    let review = PlacementReview {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata: Value::Null,
        spec: request.spec.clone(),
        status: None,
    };
    let answer = send_review(connection, &serde_json::to_vec(&review)?).await?;
    if !matches!(answer.code, 200 | 201) {
        return Err(remote_error::explain(connection, &request, &answer).await);
    }
    let (received, status) = read(&answer.body).map_err(|error| connection.broken(&path(), &error))?;
    // A user who may only get the Pod gets no information about nodes, not even their number.
    let is_event = received["status"].get("total").is_none();
    let is_listed = |name: &String| status.nodes.iter().any(|node| *node.name == **name);
    if let Some(name) = request.spec.node_names.iter().find(|name| !is_event && !is_listed(name)) {
        bail!(no_such_node(name, &names(connection).await, status.total));
    }
    let about = match &arguments.node {
        Some(name) if !is_event => Some(about(connection, &request.spec, name).await),
        _ => None,
    };
    let review = PlacementReview { status: Some(status), ..review };
    Ok(ReviewResult { subject: request.subject, review, received: Some(received), is_event, about })
}

/// Sends a review, and repeats it while stores are loading. Shows progress on a terminal.
async fn send_review(connection: &Connection, review: &[u8]) -> Result<UpstreamResponse, RequestError> {
    let path = path();
    let mut last = None;
    let evaluation = async {
        loop {
            let answer = connection.post(&path, review.to_vec()).await?;
            let ControlFlow::Continue((wait, message)) = again(&answer) else { return Ok(answer) };
            last = Some(answer);
            if std::io::stderr().is_terminal() {
                progress(&message);
            }
            sleep(wait).await;
        }
    };
    let found = timeout(PATIENCE, evaluation).await;
    if last.is_some() && std::io::stderr().is_terminal() {
        progress("");
    }
    match (found, last) {
        (Ok(answered), _) => answered,
        (Err(_), Some(last)) => Ok(last),
        (Err(_), None) => Err(connection.unexpected(&path, &format!("no response within {} s", PATIENCE.as_secs()))),
    }
}

/// Whether to repeat the review, and after how long: only while stores are loading.
pub(super) fn again(answer: &UpstreamResponse) -> ControlFlow<(), (Duration, String)> {
    let status: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default();
    match message.strip_prefix(LOADING) {
        Some(progress) if answer.code == 429 => {
            let progress = progress.trim_start_matches(": ").to_owned();
            ControlFlow::Continue((answer.retry_after.unwrap_or(Duration::from_secs(1)), progress))
        }
        _ => ControlFlow::Break(()),
    }
}

/// Reads a response: the document and its status.
pub(super) fn read(body: &[u8]) -> Result<(Value, PlacementReviewStatus), serde_json::Error> {
    let mut document: Value = serde_json::from_slice(body)?;
    let status = PlacementReviewStatus::deserialize(&document["status"])?;
    // Servers add an empty metadata.
    if let Some(members) = document.as_object_mut()
        && members.get("metadata") == Some(&json!({}))
    {
        members.remove("metadata");
    }
    Ok((document, status))
}

/// Names of some nodes; empty if they cannot be read.
async fn names(connection: &Connection) -> Vec<String> {
    let list = connection.json(&format!("/api/v1/nodes?limit={MOST_NAMED}"), NAMES).await.unwrap_or_default();
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

/// Fetches what a review does not contain: the node itself, and the tolerations of the Pod.
async fn about(connection: &Connection, spec: &PlacementReviewSpec, name: &str) -> NodeDetails {
    let node = match object(connection, &format!("/api/v1/nodes/{name}")).await {
        Ok(bytes) => Node::read(&bytes).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let has_premise = spec.what_if.as_ref().is_some_and(|what_if| !what_if.taints.is_empty());
    let tolerations = match &node {
        Ok(node) if has_premise || !node.spec.taints.is_empty() => {
            tolerations(connection, spec).await.map_err(|error| format!("{error:#}"))
        }
        // They are not needed.
        _ => Ok(Vec::new()),
    };
    NodeDetails { node, tolerations }
}

/// The JSON of the object at a path.
async fn object(connection: &Connection, path: &str) -> Result<Vec<u8>, RequestError> {
    connection.bytes(path, JSON).await.map(|bytes| bytes.to_vec())
}

/// The tolerations of the Pod. For a new Pod, these include those that the API server adds.
async fn tolerations(connection: &Connection, spec: &PlacementReviewSpec) -> anyhow::Result<Vec<Toleration>> {
    if let Some(reference) = &spec.pod_ref {
        let path = format!("/api/v1/namespaces/{}/pods/{}", reference.namespace, reference.name);
        return Ok(Pod::read(&object(connection, &path).await?)?.spec.tolerations);
    }
    let runtime = match runtime_class(spec) {
        Some(name) => runtime(connection, &name).await?,
        None => None,
    };
    // What-if changes are about nodes, and there are no nodes here.
    let alone = PlacementReviewSpec { what_if: None, ..spec.clone() };
    let fetched = Fetched { stored: None, runtime: runtime.as_ref() };
    let reviewed = alone.answer(&ClusterIndex::default(), fetched, &Options::default());
    Ok(reviewed?.answer.pod().spec.tolerations.clone())
}

/// The scheduling of a RuntimeClass; `None` if the server serves none. Then its review has a warning.
async fn runtime(connection: &Connection, name: &str) -> anyhow::Result<Option<RuntimeScheduling>> {
    let class = match connection.json(&format!("/apis/node.k8s.io/v1/runtimeclasses/{name}"), JSON).await {
        Err(error) if error.code() == Some(404) => return Ok(None),
        answered => answered?,
    };
    match &class["scheduling"] {
        Value::Null => Ok(None),
        scheduling @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            RuntimeScheduling::deserialize(scheduling)
                .map(Some)
                .map_err(|error| anyhow!("RuntimeClass {}: {error}", quote(name)))
        }
    }
}
