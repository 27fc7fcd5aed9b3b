//! The namespaces to which a View restricts a resource. They can depend on labels of Namespaces, or on permissions.
//!
//! [`NamespaceSelector`] finds the Namespaces that a label selector selects. All Views with an equal selector share it,
//! and so its names: a cluster can have thousands of Namespaces, and thousands of Views. [`SelectedNamespaces`] adds the
//! version of the resource from which on a View shows the result, and all requests share that.
//! [`PermittedNamespaces`] has the namespaces in which a caller has a permission; [`super::binding_subjects`] finds those
//! that need a review. [`FollowedNamespaces`] reports to a request or a watch that the result has changed.
//!
//! The store of Namespaces and the store of the resource follow separate watches, so a change of one can arrive before
//! an older change of the other. When the set changes, a client may therefore have listed the previous set at any
//! version up to the current one of the resource. Clients with such a version must list again, and the next list waits
//! for a newer version: see [`SelectedSince`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::event_dispatcher::{MailboxContents, Subscription};
use super::resource_state::{LoadState, ResourceState};
use crate::model::Version;
use crate::query::{Listing, Selection, State};
use crate::selector::LabelSelector;
use crate::store::{HistoryCursor, Snapshot};
use crate::subscribe::{Transition, transition};

/// Which namespaces a View shows of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ViewNamespaces {
    /// All namespaces.
    #[default]
    All,
    /// These namespaces; not empty.
    Named(Vec<String>),
    /// The namespaces whose Namespace has matching labels.
    Selected(LabelSelector),
    /// The namespaces in which the caller has the permission for the request.
    Permitted,
}

impl From<Vec<String>> for ViewNamespaces {
    /// The namespaces of a list; all if it is empty.
    fn from(names: Vec<String>) -> ViewNamespaces {
        if names.is_empty() { ViewNamespaces::All } else { ViewNamespaces::Named(names) }
    }
}

/// The version of a resource since which its lists show the current selection. Clones share the version.
///
/// A list waits until its store has reached the version. A client that resumes from an older version must list again,
/// because no event says which objects have entered or left the selection.
#[derive(Clone, Debug, Default)]
pub struct SelectedSince(Arc<AtomicU64>);

impl SelectedSince {
    /// A selection that is shown from this version on.
    pub fn new(version: Version) -> SelectedSince {
        SelectedSince(Arc::new(AtomicU64::new(version.number())))
    }

    /// The version.
    pub fn version(&self) -> Version {
        Version::new(self.0.load(Ordering::Relaxed))
    }

    /// Permits lists and watches from `version` on only.
    fn raise(&self, version: Version) {
        self.0.fetch_max(version.number(), Ordering::Relaxed);
    }

    /// Permits lists and watches from `version` on, if that is lower than the current value. Used if the source has no
    /// newer version: because nothing is written, because its versions went back, or because it stores Namespaces
    /// elsewhere. Does nothing if the current value is above `awaited`, the version for which a list has waited: then the
    /// selection has changed since.
    pub fn lower(&self, awaited: Version, version: Version) {
        let lower = |current| (current <= awaited.number() && current > version.number()).then_some(version.number());
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
    }
}

/// A set of namespaces.
#[derive(Debug)]
pub struct NamespaceSet {
    /// The names, sorted; `None` for all namespaces.
    pub names: Option<Arc<Vec<String>>>,
    /// The version of the resource since which lists show the objects in this set of namespaces.
    pub since: SelectedSince,
}

/// A label selector of Namespaces, with the names that it selected last.
pub struct NamespaceSelector {
    selection: Selection,
    last: Mutex<Option<KnownNames>>,
}

/// The names at one state of the store.
struct KnownNames {
    epoch: u64,
    end: HistoryCursor,
    names: Arc<Vec<String>>,
}

/// The namespaces that a View shows of a resource by a label selector. Remembers the last result, and reads only the
/// changes since then.
pub struct SelectedNamespaces {
    selector: Arc<NamespaceSelector>,
    last: Mutex<Option<Known>>,
}

/// The namespaces at one state of the store of Namespaces.
struct Known {
    /// The epoch of the state.
    epoch: u64,
    /// The position in history after the state.
    end: HistoryCursor,
    set: Arc<NamespaceSet>,
}

