//! One event, as `audit.k8s.io/v1` has it (apiserver `pkg/apis/audit/v1`), at level Metadata.
//!
//! Members stand in upstream's order and are left out where upstream leaves them out, so that whatever reads kube-apiserver's log
//! reads this one. Times have six digits of a second (apimachinery MicroTime). Nothing here knows a request: see `server`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::access::Identity;
use crate::access::attributes::{Attributes, ResourceAttributes};

/// Annotation: `allow` or `forbid`; absent where it did not come to a decision. Upstream's.
pub const DECISION: &str = "authorization.k8s.io/decision";

/// Annotation: the authorizer's reason; upstream's.
pub const REASON: &str = "authorization.k8s.io/reason";

/// Annotation: the View that a request came through.
pub const VIEW: &str = "view.fieldcache.dev/view";

/// The annotation with the reason why that View is not served. The response has it only for callers that may use the View.
pub const VIEW_PROBLEM: &str = "view.fieldcache.dev/problem";

/// Longer user agents are cut, as upstream cuts them (apiserver `pkg/audit/request.go`); of rejected requests every text that the
/// caller chooses is cut.
const LONGEST: usize = 1024;
const CUT: &str = "...TRUNCATED";

/// Longer addresses are cut. A URL may have a mebibyte, and who may use a View could fill the disk of the log with a few requests a second.
const LONGEST_URI: usize = 16 << 10;

/// Addresses of a request: all but the last can be made up, and each takes many times as much memory as in the header.
pub const MOST_ADDRESSES: usize = 16;

/// How deep a Status has texts: those of the causes in its details.
const STATUS_DEPTH: usize = 4;

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// The head of an answer that goes on for long has been sent.
    ResponseStarted,
    /// Nothing more will be sent.
    ResponseComplete,
}

/// What a request is about. Empty texts are left out.
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
    /// The id that the answer carries as `Audit-Id`.
    pub audit_id: String,
    /// How far the request is.
    pub stage: Stage,
    /// Path and query as they came, with the selectors.
    pub uri: String,
    /// Kubernetes' verb, or the method in lower case.
    pub verb: String,
    /// Who asks; `None` where that was not found out.
    pub user: Option<User>,
    /// Where the request comes from, the nearest last.
    pub source_addresses: Vec<String>,
    /// What the client calls itself.
    pub user_agent: String,
    /// What it asks for; `None` for what is no resource.
    pub object: Option<ObjectReference>,
    /// The answer's metav1 Status, as far as it is told; see [`status`] and [`failure`]. `None`: the client went before there was one.
    pub status: Option<Value>,
    /// When it came.
    pub received: Timestamp,
    /// When it got as far as `stage`.
    pub reached: Timestamp,
    /// What else is told, by name.
    pub annotations: BTreeMap<&'static str, String>,
}

/// A user as events have one. Empty parts are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub struct User {
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
    user: &'e User,
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
    /// What the texts take that the caller chooses, in bytes.
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

    /// The same with every text cut to a length that does not depend on the caller, so that a rejected caller cannot fill the log.
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

    /// As one line of JSON, with its end.
    pub fn line(&self) -> Vec<u8> {
        let nobody = User::default();
        let line = Line {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: "Metadata",
            audit_id: &self.audit_id,
            stage: self.stage,
            request_uri: &self.uri,
            verb: &self.verb,
            user: self.user.as_ref().unwrap_or(&nobody),
            source_ips: &self.source_addresses,
            user_agent: &self.user_agent,
            object_ref: self.object.as_ref(),
            response_status: self.status.as_ref(),
            request_received_timestamp: time(self.received),
            stage_timestamp: time(self.reached),
            annotations: &self.annotations,
        };
        // Texts and maps of texts: there is nothing in it that JSON has no form for.
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl From<&Identity> for User {
    fn from(identity: &Identity) -> User {
        User {
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

/// What a request is about, if it is about a resource.
pub fn object_of(attributes: &Attributes) -> Option<ObjectReference> {
    attributes.resource.as_ref().map(ObjectReference::from)
}

/// The status of an answer that is no Status itself.
pub fn status(code: u16) -> Value {
    json!({ "metadata": {}, "code": code })
}

/// The status of an answer that is one: all of it but what every Status has.
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

/// What a client calls itself, of bounded length.
pub fn user_agent(text: &str) -> String {
    cut(text.to_owned())
}

/// The address of a request, of bounded length.
pub fn uri(text: String) -> String {
    cut_after(LONGEST_URI, text)
}

fn cut(text: String) -> String {
    cut_after(LONGEST, text)
}

fn cut_after(longest: usize, text: String) -> String {
    if text.len() <= longest {
        return text;
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{CUT}", &text[..end])
}

/// Cuts the texts of a document, at most `depth` levels deep; what is deeper has none.
fn cut_texts(value: &mut Value, depth: usize) {
    match value {
        Value::String(text) => *text = cut(std::mem::take(text)),
        Value::Object(members) if depth > 0 => members.values_mut().for_each(|member| cut_texts(member, depth - 1)),
        Value::Array(items) if depth > 0 => items.iter_mut().for_each(|item| cut_texts(item, depth - 1)),
        _ => {}
    }
}

fn time(timestamp: Timestamp) -> String {
    timestamp.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
