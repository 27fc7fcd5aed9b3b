//! Lists in the order of the values of fields: `sortBy`.
//!
//! Objects with equal values are in list order, so no two objects have the same position, and an object names a
//! position. The list order is that of the keys of objects (`namespace/name`).
//!
//! A page in the order of one field is found by a walk over the values of the index, from the position on. Other orders
//! are computed for the whole selection: by the last field first, each in one pass over the values of the index and one
//! over the objects. Some objects are read and compared instead: those whose values are not in the index, those of an
//! earlier version, and all objects of a small selection. Names have no index, so they are compared too. Nothing is
//! stored from page to page: `sort_token` has the position of the next one.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Bound;

use roaring::RoaringBitmap;

use super::facets::SelectedObjects;
use super::work::Work;
use crate::extract::FieldRef;
use crate::model::integer;
use crate::store::postings::{Posting, Postings};
use crate::store::{Object, Snapshot};

/// Selections of up to this many objects are read and compared, without the index. The number is smaller in tests,
/// whose stores are small.
const COMPARED: u64 = if cfg!(test) { 8 } else { 1024 };

/// Pages with a larger limit than this are computed like a whole list.
const MOST_WALKED: usize = 1024;

/// The number of objects that are sorted at a time, between two yields. It is smaller in tests, which have few objects.
const RUN: usize = if cfg!(test) { 16 } else { 256 };

/// The steps of work to compare two objects: two cache misses.
const STEPS_OF_COMPARISON: u64 = 16;

/// The steps of work to look at one value of the index.
const STEPS_OF_VALUE: u64 = 8;

/// Sorting one object of a group of equal values takes as long as walking over this many objects of the list.
const SORTED_IN_STEP: u64 = 8;

/// One field of an order. Objects without a value come first. Values of an integer field are ordered as numbers, and
/// other values as texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortField {
    /// The field, which must have at most one value.
    pub field: FieldRef,
    /// Whether the order is reversed, so that objects without a value come last. Objects with equal values stay in list
    /// order.
    pub is_descending: bool,
}

/// An order of objects: by the first field, then by the next one if the values are equal, and at last in list order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortOrder {
    keys: Vec<SortField>,
}

/// An order for the objects of one snapshot.
#[derive(Clone, Debug)]
struct Comparison {
    /// The fields, each with whether the snapshot indexes its values as integers.
    keys: Vec<(SortField, bool)>,
}

impl SortOrder {
    /// The order by these fields. Fields that do not change the order are left out. `has_one_namespace`: all objects
    /// have the same namespace or none, so that no two have the same name, and the list order is that of names.
    pub fn new(keys: &[SortField], has_one_namespace: bool) -> SortOrder {
        let mut kept: Vec<SortField> = Vec::with_capacity(keys.len());
        for key in keys {
            // Fields with one value for all objects, and fields that occurred before, do not change the order.
            let is_constant = match key.field {
                FieldRef::Empty => true,
                FieldRef::Namespace => has_one_namespace,
                FieldRef::Name | FieldRef::Field(_) => kept.iter().any(|other| other.field == key.field),
            };
            if is_constant {
                continue;
            }
            let is_name = key.field == FieldRef::Name;
            if is_name && has_one_namespace && !key.is_descending {
                // This is the list order, which follows anyway. No names are equal, so further fields change nothing.
                break;
            }
            kept.push(*key);
            if is_name && has_one_namespace {
                break;
            }
        }
        SortOrder { keys: kept }
    }

