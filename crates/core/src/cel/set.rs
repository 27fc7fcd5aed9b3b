//! Sets of objects as an index can find them, and bounds of the set of objects for which an expression is true.

use std::sync::Arc;

/// What a [`IndexRequirement`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// metadata.name.
    Name,
    /// metadata.namespace.
    Namespace,
    /// The label of this key. An absent label differs from an empty one.
    Label(String),
    /// The text of the indexed path of this number in the list that the plan was made for.
    Field(usize),
}

/// A test of the texts of a [`Subject`]. If there are several, some of them passes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexTest {
    /// One of these, which are sorted and without repetition. The text of an absent value counts.
    In(Arc<[String]>),
    /// It begins with this, which is not empty.
    StartsWith(String),
    /// It is an integer of at least this.
    AtLeast(i64),
    /// It is an integer of at most this.
    AtMost(i64),
    /// There is one. Only for labels.
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

/// The number of values, and of bytes of a text, that count as a part of a set.
const VALUES_OF_PART: usize = 32;
const BYTES_OF_PART: usize = 256;

impl IndexRequirement {
    /// The number of parts for which a long requirement counts besides one. So one list of values has a plan, however
    /// long it is, but not many copies of it.
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
    /// Those that meet a requirement.
    Leaf(IndexRequirement),
    /// All but those of a set.
    Not(Box<ObjectSet>),
    /// Those in each of two or more sets.
    And(Vec<ObjectSet>),
    /// Those in one of two or more sets.
    Or(Vec<ObjectSet>),
}

impl ObjectSet {
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

    /// The intersection. Sets within sets are merged, and sets that change nothing are omitted.
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

    /// The union, simplified in the same way.
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

    /// The number of parts of the set, if it is at most [`MOST_PARTS`]; otherwise a greater number. A long leaf counts
    /// as several parts, because finding its objects takes as long.
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

/// A set between two others that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetBounds {
    /// Each of these is in the set.
    pub at_least: ObjectSet,
    /// No other is in the set.
    pub at_most: ObjectSet,
}

impl SetBounds {
    /// Nothing is known.
    pub(super) fn unknown() -> SetBounds {
        SetBounds { at_least: ObjectSet::Nothing, at_most: ObjectSet::All }
    }

    pub(super) fn exactly(set: ObjectSet) -> SetBounds {
        SetBounds { at_least: set.clone(), at_most: set }
    }

    /// The bounds, without those that have more than [`MOST_PARTS`]. Also returns the number of their parts.
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

    /// Whether the set itself is known, so that no object needs to be evaluated. An index can find out that both bounds
    /// have the same objects when this is false.
    pub fn is_exact(&self) -> bool {
        self.at_least == self.at_most
    }

    pub(super) fn all_of(bounds: &[SetBounds]) -> SetBounds {
        SetBounds {
            at_least: ObjectSet::all_of(bounds.iter().map(|bounds| bounds.at_least.clone())),
            at_most: ObjectSet::all_of(bounds.iter().map(|bounds| bounds.at_most.clone())),
        }
    }

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

    /// The bounds without the lower one.
    pub(super) fn at_most(self) -> SetBounds {
        SetBounds { at_least: ObjectSet::Nothing, at_most: self.at_most }
    }
}
