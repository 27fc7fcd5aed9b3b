//! `Warning` headers: messages for the user beside a response, which kubectl prints as `Warning: ...`.
//!
//! In the form and within the limits of kube-apiserver (`endpoints/filters/warning.go`, apimachinery `NewWarningHeader`). What is
//! warned of is decided elsewhere.

use std::collections::HashSet;

use http::HeaderMap;
use http::header::{HeaderValue, WARNING};

/// Characters of all texts together, beyond which each is cut.
const MOST_IN_ALL: usize = 4_096;

/// Characters of a text that is cut.
const MOST_OF_ONE: usize = 256;

/// Adds a header for each text, once.
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
        // Go writes UTF-8 into headers, and so do clients read it.
        if let Ok(value) = HeaderValue::from_bytes(quoted.as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}
