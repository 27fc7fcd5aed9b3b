//! URLs as Go reads them (net/url, with apiserver `pkg/cel/library/urls.go`): URLs with a scheme, and absolute paths.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// The scheme in lower case; empty for a path alone.
    pub(super) scheme: String,
    /// The user name and password before `@`, as they are written.
    user: String,
    /// The host with its port, without escapes.
    pub(super) host: String,
    /// The path with escapes.
    pub(super) path: String,
    /// What follows the scheme if it does not begin with a slash, as in `mailto:name@example.com`.
    opaque: String,
    /// The text after `?`, with escapes; `None` if the URL has no `?`.
    query: Option<String>,
    /// The text after `#`, with escapes.
    fragment: String,
}

/// The part of a URL that a byte belongs to, which decides whether the byte must be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    /// The zone of an IPv6 address, such as `%25eth0`.
    Zone,
    Path,
    Query,
    /// User names, passwords and fragments.
    Other,
}

impl Url {
    /// Reads a URL; `None` for other texts.
    pub(super) fn parse(text: &str) -> Option<Url> {
        // As upstream, the text is first checked as that of a request, in which `#` has no special meaning. Then it is
        // read with its fragment.
        parts(text, true)?;
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        unescape(fragment, Part::Other)?;
        Some(Url { fragment: fragment.to_owned(), ..parts(rest, false)? })
    }

    /// Whether a text is a URL, for `isURL`. Unlike [`Url::parse`], it does not check the fragment.
    pub(super) fn is_url(text: &str) -> bool {
        parts(text, true).is_some()
    }

    /// The number of bytes of all parts.
    pub(super) fn length(&self) -> usize {
        let Url { scheme, user, host, path, opaque, query, fragment } = self;
        let query = query.as_ref().map_or(0, String::len);
        [scheme, user, host, path, opaque, fragment].map(String::len).iter().sum::<usize>() + query
    }

    /// The number of bytes of the query, and an upper bound of its pairs.
    pub(super) fn query_size(&self) -> (usize, usize) {
        let query = self.query.as_deref().unwrap_or_default();
        (query.len(), query.matches('&').count() + 1)
    }

    /// The host without its port, and without the brackets of an IPv6 address.
    pub(super) fn hostname(&self) -> &str {
        let host = self.split_host().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port; empty if there is none.
    pub(super) fn port(&self) -> &str {
        self.split_host().1
    }

    /// The host, and the port after a colon; the port is empty if there is none.
    fn split_host(&self) -> (&str, &str) {
        match self.host.rfind(':') {
            Some(colon) if is_optional_port(&self.host[colon..]) => (&self.host[..colon], &self.host[colon + 1..]),
            _ => (&self.host, ""),
        }
    }

    /// The values of the query by key, without escapes. Pairs with invalid escapes or a semicolon are left out.
    pub(super) fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let pairs = self.query.as_deref().unwrap_or_default().split('&');
        for pair in pairs.filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape(key, Part::Query), unescape(value, Part::Query)) {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                found.entry(text(key)).or_default().push(text(value));
            }
        }
        found
    }
}

/// The parts of a URL without a fragment; `None` if it is not valid. `is_request`: the URL is that of an HTTP request
/// (net/url, ParseRequestURI), which must not be empty or a relative path.
fn parts(text: &str, is_request: bool) -> Option<Url> {
    let mut url = Url {
        scheme: String::new(),
        user: String::new(),
        host: String::new(),
        path: String::new(),
        opaque: String::new(),
        query: None,
        fragment: String::new(),
    };
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) || (text.is_empty() && is_request) {
        return None;
    }
    if text == "*" {
        "*".clone_into(&mut url.path);
        return Some(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query.to_owned())));
    url.query = query;
    // Without a slash, the text after a scheme is opaque, and one without a scheme is a relative path.
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Some(url);
        }
        let has_colon = rest.split('/').next().is_some_and(|first| first.contains(':'));
        if is_request || has_colon {
            return None;
        }
    }
    // `//` introduces the user and the host.
    let mut path = rest;
    if (!url.scheme.is_empty() || (!is_request && !rest.starts_with("///")))
        && let Some(rest) = rest.strip_prefix("//")
    {
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, after) = rest.split_at(end);
        path = after;
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        url.host = host_of(&url.scheme, host)?;
        if let Some(user) = user {
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(is_valid) {
                return None;
            }
            unescape(user, Part::Other)?;
            user.clone_into(&mut url.user);
        }
    }
    url.path = escaped_path(path)?;
    Some(url)
}

