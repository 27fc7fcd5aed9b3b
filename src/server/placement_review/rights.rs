//! Authorization of reviews: users who may list nodes and Pods everywhere may create any review. Users who may get
//! one Pod may get what its event would say.
//!
//! A result reveals nodes and Pods of others, so it requires the permissions to see them. The scheduler writes an
//! event for a Pod that it cannot place, which its owner may read. The same is revealed here, without premises: with
//! premises one could find out the rest step by step. Without authentication, the permissions are those of the
//! source.

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
    /// What the Pod's FailedScheduling event would say.
    Event,
}

/// What a caller may review, before the body is read.
#[derive(Debug)]
pub(super) enum Caller {
    /// The caller may list nodes and Pods everywhere, or there is no authentication.
    Whole,
    /// Only the event of one stored Pod that the caller may get; the reason why not more.
    OnePod(Box<Forbidden>),
}

/// What the caller may see, whatever the body is. Reads no byte of it.
///
/// # Errors
/// 500 without an authorization decision.
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
    /// How much of the result the caller may see.
    ///
    /// # Errors
    /// 403 with the message for the missing permission to list, 500 without an authorization decision.
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

/// Attributes of a request for a core resource.
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
