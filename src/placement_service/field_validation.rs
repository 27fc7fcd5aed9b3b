//! The parameter `fieldValidation`: how unknown fields of a review's Pod or workload are handled.
//!
//! The values are kube-apiserver's for every create (`endpoints/handlers/create.go`, apimachinery
//! `ValidateFieldValidation`). [`crate::placement::unknown`] knows which fields exist. [`super::decode`] always rejects
//! unknown fields of the review itself.

/// The value of the parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown fields are not reported.
    Ignore,
    /// The response has a warning for each unknown field.
    #[default]
    Warn,
    /// A review with an unknown field is rejected.
    Strict,
}
