//! Hits in list order, a page at a time, at the newest or at an exact version.
//!
//! A [`Listing`] owns its snapshot and walks it in small steps. A list of any size is thus streamed to a reader of any
//! speed, with bounded memory and without a lock.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use super::compact::CompactSelection;
use super::plan::{Hits, QueryPlan};
use super::selection::Selection;
use super::work::{Work, at_once};
use crate::model::{Key, Version};
use crate::store::{Object, Rewind, Snapshot, TooOld};

/// The number of objects that a listing takes from the snapshot at a time. It is large enough that the search for the
/// position costs little, and small enough to take little memory compared with the response.
const STEP: usize = 256;

/// If at most one in this many objects is a hit, sorting the hits is cheaper than walking over all objects.
const SORT_BELOW_ONE_IN: u64 = 16;

/// The work of reading the key of an object, in steps of [`Work`].
pub(super) const STEPS_OF_KEY: u64 = 8;

/// A store at one version: a snapshot, and the changes to revert in it.
#[derive(Clone, Debug)]
pub struct State {
    snapshot: Snapshot,
    version: Version,
    /// The changes between `version` and the snapshot, to revert.
    rewind: Arc<Rewind>,
}

impl State {
    /// The state of the snapshot.
    pub fn current(snapshot: Snapshot) -> State {
        State { version: snapshot.version(), snapshot, rewind: Arc::default() }
    }

    /// Like [`State::begin_at`], but without yielding to other tasks.
    ///
    /// # Errors
    /// Those of [`State::begin_at`].
    pub fn at(snapshot: Snapshot, version: Version, namespace: Option<&str>) -> Result<State, TooOld> {
        at_once(State::begin_at(snapshot, version, namespace, &mut Work::default()))
    }

    /// The state at exactly this version, which must not be newer than that of the snapshot. With a namespace, the
    /// state is only valid for selections of this namespace: the changes of other namespaces are not reverted. `work`
    /// counts the changes, and yields to other tasks between them.
    ///
    /// # Errors
    /// [`TooOld`] when the history does not reach back to the version, or when the version is in a relist gap.
    pub async fn begin_at(
        snapshot: Snapshot,
        version: Version,
        namespace: Option<&str>,
        work: &mut Work,
    ) -> Result<State, TooOld> {
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let mut finding = snapshot.rewind_to(version, &prefix)?;
        while let Some(steps) = finding.advance() {
            work.spend(steps).await;
        }
        let rewind = Arc::new(finding.finish());
        Ok(State { snapshot, version, rewind })
    }

    /// The version that this state shows.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The snapshot that this state is based on. It may be newer than the state, but has the same epoch.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The object of this key; `None` if this state has none.
    pub fn get(&self, key: &str) -> Option<&Object> {
        match self.snapshot.slot(key).filter(|slot| !self.rewind.hidden().contains(*slot)) {
            Some(slot) => self.snapshot.object(slot),
            None => {
                let before = self.rewind.before();
                before.binary_search_by(|object| object.key().cmp(key)).ok().and_then(|index| before.get(index))
            }
        }
    }

    /// The changes to revert in the snapshot; empty if the snapshot has the version of the state.
    pub(super) fn rewind(&self) -> &Rewind {
        &self.rewind
    }
}

/// Where a listing continues.
#[derive(Clone, Debug)]
pub(super) enum Walk {
    /// In the list order of all objects, from the bound `from`. `within`: the selected slots; `None`: all slots of the
    /// store or of the namespace.
    Order { from: Bound<Key>, within: Option<roaring::RoaringBitmap> },
    /// The remaining selected objects of the snapshot, which were sorted before.
    Sorted(std::vec::IntoIter<Object>),
}

/// The selected objects of one state in list order.
#[derive(Clone, Debug)]
pub struct Listing {
    pub(super) snapshot: Snapshot,
    /// `hidden()` has the slots of the snapshot to skip: their objects are newer than the state.
    pub(super) rewind: Arc<Rewind>,
    /// The remaining selected objects of an earlier version that the snapshot lacks, in order. They are merged into the
    /// walk.
    pub(super) overlay: VecDeque<Object>,
    pub(super) walk: Walk,
    /// `NAMESPACE/` if all objects of one namespace are selected. The walk ends at the first key without it.
    pub(super) namespace_prefix: Option<String>,
    /// Selected objects that were taken from the snapshot and not returned yet, in order.
    pub(super) ready: VecDeque<Object>,
    /// The number of selected objects of the state; `None` if it is not known without a walk.
    pub(super) total: Option<u64>,
    /// The number of objects that the listing has returned.
    pub(super) taken: u64,
}

