//! Go's escapes in quotes (strconv `UnquoteChar`). They make bytes, not always UTF-8.

/// The text between two quotes, with its escapes resolved. `mark` is the quote. `None` if an escape is not valid, or if
/// the text has the quote itself.
pub(super) fn unquote(text: &str, mark: char) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            // The parser took `\\` and a quote for an escaped quote. For Go, the backslash is escaped, and the quote is
            // an error.
            letter if letter == mark => return None,
            '\\' => escaped(&mut letters, mark, &mut bytes)?,
            plain => bytes.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Some(bytes)
}

/// Reads the characters after a backslash, as Go does, and appends their bytes. `None` if the escape is not valid.
fn escaped(letters: &mut std::str::Chars<'_>, mark: char, bytes: &mut Vec<u8>) -> Option<()> {
    let letter = letters.next()?;
    bytes.push(match letter {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        'x' => u8::try_from(digits(letters, 2, 16)?).ok()?,
        'u' | 'U' => {
            let code = digits(letters, if letter == 'u' { 4 } else { 8 }, 16)?;
            bytes.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(());
        }
        '0'..='7' => u8::try_from(letter.to_digit(8)? * 64 + digits(letters, 2, 8)?).ok()?,
        letter if letter == mark => u8::try_from(letter).ok()?,
        _ => return None,
    });
    Some(())
}

/// Reads a number of exactly `count` digits; `None` if there are fewer, or if it exceeds 32 bits.
fn digits(letters: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    (0..count).try_fold(0_u32, |sum, _| {
        let digit = letters.next()?.to_digit(radix)?;
        sum.checked_mul(radix)?.checked_add(digit)
    })
}
