//! Metrics of requests: how many of each kind were answered, and how long that took.
//!
//! A request costs one look-up under a shared lock and two additions to atomics; only the first one of a kind
//! allocates. The number of kinds is bounded: only served resources are counted by name, and all other paths are
//! counted together. A kind has the verb, the status code, how objects were found, and whether there were selectors,
//! but no object name, selector or user. Counters remain when their resource is no longer served, because a counter
//! must not restart.
//!
//! As in kube-apiserver (`endpoints/metrics`, MonitorRequest), a watch is counted when it ends, with its whole
//! duration, and a rejected one at once. Unlike in kube-apiserver, a list is timed until its headers are ready to be
//! sent: the speed of the client says nothing about the server. A request whose client disconnects before that is not
//! counted. `metrics` exposes the counters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Response};
use tokio::time::Instant;

use super::audit_context::AuditContext;
use crate::flow_control::user::User;
use crate::model::Gvr;
use crate::query::AccessPath;
use crate::registry::Resource;
use crate::request::{Query, RequestInfo, ResourcePath};
use crate::wire::body::Body;
use crate::wire::request_log::RequestLog;

/// The upper bounds of the duration histogram, in microseconds. Responses from an index take some ten microseconds; the
/// last bound is kube-apiserver's request timeout. One more bucket has longer requests, which are watches.
pub const BOUNDS: [u64; 18] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// kube-apiserver's verbs in its request metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the verbs")]
pub enum Verb {
    Get,
    List,
    Watch,
    Post,
    Put,
    Patch,
    Apply,
    Delete,
    Connect,
    /// A method that Kubernetes has no verb for.
    Other,
}

/// How the objects of a response were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnswerPath {
    /// In the store, by an index or a scan.
    Own(AccessPath),
    /// By the API server.
    Forwarded,
}

/// The properties of an answered request that are counted, besides its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestOutcome {
    /// The verb of the request.
    pub verb: Verb,
    /// The HTTP status code.
    pub code: u16,
    /// How the objects were found; `None` if none were searched: a rejected request, a watch without initial events, or
    /// a request that is for no resource.
    pub path: Option<AnswerPath>,
    /// Whether a list or watch came with a field selector.
    pub has_field_selector: bool,
    /// Whether a list or watch came with a label selector.
    pub has_label_selector: bool,
}

/// The counters of one kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The resource; all parts are empty for paths that are not of a served resource.
    pub gvr: Gvr,
    /// The other properties of the kind.
    pub outcome: RequestOutcome,
    /// The number of requests in each bucket, not cumulative: up to each of [`BOUNDS`], and longer.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// The sum of the durations of all these requests.
    pub total: Duration,
}

/// The counters of all requests of a server.
#[derive(Debug)]
pub struct RequestMetrics {
    kinds: RwLock<HashMap<Gvr, HashMap<RequestOutcome, Series>>>,
    /// The key of requests that are for no served resource: all parts are empty.
    none: Gvr,
}

/// The counters of one kind of request, as they are updated.
#[derive(Debug, Default)]
struct Series {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl RequestOutcome {
    /// The outcome of a request that the transport rejected, so that nothing but its status code is known.
    pub(super) fn rejected(code: u16) -> RequestOutcome {
        RequestOutcome { verb: Verb::Other, code, path: None, has_field_selector: false, has_label_selector: false }
    }
}

impl AnswerPath {
    /// The value of a metric label: `index`, `scan` or `forwarded`.
    pub fn as_str(self) -> &'static str {
        match self {
            AnswerPath::Own(access) => access.as_str(),
            AnswerPath::Forwarded => "forwarded",
        }
    }
}

