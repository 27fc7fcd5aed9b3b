//! All errors of requests, and the only place that chooses status codes.
//!
//! An [`ApiError`] is the kind of an error with its details. [`ApiError::status`] converts it to the metav1 Status that
//! kube-apiserver returns (apimachinery `api/errors/errors.go`). As in kube-apiserver, some errors have a plain text
//! body. This module does not write responses: see `response`, and `watch` for errors within a stream.

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

/// Why a request fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// The path does not exist: a plain text body, as from kube-apiserver's outer router.
    PageNotFound,
    /// The path names a resource or subresource that is not served: a Status.
    UnknownResource,
    /// The object does not exist.
    NotFound {
        /// The resource.
        gvr: Gvr,
        /// The requested name.
        name: String,
    },
    /// The resource does not support the verb. This includes all writes.
    MethodNotAllowed {
        /// Kubernetes' verb, such as `create`.
        verb: &'static str,
        /// The resource, with the subresource if the path names one.
        gvr: Gvr,
    },
    /// A write to a resource of which this server forwards only reads. The API server may support the verb.
    WriteNotForwarded {
        /// Kubernetes' verb, such as `create`.
        verb: &'static str,
        /// The resource.
        gvr: Gvr,
    },
    /// A method other than GET and HEAD on a path that is not a resource.
    MethodNotAllowedHere,
    /// A parameter, selector or body that cannot be parsed.
    BadRequest(String),
    /// A request that the transport rejects with a code other than 400, such as for its length or its HTTP version.
    Rejected(StatusCode, String),
    /// An error for which kube-apiserver returns a Status with code 500 and without a reason. Examples are a
    /// resourceVersion or a shardSelector that cannot be parsed.
    Bare(String),
    /// ListOptions that contradict each other.
    InvalidOptions(Vec<OptionFault>),
    /// CreateOptions with unknown values.
    InvalidCreateOptions(Vec<OptionFault>),
    /// A review that is invalid, or whose Pod could not be created.
    InvalidReview {
        /// The group of its kind.
        group: &'static str,
        /// Its kind.
        kind: &'static str,
        /// One problem for each invalid field.
        problems: Vec<FieldError>,
    },
    /// A body that is longer than this maximum, in bytes.
    TooLargeBody(usize),
    /// The table row of an object exceeds the maximum length of a watch event.
    TooLongRow {
        /// The resource.
        gvr: Gvr,
        /// Namespace and name of the object.
        key: String,
        /// The maximum length in bytes.
        most: u64,
    },
    /// The client accepts none of the offered media types, or requests a representation that the resource does not
    /// have.
    NotAcceptable(String),
    /// The client accepts none of these media types, which the route of a built-in path offers.
    NotRouted(&'static [&'static str]),
    /// A body whose media type is missing or not supported.
    UnsupportedMediaType(String),
    /// A request that this server rejects with 403 and this message, without a decision of the API server. Reasons are:
    ///
    /// - a web page of another site makes the request in a browser (`guards`, `websocket`)
    /// - the caller lacks a value that the View requires (`view_request`)
    /// - the request must not be forwarded (`forward_policy`)
    /// - the admission of the API server would reject the Pod of a placement review (`placement_review`)
    /// - the source does not permit fieldcache to list the resource (`read`)
    Forbidden(String),
    /// A watch over WebSocket whose handshake is invalid.
    Handshake(HandshakeFault),
    /// Authentication or authorization failed; see `access`.
    Access(AccessError),
    /// The requested version is older than the history, or the snapshot of the response was released.
    Expired {
        /// The message of kube-apiserver for this case.
        message: String,
        /// A token that continues the list with the current state, which is inconsistent with the earlier pages. `None`
        /// if the request was not for a further page of a list.
        continue_token: Option<String>,
    },
    /// The store has not reached the requested version.
    TooLargeVersion {
        /// The requested version.
        requested: Version,
        /// The version of the store.
        current: Version,
    },
    /// Too many requests of the user are being forwarded at the same time; with their number.
    TooManyForwarded(u64),
    /// Too many placement reviews are in progress, and the wait for a permit timed out; with the maximum.
    TooManyReviews(u64),
    /// A limit was reached.
    Limited(Limited),
    /// The store of the resource is still loading, with its progress.
    Loading(String),
    /// The source currently cannot provide what the response needs.
    Unavailable(String),
    /// An internal error.
    Internal(String),
}

