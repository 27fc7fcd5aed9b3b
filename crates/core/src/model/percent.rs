//! Percent-encoded texts, decoded as Go's `net/url` decodes them, and encoded for a query. The meaning of paths and
//! queries is not defined here.

/// Decodes `%XX`, and `+` as a blank if `plus_is_blank`, as in a query. `None` for an invalid escape. Bytes that are
/// not UTF-8 are replaced by U+FFFD, which matches no name, label or value of Kubernetes.
pub fn percent_decode(text: &str, plus_is_blank: bool) -> Option<String> {
    let is_special = |byte: &u8| *byte == b'%' || (plus_is_blank && *byte == b'+');
    let mut rest = text.as_bytes();
    // Nearly every text has nothing to decode.
    let Some(mut plain) = rest.iter().position(is_special) else { return Some(text.to_owned()) };
    let mut decoded = Vec::with_capacity(rest.len());
    loop {
        decoded.extend_from_slice(&rest[..plain]);
        rest = match &rest[plain..] {
            [b'%', high, low, rest @ ..] => {
                let digit = |character: u8| char::from(character).to_digit(16);
                decoded.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
                rest
            }
            [b'%', ..] => return None,
            [_, rest @ ..] => {
                decoded.push(b' ');
                rest
            }
            [] => break,
        };
        plain = rest.iter().position(is_special).unwrap_or(rest.len());
    }
    Some(String::from_utf8(decoded).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Encodes a text for a query. ASCII letters, digits, `-`, `.` and `_` stay.
pub fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
