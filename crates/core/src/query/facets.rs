//! Facets: the most frequent values of a field in a selection, each with its number of objects.
//!
//! Without a selection, the lengths of the posting lists are the counts. With a selection, each posting list is
//! intersected with the selected slots, unless reading the values of the selected objects is cheaper: see
//! [`READ_BELOW_ONE_IN`]. The index lacks the values of some objects, and all objects of an earlier version that have
//! changed since. These objects are read one by one, and their values are merged into the walk over the index. So the
//! counts are exact, and no table of all values is built.
//!
//! An object counts once for each of its different values. The empty value of a field means that the value is absent.
//! `plan` finds the selected slots, and `store::rewind` has the objects of an earlier version.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::compact::CompactSelection;
use super::page::State;
use super::plan::{Hits, QueryPlan};
use super::selection::Selection;
use super::work::Work;
use crate::extract::FieldRef;
use crate::model::{FieldIndex, integer};
use crate::store::postings::{Posting, Postings};
use crate::store::slots::SlotSet;
use crate::store::{IndexedPart, Object};

/// The values of selected objects are read, instead of the index, if the field has this many values for each of them.
/// Reading an object is a cache miss, and each of its values passes through a heap. A value of the index is one step of
/// a walk.
const READ_BELOW_ONE_IN: u64 = 8;

/// If more objects than this are selected, the index is used, and only objects that the index lacks are read. It bounds
/// the memory of a count.
const MOST_READ: u64 = 1 << 14;

/// The steps of work to read the next value of an object: the place of the object in a heap of all read objects
/// changes.
const STEPS_OF_READ: u64 = 16;

/// The steps of work to look at one posting list.
const STEPS_OF_LIST: u64 = 4;

/// The number of slots of a posting list that are looked up in one step.
const SLOTS_IN_STEP: u64 = 4;

/// The memory for each object that is read, in bytes: the iterator over its remaining values, and its place in the
/// heap.
const READ_BYTES: u64 = 128;

/// The maximum length of all values of one facet together, in bytes. The authors of objects decide how long values are.
pub const MOST_VALUE_BYTES: usize = 128 << 10;

/// A field whose values are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FacetField {
    /// The field. The names of objects ([`FieldRef::Name`]) have no index, so all counts of that field are 0.
    pub field: FieldRef,
    /// Whether an object can have several values of the field.
    pub is_many: bool,
}

/// The most frequent values of a field among the selected objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facet {
    /// The values with their numbers of objects, the most frequent first. Equal numbers come in the order of values.
    pub values: Vec<(String, u64)>,
    /// The number of different values, including those that are not in `values`.
    pub distinct: u64,
    /// The sum of the numbers of objects over all values that are not in `values`.
    pub other: u64,
    /// The number of objects without a value.
    pub absent: u64,
    /// The number of objects whose values are unknown, because they have too many or too long ones.
    pub unknown: u64,
}

/// The selected slots of a snapshot.
#[derive(Clone, Debug)]
enum Within {
    /// All slots except these: the request has no selection, and these objects are newer than the state.
    AllBut(SlotSet),
    /// These slots.
    Slots(SlotSet),
}

/// The selected objects of one state, whose values can be counted.
#[derive(Clone, Debug)]
pub struct SelectedObjects {
    state: State,
    /// The selected objects that the snapshot has.
    within: Within,
    /// The selected objects of an earlier version that the snapshot lacks, in the order of keys.
    before: Vec<Object>,
    /// See [`SelectedObjects::total`].
    total: u64,
}

impl SelectedObjects {
    /// Finds the objects that `selection` selects in `state`. Yields through `work`.
    pub async fn find(state: State, selection: &Selection, work: &mut Work) -> SelectedObjects {
        let snapshot = state.snapshot();
        let hits = QueryPlan::new(selection, snapshot, work).await.hits(work).await;
        let hidden = state.rewind().hidden();
        let mut before = Vec::new();
        if !state.rewind().before().is_empty() {
            let selection = CompactSelection::new(selection);
            for object in state.rewind().before() {
                if selection.test(object, work).await {
                    before.push(object.clone());
                }
            }
        }
        let within = match hits {
            Hits::Everything => Within::AllBut(SlotSet::from(hidden.clone())),
            Hits::Namespace(namespace) => {
                let slots = snapshot.postings().namespace(&namespace).map(|slots| slots.to_bitmap());
                Within::Slots(SlotSet::from(slots.unwrap_or_default() - hidden))
            }
            Hits::Slots(slots) => Within::Slots(SlotSet::from(slots - hidden)),
        };
        let found = match &within {
            Within::AllBut(hidden) => snapshot.len() as u64 - hidden.len(),
            Within::Slots(slots) => slots.len(),
        };
        let total = found + before.len() as u64;
        SelectedObjects { state, within, before, total }
    }