impl fmt::Debug for SelectedNamespaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = &self.selector.selection.labels;
        formatter.debug_struct("SelectedNamespaces").field("labels", labels).finish_non_exhaustive()
    }
}

impl NamespaceSelector {
    /// The namespaces with these labels. Nothing is read yet.
    pub fn new(labels: &LabelSelector) -> NamespaceSelector {
        let selection = Selection { labels: labels.clone(), ..Selection::default() };
        NamespaceSelector { selection, last: Mutex::default() }
    }

    /// The names of the selected namespaces in a state of the store of Namespaces, sorted as the keys of the store are.
    fn names(&self, snapshot: &Snapshot) -> Arc<Vec<String>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|known| known.epoch == snapshot.epoch());
        if let Some(known) = known.filter(|known| known.end == snapshot.end()) {
            return known.names.clone();
        }
        let found = Listing::new(State::current(snapshot.clone()), &self.selection, None);
        let names: Arc<Vec<String>> = Arc::new(found.map(|namespace| namespace.name().to_owned()).collect());
        // A request that began earlier does not replace newer names.
        if known.is_none_or(|known| known.end < snapshot.end()) {
            *last = Some(KnownNames { epoch: snapshot.epoch(), end: snapshot.end(), names: names.clone() });
        }
        names
    }

    /// The version of the last change from `cursor` on by which a namespace enters or leaves the set. The inner `None`:
    /// there is no such change. The outer `None`: the changes from `cursor` on are no longer in history.
    fn last_change(&self, snapshot: &Snapshot, cursor: HistoryCursor) -> Option<Option<Version>> {
        let changes_set = |change: &Transition| matches!(change, Transition::Added(_) | Transition::Deleted(_));
        let mut changes = snapshot.changes(cursor)?.rev();
        let last = changes.find(|change| transition(&self.selection, change).as_ref().is_some_and(changes_set));
        // A relist does not show at which version its changes happened, so the newest version is returned.
        Some(last.map(|change| if change.in_relist_gap { snapshot.version() } else { change.version }))
    }
}

impl SelectedNamespaces {
    /// The namespaces of a selector. Nothing is read yet.
    pub fn new(selector: Arc<NamespaceSelector>) -> SelectedNamespaces {
        SelectedNamespaces { selector, last: Mutex::default() }
    }

    /// The selector.
    pub fn selector(&self) -> &Arc<NamespaceSelector> {
        &self.selector
    }

    /// The selected namespaces in a state of the store of Namespaces. The result is the previous `Arc` if no namespace
    /// has entered or left the set since then. `shown` has the stores of all versions of the resource that the View
    /// shows: they determine since which version lists show a new set.
    pub fn at(&self, snapshot: &Snapshot, shown: &[Arc<ResourceState>]) -> Arc<NamespaceSet> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|known| known.epoch == snapshot.epoch());
        if let Some(known) = known.filter(|known| known.end >= snapshot.end()) {
            return known.set.clone();
        }
        let last_change = known.map(|known| (known, self.selector.last_change(snapshot, known.end)));
        let set = match last_change {
            // No namespace has entered or left the set.
            Some((known, Some(None))) => known.set.clone(),
            // The set has changed, or may have. Clients have listed the previous set at versions up to the current one,
            // so the new set is shown since the next version.
            Some((_, Some(Some(_))) | (_, None)) => {
                let reached = shown.iter().filter_map(|state| state.load_state().version());
                let since = SelectedSince::new(reached.max().map(Version::next).unwrap_or_default());
                Arc::new(NamespaceSet { names: Some(self.selector.names(snapshot)), since })
            }
            // The first result, or a new epoch. Clients of another replica may have listed an earlier set. The set is
            // the same since its last change in history; before the oldest version of history it may have been another
            // one.
            None => {
                let oldest = snapshot.oldest();
                let begin = snapshot.since(oldest).ok();
                let last_change = begin.and_then(|begin| self.selector.last_change(snapshot, begin)).flatten();
                let since = SelectedSince::new(last_change.unwrap_or(oldest));
                Arc::new(NamespaceSet { names: Some(self.selector.names(snapshot)), since })
            }
        };
        *last = Some(Known { epoch: snapshot.epoch(), end: snapshot.end(), set: set.clone() });
        set
    }
}

