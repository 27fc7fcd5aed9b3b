//! Patterns, in the syntax of Go's regexp (RE2), matched in linear time.
//!
//! Classes such as `\d` are ASCII in Go and Unicode in the crate, so they are translated. `\Q`, `\C` and octal escapes
//! are errors here.

use regex::{Regex, RegexBuilder};

/// The maximum memory of a compiled pattern in bytes, and of the states that matching may keep.
const MAX_SIZE: usize = 256 << 10;

/// The maximum length of a pattern in bytes.
const MAX_LENGTH: usize = 4 << 10;

/// Compiles a pattern.
///
/// # Errors
/// The pattern is invalid or too large; a text in one line.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_LENGTH {
        return Err(format!("the pattern is longer than {MAX_LENGTH} bytes"));
    }
    let built = RegexBuilder::new(&translate(pattern)).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the pattern is too large when compiled".to_owned(),
        // The crate draws the pattern over several lines; the last one has the reason.
        error => error.to_string().lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned(),
    })
}

/// The pattern in the syntax of the crate. Invalid patterns remain invalid.
fn translate(pattern: &str) -> String {
    let mut translated = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    // Within brackets; the number of characters since they opened, because `]` first is literal.
    let mut inside: Option<usize> = None;
    while let Some(character) = characters.next() {
        let at = inside;
        if let Some(count) = &mut inside {
            *count += 1;
        }
        match (character, at) {
            ('\\', _) => match characters.next() {
                Some('d') => translated.push_str(if at.is_some() { "0-9" } else { "[0-9]" }),
                Some('w') => translated.push_str(if at.is_some() { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
                Some('s') => translated.push_str(if at.is_some() { r"\t\n\f\r " } else { r"[\t\n\f\r ]" }),
                Some('D') => translated.push_str("[^0-9]"),
                Some('W') => translated.push_str("[^0-9A-Za-z_]"),
                Some('S') => translated.push_str(r"[^\t\n\f\r ]"),
                Some('b') if at.is_none() => translated.push_str(r"(?-u:\b)"),
                Some('B') if at.is_none() => translated.push_str(r"(?-u:\B)"),
                Some(escaped) => translated.extend(['\\', escaped]),
                None => translated.push('\\'),
            },
            ('[', None) => {
                inside = Some(0);
                translated.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    translated.push('^');
                }
            }
            ('[', Some(_)) if characters.peek() == Some(&':') => {
                // A class such as `[:alpha:]`, up to its end.
                translated.push('[');
                for part in characters.by_ref() {
                    translated.push(part);
                    if part == ']' {
                        break;
                    }
                }
            }
            (']', Some(0)) => translated.push_str(r"\]"),
            (']', Some(_)) => {
                inside = None;
                translated.push(']');
            }
            ('[' | '&' | '~', Some(_)) => translated.extend(['\\', character]),
            (character, _) => translated.push(character),
        }
    }
    translated
}
