//! One request as the audit log tells of it, from its head to the end of its answer.
//!
//! [`Policy`](crate::audit::Policy) decides which requests are audited. The first event of an admitted request is written before its
//! response is sent: ResponseStarted for a stream, ResponseComplete for anything else. The response's body holds what is gathered here.
//! When a stream, a rejected request or an abandoned one ends, ResponseComplete is put into the queue. A request through a View that
//! is rejected is audited whatever there is of that name. The event describes the request
//! *inside* of a View (verb, objectRef), and the path as it came (requestURI).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::HeaderMap;
use http::request::Parts;

use super::api_error::ApiError;
use super::heads::slots::LongQuery;
use super::limits::User as Sharer;
use super::request_metrics::RequestRecord;
use super::settings::Clock;
use super::state::ServerState;
use super::view_request::FoundView;
use crate::access::attributes::Attributes;
use crate::access::authentication::Peer;
use crate::access::authorization::ALWAYS_ALLOWED;
use crate::access::failure_rate_limiter::OVERFLOW;
use crate::access::{Admitted, Identity, Refusal};
use crate::audit::event::{self, DECISION, MOST_ADDRESSES, REASON, User, VIEW, VIEW_PROBLEM};
use crate::audit::{Event, Log, Policy, Rejected, Stage, Subject};
use crate::fair_semaphore::FairSemaphore;
use crate::registry::views::ViewRights;
use crate::request::RequestInfo;

/// What upstream says for a reason where it could not be found out whether somebody may.
const UNDECIDED: &str = "internal error";

/// An audited request. Puts its last event into the queue when it is dropped, unless that is written.
pub(super) struct AuditContext {
    log: Arc<Log>,
    clock: Clock,
    /// The event as far as it is known at the head of the request.
    begun: Event,
    /// Why the View is missing or not served: for events of callers that may know.
    problem: Option<String>,
    /// The address that the request comes from.
    peer: Option<IpAddr>,
    known: OnceLock<Arc<Identity>>,
    decided: OnceLock<Decided>,
    failed: Mutex<Option<Vec<u8>>>,
    code: OnceLock<u16>,
    /// Whether its event must be written before the response is sent.
    must_write: AtomicBool,
    /// Whether ResponseComplete is written.
    is_complete: AtomicBool,
    /// Whether the caller is rejected.
    is_rejected: AtomicBool,
}

/// Whether a request may be, and why.
#[derive(Clone, Debug)]
struct Decided {
    decision: Option<&'static str>,
    reason: String,
}

impl std::fmt::Debug for AuditContext {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Audited").finish_non_exhaustive()
    }
}

/// A request, as far as its head tells.
pub(super) struct Auditing<'r> {
    pub(super) server: &'r ServerState,
    pub(super) noted: &'r RequestRecord,
    pub(super) info: &'r RequestInfo,
}

/// Who sent a rejected request, as far as that is known.
type RejectedCaller = Option<Arc<Identity>>;

impl Auditing<'_> {
    /// Begins to audit a request, if the policy takes it and it is not audited yet. Tried at its arrival, and again if it is rejected.
    pub(super) fn begin(&self, head: &Parts, view: Option<&FoundView>, rejected: Option<RejectedCaller>) {
        let log = self.server.settings.audit.as_ref().filter(|_| self.noted.audited().is_none());
        let Some(log) = log else { return };
        self.noted.begin_audit(self.audited(log, head, view, rejected));
    }

    fn audited(
        &self,
        log: &Arc<Log>,
        head: &Parts,
        view: Option<&FoundView>,
        rejected: Option<RejectedCaller>,
    ) -> Option<AuditContext> {
        // Most requests are none of a View, and most logs tell of nothing else: looked at before anything is made.
        let info = self.info;
        if info.view.is_none() && log.policy() != Policy::All {
            return None;
        }
        let is_rejected = rejected.is_some();
        let subject = match (&info.view, view.and_then(|view| view.as_ref().ok())) {
            (Some(_), _) if is_rejected => Subject::RejectedView,
            (_, Some(through)) if through.view.definition().rights == ViewRights::View => Subject::ViewRight,
            (Some(_), _) => Subject::View,
            (None, _) if ALWAYS_ALLOWED.contains(&&*info.path) => Subject::Health,
            (None, _) => Subject::Other,
        };
        if !log.policy().takes(subject) {
            return None;
        }
        let attributes = Attributes::of(info).ok();
        let headers = &head.headers;
        let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let peer = head.extensions.get::<Arc<Peer>>().and_then(|peer| peer.address);
        let now = (self.server.settings.clock)();
        let name = info.view.as_ref().map(|view| (VIEW, view.name.clone()));
        let begun = Event {
            audit_id: String::from_utf8_lossy(self.server.audit_ids.of(&head.headers).as_bytes()).into_owned(),
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
        Some(AuditContext {
            log: log.clone(),
            clock: self.server.settings.clock.clone(),
            // It is held until the response has been read, and written so in any case.
            begun: if is_rejected { begun.shortened() } else { begun },
            peer,
            problem: view.and_then(|view| view.as_ref().err()).map(ApiError::message),
            known: rejected.flatten().map_or_else(OnceLock::new, OnceLock::from),
            decided: OnceLock::new(),
            failed: Mutex::default(),
            code: OnceLock::new(),
            must_write: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            is_rejected: AtomicBool::new(is_rejected),
        })
    }
}

