//! Why a request is rejected, and kube-apiserver's message for a missing permission.

use std::sync::Arc;

use super::attributes::{Attributes, ResourceAttributes};
use super::backend::Unanswered;
use super::identity::Identity;
use crate::request::info::Incomplete;

/// Why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request has no valid credentials; the text says which ones are valid.
    Unauthorized(Arc<str>),
    /// The caller cannot be authenticated now.
    Unreviewed,
    /// It has a client certificate, and the certificate authorities have not been read yet.
    Unjudged,
    /// Too many tokens of this address were invalid.
    TooManyFailures,
    /// It impersonates another user, by this header.
    Impersonation(String),
    /// The caller does not have the permission.
    Forbidden(Box<Forbidden>),
    /// The API server does not decide now.
    Undecided,
    /// Too many requests of this user wait for a decision.
    TooManyUndecided,
    /// The path names no resource that could be authorized.
    Incomplete(String),
}

impl From<Incomplete> for Refusal {
    fn from(incomplete: Incomplete) -> Refusal {
        Refusal::Incomplete(incomplete.to_string())
    }
}

impl Refusal {
    /// The rejection of a request without a decision.
    pub fn without_decision(why: &Unanswered) -> Refusal {
        match why {
            Unanswered::TooMany => Refusal::TooManyUndecided,
            Unanswered::Unreachable(_)
            | Unanswered::Late(_)
            | Unanswered::Refused { .. }
            | Unanswered::Unreadable(..) => Refusal::Undecided,
        }
    }
}

/// A missing permission, of which kube-apiserver's message is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// The caller.
    pub user: String,
    /// The request.
    pub attributes: Attributes,
    /// The authorizer's reason, often empty.
    pub reason: String,
}

/// The rejection of a request without this permission.
pub(super) fn forbidden(identity: &Identity, attributes: &Attributes, reason: String) -> Refusal {
    let (user, attributes) = (identity.user.clone(), attributes.clone());
    Refusal::Forbidden(Box::new(Forbidden { user, attributes, reason }))
}

impl Forbidden {
    /// kube-apiserver's sentence (apiserver `handlers/responsewriters/errors.go`, apimachinery `api/errors`).
    pub fn message(&self) -> String {
        use crate::model::quote;
        let Attributes { verb, path, resource } = &self.attributes;
        let who = format!("User {} cannot {verb}", quote(&self.user));
        let (prefix, sentence) = match resource {
            None => ("forbidden".to_owned(), format!("{who} path {}", quote(path))),
            Some(about) => {
                let below =
                    if about.subresource.is_empty() { String::new() } else { format!("/{}", about.subresource) };
                let resource = quote(&format!("{}{below}", about.resource));
                let place = match &*about.namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quote(namespace)),
                };
                let group = quote(&about.group);
                (prefix(about), format!("{who} resource {resource} in API group {group} {place}"))
            }
        };
        // So that no browser takes it for a page.
        let sentence = sentence.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let reason = if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        format!("{prefix}: {sentence}{reason}")
    }
}

fn prefix(about: &ResourceAttributes) -> String {
    let ResourceAttributes { group, resource, name, .. } = about;
    if group.is_empty() && resource.is_empty() {
        return "forbidden".to_owned();
    }
    let qualified = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
    match &**name {
        "" => format!("{qualified} is forbidden"),
        name => format!("{qualified} {} is forbidden", crate::model::quote(name)),
    }
}
