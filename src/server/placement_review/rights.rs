//! Authorization of PlacementReviews. Users that may list nodes and Pods in all namespaces may create any review. Users
//! that may get a stored Pod may get the message of its FailedScheduling event.
//!
//! A result reveals nodes and Pods of other users, so it requires the permissions to list them. The scheduler writes an
//! event for a Pod that it cannot place, which the owner of the Pod may read. A review reveals the same to such a user,
//! but only without `whatIf`: with changes to the cluster, the user could find out the rest step by step. Without
//! authentication, every client has the permissions of the source.

use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::authorization::Decision;
use crate::access::{AccessError, Forbidden};
use crate::placement::review::PlacementReviewSpec;
use crate::server::context::RequestContext;
use crate::server::state::ServerState;
use crate::wire::api_error::ApiError;

/// How much of a result a caller may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// All of it.
    Whole,
    /// Only the message that the Pod's FailedScheduling event has or would have.
    Event,
}

/// Which reviews a caller may create, as far as that is known before the body is read.
#[derive(Debug)]
pub(super) enum Caller {
    /// Any review: the caller may list nodes and Pods in all namespaces, or the server does not authenticate.
    Whole,
    /// Only reviews of a stored Pod that the caller may get. The value is the error for all other reviews.
    OnePod(Box<Forbidden>),
}

/// Decides which reviews the caller may create. It does not need the body.
///
/// # Errors
/// 429 or 500 if the API server gives no authorization decision.
pub(super) async fn caller(server: &ServerState, context: &RequestContext<'_>) -> Result<Caller, ApiError> {
    let Some(access) = &server.settings.access else { return Ok(Caller::Whole) };
    let Some(authorized) = &context.authorized else {
        return Err(ApiError::Access(AccessError::AuthorizerUnavailable));
    };
    let identity = &authorized.identity;
    for resource in ["nodes", "pods"] {
        let attributes = on("list", resource, "", "");
        match access.may(identity, &attributes).await {
            Decision::Allowed => {}
            Decision::Denied(reason) => {
                let forbidden = Forbidden { user: identity.user.clone(), attributes, reason };
                return Ok(Caller::OnePod(Box::new(forbidden)));
            }
            Decision::Unavailable(why) => return Err(ApiError::Access(AccessError::without_decision(&why))),
        }
    }
    Ok(Caller::Whole)
}

impl Caller {
    /// How much of the result of this review the caller may see.
    ///
    /// # Errors
    /// 403 for the missing permission to list, if the caller may not create this review. 429 or 500 if the API server
    /// gives no authorization decision.
    pub(super) async fn right(
        self,
        server: &ServerState,
        context: &RequestContext<'_>,
        spec: &PlacementReviewSpec,
    ) -> Result<Right, ApiError> {
        let refused = match self {
            Caller::Whole => return Ok(Right::Whole),
            Caller::OnePod(refused) => refused,
        };
        let wants_event = spec.pod.is_none() && spec.template.is_none() && spec.node_names.is_empty();
        if let Some(reference) = spec.pod_ref.as_ref().filter(|_| wants_event && spec.what_if.is_none())
            && let Some((access, authorized)) = server.settings.access.as_ref().zip(context.authorized.as_ref())
        {
            let attributes = on("get", "pods", &reference.namespace, &reference.name);
            match access.may(&authorized.identity, &attributes).await {
                Decision::Allowed => return Ok(Right::Event),
                Decision::Denied(_) => {}
                Decision::Unavailable(why) => return Err(ApiError::Access(AccessError::without_decision(&why))),
            }
        }
        Err(ApiError::Access(AccessError::Forbidden(refused)))
    }
}

/// The attributes of a request for a resource of the core group. Empty `namespace`: all namespaces, or cluster-scoped;
/// empty `name`: all objects.
fn on(verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    let collection = match namespace {
        "" => format!("/api/v1/{resource}"),
        namespace => format!("/api/v1/namespaces/{namespace}/{resource}"),
    };
    let path = if name.is_empty() { collection } else { format!("{collection}/{name}") };
    Attributes {
        verb: verb.to_owned(),
        path,
        resource: Some(ResourceAttributes {
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..ResourceAttributes::default()
        }),
    }
}
