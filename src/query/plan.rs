//! Selection -> posting lists, smallest first.
//!
//! Every requirement is either a set of slots that must be in (`include`) or one that must be out (`exclude`); sets
//! are unions of posting lists and are only materialised once the cheaper ones have left something to test. Costs are
//! exact list lengths, not estimates: every set knows its own. What each set stands for is only put into words when somebody
//! asks: see [`super::explain`].
//!
//! Objects with too many labels or values to be indexed are in the set of every requirement on labels, or on that field, and in
//! none that is taken away. Those that are left in the end are compared with the selection one by one.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::explain::Operand;
use super::{FieldTerm, Selection};
use crate::extract::{Field, FieldRef};
use crate::model::Key;
use crate::selector::{FieldExpressionOperator, LabelOperator, LabelRequirement};
use crate::store::postings::Posting;
use crate::store::{Attribute, Snapshot};

/// Below this many candidates, testing each object is cheaper than building another set: a test costs some ten
/// nanoseconds, a union at least an allocation for each list.
const TEST_OBJECTS_BELOW: u64 = 64;

/// The slots that a selection selects.
#[derive(Clone, Debug, PartialEq)]
pub enum Hits {
    /// Every object.
    Everything,
    /// Every object of one namespace.
    Namespace(String),
    /// These.
    Slots(RoaringBitmap),
}

/// A planned selection.
#[derive(Debug)]
pub struct Plan<'a> {
    snapshot: &'a Snapshot,
    selection: &'a Selection,
    include: Vec<Set<'a>>,
    exclude: Vec<Set<'a>>,
    /// Objects that the index does not tell enough of to decide on the selection.
    undecided: Vec<Posting<'a>>,
    /// Known to select nothing, for this reason.
    nothing: bool,
}

/// One operand of the plan.
#[derive(Debug)]
struct Set<'a> {
    slots: Slots<'a>,
    /// How many slots, at most.
    cost: u64,
    about: Operand<'a>,
}

#[derive(Debug)]
enum Slots<'a> {
    /// The union of these lists.
    Union(Vec<Posting<'a>>),
    /// A set made for this plan: a few slots found by name.
    Made(RoaringBitmap),
}

