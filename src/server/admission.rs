//! Who asks and may they, asked before anything else of a request is looked at; the only place that asks.
//!
//! What is decided is [`crate::access`]'s. Here the request is taken apart for it, and what is then answered is held
//! against what was asked for.

use std::sync::{Arc, OnceLock};

use http::request::Parts;

use super::failure::Failure;
use super::params::{Query, percent_decode};
use super::route::Target;
use super::through::Through;
use super::{Asked, REQUEST_TIMEOUT};
use crate::access::attributes::Attributes;
use crate::access::authentication::Peer;
use crate::access::{About, Access, Admitted, Arrived, Identity, Refusal, front_proxy};
use crate::registry::views::ViewRights;

/// Decides about a request, and takes out of it whatever said who it is from. `None`: it is known who asks, and nothing more was asked
/// about, since the View is not served. Who asks is left in `known`, also where that does not help them.
///
/// # Errors
/// 401, 403, 429, 500 or 503; and 400 for a timeout that cannot be read, which upstream looks at before.
pub(super) async fn admit(
    access: &Access,
    parts: &mut Parts,
    query: &Query,
    through: Option<&Result<Through, Failure>>,
    known: Option<&OnceLock<Arc<Identity>>>,
) -> Result<Option<Admitted>, Failure> {
    query.timeout(REQUEST_TIMEOUT)?;
    let path = percent_decode(parts.uri.path(), false);
    let view = through.and_then(|through| through.as_ref().ok()).map(|through| &*through.view);
    let using = view.map(|view| Attributes::using("fieldcache.dev", "v1alpha1", "views", view.name()));
    let namespaces =
        |group: &str, resource: &str| -> &[String] { view.map_or(&[], |view| view.namespaces(group, resource)) };
    let arrived = Arrived {
        peer: parts.extensions.get::<Arc<Peer>>().map(|peer| &**peer),
        method: &parts.method,
        headers: &parts.headers,
        path: path.as_deref().unwrap_or(parts.uri.path()),
        query: &|key| query.get(key),
        known,
        about: match (view.map(|view| view.definition().rights), &using) {
            (Some(ViewRights::View), Some(using)) => About::Instead(using),
            (Some(_), _) => About::Namespaces(&namespaces),
            (None, _) => About::Request,
        },
    };
    let admitted = match through {
        Some(Err(_)) => access.identify(&arrived, false).await.map(|_| None),
        Some(Ok(_)) | None => access.admit(&arrived).await.map(Some),
    };
    front_proxy::strip(&mut parts.headers, access.trust().front_proxy.as_ref());
    admitted.map_err(Failure::Refused)
}

/// Refuses to answer anything but what was asked about. The two readings of a path agree; should they not, in a corner
/// that nobody has thought of, nothing is shown in it.
///
/// # Errors
/// 404.
pub(super) fn check(asked: &Asked<'_>, path: &str, target: &Target) -> Result<(), Failure> {
    let Some(Admitted { attributes, .. }) = &asked.admitted else { return Ok(()) };
    let is_same = match target {
        Target::Resource(address) => attributes.names(
            &address.gvr,
            address.namespace.as_deref(),
            address.name.as_deref(),
            address.subresource.as_deref(),
            address.legacy_watch,
        ),
        Target::Unknown | Target::UnknownBuiltIn => true,
        _ => attributes.resource.is_none(),
    };
    if is_same {
        return Ok(());
    }
    tracing::debug!(parts = path.split('/').count(), "a path that is read in two ways is not answered");
    Err(Failure::PageNotFound)
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal)
    }
}
