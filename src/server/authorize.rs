//! Authenticates and authorizes a request before anything else reads it. No other file does.
//!
//! [`crate::access`] makes the decisions.

use std::sync::{Arc, OnceLock};

use http::request::Parts;

use super::context::REQUEST_TIMEOUT;
use super::permitted_callers::PermittedCallers;
use super::view_request;
use super::view_request::FoundView;
use crate::access::attributes::{Attributes, PermissionNamespaces, ResourceAttributes};
use crate::access::authentication::{LocalAuthentication, Peer};
use crate::access::{
    AccessControl, AccessError, AuthorizationScope, AuthorizedRequest, Identity, PermissionNamespacesOf,
    UnauthenticatedRequest, ViewPermission, ViewScope, front_proxy,
};
use crate::model::own_groups::{GROUP, VERSION};
use crate::registry::views::ViewRights;
use crate::registry::{Catalog, View};
use crate::request::RequestInfo;
use crate::wire::api_error::ApiError;
use crate::wire::params;

/// Authenticates and authorizes a request, and removes all headers about the identity of its sender. `None`: the View
/// is missing or not served, and the caller may know that. `through` is the View of the request; `None` at the root.
/// `recognized` is the local authentication of the caller. Stores the caller's identity in `known` once it is
/// authenticated, also if the request is rejected later.
///
/// # Errors
/// 401, 403, 429, 500 or 503. 400 for an invalid timeout parameter, which kube-apiserver checks before authentication.
pub(super) async fn admit(
    access: &AccessControl,
    parts: &mut Parts,
    info: &RequestInfo,
    through: Option<&FoundView>,
    (recognized, known): (LocalAuthentication, Option<&OnceLock<Arc<Identity>>>),
) -> Result<Option<AuthorizedRequest>, ApiError> {
    params::timeout(&info.query, REQUEST_TIMEOUT)?;
    let through_view = through.and_then(|through| through.as_ref().ok());
    let using = info.view.as_ref().map(|view| use_of(&view.name));
    let namespaces = |identity: &Arc<Identity>, request: &Attributes, about: &ResourceAttributes| {
        let through = through_view.map(|through| through.permission_namespaces(access, identity, (request, about)));
        through.unwrap_or_default()
    };
    let permitted_by = match through_view {
        Some(through) => permission(&through.view, &namespaces),
        None => ViewPermission::Missing,
    };
    let arrived = UnauthenticatedRequest {
        peer: parts.extensions.get::<Arc<Peer>>(),
        headers: &parts.headers,
        info,
        known,
        scope: match &using {
            Some(using) => AuthorizationScope::View(ViewScope { using, permitted_by }),
            None => AuthorizationScope::Request,
        },
    };
    let authorized = access.authorize_with(&arrived, recognized).await;
    front_proxy::strip(&mut parts.headers, access.authentication_config().front_proxy.as_ref());
    match authorized {
        Ok(_) if through.is_some() && through_view.is_none() => Ok(None),
        Ok(authorized) => Ok(Some(authorized)),
        Err(refusal) => Err(ApiError::Access(refusal)),
    }
}

/// The reason why a caller may not send a request with these attributes through a View; `None`: the caller may. The
/// decision is the same as for the request itself. `callers` has the callers whose permitted namespaces are known, and
/// `whole` is the catalog of the server.
///
/// # Errors
/// [`AccessError`] if the API server gives no decision.
pub(super) async fn denied(
    access: &AccessControl,
    identity: &Arc<Identity>,
    (view, callers, whole): (&View, &PermittedCallers, &Catalog),
    attributes: Attributes,
) -> Result<Option<String>, AccessError> {
    let using = use_of(view.name());
    let namespaces = |identity: &Arc<Identity>, request: &Attributes, about: &ResourceAttributes| {
        if view_request::shows_permitted(view, whole, (request, about)) {
            return callers
                .get(access, identity, request)
                .map_or(PermissionNamespaces::All, |caller| PermissionNamespaces::AllOrSome(caller));
        }
        let followed = view_request::followed_namespaces(view, whole, &about.group, &about.resource);
        view_request::permission_namespaces(view, followed.as_ref(), &about.group, &about.resource)
    };
    let through = ViewScope { using: &using, permitted_by: permission(view, &namespaces) };
    access.denial_through(identity, attributes, through).await
}

/// The attributes of the permission to use the View of this name.
fn use_of(view: &str) -> Attributes {
    Attributes::using(GROUP, VERSION, "views", view)
}

/// The permission that requests through a View need, by its `authorization`. `namespaces` returns the namespaces in which
/// the View needs the permission for a request.
fn permission<'v>(view: &View, namespaces: &'v PermissionNamespacesOf<'v>) -> ViewPermission<'v> {
    match view.definition().rights {
        ViewRights::View => ViewPermission::Use,
        ViewRights::Caller => ViewPermission::Caller(namespaces),
    }
}

impl From<AccessError> for ApiError {
    fn from(refusal: AccessError) -> ApiError {
        ApiError::Access(refusal)
    }
}
