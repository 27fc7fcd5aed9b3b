//! The extra fields of one resource, with the extractor that has them.

use std::ops::Deref;
use std::sync::Arc;

use super::field::{CompiledField, TooComplex};
use crate::extract::extractor::Extractor;

/// The fields that were accepted for an extractor, and that extractor with them. Merging their paths takes time, so it
/// is done once. Clones share everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraFields(Option<Arc<Extended>>);

#[derive(Debug, PartialEq, Eq)]
struct Extended {
    fields: Vec<CompiledField>,
    /// The extractor without them.
    own: Extractor,
    /// The extractor with them.
    whole: Extractor,
}

impl ExtraFields {
    /// Fields of the extractor `own`, and `whole`, which is that extractor with them.
    pub(super) fn new(fields: Vec<CompiledField>, own: Extractor, whole: Extractor) -> ExtraFields {
        ExtraFields(Some(Arc::new(Extended { fields, own, whole })))
    }

    /// Adds these fields to an extractor of the resource.
    ///
    /// A field is left out if the resource itself has a field of its name by now: the resource's own field takes
    /// precedence.
    ///
    /// # Errors
    /// [`TooComplex`], if the extractor is another one than the one for which they were accepted.
    pub fn extend(&self, extractor: &Extractor) -> Result<Extractor, TooComplex> {
        let Some(extended) = &self.0 else { return Ok(extractor.clone()) };
        if extended.own == *extractor {
            return Ok(extended.whole.clone());
        }
        let is_free = |field: &&CompiledField| extractor.resolve(field.name()).is_err();
        extractor.with_extra(&extended.fields.iter().filter(is_free).cloned().collect::<Vec<CompiledField>>())
    }
}

impl Deref for ExtraFields {
    type Target = [CompiledField];

    fn deref(&self) -> &[CompiledField] {
        self.0.as_ref().map_or(&[], |extended| &extended.fields)
    }
}
