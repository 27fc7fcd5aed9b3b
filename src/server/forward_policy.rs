//! Decides which requests are forwarded to the API server. `forward` forwards them.
//!
//! This server handles served resources, with two exceptions. One is a get without a resourceVersion, whose result must
//! be as new as the request. The other is subresources, which are not cached. Everything else is forwarded as far as
//! `--pass-through` permits.
//!
//! In no mode does it forward requests that open a channel into a workload. A local server responds to every client
//! that reaches its port. A page of a workload, shown through `proxy`, would be a page of this server's own origin,
//! which `guards` lets in.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, Method};

use super::context::RequestContext;
use super::methods::write_verb;
use super::pass_through::{PassThrough, WORKLOAD_SUBRESOURCES, is_self_review_resource};
use super::{builtin_group, read, websocket};
use crate::model::{GroupVersion, quote};
use crate::registry::Catalog;
use crate::registry::fieldcache_protocol::CONSISTENCY_HEADER;
use crate::request::{RequestInfo, ResourcePath, Route};
use crate::wire::api_error::ApiError;

impl PassThrough {
    /// Whether a request is forwarded; false: this server handles it.
    ///
    /// # Errors
    /// 403 or 405 for a request that only the API server could answer and that must not be forwarded.
    pub(super) fn forwards(self, context: &RequestContext<'_>, catalog: &Catalog) -> Result<bool, ApiError> {
        let route = context.info.route();
        if self == PassThrough::Off {
            return Ok(false);
        }
        let reads = matches!(context.info.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let may_forward = match route {
            Route::Resource(address) => needs_api_server(context, address, catalog),
            Route::Unknown | Route::UnknownBuiltIn | Route::Root => true,
            // This server answers reads of the groups and versions that it knows, also from the cluster's discovery.
            Route::Group(name) => {
                let is_offered = catalog.offers.groups.iter().any(|group| group.name == *name);
                !reads || !(is_offered || catalog.group(name).is_some() || name == builtin_group::GROUP)
            }
            Route::GroupVersion(GroupVersion { group, version }) => {
                let is_served = catalog.group(group).is_some_and(|served| served.versions.contains(version))
                    || (group == builtin_group::GROUP && version == builtin_group::VERSION);
                !reads || !(is_served || catalog.offers.version(group, version).is_some())
            }
            Route::Health { .. } | Route::Version | Route::OpenApi | Route::CoreVersions | Route::Groups => !reads,
        };
        // CONNECT would open a tunnel.
        if !may_forward || context.info.method == Method::CONNECT {
            return Ok(false);
        }
        // A proxy between this server and the API server may resolve `..` in the path, which can change its meaning.
        if context.info.has_parent_segment() {
            return Ok(false);
        }
        check_path(context.info)?;
        // Such a watch is forwarded over HTTP, and its response becomes a WebSocket here.
        if !websocket::is_watch(context) {
            check_upgrade(context.headers)?;
        }
        if reads || self == PassThrough::All || is_self_review(context) {
            return Ok(true);
        }
        // A write of an unknown resource is rejected here, as not found.
        if let Route::Resource(address) = route
            && is_known(address, catalog)
        {
            return Err(write_not_forwarded(&context.info.method, address));
        }
        Ok(false)
    }
}

/// Whether the API server has to answer a request for a resource, because no store can.
fn needs_api_server(context: &RequestContext<'_>, address: &ResourcePath, catalog: &Catalog) -> bool {
    if catalog.resource(&address.gvr).is_none() {
        return true;
    }
    match write_verb(&context.info.method, address) {
        // A method that Kubernetes has no verb for.
        Some("") => false,
        Some(_) => true,
        None if address.legacy_watch => false,
        None if address.subresource.is_some() => true,
        None => {
            let is_unset = |key: &str| context.info.query.get(key).is_none_or(str::is_empty);
            // A client can ask for the object in the store.
            let wants_copy = context.headers.get(CONSISTENCY_HEADER).is_some_and(|value| value == "Eventual");
            address.name.is_some() && is_unset("resourceVersion") && !context.info.query.flag("watch") && !wants_copy
        }
    }
}

/// Whether the request is a review of the caller's own identity or permissions.
fn is_self_review(context: &RequestContext<'_>) -> bool {
    let Route::Resource(address) = context.info.route() else { return false };
    let is_collection = address.name.is_none() && address.namespace.is_none() && !address.legacy_watch;
    context.info.method == Method::POST
        && is_collection
        && is_self_review_resource(&address.gvr.group, &address.gvr.resource)
}

/// Whether the resource exists: served here in the scope of the path, or in the discovery of the API server.
fn is_known(address: &ResourcePath, catalog: &Catalog) -> bool {
    let gvr = &address.gvr;
    if catalog.resource(gvr).is_some() {
        // In a wrong scope it is missing, too.
        return read::find(catalog, address).is_ok();
    }
    catalog
        .offers
        .version(&gvr.group, &gvr.version)
        .is_some_and(|version| version.resources.iter().any(|resource| resource.name == gvr.resource))
}

/// The error for a write that `--pass-through` does not permit.
fn write_not_forwarded(method: &Method, address: &ResourcePath) -> ApiError {
    match write_verb(method, address) {
        None | Some("") => ApiError::MethodNotAllowedHere,
        Some(verb) => ApiError::WriteNotForwarded { verb, gvr: address.gvr.clone() },
    }
}

/// Rejects impersonation. Forwarded requests use the permissions of the kubeconfig, so the response would not be the
/// one for the impersonated user.
///
/// # Errors
/// 403 that names the header.
pub(super) fn check_impersonation(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
        None => Ok(()),
        Some(name) => Err(ApiError::Forbidden(format!(
            "the header {name} requests impersonation, but this server uses the permissions of its kubeconfig: use the API \
             server directly, or start fieldcache with a kubeconfig of that user"
        ))),
    }
}

