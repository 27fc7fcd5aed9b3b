//! Bodies that are read whole: their media type, and their bytes within the limits of bodies.
//!
//! The document in a body is read by [`crate::manifest::document`].

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::api_error::ApiError;
use crate::flow_control::bodies::BodyPlace;
use crate::manifest::yaml::Syntax;
use crate::registry::upstream::UpstreamBody;

/// kube-apiserver's limit of a body.
pub(crate) const MOST: usize = 3 << 20;

/// How long a body may take to arrive. A slow one holds its place and its bytes for no longer.
const ARRIVAL: Duration = Duration::from_secs(15);

/// The media types that every body may have.
const TEXTS: [&str; 2] = ["application/json", "application/yaml"];

/// The media type of a body, without its parameters; empty if missing.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim()
}

/// The form of a body that is a text, by its media type; without one JSON is meant, as upstream has it.
///
/// # Errors
/// 415 that names these types and `others`.
pub(crate) fn form(media_type: &str, others: &[&str]) -> Result<Syntax, ApiError> {
    match media_type {
        "" | "application/json" => Ok(Syntax::Json),
        "application/yaml" => Ok(Syntax::Yaml),
        _ => Err(ApiError::UnsupportedMediaType(format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            [&TEXTS[..], others].concat().join(", ")
        ))),
    }
}

/// A body that has arrived, and its place among those in memory.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: Vec<u8>,
    pub(crate) place: BodyPlace,
}

/// Reads a body to its end.
///
/// # Errors
/// 413 when it is longer than `most`, and 400 when it breaks off or does not arrive in time. 429 when there is no room
/// for it.
pub(crate) async fn body(
    body: Option<UpstreamBody>,
    headers: &HeaderMap,
    most: usize,
    place: BodyPlace,
    until: Instant,
) -> Result<Arrived, ApiError> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > most as u64) {
        return Err(ApiError::TooLargeBody(most));
    }
    let mut arrived = Arrived { bytes: Vec::new(), place };
    let Some(body) = body else { return Ok(arrived) };
    let until = until.min(Instant::now() + ARRIVAL);
    let late = || {
        let message = format!("the body of the request did not arrive in time: at most {} s", ARRIVAL.as_secs());
        ApiError::BadRequest(message)
    };
    timeout_at(until, whole(body, most, &mut arrived)).await.unwrap_or_else(|_| Err(late()))?;
    Ok(arrived)
}

/// Reads a body of at most `most` bytes.
async fn whole(mut body: UpstreamBody, most: usize, arrived: &mut Arrived) -> Result<(), ApiError> {
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::BadRequest(format!("the body of the request ended early: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if arrived.bytes.len() + data.len() > most {
            return Err(ApiError::TooLargeBody(most));
        }
        arrived.place.grow(data.len()).map_err(ApiError::Limited)?;
        arrived.bytes.extend_from_slice(&data);
    }
    Ok(())
}
