//! `dependents` of view.fieldcache.dev over HTTP: the objects that an object owns, over all cached kinds.
//!
//! `GET .../dependents/UID` searches all namespaces, and `GET .../namespaces/NS/dependents/UID` one: an object in a
//! namespace has its dependents in the same namespace. `?recursive=false` returns only the dependents of the object
//! itself. The object need not exist: its dependents outlive it until the garbage collector deletes them.
//! [`crate::dependents`] finds them, and `permitted` decides which of them the caller may see. Views do not serve them,
//! because a View can hide an object that a relation leads through.

pub(super) mod kind;
mod permitted;
mod stores;

use http::{Method, Response};

use super::context::RequestContext;
use super::response::document;
use super::state::ServerState;
use crate::dependents::document::{API_VERSION, KIND, OwnerMetadata};
use crate::dependents::{DependentsDocument, FoundDependents, WalkOptions, walk};
use crate::query::AccessPath;
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::negotiate::{Offer, Protobuf, negotiate};
use kind::GVR;
use permitted::{CallerPermissions, WalkMemory};

/// The longest uid of an owner, in bytes. An API server makes uids of 36 characters.
const LONGEST_UID: usize = 1_024;

/// Responds with the dependents of the owner whose uid is the last part of the path.
///
/// # Errors
/// 404 for a subresource or a path that begins with `watch`, 405 for a list and for another method than GET. 406 if the
/// client does not accept the formats of the response, 400 for a uid that is too long. 429 or 500 if the API server
/// gives no authorization decision, and 429 when the unread responses of the user hold as much as they may.
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
) -> Result<Response<Body>, ApiError> {
    if address.subresource.is_some() || address.legacy_watch {
        return Err(ApiError::UnknownResource);
    }
    context.record.record_dependents(&GVR);
    if context.info.method != Method::GET {
        return Err(ApiError::MethodNotAllowedHere);
    }
    let Some(owner) = &address.name else {
        return Err(ApiError::MethodNotAllowed { verb: "list", gvr: GVR.clone() });
    };
    let format = negotiate(context.headers, Offer::Plain, Protobuf::METADATA)?.format;
    if owner.len() > LONGEST_UID {
        return Err(ApiError::BadRequest(format!("the uid in the path has more than {LONGEST_UID} characters")));
    }
    let is_recursive = context.info.query.optional_flag("recursive").unwrap_or(true);
    let namespace = address.namespace.as_deref();
    let catalog = server.registry.catalog();
    let chosen = stores::choose(server, &catalog, namespace).await;
    let permissions = CallerPermissions::of(server, context)?;
    let (searched, refused) = permissions.restrict(chosen.stores, namespace).await?;
    let mut memory = WalkMemory::begin(context.limits, context.user)?;
    let options = WalkOptions::default();
    let options = if is_recursive { options } else { WalkOptions { levels: 1, ..options } };
    let FoundDependents { dependents, truncated } = walk(&searched, owner, options, |bytes| memory.hold(bytes)).await?;
    context.record.record_access(AccessPath::Index);
    let metadata = OwnerMetadata { name: owner.clone(), namespace: namespace.unwrap_or_default().to_owned() };
    let result = DependentsDocument {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        metadata,
        dependents,
        truncated,
        resources: searched.iter().map(|store| (&store.resource.gvr).into()).collect(),
        not_permitted: refused.iter().map(Into::into).collect(),
        not_ready: chosen.not_ready,
    };
    let text = serde_json::to_vec(&result).map_err(|error| ApiError::Internal(error.to_string()))?;
    Ok(document(text, format, context))
}
