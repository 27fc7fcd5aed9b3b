//! All errors of requests, and the only place that chooses status codes.
//!
//! An [`ApiError`] is a decision with its facts. [`ApiError::status`] makes the metav1 Status of it that kube-apiserver returns (apimachinery
//! `api/errors/errors.go`). Few errors have a plain text body, because upstream's have.
//! Does not write responses: see `response`, and `watch` for errors inside of a stream.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::access::{AccessError, Forbidden};
use crate::flow_control::limit::{Limit, Limited};
use crate::manifest::shape::MOST_MISFITS;
use crate::model::quantity::Bytes;
use crate::model::{Gvr, Version, quote};
use crate::selector::FieldError;
use crate::transport::head_error::HeadError;

/// Why a request has no ordinary answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// No such path: plain text, as the API server's outer router answers.
    PageNotFound,
    /// No such path below a built-in group version: a Status.
    UnknownResource,
    /// No such object.
    NotFound {
        /// The resource.
        gvr: Gvr,
        /// The requested name.
        name: String,
    },
    /// A verb that the resource does not offer, among them every write.
    MethodNotAllowed {
        /// Kubernetes' verb, such as `create`.
        verb: &'static str,
        /// The resource, with its subresource if one was named.
        gvr: Gvr,
    },
    /// A write of something that the API server behind may well write, which reads alone are forwarded to.
    WriteNotForwarded {
        /// Kubernetes' verb, such as `create`.
        verb: &'static str,
        /// The resource.
        gvr: Gvr,
    },
    /// A method other than GET and HEAD on a path that is no resource.
    MethodNotAllowedHere,
    /// A parameter or selector that cannot be read.
    BadRequest(String),
    /// A request that cannot be routed, with another code than 400: its length, or its version of HTTP.
    Rejected(StatusCode, String),
    /// A resourceVersion that cannot be read, where upstream lets a bare error through: 500 and no reason.
    Bare(String),
    /// ListOptions that contradict each other.
    InvalidOptions(Vec<OptionFault>),
    /// CreateOptions with values that are not known.
    InvalidCreateOptions(Vec<OptionFault>),
    /// A review that is invalid, or whose Pod could not be created; field by field.
    InvalidReview {
        /// The group of its kind.
        group: &'static str,
        /// Its kind.
        kind: &'static str,
        /// What is wrong.
        problems: Vec<FieldError>,
    },
    /// A body that is longer than this many bytes.
    TooLargeBody(usize),
    /// The row of an object is longer than an event of a watch may be.
    TooLongRow {
        /// The resource.
        gvr: Gvr,
        /// Namespace and name of the object.
        key: String,
        /// How long a row of an event may be, in bytes.
        most: u64,
    },
    /// No offered media type is accepted, or not in the requested form.
    NotAcceptable(String),
    /// No offered media type is accepted by a built-in path; what is offered.
    NotRouted(&'static [&'static str]),
    /// A body without a media type.
    UnsupportedMediaType(String),
    /// A browser on a foreign page; see `guards`.
    Forbidden(String),
    /// Authentication or authorization failed; see `access`.
    Access(AccessError),
    /// History does not reach back to that version.
    Expired {
        /// Upstream's words for this case.
        message: String,
        /// A token with which the list can be continued, inconsistently.
        continue_token: Option<String>,
    },
    /// The store has not reached the requested version.
    TooLargeVersion {
        /// The requested version.
        requested: Version,
        /// The version of the store.
        current: Version,
    },
    /// The number of forwarded requests of the user is at its limit.
    TooManyForwarded(u64),
    /// The limit of reviews: this one had no turn in its time.
    TooManyReviews(u64),
    /// There is as much as there may be of something.
    Limited(Limited),
    /// The resource's data is still being read.
    Loading(String),
    /// The source cannot provide what the response needs now.
    Unavailable(String),
    /// An internal error.
    Internal(String),
}

