//! Parses a path into steps: names, wildcards and elements of lists. Anything else is rejected with a reason.
//!
//! Two dialects: RFC 9535, read by jsonpath-rust, and the one of printer columns, read by
//! [`crate::extract::json_path`].

use jsonpath_rust::parser::model::{Segment, Selector};
use jsonpath_rust::parser::parse_json_path;

use super::problem::{ExtraFieldReason, MAX_PATH, Violation};
use crate::extract::json_path::{JsonPath, PathNode, Slice, SliceEnd};
use crate::extract::trie::PathStep;
use crate::model::quote;

/// Parses an RFC 9535 path to steps.
///
/// # Errors
/// The path is invalid, too long, or has parts that are not supported.
pub(super) fn parse_rfc_9535(text: &str) -> Result<Vec<PathStep>, Violation> {
    if text.chars().count() > MAX_PATH {
        return Err(Violation::new(
            ExtraFieldReason::InvalidPath,
            format!("a path must not be longer than {MAX_PATH} characters"),
        ));
    }
    // The parser tries the expressions of a filter in many ways, so that its time doubles with each parenthesis.
    if has_filter(text) {
        return checked_steps(text, Err(FILTER.to_owned()));
    }
    let query = parse_json_path(text).map_err(|error| {
        // The parser shows the text with a mark below it, on several lines; only the column is used.
        let shown = error.to_string();
        let column = shown.split_once("--> 1:").map(|(_, rest)| rest);
        let column = column.and_then(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next());
        let place = column.map_or_else(String::new, |column| format!(" at character {column}"));
        let hint = if text.starts_with('$') { "" } else { "; a path begins with $, such as $.spec.color" };
        Violation::new(ExtraFieldReason::InvalidPath, format!("{} is not an RFC 9535 path{place}{hint}", quote(text)))
    })?;
    let steps = query.segments.iter().map(segment_step).collect::<Result<Vec<PathStep>, String>>();
    checked_steps(text, steps)
}

/// Whether a path has a filter: a question mark outside of quotes.
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

/// Converts a segment of an RFC 9535 path to a step. The error is the reason why it is not supported.
fn segment_step(segment: &Segment) -> Result<PathStep, String> {
    match segment {
        Segment::Selector(Selector::Name(name)) => Ok(PathStep::Key(name.clone())),
        Segment::Selector(Selector::Wildcard) => Ok(PathStep::Any),
        Segment::Selector(Selector::Index(place)) => element_step(*place),
        Segment::Selector(Selector::Slice(..)) => Err(SLICE.to_owned()),
        Segment::Selector(Selector::Filter(_)) => Err(FILTER.to_owned()),
        Segment::Selectors(_) => Err(SEVERAL.to_owned()),
        Segment::Descendant(_) => Err(DESCENDANTS.to_owned()),
    }
}

const SLICE: &str = "slices ([a:b]) are not supported; use [*] for all elements";
const FILTER: &str = "filters ([?...]) are not supported; use [*] for all elements";
const SEVERAL: &str = "several names in one bracket are not supported; define a field for each name";
const DESCENDANTS: &str = "descendants (..) are not supported; write the whole path";

/// A step to the element at this index of a list; an error if the index is negative.
fn element_step(place: i64) -> Result<PathStep, String> {
    let place = usize::try_from(place);
    place
        .map(PathStep::Element)
        .map_err(|_| "negative list indexes are not supported: count from the start of the list, or use [*]".to_owned())
}

/// The steps of the path `text`, if there are any. Otherwise, or if `steps` is a reason, an error that quotes the path.
fn checked_steps(text: &str, steps: Result<Vec<PathStep>, String>) -> Result<Vec<PathStep>, Violation> {
    match steps {
        Ok(steps) if steps.is_empty() => Err(Violation::new(
            ExtraFieldReason::UnsupportedPath,
            format!("{} selects the whole object; add the name of a field", quote(text)),
        )),
        Ok(steps) => Ok(steps),
        Err(why) => Err(Violation::new(ExtraFieldReason::UnsupportedPath, format!("{}: {why}", quote(text)))),
    }
}

/// Parses the path of a printer column (a JSONPath of kubectl) to steps.
///
/// # Errors
/// The path is invalid, too long, or has parts that are not supported.
pub(super) fn parse_printer_column(text: &str) -> Result<Vec<PathStep>, Violation> {
    if text.chars().count() > MAX_PATH {
        let message = format!("the path of the column must not be longer than {MAX_PATH} characters");
        return Err(Violation::new(ExtraFieldReason::InvalidPath, message));
    }
    let path = JsonPath::parse(text).map_err(|error| format!("the API server cannot parse it: {error}"));
    let steps = path.and_then(|path| match path.actions() {
        [action] => action.iter().map(node_step).collect(),
        _ => Err("braces are not supported: they begin or end a template".to_owned()),
    });
    checked_steps(text, steps)
}

/// Converts a node of a kubectl JSONPath to a step. The error is the reason why it is not supported.
fn node_step(node: &PathNode) -> Result<PathStep, String> {
    const EVERY: Slice = Slice { first: None, end: SliceEnd::Open, step: None };
    match node {
        PathNode::Field(name) if name.is_empty() => Err("a name is missing after a dot".to_owned()),
        PathNode::Field(name) => Ok(PathStep::Key(name.clone())),
        PathNode::Wildcard => Ok(PathStep::Any),
        PathNode::Slice(slice) if *slice == EVERY => Ok(PathStep::Any),
        PathNode::Slice(Slice { first, end: SliceEnd::Next, step: None }) => element_step(first.unwrap_or(0)),
        PathNode::Slice(_) => Err(SLICE.to_owned()),
        PathNode::Filter(_) => Err(FILTER.to_owned()),
        PathNode::Union(_) => Err(SEVERAL.to_owned()),
        PathNode::Recursive => Err(DESCENDANTS.to_owned()),
        PathNode::Literal(_) | PathNode::Range | PathNode::Word(_) => {
            Err("it has a word, a number or a quoted string that is not a field name; a path begins with a dot"
                .to_owned())
        }
    }
}
