//! The syntax of label keys, label values and names, with kube-apiserver's error messages.
//!
//! Every function returns all errors of a text in upstream's order, and none for a valid text. The sources are
//! apimachinery `pkg/api/validate/content` and `pkg/util/validation`. The regular expressions in the messages are only
//! printed. The checks are plain loops over bytes, so that hostile input cannot make them slow. The callers add the
//! path: [`super::label`], [`super::wire`] and `schema::metadata`.

/// Longest name part of a label key, and longest label value, in bytes (apimachinery `labelKeyMaxLength`).
const LABEL_MAX: usize = 63;
/// Longest DNS label, in bytes (RFC 1123).
const DNS_LABEL_MAX: usize = 63;
/// Longest DNS subdomain, in bytes (RFC 1123).
const DNS_SUBDOMAIN_MAX: usize = 253;

const LABEL_KEY_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_PATTERN: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const DNS_LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN_PATTERN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL_PATTERN: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";

/// The errors of a label key (also of an annotation key): `[PREFIX/]NAME`.
pub fn label_key_errors(key: &str) -> Vec<String> {
    let rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                character";
    // A closure, because the message is rarely needed: nearly all keys are valid, and a selector may have very many.
    let pattern_error = || pattern_error(rule, LABEL_KEY_PATTERN, &["MyName", "my.name", "123-abc"]);
    let mut errors = Vec::new();
    let mut parts = key.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(dns_subdomain_errors(prefix).iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern_error()
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", length_error(LABEL_MAX)));
    }
    if !is_label_text(name) {
        errors.push(format!("name part {}", pattern_error()));
    }
    errors
}

/// The errors of a label value.
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(length_error(LABEL_MAX));
    }
    if !value.is_empty() && !is_label_text(value) {
        errors.push(pattern_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            LABEL_VALUE_PATTERN,
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// The errors of a DNS subdomain: the name rule of most kinds.
pub fn dns_subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > DNS_SUBDOMAIN_MAX {
        errors.push(length_error(DNS_SUBDOMAIN_MAX));
    }
    if !is_dns_subdomain(text) {
        errors.push(pattern_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            DNS_SUBDOMAIN_PATTERN,
            &["example.com"],
        ));
    }
    errors
}

/// The errors of a DNS label: the rule of namespace names.
pub fn dns_label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > DNS_LABEL_MAX {
        errors.push(length_error(DNS_LABEL_MAX));
    }
    if !is_dns_label(text) {
        errors.push(if is_dns_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            pattern_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                DNS_LABEL_PATTERN,
                &["my-name", "123-abc"],
            )
        });
    }
    errors
}

/// The errors of a DNS label of RFC 1035, which must start with a letter: the rule of Service names.
pub fn dns_1035_label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > DNS_LABEL_MAX {
        errors.push(length_error(DNS_LABEL_MAX));
    }
    if !is_dns_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        errors.push(pattern_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            DNS_1035_LABEL_PATTERN,
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// The errors of a name that only has to fit into one segment of a URL: the rule of RBAC names.
pub fn path_segment_errors(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|part| text.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// The message for a text that is too long.
fn length_error(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// The message for a text that does not match a pattern. `rule` states the pattern in words. The double space after a
/// comma is upstream's.
fn pattern_error(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// Whether a text is not empty and has the characters of a label value. Any length is accepted.
fn is_label_text(text: &str) -> bool {
    has_classes(text.as_bytes(), u8::is_ascii_alphanumeric, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
    })
}

/// Whether a text has the form of a DNS label (RFC 1123), of any length.
fn is_dns_label(text: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    has_classes(text.as_bytes(), is_end, |byte| is_end(byte) || *byte == b'-')
}

/// Whether a text has the form of a DNS subdomain (RFC 1123), of any length.
fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

/// Whether there are bytes, all of them satisfy `is_inner`, and the first and the last one also satisfy `is_end`.
fn has_classes(bytes: &[u8], is_end: impl Fn(&u8) -> bool, is_inner: impl Fn(&u8) -> bool) -> bool {
    matches!((bytes.first(), bytes.last()), (Some(first), Some(last)) if is_end(first) && is_end(last))
        && bytes.iter().all(is_inner)
}
