//! The reviews that an API server is asked for, as documents: what is sent, and what an answer means.
//!
//! Shapes: api `authentication/v1` TokenReview, `authorization/v1` SubjectAccessReview with the requirements of KEP-4601.
//! Which attributes become which requirements is apiserver `plugin/pkg/authorizer/webhook`. Who is asked, and how often,
//! is [`super::backend`].

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::attributes::{Attributes, ResourceAttributes};
use super::identity::Identity;
use crate::selector::{FieldOperator, LabelOperator};

/// What a TokenReview says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenAnswer {
    /// Whose it is.
    Known(Identity),
    /// It is nobody's, or not for us.
    Unknown,
    /// It could not be judged; the API server's words. A broken or expired token is told in this way too.
    Faulty(String),
}

/// What a SubjectAccessReview says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessAnswer {
    /// It may be.
    Allowed,
    /// It may not be; with the authorizer's reason, often empty.
    Denied(String),
}

/// A TokenReview that asks about a token for any of these audiences; for none: for the API server's own.
pub fn token_review(token: &str, audiences: &[String]) -> Value {
    let mut spec = json!({ "token": token });
    if !audiences.is_empty() {
        spec["audiences"] = json!(audiences);
    }
    json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec })
}

/// Reads the answer to a TokenReview for `audiences`.
pub fn token_answer(review: &Value, audiences: &[String]) -> TokenAnswer {
    let status = &review["status"];
    // An API server that knows no audiences tells none, and then nobody can say that the token is for us.
    let told = texts(&status["audiences"]);
    let is_ours = audiences.is_empty() || told.iter().any(|audience| audiences.contains(audience));
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
    // A user without a name is nobody that rights could be given to.
    if is_ours && !identity.user.is_empty() { TokenAnswer::Known(identity) } else { TokenAnswer::Unknown }
}

/// `spec` of a SubjectAccessReview.
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

/// A SubjectAccessReview of a spec, as text.
pub fn access_review(spec: &str) -> String {
    format!(r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{spec}}}"#)
}

/// Longer reasons are cut, in bytes: they are kept for each request, and RBAC's name every role that is missing.
const LONGEST_REASON: usize = 1024;

/// The reason that an answer gives, up to a length.
fn reason(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    if text.len() <= LONGEST_REASON {
        return text.to_owned();
    }
    let end = (0..=LONGEST_REASON).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// Reads the answer to a SubjectAccessReview. Whoever is denied is denied, whatever else is said.
pub fn access_answer(review: &Value) -> AccessAnswer {
    let status = &review["status"];
    if status["allowed"] == true && status["denied"] != true {
        return AccessAnswer::Allowed;
    }
    AccessAnswer::Denied(reason(&status["reason"]))
}

fn resource_attributes(verb: &str, resource: &ResourceAttributes) -> Value {
    let mut about = Map::new();
    put(&mut about, "namespace", &resource.namespace);
    put(&mut about, "verb", verb);
    put(&mut about, "group", &resource.group);
    put(&mut about, "version", &resource.version);
    put(&mut about, "resource", &resource.resource);
    put(&mut about, "subresource", &resource.subresource);
    put(&mut about, "name", &resource.name);
    let fields: Vec<Value> = resource
        .fields
        .iter()
        .map(|field| {
            let operator = match field.operator {
                FieldOperator::Equals => "In",
                FieldOperator::NotEquals => "NotIn",
            };
            json!({ "key": field.label, "operator": operator, "values": [field.value] })
        })
        .collect();
    let labels: Vec<Value> = resource
        .labels
        .iter()
        .filter_map(|label| {
            let requirement = |operator: &str, values: &[String]| {
                let mut requirement = json!({ "key": label.key, "operator": operator });
                if !values.is_empty() {
                    requirement["values"] = json!(values);
                }
                requirement
            };
            match &label.operator {
                LabelOperator::In(values) => Some(requirement("In", values)),
                LabelOperator::NotIn(values) => Some(requirement("NotIn", values)),
                LabelOperator::Exists => Some(requirement("Exists", &[])),
                LabelOperator::DoesNotExist => Some(requirement("DoesNotExist", &[])),
                // There is no word for these. Requirements narrow, so that leaving one out asks for more.
                LabelOperator::GreaterThan(_) | LabelOperator::LessThan(_) => None,
            }
        })
        .collect();
    for (key, requirements) in [("fieldSelector", fields), ("labelSelector", labels)] {
        if !requirements.is_empty() {
            about.insert(key.to_owned(), json!({ "requirements": requirements }));
        }
    }
    Value::Object(about)
}

/// Empty texts are left out, as Go's `omitempty` leaves them out.
fn put(map: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.to_owned(), Value::from(text));
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
