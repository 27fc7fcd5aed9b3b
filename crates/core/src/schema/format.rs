//! The formats of texts that kube-apiserver checks for custom resources (kube-openapi `validation/strfmt`).
//!
//! A format that is not in the list is no restriction, as upstream (apiextensions `validation/formats.go`). For some
//! formats (uri, email), upstream uses a parser of Go's library. There the check here is the grammar without its rarest
//! cases. Comments in mail addresses and zones in IPv6 literals of a URI are accepted or rejected a little differently.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::selector::syntax::{dns_label_errors, dns_subdomain_errors};

/// Whether a format is checked. Dashes in names do not count: `date-time` is `datetime`.
pub fn is_known(format: &str) -> bool {
    check_of(format).is_some()
}

/// Whether a text has a format; every text matches an unknown format.
pub fn matches(format: &str, text: &str) -> bool {
    check_of(format).is_none_or(|check| check(text))
}

/// The function that checks a format; `None` for an unknown format, which accepts every string.
fn check_of(format: &str) -> Option<fn(&str) -> bool> {
    Some(match &*format.replace('-', "") {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && sloppy_ip(text).is_some(),
        "ipv6" => |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| is_uuid(text, None),
        "uuid3" => |text| is_uuid(text, Some(b'3')),
        "uuid4" => |text| is_uuid(text, Some(b'4')),
        "uuid5" => |text| is_uuid(text, Some(b'5')),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && fits(&SSN, text),
        "hexcolor" => |text| fits(&HEX_COLOR, text),
        "rgbcolor" => |text| fits(&RGB_COLOR, text),
        "byte" => |text| fits(&BASE64, text),
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |text| dns_label_errors(text).is_empty(),
        "k8slongname" => |text| dns_subdomain_errors(text).is_empty(),
        _ => return None,
    })
}

/// A pattern of this file, compiled once.
type Pattern = LazyLock<Regex>;

/// Whether a pattern matches a text. Patterns with `^` and `$` match the whole of it.
fn fits(pattern: &Pattern, text: &str) -> bool {
    pattern.is_match(text)
}

/// Compiles a pattern.
fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file must compile")
}

static SSN: Pattern = LazyLock::new(|| pattern(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: Pattern = LazyLock::new(|| pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: Pattern = LazyLock::new(|| {
    let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    pattern(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static BASE64: Pattern =
    LazyLock::new(|| pattern("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"));
static CREDIT_CARD: Pattern = LazyLock::new(|| {
    pattern(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])\
         [0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});
static HOSTNAME: Pattern = LazyLock::new(|| {
    let letter = r"a-zA-Z0-9\p{S}\p{L}";
    pattern(&format!(
        r"^([{letter}]((-?[{letter}]{{0,62}})?)|([{letter}](([a-zA-Z0-9-\p{{S}}\p{{L}}]{{0,61}}[{letter}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
});
static TIME: Pattern =
    LazyLock::new(|| pattern(r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$"));
static GO_DURATION: Pattern =
    LazyLock::new(|| pattern(r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"));
/// The looser form: numbers followed by a word that names a unit; one such pair suffices.
static WORDY_DURATION: Pattern = LazyLock::new(|| {
    pattern(
        r"(?i)[0-9]+\s*(ns|nano[a-zµ]*|us|µs|micro[a-zµ]*|ms|milli[a-zµ]*|s|sec[a-zµ]*|m|min[a-zµ]*|h|hr|hour[a-zµ]*|d|day[a-zµ]*|w|wk|week[a-zµ]*)(?:[^a-zµ]|$)",
    )
});

/// Whether a text is a host name of at most 255 bytes, with labels of at most 63 bytes, as strfmt checks it.
fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && fits(&HOSTNAME, text) && text.split('.').all(|label| label.len() <= 63)
}

/// Whether Go's `url.ParseRequestURI` accepts the text: an absolute path, a scheme and `:` before any text, or `*`.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    let (scheme, rest) = match text
        .find(|character: char| !character.is_ascii_alphanumeric() && !"+-.".contains(character))
    {
        Some(end) if text[end..].starts_with(':') && end > 0 && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (&text[..end], &text[end + 1..])
        }
        _ => ("", text),
    };
    // Without a scheme, only an absolute path or `*` is valid.
    if scheme.is_empty() && !rest.starts_with('/') {
        return text == "*";
    }
    // After a scheme, text without a slash is opaque, as in `mailto:a@example.com`.
    if !rest.starts_with('/') {
        return true;
    }
    let without_query = rest.split('?').next().unwrap_or(rest);
    let (authority, path) = match without_query.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", without_query),
    };
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let port = if host.starts_with('[') { host.split_once(']').map_or("bad", |(_, port)| port) } else { host };
    let port_is_number = port.split_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host_is_clean = !host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}']);
    port_is_number && host_is_clean && escapes_are_whole(path) && escapes_are_whole(authority)
}

/// Whether two hexadecimal digits follow each `%`.
fn escapes_are_whole(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether a text is an email address: `a@b` or `Name <a@b>`. The part before `@` is a quoted string, or atoms
/// (RFC 5322) that are joined by dots.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(rest) => match rest.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |text: &str| {
        !text.is_empty()
            && text.chars().all(|character| {
                character.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character) || !character.is_ascii()
            })
    };
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    (is_quoted || local.split('.').all(is_atom)) && (is_literal || domain.split('.').all(is_atom))
}

/// Parses an IP address as older Go versions do: numbers of IPv4 may have leading zeros, and are decimal then too.
/// `None` for other texts.
fn sloppy_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let parts: Vec<&str> = text.split('.').collect();
    let octet = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u8>().ok().filter(|_| is_number)
    };
    match parts[..] {
        [a, b, c, d] => Some(IpAddr::V4(Ipv4Addr::new(octet(a)?, octet(b)?, octet(c)?, octet(d)?))),
        _ => None,
    }
}

/// Whether a text is an IP address, `/`, and a prefix length that the address can have.
fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let largest = match sloppy_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    length.bytes().all(|byte| byte.is_ascii_digit()) && length.parse::<u32>().is_ok_and(|length| length <= largest)
}

/// Whether a text is a MAC address: 6, 8 or 20 bytes, in pairs joined by `:` or `-`, or in fours joined by `.`.
fn is_mac(text: &str) -> bool {
    let (separator, digits) = match text.as_bytes().get(2) {
        Some(b':') => (':', 2),
        Some(b'-') => ('-', 2),
        _ => ('.', 4),
    };
    let mut groups = 0;
    let is_group = |group: &str| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    let all_fit = text.split(separator).inspect(|_| groups += 1).all(is_group);
    all_fit && matches!(groups * digits / 2, 6 | 8 | 20)
}

/// Whether a text is a UUID. `version`: the digit of the version that it must have, in ASCII; `None`: any.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    // Upstream accepts UUIDs in which any of the four dashes is missing.
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(digits.len(), 8 | 12 | 16 | 20) => digits.push(b'-'),
            byte if byte.is_ascii_hexdigit() => digits.push(byte.to_ascii_lowercase()),
            _ => return false,
        }
        if digits.last() == Some(&b'-') {
            digits.pop();
        }
    }
    let has_no_doubled_dash = !text.contains("--") && !text.ends_with('-');
    // Upstream demands the variant of RFC 4122, one of these digits, of versions 4 and 5 only.
    let has_variant = matches!(version, None | Some(b'3')) || digits.get(16).is_some_and(|byte| b"89ab".contains(byte));
    digits.len() == 32 && has_no_doubled_dash && version.is_none_or(|version| digits[12] == version) && has_variant
}

