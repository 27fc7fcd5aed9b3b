//! The namespaces in which a caller has a permission, for Views with `permittedNamespaces`: finds the namespaces that
//! need a review, and reviews them when that is due.
//!
//! Candidates are the namespaces whose RoleBindings name the caller ([`BindingSubjects`]). A SubjectAccessReview
//! decides about each. After a change of its RoleBindings, a candidate is reviewed within a second, and again after 1,
//! 2, 4, ... seconds: kube-apiserver's own authorizer may see the change later than the store, and a Role may follow its
//! RoleBinding. Later, and without a change, a candidate is reviewed every five minutes at most. Nothing runs on its
//! own: requests and watches of the caller begin the reviews, and share those in progress. [`super::permitted_callers`]
//! keeps the callers.
//!
//! A permission that another authorizer grants in single namespaces has no RoleBinding. Its namespaces are not shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use futures::stream::{self, StreamExt};
use tokio::sync;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::access::Identity;
use crate::access::attributes::Attributes;
use crate::access::authorization::{Authorizer, Decision};
use crate::access::backend::ReviewError;
use crate::access::namespace_permissions::{NamespacePermissions, NoPermittedNamespace};
use crate::flow_control::user::{User, UserShare};
use crate::model::shares::Shares;
use crate::model::{Gvr, Version};
use crate::registry::binding_subjects::{BindingSubjects, STEPS, role_bindings};
use crate::registry::event_dispatcher::{MailboxContents, Subscription};
use crate::registry::view_namespaces::{PermittedNamespaces, PermittedSince};
use crate::registry::{LoadState, Registry, ResourceState};
use crate::store::{HistoryCursor, Snapshot};

/// The maximum number of candidates of a caller.
pub(super) const MOST_CANDIDATES: usize = 4_096;

/// The number of reviews of one caller that are in progress at a time.
const AT_ONCE: usize = 16;

/// The number of reviews that are repeated at a time without a change, so that a list does not wait for thousands of
/// them.
const REPEATED_AT_ONCE: usize = 64;

/// How long after it is due a review waits at most because of [`REPEATED_AT_ONCE`].
const LATEST: Duration = Duration::from_secs(60);

/// How soon a candidate is reviewed again after a change, and the least time between two reviews.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest time after which the next review of a candidate is due. Together with [`LATEST`], no decision is used for
/// more than five minutes.
const LONGEST_WAIT: Duration = Duration::from_secs(220);

/// How often a change of RoleBindings holds the events of a watch until the permissions are reviewed. Someone who changes
/// RoleBindings all the time would otherwise hold the watches of others all the time. Changes that follow sooner are
/// reviewed within a second, and events are sent meanwhile.
const BETWEEN_HOLDS: Duration = Duration::from_secs(10);

/// How soon a watch reviews again after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The maximum number of bytes of all callers together, also of those in use. A tenant may take half of what the others
/// leave. The callers of a tenant that has taken its share get no reviews.
pub(super) const MOST_BYTES: usize = 128 << 20;

/// The bytes that a tenant may take in any case.
const FIRST_BYTES: u64 = 256 << 10;

/// The maximum number of reviews that a request waits for, one after the other, while RoleBindings change.
const MOST_RUNS: usize = 3;

/// Bytes of a candidate in memory in addition to its name.
const CANDIDATE_BYTES: usize = size_of::<(String, Candidate)>() + 32;

/// The result of reviews: the caller has the permission somewhere.
type Reviewing = BoxFuture<'static, Result<(), NoPermittedNamespace>>;

/// One permission of one caller, and the namespaces in which the caller has it.
pub(super) struct PermittedCaller {
    registry: Arc<Registry>,
    /// Sends the reviews.
    authorizer: Arc<Authorizer>,
    identity: Arc<Identity>,
    /// The permission in all namespaces.
    permission: Attributes,
    subjects: BindingSubjects,
    /// The namespaces, as the last reviews have found.
    permitted: Arc<PermittedNamespaces>,
    /// The reviews in progress, without and with that of all namespaces. Requests that need them share them.
    running: Mutex<[Option<WeakShared<Reviewing>>; 2]>,
    /// Is locked while candidates are found, so that an older state of the store does not replace a newer one.
    finding: sync::Mutex<()>,
    reviews: Mutex<Reviews>,
    /// The longest time between two reviews of a candidate.
    longest_wait: Duration,
    /// The bytes of this caller, as part of those of all callers. `None` if its tenant has taken its share.
    share: Mutex<Option<UserShare>>,
    /// The bytes of all callers.
    memory: CallerMemory,
}

