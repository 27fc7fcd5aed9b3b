//! Decides which requests are audited, and creates their events from the head of the request. `audit_context` completes
//! and writes them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;

use super::audit_context::{AuditContext, RejectedCaller};
use super::request_metrics::RequestRecord;
use super::state::ServerState;
use super::view_request::FoundView;
use crate::access::attributes::Attributes;
use crate::access::authentication::Peer;
use crate::access::authorization::ALWAYS_ALLOWED;
use crate::audit::event::{self, MOST_ADDRESSES, VIEW};
use crate::audit::{Event, Log, Policy, RequestClass, Stage};
use crate::registry::views::ViewRights;
use crate::request::RequestInfo;
use crate::transport::heads::slots::LongQuery;
use crate::wire::api_error::ApiError;

/// A request whose audit can begin.
pub(super) struct Auditing<'r> {
    pub(super) server: &'r ServerState,
    /// Receives the audit of the request.
    pub(super) noted: &'r RequestRecord,
    pub(super) info: &'r RequestInfo,
}

impl Auditing<'_> {
    /// Begins the audit of a request if the policy covers it and it has not begun. It is called when the request
    /// arrives, and again if the request is rejected, because a policy may cover it only then. `view`: the View of the
    /// request, or why it is missing. `rejected`: the user of a rejected request; `None` if it is not rejected.
    pub(super) fn begin(&self, head: &Parts, view: Option<&FoundView>, rejected: Option<RejectedCaller>) {
        let log = self.server.settings.audit.as_ref().filter(|_| self.noted.audited().is_none());
        let Some(log) = log else { return };
        self.noted.begin_audit(self.audit_context(log, head, view, rejected));
    }

    /// The audit of a request with its event so far; `None` if the policy does not cover the request. `view` and
    /// `rejected` are those of [`Auditing::begin`].
    fn audit_context(
        &self,
        log: &Arc<Log>,
        head: &Parts,
        view: Option<&FoundView>,
        rejected: Option<RejectedCaller>,
    ) -> Option<AuditContext> {
        // Most requests are outside of Views, and most logs cover Views only. This is checked before anything is
        // built.
        let info = self.info;
        if info.view.is_none() && log.policy() != Policy::All {
            return None;
        }
        let is_rejected = rejected.is_some();
        let class = match (&info.view, view.and_then(|view| view.as_ref().ok())) {
            (Some(_), _) if is_rejected => RequestClass::RejectedView,
            (_, Some(through)) if through.view.definition().rights == ViewRights::View => RequestClass::ViewRight,
            (Some(_), _) => RequestClass::View,
            (None, _) if ALWAYS_ALLOWED.contains(&&*info.path) => RequestClass::Health,
            (None, _) => RequestClass::Other,
        };
        if !log.policy().contains(class) {
            return None;
        }
        let attributes = Attributes::from_request(info).ok();
        let headers = &head.headers;
        let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let peer = head.extensions.get::<Arc<Peer>>().and_then(|peer| peer.address);
        let now = (self.server.settings.clock)();
        let name = info.view.as_ref().map(|view| (VIEW, view.name.clone()));
        let begun = Event {
            audit_id: String::from_utf8_lossy(self.server.audit_ids.id_for(&head.headers).as_bytes()).into_owned(),
            stage: Stage::ResponseComplete,
            uri: event::uri(match head.extensions.get::<LongQuery>() {
                Some(query) => format!("{}?{query}", head.uri.path()),
                None => head.uri.path_and_query().map_or_else(String::new, |path| path.as_str().to_owned()),
            }),
            verb: match &attributes {
                Some(attributes) => attributes.verb.clone(),
                None => info.method.as_str().to_ascii_lowercase(),
            },
            user: None,
            source_addresses: source_addresses(headers, peer),
            user_agent: event::user_agent(&text("user-agent").unwrap_or_default()),
            object: attributes.as_ref().and_then(event::object_of),
            status: None,
            received: now,
            reached: now,
            annotations: name.into_iter().collect::<BTreeMap<_, _>>(),
        };
        // The event of a rejected request is held until the client has read the response, so its size is bounded.
        let begun = if is_rejected { begun.shortened() } else { begun };
        let problem = view.and_then(|view| view.as_ref().err()).map(ApiError::message);
        Some(AuditContext::new(log.clone(), self.server.settings.clock.clone(), (begun, peer, problem), rejected))
    }
}

/// The client addresses of a request (apimachinery `util/net`, SourceIPs). First come the last [`MOST_ADDRESSES`] of
/// X-Forwarded-For, then X-Real-Ip: a client can invent these. The last one is `peer`, the actual address of the
/// connection.
fn source_addresses(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<String> {
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut addresses: Vec<IpAddr> = header("x-forwarded-for")
        .map(|text| text.rsplit(',').take(MOST_ADDRESSES).filter_map(parse).collect())
        .unwrap_or_default();
    addresses.reverse();
    if let Some(address) = header("x-real-ip").and_then(parse).filter(|address| !addresses.contains(address)) {
        addresses.push(address);
    }
    if let Some(peer) = peer.map(|peer| peer.to_canonical()).filter(|peer| addresses.last() != Some(peer)) {
        addresses.push(peer);
    }
    addresses.iter().map(ToString::to_string).collect()
}