/// The version since which lists show the permitted namespaces of a caller for a resource. Clones share it. Lists and
/// watches need permissions of their own, and the namespaces of both can differ. A client watches from the version of a
/// list, so both have the same version.
#[derive(Clone, Debug, Default)]
pub struct PermittedSince {
    since: SelectedSince,
    /// The highest version that was the one of a first result. It counts once, because it may have been lowered since.
    first: Arc<AtomicU64>,
}

impl PermittedSince {
    /// Permits lists and watches from `version` on only, the one of a first result.
    fn raise_first(&self, version: Version) {
        if self.first.fetch_max(version.number(), Ordering::Relaxed) < version.number() {
            self.since.raise(version);
        }
    }
}

/// The namespaces in which one caller has one permission, as the last reviews have found. `server` sends the reviews.
#[derive(Debug)]
pub struct PermittedNamespaces {
    last: watch::Sender<Option<Arc<NamespaceSet>>>,
    since: PermittedSince,
}

impl PermittedNamespaces {
    /// Namespaces that are not known yet. `since` is shared by all permissions of the caller for the resource.
    pub fn new(since: PermittedSince) -> PermittedNamespaces {
        PermittedNamespaces { last: watch::Sender::new(None), since }
    }

    /// The last namespaces; `None` before the first reviews.
    pub fn current(&self) -> Option<Arc<NamespaceSet>> {
        self.last.borrow().clone()
    }

    /// Records the result of reviews, which `found` returns: the namespaces, sorted, or `None` for all namespaces. It also
    /// returns the version since which lists show the first result. Another result than the last one is shown since the
    /// version after the current one of the resource, which `reached` returns: clients have listed the earlier result at
    /// versions up to that one.
    pub fn record(&self, found: impl FnOnce() -> (Option<Vec<String>>, Version), reached: impl FnOnce() -> Version) {
        // Both functions are called while no request can read the earlier result. A request that has read it before has a
        // state of the resource that is not newer than `reached`.
        self.last.send_if_modified(|last| {
            let (names, first_since) = found();
            match last {
                Some(last) if last.names.as_deref() == names.as_ref() => return false,
                Some(_) => self.since.since.raise(reached().next()),
                None => self.since.raise_first(first_since),
            }
            *last = Some(Arc::new(NamespaceSet { names: names.map(Arc::new), since: self.since.since.clone() }));
            true
        });
    }
}

/// The namespaces of one request. They can be compared with the current ones while the response lasts.
#[derive(Clone, Debug)]
pub struct FollowedNamespaces {
    /// The namespaces when the request began.
    set: Arc<NamespaceSet>,
    source: NamespaceSource,
}

/// How the current namespaces are found.
#[derive(Clone, Debug)]
enum NamespaceSource {
    /// By the labels of Namespaces.
    Labels {
        selected: Arc<SelectedNamespaces>,
        /// The store of Namespaces.
        state: Arc<ResourceState>,
        /// The stores of all versions of the resource that the View shows.
        shown: Arc<[Arc<ResourceState>]>,
    },
    /// By the permissions of the caller.
    Permissions(Arc<PermittedNamespaces>),
}

impl FollowedNamespaces {
    /// The namespaces that are selected in `snapshot`, which is a snapshot of `state`, the store of Namespaces. `shown`
    /// has the stores of all versions of the resource that the View shows.
    pub fn new(
        selected: &Arc<SelectedNamespaces>,
        (state, snapshot): (&Arc<ResourceState>, &Snapshot),
        shown: Arc<[Arc<ResourceState>]>,
    ) -> FollowedNamespaces {
        let set = selected.at(snapshot, &shown);
        let source = NamespaceSource::Labels { selected: selected.clone(), state: state.clone(), shown };
        FollowedNamespaces { set, source }
    }

    /// The namespaces in which the caller has the permission; `None` before the first reviews.
    pub fn permitted(permitted: &Arc<PermittedNamespaces>) -> Option<FollowedNamespaces> {
        Some(FollowedNamespaces { set: permitted.current()?, source: NamespaceSource::Permissions(permitted.clone()) })
    }

