//! Compares a store with its source every few minutes, both at one version.
//!
//! The source lists its metadata at exactly the version of the store, in pages. Keys and versions of both sides are
//! added up as hashes. Both show the same moment, whatever changes meanwhile, so that there are no false differences. A
//! list of the newest state would need a catch-up of the store and as much history for the same result. A difference
//! that a second list confirms is reported, with its first object.
//!
//! It does not find how far the store lags behind (the feed tracks progress), nor contents that changed under the same
//! version. It repairs nothing: the sync task lists again and ends watches.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::collection::{collection, selection};
use super::connection::RequestError;
use super::metadata_pages::{PAGE, Pages};
use crate::model::{Key, Version};
use crate::registry::{CheckOutcome, LoadState, Resource, ResourceState};
use crate::store::Snapshot;

/// The default interval of checks of a store.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);

/// The shortest interval: with a shorter one, checks would mostly measure their own load.
pub const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a check is about this many times as long as the check, or longer. A store of a million objects must
/// not load its source with lists of metadata.
const REST: u32 = 20;

/// Each mismatch after another doubles the interval, at most this often: if listing again did not help, the cause
/// persists.
const MOST_DOUBLINGS: u32 = 6;

/// The timeout of a check: only one runs at a time, and a source decides how long its lists take.
const LONGEST: Duration = Duration::from_secs(600);

/// The task yields after it has hashed this many objects.
const STEP: usize = 4_096;

/// How one check ended.
#[derive(Debug)]
pub enum CheckResult {
    /// Both sides have the same objects.
    Same,
    /// They differ, and a second list confirms that.
    Differs(Difference),
    /// They could not be compared this time, for this reason.
    Skipped(String),
    /// The request for the list failed.
    Failed(RequestError),
}

impl CheckResult {
    /// The outcome as metrics count it.
    pub fn outcome(&self) -> CheckOutcome {
        match self {
            CheckResult::Same => CheckOutcome::Ok,
            CheckResult::Differs(_) => CheckOutcome::Mismatch,
            CheckResult::Skipped(_) => CheckOutcome::Skipped,
            CheckResult::Failed(_) => CheckOutcome::Failed,
        }
    }
}

/// A difference, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The version at which both sides were compared.
    pub version: Version,
    /// How many objects the source lists.
    pub listed: u64,
    /// Number of objects in the store.
    pub stored: u64,
    /// The first object in the order of the list that differs; `None` where the source lists in another order.
    pub first: Option<Differing>,
}

/// One object that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// Its key.
    pub key: String,
    /// The version of the object at the source; `None` where it is absent.
    pub listed: Option<Version>,
    /// The version of the object in the store; `None` where it is absent.
    pub stored: Option<Version>,
}

impl fmt::Display for Differing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            |version: Option<Version>| version.map_or_else(|| "absent".to_owned(), |version| version.to_string());
        write!(formatter, "{}: source {}, store {}", self.key, text(self.listed), text(self.stored))
    }
}

/// Checks one resource again and again.
#[derive(Debug)]
pub struct SelfCheck<P> {
    pages: P,
    resource: Arc<Resource>,
    interval: Duration,
    /// Held during a check: one at a time in the whole process.
    turn: Arc<Semaphore>,
    /// Mismatches since the last check that found none.
    mismatches: u32,
    /// Whether the last check failed, which is logged once.
    has_failed: bool,
}

impl<P: Pages> SelfCheck<P> {
    /// Checks this resource about once in `interval`. A check holds `turn`, so only one runs at a time.
    pub fn new(pages: P, resource: Arc<Resource>, interval: Duration, turn: Arc<Semaphore>) -> SelfCheck<P> {
        let interval = interval.max(SHORTEST_INTERVAL);
        SelfCheck { pages, resource, interval, turn, mismatches: 0, has_failed: false }
    }

    /// Waits until the store is found to differ from its source. Safe to drop at any point.
    pub async fn mismatch(&mut self) {
        let (path, selection) = (collection(&self.resource.gvr), selection(&self.resource));
        let mut took = Duration::ZERO;
        loop {
            sleep(self.pause(took)).await;
            let begun;
            let verdict = {
                // Never closed.
                let Ok(_turn) = self.turn.acquire().await else { return std::future::pending().await };
                begun = Instant::now();
                let checking = check(&self.pages, &path, &selection, &self.resource.state);
                let late = |_| CheckResult::Skipped(format!("the check took longer than {} s", LONGEST.as_secs()));
                timeout(LONGEST, checking).await.unwrap_or_else(late)
            };
            took = begun.elapsed();
            if self.record(verdict) {
                return;
            }
        }
    }

