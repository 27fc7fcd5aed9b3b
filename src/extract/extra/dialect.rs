//! Paths as people write them -> steps: names, wildcards and elements of lists; anything else is refused with a reason.
//!
//! Two dialects: RFC 9535, read by jsonpath-rust, and the one of printer columns (client-go `util/jsonpath`, as apiextensions
//! `registry/customresource/tableconvertor` uses it), where a path may begin with a dot, and a backslash escapes.

use jsonpath_rust::parser::model::{Segment, Selector};
use jsonpath_rust::parser::parse_json_path;

use super::{Broken, MAX_PATH, Reason};
use crate::extract::trie::Step;
use crate::model::quote;

/// Reads an RFC 9535 path.
pub(super) fn rfc_9535(text: &str) -> Result<Vec<Step>, Broken> {
    if text.chars().count() > MAX_PATH {
        return Err(Broken::new(Reason::InvalidPath, format!("a path must not be longer than {MAX_PATH} characters")));
    }
    // The parser tries the expressions of a filter in many ways, so that its time doubles with each parenthesis.
    if has_filter(text) {
        return named(text, Err(FILTER.to_owned()));
    }
    let query = parse_json_path(text).map_err(|error| {
        // The parser shows the text with a mark below it; of that one line is kept.
        let shown = error.to_string();
        let column = shown.split_once("--> 1:").map(|(_, rest)| rest);
        let column = column.and_then(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next());
        let place = column.map_or_else(String::new, |column| format!(" at character {column}"));
        let hint = if text.starts_with('$') { "" } else { "; a path begins with $, such as $.spec.color" };
        Broken::new(Reason::InvalidPath, format!("{} is no RFC 9535 path{place}{hint}", quote(text)))
    })?;
    let steps = query.segments.iter().map(segment).collect::<Result<Vec<Step>, String>>();
    named(text, steps)
}

/// Whether a question mark stands outside of quotes.
fn has_filter(text: &str) -> bool {
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '?') => return true,
            (None, _) => {}
        }
    }
    false
}

fn segment(segment: &Segment) -> Result<Step, String> {
    match segment {
        Segment::Selector(Selector::Name(name)) => Ok(Step::Key(name.clone())),
        Segment::Selector(Selector::Wildcard) => Ok(Step::Any),
        Segment::Selector(Selector::Index(place)) => element(*place),
        Segment::Selector(Selector::Slice(..)) => Err(SLICE.to_owned()),
        Segment::Selector(Selector::Filter(_)) => Err(FILTER.to_owned()),
        Segment::Selectors(_) => Err(SEVERAL.to_owned()),
        Segment::Descendant(_) => Err(DESCENDANTS.to_owned()),
    }
}

const SLICE: &str = "slices ([a:b]) are not supported; use [*] for all elements";
const FILTER: &str = "filters ([?...]) are not supported; use [*] for all elements";
const SEVERAL: &str = "several names in one bracket are not supported; make a field of each";
const DESCENDANTS: &str = "descendants (..) are not supported; name the whole path";

fn element(place: i64) -> Result<Step, String> {
    let place = usize::try_from(place);
    place.map(Step::Element).map_err(|_| "places counted from the end of a list are not supported".to_owned())
}

fn named(text: &str, steps: Result<Vec<Step>, String>) -> Result<Vec<Step>, Broken> {
    match steps {
        Ok(steps) if steps.is_empty() => Err(Broken::new(
            Reason::UnsupportedPath,
            format!("{} is the whole object; name a field in it", quote(text)),
        )),
        Ok(steps) => Ok(steps),
        Err(why) => Err(Broken::new(Reason::UnsupportedPath, format!("{}: {why}", quote(text)))),
    }
}

/// Reads the path of a printer column.
pub(super) fn printer_column(text: &str) -> Result<Vec<Step>, Broken> {
    if text.chars().count() > MAX_PATH {
        let message = format!("the path of the column must not be longer than {MAX_PATH} characters");
        return Err(Broken::new(Reason::InvalidPath, message));
    }
    let trimmed = text.trim();
    let mut rest = trimmed.strip_prefix(['$', '@']).unwrap_or(trimmed);
    let mut steps = Vec::new();
    let steps = loop {
        if rest.is_empty() || rest == "." && steps.is_empty() {
            break Ok(steps);
        }
        let read = match rest.strip_prefix('[') {
            Some(inside) => bracket(inside),
            None => name(rest, steps.is_empty()),
        };
        match read {
            Ok((Some(step), after)) => {
                steps.push(step);
                rest = after;
            }
            Ok((None, after)) => rest = after,
            Err(why) => break Err(why),
        }
    };
    named(text, steps)
}

/// A name with the dot in front of it, which only the first one may lack. No step: a dot before a bracket.
fn name(text: &str, is_first: bool) -> Result<(Option<Step>, &str), String> {
    let rest = match text.strip_prefix('.') {
        Some(rest) if rest.starts_with('.') => return Err(DESCENDANTS.to_owned()),
        Some(rest) => rest,
        None if is_first && !text.starts_with('{') => text,
        None => return Err("it cannot be read as client-go reads it".to_owned()),
    };
    let mut name = String::new();
    let mut letters = rest.char_indices();
    let mut end = rest.len();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => {
                end = index;
                break;
            }
            '{' | '}' | '@' | '$' | ',' | ' ' | '|' => {
                return Err(format!("{letter:?} in a name is not supported"));
            }
            other => name.push(other),
        }
    }
    let rest = &rest[end..];
    match &*name {
        "" if rest.starts_with('[') => Ok((None, rest)),
        "" => Err("a name is missing behind a dot".to_owned()),
        "*" => Ok((Some(Step::Any), rest)),
        _ => Ok((Some(Step::Key(name)), rest)),
    }
}

/// What stands behind an opening bracket.
fn bracket(text: &str) -> Result<(Option<Step>, &str), String> {
    for mark in ['\'', '"'] {
        let Some(inside) = text.strip_prefix(mark) else { continue };
        let mut name = String::new();
        let mut letters = inside.char_indices();
        while let Some((index, letter)) = letters.next() {
            match letter {
                '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
                letter if letter == mark => {
                    return match inside[index + 1..].trim_start().strip_prefix(']') {
                        Some(rest) => Ok((Some(Step::Key(name)), rest)),
                        None => Err(SEVERAL.to_owned()),
                    };
                }
                other => name.push(other),
            }
        }
        return Err("a quote is not closed".to_owned());
    }
    if text.starts_with('?') {
        return Err(FILTER.to_owned());
    }
    let (inside, rest) = text.split_once(']').ok_or("a bracket is not closed")?;
    let step = match inside.trim() {
        "*" => Step::Any,
        inside if inside.contains(':') => return Err(SLICE.to_owned()),
        inside if inside.contains(',') => return Err(SEVERAL.to_owned()),
        inside => element(inside.parse().map_err(|_| format!("[{inside}] cannot be read"))?)?,
    };
    Ok((Some(step), rest))
}
