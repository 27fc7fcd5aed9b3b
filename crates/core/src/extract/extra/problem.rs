//! Bounds of extra fields, and the reasons why one is left out.

/// The maximum number of extra fields of one resource.
pub const MAX_EXTRA_FIELDS: usize = 32;
/// The maximum length of a path, in characters.
pub const MAX_PATH: usize = 512;
/// The maximum length of a name, in characters.
pub const MAX_NAME: usize = 63;

/// An error about a field that is left out, or about the whole list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ExtraFieldError {
    /// The entry's field, such as `spec.selectableFields[0].jsonPath`.
    pub place: String,
    /// The path or the column as it is written; the name if the entry has neither or both.
    pub written: String,
    /// Machine-readable reason.
    pub reason: ExtraFieldReason,
    /// The cause and how to fix it: a sentence without a full stop.
    pub message: String,
}

/// The reason why a field is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExtraFieldReason {
    /// There are more than [`MAX_EXTRA_FIELDS`].
    TooManyFields,
    /// The name is not a lower-case DNS label.
    InvalidName,
    /// An earlier field has the same name.
    DuplicateName,
    /// The API server has a field label of that name.
    NameTaken,
    /// The entry has neither a path nor a printer column, or both.
    PathAmbiguous,
    /// The path cannot be parsed, or is too long.
    InvalidPath,
    /// The path is valid, but has parts that are not supported.
    UnsupportedPath,
    /// The schema has no such path.
    PathNotFound,
    /// The value at the path is not a string, boolean or integer.
    TypeNotSelectable,
    /// The value at the path is already selectable, is the same in all objects, or changes with every write.
    Pointless,
    /// The resource has no such printer column.
    ColumnNotFound,
    /// The paths of all fields together are too long, or have too many overlapping wildcards.
    TooComplex,
}

impl ExtraFieldReason {
    /// The text of the reason in a condition of a FieldCache.
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