/// The memory of all callers, which is bounded, and shared between tenants.
#[derive(Clone, Debug)]
pub(super) struct CallerMemory(Arc<Shares<User>>);

impl Default for CallerMemory {
    fn default() -> CallerMemory {
        CallerMemory(Arc::new(Shares::new(MOST_BYTES as u64, FIRST_BYTES)))
    }
}

impl CallerMemory {
    /// The bytes of all callers, also of those that only watches use.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.0.total()).unwrap_or(usize::MAX)
    }
}

/// The candidates of a caller and their last reviews.
#[derive(Debug)]
struct Reviews {
    /// The state of the store of RoleBindings in which the candidates were found.
    place: Option<Place>,
    candidates: BTreeMap<String, Candidate>,
    /// All namespaces together.
    whole: Candidate,
    /// Whether there are more than [`MOST_CANDIDATES`]. Then `candidates` has only some.
    are_too_many: bool,
    /// The version since which lists show the first result.
    first_since: Version,
    /// When the last reviews ended; `None` before the first.
    ended: Option<Instant>,
    /// When the last reviews failed, and why. `None` if they succeeded.
    failed: Option<(Instant, ReviewError)>,
}

/// A state of the store of RoleBindings.
#[derive(Clone, Debug)]
struct Place {
    state: Weak<ResourceState>,
    epoch: u64,
    end: HistoryCursor,
}

/// A namespace, or all namespaces.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The last decision; `None` before the first.
    decided: Option<bool>,
    /// Whether its RoleBindings have changed since.
    has_changed: bool,
    /// When the next review is due.
    due: Instant,
    /// How long the decision of the next review is used.
    wait: Duration,
}

impl Place {
    /// The current state of the store; `None` while it is not ready.
    fn current(bindings: &Arc<ResourceState>) -> Option<Place> {
        match bindings.load_state() {
            LoadState::Ready(snapshot) => Some(Place::of(bindings, &snapshot)),
            LoadState::Idle
            | LoadState::Loading(_)
            | LoadState::SourceError { .. }
            | LoadState::OverMemory(_)
            | LoadState::Gone(_) => None,
        }
    }

    /// The state of the store in this snapshot.
    fn of(bindings: &Arc<ResourceState>, snapshot: &Snapshot) -> Place {
        Place { state: Arc::downgrade(bindings), epoch: snapshot.epoch(), end: snapshot.end() }
    }

    /// Whether both are states of one store with the same history.
    fn is_continued_by(&self, other: &Place) -> bool {
        self.epoch == other.epoch && self.state.ptr_eq(&other.state)
    }
}

impl Candidate {
    /// A candidate that must be reviewed now.
    fn new(now: Instant, wait: Duration) -> Candidate {
        Candidate { decided: None, has_changed: true, due: now, wait }
    }

    /// The candidate after a review.
    fn reviewed(self, is_permitted: bool, longest: Duration) -> Candidate {
        // A decision that has changed may change again: the authorizer may not have seen all changes.
        let is_other = self.decided.is_some_and(|earlier| earlier != is_permitted);
        let wait = if is_other { FIRST_WAIT } else { self.wait };
        let (due, decided) = (Instant::now() + wait, Some(is_permitted));
        Candidate { decided, has_changed: false, due, wait: (wait * 2).min(longest) }
    }

    /// Whether the last decision is a permission.
    fn is_permitted(&self) -> bool {
        self.decided == Some(true)
    }
}

impl fmt::Debug for PermittedCaller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PermittedCaller").field("permission", &self.permission).finish_non_exhaustive()
    }
}

