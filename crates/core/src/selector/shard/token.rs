//! The tokens of a CEL expression (cel-go `parser/gen/CEL.g4`).

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Identifier,
    /// An identifier between backquotes.
    EscapedIdentifier,
    Int,
    Uint,
    Float,
    Text,
    Bytes,
    /// An operator, a bracket, or one of the words `in`, `true`, `false` and `null`.
    Symbol,
    /// The end of the expression.
    End,
}

/// A token and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind,
    pub(super) text: &'t str,
}

impl Token<'_> {
    /// Whether this is the operator, bracket or word `symbol`.
    pub(super) fn is(self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && self.text == symbol
    }

    /// Whether an operand can begin with this token.
    pub(super) fn begins_operand(self) -> bool {
        match self.kind {
            TokenKind::Symbol => {
                matches!(self.text, "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
            }
            TokenKind::EscapedIdentifier | TokenKind::End => false,
            TokenKind::Identifier
            | TokenKind::Int
            | TokenKind::Uint
            | TokenKind::Float
            | TokenKind::Text
            | TokenKind::Bytes => true,
        }
    }

    /// The token as messages name it.
    pub(super) fn shown(self) -> String {
        if self.kind == TokenKind::End { "'<EOF>'".to_owned() } else { format!("'{}'", self.text) }
    }
}

/// The operators and brackets. A longer one is before a shorter one with the same beginning.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "<", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];

/// The tokens of a text. The last one is the end.
///
/// # Errors
/// The text that is not a token: from its beginning up to and with the first character that no token can have there.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, &str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        if rest.is_empty() {
            tokens.push(Token { kind: TokenKind::End, text: "" });
            return Ok(tokens);
        }
        let (kind, length) = match token(rest) {
            Ok(token) => token,
            Err(valid_length) => {
                let failed_length = rest[valid_length..].chars().next().map_or(0, char::len_utf8);
                return Err(&rest[..valid_length + failed_length]);
            }
        };
        tokens.push(Token { kind, text: &rest[..length] });
        rest = &rest[length..];
    }
}

/// The kind and the length in bytes of the token with which a text begins. If the text begins with no token, `Err` has
/// the number of its first bytes that could be the beginning of one.
fn token(text: &str) -> Result<(TokenKind, usize), usize> {
    let bytes = text.as_bytes();
    let byte = |index: usize| bytes.get(index).copied().unwrap_or_default();
    if byte(0).is_ascii_digit() || byte(0) == b'.' && byte(1).is_ascii_digit() {
        return Ok(number(bytes));
    }
    // The prefix of a string: `b` for bytes, `r` for a raw string without escapes, or both. `| 0x20` ignores the case.
    let (prefix, kind) = match (byte(0) | 0x20, byte(1) | 0x20, byte(1), byte(2)) {
        (b'b', b'r', _, b'"' | b'\'') => (2, TokenKind::Bytes),
        (b'b', _, b'"' | b'\'', _) => (1, TokenKind::Bytes),
        (b'r', _, b'"' | b'\'', _) => (1, TokenKind::Text),
        _ => (0, TokenKind::Text),
    };
    if matches!(byte(prefix), b'"' | b'\'') {
        let is_raw = prefix > 0 && byte(prefix - 1) | 0x20 == b'r';
        return string(text, prefix, is_raw).map(|end| (kind, end));
    }
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if is_part(&byte(0)) {
        let length = bytes.iter().take_while(|byte| is_part(byte)).count();
        let is_word = matches!(&text[..length], "in" | "true" | "false" | "null");
        return Ok((if is_word { TokenKind::Symbol } else { TokenKind::Identifier }, length));
    }
    if byte(0) == b'`' {
        let is_inside = |byte: &&u8| is_part(byte) || matches!(byte, b'.' | b'-' | b'/' | b' ');
        let inside = bytes[1..].iter().take_while(is_inside).count();
        let is_closed = inside > 0 && byte(1 + inside) == b'`';
        return if is_closed { Ok((TokenKind::EscapedIdentifier, inside + 2)) } else { Err(1 + inside) };
    }
    let symbol = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol));
    symbol.map(|symbol| (TokenKind::Symbol, symbol.len())).ok_or(usize::from(matches!(byte(0), b'=' | b'&' | b'|')))
}