    /// The state in which the objects were selected.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The selected slots of the snapshot.
    pub(super) fn slots(&self) -> roaring::RoaringBitmap {
        match &self.within {
            Within::Slots(slots) => slots.to_bitmap(),
            Within::AllBut(hidden) => self.state.snapshot().occupied().to_bitmap() - hidden.to_bitmap(),
        }
    }

    /// The selected objects of an earlier version that the snapshot lacks.
    pub(super) fn before(&self) -> &[Object] {
        &self.before
    }

    /// The number of selected objects.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// An upper bound of the memory that [`SelectedObjects::facet`] takes for a field, in bytes, without the values that
    /// it returns and without sets of slots ([`State::most_selecting_bytes`]). Yields through `work`. It depends only on
    /// the selected objects: a limit of memory must not reveal others. So it is also an upper bound for a field whose
    /// objects are not read, because the store has few values of it.
    pub async fn held_bytes(&self, field: FacetField, work: &mut Work) -> u64 {
        let may_be_read = matches!(field.field, FieldRef::Field(_)) && self.total <= MOST_READ;
        let mut read = if may_be_read { self.total } else { self.not_indexed(field.field) + self.before.len() as u64 };
        // All keys of integers are held, because an object has its values in the order of their texts.
        if let FieldRef::Field(index) = field.field
            && field.is_many
            && self.state.snapshot().postings().is_integer(index)
        {
            let slots = self.slots_to_read(field.field, may_be_read);
            let objects = slots.iter().filter_map(|slot| self.state.snapshot().object(slot));
            for object in objects.chain(&self.before) {
                let values = object.values(index).count() as u64;
                read += values;
                work.spend(STEPS_OF_READ + values).await;
            }
        }
        read * READ_BYTES
    }

    /// Counts the values of a field among the selected objects, and returns at most `limit` of them, with
    /// [`MOST_VALUE_BYTES`] at most. Yields through `work`.
    pub async fn facet(&self, field: FacetField, limit: usize, work: &mut Work) -> Facet {
        match field.field {
            FieldRef::Field(index) => {
                let values_of = |object| Object::values(object, index);
                self.count(field, Some(index), values_of, limit, work).await
            }
            FieldRef::Namespace => {
                let values_of = |object| std::iter::once(Object::namespace(object));
                self.count(field, None, values_of, limit, work).await
            }
            // No object has a value of the field.
            FieldRef::Name | FieldRef::Empty => {
                Facet { values: Vec::new(), distinct: 0, other: 0, absent: self.total, unknown: 0 }
            }
        }
    }

    /// Counts the values of a field. `index`: the field in the index; `None` for the namespace. `values_of` reads the
    /// values from an object, sorted as texts.
    async fn count<'s, Values: Iterator<Item = &'s str>>(
        &'s self,
        field: FacetField,
        index: Option<FieldIndex>,
        values_of: impl Fn(&'s Object) -> Values,
        limit: usize,
        work: &mut Work,
    ) -> Facet {
        let snapshot = self.state.snapshot();
        let is_read = self.is_read(field.field);
        let is_integer = index.is_some_and(|index| snapshot.postings().is_integer(index));
        // `merged` has the values of the objects that are read; `with_value` and `unknown` count objects.
        let (mut merged, mut with_value, mut unknown) = (Merged::new(is_integer), 0, 0);
        let mut read = |object: &'s Object, with_value: &mut u64| {
            unknown += u64::from(index.is_some_and(|index| object.has_unknown(index)));
            *with_value += u64::from(merged.add(values_of(object)));
        };
        for object in &self.before {
            read(object, &mut with_value);
            work.spend(STEPS_OF_READ).await;
        }
        for object in self.slots_to_read(field.field, is_read).iter().filter_map(|slot| snapshot.object(slot)) {
            read(object, &mut with_value);
            work.spend(STEPS_OF_READ).await;
        }
        // Walk over the values of the index in order. Before each value come the values of read objects below it.
        let mut ranking = Ranking::new(limit);
        if !is_read {
            // The slots of all values, if an object can have several: the number of objects with a value is theirs.
            let mut union = roaring::RoaringBitmap::new();
            let bits = self.bits();
            work.spend(bits.len() as u64).await;
            for (value, posting) in indexed_values(snapshot.postings(), field.field) {
                let count = self.count_of(posting, &bits);
                let looked_up = if bits.is_empty() && !field.is_many { 0 } else { posting.len() };
                work.spend(STEPS_OF_LIST + looked_up / SLOTS_IN_STEP).await;
                if value.is_empty() || count == 0 {
                    continue;
                }
                let mut more = 0;
                if !merged.is_empty() {
                    let key = merged.key_of(&value).into_owned();
                    while let Some((lower, count)) = merged.next_below(Some(&key)) {
                        ranking.add(lower, count);
                        work.spend(STEPS_OF_READ * count).await;
                    }
                    more = merged.take(&key);
                    work.spend(STEPS_OF_READ * more).await;
                }
                ranking.add(value, count + more);
                if field.is_many {
                    posting.add_to(&mut union);
                } else {
                    with_value += count;
                }
            }
            with_value += self.count_of(Posting::Set(&SlotSet::from(union)), &bits);
        }
        // The values of read objects that are above all values of the index, or all if the index is not used.
        while let Some((value, count)) = merged.next_below(None) {
            ranking.add(value, count);
            work.spend(STEPS_OF_READ * count).await;
        }
        let absent = self.total.saturating_sub(with_value + unknown);
        ranking.into_facet(absent, unknown)
    }

