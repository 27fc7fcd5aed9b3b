//! Bounds of extra fields, and why one is left out.

/// Most extra fields of one resource.
pub const MAX_EXTRA_FIELDS: usize = 32;
/// Longest path, in characters.
pub const MAX_PATH: usize = 512;
/// Longest name, in characters.
pub const MAX_NAME: usize = 63;

/// Why a field is left out, or why the list is not valid as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ExtraFieldError {
    /// The entry's field, such as `spec.selectableFields[0].jsonPath`.
    pub place: String,
    /// The path, the column or, failing both, the name as it is written.
    pub written: String,
    /// Machine-readable reason.
    pub reason: ExtraFieldReason,
    /// Cause and remedy: a sentence without a full stop.
    pub message: String,
}

/// Why a field is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExtraFieldReason {
    /// There are more than [`MAX_EXTRA_FIELDS`].
    TooManyFields,
    /// The name is no lower-case DNS label.
    InvalidName,
    /// An earlier field has the same name.
    DuplicateName,
    /// The API server has a field label of that name.
    NameTaken,
    /// There is no path, or there are two.
    PathAmbiguous,
    /// The path cannot be read.
    InvalidPath,
    /// The path can be read and has parts that are not supported.
    UnsupportedPath,
    /// The schema has no such path.
    PathNotFound,
    /// The value at the path is no string, boolean or integer.
    TypeNotSelectable,
    /// The value at the path is selectable already, or is the same in all objects.
    Pointless,
    /// The definition has no such column.
    ColumnNotFound,
    /// The paths or wildcards of all fields together are too many.
    TooComplex,
}

impl ExtraFieldReason {
    /// The reason of a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            ExtraFieldReason::TooManyFields => "TooManyFields",
            ExtraFieldReason::InvalidName => "InvalidName",
            ExtraFieldReason::DuplicateName => "DuplicateName",
            ExtraFieldReason::NameTaken => "NameTaken",
            ExtraFieldReason::PathAmbiguous => "PathAmbiguous",
            ExtraFieldReason::InvalidPath => "InvalidPath",
            ExtraFieldReason::UnsupportedPath => "UnsupportedPath",
            ExtraFieldReason::PathNotFound => "PathNotFound",
            ExtraFieldReason::TypeNotSelectable => "TypeNotSelectable",
            ExtraFieldReason::Pointless => "Pointless",
            ExtraFieldReason::ColumnNotFound => "ColumnNotFound",
            ExtraFieldReason::TooComplex => "TooComplex",
        }
    }
}

/// A violated rule, without the field that violates it.
pub(super) struct Violation {
    pub(super) reason: ExtraFieldReason,
    pub(super) message: String,
}

impl Violation {
    pub(super) fn new(reason: ExtraFieldReason, message: impl Into<String>) -> Violation {
        Violation { reason, message: message.into() }
    }
}
