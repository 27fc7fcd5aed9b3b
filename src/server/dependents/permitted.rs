//! Which dependents a caller may see: those of resources that it may list, in the namespaces where it may list them.
//!
//! Each decision is that of a list of the resource, without selectors. The resources that a caller may not list in all
//! searched namespaces are the same whatever the owner is, so naming them reveals nothing about dependents. Without
//! authentication, every client has the permissions of the source.

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::access::attributes::Attributes;
use crate::access::authorization::Decision;
use crate::access::{AccessControl, AccessError, Identity};
use crate::dependents::{NamespacePermissions, SearchScope, SearchedStore};
use crate::model::{Gvr, Scope};
use crate::server::context::RequestContext;
use crate::server::state::ServerState;
use crate::wire::api_error::ApiError;

/// The number of permissions that are decided at the same time for one request.
const AT_ONCE: usize = 8;

/// The permissions of the caller of a request.
pub(super) struct CallerPermissions<'c>(Option<(&'c AccessControl, &'c Identity)>);

impl<'c> CallerPermissions<'c> {
    /// The permissions of the caller of this request.
    ///
    /// # Errors
    /// 500 if the server authenticates, but the request has no authenticated caller.
    pub(super) fn of(server: &'c ServerState, context: &'c RequestContext<'_>) -> Result<Self, ApiError> {
        match (&server.settings.access, &context.authorized) {
            (None, _) => Ok(CallerPermissions(None)),
            (Some(access), Some(authorized)) => Ok(CallerPermissions(Some((access, &authorized.identity)))),
            (Some(_), None) => Err(ApiError::Access(AccessError::AuthorizerUnavailable)),
        }
    }

    /// Whether the caller may list a resource. Empty `namespace`: in all namespaces, or cluster-scoped.
    ///
    /// # Errors
    /// 429 or 500 if the API server gives no authorization decision.
    async fn may_list_in(&self, gvr: &Gvr, namespace: &str) -> Result<bool, ApiError> {
        let Some((access, identity)) = self.0 else { return Ok(true) };
        let mut attributes = Attributes::listing(gvr);
        if let Some(resource) = &mut attributes.resource {
            namespace.clone_into(&mut resource.namespace);
        }
        match access.may(identity, &attributes).await {
            Decision::Allowed => Ok(true),
            Decision::Denied(_) => Ok(false),
            Decision::Unavailable(why) => Err(ApiError::Access(AccessError::without_decision(&why))),
        }
    }

    /// Restricts stores to what the caller may list. Returns the stores to search, and the resources of which it may
    /// not list everything that was to be searched. `namespace`: the only namespace to search; `None` for all.
    ///
    /// # Errors
    /// 429 or 500 if the API server gives no authorization decision.
    pub(super) async fn restrict(
        &self,
        stores: Vec<SearchedStore>,
        namespace: Option<&str>,
    ) -> Result<(Vec<SearchedStore>, Vec<Gvr>), ApiError> {
        let decided = stream::iter(stores).map(|store| async move {
            let may_list = self.may_list_in(&store.resource.gvr, namespace.unwrap_or_default()).await?;
            Ok::<_, ApiError>((store, may_list))
        });
        let decided: Vec<(SearchedStore, bool)> = decided.buffered(AT_ONCE).try_collect().await?;
        let (mut searched, mut refused) = (Vec::new(), Vec::new());
        for (store, may_list) in decided {
            if may_list {
                searched.push(store);
                continue;
            }
            refused.push(store.resource.gvr.clone());
            if namespace.is_none() && store.resource.scope == Scope::Namespaced {
                searched.push(SearchedStore { scope: SearchScope::Permitted, ..store });
            }
        }
        Ok((searched, refused))
    }
}

impl NamespacePermissions for CallerPermissions<'_> {
    type Error = ApiError;

    async fn may_list(&self, gvr: &Gvr, namespace: &str) -> Result<bool, ApiError> {
        self.may_list_in(gvr, namespace).await
    }
}