impl From<HeadError> for ApiError {
    fn from(error: HeadError) -> ApiError {
        match error {
            HeadError::Malformed(message) => ApiError::BadRequest(message),
            HeadError::Unsupported(code, message) => ApiError::Rejected(code, message),
            HeadError::Limited(limited) => ApiError::Limited(limited),
        }
    }
}

/// One entry of `details.causes` of invalid options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionFault {
    /// The parameter.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: OptionProblem,
}

/// What is wrong with an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionProblem {
    /// The option is forbidden here, for this reason.
    Forbidden(String),
    /// Its value is none of the known ones.
    NotSupported {
        /// The value.
        value: String,
        /// The known ones.
        supported: &'static [&'static str],
    },
}

impl OptionFault {
    /// The reason of the cause.
    fn reason(&self) -> &'static str {
        match self.problem {
            OptionProblem::Forbidden(_) => "FieldValueForbidden",
            OptionProblem::NotSupported { .. } => "FieldValueNotSupported",
        }
    }

    /// The message without the field's name.
    fn body(&self) -> String {
        match &self.problem {
            OptionProblem::Forbidden(why) => format!("Forbidden: {why}"),
            OptionProblem::NotSupported { value, supported } => {
                let supported: Vec<String> = supported.iter().map(|value| quote(value)).collect();
                format!("Unsupported value: {}: supported values: {}", quote(value), supported.join(", "))
            }
        }
    }
}

/// The parts of a Status that differ between failures.
struct Parts<'a> {
    code: StatusCode,
    reason: Option<&'static str>,
    message: Cow<'a, str>,
    details: Option<Value>,
}

impl<'a> Parts<'a> {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<Cow<'a, str>>) -> Parts<'a> {
        Parts { code, reason: Some(reason), message: message.into(), details: None }
    }

    /// Adds the details of the Status.
    fn with(mut self, details: Value) -> Parts<'a> {
        self.details = Some(details);
        self
    }

    /// Shortens the texts to [`LONGEST_MESSAGE`] bytes. The causes repeat the message, so together they have the same
    /// bound.
    fn bounded(mut self) -> Parts<'a> {
        shorten(&mut self.message, LONGEST_MESSAGE);
        let causes = self.details.as_mut().and_then(|details| details.get_mut("causes")).and_then(Value::as_array_mut);
        if let Some(causes) = causes {
            let mut left = LONGEST_MESSAGE;
            for message in causes.iter_mut().filter_map(|cause| cause.get_mut("message")) {
                let Value::String(text) = message else { continue };
                let mut text = Cow::Owned(std::mem::take(text));
                shorten(&mut text, left);
                left = left.saturating_sub(text.len());
                *message = Value::from(text);
            }
        }
        self
    }
}

/// Cuts a text to at most `most` bytes.
fn shorten(text: &mut Cow<'_, str>, most: usize) {
    if text.len() > most {
        let end = text.floor_char_boundary(most);
        *text = Cow::Owned(format!("{} ...", &text[..end]));
    }
}

/// Longest message of a Status, in bytes. A message shows what a client has sent, which can be as long as a URL or a
/// body. There are several copies of it while a response is built.
const LONGEST_MESSAGE: usize = 64 << 10;

/// Seconds after which a client may come again while data is being loaded. Loading takes seconds; upstream starts its
/// own back-off at one second too.
const LOADING_RETRY_SECONDS: u64 = 1;

impl ApiError {
    /// The error for a body without a media type.
    pub(crate) fn no_media_type() -> ApiError {
        let message = "the body of the request was in an unknown format - a Content-Type is needed";
        ApiError::UnsupportedMediaType(message.to_owned())
    }

    /// The error for an invalid review.
    pub(crate) fn invalid_review(group: &'static str, kind: &'static str, mut problems: Vec<FieldError>) -> ApiError {
        // Each is written twice. Thousands of premises can be wrong alike.
        problems.truncate(MOST_MISFITS);
        ApiError::InvalidReview { group, kind, problems }
    }