impl PermittedCaller {
    /// The permission of a caller in all namespaces. Nothing is reviewed yet. All permissions of the caller for the
    /// resource share `since`, the version since which their namespaces are shown. `sooner` is a fraction from 0 to 0.2
    /// by which reviews without a change are sooner, so that those of all callers are spread. `memory` counts the bytes of
    /// all callers.
    pub(super) fn new(
        registry: Arc<Registry>,
        (authorizer, identity): (Arc<Authorizer>, Arc<Identity>),
        permission: Attributes,
        since: PermittedSince,
        (sooner, memory): (f64, CallerMemory),
    ) -> PermittedCaller {
        let subjects = BindingSubjects::new(&identity.user, &identity.groups);
        let reviews = Reviews {
            place: None,
            candidates: BTreeMap::new(),
            whole: Candidate::new(Instant::now(), FIRST_WAIT),
            are_too_many: false,
            first_since: Version::ZERO,
            ended: None,
            failed: None,
        };
        let caller = PermittedCaller {
            registry,
            authorizer,
            identity,
            permission,
            subjects,
            permitted: Arc::new(PermittedNamespaces::new(since)),
            running: Mutex::default(),
            finding: sync::Mutex::default(),
            reviews: Mutex::new(reviews),
            longest_wait: LONGEST_WAIT.mul_f64(1.0 - sooner),
            share: Mutex::default(),
            memory,
        };
        let _fits = caller.count_bytes();
        caller
    }

    /// The namespaces, as the last reviews have found.
    pub(super) fn permitted(&self) -> &Arc<PermittedNamespaces> {
        &self.permitted
    }

