//! Sends PlacementReviews to a fieldcache server. No lists are read, so the user needs only the permissions that the
//! server checks.
//!
//! Results are printed like those of a local evaluation. Options that a review cannot contain need a local evaluation
//! ([`is_remote`]). [`super::remote_error`] explains rejections.

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

/// The media type for metadata alone, from servers that support it, otherwise for whole objects.
const NAMES: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The message of kube-apiserver, and so of fieldcache, while a store is loading.
const LOADING: &str = "storage is (re)initializing";

/// Whether the server of `--server` evaluates the placement. Options that a review has no field for need a local
/// evaluation of lists.
pub(super) fn is_remote(arguments: &PlaceArguments) -> bool {
    let needs_lists = arguments.misplaced
        || arguments.uses_match_label_keys
        || arguments.scheduler_config.is_some()
        || arguments.limit_hard_anti_affinity_topology
        || arguments.toleration_comparison
        || arguments.target_version.is_some();
    arguments.source.server.is_some() && !needs_lists
}

/// Sends the reviews to the server, one after the other, and returns its results in the same order.
///
/// # Errors
/// The server cannot be reached, or rejects a review.
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

/// Sends a PlacementReview to the server and reads the result. With `--node`, also fetches the details of that node.
///
/// # Errors
/// The server cannot be reached or rejects the review, or the node of `--node` does not exist.
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
    let response = send_review(connection, &serde_json::to_vec(&review)?).await?;
    if !matches!(response.code, 200 | 201) {
        return Err(remote_error::explain(connection, &request, &response).await);
    }
    let (received, status) = read_response(&response.body).map_err(|error| connection.broken(&path(), &error))?;
    // A user who may only get the Pod gets no information about nodes, not even their number.
    let is_event = received["status"].get("total").is_none();
    let is_listed = |name: &String| status.nodes.iter().any(|node| *node.name == **name);
    if let Some(name) = request.spec.node_names.iter().find(|name| !is_event && !is_listed(name)) {
        bail!(no_such_node(name, &some_node_names(connection).await, status.total));
    }
    let about = match &arguments.node {
        Some(name) if !is_event => Some(fetch_details(connection, &request.spec, name).await),
        _ => None,
    };
    let review = PlacementReview { status: Some(status), ..review };
    Ok(ReviewResult { subject: request.subject, review, received: Some(received), is_event, about })
}

/// Sends a review, and repeats it while stores are loading, for up to [`PATIENCE`]. Shows progress on a terminal.
/// Returns the last response, also if it is an error response.
///
/// # Errors
/// The server cannot be reached or does not respond.
async fn send_review(connection: &Connection, review: &[u8]) -> Result<UpstreamResponse, RequestError> {
    let path = path();
    let mut last = None;
    let evaluation = async {
        loop {
            let response = connection.post(&path, review.to_vec()).await?;
            let ControlFlow::Continue((wait, message)) = retry_while_loading(&response) else { return Ok(response) };
            last = Some(response);
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

/// Whether to repeat a review with this response: `Continue` while stores are loading, with the time to wait and the
/// progress of the load as text.
pub(super) fn retry_while_loading(response: &UpstreamResponse) -> ControlFlow<(), (Duration, String)> {
    let status: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or_default();
    match message.strip_prefix(LOADING) {
        Some(progress) if response.code == 429 => {
            let progress = progress.trim_start_matches(": ").to_owned();
            ControlFlow::Continue((response.retry_after.unwrap_or(Duration::from_secs(1)), progress))
        }
        _ => ControlFlow::Break(()),
    }
}

/// Reads a successful response. Returns the document without an empty `metadata`, and its parsed status.
///
/// # Errors
/// The body is not JSON, or its status is invalid.
pub(super) fn read_response(body: &[u8]) -> Result<(Value, PlacementReviewStatus), serde_json::Error> {
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

/// The names of up to [`MOST_NAMED`] nodes, for an error about an unknown node; empty if nodes cannot be read.
async fn some_node_names(connection: &Connection) -> Vec<String> {
    let list = connection.json(&format!("/api/v1/nodes?limit={MOST_NAMED}"), NAMES).await.unwrap_or_default();
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

/// Fetches what a review does not contain: the node `name`, and the tolerations of the Pod if the node has taints.
async fn fetch_details(connection: &Connection, spec: &PlacementReviewSpec, name: &str) -> NodeDetails {
    let node = match fetch_object(connection, &format!("/api/v1/nodes/{name}")).await {
        Ok(bytes) => Node::read(&bytes).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let adds_taints = spec.what_if.as_ref().is_some_and(|what_if| !what_if.taints.is_empty());
    let tolerations = match &node {
        Ok(node) if adds_taints || !node.spec.taints.is_empty() => {
            fetch_tolerations(connection, spec).await.map_err(|error| format!("{error:#}"))
        }
        // Without taints, tolerations are not shown.
        _ => Ok(Vec::new()),
    };
    NodeDetails { node, tolerations }
}

/// Fetches the object at a path, as JSON.
async fn fetch_object(connection: &Connection, path: &str) -> Result<Vec<u8>, RequestError> {
    connection.bytes(path, JSON).await.map(|bytes| bytes.to_vec())
}

/// The tolerations of the Pod of a review: fetched for a stored Pod, computed for a new one, with those that the API
/// server adds.
///
/// # Errors
/// The Pod or its RuntimeClass cannot be fetched or read.
async fn fetch_tolerations(connection: &Connection, spec: &PlacementReviewSpec) -> anyhow::Result<Vec<Toleration>> {
    if let Some(reference) = &spec.pod_ref {
        let path = format!("/api/v1/namespaces/{}/pods/{}", reference.namespace, reference.name);
        return Ok(Pod::read(&fetch_object(connection, &path).await?)?.spec.tolerations);
    }
    let runtime = match runtime_class(spec) {
        Some(name) => fetch_runtime_scheduling(connection, &name).await?,
        None => None,
    };
    // The evaluation is over an empty index, only to get the Pod with its defaults. What-if changes name nodes, so they
    // are removed.
    let alone = PlacementReviewSpec { what_if: None, ..spec.clone() };
    let fetched = Fetched { stored: None, runtime: runtime.as_ref() };
    let reviewed = alone.answer(&ClusterIndex::default(), fetched, &Options::default());
    Ok(reviewed?.answer.pod().spec.tolerations.clone())
}

/// Fetches the field `scheduling` of a RuntimeClass; `None` if it is not set. Also `None` if the RuntimeClass does not
/// exist; the review then has a warning.
///
/// # Errors
/// The RuntimeClass cannot be fetched, or its `scheduling` is invalid.
async fn fetch_runtime_scheduling(connection: &Connection, name: &str) -> anyhow::Result<Option<RuntimeScheduling>> {
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
