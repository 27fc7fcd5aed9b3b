//! Authentication and authorization of the operator's server.
//!
//! The cluster's API server makes all decisions, as for other servers beside kube-apiserver (apiserver
//! `server/options`). Without its decision, no request is authenticated or authorized. `serve` has no authentication.
//!
//! | Step | Files |
//! |---|---|
//! | the whole decision about a request | [`AccessControl::authorize`] |
//! | authentication | [`authentication`] finds an [`identity`] by [`tokens`], which [`websocket_token`] finds in subprotocols, by [`certificates`], or by [`front_proxy`] headers; [`authentication_config`] has the certificate authorities |
//! | authorization | [`attributes`] is the request as authorizers see it, [`authorization`] decides, [`namespace_permissions`] are those of which one is enough, a [`lease`] checks again during a long response |
//! | reviews by the API server | [`review`] writes and reads them, [`backend`] sends them |
//! | caching and limits | [`single_flight`] caches decisions under hashes made with a [`cache_key_hasher`], [`failure_rate_limiter`] bounds failures, [`recent`] knows recently valid tokens, [`counters`] counts |
//! | the server's own certificate | [`self_signed`] |
//!
//! Does not choose status codes: `wire::api_error` makes the response of a [`AccessError`]. No name, selector or token
//! is logged or counted.

mod access_control;
pub mod attributes;
pub mod authentication;
pub mod authentication_config;
pub mod authorization;
pub mod backend;
pub mod cache_key_hasher;
pub mod certificates;
pub mod counters;
mod error;
pub mod failure_rate_limiter;
pub mod front_proxy;
pub mod identity;
pub mod lease;
pub mod namespace_permissions;
pub mod recent;
pub mod review;
mod scope;
pub mod self_signed;
pub mod single_flight;
#[cfg(test)]
pub(crate) mod tests;
pub mod tokens;
pub mod websocket_token;

pub use access_control::{
    AUDIENCE, AccessControl, AccessSettings, AuthorizedRequest, KnownField, UnauthenticatedRequest,
};
pub use error::{AccessError, Forbidden};
pub use identity::Identity;
pub use scope::{AuthorizationScope, PermissionNamespacesOf, ViewPermission, ViewScope};
