//! Hits in list order, a page at a time, now or at an exact version.
//!
//! A [`Listing`] owns its snapshot and walks it in small steps, so that a list of any size is streamed to a reader of
//! any speed with bounded memory and without a lock.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use super::compact::{CompactSelection, Selects};
use super::plan::{Hits, Plan, steps_of_test};
use super::selection::Selection;
use super::work::{Work, at_once};
use crate::model::{Key, Version};
use crate::store::{Object, Snapshot, TooOld, Undone};

/// How many objects a listing takes from the snapshot at a time: large enough to hide the walk to the place, small
/// enough that what it holds is nothing beside the answer.
const STEP: usize = 256;

/// Up to this share of all objects (one in so many), sorting the hits is cheaper than walking every key.
const SORT_BELOW_ONE_IN: u64 = 16;

/// A store at one version: the snapshot, and what must be undone in it.
#[derive(Clone, Debug)]
pub struct State {
    snapshot: Snapshot,
    version: Version,
    /// Objects that differ from the snapshot's.
    undone: Arc<Undone>,
}

impl State {
    /// The snapshot as it is.
    pub fn current(snapshot: Snapshot) -> State {
        State { version: snapshot.version(), snapshot, undone: Arc::default() }
    }

    /// The state at exactly this version, which must not be newer than the snapshot's. It is only for selections of this namespace,
    /// if there is one: what changed elsewhere is not undone.
    ///
    /// # Errors
    /// [`TooOld`] when history does not reach back.
    pub fn at(snapshot: Snapshot, version: Version, namespace: Option<&str>) -> Result<State, TooOld> {
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let undone = Arc::new(snapshot.undo_to(version, &prefix)?);
        Ok(State { snapshot, version, undone })
    }

    /// The version that this state shows.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What it is made from; versions and contents agree within an epoch of it.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(super) fn undone(&self) -> &Undone {
        &self.undone
    }
}

/// Where a listing goes on.
#[derive(Clone, Debug)]
enum Walk {
    /// Along the order of all keys, from this bound, keeping the slots in the set if there is one.
    Order { from: Bound<Key>, within: Option<roaring::RoaringBitmap> },
    /// Along hits that are sorted already.
    Sorted(std::vec::IntoIter<Object>),
}

/// The selected objects of one state in list order.
#[derive(Clone, Debug)]
pub struct Listing {
    snapshot: Snapshot,
    /// What must not be taken from the snapshot, and the selected objects that stand there instead, in order.
    undone: Arc<Undone>,
    instead: VecDeque<Object>,
    walk: Walk,
    namespace_prefix: Option<String>,
    ready: VecDeque<Object>,
}

