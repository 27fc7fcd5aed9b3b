//! Bodies that are read whole: their media type, their bytes within the limits of bodies, and the one document in them.
//!
//! Which fields a document has is in [`super::shape`]; what they mean is said by whoever reads them.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::api_error::ApiError;
use super::limits::bodies::BodyPlace;
use crate::manifest::budget::Budget;
use crate::manifest::yaml::{Form, NotOne, single};
use crate::model::quote;
use crate::registry::upstream::UpstreamBody;

/// kube-apiserver's limit of a body.
pub(super) const MOST: usize = 3 << 20;

/// How long a body may take to arrive. A slow one holds its place and its bytes for no longer.
const ARRIVAL: Duration = Duration::from_secs(15);

/// What the values of one body may take, as [`Budget`] counts. Reviews of a Pod that a cluster would store take a few MiB.
const MEMORY: usize = 16 << 20;

/// The media types that every body may have.
const TEXTS: [&str; 2] = ["application/json", "application/yaml"];

/// The media type of a body, without its parameters; empty where there is none.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim()
}

/// The form of a body that is a text, by its media type; without one JSON is meant, as upstream has it.
///
/// # Errors
/// 415 that names these types and `others`.
pub(super) fn form(media_type: &str, others: &[&str]) -> Result<Form, ApiError> {
    match media_type {
        "" | "application/json" => Ok(Form::Json),
        "application/yaml" => Ok(Form::Yaml),
        _ => Err(ApiError::UnsupportedMediaType(format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            [&TEXTS[..], others].concat().join(", ")
        ))),
    }
}

/// A body that has arrived, and its place among those in memory.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) bytes: Vec<u8>,
    pub(super) place: BodyPlace,
}

/// Reads a body to its end.
///
/// # Errors
/// 413 when it is longer than `most`, 400 when it breaks off or does not arrive in time, 429 when there is no room for it.
pub(super) async fn body(
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

async fn whole(mut body: UpstreamBody, most: usize, arrived: &mut Arrived) -> Result<(), ApiError> {
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::BadRequest(format!("the body of the request broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if arrived.bytes.len() + data.len() > most {
            return Err(ApiError::TooLargeBody(most));
        }
        arrived.place.grow(data.len()).map_err(ApiError::Limited)?;
        arrived.bytes.extend_from_slice(&data);
    }
    Ok(())
}

/// Reads the one document of a text.
///
/// # Errors
/// What is wrong with it.
pub(super) fn document(bytes: &[u8], form: Form) -> Result<Value, String> {
    single(bytes, form, &mut Budget::new(MEMORY)).map_err(|error| match error {
        NotOne::Broken(broken) => format!("line {}: {}", broken.line, broken.cause),
        NotOne::None | NotOne::Several => error.to_string(),
    })
}

/// What a document is said to be, where that is not what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected<'e> {
    /// Group and version.
    pub(super) api_version: &'e str,
    /// Kind.
    pub(super) kind: &'e str,
}

impl Expected<'_> {
    /// Holds the document against it; what the document does not say is put in, as upstream takes it from the path.
    ///
    /// # Errors
    /// 400.
    pub(super) fn check(&self, value: &mut Value) -> Result<(), ApiError> {
        for (member, expected) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            match value.get(member).and_then(Value::as_str).unwrap_or_default() {
                // Nothing can be put into a list or a text; its shape is looked at next.
                "" if value.is_object() => value[member] = json!(expected),
                "" => {}
                sent if sent == expected => {}
                sent if member == "apiVersion" => {
                    return Err(ApiError::BadRequest(format!(
                        "the API version in the data ({sent}) does not match the expected API version ({expected})"
                    )));
                }
                sent => return Err(self.unreadable(&format!("kind: {sent} is not {expected}"))),
            }
        }
        Ok(())
    }

    /// 400 for a document that cannot be read.
    pub(super) fn unreadable(&self, cause: &str) -> ApiError {
        let version = self.api_version.rsplit('/').next().unwrap_or_default();
        let kind = self.kind;
        ApiError::BadRequest(format!("{kind} in version {} cannot be handled as a {kind}: {cause}", quote(version)))
    }
}
