//! Reviews as documents: requests to the API server, and the meaning of its responses.
//!
//! Shapes: api `authentication/v1` TokenReview, `authorization/v1` SubjectAccessReview with the requirements of
//! KEP-4601. Attributes become requirements as in apiserver `plugin/pkg/authorizer/webhook`. [`super::backend`] sends
//! reviews.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::attributes::{Attributes, ResourceAttributes};
use super::identity::Identity;
use crate::selector::{Dialect, Operator, TestedValues};

/// The result of a TokenReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenAnswer {
    /// The token is valid; its user.
    Known(Identity),
    /// The token is invalid, or has another audience.
    Unknown,
    /// The review failed, with the API server's message. Malformed and expired tokens fail too.
    Faulty(String),
}

/// The result of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessAnswer {
    /// The request is allowed.
    Allowed,
    /// The request is denied, with the authorizer's reason, which is often empty.
    Denied(String),
}

/// A TokenReview as JSON, for a token with any of these audiences; if there are none, with the audience of the API
/// server.
pub fn token_review(token: &str, audiences: &[String]) -> Value {
    let mut spec = json!({ "token": token });
    if !audiences.is_empty() {
        spec["audiences"] = json!(audiences);
    }
    json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec })
}

/// Reads the response to a TokenReview that was sent for `audiences`.
pub fn token_answer(review: &Value, audiences: &[String]) -> TokenAnswer {
    let status = &review["status"];
    // An API server that does not support audiences returns none. The audience of the token is not known then.
    let reviewed = texts(&status["audiences"]);
    let is_ours = audiences.is_empty() || reviewed.iter().any(|audience| audiences.contains(audience));
    if status["authenticated"] != true {
        return match status["error"].as_str() {
            Some(problem) if !problem.is_empty() => TokenAnswer::Faulty(reason(&status["error"])),
            _ => TokenAnswer::Unknown,
        };
    }
    let user = &status["user"];
    let text = |key: &str| user[key].as_str().unwrap_or_default().to_owned();
    let identity = Identity {
        user: text("username"),
        uid: text("uid"),
        groups: texts(&user["groups"]),
        extra: user["extra"].as_object().map_or_else(BTreeMap::new, |extra| {
            extra.iter().map(|(key, values)| (key.clone(), texts(values))).collect()
        }),
    };
    // No permission can be granted to a user without a name.
    if is_ours && !identity.user.is_empty() { TokenAnswer::Known(identity) } else { TokenAnswer::Unknown }
}

/// The field `spec` of a SubjectAccessReview that asks whether `identity` may send a request with these attributes.
pub fn access_spec(identity: &Identity, attributes: &Attributes) -> Value {
    let mut spec = Map::new();
    match &attributes.resource {
        Some(resource) => {
            spec.insert("resourceAttributes".to_owned(), resource_attributes(&attributes.verb, resource));
        }
        None => {
            let mut about = Map::new();
            put(&mut about, "path", &attributes.path);
            put(&mut about, "verb", &attributes.verb);
            spec.insert("nonResourceAttributes".to_owned(), Value::Object(about));
        }
    }
    put(&mut spec, "user", &identity.user);
    put(&mut spec, "uid", &identity.uid);
    if !identity.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(identity.groups));
    }
    if !identity.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(identity.extra));
    }
    Value::Object(spec)
}

/// A SubjectAccessReview as JSON text. `spec` is that of [`access_spec`] as JSON text.
pub fn access_review(spec: &str) -> String {
    format!(r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{spec}}}"#)
}

/// Longer reasons are cut, in bytes: they are cached for each request, and RBAC's can be long.
const LONGEST_REASON: usize = 1024;

/// The reason or error in a response, cut to [`LONGEST_REASON`]; empty if it is missing.
fn reason(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    if text.len() <= LONGEST_REASON {
        return text.to_owned();
    }
    let end = (0..=LONGEST_REASON).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// Reads the response to a SubjectAccessReview. A response that is both allowed and denied is denied.
pub fn access_answer(review: &Value) -> AccessAnswer {
    let status = &review["status"];
    if status["allowed"] == true && status["denied"] != true {
        return AccessAnswer::Allowed;
    }
    AccessAnswer::Denied(reason(&status["reason"]))
}

/// A requirement of a field selector as JSON, for a SubjectAccessReview. Fields that reviews can name have one value,
/// which is empty if it is absent. So `Exists` is `NotIn` with the empty value, which every authorizer knows from `k!=`.
fn field_requirement(key: &str, operator: &Operator) -> Option<Value> {
    match operator.values() {
        TestedValues::Any if operator.is_negative() => requirement(key, &Operator::equal_to("")),
        TestedValues::Any => requirement(key, &Operator::not_equal_to("")),
        TestedValues::Listed(_) | TestedValues::Integers(_) | TestedValues::WithPrefix(_) => requirement(key, operator),
    }
}

/// A requirement of a selector as JSON, for a SubjectAccessReview. `None` for operators that reviews do not have:
/// without the requirement, the review is about more objects, not fewer.
fn requirement(key: &str, operator: &Operator) -> Option<Value> {
    let name = Some(operator.name()).filter(|name| name.is_in(Dialect::Requirement))?;
    let mut requirement = json!({ "key": key, "operator": name.as_str() });
    if !operator.listed().is_empty() {
        requirement["values"] = json!(operator.listed());
    }
    Some(requirement)
}

/// The `resourceAttributes` of a SubjectAccessReview.
fn resource_attributes(verb: &str, resource: &ResourceAttributes) -> Value {
    let mut about = Map::new();
    put(&mut about, "namespace", &resource.namespace);
    put(&mut about, "verb", verb);
    put(&mut about, "group", &resource.group);
    put(&mut about, "version", &resource.version);
    put(&mut about, "resource", &resource.resource);
    put(&mut about, "subresource", &resource.subresource);
    put(&mut about, "name", &resource.name);
    let fields = resource.fields.iter().filter_map(|field| field_requirement(&field.label, &field.operator));
    let labels = resource.labels.iter().filter_map(|label| requirement(&label.key, &label.operator));
    let (fields, labels): (Vec<Value>, Vec<Value>) = (fields.collect(), labels.collect());
    for (key, requirements) in [("fieldSelector", fields), ("labelSelector", labels)] {
        if !requirements.is_empty() {
            about.insert(key.to_owned(), json!({ "requirements": requirements }));
        }
    }
    Value::Object(about)
}

/// Inserts a string unless it is empty, as Go's `omitempty` does.
fn put(map: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.to_owned(), Value::from(text));
    }
}

/// The strings of a JSON list, without other items.
fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
