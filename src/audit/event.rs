//! An `audit.k8s.io/v1` event (apiserver `pkg/apis/audit/v1`) at level Metadata.
//!
//! Fields have upstream's order and are omitted where upstream omits them, so that programs that read kube-apiserver's
//! log can read this one. Times have six digits of a second (apimachinery MicroTime). `server` creates the events of
//! requests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::access::Identity;
use crate::access::attributes::{Attributes, ResourceAttributes};

/// Upstream's annotation: `allow` or `forbid`; absent without a decision.
pub const DECISION: &str = "authorization.k8s.io/decision";

/// Upstream's annotation: the authorizer's reason.
pub const REASON: &str = "authorization.k8s.io/reason";

/// Annotation: the View of a request.
pub const VIEW: &str = "view.fieldcache.dev/view";

/// The annotation with the reason why that View is not served. The response has the reason only for callers that may
/// use the View.
pub const VIEW_PROBLEM: &str = "view.fieldcache.dev/problem";

/// The maximum length of a user agent, in bytes; longer ones are truncated as upstream does (apiserver
/// `pkg/audit/request.go`). In events of rejected requests, this is the maximum of every string that the caller
/// chooses.
const LONGEST: usize = 1024;
/// The end of a truncated string.
const CUT: &str = "...TRUNCATED";

/// The maximum length of a URI, in bytes; longer ones are truncated. A URI can have a mebibyte. A user of a View could
/// otherwise fill the disk of the log with a few requests a second.
const LONGEST_URI: usize = 16 << 10;

/// The maximum number of addresses of an event. The client chooses all but the last one, and each takes many times as
/// much memory as in the header.
pub const MOST_ADDRESSES: usize = 16;

/// The number of levels of a Status that have strings, down to the causes in its details.
const STATUS_DEPTH: usize = 4;

/// The stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// The status and the headers of a stream have been sent.
    ResponseStarted,
    /// The response has ended.
    ResponseComplete,
}

/// The object of a request. Empty fields are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

/// One event of the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The id, which the response has in the header `Audit-Id`.
    pub audit_id: String,
    /// The stage of the request.
    pub stage: Stage,
    /// Path and query of the request.
    pub uri: String,
    /// Kubernetes' verb, or the method in lower case.
    pub verb: String,
    /// The caller; `None` if it is not authenticated.
    pub user: Option<EventUser>,
    /// The addresses of the client and of proxies; the last one is that of the connection.
    pub source_addresses: Vec<String>,
    /// The User-Agent header.
    pub user_agent: String,
    /// The object of the request; `None` for requests without a resource.
    pub object: Option<ObjectReference>,
    /// The metav1 Status of the response, without some fields; see [`status`] and [`failure`]. `None`: the client
    /// disconnected before the response.
    pub status: Option<Value>,
    /// When the request arrived.
    pub received: Timestamp,
    /// When it reached `stage`.
    pub reached: Timestamp,
    /// Annotations by name.
    pub annotations: BTreeMap<&'static str, String>,
}

/// The user of an event. Empty fields are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub struct EventUser {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// An event in the form of the log, with fields in upstream's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'e> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: &'e str,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: &'e str,
    verb: &'e str,
    user: &'e EventUser,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[String]>::is_empty")]
    source_ips: &'e [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<&'e ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<&'e Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'e BTreeMap<&'static str, String>,
}

impl Event {
    /// The approximate memory of the strings that the caller chooses, in bytes.
    pub fn held_bytes(&self) -> usize {
        let addresses = self.source_addresses.iter().map(|address| size_of::<String>() + address.len());
        let annotations = self.annotations.values().map(String::len);
        let object = self.object.iter().flat_map(|object| {
            [
                &object.resource,
                &object.namespace,
                &object.name,
                &object.api_group,
                &object.api_version,
                &object.subresource,
            ]
        });
        let texts = [&self.uri, &self.verb, &self.user_agent].into_iter().chain(object).map(String::len);
        texts.chain(addresses).chain(annotations).sum()
    }

