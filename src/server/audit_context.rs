//! One request as the audit log describes it, from its head to the end of its response.
//!
//! [`Policy`](crate::audit::Policy) decides which requests are audited. The first event of an authorized request is
//! written before its response is sent: ResponseStarted for a stream, ResponseComplete for any other response. The body
//! of the response holds the [`AuditContext`]. When a stream, a rejected request or an abandoned one ends,
//! ResponseComplete is put into the queue. A rejected request through a View is audited whether or not a View of that
//! name exists. The event has the verb and the objectRef of the request *inside* of a View, but the whole path as
//! requestURI.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::clock::Clock;
use crate::access::failure_rate_limiter::OVERFLOW;
use crate::access::{AccessError, AuthorizedRequest, Identity};
use crate::audit::event::{self, DECISION, EventUser, REASON, VIEW_PROBLEM};
use crate::audit::{Event, Log, RejectionKey, Stage};
use crate::fair_semaphore::FairSemaphore;
use crate::flow_control::user::User as Sharer;
use crate::wire::api_error::ApiError;

/// The reason in kube-apiserver's events when there was no authorization decision.
const UNDECIDED: &str = "internal error";

/// An audited request. When it is dropped, it puts the ResponseComplete event into the queue, unless that is already
/// written.
pub(super) struct AuditContext {
    log: Arc<Log>,
    clock: Clock,
    /// The event with what the head of the request contains.
    begun: Event,
    /// Why the View is missing or not served, for events of callers that may know that; `None` if the View is served.
    problem: Option<String>,
    /// The address that the request comes from.
    peer: Option<IpAddr>,
    /// The caller, once it is authenticated.
    known: OnceLock<Arc<Identity>>,
    /// The authorization decision, once there is one.
    decided: OnceLock<Decided>,
    /// The Status of an error response, as JSON.
    failed: Mutex<Option<Vec<u8>>>,
    /// The status code of the response, once there is one.
    code: OnceLock<u16>,
    /// Whether the event must be written before the response is sent.
    must_write: AtomicBool,
    /// Whether the ResponseComplete event is written.
    is_complete: AtomicBool,
    /// Whether the request is rejected before it is handled.
    is_rejected: AtomicBool,
}

/// The authorization decision, as the annotations of the event have it.
#[derive(Clone, Debug)]
struct Decided {
    /// `allow` or `forbid`; `None` if the API server gave no decision.
    decision: Option<&'static str>,
    reason: String,
}

impl std::fmt::Debug for AuditContext {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Audited").finish_non_exhaustive()
    }
}

/// The user of a rejected request; `None` if the request is not authenticated.
pub(super) type RejectedCaller = Option<Arc<Identity>>;

impl AuditContext {
    /// Begins the audit of a request, with its event so far (`begun`), the address of its connection (`peer`), and why
    /// its View is missing or not served (`problem`). `rejected`: the user of a request that is already rejected;
    /// `None` if it is not rejected.
    pub(super) fn new(
        log: Arc<Log>,
        clock: Clock,
        (begun, peer, problem): (Event, Option<IpAddr>, Option<String>),
        rejected: Option<RejectedCaller>,
    ) -> AuditContext {
        let is_rejected = rejected.is_some();
        AuditContext {
            log,
            clock,
            begun,
            peer,
            problem,
            known: rejected.flatten().map_or_else(OnceLock::new, OnceLock::from),
            decided: OnceLock::new(),
            failed: Mutex::default(),
            code: OnceLock::new(),
            must_write: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            is_rejected: AtomicBool::new(is_rejected),
        }
    }

