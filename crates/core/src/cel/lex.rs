//! Tokens of an expression (the lexis of CEL's language definition), read one at a time.
//!
//! Escaped identifiers in backquotes are not read: Kubernetes does not enable them.

use std::sync::Arc;

use super::error::CelError;

/// A token and its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CelToken {
    pub(super) kind: CelTokenKind,
    /// The byte offset of its start in the expression.
    pub(super) start: usize,
    /// The byte offset after its end.
    pub(super) end: usize,
}

/// The kind of a token, with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CelTokenKind {
    /// A name that is not a keyword. It may be one of the reserved names: see [`is_reserved`].
    Name(Arc<str>),
    /// An integer without a sign. It may be 2^63, which is valid only after a minus.
    Int(u64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    True,
    False,
    Null,
    In,
    /// One of [`SIGNS`].
    Sign(&'static str),
    /// The end of the expression.
    End,
}

/// Names that cannot be variables. The language definition reserves them, because other languages have them as
/// keywords.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The operators and the punctuation. Of two with the same beginning, the longer one comes first. `=` is no operator:
/// as a token, the parser can report it.
const SIGNS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", ".", ",", ":", "?", "(", ")", "[", "]", "{", "}", "<", ">", "!", "-", "+", "*",
    "/", "%", "=",
];

/// Whether a name is reserved and cannot be a variable or a global function.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Reads the first token at or after the byte offset `position`, after white space and comments.
///
/// # Errors
/// The text there is no token, or a literal is invalid.
pub(super) fn next_token(text: &str, position: usize) -> Result<CelToken, CelError> {
    let start = skip_space(text, position);
    let rest = &text[start..];
    let Some(first) = rest.chars().next() else {
        return Ok(CelToken { kind: CelTokenKind::End, start, end: start });
    };
    if let Some(literal) = quoted(text, start)? {
        return Ok(literal);
    }
    let has_digit = |index: usize| rest.as_bytes().get(index).is_some_and(u8::is_ascii_digit);
    // `.5` is a number; another point is a sign.
    if first.is_ascii_digit() || (first == '.' && has_digit(1)) {
        return number(text, start);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let end = start + rest.find(|character| !is_name(character)).unwrap_or(rest.len());
        let kind = match &text[start..end] {
            "true" => CelTokenKind::True,
            "false" => CelTokenKind::False,
            "null" => CelTokenKind::Null,
            "in" => CelTokenKind::In,
            name => CelTokenKind::Name(name.into()),
        };
        return Ok(CelToken { kind, start, end });
    }
    match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        Some(sign) => Ok(CelToken { kind: CelTokenKind::Sign(sign), start, end: start + sign.len() }),
        None => Err(CelError::syntax(text, start, format_args!("token recognition error at: '{first}'"))),
    }
}

/// The position after white space and comments.
fn skip_space(text: &str, mut position: usize) -> usize {
    let bytes = text.as_bytes();
    loop {
        match &bytes[position..] {
            [b'\t' | b'\n' | b'\x0c' | b'\r' | b' ', ..] => position += 1,
            [b'/', b'/', rest @ ..] => {
                position += 2 + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            }
            _ => return position,
        }
    }
}

/// Reads the number at `start`, where the text has a digit, or a point and a digit. Forms: `0x1f`, `12`, `1.5`, `.5`,
/// `1e-3`, and integers with the suffix `u` for unsigned ones. What cannot belong to the number is left for the next
/// token.
///
/// # Errors
/// The number is out of the range of its type.
fn number(text: &str, start: usize) -> Result<CelToken, CelError> {
    let bytes = text.as_bytes();
    // The number of digits from an offset on.
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let token = |kind, end| Ok(CelToken { kind, start, end });
    let invalid = |kind: &str| CelError::syntax(text, start, format_args!("invalid {kind} literal"));
    if let [b'0', b'x', rest @ ..] = &bytes[start..] {
        let length = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if length > 0 {
            let end = start + 2 + length;
            let value = u64::from_str_radix(&text[start + 2..end], 16);
            return match bytes.get(end) {
                Some(b'u' | b'U') => token(CelTokenKind::Uint(value.map_err(|_| invalid("uint"))?), end + 1),
                _ => token(CelTokenKind::Int(value.map_err(|_| invalid("int"))?), end),
            };
        }
    }
    let mut end = start + digits(start);
    let mut is_double = false;
    // A point or an `e` without digits after it is not a part of the number.
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        is_double = true;
        end += 1 + digits(end + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let length = bytes.get(end + 1 + sign..).map_or(0, |_| digits(end + 1 + sign));
        if length > 0 {
            is_double = true;
            end += 1 + sign + length;
        }
    }
    let digits = &text[start..end];
    if is_double {
        let value: f64 = digits.parse().map_err(|_| invalid("double"))?;
        return if value.is_finite() { token(CelTokenKind::Double(value), end) } else { Err(invalid("double")) };
    }
    match bytes.get(end) {
        Some(b'u' | b'U') => token(CelTokenKind::Uint(digits.parse().map_err(|_| invalid("uint"))?), end + 1),
        _ => token(CelTokenKind::Int(digits.parse().map_err(|_| invalid("int"))?), end),
    }
}

