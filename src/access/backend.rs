//! Sends reviews to the API server, with bounds on their time, number and retries.
//!
//! Retries as upstream does (apiserver `util/webhook`): up to five tries, from half a second on, after responses that
//! say that another try may help. A request that reaches no server is retried once at once, since an idle connection
//! may have been closed. Users take turns ([`ReviewFlow`]). [`super::review`] has the documents, and
//! [`super::single_flight`] caches their results.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::counters::{AccessCounters, ReviewKind};
use super::failure_rate_limiter::client_network;
use crate::fair_semaphore::FairSemaphore;
use crate::model::flow::Flow;
use crate::model::user_name;
use crate::registry::upstream::Upstream;

/// How long a review may take, including retries.
pub(super) const LONGEST: Duration = Duration::from_secs(10);

/// The maximum number of tries of a review, including the first, after error responses.
const TRIES: u32 = 5;

/// The pause before the second try.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The factor by which each pause is longer than the one before.
const PAUSE_GROWS_BY: f64 = 1.5;

/// Reviews in progress at a time. Further ones wait, within their time; upstream permits 200 in a second.
const MOST_AT_ONCE: u64 = 120;

/// How many of these places are reserved for flows without a review in progress. So slow reviews of one user do not
/// delay the first review of another user.
const FIRST_AT_ONCE: u64 = 20;

/// Most bytes of a response. Usual ones have some kilobytes; groups and extra values can make them longer.
const LONGEST_ANSWER: usize = 1 << 20;

/// Least time between log lines about failed reviews.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// Why a review has no result. Display is for the log, and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The API server was not reached.
    #[error("{0}")]
    Unreachable(String),
    /// The review took too long.
    #[error("the API server did not respond to a {0} within {seconds} s", seconds = LONGEST.as_secs())]
    Timeout(&'static str),
    /// The API server returned an error response instead of a result.
    #[error(
        "the API server rejected a {review} with {code}: {message}; bind the ClusterRole system:auth-delegator to the ServiceAccount of this server"
    )]
    Rejected {
        /// Its kind.
        review: &'static str,
        /// The status code.
        code: u16,
        /// The message of the response.
        message: String,
    },
    /// The review was not sent, because too many reviews of the same user wait.
    #[error("too many reviews of this user are waiting for the API server")]
    TooMany,
    /// The response cannot be read.
    #[error("the API server's response to a {0} cannot be read: {1}")]
    Malformed(&'static str, String),
}

/// The flow that a review belongs to, as in API Priority and Fairness: its user or its address. Waiting reviews of the
/// tenant with the fewest reviews in progress are sent next.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReviewFlow {
    /// The flow of a user.
    User(Arc<str>),
    /// The flow of the client's address, for a token whose user is not known yet; of IPv6, its /64 network.
    Address(Option<IpAddr>),
}

impl ReviewFlow {
    /// The flow of reviews for a user of this name.
    pub fn user(name: &str) -> ReviewFlow {
        ReviewFlow::User(Arc::from(name))
    }

    /// The flow of a client address.
    pub fn address(address: Option<IpAddr>) -> ReviewFlow {
        ReviewFlow::Address(address.map(client_network))
    }
}

impl Flow for ReviewFlow {
    /// The flow of the user's tenant, such as all ServiceAccounts of a namespace. The flows of a tenant share its
    /// turns.
    fn tenant(&self) -> ReviewFlow {
        match self {
            ReviewFlow::User(name) => ReviewFlow::user(user_name::tenant(name)),
            ReviewFlow::Address(_) => self.clone(),
        }
    }
}

/// The API server that reviews.
#[derive(Debug)]
pub struct Backend {
    upstream: Arc<dyn Upstream>,
    places: Arc<FairSemaphore<ReviewFlow>>,
    counts: Arc<AccessCounters>,
    /// When a failure was logged last.
    logged: Mutex<Option<Instant>>,
}

impl Backend {
    /// A backend that sends reviews to the API server of `upstream`, and counts them in `counts`.
    pub fn new(upstream: Arc<dyn Upstream>, counts: Arc<AccessCounters>) -> Backend {
        Backend {
            upstream,
            places: Arc::new(FairSemaphore::of_places(MOST_AT_ONCE, FIRST_AT_ONCE)),
            counts,
            logged: Mutex::new(None),
        }
    }