    /// An upper bound of the memory to sort the selected objects, in bytes, without the objects themselves and without
    /// sets of slots ([`State::most_selecting_bytes`](super::State::most_selecting_bytes)). It depends only on the
    /// selected objects: a limit of memory must not reveal others. `limit`: the number of objects of the page; `None`:
    /// no limit.
    pub fn most_held_bytes(&self, selected: &SelectedObjects, limit: Option<usize>) -> u64 {
        let objects = selected.total();
        let not_indexed = self.keys.iter().map(|key| selected.not_indexed(key.field)).sum::<u64>();
        let compared = objects.min(COMPARED + not_indexed + selected.before().len() as u64);
        // Sorting moves the objects from one list to another, so two lists of them exist.
        let compared = 2 * size_of::<Object>() as u64 * compared;
        let page = limit.filter(|limit| *limit <= MOST_WALKED).map(|limit| 2 * (limit as u64 + 1));
        let ordered = match (page, &self.keys[..]) {
            _ if objects <= COMPARED => 0,
            // The places of the next objects of a group, and their slots.
            (Some(page), keys @ ([] | [_])) if keys.iter().all(|key| key.field != FieldRef::Name) => {
                page * (size_of::<(&str, u32)>() + size_of::<u32>()) as u64
            }
            // Three lists of objects with their slots, while they are sorted.
            (Some(page), keys) if keys.iter().any(|key| key.field == FieldRef::Name) => {
                page * (3 * size_of::<(&Object, u32)>() + size_of::<u32>()) as u64
            }
            // `whole_order` takes the number of the value of each slot, where each value starts, and two orders of the
            // slots. The listing has a copy.
            _ => 4 * size_of::<u32>() as u64 * (objects + 1),
        };
        compared + ordered
    }

    /// The order for the objects of a snapshot, whose index decides which fields have integers.
    fn comparison(&self, snapshot: &Snapshot) -> Comparison {
        let is_integer = |key: &SortField| match key.field {
            FieldRef::Field(index) => snapshot.postings().is_integer(index),
            FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => false,
        };
        Comparison { keys: self.keys.iter().map(|key| (*key, is_integer(key))).collect() }
    }
}

impl Comparison {
    /// The order of two objects, with the list order for equal values. `Equal` only for objects with the same key.
    fn compare(&self, left: &Object, right: &Object) -> Ordering {
        self.by_values(left, right).then_with(|| left.key().cmp(right.key()))
    }

    /// The steps of work to compare an object with another one like it: a cache miss for each, and for each field a walk
    /// over the labels, which come before the values.
    fn steps(&self, object: &Object) -> u64 {
        let labels = if object.has_many_texts() { 0 } else { object.label_count() as u64 };
        STEPS_OF_COMPARISON + 2 * self.keys.len() as u64 * (labels + STEPS_OF_VALUE)
    }

