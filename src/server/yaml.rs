//! JSON -> YAML in block style, as `kubectl -o yaml` and the API server show it: sorted keys, lists not indented.
//!
//! Only what JSON can say: no anchors, no tags, one document. Scalars are plain where every YAML 1.1 and 1.2 reader
//! takes them for the same string, literal blocks where they have several plain lines, else quoted as JSON is, which
//! YAML reads too. A list is written item by item like its JSON form.

use serde_json::{Map, Value};

use super::encode::{Envelope, write_string};

/// A JSON document as YAML. Bytes that are no JSON, which a store never holds, come out as they are.
pub fn from_json(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    match serde_json::from_slice(json) {
        Ok(value) => {
            write_block(&value, 0, &mut out);
            out.push(b'\n');
        }
        Err(_) => out.extend_from_slice(json),
    }
    out
}

/// The YAML form of a list's envelope: what stands before and after the items.
pub fn list_envelope(json: &Envelope, is_empty: bool) -> Envelope {
    let whole = [&*json.head, &*json.tail].concat();
    let members: Map<String, Value> = serde_json::from_slice(&whole).unwrap_or_default();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for (key, value) in &members {
        let is_list = key == "items" || key == "rows";
        let side = if is_list || tail.is_empty() && !has_list_before(&members, key) { &mut head } else { &mut tail };
        if is_list && !is_empty {
            side.extend_from_slice(format!("{key}:\n").as_bytes());
        } else {
            write_member(key, value, 0, side);
            side.push(b'\n');
        }
    }
    Envelope { head, tail }
}

fn has_list_before(members: &Map<String, Value>, key: &str) -> bool {
    members.keys().take_while(|held| *held != key).any(|held| held == "items" || held == "rows")
}

/// Turns a writer of JSON items into one of YAML items.
pub fn item_writer<Item>(mut write_json: impl FnMut(Item, &mut Vec<u8>)) -> impl FnMut(Item, &mut Vec<u8>) {
    let mut json = Vec::new();
    move |item, out| {
        json.clear();
        write_json(item, &mut json);
        out.extend_from_slice(b"- ");
        match serde_json::from_slice(&json) {
            Ok(value) => write_block(&value, 2, out),
            Err(_) => out.extend_from_slice(&json),
        }
        out.push(b'\n');
    }
}

/// Writes a value whose first line stands where the cursor is and whose other lines are indented by `indent`.
fn write_block(value: &Value, indent: usize, out: &mut Vec<u8>) {
    match value {
        Value::Object(members) if members.is_empty() => out.extend_from_slice(b"{}"),
        Value::Array(items) if items.is_empty() => out.extend_from_slice(b"[]"),
        Value::Object(members) => {
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    break_line(indent, out);
                }
                write_member(key, member, indent, out);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    break_line(indent, out);
                }
                out.extend_from_slice(b"- ");
                write_block(item, indent + 2, out);
            }
        }
        Value::String(text) => write_scalar(text, indent, out),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(_) | Value::Number(_) => out.extend_from_slice(value.to_string().as_bytes()),
    }
}

fn write_member(key: &str, value: &Value, indent: usize, out: &mut Vec<u8>) {
    if is_plain(key) {
        out.extend_from_slice(key.as_bytes());
    } else {
        write_string(key, out);
    }
    out.push(b':');
    match value {
        Value::Object(members) if !members.is_empty() => {
            break_line(indent + 2, out);
            write_block(value, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            break_line(indent, out);
            write_block(value, indent, out);
        }
        Value::String(text) => {
            out.push(b' ');
            write_scalar(text, indent + 2, out);
        }
        _ => {
            out.push(b' ');
            write_block(value, indent, out);
        }
    }
}

fn write_scalar(text: &str, indent: usize, out: &mut Vec<u8>) {
    if is_plain(text) {
        out.extend_from_slice(text.as_bytes());
    } else if is_literal(text) {
        let body = text.trim_end_matches('\n');
        let chomping: &[u8] = match text.len() - body.len() {
            0 => b"|-",
            1 => b"|",
            _ => b"|+",
        };
        out.extend_from_slice(chomping);
        // Kept line breaks beyond the first are empty lines of the block.
        let lines = if text.len() > body.len() + 1 { &text[..text.len() - 1] } else { body };
        for line in lines.split('\n') {
            if line.is_empty() {
                out.push(b'\n');
            } else {
                break_line(indent, out);
                out.extend_from_slice(line.as_bytes());
            }
        }
    } else {
        write_string(text, out);
    }
}

/// Several lines of printable text of which the first is not indented.
fn is_literal(text: &str) -> bool {
    let body = text.trim_end_matches('\n');
    body.contains('\n')
        && !body.starts_with([' ', '\n'])
        && text.chars().all(|letter| {
            letter == '\n' || !letter.is_control() && !matches!(letter, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
        })
}

/// Whether every YAML reader takes the bare text for this string. Anything that might be a number, a time, a boolean
/// or null in YAML 1.1 is not plain, and neither is anything with a character that means something.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let is_word = |letter: char| {
        letter.is_ascii_alphanumeric()
            || matches!(letter, '_' | '-' | '.' | '/' | ' ' | '(' | ')' | '+' | '=' | ',' | ';' | '$' | '@' | ':')
    };
    let safe_shape = (first.is_ascii_alphabetic() || first == '/' || first == '_')
        && text.chars().all(is_word)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ");
    let reserved = matches!(
        &*text.to_ascii_lowercase(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null" | "nan" | "inf"
    );
    safe_shape && !reserved
}

fn break_line(indent: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + indent, b' ');
}