    /// The slots in `within`, whether they are the selected ones or the others, as a bit for each slot.
    fn bits(&self) -> Vec<u64> {
        let (Within::AllBut(slots) | Within::Slots(slots)) = &self.within;
        slots.bits()
    }

    /// The number of selected slots in a posting list. `bits`: from [`SelectedObjects::bits`], computed once for all
    /// lists.
    fn count_of(&self, posting: Posting<'_>, bits: &[u64]) -> u64 {
        match &self.within {
            Within::AllBut(hidden) if hidden.is_empty() => posting.len(),
            Within::AllBut(hidden) => posting.len() - posting.intersection_len(bits, hidden),
            Within::Slots(slots) => posting.intersection_len(bits, slots),
        }
    }

    /// Whether the values of the field are read from all selected objects, and not from the index, because this is
    /// cheaper: see [`READ_BELOW_ONE_IN`] and [`MOST_READ`].
    fn is_read(&self, field: FieldRef) -> bool {
        let FieldRef::Field(index) = field else { return false };
        let values = self.state.snapshot().postings().field_value_count(index) as u64;
        self.total <= MOST_READ && self.total.saturating_mul(READ_BELOW_ONE_IN) <= values
    }

    /// The selected slots whose objects are read: all, or those whose values of the field are not in the index.
    fn slots_to_read(&self, field: FieldRef, is_read: bool) -> roaring::RoaringBitmap {
        if is_read { self.slots() } else { self.slots_not_indexed(field) }
    }

    /// The selected slots whose values of a field are not in the index.
    pub(super) fn slots_not_indexed(&self, field: FieldRef) -> roaring::RoaringBitmap {
        let mut slots = self.incomplete(field).map(SlotSet::to_bitmap).unwrap_or_default();
        match &self.within {
            Within::AllBut(hidden) => hidden.subtract_from(&mut slots),
            Within::Slots(selected) => selected.intersect(&mut slots),
        }
        slots
    }

    /// The number of selected slots whose values of a field are not in the index.
    pub(super) fn not_indexed(&self, field: FieldRef) -> u64 {
        self.incomplete(field).map_or(0, |slots| match &self.within {
            Within::AllBut(hidden) => slots.len() - slots.intersection_len(hidden),
            Within::Slots(selected) => slots.intersection_len(selected),
        })
    }

    /// The slots of the snapshot whose values of a field are not in the index; `None` if there are none.
    fn incomplete(&self, field: FieldRef) -> Option<&SlotSet> {
        match field {
            FieldRef::Field(index) => self.state.snapshot().postings().incomplete(IndexedPart::Field(index)),
            FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => None,
        }
    }
}

/// All values of a field in the index, in order, with their posting lists. A field without an index has none.
fn indexed_values(
    postings: &Postings,
    field: FieldRef,
) -> Box<dyn Iterator<Item = (Cow<'_, str>, Posting<'_>)> + Send + '_> {
    match field {
        FieldRef::Field(index) => Box::new(postings.field_values(index)),
        FieldRef::Namespace => Box::new(postings.namespaces().map(|(name, posting)| (name.into(), posting))),
        FieldRef::Name | FieldRef::Empty => Box::new(std::iter::empty()),
    }
}

/// The values of the objects that are read, merged in the order of the index. A key is the text by which the index
/// sorts a value: for integers the one of [`integer::sort_key`], and otherwise the value itself. One value of each
/// object is held at a time, because an object can have tens of thousands. But all integers of an object are held,
/// because the object has them in the order of their texts.
struct Merged<'v, Values> {
    /// Whether the values are integers.
    is_integer: bool,
    /// For each object with remaining values, the key of the lowest one, and the index of the object in `rest`.
    next: BinaryHeap<Reverse<(Cow<'v, str>, usize)>>,
    /// For each object, the keys after the one in `next`.
    rest: Vec<Rest<Values>>,
}