    /// The HTTP status.
    pub fn code(&self) -> StatusCode {
        self.parts().code
    }

    /// The message of the error.
    pub(crate) fn message(&self) -> String {
        self.parts().message.into_owned()
    }

    /// The plain text body, for errors that have no Status.
    pub fn plain_text(&self) -> Option<&'static str> {
        matches!(self, ApiError::PageNotFound).then_some("404 page not found\n")
    }

    /// The seconds for the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            ApiError::TooLargeVersion { .. } => Some(1),
            ApiError::Limited(limited) => limited.retry_after,
            ApiError::Loading(_) | ApiError::TooManyForwarded(_) | ApiError::TooManyReviews(_) => {
                Some(LOADING_RETRY_SECONDS)
            }
            ApiError::Access(
                AccessError::TooManyInvalidTokens
                | AccessError::TooManyReviews
                | AccessError::AuthenticatorUnavailable
                | AccessError::AuthoritiesNotLoaded,
            ) => Some(LOADING_RETRY_SECONDS),
            ApiError::PageNotFound
            | ApiError::UnknownResource
            | ApiError::NotFound { .. }
            | ApiError::MethodNotAllowed { .. }
            | ApiError::WriteNotForwarded { .. }
            | ApiError::MethodNotAllowedHere
            | ApiError::BadRequest(_)
            | ApiError::Rejected(..)
            | ApiError::Bare(_)
            | ApiError::InvalidOptions(_)
            | ApiError::InvalidCreateOptions(_)
            | ApiError::InvalidReview { .. }
            | ApiError::TooLargeBody(_)
            | ApiError::TooLongRow { .. }
            | ApiError::NotAcceptable(_)
            | ApiError::NotRouted(_)
            | ApiError::UnsupportedMediaType(_)
            | ApiError::Forbidden(_)
            | ApiError::Access(_)
            | ApiError::Expired { .. }
            | ApiError::Unavailable(_)
            | ApiError::Internal(_) => None,
        }
    }

    /// The metav1 Status as one line of JSON, keys in the order of the Go type.
    pub fn status(&self) -> Vec<u8> {
        self.code_and_status().1
    }

    /// The HTTP status, and the metav1 Status.
    pub fn code_and_status(&self) -> (StatusCode, Vec<u8>) {
        let parts = self.parts();
        let token = if let ApiError::Expired { continue_token: Some(token), .. } = self {
            json!({ "continue": token })
        } else {
            json!({})
        };
        let mut text =
            format!("{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{token},\"status\":\"Failure\"")
                .into_bytes();
        let mut member = |name: &str, value: &Value| {
            text.extend_from_slice(format!(",\"{name}\":").as_bytes());
            super::encode::write_value(value, &mut text);
        };
        if !parts.message.is_empty() {
            member("message", &Value::from(parts.message));
        }
        if let Some(reason) = parts.reason {
            member("reason", &Value::from(reason));
        }
        if let Some(details) = &parts.details {
            member("details", details);
        }
        member("code", &Value::from(parts.code.as_u16()));
        text.push(b'}');
        (parts.code, text)
    }

    /// What the Status consists of, with bounded texts.
    fn parts(&self) -> Parts<'_> {
        self.unbounded().bounded()
    }

    /// The parts of the Status, before their texts are shortened.
    fn unbounded(&self) -> Parts<'_> {
        match self {
            ApiError::PageNotFound | ApiError::UnknownResource => {
                Parts::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
                    .with(json!({}))
            }
            ApiError::NotFound { gvr, name } => Parts::new(
                StatusCode::NOT_FOUND,
                "NotFound",
                format!("{} {} not found", gvr.group_resource(), quote(name)),
            )
            .with(details(name, gvr)),
            ApiError::MethodNotAllowed { verb, gvr } => Parts::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                format!("{verb} is not supported on resources of kind {}", quote(&gvr.group_resource())),
            )
            .with(details("", gvr)),
            ApiError::WriteNotForwarded { verb, gvr } => Parts::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                format!(
                    "{verb} is not supported on resources of kind {} here: this server forwards reads to its cluster, not \
                     writes; start it with --pass-through=all, or use the API server directly",
                    quote(&gvr.group_resource())
                ),
            )
            .with(details("", gvr)),
            ApiError::MethodNotAllowedHere => Parts::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
            .with(json!({})),
            ApiError::BadRequest(message) => Parts::new(StatusCode::BAD_REQUEST, "BadRequest", message),
            ApiError::Rejected(code, message) => {
                Parts { code: *code, reason: None, message: message.into(), details: None }
            }
            ApiError::Bare(message) => {
                Parts { code: StatusCode::INTERNAL_SERVER_ERROR, reason: None, message: message.into(), details: None }
            }
            ApiError::InvalidOptions(faults) => invalid_options("ListOptions", faults),
            ApiError::InvalidCreateOptions(faults) => invalid_options("CreateOptions", faults),
            ApiError::InvalidReview { group, kind, problems } => invalid_review(group, kind, problems),
            ApiError::TooLargeBody(most) => Parts::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {most}"),
            )
            .with(json!({})),
            ApiError::TooLongRow { gvr, key, most } => Parts::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!(
                    "the table row of {} {} is longer than {}, the maximum for an event of a watch: list the resource as a table, watch it without as=Table, or shorten the additionalPrinterColumns of its CRD",
                    gvr.group_resource(),
                    quote(key),
                    Bytes(*most)
                ),
            )
            .with(details(key, gvr)),
            ApiError::NotAcceptable(message) => Parts::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message),
            ApiError::NotRouted(offered) => {
                let message = format!("406: Not Acceptable\n\nAvailable representations: {}", offered.join(", "));
                Parts::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message).with(json!({}))
            }
            ApiError::UnsupportedMediaType(message) => {
                Parts::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
            }
            ApiError::Forbidden(message) => Parts::new(StatusCode::FORBIDDEN, "Forbidden", message),
            ApiError::Access(refusal) => refused(refusal),
            ApiError::Expired { message, .. } => Parts::new(StatusCode::GONE, "Expired", message),
            ApiError::TooLargeVersion { requested, current } => Parts::new(
                StatusCode::GATEWAY_TIMEOUT,
                "Timeout",
                format!("Timeout: Too large resource version: {requested}, current: {current}"),
            )
            .with(json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            })),
            ApiError::Loading(progress) => Parts::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                format!("storage is (re)initializing: {progress}"),
            )
            .with(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
            ApiError::TooManyForwarded(own) => Parts::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                format!(
                    "{own} requests of this user are being forwarded to the API server, watches included, which is the maximum"
                ),
            )
            .with(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
            ApiError::TooManyReviews(limit) => Parts::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                format!("{limit} placement reviews are in progress, which is the maximum"),
            )
            .with(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
            ApiError::Limited(limited) => limited_parts(limited),
            ApiError::Unavailable(message) => {
                Parts::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            }
            ApiError::Internal(message) => Parts::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                format!("Internal error occurred: {message}"),
            )
            .with(json!({"causes": [{"message": message}]})),
        }
    }
}

