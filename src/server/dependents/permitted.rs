//! Which dependents a caller may see: objects of the resources that it may list in all of the searched namespaces.
//!
//! Each decision is whether the caller may list the resource without selectors. It does not depend on the owner, so the
//! decisions and their number reveal nothing about dependents. A caller that may list only one namespace sends a
//! request for that namespace. Without authentication, every client has the permissions of the source.

use futures::stream::{self, StreamExt, TryStreamExt};

use crate::access::attributes::Attributes;
use crate::access::authorization::Decision;
use crate::access::{AccessControl, AccessError, Identity};
use crate::dependents::SearchedStore;
use crate::flow_control::Limits;
use crate::flow_control::user::{User, UserShare};
use crate::model::Gvr;
use crate::server::context::RequestContext;
use crate::server::state::ServerState;
use crate::wire::api_error::ApiError;

/// The number of permissions that are decided at the same time for one request.
const AT_ONCE: usize = 8;

/// The permissions of the caller of a request. `None`: the server does not authenticate, and every caller may list
/// everything.
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

    /// Whether the caller may list a resource in a namespace. With an empty `namespace`: in all namespaces, or a
    /// cluster-scoped resource.
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

    /// Divides stores by what the caller may list. Returns the stores that it may list in all namespaces to search, and
    /// the resources of the other stores. `namespace` is the only namespace to search; `None` for all namespaces.
    ///
    /// # Errors
    /// 429 or 500 if the API server gives no authorization decision.
    pub(super) async fn restrict(
        &self,
        stores: Vec<SearchedStore>,
        namespace: Option<&str>,
    ) -> Result<(Vec<SearchedStore>, Vec<Gvr>), ApiError> {
        let decisions = stream::iter(stores).map(|store| async move {
            let may_list = self.may_list_in(&store.resource.gvr, namespace.unwrap_or_default()).await?;
            Ok::<_, ApiError>((store, may_list))
        });
        let decided: Vec<(SearchedStore, bool)> = decisions.buffered(AT_ONCE).try_collect().await?;
        let (mut searched, mut refused) = (Vec::new(), Vec::new());
        for (store, may_list) in decided {
            if may_list {
                searched.push(store);
                continue;
            }
            refused.push(store.resource.gvr.clone());
        }
        Ok((searched, refused))
    }
}

/// The size of the steps in which memory is counted, in bytes.
const STEP: u64 = 1 << 20;

/// The memory of a response, as a multiple of the memory of its dependents. It is the sum of three parts: the
/// dependents (1), the JSON document, which is up to twice as long (2), and the growth of its buffer (1).
const HELD_TIMES: u64 = 4;

/// The memory of a walk, which counts towards the limit of its user until the value is dropped.
pub(super) struct WalkMemory<'c> {
    limits: &'c Limits,
    user: &'c User,
    /// The counted memory: [`STEP`] bytes for each element.
    held: Vec<UserShare>,
}

impl<'c> WalkMemory<'c> {
    /// Begins to count the memory of a walk for this user, with one [`STEP`], which is enough for small results.
    ///
    /// # Errors
    /// 429 when the unread responses of the user hold as much as they may.
    pub(super) fn begin(limits: &'c Limits, user: &'c User) -> Result<WalkMemory<'c>, ApiError> {
        let mut memory = WalkMemory { limits, user, held: Vec::new() };
        memory.hold(0)?;
        Ok(memory)
    }

    /// Counts the memory of a response whose dependents take `bytes` so far: one [`STEP`], and [`HELD_TIMES`] times
    /// `bytes`. What is counted already is not counted again.
    ///
    /// # Errors
    /// 429 when the unread responses of the user hold as much as they may.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), ApiError> {
        while (self.held.len() as u64) * STEP < STEP + HELD_TIMES * bytes as u64 {
            self.held.push(self.limits.unread().admit(self.user, STEP).map_err(ApiError::Limited)?);
        }
        Ok(())
    }
}
