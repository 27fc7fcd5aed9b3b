//! Why the spec of a FieldCache or View is not in memory.

/// Why the spec of an object is not in memory. Such an object is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// This release cannot read the object, for this reason.
    Unreadable(String),
    /// The spec has more bytes than one object may have.
    TooLong,
    /// Older objects of the kind take all the memory that specs of the kind may take.
    CrowdedOut,
}