/// The kind and the length in bytes of the number with which a text begins.
fn number(bytes: &[u8]) -> (TokenKind, usize) {
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let byte = |index: usize| bytes.get(index).copied().unwrap_or_default();
    let hex = bytes.iter().skip(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_hex = bytes.starts_with(b"0x") && hex > 0;
    let mut length = if is_hex { 2 + hex } else { digits(0) };
    let mut kind = TokenKind::Int;
    if !is_hex && byte(length) == b'.' && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
        kind = TokenKind::Float;
    }
    if !is_hex && byte(length) | 0x20 == b'e' {
        let sign = usize::from(matches!(byte(length + 1), b'+' | b'-'));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
            kind = TokenKind::Float;
        }
    }
    if kind == TokenKind::Int && byte(length) | 0x20 == b'u' { (TokenKind::Uint, length + 1) } else { (kind, length) }
}

/// The offset in `text` after the string whose opening quotes are at `start`. `is_raw`: the string has no escapes. If
/// there is no valid string, `Err` has the number of bytes of `text` that could be the beginning of one.
fn string(text: &str, start: usize, is_raw: bool) -> Result<usize, usize> {
    let quote = &text[start..=start];
    let tripled = quote.repeat(3);
    let is_long = text[start..].starts_with(&tripled);
    let closing = if is_long { tripled.as_str() } else { quote };
    let mut at = start + closing.len();
    loop {
        let rest = &text[at..];
        if rest.starts_with(closing) {
            return Ok(at + closing.len());
        }
        let Some(character) = rest.chars().next() else {
            // Three quotes without three more are an empty string and another quote.
            return if is_long { Ok(start + 2) } else { Err(at) };
        };
        if !is_long && matches!(character, '\n' | '\r') {
            return Err(at);
        }
        at += match character {
            '\\' if !is_raw => escape(rest).map_err(|valid| at + valid)?.1,
            other => other.len_utf8(),
        };
    }
}

/// The code point of the escape sequence with which a text begins, and the length of the sequence in bytes. If the
/// sequence is not valid, `Err` has the number of bytes that could be the beginning of one.
fn escape(text: &str) -> Result<(u32, usize), usize> {
    let bytes = text.as_bytes();
    // A number of exactly `count` digits, which begins at the byte `from`.
    let code = |radix: u32, from: usize, count: usize| {
        let digits = bytes.iter().skip(from).take(count).take_while(|byte| char::from(**byte).is_digit(radix));
        let valid = digits.clone().count();
        if valid < count {
            return Err(from + valid);
        }
        let code = digits.fold(0u32, |code, byte| {
            code.wrapping_mul(radix).wrapping_add(char::from(*byte).to_digit(radix).unwrap_or_default())
        });
        Ok((code, from + count))
    };
    match bytes.get(1) {
        Some(b'a') => Ok((7, 2)),
        Some(b'b') => Ok((8, 2)),
        Some(b'f') => Ok((12, 2)),
        Some(b'n') => Ok((10, 2)),
        Some(b'r') => Ok((13, 2)),
        Some(b't') => Ok((9, 2)),
        Some(b'v') => Ok((11, 2)),
        Some(byte @ (b'"' | b'\'' | b'\\' | b'?' | b'`')) => Ok((u32::from(*byte), 2)),
        Some(b'x' | b'X') => code(16, 2, 2),
        Some(b'u') => code(16, 2, 4),
        Some(b'U') => code(16, 2, 8),
        Some(b'0'..=b'3') => code(8, 1, 3),
        _ => Err(1),
    }
}

/// The value of a token of [`TokenKind::Text`], without prefix, quotes and escapes.
pub(super) fn unquoted(token: &str) -> String {
    let is_raw = token.starts_with(['r', 'R']);
    let quoted = token.trim_start_matches(['r', 'R']);
    let is_long = quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''"));
    let quotes = if is_long { 3 } else { 1 };
    let mut rest = quoted.get(quotes..quoted.len().saturating_sub(quotes)).unwrap_or_default();
    if is_raw {
        return rest.to_owned();
    }
    let mut value = String::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        // The token was read with the same function, so each escape sequence is valid.
        let (code, length) = escape(&rest[at..]).unwrap_or((u32::from('\\'), 1));
        value.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = &rest[at + length..];
    }
    value.push_str(rest);
    value
}
