//! What a method means for a resource, and which methods are refused.

use http::Method;

use crate::model::Scope;
use crate::registry::{Resource, ResourceOrigin};
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;

/// Kubernetes' verb of a method that writes; `None` for a read.
pub(super) fn write_verb(method: &Method, address: &ResourcePath) -> Option<&'static str> {
    match *method {
        Method::GET | Method::HEAD => None,
        Method::POST => Some("create"),
        Method::PUT => Some("update"),
        Method::PATCH => Some("patch"),
        Method::DELETE if address.name.is_some() => Some("delete"),
        Method::DELETE => Some("deletecollection"),
        // Upstream has no verb for it and prints none.
        _ => Some(""),
    }
}

/// Rejects methods that do not read.
///
/// # Errors
/// 405. Paths of built-in resources are routes, and there is none for a method without a verb, nor for HEAD.
pub(super) fn refuse_method(method: &Method, address: &ResourcePath, resource: &Resource) -> Result<(), ApiError> {
    let is_built_in = resource.origin == ResourceOrigin::BuiltIn;
    let verb = match write_verb(method, address) {
        None if *method == Method::GET || !is_built_in => return Ok(()),
        verb => verb.unwrap_or_default(),
    };
    let is_known = |below: &str| resource.subresources.iter().any(|subresource| subresource.name == below);
    match address.subresource.as_deref() {
        Some(below) if is_built_in && !is_known(below) => Err(ApiError::UnknownResource),
        Some(below) if !is_known(below.split('/').next().unwrap_or_default()) => {
            let name = address.name.clone().unwrap_or_default();
            Err(ApiError::NotFound { gvr: address.gvr.clone(), name })
        }
        // All namespaces at once can only be read.
        None if !is_built_in && resource.scope == Scope::Namespaced && address.namespace.is_none() => {
            Err(ApiError::PageNotFound)
        }
        _ if is_built_in && verb.is_empty() => Err(ApiError::MethodNotAllowedHere),
        _ => Err(ApiError::MethodNotAllowed { verb, gvr: address.gvr.clone() }),
    }
}