    /// The order of two objects by their values alone. `Equal` if all values are equal.
    fn by_values(&self, left: &Object, right: &Object) -> Ordering {
        for (key, is_integer) in &self.keys {
            let values = (value_of(left, key.field), value_of(right, key.field));
            let order = place(values.0, *is_integer).cmp(&place(values.1, *is_integer));
            let order = if key.is_descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// The value of an object in a field of an order; empty if the object has no value, or if its value is not known.
fn value_of(object: &Object, field: FieldRef) -> &str {
    match field {
        FieldRef::Name => object.name(),
        FieldRef::Namespace => object.namespace(),
        FieldRef::Field(index) => object.values(index).next().unwrap_or_default(),
        FieldRef::Empty => "",
    }
}

/// The position of a value in the order of the index, as a tuple to compare: the empty value comes first, then integers
/// by number (if the field `is_integer`), then other texts.
fn place(value: &str, is_integer: bool) -> (u8, i64, &str) {
    match integer::canonical(value).filter(|_| is_integer) {
        _ if value.is_empty() => (0, 0, value),
        Some(number) => (1, number, ""),
        None => (2, 0, value),
    }
}

/// The selected objects of one state in an order. Two sorted lists, `slots` and `compared`, are merged as they are
/// read.
#[derive(Clone, Debug)]
pub struct SortedListing {
    snapshot: Snapshot,
    comparison: Comparison,
    /// The slots of the remaining objects that were sorted by the index, in order.
    slots: std::vec::IntoIter<u32>,
    /// The remaining objects that were read and compared, in order.
    compared: VecDeque<Object>,
}

impl SortedListing {
    /// The selected objects in this order after the object `after` (`None`: from the first on). Yields through `work`.
    /// With a `limit`, the result may lack the objects after the first `limit + 1`. The additional one tells the caller
    /// whether another page follows.
    pub async fn begin(
        selected: &SelectedObjects,
        order: &SortOrder,
        after: Option<&Object>,
        limit: Option<usize>,
        work: &mut Work,
    ) -> SortedListing {
        let snapshot = selected.state().snapshot().clone();
        let comparison = order.comparison(&snapshot);
        // Separate the objects to compare: of a small selection all, and otherwise those that the index lacks.
        let mut slots = selected.slots();
        let mut not_indexed = RoaringBitmap::new();
        if slots.len() <= COMPARED {
            std::mem::swap(&mut slots, &mut not_indexed);
        }
        for (key, _) in &comparison.keys {
            not_indexed |= selected.slots_not_indexed(key.field);
        }
        slots -= &not_indexed;
        let mut read = Vec::new();
        let objects = not_indexed.iter().filter_map(|slot| snapshot.object(slot));
        for object in objects.chain(selected.before()) {
            if after.is_none_or(|after| comparison.compare(object, after) == Ordering::Greater) {
                read.push(object.clone());
            }
            work.spend(STEPS_OF_COMPARISON).await;
        }
        let steps = read.iter().map(|object| comparison.steps(object)).max().unwrap_or_default();
        let compared = sorted(read, |left, right| comparison.compare(left, right), steps, work).await.into();
        // The limit, if the page is small enough to be found without the whole order.
        let walked = limit.filter(|limit| *limit <= MOST_WALKED);
        let slots = match (&comparison.keys[..], walked) {
            _ if slots.is_empty() => Vec::new(),
            ([], Some(limit)) => {
                let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.key()));
                next_in_list(&snapshot, &slots, from, limit + 1, work).await
            }
            ([(key, _)], Some(limit)) if key.field != FieldRef::Name => {
                let walk = Walk { snapshot: &snapshot, slots: &slots, key: *key };
                walk.next(after, limit + 1, work).await
            }
            (keys, Some(limit)) if keys.iter().any(|(key, _)| key.field == FieldRef::Name) => {
                lowest(&snapshot, &slots, &comparison, after, limit + 1, work).await
            }
            // Orders by several indexed fields, and large pages: order all slots, and skip those up to `after`.
            _ => {
                let all = whole_order(&snapshot, &slots, &comparison, work).await;
                let is_before = |slot: &u32| {
                    let object = snapshot.object(*slot);
                    object
                        .zip(after)
                        .is_some_and(|(object, after)| comparison.compare(object, after) != Ordering::Greater)
                };
                let first = all.partition_point(is_before);
                all.get(first..).unwrap_or_default().to_vec()
            }
        };
        SortedListing { snapshot, comparison, slots: slots.into_iter(), compared }
    }

    /// Memory of the listing in bytes, without the objects and the snapshot.
    pub fn held_bytes(&self) -> u64 {
        (self.slots.len() * size_of::<u32>() + self.compared.len() * size_of::<Object>()) as u64
    }

    /// An upper bound of the JSON length of each remaining object, in bytes. It may be the bound for all objects of the
    /// store.
    pub fn longest(&self) -> usize {
        self.compared.iter().map(Object::length).fold(self.snapshot.longest(), usize::max)
    }

    /// The next object, without taking it from the listing; `None` at the end.
    pub fn peek(&self) -> Option<&Object> {
        let walked = self.slots.as_slice().first().and_then(|slot| self.snapshot.object(*slot));
        match (walked, self.compared.front()) {
            (Some(walked), Some(compared)) if self.comparison.compare(compared, walked) == Ordering::Less => {
                Some(compared)
            }
            (Some(walked), _) => Some(walked),
            (None, compared) => compared,
        }
    }
}

impl Iterator for SortedListing {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        let next = self.peek()?.clone();
        if self.compared.front().is_some_and(|compared| compared.is_same(&next)) {
            self.compared.pop_front();
        } else {
            self.slots.next();
        }
        Some(next)
    }
}

