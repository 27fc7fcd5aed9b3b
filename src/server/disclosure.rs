//! What a response may say about objects that its caller may not see.
//!
//! Stores hold the objects of all namespaces, and many callers may see only some of them. Some values are therefore
//! only for callers that may list the resource in all namespaces. These are counts over a whole store, the order of a
//! plan by such counts, its duration, and the progress of a load. Without authentication, every caller may see them.

use super::context::RequestContext;
use crate::access::attributes::Attributes;
use crate::flow_control::limit::{Limit, Limited};
use crate::model::Gvr;
use crate::wire::api_error::ApiError;

impl RequestContext<'_> {
    /// Whether the caller may list the resource in all namespaces, without any selector.
    pub(super) async fn may_list_all(&self, gvr: &Gvr) -> bool {
        match &self.authorized {
            None => true,
            Some(authorized) => Box::pin(authorized.may(&Attributes::listing(gvr))).await,
        }
    }

    /// The error as its caller may see it: with authentication, without counts of a whole store. The conditions of the
    /// FieldCache have these counts.
    pub(super) fn redact(&self, failure: ApiError) -> ApiError {
        if self.authorized.is_none() { failure } else { failure.without_store_counts() }
    }
}

impl ApiError {
    /// The error without counts of a whole store: the progress of a load, and the memory that a store needs. All other
    /// errors are returned unchanged.
    pub(super) fn without_store_counts(self) -> ApiError {
        if let ApiError::Loading(_) = self {
            return ApiError::Loading("the objects of the resource are being read".to_owned());
        }
        if let ApiError::Limited(Limited { limit: Limit::Memory, retry_after, .. }) = self {
            let message = "memory limit: this resource is not loaded; the conditions of its FieldCache give the reason"
                .to_owned();
            return ApiError::Limited(Limited { limit: Limit::Memory, message, retry_after });
        }
        self
    }
}
