//! The Kubernetes verbs of HTTP methods, and the rejection of writes.

use http::Method;

use crate::model::Scope;
use crate::registry::{Resource, ResourceOrigin};
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;

/// The Kubernetes verb of a method that writes; `None` for GET and HEAD, empty for a method without a verb.
pub(super) fn write_verb(method: &Method, address: &ResourcePath) -> Option<&'static str> {
    match *method {
        Method::GET | Method::HEAD => None,
        Method::POST => Some("create"),
        Method::PUT => Some("update"),
        Method::PATCH => Some("patch"),
        Method::DELETE if address.name.is_some() => Some("delete"),
        Method::DELETE => Some("deletecollection"),
        // kube-apiserver has no verb for other methods, and its message has an empty one.
        _ => Some(""),
    }
}

/// Rejects a request that is not a read, with the status of kube-apiserver.
///
/// # Errors
/// 404 for a subresource that the resource does not have, and for a write to a custom resource in all namespaces.
/// Otherwise 405. kube-apiserver has no route for HEAD, nor for a method without a verb, on the paths of built-in
/// resources: these get [`ApiError::MethodNotAllowedHere`].
pub(super) fn reject_write(method: &Method, address: &ResourcePath, resource: &Resource) -> Result<(), ApiError> {
    let is_built_in = resource.origin == ResourceOrigin::BuiltIn;
    let verb = match write_verb(method, address) {
        None if *method == Method::GET || !is_built_in => return Ok(()),
        verb => verb.unwrap_or_default(),
    };
    let is_known = |below: &str| resource.subresources.iter().any(|subresource| subresource.name == below);
    // kube-apiserver has a route for each subresource of a built-in resource. Of a custom resource, it reads only the
    // first segment below the object, and reports an unknown one as a missing object.
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
