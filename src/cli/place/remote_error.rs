//! Explains why a server rejected a review, with its message and the remedy.
//!
//! Errors of a Pod or a workload are listed as in a local evaluation. A server may not support reviews for several
//! reasons, so one further request finds out which.

use anyhow::anyhow;
use serde_json::Value;

use super::reviews::{ReviewRequest, path};
use crate::placement::review::API_VERSION;
use crate::placement_service::answer::Unanswered;
use crate::source::connection::{Connection, RequestError, UpstreamResponse};

/// The error for a response that is not a success.
pub(super) async fn explain(
    connection: &Connection,
    request: &ReviewRequest,
    response: &UpstreamResponse,
) -> anyhow::Error {
    let status: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    if let Some(error) = review_error(request, response.code, &status) {
        return error;
    }
    let (place, code, url) = (&request.place, response.code, connection.url());
    // A View rejects every create, and can do so with 403 as for a missing permission.
    let is_unknown = matches!(code, 404 | 405) || (code == 403 && is_view(url));
    // An API server checks the permission before it looks the resource up.
    if is_unknown || may_not_create(code, &status) {
        let group = connection.bytes(&format!("/apis/{API_VERSION}"), "application/json").await.map(drop);
        if is_unknown || matches!(&group, Err(error) if error.code() == Some(404)) {
            return anyhow!("{place}{}", not_there(url, &group));
        }
    }
    // Without the parameters, which the user did not enter.
    let path = path().split('?').next().unwrap_or_default().to_owned();
    match (remedy(request, code, &status), status["message"].as_str()) {
        (Some(remedy), Some(message)) => {
            anyhow!("{place}cluster {url} returned {code} for {path}: {message}; {remedy}")
        }
        _ => anyhow!("{place}{}", connection.status_error(&path, response)),
    }
}

/// Whether a response with this code and Status says that the user may not create PlacementReviews.
fn may_not_create(code: u16, status: &Value) -> bool {
    let message = status["message"].as_str().unwrap_or_default();
    code == 403 && message.contains("cannot create resource \"placementreviews\"")
}

/// The error of a response about the content of the review, in the words of a local evaluation; `None` for other
/// responses.
pub(super) fn review_error(request: &ReviewRequest, code: u16, status: &Value) -> Option<anyhow::Error> {
    let details = &status["details"];
    let message = status["message"].as_str().unwrap_or_default();
    match (code, &request.spec.pod_ref) {
        (404, Some(reference)) if details["kind"] == "pods" => Some(anyhow!(Unanswered::NoPod(reference.clone()))),
        // The admission of the Pod rejected it. A 403 for a missing permission has details.
        (403, _) if details.is_null() && message.contains(": pod rejected: ") => {
            Some(anyhow!("{}{message}", request.place))
        }
        (422, _) => {
            let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
            let causes = details["causes"].as_array().into_iter().flatten();
            let problems: Vec<_> = causes.map(|cause| (text(cause, "field"), text(cause, "message"))).collect();
            (!problems.is_empty()).then(|| request.invalid(problems))
        }
        _ => None,
    }
}

/// The remedy for a missing permission, if it is specific to placement reviews; otherwise `None`.
pub(super) fn remedy(request: &ReviewRequest, code: u16, status: &Value) -> Option<&'static str> {
    let spec = &request.spec;
    let is_read = matches!(status["details"]["kind"].as_str(), Some("nodes" | "pods"));
    let is_of_event = spec.pod_ref.is_some() && spec.what_if.is_none() && spec.node_names.is_empty();
    match code {
        _ if may_not_create(code, status) => Some(
            "grant create on placementreviews.view.fieldcache.dev, or use other credentials with --kubeconfig; if this server is an API server without fieldcache, give the URL of a fieldcache server with --server",
        ),
        403 if !is_read => None,
        403 if is_of_event => Some(
            "grant list on nodes and pods, or get on the Pod: with get alone you see only the message of its FailedScheduling event",
        ),
        403 if spec.pod_ref.is_some() => Some(
            "grant list on nodes and pods. With get on the Pod alone, omit --node, --taint, --label and --without-pod: you then see only the message of its FailedScheduling event",
        ),
        403 => Some("grant list on nodes and pods"),
        _ => None,
    }
}

/// Whether a URL is that of a View.
fn is_view(url: &str) -> bool {
    url.contains("/views/") && url.ends_with("/proxy")
}

/// The error for a server without placement reviews. `group` is the result of a request for their API group: `Ok` if
/// the server has the group.
pub(super) fn not_there(url: &str, group: &Result<(), RequestError>) -> String {
    match group {
        _ if is_view(url) => {
            format!(
                "{url} is the URL of a View, which has no placement reviews: give the URL of the fieldcache server itself with --server"
            )
        }
        Ok(()) => format!(
            "{url} is a fieldcache server without placement reviews: upgrade it, or omit --server to evaluate the lists of the cluster of --kubeconfig"
        ),
        Err(_) => format!(
            "{url} is not a fieldcache server, or is too old for placement reviews: give the URL of another server with --server, or omit --server to evaluate the lists of the cluster of --kubeconfig"
        ),
    }
}
