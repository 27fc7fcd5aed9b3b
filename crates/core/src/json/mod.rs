//! JSON bytes: read in one pass and without recursion, weighed, and written as Go writes them.
//!
//! Map: [`cursor`] steps over tokens and skips values. [`text`] reads the text of a string. [`tree`] is a document as
//! nodes that refer to its bytes, and [`view`] reads its members. [`weight`] bounds the memory of a value before it is
//! built. `write` writes one, after `number` has brought its numbers into the form of an API server. All of them read
//! as Go's encoding/json does. This module does not depend on Kubernetes types.

pub mod cursor;
mod number;
pub mod text;
pub mod tree;
pub mod view;
pub mod weight;
mod write;

#[cfg(test)]
mod tests;

pub use cursor::SyntaxError;
pub use number::normalize_numbers;
pub use text::unescape;
pub use tree::InvalidJson;
pub use view::Json;
pub use write::{json_bytes, to_text, write_string, write_value};
