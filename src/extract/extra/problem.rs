//! Bounds of extra fields, and why one is left out.

/// Most extra fields of one resource.
pub const MAX_EXTRA_FIELDS: usize = 32;
/// Longest path, in characters.
pub const MAX_PATH: usize = 512;
/// Longest name, in characters.
pub const MAX_NAME: usize = 63;

/// A field that is left out, or a list that is wrong as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Problem {
    /// Where, such as `spec.selectableFields[0].jsonPath`.
    pub place: String,
    /// The path, the column or, failing both, the name as it is written.
    pub written: String,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, and what to do about it: a sentence without a full stop.
    pub message: String,
}

/// Why a field is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// There are more than [`MAX_EXTRA_FIELDS`].
    TooManyFields,
    /// The name is no lower-case DNS label.
    InvalidName,
    /// An earlier field has the same name.
    DuplicateName,
    /// The API server knows a field label of that name.
    NameTaken,
    /// There is no path, or there are two.
    PathAmbiguous,
    /// The path cannot be read.
    InvalidPath,
    /// The path can be read and has parts that are not supported.
    UnsupportedPath,
    /// The schema has no such path.
    PathNotFound,
    /// What the path leads to is no string, boolean or integer.
    TypeNotSelectable,
    /// What the path leads to can be selected by already, or is the same in all objects.
    Pointless,
    /// The definition has no such column.
    ColumnNotFound,
    /// The paths or wildcards of all fields together are too many.
    TooComplex,
}

impl Reason {
    /// The reason of a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::TooManyFields => "TooManyFields",
            Reason::InvalidName => "InvalidName",
            Reason::DuplicateName => "DuplicateName",
            Reason::NameTaken => "NameTaken",
            Reason::PathAmbiguous => "PathAmbiguous",
            Reason::InvalidPath => "InvalidPath",
            Reason::UnsupportedPath => "UnsupportedPath",
            Reason::PathNotFound => "PathNotFound",
            Reason::TypeNotSelectable => "TypeNotSelectable",
            Reason::Pointless => "Pointless",
            Reason::ColumnNotFound => "ColumnNotFound",
            Reason::TooComplex => "TooComplex",
        }
    }
}

/// A rule that is broken, before it is known of which field.
pub(super) struct Violation {
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl Violation {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Violation {
        Violation { reason, message: message.into() }
    }
}