/// The scheme, and the text after its colon; an empty scheme and the whole text if there is no scheme. `None` if the
/// text begins with a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return None,
            b':' => return Some((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

/// The host and port without escapes; `None` if they are not valid. An IPv6 address is in brackets. The host of an HTTP
/// URL has at most one colon; other schemes may have more.
fn host_of(scheme: &str, host: &str) -> Option<String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match host.rfind('[') {
        Some(0) => {
            let close = host.rfind(']')?;
            let (address, port) = (&host[1..close], &host[close + 1..]);
            if !is_optional_port(port) {
                return None;
            }
            let (plain, zone) = address.find("%25").map_or((address, ""), |at| address.split_at(at));
            let plain = text(unescape(plain, Part::Host)?);
            let zone = text(unescape(zone, Part::Zone)?);
            plain.parse::<Ipv6Addr>().ok().filter(|_| zone != "%")?;
            Some(format!("[{plain}{zone}]{port}"))
        }
        Some(_) => None,
        None => {
            if let Some(first) = host.find(':') {
                let is_strict = ["http", "https"].contains(&scheme);
                let colon = if is_strict { first } else { host.rfind(':').unwrap_or(first) };
                if !is_optional_port(&host[colon..]) {
                    return None;
                }
            }
            unescape(host, Part::Host).map(text)
        }
    }
}

/// Whether a text is empty, or a colon with digits.
fn is_optional_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The path with escapes (net/url, EscapedPath): as it is written if no byte lacks an escape, and otherwise with the
/// escapes that Go writes. `None` if an escape is not valid.
fn escaped_path(path: &str) -> Option<String> {
    let plain = unescape(path, Part::Path)?;
    let is_valid = |byte: u8| b"!'()*[]%".contains(&byte) || !must_escape(byte, Part::Path);
    if path == "*" || path.bytes().all(is_valid) {
        return Some(path.to_owned());
    }
    let mut escaped = String::with_capacity(path.len() * 2);
    for byte in plain {
        match must_escape(byte, Part::Path) {
            true => escaped.push_str(&format!("%{byte:02X}")),
            false => escaped.push(char::from(byte)),
        }
    }
    Some(escaped)
}

/// Whether Go escapes a byte in a part of a URL (net/url, shouldEscape).
fn must_escape(byte: u8, part: Part) -> bool {
    let others: &[u8] = match part {
        Part::Host | Part::Zone => b"-_.~!$&'()*+,;=:[]<>\"",
        Part::Path => b"-_.~$&+,/:;=@",
        Part::Query | Part::Other => b"-_.~",
    };
    !byte.is_ascii_alphanumeric() && !others.contains(&byte)
}

/// The bytes of a text with escapes (`%20`), decoded. `None` if an escape is not valid in this part of a URL, or if
/// the host has a byte that must be escaped.
fn unescape(text: &str, part: Part) -> Option<Vec<u8>> {
    let is_host = matches!(part, Part::Host | Part::Zone);
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        match first {
            b'%' => {
                let (digits, after) = bytes.split_at_checked(2)?;
                bytes = after;
                let digits = std::str::from_utf8(digits).ok()?;
                let byte = u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
                let is_valid = match part {
                    // Only bytes that are not ASCII, and the percent sign, can have escapes in a host.
                    Part::Host => byte >= 0x80 || digits == "25",
                    Part::Zone => digits == "25" || byte == b' ' || !must_escape(byte, Part::Host),
                    Part::Path | Part::Query | Part::Other => true,
                };
                if !is_valid {
                    return None;
                }
                plain.push(byte);
            }
            b'+' if part == Part::Query => plain.push(b' '),
            byte if is_host && *byte < 0x80 && must_escape(*byte, part) => return None,
            byte => plain.push(*byte),
        }
    }
    Some(plain)
}
