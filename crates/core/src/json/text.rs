//! The text of a JSON string, as Go reads it.

use std::borrow::Cow;

/// The text of a JSON string; `raw` is between its quotes. `None` if an escape is not valid. As in Go's decoder
/// (encoding/json `decode.go`, unquote), each byte that is not UTF-8 and each lone surrogate becomes U+FFFD.
pub fn unescape(raw: &[u8]) -> Option<Cow<'_, str>> {
    if !raw.contains(&b'\\')
        && let Ok(text) = std::str::from_utf8(raw)
    {
        return Some(Cow::Borrowed(text));
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(plain) = rest.iter().position(|&byte| byte == b'\\') {
        push_lossy(&mut text, &rest[..plain]);
        let (escape, after) = rest[plain + 1..].split_first()?;
        rest = after;
        match escape {
            b'"' | b'\\' | b'/' => text.push(char::from(*escape)),
            b'b' => text.push('\u{8}'),
            b'f' => text.push('\u{c}'),
            b'n' => text.push('\n'),
            b'r' => text.push('\r'),
            b't' => text.push('\t'),
            b'u' => {
                let unit = hexadecimal(rest)?;
                rest = &rest[4..];
                let pair = match rest {
                    [b'\\', b'u', low @ ..] if (0xd800..0xdc00).contains(&unit) => {
                        hexadecimal(low).filter(|low| (0xdc00..0xe000).contains(low))
                    }
                    _ => None,
                };
                let code = match pair {
                    Some(low) => {
                        rest = &rest[6..];
                        0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    }
                    None => unit,
                };
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return None,
        }
    }
    push_lossy(&mut text, rest);
    Some(Cow::Owned(text))
}

/// Appends bytes as UTF-8, with replacement characters for invalid ones.
fn push_lossy(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// The number that the first four bytes are as hexadecimal digits; `None` if they are not.
fn hexadecimal(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.first_chunk::<4>()?;
    digits.iter().try_fold(0, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)?))
}
