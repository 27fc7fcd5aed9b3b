//! The extra fields of one resource, with the extractor that has them.

use std::ops::Deref;
use std::sync::Arc;

use super::field::{CompiledField, TooComplex};
use crate::extract::extractor::Extractor;

/// The fields that were accepted for an extractor, and the extractor with these fields. Merging their paths takes time,
/// so it is done once. Clones share everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraFields(Option<Arc<Extended>>);

/// Accepted fields, with their extractors.
#[derive(Debug, PartialEq, Eq)]
struct Extended {
    fields: Vec<CompiledField>,
    /// The extractor without these fields.
    own: Extractor,
    /// The extractor with these fields.
    whole: Extractor,
}

impl ExtraFields {
    /// Fields that were accepted for the extractor `own`. `whole` is that extractor with the fields.
    pub(super) fn new(fields: Vec<CompiledField>, own: Extractor, whole: Extractor) -> ExtraFields {
        ExtraFields(Some(Arc::new(Extended { fields, own, whole })))
    }

    /// A copy of an extractor of the resource with these fields.
    ///
    /// If the resource itself now has a field with the name of an extra field, the extra field is left out.
    ///
    /// # Errors
    /// [`TooComplex`]: the fields cannot be added. This is only possible for another extractor than the one for which
    /// they were accepted.
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
