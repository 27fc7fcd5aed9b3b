//! An `audit.k8s.io/v1` event (apiserver `pkg/apis/audit/v1`) at level Metadata.
//!
//! Members have upstream's order and are omitted where upstream omits them, so that readers of kube-apiserver's log can read this one.
//! Times have six digits of a second (apimachinery MicroTime). `server` makes events of requests.

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

/// The annotation with the reason why that View is not served. The response has it only for callers that may use the View.
pub const VIEW_PROBLEM: &str = "view.fieldcache.dev/problem";

/// Longer user agents are cut, as upstream cuts them (apiserver `pkg/audit/request.go`); of rejected requests every text that the
/// caller chooses is cut.
const LONGEST: usize = 1024;
const CUT: &str = "...TRUNCATED";

/// Longer URIs are cut. A URI can have a mebibyte. A user of a View could otherwise fill the disk of the log with a few
/// requests a second.
const LONGEST_URI: usize = 16 << 10;

/// Most addresses of an event. The client chooses all but the last, and each takes many times as much memory as in the header.
pub const MOST_ADDRESSES: usize = 16;

/// Levels of a Status with texts, down to the causes in its details.
const STATUS_DEPTH: usize = 4;

/// The stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// The head of a long response has been sent.
    ResponseStarted,
    /// The response has ended.
    ResponseComplete,
}

/// The object of a request. Empty members are omitted.
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

/// One event.
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
    /// Addresses of the client and of proxies, the nearest last.
    pub source_addresses: Vec<String>,
    /// The User-Agent header.
    pub user_agent: String,
    /// Its object; `None` for requests without a resource.
    pub object: Option<ObjectReference>,
    /// The metav1 Status of the response, without some members; see [`status`] and [`failure`]. `None`: the client disconnected before.
    pub status: Option<Value>,
    /// When the request arrived.
    pub received: Timestamp,
    /// When it reached `stage`.
    pub reached: Timestamp,
    /// Annotations by name.
    pub annotations: BTreeMap<&'static str, String>,
}

/// The user of an event. Empty members are omitted.
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

/// The members of an event, in upstream's order.
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
    /// Bytes of the texts that the caller chooses.
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

    /// The event with every text cut to a length that does not depend on the caller, so that a rejected caller cannot
    /// fill the log.
    pub fn shortened(mut self) -> Event {
        self.uri = cut(self.uri);
        self.verb = cut(self.verb);
        // The last one is that of the peer.
        let made_up = self.source_addresses.len().saturating_sub(MOST_ADDRESSES);
        self.source_addresses.drain(..made_up);
        if let Some(object) = &mut self.object {
            for text in [
                &mut object.resource,
                &mut object.namespace,
                &mut object.name,
                &mut object.api_group,
                &mut object.api_version,
                &mut object.subresource,
            ] {
                *text = cut(std::mem::take(text));
            }
        }
        if let Some(status) = &mut self.status {
            cut_texts(status, STATUS_DEPTH);
        }
        self.annotations.values_mut().for_each(|text| *text = cut(std::mem::take(text)));
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
        // Texts and maps of texts always have a form in JSON.
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
    fn from(about: &ResourceAttributes) -> ObjectReference {
        ObjectReference {
            resource: about.resource.clone(),
            namespace: about.namespace.clone(),
            name: about.name.clone(),
            api_group: about.group.clone(),
            api_version: about.version.clone(),
            subresource: about.subresource.clone(),
        }
    }
}

/// The object of a request; `None` without a resource.
pub fn object_of(attributes: &Attributes) -> Option<ObjectReference> {
    attributes.resource.as_ref().map(ObjectReference::from)
}

/// The status of a response that is no Status itself.
pub fn status(code: u16) -> Value {
    json!({ "metadata": {}, "code": code })
}

/// The status of a response that is a Status: without the members that every Status has.
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

/// A User-Agent header, of bounded length.
pub fn user_agent(text: &str) -> String {
    cut(text.to_owned())
}

/// The URI of a request, of bounded length.
pub fn uri(text: String) -> String {
    cut_after(LONGEST_URI, text)
}

/// Shortens a text to the longest one that an event may have.
fn cut(text: String) -> String {
    cut_after(LONGEST, text)
}

/// Shortens a text to `longest` bytes, at the boundary of a character.
fn cut_after(longest: usize, text: String) -> String {
    if text.len() <= longest {
        return text;
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{CUT}", &text[..end])
}

/// Shortens the texts of a document down to `depth` levels. Documents of events have no texts below.
fn cut_texts(value: &mut Value, depth: usize) {
    match value {
        Value::String(text) => *text = cut(std::mem::take(text)),
        Value::Object(members) if depth > 0 => members.values_mut().for_each(|member| cut_texts(member, depth - 1)),
        Value::Array(items) if depth > 0 => items.iter_mut().for_each(|item| cut_texts(item, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {}
    }
}

/// A time as audit events write it: RFC 3339 with microseconds.
fn time(timestamp: Timestamp) -> String {
    timestamp.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