impl<'a> Set<'a> {
    fn union(postings: Vec<Posting<'a>>, about: Operand<'a>) -> Set<'a> {
        let cost = postings.iter().map(|posting| posting.len()).sum();
        Set { slots: Slots::Union(postings), cost, about }
    }

    /// The same with objects that may belong to it.
    fn with(mut self, undecided: Option<Posting<'a>>) -> Set<'a> {
        if let (Slots::Union(postings), Some(undecided)) = (&mut self.slots, undecided) {
            self.cost += undecided.len();
            postings.push(undecided);
        }
        self
    }

    fn made(slots: RoaringBitmap, about: Operand<'a>) -> Set<'a> {
        Set { cost: slots.len(), slots: Slots::Made(slots), about }
    }

    fn to_bitmap(&self) -> RoaringBitmap {
        match &self.slots {
            Slots::Made(slots) => slots.clone(),
            Slots::Union(postings) => {
                let mut set = RoaringBitmap::new();
                for posting in postings {
                    posting.add_to(&mut set);
                }
                set
            }
        }
    }

    /// Keeps in `candidates` only what is in this set. A single list is intersected without being copied.
    fn intersect(&self, candidates: &mut RoaringBitmap) {
        match &self.slots {
            Slots::Made(slots) => *candidates &= slots,
            Slots::Union(postings) => match postings[..] {
                [Posting::Set(slots)] => slots.intersect(candidates),
                _ => *candidates &= self.to_bitmap(),
            },
        }
    }

    fn subtract_from(&self, candidates: &mut RoaringBitmap) {
        match &self.slots {
            Slots::Made(slots) => *candidates -= slots,
            Slots::Union(postings) => {
                for posting in postings {
                    match posting {
                        Posting::One(slot) => {
                            candidates.remove(*slot);
                        }
                        Posting::Set(slots) => slots.subtract_from(candidates),
                    }
                }
            }
        }
    }
}

impl<'a> Plan<'a> {
    /// Plans a selection over a snapshot.
    pub fn new(selection: &'a Selection, snapshot: &'a Snapshot) -> Plan<'a> {
        let (include, exclude, undecided) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = Plan { snapshot, selection, include, exclude, undecided, nothing: false };
        // A name with its namespace is one key, and nothing is cheaper.
        let namespace = selection.namespace.as_deref();
        for term in &selection.fields {
            plan.add_field(term, namespace);
        }
        let many_labels = snapshot.postings().present(&Attribute::ManyLabels);
        for requirement in &selection.labels.requirements {
            plan.add_label(requirement, many_labels);
        }
        if !selection.labels.requirements.is_empty() {
            plan.undecided.extend(many_labels);
        }
        if let Some(namespace) = namespace.filter(|_| selection.is_selective()) {
            let posting = snapshot.postings().posting(&Attribute::Namespace, namespace);
            plan.include.push(Set::union(posting.into_iter().collect(), Operand::Namespace(namespace)));
        }
        plan.include.sort_by_key(|set| set.cost);
        plan.nothing |= plan.include.first().is_some_and(|set| set.cost == 0);
        plan
    }

    fn add_field(&mut self, term: &'a FieldTerm, namespace: Option<&str>) {
        let about = Operand::Field(term);
        if term.field == FieldRef::Empty {
            // Reads as "" for every object, so the term holds for all of them or for none.
            self.nothing |= !term.holds_for_nothing_there();
            return;
        }
        let some_of = |values: &'a [String]| match term.field {
            FieldRef::Name => Set::made(self.named(values, namespace), about),
            FieldRef::Namespace => self.of_attribute(&Attribute::Namespace, values, about),
            FieldRef::Field(index) => self.of_attribute(&Attribute::Field(index), values, about),
            FieldRef::Empty => Set::union(Vec::new(), about),
        };
        let (set, includes) = match &term.operator {
            // Cluster-scoped objects alone have no namespace, and a store holds one scope.
            FieldExpressionOperator::In(values) if is_no_namespace(term, values) => (self.not_empty(term), false),
            FieldExpressionOperator::NotIn(values) if is_no_namespace(term, values) => (self.not_empty(term), true),
            FieldExpressionOperator::In(values) => (some_of(values), true),
            FieldExpressionOperator::NotIn(values) => (some_of(values), false),
            FieldExpressionOperator::Exists => (self.not_empty(term), true),
            FieldExpressionOperator::DoesNotExist => (self.not_empty(term), false),
        };
        let undecided = match term.field {
            FieldRef::Field(index) => self.snapshot.postings().present(&Attribute::Field(index.overflow())),
            FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => None,
        };
        if includes {
            self.include.push(set.with(undecided))
        } else {
            self.exclude.push(set)
        }
        // A field may be named by many terms; its objects are compared once.
        let is_new = self
            .selection
            .fields
            .iter()
            .find(|first| first.field == term.field)
            .is_some_and(|first| std::ptr::eq(first, term));
        self.undecided.extend(undecided.filter(|_| is_new));
    }

    /// Objects with one of these values.
    fn of_attribute(&self, attribute: &Attribute, values: &'a [String], about: Operand<'a>) -> Set<'a> {
        let postings = self.snapshot.postings();
        Set::union(values.iter().filter_map(|value| postings.posting(attribute, value)).collect(), about)
    }

    /// Objects with one of these names.
    fn named(&self, names: &[String], namespace: Option<&str>) -> RoaringBitmap {
        let postings = self.snapshot.postings();
        let namespaces = || postings.values(&Attribute::Namespace);
        let probes = match namespace {
            Some(_) => names.len(),
            None => names.len().saturating_mul(namespaces().count().max(1)),
        };
        // Many names in many namespaces: a walk over all objects is cheaper.
        if probes > self.snapshot.len() {
            let names: HashSet<&str> = names.iter().map(String::as_str).collect();
            let held = self.snapshot.range(Bound::Unbounded);
            return held.filter(|(_, object)| names.contains(object.name())).map(|(slot, _)| slot).collect();
        }
        let mut slots = RoaringBitmap::new();
        // A name with a slash or without text is no name; joined with a namespace it could meet another key.
        for name in names.iter().filter(|name| !name.contains('/') && !name.is_empty()) {
            let probe = |namespace: &str| self.snapshot.slot(Key::new(namespace, name).as_str());
            match (namespace, postings.present(&Attribute::Namespace)) {
                (Some(namespace), _) => slots.extend(probe(namespace)),
                (None, None) => slots.extend(probe("")),
                // One probe for each namespace; clusters have far fewer of them than objects.
                (None, Some(_)) => slots.extend(namespaces().filter_map(|(namespace, _)| probe(namespace))),
            }
        }
        slots
    }

    /// Objects with a value that is not empty.
    fn not_empty(&self, term: &'a FieldTerm) -> Set<'a> {
        let about = Operand::Field(term);
        let postings = self.snapshot.postings();
        match term.field {
            FieldRef::Namespace => Set::union(postings.present(&Attribute::Namespace).into_iter().collect(), about),
            FieldRef::Field(index) => {
                let attribute = Attribute::Field(index);
                let values = postings.values(&attribute);
                Set::union(values.filter(|(value, _)| !value.is_empty()).map(|(_, posting)| posting).collect(), about)
            }
            FieldRef::Name => Set::made(self.snapshot.occupied().to_bitmap(), about),
            FieldRef::Empty => Set::union(Vec::new(), about),
        }
    }

    fn add_label(&mut self, requirement: &'a LabelRequirement, undecided: Option<Posting<'a>>) {
        let attribute = Attribute::Label(Arc::from(&*requirement.key));
        let postings = self.snapshot.postings();
        let about = Operand::Label(requirement);
        let some_of =
            |values: &[String]| values.iter().filter_map(|value| postings.posting(&attribute, value)).collect();
        match &requirement.operator {
            LabelOperator::In(values) => {
                self.include.push(Set::union(some_of(values), about).with(undecided));
            }
            LabelOperator::NotIn(values) => {
                self.exclude.push(Set::union(some_of(values), about));
            }
            LabelOperator::Exists => {
                self.include
                    .push(Set::union(postings.present(&attribute).into_iter().collect(), about).with(undecided));
            }
            LabelOperator::DoesNotExist => {
                self.exclude.push(Set::union(postings.present(&attribute).into_iter().collect(), about));
            }
            LabelOperator::GreaterThan(_) | LabelOperator::LessThan(_) => {
                let matching = postings
                    .values(&attribute)
                    .filter(|(value, _)| requirement.matches(Some(value)))
                    .map(|(_, posting)| posting)
                    .collect();
                self.include.push(Set::union(matching, about).with(undecided));
            }
        }
    }

    /// Runs the plan.
    pub fn hits(&self) -> Hits {
        if self.nothing {
            return Hits::Slots(RoaringBitmap::new());
        }
        if self.include.is_empty() && self.exclude.is_empty() {
            return match &self.selection.namespace {
                Some(namespace) => Hits::Namespace(namespace.clone()),
                None => Hits::Everything,
            };
        }
        let mut sets = self.include.iter();
        let mut candidates = match sets.next() {
            Some(smallest) => smallest.to_bitmap(),
            None => self.snapshot.occupied().to_bitmap(),
        };
        for set in sets {
            if candidates.len() < TEST_OBJECTS_BELOW {
                return Hits::Slots(self.tested(&candidates));
            }
            set.intersect(&mut candidates);
        }
        for set in &self.exclude {
            if candidates.len() < TEST_OBJECTS_BELOW {
                return Hits::Slots(self.tested(&candidates));
            }
            set.subtract_from(&mut candidates);
        }
        for undecided in &self.undecided {
            // A few objects of many, or many of them: both are walked once.
            let mut set = undecided.to_bitmap();
            set &= &candidates;
            candidates -= &set - &self.tested(&set);
        }
        Hits::Slots(candidates)
    }

    fn tested(&self, candidates: &RoaringBitmap) -> RoaringBitmap {
        candidates
            .iter()
            .filter(|slot| self.snapshot.object(*slot).is_some_and(|object| self.selection.matches(object)))
            .collect()
    }

    /// How many objects the plan begins with: the smallest of the sets that must hold, or all of them.
    pub fn candidates(&self) -> u64 {
        if self.nothing {
            return 0;
        }
        match (self.include.first(), &self.selection.namespace) {
            (Some(smallest), _) => smallest.cost,
            (None, Some(namespace)) => {
                self.snapshot.postings().posting(&Attribute::Namespace, namespace).map_or(0, |posting| posting.len())
            }
            (None, None) => self.snapshot.len() as u64,
        }
    }

    /// The plan as one line: what is intersected, in which order, and how many objects each part has; `less` marks what
    /// is taken away. `fields` are those of the resource, for their labels.
    pub fn explain(&self, fields: &[Field]) -> String {
        // A field that no object has rules everything out without a set of its own.
        if self.nothing && self.include.first().is_none_or(|set| set.cost > 0) {
            return "nothing".to_owned();
        }
        let included = self.include.iter().map(|set| format!("{} ({})", set.about.in_words(fields), set.cost));
        let excluded = self.exclude.iter().map(|set| format!("{} (less {})", set.about.in_words(fields), set.cost));
        let undecided: u64 = self.undecided.iter().map(|posting| posting.len()).sum();
        let compared = (undecided > 0).then(|| format!("compared one by one ({undecided})"));
        let parts: Vec<String> = included.chain(excluded).chain(compared).collect();
        match (&parts[..], &self.selection.namespace) {
            ([], Some(namespace)) => {
                format!("{} ({})", Operand::Namespace(namespace).in_words(fields), self.candidates())
            }
            ([], None) => "everything".to_owned(),
            (parts, _) => parts.join(" & "),
        }
    }
}

/// Whether a term asks for objects without a namespace, by one empty value.
fn is_no_namespace(term: &FieldTerm, values: &[String]) -> bool {
    term.field == FieldRef::Namespace && matches!(values, [value] if value.is_empty())
}
