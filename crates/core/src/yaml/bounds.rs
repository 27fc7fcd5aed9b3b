//! Bounds of documents in the style of kubectl.

/// The maximum number of levels of objects and lists in block style. Deeper values are printed as JSON on one line
/// (flow style). A line at depth n has 2n spaces, so otherwise the length would grow with the square of the depth.
pub const DEEPEST: usize = 100;

/// The maximum number of values of a document in block style. A document with more is printed on one line, which takes
/// no memory for each value.
pub const MOST_VALUES: usize = 1 << 17;

/// The approximate memory for each value while a document is written, in bytes: its node, and the key of a member.
pub const VALUE_COST: u64 = 128;
