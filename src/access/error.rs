//! Why a request is rejected, and kube-apiserver's message for a missing permission.

use std::sync::Arc;

use super::attributes::{Attributes, ResourceAttributes};
use super::backend::ReviewError;
use super::identity::Identity;
use crate::request::info::Incomplete;

/// Why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The request has no valid credentials; the text for the caller says which ones are accepted.
    Unauthorized(Arc<str>),
    /// The caller cannot be authenticated now.
    AuthenticatorUnavailable,
    /// The request has a client certificate, and the certificate authorities have not been read yet.
    AuthoritiesNotLoaded,
    /// Too many tokens of this address were invalid.
    TooManyInvalidTokens,
    /// The request impersonates another user, by this header.
    Impersonation(String),
    /// The caller does not have the permission.
    Forbidden(Box<Forbidden>),
    /// The API server does not decide now.
    AuthorizerUnavailable,
    /// Too many requests of this user wait for a decision.
    TooManyReviews,
    /// The path names no resource that could be authorized.
    Incomplete(String),
}

impl From<Incomplete> for AccessError {
    fn from(incomplete: Incomplete) -> AccessError {
        AccessError::Incomplete(incomplete.to_string())
    }
}

impl AccessError {
    /// The error for a request about which the API server did not decide.
    pub fn without_decision(why: &ReviewError) -> AccessError {
        match why {
            ReviewError::TooMany => AccessError::TooManyReviews,
            ReviewError::Unreachable(_)
            | ReviewError::Timeout(_)
            | ReviewError::Rejected { .. }
            | ReviewError::Malformed(..) => AccessError::AuthorizerUnavailable,
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

/// The error for a caller that may not send a request with these attributes.
pub(super) fn forbidden(identity: &Identity, attributes: &Attributes, reason: String) -> AccessError {
    let (user, attributes) = (identity.user.clone(), attributes.clone());
    AccessError::Forbidden(Box::new(Forbidden { user, attributes, reason }))
}

impl Forbidden {
    /// kube-apiserver's sentence (apiserver `handlers/responsewriters/errors.go`, apimachinery `api/errors`).
    pub fn message(&self) -> String {
        use crate::model::quote;
        let Attributes { verb, path, resource } = &self.attributes;
        let start = format!("User {} cannot {verb}", quote(&self.user));
        let (prefix, sentence) = match resource {
            None => ("forbidden".to_owned(), format!("{start} path {}", quote(path))),
            Some(about) => {
                let below =
                    if about.subresource.is_empty() { String::new() } else { format!("/{}", about.subresource) };
                let resource = quote(&format!("{}{below}", about.resource));
                let place = match &*about.namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quote(namespace)),
                };
                let group = quote(&about.group);
                (prefix(about), format!("{start} resource {resource} in API group {group} {place}"))
            }
        };
        // As in kube-apiserver, so that no browser renders the message as HTML.
        let sentence = sentence.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let reason = if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        format!("{prefix}: {sentence}{reason}")
    }
}

/// The beginning of a Forbidden message of kube-apiserver: `RESOURCE.GROUP "NAME" is forbidden`.
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