fn without_blanks_and_dashes(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'-').collect()
}

/// Whether a text is an ISBN of ten digits with a valid check digit, in which `X` is 10.
fn is_isbn10(text: &str) -> bool {
    let digits = without_blanks_and_dashes(text);
    let Some((last, first)) = digits.split_last() else { return false };
    if digits.len() != 10 || !first.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let value = |byte: &u8| if *byte == b'X' { 10 } else { u32::from(byte - b'0') };
    digits.iter().zip(1..).map(|(byte, weight)| weight * value(byte)).sum::<u32>() % 11 == 0
}

/// Whether a text is an ISBN of thirteen digits with a valid check digit.
fn is_isbn13(text: &str) -> bool {
    let digits = without_blanks_and_dashes(text);
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && digits
            .iter()
            .zip([1, 3].into_iter().cycle())
            .map(|(byte, weight)| weight * u32::from(byte - b'0'))
            .sum::<u32>()
            % 10
            == 0
}

/// Whether the digits of a text are the number of a credit card with a valid check digit. Other characters are ignored.
fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .bytes()
        .rev()
        .zip([1, 2].into_iter().cycle())
        .map(|(byte, factor)| {
            let product = u32::from(byte - b'0') * factor;
            product % 10 + product / 10
        })
        .sum();
    fits(&CREDIT_CARD, &digits) && sum.is_multiple_of(10)
}

/// Whether a text is a date that exists, such as `2006-01-02`.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |part: &str| part.parse::<u32>().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()));
    let parts = (text.get(..4).and_then(number), text.get(5..7).and_then(number), text.get(8..).and_then(number));
    let (Some(year), Some(month), Some(day)) = parts else { return false };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Whether a text is a date and a time of day with `T` between them, in either case. What follows a second `T` is
/// ignored, as upstream.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    parts.next().is_some_and(is_date) && parts.next().is_some_and(|time| fits(&TIME, time))
}

/// Whether Go's `time.ParseDuration` accepts a text, or the text contains a number and a unit, such as `3 days`.
fn is_duration(text: &str) -> bool {
    fits(&GO_DURATION, text) || fits(&WORDY_DURATION, text)
}
