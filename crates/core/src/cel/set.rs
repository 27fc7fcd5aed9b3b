//! Sets of objects that an index can find, and bounds of other sets, such as the objects for which an expression is
//! true.

use std::sync::Arc;

/// The attribute of an object that an [`IndexRequirement`] tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// metadata.name.
    Name,
    /// metadata.namespace.
    Namespace,
    /// The label of this key. An absent label differs from an empty one.
    Label(String),
    /// The values of an indexed path: its index in [`Indexed::paths`](super::Indexed::paths), by which the plan was
    /// made.
    Field(usize),
}

/// A test of the text of a [`Subject`]. An object can have several texts: then one of them must pass the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexTest {
    /// The text is one of these, which are sorted and without repetition. An absent value has a text too:
    /// [`IndexedPath::absent`](super::IndexedPath::absent).
    In(Arc<[String]>),
    /// The text begins with this one, which is not empty.
    StartsWith(String),
    /// The text is an integer of at least this number.
    AtLeast(i64),
    /// The text is an integer of at most this number.
    AtMost(i64),
    /// The object has the label. Only for labels.
    Exists,
}

/// A leaf of an [`ObjectSet`]: the objects whose subject passes the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRequirement {
    /// The subject.
    pub subject: Subject,
    /// The test.
    pub test: IndexTest,
}

/// The number of values of a requirement, and of bytes of a text, that count as one part of a set: see
/// [`ObjectSet::parts`].
const VALUES_OF_PART: usize = 32;
/// See [`VALUES_OF_PART`].
const BYTES_OF_PART: usize = 256;

impl IndexRequirement {
    /// The number of parts for which a long requirement counts in addition to one. The divisors are so large that one
    /// list of values has a plan, however long it is, but many copies of a long list have none.
    fn further_parts(&self) -> usize {
        let test = match &self.test {
            IndexTest::In(values) => values.len() / VALUES_OF_PART,
            IndexTest::StartsWith(prefix) => prefix.len() / BYTES_OF_PART,
            IndexTest::AtLeast(_) | IndexTest::AtMost(_) | IndexTest::Exists => 0,
        };
        match &self.subject {
            Subject::Label(key) => test + key.len() / BYTES_OF_PART,
            Subject::Name | Subject::Namespace | Subject::Field(_) => test,
        }
    }
}

/// A set of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectSet {
    /// All objects.
    All,
    /// No object.
    Nothing,
    /// The objects that meet a requirement.
    Leaf(IndexRequirement),
    /// All objects except those of a set.
    Not(Box<ObjectSet>),
    /// The objects that are in each of two or more sets.
    And(Vec<ObjectSet>),
    /// The objects that are in at least one of two or more sets.
    Or(Vec<ObjectSet>),
}

impl ObjectSet {
    /// The objects whose `subject` passes the test.
    pub(super) fn leaf(subject: Subject, test: IndexTest) -> ObjectSet {
        ObjectSet::Leaf(IndexRequirement { subject, test })
    }

    /// The objects that are not in the set.
    pub(super) fn negated(self) -> ObjectSet {
        match self {
            ObjectSet::All => ObjectSet::Nothing,
            ObjectSet::Nothing => ObjectSet::All,
            ObjectSet::Not(set) => *set,
            set => ObjectSet::Not(Box::new(set)),
        }
    }

    /// The intersection. Nested intersections become one, and [`ObjectSet::All`] is left out.
    pub(super) fn all_of(sets: impl IntoIterator<Item = ObjectSet>) -> ObjectSet {
        let mut parts: Vec<ObjectSet> = Vec::new();
        for set in sets {
            match set {
                ObjectSet::All => {}
                ObjectSet::Nothing => return ObjectSet::Nothing,
                ObjectSet::And(inner) => parts.extend(inner),
                set => parts.push(set),
            }
        }
        let only = if parts.len() == 1 { parts.pop() } else { None };
        match only {
            Some(only) => only,
            None if parts.is_empty() => ObjectSet::All,
            None => ObjectSet::And(parts),
        }
    }

    /// The union. Nested unions become one, and [`ObjectSet::Nothing`] is left out.
    pub(super) fn any_of(sets: impl IntoIterator<Item = ObjectSet>) -> ObjectSet {
        let mut parts: Vec<ObjectSet> = Vec::new();
        for set in sets {
            match set {
                ObjectSet::Nothing => {}
                ObjectSet::All => return ObjectSet::All,
                ObjectSet::Or(inner) => parts.extend(inner),
                set => parts.push(set),
            }
        }
        let only = if parts.len() == 1 { parts.pop() } else { None };
        match only {
            Some(only) => only,
            None if parts.is_empty() => ObjectSet::Nothing,
            None => ObjectSet::Or(parts),
        }
    }