/// Sorts objects or slots. Equal items keep their order. Sorts runs of [`RUN`] items and merges them, because a single
/// sort would be long work without a yield. `steps_of_comparison`: the steps of work to compare two items.
async fn sorted<Item>(
    items: Vec<Item>,
    order: impl Fn(&Item, &Item) -> Ordering,
    steps_of_comparison: u64,
    work: &mut Work,
) -> Vec<Item> {
    let (mut items, mut runs) = (items.into_iter(), Vec::new());
    while items.len() > 0 {
        let mut run: Vec<Item> = items.by_ref().take(RUN).collect();
        run.sort_by(&order);
        work.spend(steps_of_comparison * u64::from(RUN.ilog2()) * run.len() as u64).await;
        runs.push(run);
    }
    // Its memory is not needed any more.
    drop(items);
    // Merge each two neighbouring runs into one until a single run is left.
    while runs.len() > 1 {
        let (mut pairs, mut longer) = (runs.into_iter(), Vec::new());
        while let Some(one) = pairs.next() {
            let Some(other) = pairs.next() else {
                longer.push(one);
                break;
            };
            let mut merged = Vec::with_capacity(one.len() + other.len());
            let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
            loop {
                let next = match (one.peek(), other.peek()) {
                    (Some(left), Some(right)) if order(left, right) == Ordering::Greater => other.next(),
                    (Some(_), _) => one.next(),
                    (None, _) => other.next(),
                };
                let Some(next) = next else { break };
                merged.push(next);
                work.spend(steps_of_comparison).await;
            }
            longer.push(merged);
        }
        runs = longer;
    }
    runs.pop().unwrap_or_default()
}

/// The next slots of the set `slots` in list order from the key `from` on, at most `most` of them.
async fn next_in_list(
    snapshot: &Snapshot,
    slots: &RoaringBitmap,
    from: Bound<&str>,
    most: usize,
    work: &mut Work,
) -> Vec<u32> {
    let mut next = Vec::with_capacity(most.min(usize::try_from(slots.len()).unwrap_or(usize::MAX)));
    // The slots of the set that may still follow: the walk ends when all were found.
    let mut left = slots.len();
    for slot in snapshot.slots_from(from) {
        if next.len() == most || left == 0 {
            break;
        }
        if slots.contains(slot) {
            next.push(slot);
            left -= 1;
        }
        work.spend(1).await;
    }
    next
}

/// The first slots of the set `slots` in an order, after the object `after` (`None`: from the first on), at most `most`
/// of them. For orders with names of several namespaces, which have no index: reads each object of the set. Holds at
/// most `2 * most` objects at a time.
async fn lowest(
    snapshot: &Snapshot,
    slots: &RoaringBitmap,
    comparison: &Comparison,
    after: Option<&Object>,
    most: usize,
    work: &mut Work,
) -> Vec<u32> {
    let compare = |left: &(&Object, u32), right: &(&Object, u32)| comparison.compare(left.0, right.0);
    // `bound` is the last one of `most` objects that were found: objects after it are not among the first.
    let (mut lowest, mut bound): (Vec<(&Object, u32)>, Option<&Object>) = (Vec::new(), None);
    let mut steps = 0;
    for slot in slots {
        let Some(object) = snapshot.object(slot) else { continue };
        let steps_of_object = comparison.steps(object);
        steps = steps_of_object.max(steps);
        work.spend(steps_of_object).await;
        let is_before = after.is_some_and(|after| comparison.compare(object, after) != Ordering::Greater);
        if is_before || bound.is_some_and(|bound| comparison.compare(object, bound) == Ordering::Greater) {
            continue;
        }
        lowest.push((object, slot));
        if lowest.len() >= 2 * most {
            lowest = sorted(lowest, compare, steps, work).await;
            lowest.truncate(most);
            bound = lowest.last().map(|(object, _)| *object);
        }
    }
    let lowest = sorted(lowest, compare, steps, work).await;
    lowest.into_iter().take(most).map(|(_, slot)| slot).collect()
}