    /// The pause before the next check: half to one and a half times the interval, so that checks of many resources and
    /// processes do not coincide. It is longer after mismatches, and after a check that took long. `took` is the
    /// duration of the last check.
    fn pause(&self, took: Duration) -> Duration {
        let doubled = self.interval * 2u32.pow(self.mismatches.min(MOST_DOUBLINGS));
        let due = doubled.max(took * REST);
        let random = u32::try_from(RandomState::new().hash_one(0u8) >> 32).unwrap_or(0);
        due.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX))
    }

    /// Counts and logs the result of a check; true for a mismatch.
    fn record(&mut self, verdict: CheckResult) -> bool {
        let gvr = &self.resource.gvr;
        self.resource.state.checks().count(verdict.outcome());
        let had_failed = std::mem::replace(&mut self.has_failed, matches!(verdict, CheckResult::Failed(_)));
        match verdict {
            CheckResult::Same => self.mismatches = 0,
            CheckResult::Differs(Difference { version, listed, stored, first }) => {
                self.mismatches += 1;
                let first = first.map_or_else(|| "not known".to_owned(), |first| first.to_string());
                tracing::error!(
                    resource = %gvr, version = %version, listed, stored, first,
                    "the store differs from its source: listing all objects again, watches end with 410 Expired"
                );
                return true;
            }
            CheckResult::Skipped(reason) => tracing::debug!(resource = %gvr, reason, "self-check skipped"),
            CheckResult::Failed(error) if had_failed => {
                tracing::debug!(resource = %gvr, error = %error, "self-check failed again");
            }
            CheckResult::Failed(error) => {
                tracing::warn!(resource = %gvr, error = %error, "self-check failed: cannot list metadata from the source, retrying");
            }
        }
        false
    }
}

/// Compares a store with the list at `path`. `selection` is appended to each path as further query parameters. A
/// difference counts only if a second list shows one too.
pub async fn check(pages: &impl Pages, path: &str, selection: &str, resource_state: &ResourceState) -> CheckResult {
    let compared = async {
        if compare(pages, (path, selection), resource_state, false).await?.is_none() {
            return Ok(None);
        }
        // Only the second comparison looks for the object that differs, for which it retains a state of the store.
        compare(pages, (path, selection), resource_state, true).await
    };
    match compared.await {
        Ok(None) => CheckResult::Same,
        Ok(Some(difference)) => CheckResult::Differs(difference),
        Err(CompareError::Skipped(reason)) => CheckResult::Skipped(reason),
        Err(CompareError::Failed(error)) => CheckResult::Failed(error),
    }
}

/// Why store and source could not be compared.
enum CompareError {
    Skipped(String),
    Failed(RequestError),
}

impl From<RequestError> for CompareError {
    /// A list at a version that the source does not have is no failure, but cannot be compared.
    fn from(error: RequestError) -> CompareError {
        match error {
            RequestError::Status { code: 410, .. } => {
                CompareError::Skipped("the source no longer has the version of the store".to_owned())
            }
            RequestError::Status { too_large_version: true, .. } => {
                CompareError::Skipped("the source has not reached the version of the store".to_owned())
            }
            other @ (RequestError::Unreachable { .. } | RequestError::Status { .. } | RequestError::Broken { .. }) => {
                CompareError::Failed(other)
            }
        }
    }
}

/// Compares once; `None` if both sides are equal. With `names`, it also finds the first object that differs, and
/// retains the state of the store until the list ends.
///
/// # Errors
/// The two could not be compared.
async fn compare(
    pages: &impl Pages,
    (path, selection): (&str, &str),
    resource_state: &ResourceState,
    names: bool,
) -> Result<Option<Difference>, CompareError> {
    let skipped = |reason: &str| Err(CompareError::Skipped(reason.to_owned()));
    if resource_state.is_relisting() {
        return skipped("a full list is being read");
    }
    let LoadState::Ready(snapshot) = resource_state.load_state() else { return skipped("the store is not loaded") };
    let unreadable = resource_state.unreadable();
    if !unreadable.are_all {
        return skipped("the names of some unreadable objects are not known");
    }
    let (version, epoch) = (snapshot.version(), snapshot.epoch());
    let stored = sum_of(&snapshot, &unreadable.names).await;
    let mut in_step = names.then(|| InStep::new(snapshot, &unreadable.names));
    let mut listed = Sum::default();
    let mut page_path = format!("{path}?limit={PAGE}&resourceVersion={version}&resourceVersionMatch=Exact{selection}");
    loop {
        let page = pages.page(&page_path).await?;
        if page.version != version {
            return skipped("the source does not support lists at an exact version");
        }
        for (key, version) in &page.entries {
            if !unreadable.names.contains(key.as_str()) {
                listed.add(key.as_str(), *version);
                in_step.iter_mut().for_each(|in_step| in_step.take(key, *version));
            }
        }
        if page.next.is_empty() {
            break;
        }
        page_path = format!("{path}?limit={PAGE}&continue={}{selection}", page.next);
    }
    // If another history has begun meanwhile, a difference was in the old one, which is no longer published.
    match resource_state.load_state() {
        LoadState::Ready(snapshot) if snapshot.epoch() == epoch => {}
        LoadState::Idle
        | LoadState::Loading(_)
        | LoadState::SourceError { .. }
        | LoadState::OverMemory(_)
        | LoadState::Ready(_)
        | LoadState::Gone(_) => return skipped("the store was replaced meanwhile"),
    }
    let first = in_step.and_then(InStep::finish);
    let difference = Difference { version, listed: listed.objects, stored: stored.objects, first };
    Ok((listed != stored).then_some(difference))
}

