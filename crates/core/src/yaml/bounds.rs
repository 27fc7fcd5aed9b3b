//! Bounds of documents in the style of kubectl.

/// Levels of objects and lists in block style. Deeper values are printed as JSON on one line (flow style). A line of
/// depth n costs 2n spaces, so otherwise the length would grow with the square of the depth.
pub const DEEPEST: usize = 100;

/// Values of a document in block style. One with more is printed on one line, which takes no memory for each value.
pub const MOST_VALUES: usize = 1 << 17;

/// Memory for each value while a document is written: its node, and its key where it is a member.
pub const VALUE_COST: u64 = 128;
