//! The style of go-yaml v3, byte for byte: vendor extensions, defaults and enums in the protobuf form of OpenAPI
//! documents (gnostic `compiler.Marshal`).
//!
//! Block style, indented by four, list items by their dash. A text is quoted exactly when go-yaml would read it as
//! something else. A map key that does not fit on a line is written in double quotes, where go-yaml would use the `? `
//! form. So is a text with a Unicode line separator or a byte order mark, which go-yaml writes in ways that it does not
//! read back.

/// go-yaml's default indentation.
pub(super) const INDENT: usize = 4;

/// The maximum column of objects and lists in block style. Those further in are written in flow style, on one line:
/// each line repeats the indentation, and the author of an enum decides how deep its values are. Vendor extensions of
/// Kubernetes have a few levels.
pub(super) const MOST_INDENTATION: usize = 64;

/// The column of the value of a member whose object is at column `indent`: the next multiple of four.
pub(super) fn value_column(indent: usize) -> usize {
    INDENT * ((indent + INDENT) / INDENT)
}

/// Whether a text is written as a literal block.
pub(super) fn is_literal(text: &str) -> bool {
    text.contains('\n') && AllowedStyles::analyze(text).block
}

/// The indicators after the `|` of a literal block: the indentation if the first line begins with white space; then `-`
/// if the text does not end with a newline, or `+` if it ends with several.
pub(super) fn literal_header(text: &str) -> String {
    let indentation = if text.starts_with([' ', '\n']) { INDENT.to_string() } else { String::new() };
    let chomping = if !text.ends_with('\n') {
        "-"
    } else if text == "\n" || text.ends_with("\n\n") {
        "+"
    } else {
        ""
    };
    indentation + chomping
}

/// A text on one line: plain, or in single or double quotes.
pub(super) fn one_line(text: &str) -> String {
    let looks = AllowedStyles::analyze(text);
    // A text with a line break is never in single quotes.
    if !reads_as_text(text) || !looks.single_quoted {
        double_quoted(text)
    } else if looks.plain {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// A text in double quotes, escaped as go-yaml does.
fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        let short = match letter {
            '\0' => Some('0'),
            '\u{7}' => Some('a'),
            '\u{8}' => Some('b'),
            '\t' => Some('t'),
            '\n' => Some('n'),
            '\u{b}' => Some('v'),
            '\u{c}' => Some('f'),
            '\r' => Some('r'),
            '\u{1b}' => Some('e'),
            '"' => Some('"'),
            '\\' => Some('\\'),
            '\u{85}' => Some('N'),
            '\u{2028}' => Some('L'),
            '\u{2029}' => Some('P'),
            _ => None,
        };
        let code = u32::from(letter);
        match short {
            Some(short) => out.extend(['\\', short]),
            None if is_printable(letter) => out.push(letter),
            None if code <= 0xFF => out.push_str(&format!("\\x{code:02X}")),
            None if code <= 0xFFFF => out.push_str(&format!("\\u{code:04X}")),
            None => out.push_str(&format!("\\U{code:08X}")),
        }
    }
    out.push('"');
    out
}

/// The styles in which a text can be written.
struct AllowedStyles {
    plain: bool,
    single_quoted: bool,
    block: bool,
}

impl AllowedStyles {
    /// The styles that are possible for a text, by the rules of go-yaml's `yaml_emitter_analyze_scalar`.
    fn analyze(text: &str) -> AllowedStyles {
        let letters: Vec<char> = text.chars().collect();
        let blank =
            |letter: Option<&char>| letter.is_none_or(|letter| matches!(letter, ' ' | '\t') || is_break(*letter));
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let mut special = false;
        let mut tabs = false;
        let mut space_then_break = false;
        let mut break_then_space = false;
        for (position, letter) in letters.iter().enumerate() {
            let before = position.checked_sub(1).and_then(|position| letters.get(position));
            let ends_word = blank(letters.get(position + 1));
            indicators |= match letter {
                ':' => ends_word,
                '?' | '-' if position == 0 => ends_word,
                '#' => blank(before),
                _ if position == 0 => ",[]{}&*!|>'\"%@`".contains(*letter),
                _ => false,
            };
            tabs |= *letter == '\t';
            special |= *letter != '\t' && !is_printable(*letter);
            space_then_break |= is_break(*letter) && before == Some(&' ');
            break_then_space |= *letter == ' ' && before.is_some_and(|before| is_break(*before));
        }
        let edge = |letter: Option<&char>| letter.is_some_and(|letter| *letter == ' ' || is_break(*letter));
        let odd_breaks = letters.iter().any(|letter| *letter != '\n' && is_break(*letter));
        let breaks = letters.iter().any(|letter| is_break(*letter));
        let unquotable = space_then_break || tabs || special || breaks || break_then_space;
        AllowedStyles {
            plain: !unquotable && !indicators && !edge(letters.first()) && !edge(letters.last()),
            single_quoted: !unquotable,
            block: !text.is_empty() && !text.ends_with(' ') && !space_then_break && !special && !odd_breaks,
        }
    }
}

