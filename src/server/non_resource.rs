//! Requests for anything but a resource: health, version, discovery.

use http::Response;
use serde_json::Value;

use super::context::RequestContext;
use super::pass_through::PassThrough;
use super::state::ServerState;
use super::{discovery, health};
use crate::access::attributes::Attributes;
use crate::access::authorization::Decision;
use crate::registry::Catalog;
use crate::request::Route;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::response::with_type;
use crate::wire::{encode, indent, negotiate};

/// Whether the response may name the health checks of `endpoint`: see [`health`]. Also false if an authenticated
/// request does not want them, because its permission is not checked then.
pub(super) async fn shows_checks(server: &ServerState, context: &RequestContext<'_>, endpoint: &str) -> bool {
    let Some(access) = &server.settings.access else { return true };
    // A View has no checks to hide.
    if context.view.is_some() {
        return true;
    }
    let Some(authorized) = context.authorized.as_ref().filter(|authorized| !authorized.identity.is_anonymous()) else {
        return false;
    };
    // The permission is checked only if it matters, so that plain health checks never wait for the API server.
    health::wants_details(&context.info.query)
        && access.may(&authorized.identity, &Attributes::every_check(endpoint)).await == Decision::Allowed
}

/// Whether all checks of a health endpoint succeed. The log names those that do not.
pub(super) fn is_well(server: &ServerState, endpoint: &str) -> bool {
    health::is_well(endpoint, &server.settings.checks, *server.draining.borrow())
}

/// Responds to a request that is for no resource: health, version or discovery.
///
/// # Errors
/// 404 for an unknown path or group, and those of [`RequestContext::check_route`] and of content negotiation.
pub(super) fn answer(server: &ServerState, context: &RequestContext<'_>) -> Result<Response<Body>, ApiError> {
    let catalog = server.catalog(context);
    let pass_through = if context.view.is_some() { PassThrough::Off } else { server.pass_through() };
    match context.info.route() {
        Route::Unknown => Err(ApiError::PageNotFound),
        Route::UnknownBuiltIn => Err(ApiError::UnknownResource),
        Route::Health { endpoint, check } => {
            let draining = *server.draining.borrow();
            // The state of other stores is hidden from users of a View.
            let checks = if context.view.is_some() { &[] } else { &*server.settings.checks };
            Ok(health::answer(endpoint, check.as_deref(), &context.info.query, checks, draining))
        }
        Route::Version => {
            context.check_route(&negotiate::VERSION)?;
            Ok(version(&catalog))
        }
        other @ (Route::Root
        | Route::OpenApi
        | Route::CoreVersions
        | Route::Groups
        | Route::Group(_)
        | Route::GroupVersion(_)
        | Route::Resource(_)) => {
            server.registry.rediscovery().note_reader();
            discovery::answer(&catalog, pass_through, other, context)
        }
    }
}

/// The response to `/version`, whose JSON is always indented: the version of the source, or `{}` if that is unknown.
fn version(catalog: &Catalog) -> Response<Body> {
    let body = match &catalog.version.body {
        Value::Null => Value::Object(serde_json::Map::new()),
        body @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            body.clone()
        }
    };
    let mut text = Vec::new();
    indent::Indenter::default().push(&encode::json_bytes(&body), &mut text);
    with_type(Response::new(Body::whole(text)), "application/json")
}
