//! The style of `kubectl -o yaml`: scalars, keys and values on one line. Every reader of YAML 1.1 and 1.2 reads this
//! form as the same JSON.

use super::line::break_line;
use crate::json::{unescape, write_string};
use crate::model::float;

/// The maximum length in bytes of a key that is written without a question mark. YAML parsers accept at most 1,024
/// characters in such a key.
const LONGEST_SHORT_KEY: usize = 500;

/// Writes the JSON of an object or list on one line. JSON is valid YAML, except for some escapes in strings and for
/// long keys.
pub fn write_flow(json: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                let length = string_length(&json[at..]);
                let inside = json.get(at + 1..at + length - 1).unwrap_or_default();
                at += length;
                let follows = json[at..].iter().find(|byte| !byte.is_ascii_whitespace());
                if length > LONGEST_SHORT_KEY && follows == Some(&b':') {
                    out.extend_from_slice(b"? ");
                }
                write_quoted(&unescape(inside).unwrap_or_default(), out);
                continue;
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b':' => out.extend_from_slice(b": "),
            other => out.push(other),
        }
        at += 1;
    }
}

/// Writes the key of a member whose line is indented by `indent`, up to the colon.
pub(super) fn write_key(key: &str, indent: usize, out: &mut Vec<u8>) {
    let is_long = key.len() > LONGEST_SHORT_KEY;
    if is_long {
        out.extend_from_slice(b"? ");
    }
    if is_plain(key) {
        out.extend_from_slice(key.as_bytes());
    } else {
        write_quoted(key, out);
    }
    if is_long {
        break_line(indent, out);
    }
}

/// Writes a text as JSON does, and escapes characters that YAML does not accept as they are.
pub(super) fn write_quoted(text: &str, out: &mut Vec<u8>) {
    let is_special = |letter: char| matches!(letter, '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    if !text.contains(is_special) {
        return write_string(text, out);
    }
    let mut quoted = Vec::with_capacity(text.len());
    write_string(text, &mut quoted);
    for letter in String::from_utf8_lossy(&quoted).chars() {
        if is_special(letter) {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(letter)).as_bytes());
        } else {
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

/// Writes a number, boolean or null. Numbers look as sigs.k8s.io/yaml writes them: integers of 64 bits as they are,
/// others as floats.
pub(super) fn write_literal(raw: &[u8], out: &mut Vec<u8>) {
    let text = std::str::from_utf8(raw).unwrap_or_default();
    let integer = text.parse::<i64>().map(|number| number.to_string());
    let number = integer.or_else(|_| text.parse::<u64>().map(|number| number.to_string()));
    // Rust also parses words such as `inf` as floats.
    let is_number = text.starts_with(|letter: char| letter == '-' || letter.is_ascii_digit());
    let float = || text.parse::<f64>().ok().filter(|float| is_number && float.is_finite()).map(float::general);
    match number.ok().or_else(float) {
        Some(number) => out.extend_from_slice(number.as_bytes()),
        None => out.extend_from_slice(raw),
    }
}

/// The length in bytes of the JSON string with which `json` begins, with its quotes. At least 2: without a closing
/// quote, it is the length of `json` or 2.
fn string_length(json: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = json.iter().skip(1).position(|byte| match byte {
        _ if is_escaped => {
            is_escaped = false;
            false
        }
        b'\\' => {
            is_escaped = true;
            false
        }
        byte => *byte == b'"',
    });
    end.map_or(json.len().max(2), |end| end + 2)
}

/// Whether a text is written as a literal block (`|`): it has several lines of printable characters, and the first line
/// is not indented.
pub(super) fn is_literal(text: &str) -> bool {
    let body = text.trim_end_matches('\n');
    body.contains('\n')
        && !body.starts_with([' ', '\n'])
        && text.chars().all(|letter| {
            letter == '\n' || !letter.is_control() && !matches!(letter, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
        })
}

/// Whether every YAML parser reads the text without quotes as this string. False for texts that could be a number, a
/// time, a boolean or null in YAML 1.1, and for texts with special characters.
pub(super) fn is_plain(text: &str) -> bool {
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

/// The indicator after the `|` of a literal block: `-` if the text does not end with a line break, `+` if it ends with
/// several, empty if it ends with one.
pub(super) fn chomping(text: &str) -> &'static str {
    match text.len() - text.trim_end_matches('\n').len() {
        0 => "-",
        1 => "",
        _ => "+",
    }
}