/// Why the handshake of a WebSocket is invalid (golang.org/x/net `websocket/hybi.go`, ReadHandshake, AcceptHandshake
/// and checkOrigin).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFault {
    /// The header Sec-WebSocket-Key is missing.
    NoKey,
    /// The header Sec-WebSocket-Version is not 13.
    Version,
    /// The header Origin is missing or not a URL.
    NoOrigin,
    /// The client offers several subprotocols, besides that of its token. Watches define none, so none can be chosen.
    SeveralProtocols,
    /// The request has a body, after which messages would have to follow.
    Body,
}

impl HandshakeFault {
    /// The status code and the plain text of the response. If the handshake function of kube-apiserver fails, its text
    /// is empty; then the text here states what to change.
    fn response(self) -> (StatusCode, &'static str) {
        match self {
            HandshakeFault::NoKey => (StatusCode::BAD_REQUEST, "mismatch challenge/response"),
            HandshakeFault::Version => (StatusCode::BAD_REQUEST, "missing or bad WebSocket Version"),
            HandshakeFault::NoOrigin => (
                StatusCode::FORBIDDEN,
                "a watch over WebSocket needs a header Origin with a URL: send that of this server, such as https://HOST",
            ),
            HandshakeFault::SeveralProtocols => (
                StatusCode::BAD_REQUEST,
                "a watch over WebSocket has at most one subprotocol, besides that of a token: send one, or none",
            ),
            HandshakeFault::Body => (StatusCode::BAD_REQUEST, "a watch over WebSocket has no body: send none"),
        }
    }
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

/// One invalid option: an entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionFault {
    /// The parameter.
    pub field: &'static str,
    /// Why it is invalid.
    pub problem: OptionProblem,
}

/// Why an option is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionProblem {
    /// The option must not be set in this request, for this reason.
    Forbidden(String),
    /// The value is not one of the supported ones.
    NotSupported {
        /// The value.
        value: String,
        /// The supported values.
        supported: &'static [&'static str],
    },
}

impl OptionFault {
    /// The field `reason` of the cause.
    fn reason(&self) -> &'static str {
        match self.problem {
            OptionProblem::Forbidden(_) => "FieldValueForbidden",
            OptionProblem::NotSupported { .. } => "FieldValueNotSupported",
        }
    }

    /// The field `message` of the cause, which does not name the option.
    fn message(&self) -> String {
        match &self.problem {
            OptionProblem::Forbidden(why) => format!("Forbidden: {why}"),
            OptionProblem::NotSupported { value, supported } => {
                let supported: Vec<String> = supported.iter().map(|value| quote(value)).collect();
                format!("Unsupported value: {}: supported values: {}", quote(value), supported.join(", "))
            }
        }
    }
}

/// The parts of a Status that differ between errors.
struct Parts<'a> {
    code: StatusCode,
    /// `None` for a Status without a reason.
    reason: Option<&'static str>,
    message: Cow<'a, str>,
    /// `None` for a Status without details.
    details: Option<Value>,
}

impl<'a> Parts<'a> {
    /// The parts of a Status without details.
    fn new(code: StatusCode, reason: &'static str, message: impl Into<Cow<'a, str>>) -> Parts<'a> {
        Parts { code, reason: Some(reason), message: message.into(), details: None }
    }

    /// Adds the details of the Status.
    fn with_details(mut self, details: Value) -> Parts<'a> {
        self.details = Some(details);
        self
    }

    /// Shortens the message to [`LONGEST_MESSAGE`] bytes. The causes repeat the message, so all of them together have
    /// the same maximum.
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

/// Truncates a text that is longer than `most` bytes to at most `most` bytes, and appends ` ...`.
fn shorten(text: &mut Cow<'_, str>, most: usize) {
    if text.len() > most {
        let end = text.floor_char_boundary(most);
        *text = Cow::Owned(format!("{} ...", &text[..end]));
    }
}

/// The only version of the WebSocket protocol (RFC 6455).
pub(crate) const WEBSOCKET_VERSION: &str = "13";

/// The longest message of a Status, in bytes. A message can quote a URL or a body, and there are several copies of it
/// while a response is created.
const LONGEST_MESSAGE: usize = 64 << 10;

/// The seconds after which a client may retry, while a store is loading or a limit is reached. The back-off of
/// kube-apiserver begins with one second too.
const LOADING_RETRY_SECONDS: u64 = 1;

impl ApiError {
    /// The error for a body without a media type: 415.
    pub(crate) fn no_media_type() -> ApiError {
        let message = "the body of the request was in an unknown format - a Content-Type is needed";
        ApiError::UnsupportedMediaType(message.to_owned())
    }