    /// Memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        share.as_ref().map_or(0, |share| usize::try_from(share.amount()).unwrap_or(usize::MAX))
    }

    /// Follows the permission as long as a watch lasts. Changes of RoleBindings wake the watch.
    pub(super) fn follow(self: &Arc<Self>) -> FollowedReviews {
        let mut followed =
            FollowedReviews { caller: self.clone(), changes: None, has_changed: false, held: None, review: None };
        followed.subscribe();
        followed
    }

    fn lock(&self) -> MutexGuard<'_, Reviews> {
        self.reviews.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store of RoleBindings; `None` if the whole of them is not cached.
    fn bindings(&self) -> Option<Arc<ResourceState>> {
        Some(self.registry.catalog().resource(&role_bindings())?.state.clone())
    }

    /// The current state of the store of RoleBindings; `None` while it is not ready.
    fn current_place(&self) -> Option<Place> {
        Place::current(&self.bindings()?)
    }

    /// Whether the candidates were found in this state of the store of RoleBindings or a later one. True without a state.
    fn has_reached(&self, wanted: Option<&Place>) -> bool {
        let Some(wanted) = wanted else { return true };
        self.lock().place.as_ref().is_some_and(|place| !place.is_continued_by(wanted) || place.end >= wanted.end)
    }

    /// Reviews what is due, and returns the result for the current RoleBindings: reviews in progress can have begun before
    /// they changed.
    async fn review_current(self: &Arc<Self>, with_whole: bool) -> Result<(), NoPermittedNamespace> {
        let wanted = self.current_place();
        let mut result = Ok(());
        for _ in 0..MOST_RUNS {
            result = self.run(with_whole).await;
            if result.is_err() || self.has_reached(wanted.as_ref()) {
                break;
            }
        }
        result
    }

    /// Begins the reviews that are due, or joins those in progress; see [`NamespacePermissions::review`].
    fn run(self: &Arc<Self>, with_whole: bool) -> Shared<Reviewing> {
        let recent = self.lock().recent(with_whole);
        if let Some(result) = recent.filter(|_| self.has_reached(self.current_place().as_ref())) {
            return std::future::ready(result).boxed().shared();
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running = &mut running[usize::from(with_whole)];
        let current = running.as_ref().and_then(WeakShared::upgrade);
        if let Some(current) = current.filter(|current| current.peek().is_none()) {
            return current;
        }
        let caller = self.clone();
        // A task, because a watch whose client does not read is not polled, and would hold the places of its reviews.
        // The task ends when no request or watch waits for it any more.
        let mut task = JoinSet::new();
        task.spawn(async move { caller.review_due(with_whole).await });
        let begun = async move {
            let unanswered =
                || NoPermittedNamespace::Undecided(ReviewError::Unreachable("the reviews ended early".to_owned()));
            task.join_next().await.and_then(Result::ok).unwrap_or_else(|| Err(unanswered()))
        };
        let begun = begun.boxed().shared();
        *running = begun.downgrade();
        begun
    }

    /// Reviews what is due, and records the result.
    async fn review_due(&self, with_whole: bool) -> Result<(), NoPermittedNamespace> {
        let finding = self.finding.lock().await;
        self.find_candidates().await;
        drop(finding);
        let outcome = match self.count_bytes() {
            true => self.send_reviews(with_whole).await,
            false => {
                self.lock().forget();
                Err(ReviewError::TooMany)
            }
        };
        {
            let mut reviews = self.lock();
            reviews.ended = Some(Instant::now());
            reviews.failed = outcome.clone().err().map(|why| (Instant::now(), why));
        }
        // If the published names do not fit any more, the next reviews fail.
        let _fits = self.count_bytes();
        // A failure leaves earlier results as they are, except for what was denied since.
        let is_complete = outcome.is_ok() && self.lock().whole.decided.is_some();
        if is_complete || self.permitted.current().is_some() {
            self.publish();
        }
        outcome.map_err(NoPermittedNamespace::Undecided)?;
        self.lock().result(with_whole)
    }

    /// Sends the reviews that are due, and records their decisions.
    ///
    /// # Errors
    /// The API server does not decide. The reviews that are left are still due.
    async fn send_reviews(&self, with_whole: bool) -> Result<(), ReviewError> {
        let whole = self.lock().whole;
        if with_whole && whole.due <= Instant::now() {
            match self.authorizer.decide_uncached(&self.identity, &self.permission).await {
                Decision::Unavailable(why) => return Err(why),
                decided @ (Decision::Allowed | Decision::Denied(_)) => {
                    let mut reviews = self.lock();
                    reviews.whole = reviews.whole.reviewed(decided == Decision::Allowed, self.longest_wait);
                }
            }
        }
        let due = self.lock().due(with_whole);
        let review = async |namespace: String| {
            let attributes = self.permission_in(&namespace);
            (self.authorizer.decide_uncached(&self.identity, &attributes).await, namespace)
        };
        let mut decided = std::pin::pin!(stream::iter(due).map(review).buffer_unordered(AT_ONCE));
        while let Some((decision, namespace)) = decided.next().await {
            if let Decision::Unavailable(why) = decision {
                return Err(why);
            }
            if let Some(candidate) = self.lock().candidates.get_mut(&namespace) {
                *candidate = candidate.reviewed(decision == Decision::Allowed, self.longest_wait);
            }
        }
        Ok(())
    }

    /// The permission in one namespace. For Namespaces, this is the permission to get the one of this name.
    fn permission_in(&self, namespace: &str) -> Attributes {
        let mut attributes = self.permission.clone();
        if let Some(about) = &mut attributes.resource {
            namespace.clone_into(&mut about.namespace);
            if about.group.is_empty() && about.resource == "namespaces" {
                namespace.clone_into(&mut about.name);
                "get".clone_into(&mut attributes.verb);
            }
        }
        attributes
    }

    /// Brings the candidates up to date with the store of RoleBindings. While the store is not ready, they stay as they
    /// are.
    async fn find_candidates(&self) {
        let Some(bindings) = self.bindings() else { return };
        let Ok(snapshot) = bindings.snapshot(Duration::ZERO).await else { return };
        let place = Place::of(&bindings, &snapshot);
        let known = {
            let reviews = self.lock();
            let is_continued = |known: &&Place| known.is_continued_by(&place) && !reviews.are_too_many;
            reviews.place.as_ref().filter(is_continued).map(|known| known.end)
        };
        if known == Some(place.end) {
            return;
        }
        let changes = match known {
            Some(end) => self.subjects.changes(&snapshot, end).await,
            None => None,
        };
        match changes {
            Some(changes) => {
                let now = Instant::now();
                for namespace in changes.namespaces {
                    let is_named = self.subjects.are_named_in(&snapshot, &namespace);
                    let mut reviews = self.lock();
                    if is_named {
                        let candidate = reviews.candidates.entry(namespace);
                        let candidate = candidate.or_insert_with(|| Candidate::new(now, FIRST_WAIT));
                        (candidate.has_changed, candidate.due, candidate.wait) = (true, now, FIRST_WAIT);
                    } else {
                        reviews.candidates.remove(&namespace);
                    }
                }
                let mut reviews = self.lock();
                reviews.are_too_many = reviews.candidates.len() > MOST_CANDIDATES;
                reviews.place = Some(place);
            }
            None => self.search(&snapshot, place).await,
        }
    }

    /// Finds all candidates in a state of the store. Pauses between steps, so that the work is divided into turns.
    async fn search(&self, snapshot: &Snapshot, place: Place) {
        let mut found = BTreeSet::new();
        for (number, namespace) in (1_usize..).zip(self.subjects.search(snapshot)) {
            found.extend(namespace);
            if found.len() > MOST_CANDIDATES {
                break;
            }
            if number.is_multiple_of(STEPS) {
                tokio::task::yield_now().await;
            }
        }
        let latest = self.subjects.latest_changes(snapshot).await;
        let now = Instant::now();
        let mut reviews = self.lock();
        reviews.are_too_many = found.len() > MOST_CANDIDATES;
        reviews.candidates.retain(|namespace, _| found.contains(namespace));
        for namespace in found {
            // RoleBindings that have not changed for long are not reviewed again so soon.
            let is_new = latest.namespaces.contains(&namespace);
            let wait = if is_new { FIRST_WAIT } else { self.longest_wait };
            let candidate = reviews.candidates.entry(namespace).or_insert_with(|| Candidate::new(now, wait));
            (candidate.has_changed, candidate.due, candidate.wait) = (true, now, wait);
        }
        reviews.first_since = latest.last.unwrap_or_default();
        reviews.place = Some(place);
    }

    /// Records the namespaces that the reviews have found, for all requests and watches of the caller.
    fn publish(&self) {
        let found = || {
            let reviews = self.lock();
            match reviews.whole.is_permitted() {
                true => (None, Version::ZERO),
                false => (Some(reviews.names()), reviews.first_since),
            }
        };
        let reached = || {
            let catalog = self.registry.catalog();
            let about = self.permission.resource.as_ref();
            let is_shown =
                |gvr: &Gvr| about.is_some_and(|about| gvr.group == about.group && gvr.resource == about.resource);
            let shown = catalog.stores().filter(|resource| is_shown(&resource.gvr));
            shown.filter_map(|resource| resource.state.load_state().version()).max().unwrap_or_default()
        };
        self.permitted.record(found, reached);
    }

    /// Counts the memory of the caller for its tenant. False if the tenant has taken its share of the memory of all
    /// callers; a count that did not become much smaller then stays as it was.
    fn count_bytes(&self) -> bool {
        let Identity { user, uid, groups, extra } = &*self.identity;
        let texts = |texts: &[String]| texts.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
        let extra = extra.iter().map(|(key, values)| key.len() + texts(values) + size_of::<(String, Vec<String>)>());
        let identity = user.len() + uid.len() + texts(groups) + extra.sum::<usize>();
        let reviews = self.lock();
        // The names that are permitted are in the published set too.
        let of_candidate = |(name, candidate): (&String, &Candidate)| {
            let published = if candidate.is_permitted() { size_of::<String>() + name.len() } else { 0 };
            name.len() + CANDIDATE_BYTES + published
        };
        let candidates: usize = reviews.candidates.iter().map(of_candidate).sum();
        let bytes = size_of::<Self>() + identity + self.subjects.held_bytes() + candidates;
        drop(reviews);
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        // A share only grows. A much smaller caller takes a new one.
        let kept = share.take_if(|share| (bytes as u64) >= share.amount() / 2);
        *share = None;
        match kept {
            Some(mut kept) => {
                let fits = kept.raise(bytes as u64);
                *share = Some(kept);
                fits
            }
            None => {
                *share = self.memory.0.take(&User::named(&self.identity.user), bytes as u64);
                share.is_some()
            }
        }
    }

    /// When a watch should review next, without a change of RoleBindings.
    fn next_review(&self) -> Instant {
        let reviews = self.lock();
        let are_reviewed = !reviews.whole.is_permitted() && !reviews.are_too_many;
        let candidates = reviews.candidates.values().filter(|_| are_reviewed);
        let due = candidates.map(|candidate| candidate.due).chain([reviews.whole.due]).min();
        let due = due.unwrap_or(reviews.whole.due).max(reviews.earliest());
        match &reviews.failed {
            Some((failed, _)) => due.max(*failed + AFTER_FAILURE),
            None => due,
        }
    }
}