/// The cause decides the code: 401, 403 and 429 for the caller's, 500 and 503 for others. Upstream returns 401 for a
/// token that could not be reviewed; that it was not the token is worth reporting. Upstream serves nothing before it
/// has read its authorities; we do, and report that it was not the certificate.
fn refused(refusal: &AccessError) -> Parts<'_> {
    match refusal {
        AccessError::Unauthorized(accepted) => {
            Parts::new(StatusCode::UNAUTHORIZED, "Unauthorized", format!("Unauthorized: {accepted}"))
        }
        AccessError::AuthenticatorUnavailable => Parts::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "the token could not be reviewed: the API server that reviews tokens does not respond",
        )
        .with(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
        AccessError::AuthoritiesNotLoaded => Parts::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "client CA certificates are not loaded yet; retry when /readyz is ok",
        )
        .with(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
        AccessError::TooManyInvalidTokens => Parts::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            "too many tokens from this address were rejected; retry later, with a valid one",
        )
        .with(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
        AccessError::TooManyReviews => Parts::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            "too many requests, please try again later: this server is checking the permissions of many other requests of this user",
        )
        .with(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
        AccessError::Impersonation(header) => Parts::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!(
                "the header {header} requests impersonation, which this server does not support: authenticate as that user, or \
                 use the API server, which authorizes impersonation"
            ),
        ),
        AccessError::Forbidden(forbidden) => {
            let Forbidden { attributes, .. } = &**forbidden;
            let details = match &attributes.resource {
                Some(about) => details(&about.name, &Gvr::new(&*about.group, &*about.version, &*about.resource)),
                None => json!({}),
            };
            Parts::new(StatusCode::FORBIDDEN, "Forbidden", forbidden.message()).with(details)
        }
        AccessError::AuthorizerUnavailable => Parts::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            "Internal error occurred: the API server that authorizes requests does not respond",
        ),
        AccessError::Incomplete(problem) => Parts::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {problem}"),
        ),
    }
}