/// The sum of the objects of a snapshot, without those whose keys are in `ignored`.
pub(super) async fn sum_of(snapshot: &Snapshot, ignored: &BTreeSet<String>) -> Sum {
    let mut sum = Sum::default();
    for (index, (_, object)) in snapshot.range(Bound::Unbounded).enumerate() {
        if !ignored.contains(object.key()) {
            sum.add(object.key(), Some(object.version()));
        }
        if index % STEP == STEP - 1 {
            yield_now().await;
        }
    }
    sum
}

/// Whether only one object can have this key. kube-apiserver does not check names of all kinds, and its JSON has U+FFFD
/// for each byte that is not UTF-8. So two objects can have equal names there, of which a store has one. Such objects
/// are not compared.
fn identifies(key: &str) -> bool {
    !key.contains(char::REPLACEMENT_CHARACTER)
}

/// A sum over keys and versions that does not depend on their order. Lists of aggregated API servers need not be in the
/// order of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    objects: u64,
    hashes: u64,
}

impl Sum {
    /// Adds an object to the sum, unless another object can have the same key ([`identifies`]).
    pub(super) fn add(&mut self, key: &str, version: Option<Version>) {
        if !identifies(key) {
            return;
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        version.map(Version::number).hash(&mut hasher);
        self.objects += 1;
        // Added, not combined by XOR, in which an object that is listed twice would vanish.
        self.hashes = self.hashes.wrapping_add(hasher.finish());
    }
}

/// Walks a store and a list in the order of keys, up to the first difference.
struct InStep<'a> {
    snapshot: Snapshot,
    /// Keys of objects that are not compared.
    ignored: &'a BTreeSet<String>,
    /// The key of the last object that is equal on both sides.
    passed: Option<Key>,
    /// The key of the last object of the list.
    last: Option<Key>,
    /// Whether the list is in the order of keys so far.
    is_in_order: bool,
    /// The first difference.
    found: Option<Differing>,
}

impl<'a> InStep<'a> {
    /// Begins a comparison with the objects of a snapshot.
    fn new(snapshot: Snapshot, ignored: &'a BTreeSet<String>) -> InStep<'a> {
        InStep { snapshot, ignored, passed: None, last: None, is_in_order: true, found: None }
    }

    /// The next object of the store, as one that the list lacks; `None` at the end of the store.
    fn next_stored(&self) -> Option<Differing> {
        let from = self.passed.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_str()));
        let mut stored = self.snapshot.range(from).map(|(_, object)| object);
        let object = stored.find(|object| !self.ignored.contains(object.key()) && identifies(object.key()))?;
        Some(Differing { key: object.key().to_owned(), listed: None, stored: Some(object.version()) })
    }

    /// Takes the next object of the list, and compares it with the next one of the store.
    fn take(&mut self, key: &Key, version: Option<Version>) {
        if !identifies(key.as_str()) {
            return;
        }
        self.is_in_order &= self.last.as_ref().is_none_or(|last| last < key);
        self.last = Some(key.clone());
        if self.found.is_some() || !self.is_in_order {
            return;
        }
        self.found = match self.next_stored() {
            Some(next) if next.key.as_str() < key.as_str() => Some(next),
            Some(next) if next.key == key.as_str() && next.stored == version => {
                self.passed = Some(key.clone());
                None
            }
            Some(next) if next.key == key.as_str() => Some(Differing { listed: version, ..next }),
            _ => Some(Differing { key: key.to_string(), listed: version, stored: None }),
        };
    }

    /// The first difference, after the whole list. `None` if there is none, or the list is not in the order of keys.
    fn finish(self) -> Option<Differing> {
        if !self.is_in_order {
            return None;
        }
        self.found.clone().or_else(|| self.next_stored())
    }
}