impl Verb {
    /// The verb as kube-apiserver writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Apply => "APPLY",
            Verb::Delete => "DELETE",
            Verb::Connect => "CONNECT",
            Verb::Other => "other",
        }
    }

    /// The verb of a request that is for no resource.
    fn of_method(method: &Method) -> Verb {
        match *method {
            Method::GET | Method::HEAD => Verb::Get,
            Method::POST => Verb::Post,
            Method::PUT => Verb::Put,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            Method::CONNECT => Verb::Connect,
            _ => Verb::Other,
        }
    }

    /// The verb of a request for a resource (upstream CanonicalVerb and cleanVerb).
    fn from_request(method: &Method, headers: &HeaderMap, address: &ResourcePath, query: &Query) -> Verb {
        let is_apply = || headers.get(CONTENT_TYPE).is_some_and(|value| value == "application/apply-patch+yaml");
        match (Verb::of_method(method), address.subresource.as_deref()) {
            (_, Some("log" | "exec" | "portforward" | "attach" | "proxy")) => Verb::Connect,
            (Verb::Get, _) if address.legacy_watch || (address.name.is_none() && query.flag("watch")) => Verb::Watch,
            (Verb::Get, _) if address.name.is_none() => Verb::List,
            (Verb::Patch, _) if is_apply() => Verb::Apply,
            (verb, _) => verb,
        }
    }
}

impl Default for RequestMetrics {
    fn default() -> RequestMetrics {
        RequestMetrics { kinds: RwLock::default(), none: Gvr::new("", "", "") }
    }
}

impl RequestMetrics {
    /// Counts one request. `gvr`: `None` if it is for no served resource.
    pub fn count(&self, gvr: Option<&Gvr>, outcome: RequestOutcome, took: Duration) {
        let gvr = gvr.unwrap_or(&self.none);
        {
            // A panic elsewhere cannot leave the map of counters in an invalid state, so a poisoned lock is ignored.
            let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(series) = kinds.get(gvr).and_then(|outcomes| outcomes.get(&outcome)) {
                return series.add(took);
            }
        }
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        kinds.entry(gvr.clone()).or_default().entry(outcome).or_default().add(took);
    }

    /// All counters, sorted by resource and kind.
    pub fn counted(&self) -> Vec<Counted> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        let mut counted: Vec<Counted> = kinds
            .iter()
            .flat_map(|(gvr, outcomes)| outcomes.iter().map(move |(outcome, series)| series.counted(gvr, *outcome)))
            .collect();
        counted.sort_by(|left, right| (&left.gvr, left.outcome).cmp(&(&right.gvr, right.outcome)));
        counted
    }
}

impl Series {
    /// Counts a request with this duration.
    fn add(&self, took: Duration) {
        let microseconds = u64::try_from(took.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < microseconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The current values of the series, under this kind.
    fn counted(&self, gvr: &Gvr, outcome: RequestOutcome) -> Counted {
        Counted {
            gvr: gvr.clone(),
            outcome,
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed)),
            total: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
        }
    }
}

/// What metrics, logs and the audit need to know about one request. Its handlers record it; of each property, the first
/// value counts.
#[derive(Debug, Default)]
pub(super) struct RequestRecord {
    served: OnceLock<Served>,
    path: OnceLock<AnswerPath>,
    user: OnceLock<User>,
    audited: OnceLock<Box<AuditContext>>,
}

/// What a request is for. The resource is shared and not copied, because every request has one of these.
#[derive(Clone, Debug)]
enum Subject {
    Resource(Arc<Resource>),
    /// A kind of fieldcache's own that is not stored.
    OwnKind(&'static Gvr),
}

impl Subject {
    fn gvr(&self) -> &Gvr {
        match self {
            Subject::Resource(resource) => &resource.gvr,
            Subject::OwnKind(gvr) => gvr,
        }
    }
}

/// The served resource of a request, and the properties of the request that depend on it.
#[derive(Clone, Debug)]
struct Served {
    subject: Subject,
    verb: Verb,
    has_field_selector: bool,
    has_label_selector: bool,
}

impl RequestRecord {
    /// Records the served resource of the request, the verb, and whether a list or watch has selectors.
    pub(super) fn record_resource(
        &self,
        info: &RequestInfo,
        headers: &HeaderMap,
        address: &ResourcePath,
        resource: &Arc<Resource>,
    ) {
        let verb = Verb::from_request(&info.method, headers, address, &info.query);
        let selects = matches!(verb, Verb::List | Verb::Watch);
        let has = |key: &str| selects && info.query.get(key).is_some_and(|text| !text.is_empty());
        let _ = self.served.set(Served {
            subject: Subject::Resource(resource.clone()),
            verb,
            has_field_selector: has("fieldSelector"),
            has_label_selector: has("labelSelector"),
        });
    }

