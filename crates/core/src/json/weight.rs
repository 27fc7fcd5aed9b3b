//! The memory that the value of a JSON text takes, computed from the text alone. The author of a text decides how much
//! that is.
//!
//! A [`Value`] takes far more than its text. An object of one member has a B-tree node with capacity for eleven, so
//! `{"":` and `}` make 640 bytes of five. Bounds of texts from others are therefore bounds of their values as well. A
//! value is only built after its text was found to be within the bound.

use std::cmp::Ordering;

use serde_json::Value;

/// The memory of a node of an object's B-tree, in bytes. It has capacity for [`NODE_MEMBERS`] members.
const NODE: usize = 640;

/// The number of members that fit in one node.
const NODE_MEMBERS: usize = 11;

/// The memory of the two further nodes when the first one is full: another leaf, and a root above both; in bytes.
const SPLIT: usize = NODE + 736;

/// The memory of a further member of an object, in bytes. Nodes are split when they are full, so they may be little
/// more than half full.
const MEMBER: usize = 128;

/// The memory of a list that is not empty, in bytes: it begins with capacity for four items.
const LIST: usize = 128;

/// The memory of a further item of a list, in bytes. The capacity of a list doubles when it is full.
const ITEM: usize = 64;

/// The memory of a string, in bytes, without its text: it is an allocation, however short it is.
const TEXT: usize = 16;

/// The reason why a JSON text was not parsed to a value.
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

/// Whether the value of a JSON text takes at most `most` bytes of memory. For bytes that are not JSON: whether a parser
/// takes at most this much before it fails.
pub fn is_within(json: &[u8], most: usize) -> bool {
    memory_of(json, most) <= most
}

/// An upper bound of the memory of a JSON text's value, in bytes. If it is more than `most`, the result is some number
/// above `most`.
pub fn memory_of(json: &[u8], most: usize) -> usize {
    // All strings together are no longer than the JSON text.
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
                rest = after_string(rest);
                TEXT
            }
            b'{' | b'[' => {
                // The memory that is counted for each container bounds the length of this list too.
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

/// The bytes after the closing quote of a string; `rest` begins inside the string. Empty if the string does not end.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}

/// Parses a value that takes at most `most` bytes of memory.
///
/// # Errors
/// The value would take more memory, or the text is not JSON.
pub fn value_within(json: &[u8], most: usize) -> Result<Value, Overweight> {
    if !is_within(json, most) {
        return Err(Overweight::TooMuch(most));
    }
    serde_json::from_slice(json).map_err(|error| Overweight::Syntax(error.to_string()))
}
