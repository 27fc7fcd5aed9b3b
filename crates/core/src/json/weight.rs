//! The memory that the value of a JSON text takes, computed from the text alone. The author of a text decides how much
//! that is.
//!
//! A [`Value`] takes far more than its text. An object of one member has a B-tree node with capacity for eleven, so
//! `{"":` and `}` make 640 bytes of five. Bounds of texts from others are therefore bounds of their values as well. A
//! value is only built after its text was found to be within the bound.

use std::cmp::Ordering;

use serde_json::Value;

/// A node of the B-tree of an object, in bytes: it has capacity for eleven members.
const NODE: usize = 640;

/// Members that fit one node.
const NODE_MEMBERS: usize = 11;

/// Where one node is full, there are a second one and one above both.
const SPLIT: usize = NODE + 736;

/// A further member of an object. Nodes are split when they are full, so they may be little more than half full.
const MEMBER: usize = 128;

/// A list with items has capacity for four at once.
const LIST: usize = 128;

/// A further item of a list, whose capacity doubles.
const ITEM: usize = 64;

/// A text is an allocation of its own, however short it is.
const TEXT: usize = 16;

/// Why no value was built of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Overweight {
    /// The value would take more than this many bytes.
    #[error("its values would take more than {0} bytes of memory")]
    TooMuch(usize),
    /// The text is not JSON.
    #[error("{0}")]
    Syntax(String),
}

/// A container that is not closed yet.
#[derive(Clone, Copy)]
struct Open {
    is_map: bool,
    commas: usize,
}

/// Whether the value of a JSON text takes at most this many bytes of memory. For bytes that are not JSON, it bounds
/// what a parser builds before it fails.
pub fn is_within(json: &[u8], most: usize) -> bool {
    memory_of(json, most) <= most
}

/// An upper bound of the memory of a JSON text's value, in bytes. If it is more than `most`, the result is some number
/// above `most`.
pub fn memory_of(json: &[u8], most: usize) -> usize {
    // All texts together are no longer than the JSON.
    let mut memory = json.len();
    let mut open: Vec<Open> = Vec::new();
    let mut rest = json;
    while memory <= most {
        let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']' | b',')) else {
            break;
        };
        let byte = rest[at];
        rest = &rest[at + 1..];
        memory += match byte {
            b'"' => {
                rest = behind_text(rest);
                TEXT
            }
            b'{' | b'[' => {
                // Each one that is counted here has paid for its place in this list.
                open.push(Open { is_map: byte == b'{', commas: 0 });
                let next = rest.iter().find(|byte| !byte.is_ascii_whitespace());
                match byte {
                    b'{' if next == Some(&b'}') => 0,
                    b'[' if next == Some(&b']') => 0,
                    b'{' => NODE,
                    _ => LIST,
                }
            }
            b',' => match open.last_mut() {
                Some(Open { is_map: true, commas }) => {
                    *commas += 1;
                    match (*commas).cmp(&NODE_MEMBERS) {
                        Ordering::Less => 0,
                        Ordering::Equal => SPLIT,
                        Ordering::Greater => MEMBER,
                    }
                }
                Some(Open { is_map: false, .. }) => ITEM,
                None => 0,
            },
            _ => {
                open.pop();
                0
            }
        };
    }
    memory
}

/// The bytes after the end of a string, from a position inside of it.
fn behind_text(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}

/// Parses a value that takes at most this many bytes of memory.
///
/// # Errors
/// [`Overweight`].
pub fn value_within(json: &[u8], most: usize) -> Result<Value, Overweight> {
    if !is_within(json, most) {
        return Err(Overweight::TooMuch(most));
    }
    serde_json::from_slice(json).map_err(|error| Overweight::Syntax(error.to_string()))
}
