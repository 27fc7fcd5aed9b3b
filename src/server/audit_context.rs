//! One request as the audit log describes it, from its head to the end of its response.
//!
//! [`Policy`](crate::audit::Policy) decides which requests are audited. The first event of an authorized request is written before its
//! response is sent: ResponseStarted for a stream, ResponseComplete for anything else. The response's body holds what is gathered here.
//! When a stream, a rejected request or an abandoned one ends, ResponseComplete is put into the queue. A request through a View that
//! is rejected is audited whatever there is of that name. The event describes the request
//! *inside* of a View (verb, objectRef), and the path as it came (requestURI).

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

/// Upstream's reason when the authorization could not be decided.
const UNDECIDED: &str = "internal error";

/// An audited request. Puts its last event into the queue when it is dropped, unless that is written.
pub(super) struct AuditContext {
    log: Arc<Log>,
    clock: Clock,
    /// The event as it is known at the head of the request.
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

/// The user of a rejected request, if known.
pub(super) type RejectedCaller = Option<Arc<Identity>>;

impl AuditContext {
    /// Begins the audit of a request: its event as it is known, its address, and why its View is missing or not
    /// served. `rejected`: it is rejected.
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

    /// Its memory until the response ends, in bytes.
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

    /// Sets the user, once authentication has found it.
    pub(super) fn known(&self) -> &OnceLock<Arc<Identity>> {
        &self.known
    }

    /// Records the authorization decision. A permitted request is served only while events can be written.
    ///
    /// # Errors
    /// 503 where they cannot.
    pub(super) fn decided(&self, authorized: &Result<Option<AuthorizedRequest>, ApiError>) -> Result<(), ApiError> {
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
        let is_writable = self.log.is_writable();
        self.must_write.store(is_writable, Ordering::Relaxed);
        if is_writable { Ok(()) } else { Err(not_written()) }
    }

    /// Records the error response for the audit event.
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
                let Some(_turn) = self.log.within_wait(turns.acquire_one(user)).await else { return false };
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

    /// The key for limits of rejected requests: the user or the address.
    fn rejected(&self) -> RejectionKey {
        match self.known.get().filter(|identity| !identity.is_anonymous()) {
            Some(identity) => RejectionKey::User(identity.user.clone()),
            None => RejectionKey::Address(self.peer.unwrap_or(OVERFLOW)),
        }
    }

    /// The audit event of a stage; `code` is the status code of the response, once it is known.
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