impl Reviews {
    /// Forgets the candidates, so that the next reviews find them again.
    fn forget(&mut self) {
        self.candidates = BTreeMap::new();
        self.place = None;
    }

    /// The namespaces in which the caller has the permission, sorted. None if there are too many candidates: they are not
    /// reviewed any more, and [`Reviews::result`] returns the error.
    fn names(&self) -> Vec<String> {
        if self.are_too_many {
            return Vec::new();
        }
        let permitted = self.candidates.iter().filter(|(_, candidate)| candidate.is_permitted());
        permitted.map(|(namespace, _)| namespace.clone()).collect()
    }

    /// The candidates to review now: those that have changed, and some or all of those whose reviews are due. There are
    /// none if there are too many, or if the permission in all namespaces is known to suffice.
    fn due(&self, with_whole: bool) -> Vec<String> {
        if self.are_too_many || with_whole && self.whole.is_permitted() {
            return Vec::new();
        }
        let now = Instant::now();
        let due = self.candidates.iter().filter(|(_, candidate)| candidate.due <= now);
        let is_urgent = |candidate: &Candidate| candidate.has_changed || candidate.due + LATEST <= now;
        let (mut due, mut repeated): (Vec<_>, Vec<_>) = due.partition(|(_, candidate)| is_urgent(candidate));
        repeated.sort_by_key(|(_, candidate)| candidate.due);
        due.extend(repeated.into_iter().take(REPEATED_AT_ONCE));
        due.into_iter().map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Whether the caller has the permission somewhere. `with_whole`: the permission in all namespaces counts.
    fn result(&self, with_whole: bool) -> Result<(), NoPermittedNamespace> {
        if with_whole && self.whole.is_permitted() {
            return Ok(());
        }
        if self.are_too_many {
            return Err(NoPermittedNamespace::TooMany(format!(
                "RoleBindings name this user in more than {MOST_CANDIDATES} namespaces, which are too many for a View \
                 with permittedNamespaces: request one namespace, or grant the permission in all namespaces"
            )));
        }
        match self.candidates.values().any(|candidate| candidate.is_permitted()) {
            true => Ok(()),
            false => Err(NoPermittedNamespace::Nowhere),
        }
    }

    /// Whether the last reviews succeeded.
    fn is_reviewed(&self) -> bool {
        self.failed.is_none() && self.ended.is_some()
    }

    /// The result, if the last reviews were so recent that none begins yet.
    fn recent(&self, with_whole: bool) -> Option<Result<(), NoPermittedNamespace>> {
        let is_recent = self.is_reviewed() && Instant::now() < self.earliest();
        is_recent.then(|| self.result(with_whole))
    }

    /// The time before which no further review begins.
    fn earliest(&self) -> Instant {
        self.ended.map_or_else(Instant::now, |ended| ended + FIRST_WAIT)
    }
}

impl NamespacePermissions for PermittedCaller {
    fn review(self: Arc<Self>, with_whole: bool) -> BoxFuture<'static, Result<(), NoPermittedNamespace>> {
        async move { self.review_current(with_whole).await }.boxed()
    }

