//! Why the spec of an object of our kinds is not in memory.

/// Why the spec was left out. An object without its spec is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// This release cannot read the object, for this reason.
    Unreadable(String),
    /// The spec has more bytes than one object may have.
    TooLong,
    /// Older objects of the kind take all the memory that there is for their specs.
    CrowdedOut,
}
