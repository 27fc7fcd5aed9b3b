//! What a request asks for: namespace, labels, fields.

use super::{Access, Hits, Plan, State};
use crate::extract::FieldRef;
use crate::model::FieldIndex;
use crate::selector::{FieldExpressionOperator, FieldOperator, LabelSelector};
use crate::store::Object;

/// A requirement on a field whose label has been resolved by the resource's plan: one of a request, which knows one value, or one of
/// a View, which knows sets of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field.
    pub field: FieldRef,
    /// How its values compare.
    pub operator: FieldExpressionOperator,
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

impl Selection {
    /// Whether it has a label or field requirement.
    pub fn is_selective(&self) -> bool {
        !self.labels.requirements.is_empty() || !self.fields.is_empty()
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
    /// Whether it cannot be told if it selects the object: everything else holds, and of a field that it names the object has more
    /// values than are kept.
    pub fn is_undecided_on(&self, object: &Object) -> bool {
        let overflows = |term: &FieldTerm| matches!(term.field, FieldRef::Field(index) if object.overflows(index));
        if !self.fields.iter().any(overflows) {
            return false;
        }
        self.may_select(object)
    }

    /// Whether it selects the object, or could: whatever can be told holds.
    fn may_select(&self, object: &Object) -> bool {
        let overflows = |term: &FieldTerm| matches!(term.field, FieldRef::Field(index) if object.overflows(index));
        let decided = self.fields.iter().filter(|term| !overflows(term)).cloned().collect();
        Selection { namespace: self.namespace.clone(), labels: self.labels.clone(), fields: decided }.matches(object)
    }

    /// The same as [`Selection::answerable`] where only objects that `within` selects, or could, are to be heard of: others stand in
    /// nobody's way. `within` is a part of the selection.
    ///
    /// # Errors
    /// The first field that cannot be selected by.
    pub fn answerable_within(&self, state: &State, within: &Selection) -> Result<(), FieldIndex> {
        let snapshot = state.snapshot();
        for term in &self.fields {
            let FieldRef::Field(field) = term.field else { continue };
            let is_met_then =
                || state.undone().values().flatten().any(|object| object.overflows(field) && within.may_select(object));
            let is_met_now = || {
                if snapshot.overflowing(field).is_none() {
                    return false;
                }
                // The index finds those that overflow; what it says of other fields is right where those do not.
                let is_whole = |term: &&FieldTerm| !matches!(term.field, FieldRef::Field(index) if snapshot.overflowing(index).is_some());
                let mut fields: Vec<FieldTerm> = within.fields.iter().filter(is_whole).cloned().collect();
                fields.push(FieldTerm::new(FieldRef::Field(field.overflow()), FieldOperator::Equals, ""));
                let overflowing = Selection { fields, ..within.clone() };
                let Hits::Slots(slots) = Plan::new(&overflowing, snapshot).hits() else { return true };
                let mut objects = slots.iter().filter_map(|slot| snapshot.object(slot));
                objects.any(|object| !state.undone().contains_key(object.key()) && within.may_select(object))
            };
            if is_met_then() || is_met_now() {
                return Err(field);
            }
        }
        Ok(())
    }

    /// Why it cannot be answered in this state, if so: a field that it names is not wholly indexed.
    ///
    /// # Errors
    /// [`Unusable`] names the first such field.
    pub fn answerable(&self, state: &State) -> Result<(), Unusable> {
        for term in &self.fields {
            let FieldRef::Field(field) = term.field else { continue };
            let now = state.snapshot().overflowing(field);
            let then = || state.undone().values().flatten().find(|object| object.overflows(field));
            if let Some((objects, example)) = now.or_else(|| then().map(|object| (1, object))) {
                return Err(Unusable { field, objects, example: example.key().to_owned() });
            }
        }
        Ok(())
    }
}

/// A field that cannot be selected by now: objects have more values of it than are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The field.
    pub field: FieldIndex,
    /// How many objects there are with too many values.
    pub objects: u64,
    /// The key of one of them.
    pub example: String,
}

impl FieldTerm {
    /// A term of a request.
    pub fn new(field: FieldRef, operator: FieldOperator, value: impl Into<String>) -> FieldTerm {
        let values = vec![value.into()];
        let operator = match operator {
            FieldOperator::Equals => FieldExpressionOperator::In(values),
            FieldOperator::NotEquals => FieldExpressionOperator::NotIn(values),
        };
        FieldTerm { field, operator }
    }

    /// The one value that it asks for, if it asks for exactly one.
    pub fn equals(&self) -> Option<&str> {
        match &self.operator {
            FieldExpressionOperator::In(values) => match &values[..] {
                [value] => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// On a many-valued field `In` means "some value", `NotIn` means "no value".
    pub fn matches(&self, object: &Object) -> bool {
        match self.field {
            FieldRef::Name => self.operator.matches(|found| found(object.name())),
            FieldRef::Namespace => self.operator.matches(|found| found(object.namespace())),
            FieldRef::Field(index) => self.operator.matches(|found| object.values(index).any(found)),
            FieldRef::Empty => self.operator.matches(|found| found("")),
        }
    }

    /// Whether it holds for an object that lacks the field, which for [`FieldRef::Empty`] is every object.
    pub fn holds_for_nothing_there(&self) -> bool {
        self.operator.matches(|found| found(""))
    }
}