impl Listing {
    /// An upper bound of the number of remaining objects, computed without reading them. It can count objects of the
    /// snapshot that are skipped, and objects before the start.
    pub fn at_most(&self) -> u64 {
        let walked = match (&self.walk, &self.namespace_prefix) {
            (Walk::Sorted(objects), _) => objects.len() as u64,
            (Walk::Order { within: Some(slots), .. }, _) => slots.len(),
            (Walk::Order { within: None, .. }, Some(prefix)) => {
                let namespace = prefix.trim_end_matches('/');
                let posting = self.snapshot.postings().namespace(namespace);
                posting.map_or(0, |posting| posting.len())
            }
            (Walk::Order { within: None, .. }, None) => self.snapshot.len() as u64,
        };
        walked + (self.overlay.len() + self.ready.len()) as u64
    }

    /// An upper bound of the JSON length of each remaining object, in bytes. It may be the bound for all objects of the
    /// store, because the selected objects are not read. An average would not be a bound, because anyone who may write
    /// an object chooses its length.
    pub fn longest(&self) -> usize {
        let longest_of = |objects: &mut dyn Iterator<Item = &Object>| objects.map(Object::length).max().unwrap_or(0);
        let walked = match &self.walk {
            Walk::Sorted(objects) => longest_of(&mut objects.as_slice().iter()),
            Walk::Order { .. } => self.snapshot.longest(),
        };
        walked.max(longest_of(&mut self.overlay.iter().chain(&self.ready)))
    }

    /// The sum of `length` over all remaining objects. If it exceeds `most`, the rest is extrapolated: the result is
    /// the average so far times [`Listing::at_most`]. Only selected objects are read, so the sum reveals nothing about
    /// others.
    pub fn length(&self, most: u64, length: impl Fn(&Object) -> u64) -> u64 {
        let (mut bytes, mut count) = (0u64, 0u64);
        let mut add = |object: &Object| {
            bytes = bytes.saturating_add(length(object));
            count += 1;
            bytes <= most
        };
        let is_whole = match &self.walk {
            Walk::Sorted(objects) => objects.as_slice().iter().chain(&self.overlay).chain(&self.ready).all(&mut add),
            Walk::Order { .. } => self.clone().all(|object| add(&object)),
        };
        if is_whole { bytes } else { bytes.saturating_mul(self.at_most().max(count)) / count.max(1) }
    }

    /// The objects that `selection` selects in `state`, from the key `start` on (inclusive; `None`: from the
    /// beginning). Like [`Listing::begin`], but plans without yielding to other tasks.
    pub fn new(state: State, selection: &Selection, start: Option<&str>) -> Listing {
        at_once(Listing::begin(state, selection, start, &mut Work::default()))
    }

    /// The objects that `selection` selects in `state`, from the key `start` on (inclusive; `None`: from the
    /// beginning). `work` counts the steps of planning, and yields to other tasks between them.
    ///
    /// A state of an earlier version is its snapshot without the slots `rewind.hidden()`, which have changed since, and
    /// with the objects `rewind.before()`, which these slots or removed ones had at that version. The selected ones of
    /// these objects become the overlay, which is merged into the walk.
    pub async fn begin(state: State, selection: &Selection, start: Option<&str>, work: &mut Work) -> Listing {
        let State { snapshot, rewind, .. } = state;
        let hits = QueryPlan::new(selection, &snapshot, work).await.hits(work).await;
        let starts_at = |key: &str| start.is_none_or(|start| key >= start);
        let mut overlay = VecDeque::new();
        if !rewind.before().is_empty() {
            let selection = CompactSelection::new(selection);
            for object in rewind.before() {
                if starts_at(object.key()) && selection.test(object, work).await {
                    overlay.push_back(object.clone());
                }
                work.spend(STEPS_OF_KEY).await;
            }
        }
        let namespace_prefix = match &hits {
            Hits::Namespace(namespace) => Some(format!("{namespace}/")),
            Hits::Everything | Hits::Slots(_) => None,
        };
        let total = match &hits {
            // With a start, the number of selected objects before the start is not known.
            Hits::Slots(slots) if start.is_none() => {
                Some(slots.len() - slots.intersection_len(rewind.hidden()) + overlay.len() as u64)
            }
            Hits::Slots(_) | Hits::Everything | Hits::Namespace(_) => None,
        };
        let walk = match hits {
            // Fewer than 64 hits are sorted in a small store too: that is cheaper than any walk.
            Hits::Slots(slots) if slots.len() * SORT_BELOW_ONE_IN <= snapshot.len() as u64 || slots.len() < 64 => {
                let mut objects: Vec<Object> = slots
                    .iter()
                    .filter(|slot| !rewind.hidden().contains(*slot))
                    .filter_map(|slot| snapshot.object(slot).cloned())
                    .filter(|object| starts_at(object.key()))
                    .collect();
                objects.sort_unstable_by(|left, right| left.key().cmp(right.key()));
                Walk::Sorted(objects.into_iter())
            }
            other @ (Hits::Everything | Hits::Namespace(_) | Hits::Slots(_)) => {
                // The later one of the start and the first key of the namespace.
                let first = match (&namespace_prefix, start) {
                    (Some(prefix), Some(start)) if start < prefix.as_str() => Some(prefix.as_str()),
                    (_, Some(start)) => Some(start),
                    (Some(prefix), None) => Some(prefix.as_str()),
                    (None, None) => None,
                };
                // `first` is a whole key, or a namespace with its slash.
                let from = first.map_or(Bound::Unbounded, |first| Bound::Included(Key::new("", first)));
                let within = match other {
                    Hits::Slots(slots) => Some(slots),
                    Hits::Everything | Hits::Namespace(_) => None,
                };
                Walk::Order { from, within }
            }
        };
        Listing { snapshot, rewind, overlay, walk, namespace_prefix, ready: VecDeque::new(), total, taken: 0 }
    }

