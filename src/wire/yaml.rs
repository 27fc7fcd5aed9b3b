//! Creates responses as YAML, in pieces while the client reads them: whole documents, envelopes of lists, and items.
//!
//! [`crate::yaml`] writes values as YAML.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::encode::{CHUNK, Envelope, Left, Unfinished, json_bytes, write_string};
pub(crate) use crate::yaml::YamlWriter;
pub use crate::yaml::from_json;
use crate::yaml::{MOST_VALUES, VALUE_COST};

/// Converts a JSON document to pieces of YAML. Bytes that are not JSON are returned unchanged, in one piece. Also
/// returns the memory in bytes that the document takes until it is written.
pub fn document(json: Vec<u8>) -> (impl Iterator<Item = Bytes> + Send, u64) {
    let length = json.len() as u64;
    let writer = YamlWriter::new(json, 0);
    let values = writer.values() as u64;
    let mut writer = Some(writer);
    let pieces = std::iter::from_fn(move || {
        let mut out = Vec::new();
        let current = writer.as_mut()?;
        if current.fill(CHUNK, &mut out) {
            if current.is_valid() {
                out.push(b'\n');
            }
            writer = None;
        }
        Some(Bytes::from(out))
    });
    (pieces, length + values * VALUE_COST)
}

/// Converts the envelope of a list from JSON to YAML. `is_empty`: the list has no items, so it is written as `[]`.
pub fn list_envelope(json: &Envelope, is_empty: bool) -> Envelope {
    let whole = [&*json.head, &*json.tail].concat();
    let members: Map<String, Value> = serde_json::from_slice(&whole).unwrap_or_default();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for (key, value) in &members {
        let is_list = key == "items" || key == "rows";
        // The members up to the list are the head, and those after it the tail.
        let side = if is_list || tail.is_empty() && !has_list_before(&members, key) { &mut head } else { &mut tail };
        if is_list && !is_empty {
            side.extend_from_slice(format!("{key}:\n").as_bytes());
        } else {
            let mut member = vec![b'{'];
            write_string(key, &mut member);
            member.push(b':');
            member.extend_from_slice(&json_bytes(value));
            member.push(b'}');
            side.extend_from_slice(&from_json(&member));
        }
    }
    Envelope { head, tail }
}

/// Whether `items` or `rows` precedes this key.
fn has_list_before(members: &Map<String, Value>, key: &str) -> bool {
    members.keys().take_while(|name| *name != key).any(|name| name == "items" || name == "rows")
}

/// Writes the first part of a list item to a chunk, and returns the rest of it. `json`: the item.
pub fn begin_item(json: Vec<u8>, out: &mut Vec<u8>) -> Left {
    out.extend_from_slice(b"- ");
    super::encode::begin(Item(YamlWriter::new(json, 2)), out)
}

/// Writes an item of a list, with a line break at its end.
struct Item(YamlWriter);

impl Unfinished for Item {
    fn fill(&mut self, target: usize, out: &mut Vec<u8>) -> bool {
        let is_done = self.0.fill(target, out);
        if is_done {
            out.push(b'\n');
        }
        is_done
    }
}

/// The most memory, in bytes, that an item takes while a list is written. `length`: the length of the item as JSON.
pub fn most_held(length: u64) -> u64 {
    // Each value takes at least two bytes of JSON.
    length + (length / 2).min(MOST_VALUES as u64) * VALUE_COST
}