/// All slots of the set `slots` in an order. Starts with the list order, and sorts by each field from the last to the
/// first. Each sort keeps the order of equal values, so the fields before decide first.
async fn whole_order(snapshot: &Snapshot, slots: &RoaringBitmap, comparison: &Comparison, work: &mut Work) -> Vec<u32> {
    let mut ordered = next_in_list(snapshot, slots, Bound::Unbounded, usize::MAX, work).await;
    let ranks = Ranks::new(slots, work).await;
    for (key, is_integer) in comparison.keys.iter().rev() {
        if key.field == FieldRef::Name {
            let by_name = Comparison { keys: vec![(*key, *is_integer)] };
            ordered = by_names(snapshot, ordered, &by_name, work).await;
            continue;
        }
        // A counting sort: count the slots of each value, add up where each value starts, and move each slot there.
        let (ordinals, count) = ordinals(snapshot, *key, &ranks, work).await;
        let ordinal_of = |slot: u32| {
            let rank = ranks.of(slot);
            rank.and_then(|rank| ordinals.get(rank)).copied().unwrap_or_default() as usize
        };
        let mut starts = vec![0u32; count + 1];
        for slot in &ordered {
            starts[ordinal_of(*slot)] += 1;
            work.spend(1).await;
        }
        let mut sum = 0;
        let order: Box<dyn Iterator<Item = usize> + Send> =
            if key.is_descending { Box::new((0..=count).rev()) } else { Box::new(0..=count) };
        for ordinal in order {
            sum += std::mem::replace(&mut starts[ordinal], sum);
            work.spend(1).await;
        }
        let mut next = vec![0; ordered.len()];
        for slot in ordered {
            let start = &mut starts[ordinal_of(slot)];
            next[*start as usize] = slot;
            *start += 1;
            work.spend(1).await;
        }
        ordered = next;
    }
    ordered
}

/// The places of the slots of a set among each other. Memory for each of them is a list with as many items as the set,
/// and not as many as the store has slots.
struct Ranks {
    /// For each 64 slots, those of the set as bits, and the number of slots of the set below them.
    words: Vec<(u64, u32)>,
    /// The number of slots of the set.
    len: usize,
}

impl Ranks {
    /// The places of the slots of this set.
    async fn new(slots: &RoaringBitmap, work: &mut Work) -> Ranks {
        let mut words = vec![(0u64, 0u32); slots.max().map_or(0, |most| most as usize / 64 + 1)];
        for slot in slots {
            if let Some((bits, _)) = words.get_mut(slot as usize / 64) {
                *bits |= 1 << (slot % 64);
            }
            work.spend(1).await;
        }
        let mut len = 0;
        for (bits, before) in &mut words {
            *before = len;
            len += bits.count_ones();
            work.spend(1).await;
        }
        Ranks { words, len: len as usize }
    }

    /// The number of slots of the set below this one; `None` if the set does not have it.
    fn of(&self, slot: u32) -> Option<usize> {
        let (bits, before) = self.words.get(slot as usize / 64)?;
        let bit = 1 << (slot % 64);
        (bits & bit != 0).then(|| (before + (bits & (bit - 1)).count_ones()) as usize)
    }
}

/// Numbers the values of a field among the slots of a set, in the order of the index, from 1 on. Returns the number of
/// the value for each slot, by its place in the set, and the number of values. A slot without a value has 0.
async fn ordinals(snapshot: &Snapshot, key: SortField, ranks: &Ranks, work: &mut Work) -> (Vec<u32>, usize) {
    let mut ordinals = vec![0; ranks.len];
    let mut count = 0;
    for (value_key, posting) in keys(snapshot.postings(), key.field, None, false) {
        work.spend(STEPS_OF_VALUE).await;
        if value_key.is_empty() {
            continue;
        }
        // Only values of the set have a number, so there are at most as many as slots.
        let mut is_numbered = false;
        for slot in posting.to_bitmap() {
            if let Some(ordinal) = ranks.of(slot).and_then(|rank| ordinals.get_mut(rank)) {
                count += u32::from(!std::mem::replace(&mut is_numbered, true));
                *ordinal = count;
            }
            work.spend(1).await;
        }
    }
    (ordinals, count as usize)
}