    /// The memory of the listing in bytes, without the objects and the snapshot.
    pub fn held_bytes(&self) -> u64 {
        let walk = match &self.walk {
            Walk::Sorted(objects) => objects.len() * size_of::<Object>(),
            Walk::Order { within: Some(slots), .. } => slots.serialized_size(),
            Walk::Order { within: None, .. } => 0,
        };
        let objects = (self.overlay.capacity() + self.ready.capacity()) * size_of::<Object>();
        (self.rewind.held_bytes() + walk + objects) as u64
    }

    /// The next object, without taking it from the listing; `None` at the end.
    pub fn peek(&mut self) -> Option<&Object> {
        if self.ready.is_empty() {
            self.fill();
        }
        match (self.ready.front(), self.overlay.front()) {
            (Some(ready), Some(overlay)) if overlay.key() < ready.key() => self.overlay.front(),
            (None, _) => self.overlay.front(),
            (Some(_), _) => self.ready.front(),
        }
    }

    /// Walks in steps of [`STEP`] objects until some selected objects are in `ready` or the walk ends.
    fn fill(&mut self) {
        while self.ready.is_empty() {
            // The last slot of this step, after which the walk continues; `None` if the walk ends.
            let mut last = None;
            match &mut self.walk {
                Walk::Sorted(objects) => {
                    self.ready.extend(objects.by_ref().take(STEP));
                    return;
                }
                Walk::Order { from, within } => {
                    let bound = match from {
                        Bound::Included(key) => Bound::Included(key.as_str()),
                        Bound::Excluded(key) => Bound::Excluded(key.as_str()),
                        Bound::Unbounded => Bound::Unbounded,
                    };
                    for slot in self.snapshot.slots_from(bound).take(STEP) {
                        if within.as_ref().is_some_and(|within| !within.contains(slot)) {
                            last = Some(slot);
                            continue;
                        }
                        let Some(object) = self.snapshot.object(slot) else { continue };
                        let key = object.key();
                        if self.namespace_prefix.as_deref().is_some_and(|prefix| !key.starts_with(prefix)) {
                            // Keys of one namespace are adjacent; the first key of another namespace ends them.
                            last = None;
                            break;
                        }
                        last = Some(slot);
                        if !self.rewind.hidden().contains(slot) {
                            self.ready.push_back(object.clone());
                        }
                    }
                    let last = last.and_then(|slot| self.snapshot.object(slot));
                    match last {
                        Some(object) => *from = Bound::Excluded(Key::new("", object.key())),
                        None => {
                            // The walk has ended. An empty list of sorted objects represents that.
                            self.walk = Walk::Sorted(Vec::new().into_iter());
                            return;
                        }
                    }
                }
            }
        }
    }
}

impl Iterator for Listing {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        self.peek()?;
        self.taken += 1;
        let is_in_overlay = match (self.ready.front(), self.overlay.front()) {
            (Some(ready), Some(overlay)) => overlay.key() < ready.key(),
            (None, _) => true,
            (Some(_), None) => false,
        };
        if is_in_overlay { self.overlay.pop_front() } else { self.ready.pop_front() }
    }
}
