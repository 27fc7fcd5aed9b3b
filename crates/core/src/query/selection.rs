//! The selection of a request: namespace, labels, fields, shard, CEL expression.

use std::borrow::Cow;
use std::sync::Arc;

use super::cel_filter::CelFilter;
use super::simplify::{self, Values};
use crate::extract::FieldRef;
use crate::selector::{LabelRequirement, LabelSelector, Operator, Shard, TestedValues};
use crate::store::Object;

/// A requirement on a field whose label `extract::Extractor` has resolved. Field selectors of requests compare with one
/// value, those of Views also with several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field.
    pub field: FieldRef,
    /// How its values compare.
    pub operator: Operator,
}

/// A selection over one resource. All parts must match; the default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only objects of this namespace; `None`: all.
    pub namespace: Option<String>,
    /// Label requirements.
    pub labels: LabelSelector,
    /// Field requirements.
    pub fields: Vec<FieldTerm>,
    /// Only objects of this shard; `None`: all.
    pub shard: Option<Arc<Shard>>,
    /// Only objects for which this expression is true; `None`: all.
    pub cel: Option<Arc<CelFilter>>,
}

/// How objects are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessPath {
    /// By posting lists, by the range of keys of a namespace, or by name: the cost depends on the number of hits.
    Index,
    /// Every object of the resource is walked, because every one is selected.
    Scan,
}

impl AccessPath {
    /// `index` or `scan`.
    pub fn as_str(self) -> &'static str {
        match self {
            AccessPath::Index => "index",
            AccessPath::Scan => "scan",
        }
    }
}

impl Selection {
    /// Whether the selection has a label or field requirement, a shard, or an expression. A namespace does not count.
    pub fn is_selective(&self) -> bool {
        !self.labels.requirements.is_empty() || !self.fields.is_empty() || self.shard.is_some() || self.cel.is_some()
    }

    /// The approximate memory of the selection, in bytes.
    pub fn held_bytes(&self) -> usize {
        let shard = self.shard.as_ref().map_or(0, |shard| shard.held_bytes());
        let cel = self.cel.as_ref().map_or(0, |cel| cel.held_bytes());
        self.requirement_bytes() + shard + cel
    }

    /// The approximate memory of the requirements on labels and fields, in bytes.
    pub(super) fn requirement_bytes(&self) -> usize {
        // Each string has an allocation of its own.
        const TEXT: usize = size_of::<String>() + 16;
        let texts = |values: &[String]| values.iter().map(|value| TEXT + value.len()).sum::<usize>();
        let labels = self.labels.requirements.iter().map(|requirement| {
            size_of_val(requirement) + TEXT + requirement.key.len() + texts(requirement.operator.listed())
        });
        let fields = self.fields.iter().map(|term| size_of_val(term) + texts(term.operator.listed()));
        labels.sum::<usize>() + fields.sum::<usize>()
    }

    /// How the selected objects are found: through an index, or by a scan because nothing narrows the selection.
    pub fn access(&self) -> AccessPath {
        let narrows = |term: &FieldTerm| term.field != FieldRef::Empty || !term.matches_absent();
        let narrowed = self.namespace.is_some()
            || !self.labels.requirements.is_empty()
            || self.fields.iter().any(narrows)
            || self.shard.is_some()
            || self.cel.as_ref().is_some_and(|cel| cel.is_indexed());
        if narrowed { AccessPath::Index } else { AccessPath::Scan }
    }

    /// Whether the object meets all requirements of the selection, apart from its expression. This is the reference:
    /// results of plans and events of watches must agree with it. The expression is only evaluated in turns:
    /// [`CompactSelection::test`](super::CompactSelection::test).
    pub fn meets_requirements(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| object.namespace() == namespace)
            && self.labels.requirements.iter().all(|requirement| requirement.matches(object.label(&requirement.key)))
            && self.fields.iter().all(|term| term.matches(object))
            && self.shard.as_ref().is_none_or(|shard| shard.selects(object.uid_hash(), object.namespace()))
    }
}