/// Sorts slots by the order `by_name` of the names of their objects. Equal names keep their order.
async fn by_names(snapshot: &Snapshot, slots: Vec<u32>, by_name: &Comparison, work: &mut Work) -> Vec<u32> {
    let order = |left: &u32, right: &u32| {
        let both = snapshot.object(*left).zip(snapshot.object(*right));
        both.map_or(Ordering::Equal, |(left, right)| by_name.by_values(left, right))
    };
    sorted(slots, order, STEPS_OF_COMPARISON, work).await
}

/// The values of a field in the index, each as its key in the index ([`Postings::key_of`]) with its posting list. In
/// ascending order from the key `from` on, or in descending order if `is_backwards`. `None`: from the first or last
/// value on. A field without an index has none.
fn keys<'p>(
    postings: &'p Postings,
    field: FieldRef,
    from: Option<&str>,
    is_backwards: bool,
) -> Box<dyn Iterator<Item = (&'p str, Posting<'p>)> + Send + 'p> {
    match field {
        FieldRef::Field(index) => postings.field_keys(index, from, is_backwards),
        FieldRef::Namespace => postings.namespaces_from(from, is_backwards),
        FieldRef::Name | FieldRef::Empty => Box::new(std::iter::empty()),
    }
}

/// A walk over the values of one field in the index, to find a page in the order of this field. The objects of one
/// value are a group, which is in list order.
struct Walk<'w> {
    snapshot: &'w Snapshot,
    /// The selected slots.
    slots: &'w RoaringBitmap,
    key: SortField,
}

impl Walk<'_> {
    /// The next slots after the object `after` (`None`: from the first on), at most `most` of them.
    async fn next(&self, after: Option<&Object>, most: usize, work: &mut Work) -> Vec<u32> {
        let postings = self.snapshot.postings();
        // The position of `after`: the key of its value in the index, and its own key within the group of the value.
        let position = after.map(|after| match self.key.field {
            FieldRef::Field(index) => (postings.key_of(index, value_of(after, self.key.field)), after.key()),
            FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => (after.namespace().into(), after.key()),
        });
        let from = position.as_ref().map(|(key, _)| &**key);
        let mut next = Vec::new();
        for (value_key, posting) in keys(postings, self.key.field, from, self.key.is_descending) {
            if next.len() >= most {
                break;
            }
            work.spend(STEPS_OF_VALUE).await;
            // Many values have one object each, so they are tested without a copy.
            if let Posting::One(slot) = posting
                && !self.slots.contains(slot)
            {
                continue;
            }
            let mut group = posting.to_bitmap();
            group &= self.slots;
            work.spend(posting.len() / 64).await;
            // In the group of `after`, only the objects after it follow.
            let start = match &position {
                Some((key, start)) if **key == *value_key => Some(*start),
                _ => None,
            };
            let slots = self.next_of_group(&group, start, most - next.len(), work).await;
            next.extend(slots);
        }
        next
    }

    /// The next slots of a group in list order after the key `start` (`None`: from the first on), at most `most` of
    /// them. The objects of a small group are sorted. For a large group, a walk over the list finds enough of them
    /// soon.
    async fn next_of_group(
        &self,
        group: &RoaringBitmap,
        start: Option<&str>,
        most: usize,
        work: &mut Work,
    ) -> Vec<u32> {
        // The expected number of objects that a walk over the list passes to find `most` objects of the group.
        let walked = (most as u64).saturating_mul(self.snapshot.len() as u64) / group.len().max(1);
        if group.len().saturating_mul(SORTED_IN_STEP) > walked {
            let from = start.map_or(Bound::Unbounded, Bound::Excluded);
            return next_in_list(self.snapshot, group, from, most, work).await;
        }
        let mut found = Vec::new();
        for slot in group {
            if let Some(object) = self.snapshot.object(slot)
                && start.is_none_or(|start| object.key() > start)
            {
                found.push((object.key(), slot));
            }
            // Only the first ones are kept, which bounds the memory.
            if found.len() >= 2 * most {
                found.select_nth_unstable(most - 1);
                found.truncate(most);
                work.spend(2 * most as u64).await;
            }
            work.spend(STEPS_OF_COMPARISON).await;
        }
        found.sort_unstable();
        found.into_iter().take(most).map(|(_, slot)| slot).collect()
    }
}