    /// The number of parts of the set: of the set itself, of the sets within it, and of long leaves, which count as
    /// several parts, because finding their objects takes as long. Stops to count above [`MOST_PARTS`], and then
    /// returns a number above it.
    fn parts(&self) -> usize {
        let (mut parts, mut count) = (vec![self], 0usize);
        while let Some(part) = parts.pop() {
            count = count.saturating_add(1);
            if count > MOST_PARTS {
                return count;
            }
            match part {
                ObjectSet::All | ObjectSet::Nothing => {}
                ObjectSet::Leaf(requirement) => count = count.saturating_add(requirement.further_parts()),
                ObjectSet::Not(set) => parts.push(set),
                ObjectSet::And(sets) | ObjectSet::Or(sets) => parts.extend(sets),
            }
        }
        count
    }

    /// Whether an object is in the set; `meets` decides for each leaf.
    pub fn has(&self, meets: &impl Fn(&IndexRequirement) -> bool) -> bool {
        match self {
            ObjectSet::All => true,
            ObjectSet::Nothing => false,
            ObjectSet::Leaf(requirement) => meets(requirement),
            ObjectSet::Not(set) => !set.has(meets),
            ObjectSet::And(sets) => sets.iter().all(|set| set.has(meets)),
            ObjectSet::Or(sets) => sets.iter().any(|set| set.has(meets)),
        }
    }
}

/// The maximum number of parts of a set. A bound with more is dropped, so more objects are evaluated. A conditional has
/// its condition twice in each bound, so nested ones would have exponentially many parts.
const MOST_PARTS: usize = 1_024;

/// Bounds of a set: it contains `at_least`, and is contained in `at_most`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetBounds {
    /// The lower bound: each object of it is in the set.
    pub at_least: ObjectSet,
    /// The upper bound: each object of the set is in it.
    pub at_most: ObjectSet,
}

impl SetBounds {
    /// The bounds of a set about which nothing is known.
    pub(super) fn unknown() -> SetBounds {
        SetBounds { at_least: ObjectSet::Nothing, at_most: ObjectSet::All }
    }

    /// The bounds of a set that is known.
    pub(super) fn exactly(set: ObjectSet) -> SetBounds {
        SetBounds { at_least: set.clone(), at_most: set }
    }

    /// The bounds, where a bound of more than [`MOST_PARTS`] parts is replaced by nothing or by all objects. Also
    /// returns the number of parts of both bounds before.
    pub(super) fn bounded(self) -> (SetBounds, usize) {
        let SetBounds { mut at_least, mut at_most } = self;
        let (least_parts, most_parts) = (at_least.parts(), at_most.parts());
        if least_parts > MOST_PARTS {
            at_least = ObjectSet::Nothing;
        }
        if most_parts > MOST_PARTS {
            at_most = ObjectSet::All;
        }
        (SetBounds { at_least, at_most }, least_parts.saturating_add(most_parts))
    }

    /// Whether the set itself is known, because both bounds are equal, so that no object needs to be evaluated. Bounds
    /// that are not equal can have the same objects in a store.
    pub fn is_exact(&self) -> bool {
        self.at_least == self.at_most
    }

    /// The bounds of the intersection of sets with these bounds.
    pub(super) fn all_of(bounds: &[SetBounds]) -> SetBounds {
        SetBounds {
            at_least: ObjectSet::all_of(bounds.iter().map(|bounds| bounds.at_least.clone())),
            at_most: ObjectSet::all_of(bounds.iter().map(|bounds| bounds.at_most.clone())),
        }
    }

    /// The bounds of the union of sets with these bounds.
    pub(super) fn any_of(bounds: &[SetBounds]) -> SetBounds {
        SetBounds {
            at_least: ObjectSet::any_of(bounds.iter().map(|bounds| bounds.at_least.clone())),
            at_most: ObjectSet::any_of(bounds.iter().map(|bounds| bounds.at_most.clone())),
        }
    }

    /// The bounds of the objects that are not in the set.
    pub(super) fn negated(self) -> SetBounds {
        SetBounds { at_least: self.at_most.negated(), at_most: self.at_least.negated() }
    }

    /// The bounds of a set of which only the upper bound is known.
    pub(super) fn at_most(self) -> SetBounds {
        SetBounds { at_least: ObjectSet::Nothing, at_most: self.at_most }
    }
}