/// Whether the character breaks a line.
fn is_break(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether go-yaml writes the character as it is. It escapes everything beyond the basic plane.
fn is_printable(letter: char) -> bool {
    matches!(letter, '\n' | ' '..='~' | '\u{a0}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Whether a plain text would be read back as text, and not as null, a boolean, a number or a time (go-yaml
/// `resolve.go`).
fn reads_as_text(text: &str) -> bool {
    const WORDS: [&str; 20] = [
        "true", "True", "TRUE", "false", "False", "FALSE", "", "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN",
        ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF",
    ];
    if WORDS.contains(&text) || matches!(text, "-.inf" | "-.Inf" | "-.INF") {
        return false;
    }
    match text.bytes().next() {
        Some(b'.') => !is_float(text),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let digits = text.replace('_', "");
            !(is_timestamp(text) || is_integer(&digits) || is_float(&digits))
        }
        _ => true,
    }
}

/// Whether a text is an integer: digits of base 10, or 2, 8, 16 after a prefix, within 64 bits.
fn is_integer(text: &str) -> bool {
    let (negative, magnitude) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let signed = magnitude.len() != text.len();
    let lower = magnitude.to_ascii_lowercase();
    let (base, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, &*lower)
    };
    if digits.starts_with(['+', '-']) {
        return false;
    }
    // go-yaml reads a number with a sign as an int64, and one without as an int64 or a uint64.
    let limit = if negative { 1 << 63 } else { u64::MAX };
    let limit = if signed && !negative { limit >> 1 } else { limit };
    u64::from_str_radix(digits, base).is_ok_and(|number| number <= limit)
}

/// Whether a text is a decimal number with an optional exponent, within the range of a float64.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mantissa_is_first = unsigned.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    let only_number_letters = unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    mantissa_is_first && only_number_letters && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether a text is a date such as `2006-1-2`, alone or with a time of day: after `T` or `t` with a zone, after a
/// space without one.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 5 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
        return false;
    }
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(position) => (&text[..position], Some((bytes[position], &text[position + 1..]))),
        None => (text, None),
    };
    let Some((year, [month, day])) = date.split_once('-').and_then(|(year, rest)| {
        let (month, day) = rest.split_once('-')?;
        Some((year.parse::<u32>().ok()?, [short_number(month)?, short_number(day)?]))
    }) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    let time_is_right = match time {
        None => true,
        Some((b' ', time)) => is_time_of_day(time),
        Some((_, time)) => {
            let zone_at = time.find(['Z', '+', '-']).unwrap_or(time.len());
            is_time_of_day(&time[..zone_at]) && is_zone(&time[zone_at..])
        }
    };
    (1..=days).contains(&day) && time_is_right
}

/// Whether go-yaml reads the text as a time of day: `15:04:05`, with a fraction of a second or without.
fn is_time_of_day(text: &str) -> bool {
    let (clock, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
    let parts: Vec<Option<u32>> = clock.split(':').map(short_number).collect();
    let fraction_is_right = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    fraction_is_right && matches!(*parts, [Some(..=23), Some(..=59), Some(..=59)])
}

/// Whether the text is a time zone: `Z` or an offset such as `+01:00`.
fn is_zone(text: &str) -> bool {
    let parts = text.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
    let two = |part: &str, limit| part.len() == 2 && short_number(part).is_some_and(|number| number <= limit);
    text == "Z" || parts.is_some_and(|(hours, minutes)| two(hours, 24) && two(minutes, 60))
}

/// Parses a number of one or two digits; `None` for any other text.
fn short_number(text: &str) -> Option<u32> {
    let is_short = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_short.then(|| text.parse().ok()).flatten()
}
