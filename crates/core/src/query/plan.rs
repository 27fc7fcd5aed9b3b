//! Plans a selection as sets of slots to intersect, the smallest first.
//!
//! Each requirement is a set of slots, which must contain an object (`include`) or must not (`exclude`). A set is
//! mostly a union of posting lists. The union is only built while many candidates are left: few candidates are tested
//! one by one. Costs are lengths of posting lists, not estimates.
//!
//! Objects that are not completely indexed are in each included set and in no excluded set, and are tested one by one
//! at the end. So the result is exact. The text of a set is only written for an explanation: see [`super::explain`].
//!
//! Planning and execution yield regularly, because a selection may have many requirements, and each may represent many
//! lists: see [`super::work`].

use std::collections::HashSet;
use std::iter;
use std::ops::{Bound, RangeInclusive};

use roaring::RoaringBitmap;

use super::cel_hits;
use super::compact::CompactSelection;
use super::operand::PlanTerm;
use super::plan_steps::{PlanStep, PlanTrace, StepBudget, StepEstimate, TraceEvent};
use super::selection::{FieldTerm, Selection};
use super::work::Work;
use crate::extract::{Field, FieldRef};
use crate::model::{FieldIndex, Key, fnv1a};
use crate::selector::{LabelRequirement, Operator, Shard, ShardKey, TestedValues};
use crate::store::postings::{Posting, Postings};
use crate::store::slots::SlotSet;
use crate::store::{IndexedPart, ShardIndex, Snapshot};

/// Below this many candidates, testing each object is cheaper than building another set. A test costs some ten
/// nanoseconds, a union at least an allocation for each list.
const TEST_OBJECTS_BELOW: u64 = 64;

/// The steps of work to test one object, in addition to one for each requirement: a cache miss, and a walk over some of
/// its labels.
const STEPS_OF_OBJECT: u64 = 32;

/// The steps of work to look one text up in the index.
const STEPS_OF_LOOKUP: u64 = 8;

/// The number of slots of one posting list that are intersected or removed in one step.
const SLOTS_IN_STEP: u64 = 64;

/// Names are looked up one by one if there is at most one lookup for this many objects of the store. For more lookups,
/// a walk over all objects is cheaper.
const PROBE_BELOW_ONE_IN: usize = 8;

/// Up to this many lookups, names are looked up one by one, whatever the number of objects.
const MOST_PROBES: usize = 64;

/// The slots that a selection selects.
#[derive(Clone, Debug, PartialEq)]
pub enum Hits {
    /// Every object.
    Everything,
    /// Every object of one namespace.
    Namespace(String),
    /// These slots.
    Slots(RoaringBitmap),
}

impl Hits {
    /// The number of selected objects. `snapshot` is that of the plan.
    pub(super) fn count_in(&self, snapshot: &Snapshot) -> u64 {
        match self {
            Hits::Everything => snapshot.len() as u64,
            Hits::Namespace(namespace) => snapshot.postings().namespace(namespace).map_or(0, |posting| posting.len()),
            Hits::Slots(slots) => slots.len(),
        }
    }
}

/// A planned selection.
#[derive(Debug)]
pub struct QueryPlan<'a> {
    snapshot: &'a Snapshot,
    selection: &'a Selection,
    /// The sets that must contain a selected object, the smallest first.
    include: Vec<Set<'a>>,
    /// The sets that must not contain a selected object.
    exclude: Vec<Set<'a>>,
    /// For each part of objects that the selection uses, the objects of which this part is not indexed, if there are
    /// any.
    incomplete: Vec<(IndexedPart, &'a SlotSet)>,
    /// Whether the plan selects no objects.
    selects_nothing: bool,
}

/// The set of slots for one requirement.
#[derive(Debug)]
struct Set<'a> {
    slots: Slots<'a>,
    /// An upper bound of the number of slots: the sum of the lengths of the lists.
    cost: u64,
    /// The number of posting lists (or ranges of a shard) whose union the set is.
    lists: u64,
    /// The requirement, for an explanation.
    about: PlanTerm<'a>,
    /// Further requirements, if several computed sets became this one.
    also: Vec<PlanTerm<'a>>,
}