    /// The namespaces that another request has read last. Unlike [`FollowedNamespaces::new`], this finds no further
    /// change, whose set would only be shown from a later version on.
    #[must_use]
    pub fn renewed(&self) -> FollowedNamespaces {
        let set = match &self.source {
            NamespaceSource::Labels { selected, .. } => {
                let last = selected.last.lock().unwrap_or_else(PoisonError::into_inner);
                last.as_ref().map(|known| known.set.clone())
            }
            NamespaceSource::Permissions(permitted) => permitted.current(),
        };
        FollowedNamespaces { set: set.unwrap_or_else(|| self.set.clone()), source: self.source.clone() }
    }

    /// The namespaces when they were read.
    pub fn set(&self) -> &Arc<NamespaceSet> {
        &self.set
    }

    /// Whether the permissions of the caller decide which namespaces are shown.
    pub fn are_permitted(&self) -> bool {
        matches!(self.source, NamespaceSource::Permissions(_))
    }

    /// Whether the namespaces have changed since they were read, or can no longer be known.
    pub fn is_changed(&self) -> bool {
        self.is_changed_by(Version::new(u64::MAX))
    }

    /// Whether other namespaces than those that were read are shown at this version of the resource, or the namespaces
    /// can no longer be known.
    pub fn is_changed_by(&self, version: Version) -> bool {
        let is_other =
            |current: &Arc<NamespaceSet>| !Arc::ptr_eq(current, &self.set) && current.since.version() <= version;
        match &self.source {
            NamespaceSource::Labels { selected, state, shown } => match state.load_state() {
                LoadState::Ready(snapshot) => is_other(&selected.at(&snapshot, shown)),
                // Namespaces are not served any more, or from another store, whose changes do not arrive here.
                LoadState::Gone(_) => true,
                // The current namespaces are not known for a while. The caller was permitted to see the previous ones.
                LoadState::Idle | LoadState::Loading(_) | LoadState::SourceError { .. } | LoadState::OverMemory(_) => {
                    false
                }
            },
            NamespaceSource::Permissions(permitted) => permitted.current().as_ref().is_some_and(is_other),
        }
    }
}

/// The namespaces of a watch, which is woken when they may have changed.
#[derive(Debug)]
pub struct WatchedNamespaces {
    followed: FollowedNamespaces,
    /// What wakes the watch.
    changes: NamespaceChanges,
}

/// What wakes a watch when its namespaces may have changed.
#[derive(Debug)]
enum NamespaceChanges {
    /// Changes of Namespaces that may concern the label selector.
    Namespaces(Subscription),
    /// The results of reviews.
    Reviews(watch::Receiver<Option<Arc<NamespaceSet>>>),
}

impl WatchedNamespaces {
    /// Follows the namespaces with which the request of the watch began.
    pub fn new(followed: &FollowedNamespaces) -> WatchedNamespaces {
        let changes = match &followed.source {
            NamespaceSource::Labels { selected, state, .. } => {
                NamespaceChanges::Namespaces(state.dispatcher().subscribe(&selected.selector.selection, false))
            }
            NamespaceSource::Permissions(permitted) => NamespaceChanges::Reviews(permitted.last.subscribe()),
        };
        WatchedNamespaces { followed: followed.clone(), changes }
    }

    /// Whether the permissions of the caller decide which namespaces are shown.
    pub fn are_permitted(&self) -> bool {
        self.followed.are_permitted()
    }

    /// Whether the namespaces have changed since the request of the watch began.
    pub fn is_changed(&self) -> bool {
        match &self.changes {
            NamespaceChanges::Namespaces(subscription) => match subscription.take() {
                MailboxContents::Changes { changes, .. } if changes.is_empty() => false,
                // A new mailbox counts as overflowed.
                MailboxContents::Changes { .. } | MailboxContents::Overflowed => self.followed.is_changed(),
            },
            NamespaceChanges::Reviews(_) => self.followed.is_changed(),
        }
    }

    /// Waits until the namespaces may have changed.
    pub async fn changed(&mut self) {
        match &mut self.changes {
            NamespaceChanges::Namespaces(subscription) => subscription.changed().await,
            NamespaceChanges::Reviews(last) => {
                let is_other = |current: &Option<Arc<NamespaceSet>>| {
                    current.as_ref().is_some_and(|current| !Arc::ptr_eq(current, &self.followed.set))
                };
                // The sender lives as long as `followed`.
                let _ = last.wait_for(is_other).await;
            }
        }
    }
}
