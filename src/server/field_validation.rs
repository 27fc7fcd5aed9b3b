//! Reads `?fieldValidation=` of a request that creates a review.

use crate::placement_service::field_validation::FieldValidation;
use crate::request::Query;
use crate::wire::api_error::{ApiError, OptionFault, OptionProblem};

/// The value of `?fieldValidation=`, by default Warn.
///
/// # Errors
/// 422 for a value that kube-apiserver does not support.
pub(super) fn read(query: &Query) -> Result<FieldValidation, ApiError> {
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
