//! How strictly a review is read: what happens to fields of its Pod or workload that do not exist.
//!
//! The directives are kube-apiserver's for every create (`endpoints/handlers/create.go`, apimachinery `ValidateFieldValidation`). Which fields
//! exist is [`crate::placement::unknown`]'s; the review's own fields are always read strictly, by [`super::decode`].

/// The directive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown fields are not reported.
    Ignore,
    /// The response has warnings.
    #[default]
    Warn,
    /// The review is rejected.
    Strict,
}