    /// The event with every string that the caller chooses truncated to [`LONGEST`], so that a rejected caller cannot
    /// fill the log.
    pub fn shortened(mut self) -> Event {
        self.uri = truncate(self.uri);
        self.verb = truncate(self.verb);
        // The last address is that of the connection, which the client does not choose.
        let excess = self.source_addresses.len().saturating_sub(MOST_ADDRESSES);
        self.source_addresses.drain(..excess);
        if let Some(object) = &mut self.object {
            for text in [
                &mut object.resource,
                &mut object.namespace,
                &mut object.name,
                &mut object.api_group,
                &mut object.api_version,
                &mut object.subresource,
            ] {
                *text = truncate(std::mem::take(text));
            }
        }
        if let Some(status) = &mut self.status {
            truncate_strings(status, STATUS_DEPTH);
        }
        self.annotations.values_mut().for_each(|text| *text = truncate(std::mem::take(text)));
        self
    }

    /// The event as one line of JSON, with a line end.
    pub fn line(&self) -> Vec<u8> {
        let anonymous = EventUser::default();
        let line = Line {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: "Metadata",
            audit_id: &self.audit_id,
            stage: self.stage,
            request_uri: &self.uri,
            verb: &self.verb,
            user: self.user.as_ref().unwrap_or(&anonymous),
            source_ips: &self.source_addresses,
            user_agent: &self.user_agent,
            object_ref: self.object.as_ref(),
            response_status: self.status.as_ref(),
            request_received_timestamp: time(self.received),
            stage_timestamp: time(self.reached),
            annotations: &self.annotations,
        };
        // Strings and maps of strings can always be written as JSON.
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl From<&Identity> for EventUser {
    fn from(identity: &Identity) -> EventUser {
        EventUser {
            username: identity.user.clone(),
            uid: identity.uid.clone(),
            groups: identity.groups.clone(),
            extra: identity.extra.clone(),
        }
    }
}

impl From<&ResourceAttributes> for ObjectReference {
    fn from(attributes: &ResourceAttributes) -> ObjectReference {
        ObjectReference {
            resource: attributes.resource.clone(),
            namespace: attributes.namespace.clone(),
            name: attributes.name.clone(),
            api_group: attributes.group.clone(),
            api_version: attributes.version.clone(),
            subresource: attributes.subresource.clone(),
        }
    }
}

/// The object of a request; `None` if the request is not about a resource.
pub fn object_of(attributes: &Attributes) -> Option<ObjectReference> {
    attributes.resource.as_ref().map(ObjectReference::from)
}

/// The status of an event whose response is not a metav1 Status: its HTTP status code only.
pub fn status(code: u16) -> Value {
    json!({ "metadata": {}, "code": code })
}

/// The status of an event whose response is the metav1 Status `document`: without kind and apiVersion, as upstream. If
/// the document is not an object, the HTTP status code `code` only.
pub fn failure(mut document: Value, code: u16) -> Value {
    match document.as_object_mut() {
        Some(members) => {
            members.remove("kind");
            members.remove("apiVersion");
            document
        }
        None => status(code),
    }
}

/// A User-Agent header, truncated to [`LONGEST`].
pub fn user_agent(text: &str) -> String {
    truncate(text.to_owned())
}

/// The URI of a request, truncated to [`LONGEST_URI`].
pub fn uri(text: String) -> String {
    truncate_to(LONGEST_URI, text)
}

/// Truncates a string to [`LONGEST`].
fn truncate(text: String) -> String {
    truncate_to(LONGEST, text)
}

/// Truncates a string to at most `longest` bytes, at the boundary of a character, and appends [`CUT`]. Shorter strings
/// stay as they are.
fn truncate_to(longest: usize, text: String) -> String {
    if text.len() <= longest {
        return text;
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{CUT}", &text[..end])
}

/// Truncates the strings of a document down to `depth` levels. The documents of events have no strings below that.
fn truncate_strings(value: &mut Value, depth: usize) {
    match value {
        Value::String(text) => *text = truncate(std::mem::take(text)),
        Value::Object(members) if depth > 0 => {
            members.values_mut().for_each(|member| truncate_strings(member, depth - 1));
        }
        Value::Array(items) if depth > 0 => items.iter_mut().for_each(|item| truncate_strings(item, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {}
    }
}

/// A time as audit events write it: RFC 3339 with microseconds.
fn time(timestamp: Timestamp) -> String {
    timestamp.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
