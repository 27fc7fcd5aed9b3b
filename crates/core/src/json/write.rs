//! JSON with the bytes that a Go server writes: `<`, `>`, `&`, U+2028 and U+2029 escaped, numbers as encoding/json
//! prints them.
//!
//! Objects read from a cluster have this form already. JSON from this module must not differ: the JavaScript client
//! splits the lines of a watch at a bare U+2028. Keys come out in alphabetical order, as Go writes maps.

use serde_json::Value;

use crate::model::float;

/// Writes a JSON string with Go's escapes.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut done = 0;
    loop {
        // Bytes that need no escape are copied together; most texts need none at all.
        let plain = plain_length(&bytes[done..]);
        out.extend_from_slice(&bytes[done..done + plain]);
        done += plain;
        let Some(byte) = bytes.get(done) else { break };
        done += match (byte, bytes.get(done + 1..done + 3)) {
            // U+2028 and U+2029.
            (0xe2, Some([0x80, last @ (0xa8 | 0xa9)])) => {
                out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                3
            }
            (byte, _) => {
                write_byte(*byte, out);
                1
            }
        };
    }
    out.push(b'"');
}

/// The number of bytes before the first one that may need an escape. Blocks are compared without a branch for each
/// byte, as a text can be a megabyte that is written for thousands of clients.
fn plain_length(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let is_plain = |block: &&[u8]| !block.iter().fold(false, |any, byte| any | may_need_escape(*byte));
    let plain = bytes.chunks_exact(BLOCK).take_while(is_plain).count() * BLOCK;
    plain + bytes[plain..].iter().position(|byte| may_need_escape(*byte)).unwrap_or(bytes.len() - plain)
}

/// Whether a byte needs an escape, or begins a character that may need one.
fn may_need_escape(byte: u8) -> bool {
    // 0xe2 begins U+2028 and U+2029, among others.
    (byte < 0x20) | (byte == b'"') | (byte == b'\\') | (byte == b'<') | (byte == b'>') | (byte == b'&') | (byte == 0xe2)
}

/// Writes a byte for which [`may_need_escape`] holds, and which does not begin U+2028 or U+2029.
fn write_byte(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0x8 => out.extend_from_slice(b"\\b"),
        0xc => out.extend_from_slice(b"\\f"),
        0xe2 => out.push(byte),
        other => {
            let (high, low) = (DIGITS[usize::from(other >> 4)], DIGITS[usize::from(other & 15)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    }
}

/// Writes a value as compact JSON with Go's escapes.
pub fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => out.extend_from_slice(float::json(float).as_bytes()),
            None => out.extend_from_slice(number.to_string().as_bytes()),
        },
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write_value(member, out);
            }
            out.push(b'}');
        }
    }
}

/// A value as compact JSON with Go's escapes.
pub fn json_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(value, &mut out);
    out
}

/// Like [`json_bytes`], as a string.
pub fn to_text(value: &Value) -> String {
    String::from_utf8(json_bytes(value)).expect("JSON that is written of texts must be UTF-8")
}