    /// The error for an invalid review: 422. Keeps only the first [`MOST_MISFITS`] problems.
    pub(crate) fn invalid_review(group: &'static str, kind: &'static str, mut problems: Vec<FieldError>) -> ApiError {
        // A review can have thousands of equal problems, and each is written twice.
        problems.truncate(MOST_MISFITS);
        ApiError::InvalidReview { group, kind, problems }
    }

    /// The HTTP status code.
    pub fn code(&self) -> StatusCode {
        self.parts().code
    }

    /// The message of the error.
    pub(crate) fn message(&self) -> String {
        self.parts().message.into_owned()
    }

    /// The plain text body; `None` for errors whose body is a Status.
    pub fn plain_text(&self) -> Option<&'static str> {
        if let ApiError::Handshake(fault) = self {
            return Some(fault.response().1);
        }
        matches!(self, ApiError::PageNotFound).then_some("404 page not found\n")
    }

    /// The version of the WebSocket protocol, for the header Sec-WebSocket-Version; `None` if the response must not
    /// have the header.
    pub(crate) fn websocket_version(&self) -> Option<&'static str> {
        matches!(self, ApiError::Handshake(HandshakeFault::Version)).then_some(WEBSOCKET_VERSION)
    }

    /// The seconds for the header `Retry-After`; `None` if the response must not have it.
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
            | ApiError::Handshake(_)
            | ApiError::Access(_)
            | ApiError::Expired { .. }
            | ApiError::Unavailable(_)
            | ApiError::Internal(_) => None,
        }
    }

    /// The metav1 Status as one line of JSON, with its fields in the order of the Go type.
    pub fn status(&self) -> Vec<u8> {
        self.code_and_status().1
    }

    /// The HTTP status code, and the metav1 Status as in [`ApiError::status`].
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

    /// The parts of the Status, with messages of limited length.
    fn parts(&self) -> Parts<'_> {
        self.unbounded_parts().bounded()
    }

    /// The parts of the Status, before the messages are shortened.
    fn unbounded_parts(&self) -> Parts<'_> {
        match self {
            ApiError::PageNotFound | ApiError::UnknownResource => {
                Parts::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
                    .with_details(json!({}))
            }
            ApiError::NotFound { gvr, name } => Parts::new(
                StatusCode::NOT_FOUND,
                "NotFound",
                format!("{} {} not found", gvr.group_resource(), quote(name)),
            )
            .with_details(details(name, gvr)),
            ApiError::MethodNotAllowed { verb, gvr } => Parts::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                format!("{verb} is not supported on resources of kind {}", quote(&gvr.group_resource())),
            )
            .with_details(details("", gvr)),
            ApiError::WriteNotForwarded { verb, gvr } => Parts::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                format!(
                    "{verb} is not supported on resources of kind {} here: this server forwards reads to its cluster, not \
                     writes; start it with --pass-through=all, or use the API server directly",
                    quote(&gvr.group_resource())
                ),
            )
            .with_details(details("", gvr)),
            ApiError::MethodNotAllowedHere => Parts::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
            .with_details(json!({})),
            ApiError::BadRequest(message) => Parts::new(StatusCode::BAD_REQUEST, "BadRequest", message),
            ApiError::Rejected(code, message) => {
                Parts { code: *code, reason: None, message: message.into(), details: None }
            }
            ApiError::Bare(message) => {
                Parts { code: StatusCode::INTERNAL_SERVER_ERROR, reason: None, message: message.into(), details: None }
            }
            ApiError::InvalidOptions(faults) => invalid_options_parts("ListOptions", faults),
            ApiError::InvalidCreateOptions(faults) => invalid_options_parts("CreateOptions", faults),
            ApiError::InvalidReview { group, kind, problems } => invalid_review_parts(group, kind, problems),
            ApiError::TooLargeBody(most) => Parts::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!("Request entity too large: limit is {most}"),
            )
            .with_details(json!({})),
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
            .with_details(details(key, gvr)),
            ApiError::NotAcceptable(message) => Parts::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message),
            ApiError::NotRouted(offered) => {
                let message = format!("406: Not Acceptable\n\nAvailable representations: {}", offered.join(", "));
                Parts::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message).with_details(json!({}))
            }
            ApiError::UnsupportedMediaType(message) => {
                Parts::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
            }
            ApiError::Forbidden(message) => Parts::new(StatusCode::FORBIDDEN, "Forbidden", message),
            ApiError::Handshake(fault) => {
                let (code, message) = fault.response();
                Parts { code, reason: None, message: message.into(), details: None }
            }
            ApiError::Access(error) => access_error_parts(error),
            ApiError::Expired { message, .. } => Parts::new(StatusCode::GONE, "Expired", message),
            ApiError::TooLargeVersion { requested, current } => Parts::new(
                StatusCode::GATEWAY_TIMEOUT,
                "Timeout",
                format!("Timeout: Too large resource version: {requested}, current: {current}"),
            )
            .with_details(json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            })),
            ApiError::Loading(progress) => Parts::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                format!("storage is (re)initializing: {progress}"),
            )
            .with_details(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
            ApiError::TooManyForwarded(own) => Parts::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                format!(
                    "{own} requests of this user are being forwarded to the API server, which is the maximum: end some of them, such as watches, or retry later"
                ),
            )
            .with_details(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
            ApiError::TooManyReviews(limit) => Parts::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                format!("{limit} placement reviews are in progress, which is the maximum: retry later"),
            )
            .with_details(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
            ApiError::Limited(limited) => limited_parts(limited),
            ApiError::Unavailable(message) => {
                Parts::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            }
            ApiError::Internal(message) => Parts::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                format!("Internal error occurred: {message}"),
            )
            .with_details(json!({"causes": [{"message": message}]})),
        }
    }
}