/// Reads the string or bytes literal at `start`; `None` if there is none. The prefix `b` makes bytes, and `r` makes a
/// raw literal, in which a backslash is an ordinary character. A literal in three quotes may have line breaks.
///
/// # Errors
/// The closing quote is missing, or an escape is invalid.
fn quoted(text: &str, start: usize) -> Result<Option<CelToken>, CelError> {
    let bytes = text.as_bytes();
    let (mut is_raw, mut is_bytes) = (false, false);
    let mut position = start;
    // The grammar has a `b` before an `r`.
    if let Some(b'b' | b'B') = bytes.get(position) {
        is_bytes = true;
        position += 1;
    }
    if let Some(b'r' | b'R') = bytes.get(position) {
        is_raw = true;
        position += 1;
    }
    let Some(&quote @ (b'"' | b'\'')) = bytes.get(position) else { return Ok(None) };
    let is_long = bytes[position..].starts_with(&[quote; 3]);
    let delimiter = if is_long { 3 } else { 1 };
    position += delimiter;
    let unfinished =
        || CelError::syntax(text, start, format_args!("token recognition error at: '{}'", excerpt(&text[start..])));
    let mut content: Vec<u8> = Vec::new();
    loop {
        let rest = &bytes[position..];
        match rest.first() {
            None => return Err(unfinished()),
            Some(b'\n' | b'\r') if !is_long => return Err(unfinished()),
            Some(byte) if *byte == quote && (!is_long || rest.starts_with(&[quote; 3])) => break,
            Some(b'\\') if !is_raw => position += escape(text, position, is_bytes, &mut content)?,
            Some(byte) => {
                content.push(*byte);
                position += 1;
            }
        }
    }
    let end = position + delimiter;
    let kind = if is_bytes {
        CelTokenKind::Bytes(content.into())
    } else {
        // The content is valid UTF-8: each escape in a string is a whole character.
        CelTokenKind::Text(String::from_utf8(content).map_err(|_| unfinished())?.into())
    };
    Ok(Some(CelToken { kind, start, end }))
}

/// Reads the escape at `start`, where the text has a backslash. Appends the character to `content` as UTF-8, and
/// returns the length of the escape in bytes. In a bytes literal (`is_bytes`), `\x` and octal escapes are one byte, and
/// `\u` is invalid.
fn escape(text: &str, start: usize, is_bytes: bool, content: &mut Vec<u8>) -> Result<usize, CelError> {
    let invalid = || CelError::syntax(text, start, "token recognition error: invalid escape sequence");
    let rest = &text.as_bytes()[start + 1..];
    // The value of `digits` digits after `skipped` bytes; `None` if they are not digits.
    let number = |skipped: usize, digits: usize, radix: u32| {
        let digits = rest.get(skipped..skipped + digits)?;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        u32::from_str_radix(digits, radix).ok()
    };
    // The code point or the byte, the length without the backslash, and whether it can be a byte.
    let (code, length, is_octet) = match rest.first().ok_or_else(invalid)? {
        byte @ (b'\\' | b'?' | b'"' | b'\'' | b'`') => (Some(u32::from(*byte)), 1, false),
        b'a' => (Some(0x07), 1, false),
        b'b' => (Some(0x08), 1, false),
        b'f' => (Some(0x0c), 1, false),
        b'n' => (Some(0x0a), 1, false),
        b'r' => (Some(0x0d), 1, false),
        b't' => (Some(0x09), 1, false),
        b'v' => (Some(0x0b), 1, false),
        b'x' | b'X' => (number(1, 2, 16), 3, true),
        b'u' if !is_bytes => (number(1, 4, 16), 5, false),
        b'U' if !is_bytes => (number(1, 8, 16), 9, false),
        b'0'..=b'3' => (number(0, 3, 8), 3, true),
        _ => (None, 0, false),
    };
    let code = code.ok_or_else(invalid)?;
    if is_bytes && is_octet {
        content.push(u8::try_from(code).map_err(|_| invalid())?);
    } else {
        let character = char::from_u32(code).ok_or_else(invalid)?;
        content.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(length + 1)
}

/// The text for a message: at most its first 40 characters, followed by `...` if it is longer.
pub(super) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