    fn record_whole(&self, is_permitted: bool) {
        {
            let mut reviews = self.lock();
            // Requests ask for this permission often. Only a change makes the next review sooner.
            if reviews.whole.due <= Instant::now() || reviews.whole.decided != Some(is_permitted) {
                reviews.whole = reviews.whole.reviewed(is_permitted, self.longest_wait);
            }
        }
        // Before the first reviews, the namespaces are not known.
        let is_reviewed = self.lock().is_reviewed();
        if is_permitted || is_reviewed || self.permitted.current().is_some() {
            self.publish();
        }
    }
}

/// The permission of the caller of a watch. The watch drives its reviews.
pub(super) struct FollowedReviews {
    caller: Arc<PermittedCaller>,
    /// The subscription for changes of the caller's RoleBindings, and their store.
    changes: Option<(Arc<ResourceState>, Subscription)>,
    /// Whether RoleBindings may have changed since the last reviews.
    has_changed: bool,
    /// When a change last held the events of the watch; `None` before the first.
    held: Option<Instant>,
    /// Reviews in progress. They continue when the watch has sent something meanwhile.
    review: Option<BoxFuture<'static, ()>>,
}

impl FollowedReviews {
    /// Whether reviews are due or in progress. The watch sends no further event before they are done
    /// ([`FollowedReviews::reviewed`]): a client that reads slowly would otherwise receive events for long.
    pub(super) fn is_due(&mut self) -> bool {
        self.read_changes();
        self.review.is_some() || self.next_review() <= Instant::now()
    }