impl Selection {
    /// The selection with the requirements that an object must meet if the expression is true for it, apart from objects
    /// with unknown values of a field.
    pub fn with_requirements_of_cel(&self) -> Cow<'_, Selection> {
        let Some(cel) = &self.cel else { return Cow::Borrowed(self) };
        let mut selection = self.clone();
        for Selection { labels, fields, .. } in cel.requirements() {
            selection.labels.requirements.extend(labels.requirements);
            selection.fields.extend(fields);
        }
        Cow::Owned(selection)
    }

    /// The selection with as few requirements as possible. A client may repeat a requirement thousands of times, and
    /// each one takes memory, and time in planning and comparison. See `query::simplify`.
    #[must_use]
    pub fn simplified(mut self) -> Selection {
        let labels = &mut self.labels.requirements;
        if labels.len() > 1 {
            let terms = labels.drain(..).map(|LabelRequirement { key, operator }| (key, operator));
            let requirement = |(key, operator)| LabelRequirement { key, operator };
            *labels = simplify::simplified(terms, |_| Values::OneLabel).into_iter().map(requirement).collect();
        }
        if self.fields.len() > 1 {
            let terms = self.fields.drain(..).map(|FieldTerm { field, operator }| (field, operator));
            let values = |field: &FieldRef| match field {
                FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => Values::OneOfField,
                FieldRef::Field(_) => Values::Several,
            };
            let mut fields = Vec::new();
            for (field, mut operator) in simplify::simplified(terms, values) {
                // Objects without a namespace are found by a set of its own.
                if let Operator::NotIn(values) = &mut operator
                    && field == FieldRef::Namespace
                    && values.len() > 1
                {
                    let before = values.len();
                    values.retain(|value| !value.is_empty());
                    if values.len() < before {
                        fields.push(FieldTerm::new(field, Operator::not_equal_to("")));
                    }
                }
                fields.push(FieldTerm::new(field, operator));
            }
            self.fields = fields;
        }
        self
    }
}

impl FieldTerm {
    /// A term about a field.
    pub fn new(field: FieldRef, operator: Operator) -> FieldTerm {
        FieldTerm { field, operator }
    }

    /// The value that the field must have; `None` if the term accepts other values or several.
    pub fn equals(&self) -> Option<&str> {
        self.operator.demanded()
    }

    /// Whether the object satisfies the term. On a field with several values, `In` means "some value" and `NotIn` means
    /// "no value". An object whose values are unknown satisfies no term.
    pub fn matches(&self, object: &Object) -> bool {
        match self.field {
            FieldRef::Name => self.operator.matches_field(|found| found(object.name())),
            FieldRef::Namespace => self.operator.matches_field(|found| found(object.namespace())),
            // For an object with many values, each of the few listed values is looked up.
            FieldRef::Field(index) => {
                let matches = match self.operator.values() {
                    TestedValues::Listed(values) if object.has_many_texts() => {
                        values.iter().any(|value| object.has_value(index, value)) != self.operator.is_negative()
                    }
                    TestedValues::WithPrefix(prefix) if object.has_many_texts() => {
                        object.has_value_with_prefix(index, prefix) != self.operator.is_negative()
                    }
                    TestedValues::Listed(_)
                    | TestedValues::Any
                    | TestedValues::Integers(_)
                    | TestedValues::WithPrefix(_) => {
                        self.operator.matches_field(|found| object.values(index).any(found))
                    }
                };
                matches && !(self.operator.is_negative() && object.has_unknown(index))
            }
            FieldRef::Empty => self.operator.matches_field(|found| found("")),
        }
    }

    /// Whether the term selects an object that lacks the field, which for [`FieldRef::Empty`] is every object.
    pub fn matches_absent(&self) -> bool {
        self.operator.matches_field(|found| found(""))
    }
}
