//! Texts in messages, quoted as Kubernetes quotes them. Nothing here reads quotes.

use std::fmt::Write as _;

/// A text in double quotes as Go's `%q` writes it, which is how kube-apiserver quotes values in messages.
///
/// `Debug` of Rust differs: it writes `\u{7f}` where Go writes `\x7f`.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\'' => quoted.push(character),
            _ if is_printable(character) => quoted.push(character),
            _ => {
                let number = u32::from(character);
                let written = match number {
                    0..=0x7f => write!(quoted, "\\x{number:02x}"),
                    0x80..=0xffff => write!(quoted, "\\u{number:04x}"),
                    _ => write!(quoted, "\\U{number:08x}"),
                };
                written.expect("writing to a String must succeed");
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go's `unicode.IsPrint` accepts a character. The standard library has the same classes but exposes them only
/// through `escape_debug`, which leaves a combining character alone when something precedes it. Characters that only
/// one of the two libraries' Unicode versions has may be quoted differently.
fn is_printable(character: char) -> bool {
    let mut buffer = [0; 5];
    buffer[0] = b'a';
    let length = character.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..=length]).expect("an ASCII letter and a char must be UTF-8");
    text.escape_debug().count() == 2
}