/// The remaining keys of an object, in order.
enum Rest<Values> {
    /// Values that are their own keys.
    Values(Values),
    /// The keys of integers.
    Keys(std::vec::IntoIter<String>),
}

impl<'v, Values: Iterator<Item = &'v str>> Merged<'v, Values> {
    /// No objects yet.
    fn new(is_integer: bool) -> Self {
        Merged { is_integer, next: BinaryHeap::new(), rest: Vec::new() }
    }

    /// Whether no value is left.
    fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// The key of a value.
    fn key_of<'k>(&self, value: &'k str) -> Cow<'k, str> {
        if self.is_integer { integer::sort_key(value) } else { Cow::Borrowed(value) }
    }

    /// Adds the values of an object, which must be sorted as texts and different. Returns whether the object has a
    /// value that is not empty; empty values do not count.
    fn add(&mut self, values: Values) -> bool {
        let mut rest = if self.is_integer {
            let mut keys: Vec<String> = values.map(|value| integer::sort_key(value).into_owned()).collect();
            keys.sort_unstable();
            Rest::Keys(keys.into_iter())
        } else {
            Rest::Values(values)
        };
        let Some(first) = rest.by_ref().find(|key| !key.is_empty()) else { return false };
        self.next.push(Reverse((first, self.rest.len())));
        self.rest.push(rest);
        true
    }

    /// Takes the lowest value with its number of objects, if its key is below `bound` (`None`: no bound).
    fn next_below(&mut self, bound: Option<&str>) -> Option<(Cow<'v, str>, u64)> {
        let Reverse((key, _)) = self.next.peek()?;
        if bound.is_some_and(|bound| &**key >= bound) {
            return None;
        }
        let key = key.clone();
        let count = self.take(&key);
        let value = if self.is_integer { integer::value_of(&key).into_owned().into() } else { key };
        Some((value, count))
    }

    /// Takes the value with this key. Returns the number of objects that have it; 0 if none has. All lower keys must
    /// have been taken.
    fn take(&mut self, key: &str) -> u64 {
        let mut count = 0;
        while self.next.peek().is_some_and(|Reverse((next, _))| next == key) {
            let Some(Reverse((_, object))) = self.next.pop() else { break };
            if let Some(following) = self.rest.get_mut(object).and_then(Iterator::next) {
                self.next.push(Reverse((following, object)));
            }
            count += 1;
        }
        count
    }
}

impl<'v, Values: Iterator<Item = &'v str>> Iterator for Rest<Values> {
    type Item = Cow<'v, str>;

    fn next(&mut self) -> Option<Cow<'v, str>> {
        match self {
            Rest::Values(values) => values.next().map(Cow::Borrowed),
            Rest::Keys(keys) => keys.next().map(Cow::Owned),
        }
    }
}

/// A value for the comparison in a [`Ranking`]: its number of objects, its position in the order of all values
/// (reversed, so that of equal numbers the first value is the greatest), and the value.
type Ranked<'v> = (u64, Reverse<u64>, Cow<'v, str>);

/// The most frequent values so far.
struct Ranking<'v> {
    /// The maximum number of values in `best`.
    limit: usize,
    /// The most frequent values. On top is the one to remove first: the least frequent one, and of equally frequent
    /// ones the last one in the order of values.
    best: BinaryHeap<Reverse<Ranked<'v>>>,
    /// The number of values that were added.
    distinct: u64,
    /// The sum of the numbers of objects of all values that were added.
    sum: u64,
}

impl<'v> Ranking<'v> {
    /// No values yet.
    fn new(limit: usize) -> Ranking<'v> {
        Ranking { limit, best: BinaryHeap::new(), distinct: 0, sum: 0 }
    }

    /// Adds a value with its number of objects. Values must be added in their order, because of equally frequent values
    /// the earlier ones are kept.
    fn add(&mut self, value: Cow<'v, str>, count: u64) {
        self.distinct += 1;
        self.sum += count;
        let is_full = self.best.len() >= self.limit;
        if is_full && self.best.peek().is_none_or(|Reverse((lowest, ..))| count <= *lowest) {
            return;
        }
        if is_full {
            self.best.pop();
        }
        self.best.push(Reverse((count, Reverse(self.distinct), value)));
    }

    /// The facet of the added values, with the values of at most [`MOST_VALUE_BYTES`].
    fn into_facet(self, absent: u64, unknown: u64) -> Facet {
        let (mut values, mut other, mut bytes) = (Vec::new(), self.sum, 0);
        for Reverse((count, _, value)) in self.best.into_sorted_vec() {
            bytes += value.len();
            if bytes > MOST_VALUE_BYTES {
                break;
            }
            other -= count;
            values.push((value.into_owned(), count));
        }
        Facet { values, distinct: self.distinct, other, absent, unknown }
    }
}