/// The Status for a request that is not authenticated or not authorized. The code is 401, 403 or 429 if the caller is
/// the cause, else 500 or 503.
///
/// Two codes differ from kube-apiserver. For a token that could not be reviewed, kube-apiserver returns 401, as for an
/// invalid token; fieldcache returns 503. kube-apiserver serves nothing before it has loaded its client CA
/// certificates; fieldcache returns 503 until then.
fn access_error_parts(error: &AccessError) -> Parts<'_> {
    match error {
        AccessError::Unauthorized(accepted) => {
            Parts::new(StatusCode::UNAUTHORIZED, "Unauthorized", format!("Unauthorized: {accepted}"))
        }
        AccessError::AuthenticatorUnavailable => Parts::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "the token could not be reviewed: the API server returned no result; retry later",
        )
        .with_details(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
        AccessError::AuthoritiesNotLoaded => Parts::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "client CA certificates are not loaded yet; retry when /readyz is ok",
        )
        .with_details(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
        AccessError::TooManyInvalidTokens => Parts::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            "too many tokens from this address were rejected; retry later, with a valid one",
        )
        .with_details(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
        AccessError::TooManyReviews => Parts::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            "too many requests, please try again later: this server is checking the permissions of many other requests of this user",
        )
        .with_details(json!({"retryAfterSeconds": LOADING_RETRY_SECONDS})),
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
            Parts::new(StatusCode::FORBIDDEN, "Forbidden", forbidden.message()).with_details(details)
        }
        AccessError::AuthorizerUnavailable => Parts::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            "Internal error occurred: the API server returned no decision about the permission; retry later",
        ),
        AccessError::Incomplete(problem) => Parts::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {problem}"),
        ),
    }
}

/// The Status for a limit that was reached. The code is 503 if there is not enough memory for a store, because fewer
/// requests would not help, and otherwise 429. The cause has the reason and the option of the limit, for programs.
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
    Parts::new(code, reason, &*limited.message).with_details(details)
}

/// The details of a Status about an object: its name, group and resource; empty ones are left out. As in
/// kube-apiserver, `kind` is the plural name of the resource.
fn details(name: &str, gvr: &Gvr) -> Value {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", &*gvr.group), ("kind", &*gvr.resource)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), Value::from(value));
        }
    }
    Value::Object(details)
}

/// The Status for invalid options: 422. `kind` is `ListOptions` or `CreateOptions`.
fn invalid_options_parts(kind: &str, faults: &[OptionFault]) -> Parts<'static> {
    let messages: Vec<String> = faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message())).collect();
    let message = match &messages[..] {
        [single] => single.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let causes: Vec<Value> = faults
        .iter()
        .map(|fault| json!({"reason": fault.reason(), "message": fault.message(), "field": fault.field}))
        .collect();
    Parts::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", format!("{kind}.meta.k8s.io \"\" is invalid: {message}"))
        .with_details(json!({"group": "meta.k8s.io", "kind": kind, "causes": causes}))
}

/// The Status for an invalid review: 422, with the message of kube-apiserver for an invalid object (apimachinery
/// `api/errors`, NewInvalid).
fn invalid_review_parts(group: &str, kind: &str, problems: &[FieldError]) -> Parts<'static> {
    let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let message = match &messages[..] {
        [single] => single.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let cause = |problem: &FieldError| json!({"reason": problem.reason.as_str(), "message": problem.message, "field": problem.field});
    let causes: Vec<Value> = problems.iter().map(cause).collect();
    Parts::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", format!("{kind}.{group} \"\" is invalid: {message}"))
        .with_details(json!({"group": group, "kind": kind, "causes": causes}))
}