/// Where the slots of a set come from.
#[derive(Debug)]
enum Slots<'a> {
    /// The union of these posting lists, and of the objects (if any) whose values for the requirement are not indexed.
    Union(Lists<'a>, Option<&'a SlotSet>),
    /// A set that was computed for this plan, because the index has no lists for it.
    Computed(RoaringBitmap),
    /// The objects of a shard of uids, from the index of their hashes.
    Shard { shard: &'a Shard, index: &'a ShardIndex, snapshot: &'a Snapshot },
}

/// The posting lists of a set, by where they are in the index. The lists themselves are not stored, and are looked up
/// again when the set is used: a requirement can represent as many lists as there are objects, and many plans run at a
/// time.
#[derive(Clone, Copy, Debug)]
enum Lists<'a> {
    /// No list: the set is empty.
    None,
    /// One list, which was looked up before.
    One(Posting<'a>),
    /// These namespaces.
    Namespaces(&'a [String]),
    /// These values of the field.
    FieldIn(FieldIndex, &'a [String]),
    /// All values of the field that are not empty.
    FieldPresent(FieldIndex),
    /// The first and the last integer of a range of values.
    FieldIntegers(FieldIndex, i64, i64),
    /// All values of the field that begin with the text.
    FieldPrefix(FieldIndex, &'a str),
    /// All namespaces that begin with the text.
    NamespacePrefix(&'a str),
    /// These values of the label key.
    LabelIn(&'a str, &'a [String]),
    /// All values of the label key.
    LabelPresent(&'a str),
    /// All values of the label key that the operator accepts.
    LabelAccepted(&'a str, &'a Operator),
    /// All namespaces whose hash is in the shard.
    NamespacesOf(&'a Shard),
}

impl<'a> Lists<'a> {
    /// Looks up the lists one by one. The item of a lookup is `None` if the index has no such list, or if the list is
    /// not in the set, so that callers can count each lookup as work.
    fn postings(self, postings: &'a Postings) -> Box<dyn Iterator<Item = Option<Posting<'a>>> + Send + 'a> {
        match self {
            Lists::None => Box::new(iter::empty()),
            Lists::One(posting) => Box::new(iter::once(Some(posting))),
            Lists::Namespaces(values) => Box::new(values.iter().map(|value| postings.namespace(value))),
            Lists::FieldIn(field, values) => Box::new(values.iter().map(move |value| postings.field(field, value))),
            Lists::FieldPresent(field) => {
                // The empty value of a field is an absent one.
                let values = postings.field_values(field);
                Box::new(values.map(|(value, posting)| (!value.is_empty()).then_some(posting)))
            }
            Lists::FieldIntegers(field, first, last) => {
                Box::new(postings.field_integers(field, &(first..=last)).map(Some))
            }
            Lists::FieldPrefix(field, prefix) => postings.field_with_prefix(field, prefix),
            Lists::NamespacePrefix(prefix) => {
                Box::new(postings.namespaces_with_prefix(prefix).map(|(_, posting)| Some(posting)))
            }
            Lists::LabelIn(key, values) => Box::new(values.iter().map(move |value| postings.label(key, value))),
            Lists::LabelPresent(key) => Box::new(postings.labelled(key).into_iter().map(Some)),
            Lists::LabelAccepted(key, operator) => {
                let values = postings.label_values(key);
                Box::new(values.map(|(value, posting)| operator.accepts(value).then_some(posting)))
            }
            Lists::NamespacesOf(shard) => {
                let namespaces = postings.namespaces();
                Box::new(namespaces.map(|(name, posting)| shard.contains(fnv1a(name)).then_some(posting)))
            }
        }
    }
}

impl<'a> Set<'a> {
    /// The set that is the union of these lists. Looks up each list once, to count its slots. `about` is the
    /// requirement of the set.
    async fn union(lists: Lists<'a>, postings: &'a Postings, about: PlanTerm<'a>, work: &mut Work) -> Set<'a> {
        let (mut cost, mut count, mut last) = (0, 0, None);
        for posting in lists.postings(postings) {
            work.spend(STEPS_OF_LOOKUP).await;
            let Some(posting) = posting else { continue };
            (cost, count, last) = (cost + posting.len(), count + 1, Some(posting));
        }
        // A union of at most one list needs no lookups later.
        let lists = match (count, last) {
            (0, _) => Lists::None,
            (1, Some(posting)) => Lists::One(posting),
            _ => lists,
        };
        Set { slots: Slots::Union(lists, None), cost, lists: count, about, also: Vec::new() }
    }

    /// A set of slots that was computed for this plan. `about` is the requirement of the set.
    fn computed(slots: RoaringBitmap, about: PlanTerm<'a>) -> Set<'a> {
        Set { cost: slots.len(), lists: 1, slots: Slots::Computed(slots), about, also: Vec::new() }
    }

    /// The requirements of the set, in the syntax of a selector. `fields` are those of the resource, for their labels.
    fn in_words(&self, fields: &[Field]) -> String {
        let terms = std::iter::once(&self.about).chain(&self.also);
        terms.map(|term| term.in_words(fields)).collect::<Vec<_>>().join(" & ")
    }

    /// The steps of work to use one list of the set (`None`: a lookup without a list). In a union of several lists,
    /// each slot is a step; a single list is used as a whole.
    fn steps_of(&self, posting: Option<Posting<'_>>) -> u64 {
        let slots = posting.map_or(0, |posting| posting.len());
        STEPS_OF_LOOKUP + if self.lists > 1 { slots } else { slots / SLOTS_IN_STEP }
    }

    /// The slots of the set.
    async fn to_bitmap(&self, postings: &'a Postings, work: &mut Work) -> RoaringBitmap {
        match &self.slots {
            Slots::Computed(slots) => slots.clone(),
            Slots::Shard { shard, index, .. } => {
                let mut set = RoaringBitmap::new();
                for range in shard.ranges() {
                    work.spend(STEPS_OF_LOOKUP).await;
                    for slot in index.slots(range.first, range.last) {
                        set.insert(slot);
                        work.spend(1).await;
                    }
                }
                set
            }
            Slots::Union(lists, incomplete) => {
                let mut set = RoaringBitmap::new();
                for posting in lists.postings(postings).chain(incomplete.map(|slots| Some(Posting::Set(slots)))) {
                    work.spend(self.steps_of(posting)).await;
                    if let Some(posting) = posting {
                        posting.add_to(&mut set);
                    }
                }
                set
            }
        }
    }

    /// Retains in `candidates` only the slots of this set. A single list is intersected without being copied.
    async fn intersect(&self, candidates: &mut RoaringBitmap, postings: &'a Postings, work: &mut Work) {
        match &self.slots {
            Slots::Computed(slots) => *candidates &= slots,
            // Testing the candidates is cheaper than reading the slots of the shard from the index.
            Slots::Shard { shard, snapshot, .. } if candidates.len() < self.cost => {
                let mut selected = RoaringBitmap::new();
                for slot in &*candidates {
                    let object = snapshot.object(slot);
                    if object.is_some_and(|object| shard.selects(object.uid_hash(), object.namespace())) {
                        selected.insert(slot);
                    }
                    work.spend(STEPS_OF_LOOKUP).await;
                }
                *candidates = selected;
            }
            Slots::Union(Lists::One(Posting::Set(slots)), None) => slots.intersect(candidates),
            Slots::Union(..) | Slots::Shard { .. } => *candidates &= self.to_bitmap(postings, work).await,
        }
        work.spend(STEPS_OF_LOOKUP + self.cost / SLOTS_IN_STEP).await;
    }

    /// Removes the slots of the set from the candidates. Shards are not subtracted: they are only in included sets.
    async fn subtract_from(&self, candidates: &mut RoaringBitmap, postings: &'a Postings, work: &mut Work) {
        let Slots::Union(lists, incomplete) = &self.slots else {
            if let Slots::Computed(slots) = &self.slots {
                *candidates -= slots;
            }
            return work.spend(STEPS_OF_LOOKUP + self.cost / SLOTS_IN_STEP).await;
        };
        for posting in lists.postings(postings).chain(incomplete.map(|slots| Some(Posting::Set(slots)))) {
            work.spend(self.steps_of(posting)).await;
            match posting {
                Some(Posting::One(slot)) => {
                    candidates.remove(slot);
                }
                Some(Posting::Set(slots)) => slots.subtract_from(candidates),
                None => {}
            }
        }
    }
}

impl<'a> QueryPlan<'a> {
    /// Plans a selection over a snapshot. Yields through `work`. The namespace of a selection without other
    /// requirements gets no set: [`QueryPlan::hits`] then returns [`Hits::Namespace`], which needs no set.
    pub async fn new(selection: &'a Selection, snapshot: &'a Snapshot, work: &mut Work) -> QueryPlan<'a> {
        let (include, exclude, incomplete) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = QueryPlan { snapshot, selection, include, exclude, incomplete, selects_nothing: false };
        // A name and its namespace together are one key, so a requirement on the name is looked up in this namespace
        // alone.
        let namespace = selection.namespace.as_deref();
        for term in &selection.fields {
            plan.add_field(term, namespace, work).await;
        }
        for requirement in &selection.labels.requirements {
            plan.add_label(requirement, work).await;
        }
        if let Some(namespace) = namespace.filter(|_| selection.is_selective()) {
            let lists = snapshot.postings().namespace(namespace).map_or(Lists::None, Lists::One);
            plan.include.push(Set::union(lists, snapshot.postings(), PlanTerm::Namespace(namespace), work).await);
        }
        if let Some(shard) = &selection.shard {
            plan.add_shard(shard, work).await;
        }
        plan.include.sort_by_key(|set| set.cost);
        plan.selects_nothing |= plan.include.first().is_some_and(|set| set.cost == 0);
        plan
    }

    /// Adds the set for a requirement on a field. `namespace` is that of the selection; only a requirement on the name
    /// uses it.
    async fn add_field(&mut self, term: &'a FieldTerm, namespace: Option<&str>, work: &mut Work) {
        if term.field == FieldRef::Empty {
            // The field is "" for every object, so the term matches all of them or none.
            self.selects_nothing |= !term.matches_absent();
            return;
        }
        let includes = !term.operator.is_negative();
        // The set of the objects with the values for which the operator tests, and whether it must contain an object.
        let (set, includes) = match term.operator.values() {
            // Only cluster-scoped objects have no namespace, and a store has objects of one scope. So the objects with
            // a namespace are excluded.
            TestedValues::Listed(values) if is_no_namespace(term, values) => {
                (self.not_empty(term, work).await, !includes)
            }
            TestedValues::Listed(values) => (self.some_of(term, values, namespace, work).await, includes),
            TestedValues::Any => (self.not_empty(term, work).await, includes),
            TestedValues::Integers(range) => (self.integers(term, &range, work).await, includes),
            TestedValues::WithPrefix(prefix) => (self.with_prefix(term, prefix, namespace, work).await, includes),
        };
        let part = match term.field {
            FieldRef::Field(index) => Some(IndexedPart::Field(index)),
            FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => None,
        };
        self.add(set, includes, part, work).await;
    }

    /// The set of objects that have one of these values in the field of the term. `namespace` is that of the selection.
    async fn some_of(
        &self,
        term: &'a FieldTerm,
        values: &'a [String],
        namespace: Option<&str>,
        work: &mut Work,
    ) -> Set<'a> {
        let about = PlanTerm::Field(term);
        let lists = match term.field {
            FieldRef::Name => return Set::computed(self.slots_of_names(values, namespace, work).await, about),
            FieldRef::Namespace => Lists::Namespaces(values),
            FieldRef::Field(index) => Lists::FieldIn(index, values),
            // Not reached: `add_field` decides a term on a field that is "" for every object.
            FieldRef::Empty => Lists::None,
        };
        Set::union(lists, self.snapshot.postings(), about, work).await
    }

    /// The set of objects with a value in a range of integers.
    async fn integers(&self, term: &'a FieldTerm, range: &RangeInclusive<i64>, work: &mut Work) -> Set<'a> {
        let lists = match term.field {
            FieldRef::Field(index) => Lists::FieldIntegers(index, *range.start(), *range.end()),
            // Not reached: these are not integers, so `ResolvedFields::new` rejects such a term.
            FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => Lists::None,
        };
        Set::union(lists, self.snapshot.postings(), PlanTerm::Field(term), work).await
    }

    /// The set of objects with a value that begins with a prefix. `namespace` is that of the selection.
    async fn with_prefix(
        &self,
        term: &'a FieldTerm,
        prefix: &'a str,
        namespace: Option<&str>,
        work: &mut Work,
    ) -> Set<'a> {
        let about = PlanTerm::Field(term);
        let lists = match term.field {
            FieldRef::Name => return Set::computed(self.slots_of_name_prefix(prefix, namespace, work).await, about),
            FieldRef::Namespace => Lists::NamespacePrefix(prefix),
            FieldRef::Field(index) => Lists::FieldPrefix(index, prefix),
            // Not reached: see `some_of`.
            FieldRef::Empty => Lists::None,
        };
        Set::union(lists, self.snapshot.postings(), about, work).await
    }

    /// The slots of the objects whose name begins with a prefix, in a namespace or (`None`) in all of them. The keys of
    /// these objects in one namespace follow each other in list order.
    async fn slots_of_name_prefix(&self, prefix: &str, namespace: Option<&str>, work: &mut Work) -> RoaringBitmap {
        let postings = self.snapshot.postings();
        let mut slots = RoaringBitmap::new();
        let namespaces: Box<dyn Iterator<Item = &str> + Send> = match namespace {
            Some(namespace) => Box::new(iter::once(namespace)),
            None if postings.namespaced().is_empty() => Box::new(iter::once("")),
            None => Box::new(postings.namespaces().map(|(namespace, _)| namespace)),
        };
        for namespace in namespaces {
            work.spend(STEPS_OF_OBJECT).await;
            let key = Key::new(namespace, prefix);
            for (slot, object) in self.snapshot.range(Bound::Included(key.as_str())) {
                work.spend(STEPS_OF_LOOKUP).await;
                if !object.key().starts_with(key.as_str()) {
                    break;
                }
                slots.insert(slot);
            }
        }
        slots
    }

    /// Adds a set that must contain a selected object (`includes`) or must not. `part`: what the requirement reads of
    /// an object; `None` if each object has it in the index. Objects whose `part` is not indexed are in no list, so
    /// their slots are added to an included set. They remain candidates in both cases, and are tested at the end.
    async fn add(&mut self, mut set: Set<'a>, includes: bool, part: Option<IndexedPart>, work: &mut Work) {
        work.spend(STEPS_OF_LOOKUP).await;
        let incomplete = part.and_then(|part| Some((part, self.snapshot.postings().incomplete(part)?)));
        if let Some((part, slots)) = incomplete {
            if !self.incomplete.iter().any(|(other, _)| *other == part) {
                self.incomplete.push((part, slots));
            }
            if includes && let Slots::Union(_, added) = &mut set.slots {
                *added = Some(slots);
                set.cost += slots.len();
            }
        }
        self.keep(set, includes);
    }

    /// Keeps a set that must contain a selected object (`includes`) or must not. Computed sets are combined at once, so
    /// that a plan holds at most one of each kind, however many requirements it has: [`super::held`] relies on that.
    fn keep(&mut self, set: Set<'a>, includes: bool) {
        let sets = if includes { &mut self.include } else { &mut self.exclude };
        let computed = sets.iter_mut().find_map(|other| match &mut other.slots {
            Slots::Computed(slots) => Some((slots, &mut other.cost, &mut other.also)),
            Slots::Union(..) | Slots::Shard { .. } => None,
        });
        match (computed, &set.slots) {
            (Some((slots, cost, also)), Slots::Computed(more)) => {
                if includes {
                    *slots &= more;
                } else {
                    *slots |= more;
                }
                *cost = slots.len();
                also.push(set.about);
            }
            _ => sets.push(set),
        }
    }

    /// The slots of the objects with one of these names, in a namespace or (`None`) in all of them.
    async fn slots_of_names(&self, names: &[String], namespace: Option<&str>, work: &mut Work) -> RoaringBitmap {
        let postings = self.snapshot.postings();
        // The number of keys to look up: each name in each namespace.
        let probes = match namespace {
            Some(_) => names.len(),
            None => names.len().saturating_mul(postings.namespaces().count().max(1)),
        };
        let mut slots = RoaringBitmap::new();
        if probes > MOST_PROBES.max(self.snapshot.len() / PROBE_BELOW_ONE_IN) {
            let names: HashSet<&str> = names.iter().map(String::as_str).collect();
            for (slot, object) in self.snapshot.range(Bound::Unbounded) {
                if names.contains(object.name()) {
                    slots.insert(slot);
                }
                work.spend(STEPS_OF_LOOKUP).await;
            }
            return slots;
        }
        // Skips values that are not names: a value with a slash, joined with a namespace, could be the key of another
        // object.
        for name in names.iter().filter(|name| !name.contains('/') && !name.is_empty()) {
            let probe = |namespace: &str| self.snapshot.slot(Key::new(namespace, name).as_str());
            match namespace {
                Some(namespace) => slots.extend(probe(namespace)),
                None if postings.namespaced().is_empty() => slots.extend(probe("")),
                // One probe for each namespace; clusters have far fewer of them than objects.
                None => slots.extend(postings.namespaces().filter_map(|(namespace, _)| probe(namespace))),
            }
            // `probes / names.len()` is one, or the number of namespaces.
            work.spend(STEPS_OF_OBJECT * (probes / names.len()) as u64).await;
        }
        slots
    }

    /// The set of objects with a non-empty value in the field of the term.
    async fn not_empty(&self, term: &'a FieldTerm, work: &mut Work) -> Set<'a> {
        let about = PlanTerm::Field(term);
        let postings = self.snapshot.postings();
        let lists = match term.field {
            FieldRef::Namespace => Lists::One(Posting::Set(postings.namespaced())),
            FieldRef::Field(index) => Lists::FieldPresent(index),
            // Every object has a name.
            FieldRef::Name => Lists::One(Posting::Set(self.snapshot.occupied())),
            // Not reached: see `some_of`.
            FieldRef::Empty => Lists::None,
        };
        Set::union(lists, postings, about, work).await
    }

    /// Adds the set of a shard, which is by the hash of namespaces or of uids. The index of the hashes of uids is built
    /// when it is first needed.
    async fn add_shard(&mut self, shard: &'a Shard, work: &mut Work) {
        let (snapshot, postings, about) = (self.snapshot, self.snapshot.postings(), PlanTerm::Shard(shard));
        let set = match shard.key() {
            ShardKey::Namespace if postings.namespaced().is_empty() => {
                // All objects are cluster-scoped, so all have the same hash.
                self.selects_nothing |= !shard.contains(fnv1a(""));
                return;
            }
            ShardKey::Namespace => Set::union(Lists::NamespacesOf(shard), postings, about, work).await,
            ShardKey::Uid => {
                build_shard_index(snapshot, work).await;
                match snapshot.shards() {
                    Some(index) => {
                        let mut cost = 0;
                        for range in shard.ranges() {
                            cost += index.count(range.first, range.last);
                            work.spend(STEPS_OF_LOOKUP + index.leaves() as u64).await;
                        }
                        let lists = shard.ranges().len() as u64;
                        Set { slots: Slots::Shard { shard, index, snapshot }, cost, lists, about, also: Vec::new() }
                    }
                    // Another request builds the index.
                    None => Set::computed(self.slots_of_shard(shard, work).await, about),
                }
            }
        };
        self.keep(set, true);
    }

    /// The slots of a shard of uids, without an index: every object is tested.
    async fn slots_of_shard(&self, shard: &Shard, work: &mut Work) -> RoaringBitmap {
        let mut slots = RoaringBitmap::new();
        for (slot, object) in self.snapshot.range(Bound::Unbounded) {
            if shard.contains(object.uid_hash()) {
                slots.insert(slot);
            }
            work.spend(STEPS_OF_LOOKUP).await;
        }
        slots
    }

    /// Adds the set for a requirement on a label.
    async fn add_label(&mut self, requirement: &'a LabelRequirement, work: &mut Work) {
        let key = &*requirement.key;
        let lists = match requirement.operator.values() {
            TestedValues::Listed(values) => Lists::LabelIn(key, values),
            TestedValues::Any => Lists::LabelPresent(key),
            // The index of labels has values in the order of their texts, and an integer in a label can have several
            // texts, such as `007`. So each value of the key is tested.
            TestedValues::Integers(_) | TestedValues::WithPrefix(_) => Lists::LabelAccepted(key, &requirement.operator),
        };
        let includes = !requirement.operator.is_negative();
        let set = Set::union(lists, self.snapshot.postings(), PlanTerm::Label(requirement), work).await;
        self.add(set, includes, Some(IndexedPart::Labels), work).await;
    }

    /// Runs the plan and returns the selected slots. If the evaluation of a CEL expression exceeds a limit, some are
    /// missing: see [`CelFilter::result`](super::CelFilter::result).
    pub async fn hits(&self, work: &mut Work) -> Hits {
        let hits = self.run(&mut PlanTrace::default(), work).await;
        match &self.selection.cel {
            Some(cel) => Hits::Slots(cel_hits::narrow(cel, hits, self.snapshot, work).await),
            None => hits,
        }
    }

    /// The plan without tests of the objects whose values of a field are not completely indexed. They are hits if the
    /// requirement on the field is not negative. For a caller that evaluates these objects itself.
    pub(super) fn without_tests_of_fields(mut self) -> QueryPlan<'a> {
        self.incomplete.retain(|(part, _)| matches!(part, IndexedPart::Labels));
        self
    }

    /// Runs the plan without the CEL expression, and returns the selected slots. Records in `trace` how many candidates
    /// each step leaves.
    pub(super) async fn run(&self, trace: &mut PlanTrace, work: &mut Work) -> Hits {
        if self.selects_nothing {
            return Hits::Slots(RoaringBitmap::new());
        }
        if self.include.is_empty() && self.exclude.is_empty() {
            return match &self.selection.namespace {
                Some(namespace) => Hits::Namespace(namespace.clone()),
                None => Hits::Everything,
            };
        }
        let postings = self.snapshot.postings();
        let mut sets = self.include.iter();
        let mut candidates = match sets.next() {
            Some(smallest) => {
                let slots = smallest.to_bitmap(postings, work).await;
                trace.add(TraceEvent::Set { left: slots.len() });
                slots
            }
            None => self.snapshot.occupied().to_bitmap(),
        };
        work.spend(candidates.len()).await;
        for set in sets {
            if candidates.len() < TEST_OBJECTS_BELOW {
                return Hits::Slots(self.tested(&candidates, trace, work).await);
            }
            set.intersect(&mut candidates, postings, work).await;
            trace.add(TraceEvent::Set { left: candidates.len() });
        }
        for set in &self.exclude {
            if candidates.len() < TEST_OBJECTS_BELOW {
                return Hits::Slots(self.tested(&candidates, trace, work).await);
            }
            set.subtract_from(&mut candidates, postings, work).await;
            trace.add(TraceEvent::Set { left: candidates.len() });
        }
        // The objects that are not completely indexed are in each included set and in no excluded set, whatever their
        // values are. So they are tested now.
        for (_, slots) in &self.incomplete {
            let mut untested = candidates.clone();
            slots.intersect(&mut untested);
            let selected = self.tested(&untested, &mut PlanTrace::default(), work).await;
            let objects = untested.len();
            candidates -= untested - selected;
            trace.add(TraceEvent::Tested { objects, left: candidates.len() });
        }
        Hits::Slots(candidates)
    }

    /// The candidates that satisfy the selection without its CEL expression. Tests them one by one, and records that in
    /// `trace`.
    async fn tested(&self, candidates: &RoaringBitmap, trace: &mut PlanTrace, work: &mut Work) -> RoaringBitmap {
        let mut selected = RoaringBitmap::new();
        if candidates.is_empty() {
            return selected;
        }
        let selection = CompactSelection::new(self.selection);
        for slot in candidates {
            let Some(object) = self.snapshot.object(slot) else { continue };
            if selection.meets_requirements(object) {
                selected.insert(slot);
            }
            work.spend(selection.steps_of_test(object)).await;
        }
        trace.add(TraceEvent::Tested { objects: candidates.len(), left: selected.len() });
        selected
    }

    /// The number of objects that the plan begins with: those of the smallest included set, or all objects of the
    /// namespace or of the store.
    pub fn candidates(&self) -> u64 {
        if self.selects_nothing {
            return 0;
        }
        match (self.include.first(), &self.selection.namespace) {
            (Some(smallest), _) => smallest.cost,
            (None, Some(namespace)) => self.snapshot.postings().namespace(namespace).map_or(0, |posting| posting.len()),
            (None, None) => self.snapshot.len() as u64,
        }
    }

    /// The plan as one line: the requirements in the order of their intersection, each with its number of objects.
    /// `less` marks objects that are removed. `compared one by one` is the number of objects that are not completely
    /// indexed. `fields`: the fields of the resource, for their labels.
    pub fn explain(&self, fields: &[Field]) -> String {
        // A requirement on `FieldRef::Empty` excludes all objects and has no set that could be shown.
        if self.selects_nothing && self.include.first().is_none_or(|set| set.cost > 0) {
            return "nothing".to_owned();
        }
        let included = self.include.iter().map(|set| format!("{} ({})", set.in_words(fields), set.cost));
        let excluded = self.exclude.iter().map(|set| format!("{} (less {})", set.in_words(fields), set.cost));
        let incomplete: u64 = self.incomplete.iter().map(|(_, slots)| slots.len()).sum();
        let compared = (incomplete > 0).then(|| format!("compared one by one ({incomplete})"));
        let cel = self.selection.cel.as_ref().map(|cel| PlanTerm::Cel(cel).in_words(fields));
        let parts: Vec<String> = included.chain(excluded).chain(compared).chain(cel).collect();
        match (&parts[..], &self.selection.namespace) {
            ([], Some(namespace)) => {
                format!("{} ({})", PlanTerm::Namespace(namespace).in_words(fields), self.candidates())
            }
            ([], None) => "everything".to_owned(),
            (parts, _) => parts.join(" & "),
        }
    }

    /// The steps of the requirements, in the order in which they run. `trace` is that of [`QueryPlan::run`], and `hits`
    /// is the number of slots that it returned. `fields`: the fields of the resource, for their labels.
    pub(super) fn steps(
        &self,
        trace: &PlanTrace,
        hits: u64,
        fields: &[Field],
        budget: &mut StepBudget,
    ) -> Vec<PlanStep> {
        if self.include.is_empty() && self.exclude.is_empty() {
            let text = match (&self.selection.namespace, self.selects_nothing) {
                (_, true) => "nothing".to_owned(),
                (Some(namespace), false) => PlanTerm::Namespace(namespace).in_words(fields),
                (None, false) => "everything".to_owned(),
            };
            let estimate = Some(StepEstimate::Finds(self.candidates()));
            return vec![PlanStep::new(&text).with_counts(estimate, Some(hits))];
        }
        let included = self.include.iter().map(|set| (set, StepEstimate::Finds(set.cost)));
        let excluded = self.exclude.iter().map(|set| (set, StepEstimate::Removes(set.cost)));
        let mut sets = included.chain(excluded).filter(|_| budget.take());
        let step = |(set, estimate): (&Set<'_>, StepEstimate), left| {
            PlanStep::new(&set.in_words(fields)).with_counts(Some(estimate), left)
        };
        let mut steps = Vec::new();
        for event in trace.events() {
            match *event {
                TraceEvent::Set { left } => steps.extend(sets.next().map(|set| step(set, Some(left)))),
                TraceEvent::Tested { objects, left } => {
                    // The requirements whose sets were not used are tested together.
                    let tested = sets.by_ref().map(|set| step(set, None)).collect();
                    let test = PlanStep::combining("test of objects", tested);
                    steps.push(test.with_counts(Some(StepEstimate::Tests(objects)), Some(left)));
                }
            }
        }
        // Sets that were not needed, because another one is empty.
        steps.extend(sets.map(|set| step(set, None)));
        steps
    }
}

/// Builds the index of the hashes of uids, unless the snapshot has it or another request builds it.
async fn build_shard_index(snapshot: &Snapshot, work: &mut Work) {
    if snapshot.shards().is_some() {
        return;
    }
    let Some(permit) = snapshot.want_shards() else { return };
    let mut index = ShardIndex::default();
    for slot in snapshot.occupied().to_bitmap() {
        if let Some(object) = snapshot.object(slot) {
            index.insert(object.uid_hash(), slot);
        }
        work.spend(STEPS_OF_OBJECT).await;
    }
    permit.set(index);
}

/// Whether a term compares the namespace with the empty value alone, which is the namespace of cluster-scoped objects.
/// `values`: the values of its operator.
fn is_no_namespace(term: &FieldTerm, values: &[String]) -> bool {
    term.field == FieldRef::Namespace && matches!(values, [value] if value.is_empty())
}
