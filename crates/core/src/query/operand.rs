//! The requirement that one set of a plan represents, and its text in an explanation.

use super::cel_filter::CelFilter;
use super::selection::FieldTerm;
use crate::extract::{Field, FieldRef};
use crate::selector::{Escapes, LabelRequirement, Shard};

/// The requirement that one set of a plan represents.
#[derive(Clone, Copy, Debug)]
pub(super) enum PlanTerm<'a> {
    Field(&'a FieldTerm),
    Label(&'a LabelRequirement),
    Namespace(&'a str),
    Shard(&'a Shard),
    Cel(&'a CelFilter),
}

impl PlanTerm<'_> {
    /// The requirement in the syntax of a selector. `fields` are those of the resource, for their labels.
    pub(super) fn in_words(self, fields: &[Field]) -> String {
        match self {
            PlanTerm::Namespace(namespace) => format!("metadata.namespace={namespace}"),
            PlanTerm::Label(requirement) => requirement.to_string(),
            PlanTerm::Shard(shard) => shard.to_string(),
            PlanTerm::Cel(cel) => format!("celSelector={}", cel.text()),
            PlanTerm::Field(term) => {
                let label = match term.field {
                    FieldRef::Name => "metadata.name",
                    FieldRef::Namespace => "metadata.namespace",
                    FieldRef::Field(index) => fields.get(usize::from(index.0)).map_or("?", |field| &field.label),
                    // It has no set, so it is in no plan.
                    FieldRef::Empty => "?",
                };
                term.operator.text(label, Escapes::NONE).to_string()
            }
        }
    }
}