impl Listing {
    /// How many objects are left, at most. Known without walking; what must be undone, or stands before the start, is counted
    /// although it may not come.
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
        walked + (self.instead.len() + self.ready.len()) as u64
    }

    /// No object that is left is longer as JSON, in bytes. Known without walking, so it may be one that does not come. An average would say
    /// nothing: whoever may write one object chooses how long it is.
    pub fn longest(&self) -> usize {
        let of = |objects: &mut dyn Iterator<Item = &Object>| objects.map(Object::length).max().unwrap_or(0);
        let walked = match &self.walk {
            Walk::Sorted(objects) => of(&mut objects.as_slice().iter()),
            Walk::Order { .. } => self.snapshot.longest(),
        };
        walked.max(of(&mut self.instead.iter().chain(&self.ready)))
    }

    /// How long all objects that are left are together, when one is as long as `length` says. Past `most`, those that were not looked at
    /// count as the others: only what is shown is looked at, so the sum says nothing of other objects.
    pub fn length(&self, most: u64, length: impl Fn(&Object) -> u64) -> u64 {
        let (mut bytes, mut count) = (0u64, 0u64);
        let mut add = |object: &Object| {
            bytes = bytes.saturating_add(length(object));
            count += 1;
            bytes <= most
        };
        let is_whole = match &self.walk {
            Walk::Sorted(objects) => objects.as_slice().iter().chain(&self.instead).chain(&self.ready).all(&mut add),
            Walk::Order { .. } => self.clone().all(|object| add(&object)),
        };
        if is_whole { bytes } else { bytes.saturating_mul(self.at_most().max(count)) / count.max(1) }
    }

    /// The objects that `selection` selects in `state`, from `start` on (inclusive; `None`: from the beginning), without a turn for others.
    pub fn new(state: State, selection: &Selection, start: Option<&str>) -> Listing {
        at_once(Listing::begin(state, selection, start, &mut Work::default()))
    }

    /// The same in turns.
    pub async fn begin(state: State, selection: &Selection, start: Option<&str>, work: &mut Work) -> Listing {
        let State { snapshot, undone, .. } = state;
        let hits = Plan::new(selection, &snapshot, work).await.hits(work).await;
        let starts_at = |key: &str| start.is_none_or(|start| key >= start);
        let mut instead = VecDeque::new();
        if !undone.before().is_empty() {
            let selection = CompactSelection::new(selection);
            for object in undone.before() {
                if starts_at(object.key()) && selection.selects(object) {
                    instead.push_back(object.clone());
                }
                work.did(steps_of_test(&selection)).await;
            }
        }
        let namespace_prefix = match &hits {
            Hits::Namespace(namespace) => Some(format!("{namespace}/")),
            Hits::Everything | Hits::Slots(_) => None,
        };
        let walk = match hits {
            Hits::Slots(slots) if slots.len() * SORT_BELOW_ONE_IN <= snapshot.len() as u64 || slots.len() < 64 => {
                let mut objects: Vec<Object> = slots
                    .iter()
                    .filter(|slot| !undone.hidden().contains(*slot))
                    .filter_map(|slot| snapshot.object(slot).cloned())
                    .filter(|object| starts_at(object.key()))
                    .collect();
                objects.sort_unstable_by(|left, right| left.key().cmp(right.key()));
                Walk::Sorted(objects.into_iter())
            }
            other => {
                let first = match (&namespace_prefix, start) {
                    (Some(prefix), Some(start)) if start < prefix.as_str() => Some(prefix.as_str()),
                    (_, Some(start)) => Some(start),
                    (Some(prefix), None) => Some(prefix.as_str()),
                    (None, None) => None,
                };
                let from = first.map_or(Bound::Unbounded, |first| Bound::Included(Key::new("", first)));
                let within = match other {
                    Hits::Slots(slots) => Some(slots),
                    Hits::Everything | Hits::Namespace(_) => None,
                };
                Walk::Order { from, within }
            }
        };
        Listing { snapshot, undone, instead, walk, namespace_prefix, ready: VecDeque::new() }
    }

    /// What it takes in memory until it has been walked, in bytes, without the objects and the snapshot.
    pub fn held_bytes(&self) -> u64 {
        let walk = match &self.walk {
            Walk::Sorted(objects) => objects.len() * size_of::<Object>(),
            Walk::Order { within: Some(slots), .. } => slots.serialized_size(),
            Walk::Order { within: None, .. } => 0,
        };
        let objects = (self.instead.capacity() + self.ready.capacity()) * size_of::<Object>();
        (self.undone.held_bytes() + walk + objects) as u64
    }

    /// The next object without taking it.
    pub fn peek(&mut self) -> Option<&Object> {
        if self.ready.is_empty() {
            self.fill();
        }
        match (self.ready.front(), self.instead.front()) {
            (Some(ready), Some(instead)) if instead.key() < ready.key() => self.instead.front(),
            (None, _) => self.instead.front(),
            (Some(_), _) => self.ready.front(),
        }
    }

    /// Takes the next objects of the snapshot until some are ready or none is left.
    fn fill(&mut self) {
        while self.ready.is_empty() {
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
                    for (slot, object) in self.snapshot.range(bound).take(STEP) {
                        let key = object.key();
                        if self.namespace_prefix.as_deref().is_some_and(|prefix| !key.starts_with(prefix)) {
                            // Keys of one namespace are neighbours; the first stranger ends them.
                            last = None;
                            break;
                        }
                        last = Some(object.clone());
                        let selected = within.as_ref().is_none_or(|within| within.contains(slot));
                        if selected && !self.undone.hidden().contains(slot) {
                            self.ready.push_back(object.clone());
                        }
                    }
                    match last {
                        Some(object) => *from = Bound::Excluded(Key::new("", object.key())),
                        None => {
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
        let from_instead = match (self.ready.front(), self.instead.front()) {
            (Some(ready), Some(instead)) => instead.key() < ready.key(),
            (None, _) => true,
            (Some(_), None) => false,
        };
        if from_instead { self.instead.pop_front() } else { self.ready.pop_front() }
    }
}