/// Rejects requests for subresources that open a channel into a workload. A proxy on the way to the API server may
/// normalize the path, so the normalized form is checked.
///
/// # Errors
/// 403 that names the subresource.
fn check_path(info: &RequestInfo) -> Result<(), ApiError> {
    let Some(address) = info.cleaned_resource() else { return Ok(()) };
    let Some(subresource) = &address.subresource else { return Ok(()) };
    // Below `proxy` comes the path of the workload.
    let first = subresource.split('/').next().unwrap_or_default();
    // kube-apiserver distinguishes case. A proxy on the way may not, so the comparison ignores case.
    match WORKLOAD_SUBRESOURCES.iter().find(|refused| refused.eq_ignore_ascii_case(first)) {
        None => Ok(()),
        Some(&"proxy") => Err(ApiError::Forbidden(format!(
            "{}/proxy is not forwarded: a response of the workload would be a page of this server, with the permissions of \
             its kubeconfig; use the API server directly, with kubectl proxy or kubectl port-forward",
            address.gvr.resource
        ))),
        Some(refused) => Err(ApiError::Forbidden(format!(
            "{}/{refused} is not forwarded: this server serves every client that reaches its port, so it opens no channel into a \
             workload; use kubectl without --server, which connects to the API server directly",
            address.gvr.resource
        ))),
    }
}

/// Rejects upgrades to other protocols. An upgrade to HTTP/2 in clear text is ignored, as HTTP permits.
///
/// # Errors
/// 403 that names the protocols.
fn check_upgrade(headers: &HeaderMap) -> Result<(), ApiError> {
    let wants_upgrade = headers.get_all(CONNECTION).iter().any(|value| {
        value.to_str().is_ok_and(|text| text.split(',').any(|token| token.trim().eq_ignore_ascii_case("upgrade")))
    });
    let protocols: Vec<&str> =
        headers.get_all(UPGRADE).iter().map(|value| value.to_str().unwrap_or("unreadable")).collect();
    // An upgrade without a protocol is rejected too: nothing says that it is harmless.
    let harmless = protocols.iter().all(|protocol| protocol.trim().eq_ignore_ascii_case("h2c"));
    if (wants_upgrade || !protocols.is_empty()) && (protocols.is_empty() || !harmless) {
        return Err(ApiError::Forbidden(format!(
            "an upgrade of the connection to {} is not forwarded, because only plain requests and watches are: use the API \
             server directly",
            quote(&protocols.join(", "))
        )));
    }
    Ok(())
}
