//! `Warning` headers: messages for the user in addition to a response. kubectl prints them as `Warning: ...`.
//!
//! They have the form and the limits of kube-apiserver (`endpoints/filters/warning.go`, apimachinery
//! `NewWarningHeader`). Callers choose the messages.

use std::collections::HashSet;

use http::HeaderMap;
use http::header::{HeaderValue, WARNING};

/// If all messages together have more characters than this, each is shortened, and the last ones are omitted.
const MOST_IN_ALL: usize = 4_096;

/// The maximum number of characters of a message that is shortened.
const MOST_OF_ONE: usize = 256;

/// Adds a header for each message. Omits empty messages, duplicates, and messages with control characters.
pub(crate) fn add<'text>(headers: &mut HeaderMap, texts: impl IntoIterator<Item = &'text str>) {
    let mut seen = HashSet::new();
    let is_sendable = |text: &&str| !text.is_empty() && !text.chars().any(char::is_control);
    let texts: Vec<&str> = texts.into_iter().filter(is_sendable).filter(|text| seen.insert(*text)).collect();
    let is_cut = texts.iter().map(|text| text.chars().count()).sum::<usize>() > MOST_IN_ALL;
    let mut written = 0;
    for text in texts {
        if is_cut && written >= MOST_IN_ALL {
            break;
        }
        let most = if is_cut { MOST_OF_ONE } else { usize::MAX };
        let mut quoted = String::from("299 - \"");
        for letter in text.chars().take(most) {
            if matches!(letter, '\\' | '"') {
                quoted.push('\\');
            }
            quoted.push(letter);
            written += 1;
        }
        quoted.push('"');
        // Go writes UTF-8 into headers, and clients read it.
        if let Ok(value) = HeaderValue::from_bytes(quoted.as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}
