//! Printer columns: a JSONPath and how its value is shown in a cell (client-go `util/jsonpath`, apiextensions
//! `registry/customresource/tableconvertor`).
//!
//! Understood: names, quoted names, escaped dots, indexes (negative ones too), `[*]`, and filters that compare one
//! path with one literal, `[?(@.type=="Ready")]`, which is how conditions are shown. Slices, unions, `..` and other
//! filters give empty cells: CRDs may not use most of them anyway. Only the first result is shown, as upstream does.

use jiff::Timestamp;
use serde_json::Value;

use crate::extract::Prune;
use crate::printer::time::{Moment, human_duration};

use super::encode::json_bytes;

/// A parsed path; `None` inside of [`ColumnPath`] means that it is not understood.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnPath(Option<Vec<Step>>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Name(String),
    Index(i64),
    Every,
    Filter { path: Vec<Step>, equals: bool, literal: Value },
}

impl ColumnPath {
    /// Reads a path such as `.spec.color` or `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> ColumnPath {
        ColumnPath(steps(text.trim()))
    }

    /// Whether it looks at what is left out of objects, or may.
    pub fn looks_at(&self, prune: &Prune) -> bool {
        // What is not understood may look anywhere.
        let Some(steps) = &self.0 else { return !prune.is_empty() };
        let mut names = Vec::new();
        for step in steps {
            match step {
                Step::Name(name) => names.push(&**name),
                Step::Index(_) | Step::Every => {}
                Step::Filter { path, .. } => {
                    let inside = path.iter().filter_map(|step| match step {
                        Step::Name(name) => Some(&**name),
                        Step::Index(_) | Step::Every | Step::Filter { .. } => None,
                    });
                    if prune.leaves_out(names.iter().copied().chain(inside)) {
                        return true;
                    }
                }
            }
        }
        prune.leaves_out(names)
    }

    /// The first value at the path; `None` when there is none.
    pub fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        walk(self.0.as_deref()?, root).into_iter().next()
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.strip_prefix('$').or_else(|| text.strip_prefix('@')).unwrap_or(text);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = bracket_end(inside)?;
            steps.push(bracket(&inside[..end])?);
            rest = &inside[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.').or(steps.is_empty().then_some(rest))?;
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
                other => name.push(other),
            }
        }
        rest = &rest[end..];
        match &*name {
            // `.` alone is the object itself; `..` is recursive descent, which is not understood.
            "" if rest.is_empty() && steps.is_empty() => return Some(steps),
            "" if rest.starts_with('[') => {}
            "" => return None,
            "*" => steps.push(Step::Every),
            _ => steps.push(Step::Name(name)),
        }
    }
    Some(steps)
}

/// Where the bracket that has been opened closes, quotes respected.
fn bracket_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(index),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::Every);
    }
    if let Some(name) = quoted(inside) {
        return Some(Step::Name(name.replace('\\', "")));
    }
    if let Some(condition) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let (place, equals) = match (condition.find("=="), condition.find("!=")) {
            (Some(place), None) => (place, true),
            (None, Some(place)) => (place, false),
            (Some(is), Some(is_not)) => (is.min(is_not), is < is_not),
            (None, None) => return None,
        };
        let literal = condition[place + 2..].trim();
        let literal = match quoted(literal) {
            Some(text) => Value::from(text),
            None => serde_json::from_str(literal).ok()?,
        };
        let path = steps(condition[..place].trim())?;
        return Some(Step::Filter { path, equals, literal });
    }
    inside.parse().ok().map(Step::Index)
}

fn quoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|mark| text.strip_prefix(mark)?.strip_suffix(mark))
}

fn walk<'a>(steps: &[Step], root: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![root];
    for step in steps {
        found = found.into_iter().flat_map(|value| take(step, value)).collect();
    }
    found
}

fn take<'a>(step: &Step, value: &'a Value) -> Vec<&'a Value> {
    match step {
        Step::Name(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => {
            let Value::Array(items) = value else { return Vec::new() };
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let place = if *index < 0 { index + length } else { *index };
            usize::try_from(place).ok().and_then(|place| items.get(place)).into_iter().collect()
        }
        Step::Every => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(members) => members.values().collect(),
            _ => Vec::new(),
        },
        Step::Filter { path, equals, literal } => match value {
            Value::Array(items) => items
                .iter()
                .filter(|item| walk(path, item).first().is_some_and(|found| (*found == literal) == *equals))
                .collect(),
            _ => Vec::new(),
        },
    }
}

/// The cell of a value in a column of this type.
pub fn cell(kind: &str, value: Option<&Value>, now: Timestamp) -> Value {
    let Some(value) = value else { return Value::Null };
    match (kind, value) {
        ("string", _) => Value::from(print(value)),
        ("integer", Value::Number(number)) => match number.as_f64() {
            _ if number.is_i64() || number.is_u64() => value.clone(),
            // Go converts by cutting the fraction off.
            #[expect(clippy::cast_possible_truncation, reason = "Rust saturates where Go's result is undefined")]
            Some(float) => Value::from(float as i64),
            None => Value::Null,
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => Value::from(age_of(text, now)),
        _ => Value::Null,
    }
}

/// A value as client-go prints it: strings bare, objects and lists as JSON, numbers as Go does.
fn print(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) => value.to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => print_float(float),
            _ => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => String::from_utf8_lossy(&json_bytes(value)).into_owned(),
    }
}

/// Go's `%v` of a float64: the shortest digits, with an exponent from 1e+06 on and below 1e-4.
fn print_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn age_of(text: &str, now: Timestamp) -> String {
    if text.is_empty() {
        return "<unknown>".to_owned();
    }
    match text.parse::<Timestamp>() {
        Ok(time) => {
            let moment = |time: Timestamp| Moment::of_microseconds(time.as_microsecond());
            human_duration(moment(now).seconds_since(moment(time)))
        }
        Err(_) => "<invalid>".to_owned(),
    }
}