impl AuditContext {
    /// What it takes in memory until the response ends, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failed.as_ref().map_or(0, Vec::len);
        let reason = self.decided.get().map_or(0, |decided| decided.reason.len());
        self.begun.held_bytes() + failed + reason + self.problem.as_ref().map_or(0, String::len)
    }

    /// The id that the answer is to carry.
    pub(super) fn audit_id(&self) -> &str {
        &self.begun.audit_id
    }

    /// Where whoever finds out who asks leaves it.
    pub(super) fn known(&self) -> &OnceLock<Arc<Identity>> {
        &self.known
    }

    /// Whether the request may be has been asked. A permitted request is served only while events can be written.
    ///
    /// # Errors
    /// 503 where they cannot.
    pub(super) fn decided(&self, admitted: &Result<Option<Admitted>, ApiError>) -> Result<(), ApiError> {
        let decided = |decision, reason: &str| Decided { decision, reason: reason.to_owned() };
        let decided = match admitted {
            Ok(Some(_)) => Some(decided(Some("allow"), "")),
            Err(ApiError::Refused(Refusal::Forbidden(forbidden))) => Some(decided(Some("forbid"), &forbidden.reason)),
            Err(ApiError::Refused(Refusal::Undecided | Refusal::TooManyUndecided)) => Some(decided(None, UNDECIDED)),
            Ok(None) | Err(_) => None,
        };
        if let Some(decided) = decided {
            let _ = self.decided.set(decided);
        }
        if !matches!(admitted, Ok(Some(_))) {
            self.is_rejected.store(admitted.is_err(), Ordering::Relaxed);
            return Ok(());
        }
        let is_writable = self.log.is_writable();
        self.must_write.store(is_writable, Ordering::Relaxed);
        if is_writable { Ok(()) } else { Err(not_written()) }
    }

    /// The response is this failure.
    pub(super) fn failed(&self, failure: &ApiError) {
        // Its Status, which is bounded.
        let status = failure.plain_text().is_none().then(|| failure.status());
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// The response is ready; `goes_on`: its body is a stream. Returns when its event is written, in a turn of its user.
    ///
    /// # Errors
    /// 503 if the event cannot be written: that is then the response.
    pub(super) async fn answered(
        &self,
        code: u16,
        goes_on: bool,
        (turns, user): (&Arc<FairSemaphore<Sharer>>, &Sharer),
    ) -> Result<(), ApiError> {
        let stage = if goes_on { Stage::ResponseStarted } else { Stage::ResponseComplete };
        if self.must_write.load(Ordering::Relaxed) {
            // Only now, so that a slow request holds no place of the queue while it waits.
            let written = async {
                let Some(_turn) = self.log.within_wait(turns.place(user)).await else { return false };
                let event = self.event(stage, Some(code));
                match self.log.place().await {
                    Some(place) => self.log.write(place, &event).await,
                    None => false,
                }
            };
            // In a box: most requests are not audited, and all hold its place.
            let is_written = Box::pin(written).await;
            if !is_written {
                let failure = not_written();
                self.failed(&failure);
                let _ = self.code.set(failure.code().as_u16());
                return Err(failure);
            }
            self.is_complete.store(!goes_on, Ordering::Relaxed);
        } else if goes_on {
            self.log.offer(&self.event(stage, Some(code)));
        }
        let _ = self.code.set(code);
        Ok(())
    }

    /// Whose rejection this is.
    fn rejected(&self) -> Rejected {
        match self.known.get().filter(|identity| !identity.is_anonymous()) {
            Some(identity) => Rejected::User(identity.user.clone()),
            None => Rejected::Address(self.peer.unwrap_or(OVERFLOW)),
        }
    }

    fn event(&self, stage: Stage, code: Option<u16>) -> Event {
        let mut annotations = self.begun.annotations.clone();
        if let Some(problem) = self.problem.as_ref().filter(|_| !self.is_rejected.load(Ordering::Relaxed)) {
            annotations.insert(VIEW_PROBLEM, problem.clone());
        }
        if let Some(Decided { decision, reason }) = self.decided.get() {
            annotations.extend(decision.map(|decision| (DECISION, decision.to_owned())));
            annotations.insert(REASON, reason.clone());
        }
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let status = code.map(|code| {
            let document = failed.as_ref().and_then(|status| serde_json::from_slice(status).ok());
            document.map_or_else(|| event::status(code), |document| event::failure(document, code))
        });
        Event {
            stage,
            user: self.known.get().map(|identity| User::from(&**identity)),
            status,
            reached: (self.clock)(),
            annotations,
            ..self.begun.clone()
        }
    }
}

/// The response to a request whose event cannot be written.
fn not_written() -> ApiError {
    ApiError::Unavailable(
        "the audit log cannot be written, and this request is not served without it: try again later".to_owned(),
    )
}

impl Drop for AuditContext {
    fn drop(&mut self) {
        if self.is_complete.load(Ordering::Relaxed) {
            return;
        }
        let event = self.event(Stage::ResponseComplete, self.code.get().copied());
        if self.is_rejected.load(Ordering::Relaxed) {
            self.log.offer_rejected(event, self.rejected());
        } else {
            self.log.offer(&event);
        }
    }
}

/// Where a request says that it comes from, then the address that it does come from (apimachinery `util/net`, SourceIPs): all but
/// the last can be made up. The last ones of [`MOST_ADDRESSES`] are told.
fn source_addresses(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<String> {
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
    let of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut addresses: Vec<IpAddr> = of("x-forwarded-for")
        .map(|text| text.rsplit(',').take(MOST_ADDRESSES).filter_map(parse).collect())
        .unwrap_or_default();
    addresses.reverse();
    if let Some(address) = of("x-real-ip").and_then(parse).filter(|address| !addresses.contains(address)) {
        addresses.push(address);
    }
    if let Some(peer) = peer.map(|peer| peer.to_canonical()).filter(|peer| addresses.last() != Some(peer)) {
        addresses.push(peer);
    }
    addresses.iter().map(ToString::to_string).collect()
}