    /// The memory that the audit holds until the response ends, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = failed.as_ref().map_or(0, Vec::len);
        let reason = self.decided.get().map_or(0, |decided| decided.reason.len());
        self.begun.held_bytes() + failed + reason + self.problem.as_ref().map_or(0, String::len)
    }

    /// The audit id for the response.
    pub(super) fn audit_id(&self) -> &str {
        &self.begun.audit_id
    }

    /// The caller. It is empty until authentication sets it.
    pub(super) fn identity(&self) -> &OnceLock<Arc<Identity>> {
        &self.known
    }

    /// Records the authorization decision. `Ok(None)` is a request without authorization, or through a missing View.
    ///
    /// # Errors
    /// 503 for a permitted request while events cannot be written: the request must then be rejected.
    pub(super) fn record_decision(
        &self,
        authorized: &Result<Option<AuthorizedRequest>, ApiError>,
    ) -> Result<(), ApiError> {
        let decided = |decision, reason: &str| Decided { decision, reason: reason.to_owned() };
        let decided = match authorized {
            Ok(Some(_)) => Some(decided(Some("allow"), "")),
            Err(ApiError::Access(AccessError::Forbidden(forbidden))) => {
                Some(decided(Some("forbid"), &forbidden.reason))
            }
            Err(ApiError::Access(AccessError::AuthorizerUnavailable | AccessError::TooManyReviews)) => {
                Some(decided(None, UNDECIDED))
            }
            Ok(None) | Err(_) => None,
        };
        if let Some(decided) = decided {
            let _ = self.decided.set(decided);
        }
        if !matches!(authorized, Ok(Some(_))) {
            self.is_rejected.store(authorized.is_err(), Ordering::Relaxed);
            return Ok(());
        }
        // A permitted request can return objects, so its response must not be sent without the event.
        let is_writable = self.log.check_writable();
        self.must_write.store(is_writable, Ordering::Relaxed);
        if is_writable { Ok(()) } else { Err(not_written()) }
    }

    /// Records the Status of an error response. An error whose response is plain text has none.
    pub(super) fn record_failure(&self, failure: &ApiError) {
        // The size of a Status is bounded.
        let status = failure.plain_text().is_none().then(|| failure.status());
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Records the status code of the response, and writes the event that must precede the response. `is_stream`: the
    /// body is a stream, so that the event is ResponseStarted. Users take `turns` to write.
    ///
    /// # Errors
    /// 503 if the event cannot be written: this must then be the response.
    pub(super) async fn record_response(
        &self,
        code: u16,
        is_stream: bool,
        (turns, user): (&Arc<FairSemaphore<Sharer>>, &Sharer),
    ) -> Result<(), ApiError> {
        let stage = if is_stream { Stage::ResponseStarted } else { Stage::ResponseComplete };
        if self.must_write.load(Ordering::Relaxed) {
            // The place is taken only now, so that a slow request holds no place in the queue while it waits.
            let written = async {
                let Some(_turn) = self.log.within_wait(turns.acquire_one(user)).await else { return false };
                let event = self.event(stage, Some(code));
                match self.log.reserve().await {
                    Some(place) => self.log.write(place, &event).await,
                    None => false,
                }
            };
            // In a box: most requests are not audited, and would hold memory for this future.
            let is_written = Box::pin(written).await;
            if !is_written {
                let failure = not_written();
                self.record_failure(&failure);
                let _ = self.code.set(failure.code().as_u16());
                return Err(failure);
            }
            self.is_complete.store(!is_stream, Ordering::Relaxed);
        } else if is_stream {
            // The event may be lost, because no request for objects was permitted.
            self.log.offer(&self.event(stage, Some(code)));
        }
        let _ = self.code.set(code);
        Ok(())
    }

    /// Whose limit of rejected requests the event counts for: the user, or the address of an unknown or anonymous
    /// caller.
    fn rejection_key(&self) -> RejectionKey {
        match self.known.get().filter(|identity| !identity.is_anonymous()) {
            Some(identity) => RejectionKey::User(identity.user.clone()),
            None => RejectionKey::Address(self.peer.unwrap_or(OVERFLOW)),
        }
    }

    /// The audit event of a stage; `code` is the status code of the response, once it is known.
    fn event(&self, stage: Stage, code: Option<u16>) -> Event {
        let mut annotations = self.begun.annotations.clone();
        // A caller whose request was rejected may not know it.
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
            user: self.known.get().map(|identity| EventUser::from(&**identity)),
            status,
            reached: (self.clock)(),
            annotations,
            ..self.begun.clone()
        }
    }
}

/// The error for a request whose event cannot be written.
fn not_written() -> ApiError {
    ApiError::Unavailable(
        "the audit log cannot be written, and this request is not served without it: try again later".to_owned(),
    )
}

impl Drop for AuditContext {
    /// Puts the event ResponseComplete into the queue, unless it is already written.
    fn drop(&mut self) {
        if self.is_complete.load(Ordering::Relaxed) {
            return;
        }
        let event = self.event(Stage::ResponseComplete, self.code.get().copied());
        if self.is_rejected.load(Ordering::Relaxed) {
            self.log.offer_rejected(event, self.rejection_key());
        } else {
            self.log.offer(&event);
        }
    }
}
