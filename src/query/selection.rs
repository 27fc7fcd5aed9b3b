//! What a request asks for: namespace, labels, fields.

use std::collections::{HashMap, HashSet};

use crate::extract::FieldRef;
use crate::selector::{LabelRequirement, LabelSelector, Operator, OperatorName, TestedValues};
use crate::store::Object;

/// A requirement on a field whose label has been resolved by the resource's plan: one of a request, which knows one value, or one of
/// a View, which knows sets of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field.
    pub field: FieldRef,
    /// How its values compare.
    pub operator: Operator,
}

/// A selection over one resource. All parts must hold; the default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only objects of this namespace; `None`: all.
    pub namespace: Option<String>,
    /// Label requirements.
    pub labels: LabelSelector,
    /// Field requirements.
    pub fields: Vec<FieldTerm>,
}

/// How objects are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// By posting lists, by the range of keys of a namespace, or by name: the cost follows the answer.
    Index,
    /// Every object of the resource is walked, because every one is selected.
    Scan,
}

impl Access {
    /// `index` or `scan`.
    pub fn as_str(self) -> &'static str {
        match self {
            Access::Index => "index",
            Access::Scan => "scan",
        }
    }
}

impl Selection {
    /// Whether it has a label or field requirement.
    pub fn is_selective(&self) -> bool {
        !self.labels.requirements.is_empty() || !self.fields.is_empty()
    }

    /// What its requirements take in memory, in bytes, about.
    pub fn held_bytes(&self) -> usize {
        // Each text is allocated for itself.
        const TEXT: usize = size_of::<String>() + 16;
        let texts = |values: &[String]| values.iter().map(|value| TEXT + value.len()).sum::<usize>();
        let labels = self.labels.requirements.iter().map(|requirement| {
            size_of_val(requirement) + TEXT + requirement.key.len() + texts(requirement.operator.listed())
        });
        let fields = self.fields.iter().map(|term| size_of_val(term) + texts(term.operator.listed()));
        labels.sum::<usize>() + fields.sum::<usize>()
    }

    /// How its objects are found.
    pub fn access(&self) -> Access {
        let narrows = |term: &FieldTerm| term.field != FieldRef::Empty || !term.holds_for_nothing_there();
        let narrowed =
            self.namespace.is_some() || !self.labels.requirements.is_empty() || self.fields.iter().any(narrows);
        if narrowed { Access::Index } else { Access::Scan }
    }

    /// Whether it selects the object: the definition that planned answers must equal, and what watches ask per event.
    pub fn matches(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| object.namespace() == namespace)
            && self.labels.requirements.iter().all(|requirement| requirement.matches(object.label(&requirement.key)))
            && self.fields.iter().all(|term| term.matches(object))
    }
}

impl Selection {
    /// The same selection with as few requirements as possible: a caller may repeat one thousands of times, and each costs when the
    /// selection is planned, compared and kept.
    #[must_use]
    pub fn simplified(mut self) -> Selection {
        let mut bounds: HashMap<(&str, OperatorName), Operator> = HashMap::new();
        for LabelRequirement { key, operator } in &self.labels.requirements {
            let bound = bounds.get(&(key.as_str(), operator.name())).unwrap_or(operator);
            if let Some(narrower) = operator.narrower(bound) {
                bounds.insert((key, operator.name()), narrower);
            }
        }
        // The narrowest bounds of a label say all that the others say.
        let is_narrowest = |requirement: &LabelRequirement| {
            let LabelRequirement { key, operator } = requirement;
            bounds.get(&(key.as_str(), operator.name())).is_none_or(|narrowest| narrowest == operator)
        };
        let mut seen = HashSet::new();
        let requirements = self.labels.requirements.iter();
        let kept: Vec<bool> =
            requirements.map(|requirement| is_narrowest(requirement) && seen.insert(requirement)).collect();
        let mut kept = kept.into_iter();
        self.labels.requirements.retain(|_| kept.next().unwrap_or(true));
        self.simplify_fields();
        self
    }

    fn simplify_fields(&mut self) {
        let mut fields: Vec<FieldTerm> = Vec::new();
        let mut places: HashMap<(FieldRef, bool), usize> = HashMap::new();
        let mut seen: HashSet<(FieldRef, Operator)> = HashSet::new();
        for term in self.fields.drain(..) {
            if !seen.insert((term.field, term.operator.clone())) {
                continue;
            }
            let is_one = matches!(term.field, FieldRef::Name | FieldRef::Namespace | FieldRef::Empty);
            let mergeable = match term.operator.values() {
                // Objects without a namespace are found by a set of its own.
                TestedValues::Listed(values)
                    if term.operator.is_negative()
                        && term.field == FieldRef::Namespace
                        && values.iter().any(String::is_empty) =>
                {
                    None
                }
                TestedValues::Listed(_) if term.operator.is_negative() => Some(false),
                // What has one value has one of both sets.
                TestedValues::Listed(_) if is_one => Some(true),
                TestedValues::Listed(_) | TestedValues::Any | TestedValues::Accepted => None,
            };
            let Some(key) = mergeable.map(|is_in| (term.field, is_in)) else {
                fields.push(term);
                continue;
            };
            match (places.get(&key).map(|place| &mut fields[*place].operator), term.operator) {
                (Some(Operator::NotIn(held)), Operator::NotIn(more)) => held.extend(more),
                (Some(Operator::In(held)), Operator::In(more)) => {
                    held.retain(|value| more.contains(value));
                }
                (_, operator) => {
                    places.insert(key, fields.len());
                    fields.push(FieldTerm { field: term.field, operator });
                }
            }
        }
        for term in &mut fields {
            if let Operator::NotIn(values) = &mut term.operator {
                values.sort_unstable();
                values.dedup();
            }
        }
        self.fields = fields;
    }
}

impl FieldTerm {
    /// A term of a request.
    pub fn new(field: FieldRef, operator: Operator) -> FieldTerm {
        FieldTerm { field, operator }
    }

    /// The one value that it asks for, if it asks for exactly one.
    pub fn equals(&self) -> Option<&str> {
        self.operator.demanded()
    }

    /// On a many-valued field `In` means "some value", `NotIn` means "no value". Nothing holds for an object whose values are not known.
    pub fn matches(&self, object: &Object) -> bool {
        match self.field {
            FieldRef::Name => self.operator.matches_field(|found| found(object.name())),
            FieldRef::Namespace => self.operator.matches_field(|found| found(object.namespace())),
            // One of few values is looked for among all, several of them among many values one by one.
            FieldRef::Field(index) => {
                let matches = match self.operator.values() {
                    TestedValues::Listed(values) if object.has_many_texts() => {
                        values.iter().any(|value| object.has_value(index, value)) != self.operator.is_negative()
                    }
                    TestedValues::Listed(_) | TestedValues::Any | TestedValues::Accepted => {
                        self.operator.matches_field(|found| object.values(index).any(found))
                    }
                };
                matches && !(self.operator.is_negative() && object.has_unknown(index))
            }
            FieldRef::Empty => self.operator.matches_field(|found| found("")),
        }
    }

    /// Whether it holds for an object that lacks the field, which for [`FieldRef::Empty`] is every object.
    pub fn holds_for_nothing_there(&self) -> bool {
        self.operator.matches_field(|found| found(""))
    }
}
