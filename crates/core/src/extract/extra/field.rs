//! An extra field, compiled.

use std::sync::Arc;

use crate::extract::field::Field;
use crate::extract::trie::{PathStep, is_many};

/// A field that has been accepted, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledField {
    field: Field,
    /// Shared with the extractors.
    steps: Arc<[PathStep]>,
}

impl CompiledField {
    /// A field whose value is at these steps.
    pub(in crate::extract) fn new(field: Field, steps: Vec<PathStep>) -> CompiledField {
        CompiledField { field, steps: steps.into() }
    }

    /// The name that selectors use.
    pub fn name(&self) -> &str {
        &self.field.label
    }

    /// Whether an object can have several values of the field.
    pub fn is_many(&self) -> bool {
        is_many(&self.steps)
    }

    /// The field as an extractor has it.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// The steps to the values of the field.
    pub(in crate::extract) fn steps(&self) -> &Arc<[PathStep]> {
        &self.steps
    }
}

/// The paths of all fields together have too many steps, or their wildcards overlap in too many ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the paths of this field and the fields before it are too long, or have too many overlapping wildcards: use fewer wildcards, shorter paths or fewer fields"
)]
pub struct TooComplex;