    /// Sends a review and returns the response document.
    ///
    /// # Errors
    /// [`ReviewError`], after ten seconds at most.
    pub async fn review(&self, review: ReviewKind, flow: &ReviewFlow, document: String) -> Result<Value, ReviewError> {
        let answered = timeout(LONGEST, self.send_with_retries(review, flow, document))
            .await
            .unwrap_or_else(|_| Err(ReviewError::Timeout(review.as_str())));
        self.counts.count_review(review, answered.is_ok());
        if let Err(error) = &answered {
            self.log(error);
        }
        answered
    }

    /// Logs a failure, unless one was logged less than [`LOG_PAUSE`] ago: during an outage every request fails.
    fn log(&self, error: &ReviewError) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|last| last.elapsed() >= LOG_PAUSE) {
            tracing::warn!(%error, "requests are rejected: the API server does not review tokens or permissions");
            *logged = Some(Instant::now());
        }
    }

    /// Waits for the turn of the flow, and sends a review up to [`TRIES`] times, with pauses. A request that reaches no
    /// server is repeated once, at once. Has no timeout: the caller sets one.
    ///
    /// # Errors
    /// The error of the last try.
    async fn send_with_retries(
        &self,
        review: ReviewKind,
        flow: &ReviewFlow,
        document: String,
    ) -> Result<Value, ReviewError> {
        let _place = self.places.acquire_one(flow).await.ok_or(ReviewError::TooMany)?;
        let body = Bytes::from(document);
        let mut pause = FIRST_PAUSE;
        let mut unreached = 0;
        let mut tried = 1;
        loop {
            let (error, may_help) = match self.send_once(review, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if matches!(error, ReviewError::Unreachable(_)) {
                // The first time, only an idle connection may have been closed. The pause is for servers that respond.
                unreached += 1;
                if unreached > 1 {
                    return Err(error);
                }
                continue;
            }
            if !may_help || tried >= TRIES {
                return Err(error);
            }
            tried += 1;
            sleep(pause).await;
            pause = pause.mul_f64(PAUSE_GROWS_BY);
        }
    }

    /// Sends a review once and returns the response document.
    ///
    /// # Errors
    /// The error, and whether a retry after a pause may help.
    async fn send_once(&self, review: ReviewKind, body: Bytes) -> Result<Value, (ReviewError, bool)> {
        let path = match review {
            ReviewKind::Token => "/apis/authentication.k8s.io/v1/tokenreviews",
            ReviewKind::SubjectAccess => "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        };
        let name = review.as_str();
        let json = HeaderValue::from_static("application/json");
        let mut request = Request::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(path);
        request.headers_mut().insert(CONTENT_TYPE, json.clone());
        request.headers_mut().insert(ACCEPT, json);
        let response = self.upstream.send(request).await.map_err(|error| (ReviewError::Unreachable(error), false))?;
        let code = response.status();
        let may_help = matches!(
            code,
            StatusCode::INTERNAL_SERVER_ERROR | StatusCode::GATEWAY_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        ) || response.headers().contains_key(RETRY_AFTER);
        let unreadable = |error: String| (ReviewError::Malformed(name, error), true);
        let mut body = response.into_body();
        let mut answer = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| unreadable(error.to_string()))?;
            answer.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            if answer.len() > LONGEST_ANSWER {
                return Err(unreadable(format!("the response has more than {LONGEST_ANSWER} bytes")));
            }
        }
        let read: Result<Value, _> = serde_json::from_slice(&answer);
        if !code.is_success() {
            let message = read.ok().and_then(|status| Some(status["message"].as_str()?.to_owned())).unwrap_or_default();
            return Err((ReviewError::Rejected { review: name, code: code.as_u16(), message }, may_help));
        }
        let document = read.map_err(|error| (ReviewError::Malformed(name, error.to_string()), false))?;
        if document["kind"] != name {
            return Err((ReviewError::Malformed(name, format!("the kind of the response is not {name}")), false));
        }
        Ok(document)
    }
}
