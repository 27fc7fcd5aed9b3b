//! Reads request bodies to memory, within the limits of bodies, and checks their media type.
//!
//! [`crate::manifest::document`] parses the document in a body.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};

use super::api_error::ApiError;
use crate::flow_control::bodies::BodyPlace;
use crate::manifest::yaml::Syntax;
use crate::registry::upstream::UpstreamBody;

/// The maximum length of a body in bytes: that of kube-apiserver.
pub(crate) const MOST: usize = 3 << 20;

/// How long a body may take to arrive. A slow client holds a place and memory for no longer than this.
const ARRIVAL: Duration = Duration::from_secs(15);

/// The media types that are valid for every body.
const TEXTS: [&str; 2] = ["application/json", "application/yaml"];

/// The media type of a body, without its parameters; empty if the header Content-Type is missing.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim()
}

/// The syntax of a body with this media type. An empty media type means JSON, as upstream. `others`: further media
/// types for the message of the error, which the caller accepts itself.
///
/// # Errors
/// 415 for a media type other than JSON and YAML, with the accepted media types.
pub(crate) fn syntax(media_type: &str, others: &[&str]) -> Result<Syntax, ApiError> {
    match media_type {
        "" | "application/json" => Ok(Syntax::Json),
        "application/yaml" => Ok(Syntax::Yaml),
        _ => Err(ApiError::UnsupportedMediaType(format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            [&TEXTS[..], others].concat().join(", ")
        ))),
    }
}

/// A body that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: Vec<u8>,
    /// Counts the body and its bytes as in memory until it is dropped.
    pub(crate) place: BodyPlace,
}

/// Reads a body to its end.
///
/// - `body`: `None` if the request has none; the result is then empty
/// - `most`: the maximum length in bytes
/// - `place`: counts the bytes that arrive
/// - `until`: the deadline of the request; the body must also arrive within [`ARRIVAL`]
///
/// # Errors
/// 413 if the body is longer than `most`, and 400 if it ends early or does not arrive in time. 429 if the limit of
/// bytes in memory is reached.
pub(crate) async fn read_body(
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
    let left = until.saturating_duration_since(Instant::now());
    let late = || {
        let which = if left < ARRIVAL {
            format!("the timeout of the request left {:.1} s for it", left.as_secs_f64())
        } else {
            format!("the maximum is {} s", ARRIVAL.as_secs())
        };
        ApiError::BadRequest(format!("the body of the request did not arrive in time: {which}"))
    };
    timeout(left.min(ARRIVAL), read_to_end(body, most, &mut arrived)).await.unwrap_or_else(|_| Err(late()))?;
    Ok(arrived)
}

/// Reads a body of at most `most` bytes, and appends it to `arrived`. Its errors are those of [`read_body`], without
/// the deadline.
async fn read_to_end(mut body: UpstreamBody, most: usize, arrived: &mut Arrived) -> Result<(), ApiError> {
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
