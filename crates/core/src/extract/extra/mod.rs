//! Extra fields, which a FieldCache makes selectable in addition to those of the API server: validated and compiled.
//!
//! Map: `dialect` parses a path (RFC 9535, or the one of a printer column) into steps; `walk` follows the steps over
//! the schema. [`mod@accept`] applies every rule and reports, for each field that is left out, the reason and the
//! remedy. It repeats the checks of the definition's CEL rules, because a FieldCache may come from a file.
//! [`super::extractor`] finds the values in an object.

mod accept;
mod dialect;
pub(super) mod field;
mod fields;
mod problem;
mod walk;

pub use accept::{AcceptedFields, FieldRequest, TargetResource, accept};
pub use field::{CompiledField, TooComplex};
pub use fields::ExtraFields;
pub use problem::{ExtraFieldError, ExtraFieldReason, MAX_EXTRA_FIELDS, MAX_NAME, MAX_PATH};
