//! Resolves the field selector of a request: finds the field of each field label, and checks that the operator suits
//! the field.

use super::selection::FieldTerm;
use crate::extract::{Extractor, FieldRef, UnsupportedLabel};
use crate::selector::{FieldRequirement, FieldSelector, Operand};

/// The terms of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedFields {
    /// The terms.
    pub terms: Vec<FieldTerm>,
    /// Whether the selector has an operator that kube-apiserver does not have, so that kube-apiserver would reject it.
    pub is_extended: bool,
}

/// Why a field selector does not suit a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsuitableSelector {
    /// The resource does not have a field.
    #[error(transparent)]
    Label(#[from] UnsupportedLabel),
    /// An operator compares integers, and the field has values of another type.
    #[error(
        "the operator of {requirement:?} compares integers, and the field {label} has values of type {kind}: use =, \
         !=, in, notin or ^="
    )]
    NotIntegers {
        /// The requirement in the text form.
        requirement: String,
        /// The label of the field, such as `spec.nodeName`.
        label: String,
        /// The type of the field: `string` or `boolean`.
        kind: String,
    },
}

impl ResolvedFields {
    /// Resolves a selector by the fields of a resource. A text can have two readings: that of kube-apiserver
    /// (`requirements`), and one with further operators (`extended`). The first one applies if each of its requirements
    /// suits the resource.
    ///
    /// # Errors
    /// The first requirement that does not suit the resource.
    pub fn new(selector: FieldSelector, extractor: &Extractor) -> Result<ResolvedFields, UnsuitableSelector> {
        let FieldSelector { requirements, extended, is_extended } = selector;
        let resolve = |requirements: Vec<FieldRequirement>| {
            requirements.into_iter().map(|requirement| term(requirement, extractor)).collect::<Result<Vec<_>, _>>()
        };
        match (resolve(requirements), extended) {
            (Err(_), Some(extended)) => Ok(ResolvedFields { terms: resolve(extended)?, is_extended: true }),
            (terms, _) => Ok(ResolvedFields { terms: terms?, is_extended }),
        }
    }
}

/// Resolves one requirement.
///
/// # Errors
/// The resource does not have the field, or the operator compares integers and the field has other values.
fn term(requirement: FieldRequirement, extractor: &Extractor) -> Result<FieldTerm, UnsuitableSelector> {
    let field = extractor.resolve(&requirement.label)?;
    let is_integer = matches!(field, FieldRef::Field(index) if extractor.is_integer(index));
    if matches!(requirement.operator.operand(), Operand::Number(_)) && !is_integer {
        let kind = match field {
            FieldRef::Field(index) => extractor.fields().get(usize::from(index.0)).map(|field| field.kind.clone()),
            FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => None,
        };
        return Err(UnsuitableSelector::NotIntegers {
            requirement: requirement.to_string(),
            label: requirement.label,
            kind: kind.unwrap_or_else(|| "string".to_owned()),
        });
    }
    Ok(FieldTerm::new(field, requirement.operator))
}
