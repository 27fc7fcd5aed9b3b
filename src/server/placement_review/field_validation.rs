//! `?fieldValidation=`: what becomes of fields that do not exist in the Pod or the workload of a review.
//!
//! As kube-apiserver has it for every create (`endpoints/handlers/create.go`, apimachinery `ValidateFieldValidation`). Which fields
//! there are is [`crate::placement::unknown`]'s; the review's own are always judged strictly, by `decode`.

use crate::request::Query;
use crate::server::api_error::{ApiError, OptionFault, OptionProblem};

/// The directive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Nothing is said of them.
    Ignore,
    /// The answer comes with warnings.
    #[default]
    Warn,
    /// The review is refused.
    Strict,
}

impl FieldValidation {
    /// Of a request.
    ///
    /// # Errors
    /// 422 for a value that is none of the known ones.
    pub(in crate::server) fn of(query: &Query) -> Result<FieldValidation, ApiError> {
        match query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            value => {
                let supported = &["", "Ignore", "Strict", "Warn"];
                let problem = OptionProblem::NotSupported { value: value.to_owned(), supported };
                Err(ApiError::InvalidCreateOptions(vec![OptionFault { field: "fieldValidation", problem }]))
            }
        }
    }
}