    /// The memory of the subscription in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.changes.as_ref().map_or(0, |(_, subscription)| subscription.held_bytes())
    }

    /// Whether the next change of RoleBindings holds the events of the watch: see [`BETWEEN_HOLDS`].
    fn may_hold(&self) -> bool {
        self.held.is_none_or(|held| held + BETWEEN_HOLDS <= Instant::now())
    }

    /// When the next review is due, as far as is known now.
    fn next_review(&self) -> Instant {
        match self.has_changed {
            true if self.may_hold() => Instant::now(),
            true => self.caller.lock().earliest(),
            false => self.caller.next_review(),
        }
    }

    /// Waits until reviews are due, and until they are done.
    pub(super) async fn reviewed(&mut self) {
        if self.review.is_none() {
            while !self.is_due() {
                let changed = async {
                    match &self.changes {
                        Some((_, subscription)) => subscription.changed().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = changed => {}
                    () = sleep_until(self.next_review()) => {}
                }
            }
            let caller = self.caller.clone();
            let has_changed = std::mem::take(&mut self.has_changed);
            // A new subscription counts as changed. Often, the request of the watch has just had the reviews.
            let is_done = caller.has_reached(caller.current_place().as_ref());
            if is_done && caller.next_review() > Instant::now() {
                return;
            }
            if has_changed && self.may_hold() {
                self.held = Some(Instant::now());
            }
            self.review = Some(Box::pin(async move {
                let earliest = caller.lock().earliest();
                sleep_until(earliest).await;
                // The lease of the watch ends it if there is no result for long.
                let _result = caller.review_current(true).await;
            }));
        }
        if let Some(review) = &mut self.review {
            review.await;
        }
        self.review = None;
    }

    /// Records whether RoleBindings have changed since the last call, so that the permissions of the caller may be others.
    fn read_changes(&mut self) {
        self.subscribe();
        if let Some((_, subscription)) = &self.changes {
            self.has_changed |= match subscription.take() {
                MailboxContents::Changes { changes, .. } => {
                    changes.iter().any(|event| self.caller.subjects.are_affected_by(&event.change))
                }
                MailboxContents::Overflowed => true,
            };
        }
    }

    /// Subscribes to the current store of RoleBindings, unless that is done.
    fn subscribe(&mut self) {
        let bindings = self.caller.bindings();
        let is_current = match (&self.changes, &bindings) {
            (Some((known, _)), Some(bindings)) => Arc::ptr_eq(known, bindings),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_current {
            self.changes = bindings.map(|bindings| {
                let subscription = bindings.dispatcher().subscribe(self.caller.subjects.selection(), false);
                (bindings, subscription)
            });
        }
    }
}
