//! A request with everything that handlers need to know about it.
//!
//! The pipeline builds it, stage by stage. `disclosure` decides which counts a caller may see, and `response` turns an
//! error into its response.

use std::time::Duration;

use http::{HeaderMap, Method};

use super::builtin_group::BuiltinGroupVisibility;
use super::request_metrics::RequestRecord;
use super::view_request::ViewRequest;
use crate::access::AuthorizedRequest;
use crate::flow_control::Limits;
use crate::flow_control::user::User;
use crate::request::RequestInfo;
use crate::wire::api_error::ApiError;
use crate::wire::negotiate;

/// Longest time that a request which is no watch may take: kube-apiserver's `--request-timeout`.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The request as the handlers see it; see the module.
pub(super) struct RequestContext<'a> {
    pub(super) info: &'a RequestInfo,
    pub(super) headers: &'a HeaderMap,
    /// The host of the request, with its port; empty if the request names none.
    pub(super) authority: &'a str,
    /// Whether the connection uses TLS.
    pub(super) is_tls: bool,
    /// Whether the URL is too long to be forwarded to the API server.
    pub(super) is_long: bool,
    /// Whether the client asks for a WebSocket. Only watches are upgraded.
    pub(super) wants_websocket: bool,
    /// Whether the request has a header Authorization, which is removed from `headers` meanwhile.
    pub(super) has_token: bool,
    /// How long the request may still take, unless it is a watch.
    pub(super) timeout: Duration,
    /// The View through which the request came; `None` for a request at the root of the server.
    pub(super) view: Option<ViewRequest>,
    /// What metrics and the audit log record about the request.
    pub(super) record: &'a RequestRecord,
    /// The authenticated caller and its permissions; `None` if the server does not authenticate.
    pub(super) authorized: Option<AuthorizedRequest>,
    /// The user or address whose limits apply.
    pub(super) user: &'a User,
    pub(super) limits: &'a Limits,
}

impl RequestContext<'_> {
    /// Checks what kube-apiserver's router checks for built-in paths: the method must be GET, and the Accept header
    /// must name one of the `offered` media types. Other paths have no such check.
    ///
    /// # Errors
    /// 405 for another method, 406 without an acceptable media type.
    pub(super) fn check_route(&self, offered: &'static [&'static str]) -> Result<(), ApiError> {
        if self.info.method != Method::GET {
            return Err(ApiError::MethodNotAllowedHere);
        }
        negotiate::check_route_accept(self.headers, offered)
    }

    /// How discovery shows fieldcache's own group: not inside of a View, and without Views if there is no
    /// authentication.
    pub(super) fn own_group_visibility(&self) -> BuiltinGroupVisibility {
        match &self.authorized {
            _ if self.view.is_some() => BuiltinGroupVisibility::Hidden,
            Some(authorized) => BuiltinGroupVisibility::for_user(&authorized.identity.user),
            None => BuiltinGroupVisibility::WithoutViews,
        }
    }

    /// Whether the response explains how the selection was planned: the request has `?explain=true`. Views ignore it,
    /// because plans count objects that a View does not show.
    pub(super) fn wants_explanation(&self) -> bool {
        self.view.is_none() && self.info.query.flag("explain")
    }

    /// Whether the method is GET or HEAD.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.info.method, Method::GET | Method::HEAD)
    }

    /// Whether the client wants indented JSON.
    pub(super) fn pretty(&self) -> bool {
        negotiate::is_pretty(self.headers, &self.info.query)
    }
}