/// 429 for what others, or the client itself, use; 503 for a store without memory, as fewer requests do not help
/// there. The cause names the limit for programs.
fn limited_parts(limited: &Limited) -> Parts<'_> {
    let (code, reason) = match limited.limit {
        Limit::Memory => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        Limit::Connections
        | Limit::UnauthenticatedConnections
        | Limit::ConnectionsPerAddress
        | Limit::ConnectionsPerUser
        | Limit::UnstartedRequests
        | Limit::WatchesPerUser
        | Limit::Seats
        | Limit::Lists
        | Limit::ListBytes
        | Limit::UnreadBytes
        | Limit::Bodies
        | Limit::BodyBytes => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
    };
    let mut details = json!({"causes": [{"reason": limited.limit.reason(), "field": limited.limit.flag()}]});
    if let Some(seconds) = limited.retry_after {
        details["retryAfterSeconds"] = Value::from(seconds);
    }
    Parts::new(code, reason, &*limited.message).with(details)
}

/// The details of a Status about an object.
fn details(name: &str, gvr: &Gvr) -> Value {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", &*gvr.group), ("kind", &*gvr.resource)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), Value::from(value));
        }
    }
    Value::Object(details)
}

/// The Status for options that are not valid.
fn invalid_options(kind: &str, faults: &[OptionFault]) -> Parts<'static> {
    let messages: Vec<String> = faults.iter().map(|fault| format!("{}: {}", fault.field, fault.body())).collect();
    let message = match &messages[..] {
        [single] => single.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let causes: Vec<Value> = faults
        .iter()
        .map(|fault| json!({"reason": fault.reason(), "message": fault.body(), "field": fault.field}))
        .collect();
    Parts::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", format!("{kind}.meta.k8s.io \"\" is invalid: {message}"))
        .with(json!({"group": "meta.k8s.io", "kind": kind, "causes": causes}))
}

/// In the words for an object that is invalid (apimachinery `api/errors`, NewInvalid).
fn invalid_review(group: &str, kind: &str, problems: &[FieldError]) -> Parts<'static> {
    let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let message = match &messages[..] {
        [single] => single.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let cause = |problem: &FieldError| json!({"reason": problem.reason.as_str(), "message": problem.message, "field": problem.field});
    let causes: Vec<Value> = problems.iter().map(cause).collect();
    Parts::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", format!("{kind}.{group} \"\" is invalid: {message}"))
        .with(json!({"group": group, "kind": kind, "causes": causes}))
}
