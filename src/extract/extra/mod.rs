//! Extra fields: what a FieldCache makes selectable beyond what the API server offers, judged and compiled.
//!
//! Map: `dialect` reads a path (RFC 9535, or the one of a printer column) into steps; `walk` follows the steps over the
//! schema. [`accept`] applies every rule and says, for each field that is left out, which one and what to do about it. What
//! CEL rules of the kind's definition check too is checked here again: a FieldCache may come out of a file.
//!
//! How the values are found in an object is [`super::plan`]'s.

mod accept;
mod dialect;
pub(in crate::extract) mod field;
mod fields;
mod problem;
mod walk;

pub use accept::{AcceptedFields, FieldRequest, TargetResource, accept};
pub use field::{ExtraField, TooComplex};
pub use fields::ExtraFields;
pub use problem::{ExtraFieldError, ExtraFieldReason, MAX_EXTRA_FIELDS, MAX_NAME, MAX_PATH};