    /// Records the audit of the request; `None`: the request is not audited.
    pub(super) fn begin_audit(&self, audited: Option<AuditContext>) {
        if let Some(audited) = audited {
            let _ = self.audited.set(Box::new(audited));
        }
    }

    /// The audit of the request, if it is audited.
    pub(super) fn audited(&self) -> Option<&AuditContext> {
        self.audited.get().map(|audited| &**audited)
    }

    /// Records the user, or the address if no user is known.
    pub(super) fn set_user(&self, user: &User) {
        let _ = self.user.set(user.clone());
    }

    /// The user that the request counts for; `None` before that is known.
    pub(super) fn user(&self) -> Option<&User> {
        self.user.get()
    }

    /// Records that the request is a review; `gvr` is the resource of the review.
    pub(super) fn record_review(&self, gvr: &'static Gvr) {
        let (has_field_selector, has_label_selector) = (false, false);
        let (subject, verb) = (Subject::OwnKind(gvr), Verb::Post);
        let _ = self.served.set(Served { subject, verb, has_field_selector, has_label_selector });
    }

    /// Records that the request is for the dependents of an object; `gvr` is their resource.
    pub(super) fn record_dependents(&self, gvr: &'static Gvr) {
        let (has_field_selector, has_label_selector) = (false, false);
        let (subject, verb) = (Subject::OwnKind(gvr), Verb::Get);
        let _ = self.served.set(Served { subject, verb, has_field_selector, has_label_selector });
    }

    /// Records how the objects of the request were found in the store.
    pub(super) fn record_access(&self, access: AccessPath) {
        self.record_path(AnswerPath::Own(access));
    }

    /// Records how the objects of the request were found.
    pub(super) fn record_path(&self, path: AnswerPath) {
        let _ = self.path.set(path);
    }

    /// Counts and logs the request with its response: a stream when its body ends, other responses now. The body also
    /// holds the audit until it ends. `begun`: when the request arrived. `log`: `None` if requests are not logged.
    pub(super) fn finish(
        self,
        tally: &Arc<RequestMetrics>,
        (method, begun): (&Method, Instant),
        log: Option<RequestLog>,
        response: &mut Response<Body>,
    ) {
        if let Some(audited) = self.audited.into_inner() {
            response.body_mut().hold(audited);
        }
        let served = self.served.into_inner();
        let outcome = RequestOutcome {
            verb: served.as_ref().map_or_else(|| Verb::of_method(method), |served| served.verb),
            code: response.status().as_u16(),
            path: self.path.into_inner(),
            has_field_selector: served.as_ref().is_some_and(|served| served.has_field_selector),
            has_label_selector: served.as_ref().is_some_and(|served| served.has_label_selector),
        };
        if let Some(mut log) = log {
            let verb = served.as_ref().map(|served| served.verb.as_str());
            let id = response.headers().get("audit-id").cloned();
            log.set_response(self.user.into_inner(), verb, outcome.code, id);
            response.body_mut().attach_log(log);
        }
        // Counts the request when it is dropped: with the body of a stream, otherwise at the end of this function.
        let ending = Ending { tally: tally.clone(), served, outcome, begun };
        if response.body().is_stream() {
            response.body_mut().hold(ending);
        }
    }
}

/// Counts a request when it is dropped.
struct Ending {
    tally: Arc<RequestMetrics>,
    served: Option<Served>,
    outcome: RequestOutcome,
    begun: Instant,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let gvr = self.served.as_ref().map(|served| served.subject.gvr());
        self.tally.count(gvr, self.outcome, self.begun.elapsed());
    }
}
