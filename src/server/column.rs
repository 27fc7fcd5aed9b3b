//! Printer columns: a JSONPath and how its value is shown in a cell (client-go `util/jsonpath`, apiextensions
//! `registry/customresource/tableconvertor`).
//!
//! Supported: names, quoted names, escaped dots, indexes (negative ones too), slices, `[*]`, `.*`, and filters that compare one path with
//! a literal or another path, `[?(@.type=="Ready")]`, or test that it exists. Unions and `..` give empty cells. Only the first
//! result is shown. A path that fails on one element, such as a filter that compares an integer with a text, gives an empty cell,
//! whatever the other elements hold: as upstream does.

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
    /// One element.
    Index(i64),
    /// Elements from one to before another; absent: from the first, to the last.
    Slice(Option<i64>, Option<i64>),
    /// All members or elements.
    Every,
    Filter {
        left: Vec<Step>,
        test: Option<(Comparison, Operand)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    Path(Vec<Step>),
}

/// Deepest nesting of filters in filters. Reading and following a path recurses as deep.
const MAX_FILTERS: usize = 8;

/// A path cannot be followed in a value; upstream's error, which empties the cell.
struct Unfit;

impl ColumnPath {
    /// Reads a path such as `.spec.color` or `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> ColumnPath {
        ColumnPath(steps(text.trim(), 0))
    }

    /// Whether it looks at what is left out of objects, or may.
    pub fn looks_at(&self, prune: &Prune) -> bool {
        // What is not understood may look anywhere.
        let Some(steps) = &self.0 else { return !prune.is_empty() };
        let mut names = Vec::new();
        for step in steps {
            match step {
                Step::Name(name) => names.push(&**name),
                Step::Index(_) | Step::Slice(..) | Step::Every => {}
                Step::Filter { left, test } => {
                    let right = match test {
                        Some((_, Operand::Path(path))) => &path[..],
                        _ => &[],
                    };
                    for path in [left, right] {
                        let inside = path.iter().filter_map(|step| match step {
                            Step::Name(name) => Some(&**name),
                            Step::Index(_) | Step::Slice(..) | Step::Every | Step::Filter { .. } => None,
                        });
                        if prune.leaves_out(names.iter().copied().chain(inside)) {
                            return true;
                        }
                    }
                }
            }
        }
        prune.leaves_out(names)
    }

    /// The first value at the path; `None` when there is none.
    pub fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        walk(self.0.as_deref()?, root).ok()?.into_iter().next()
    }
}

/// `filters` is the number of filters around the path.
fn steps(text: &str, filters: usize) -> Option<Vec<Step>> {
    if filters > MAX_FILTERS {
        return None;
    }
    let mut rest = text.strip_prefix('$').or_else(|| text.strip_prefix('@')).unwrap_or(text);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = bracket_end(inside)?;
            steps.push(bracket(&inside[..end], filters)?);
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

fn bracket(inside: &str, filters: usize) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::Slice(None, None));
    }
    if let Some(name) = quoted(inside) {
        return Some(Step::Name(name.replace('\\', "")));
    }
    if let Some(condition) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return filter(condition, filters + 1);
    }
    match inside.split_once(':') {
        None => inside.parse().ok().map(Step::Index),
        Some((first, end)) => {
            let bound = |text: &str| match text {
                "" => Some(None),
                text => text.parse().ok().map(Some),
            };
            Some(Step::Slice(bound(first)?, bound(end)?))
        }
    }
}

fn filter(condition: &str, filters: usize) -> Option<Step> {
    let is_operator = |letter: char| matches!(letter, '!' | '<' | '>' | '=');
    let Some(place) = condition.find(is_operator) else {
        return Some(Step::Filter { left: steps(condition.trim(), filters)?, test: None });
    };
    let (left, rest) = condition.split_at(place);
    let (operator, right) = rest.split_at(rest.find(|letter| !is_operator(letter))?);
    let comparison = match operator {
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let right = right.trim();
    let operand = match quoted(right) {
        Some(text) => Operand::Literal(Value::from(text)),
        None if right.starts_with('@') => Operand::Path(steps(right, filters)?),
        None => Operand::Literal(serde_json::from_str(right).ok()?),
    };
    Some(Step::Filter { left: steps(left.trim(), filters)?, test: Some((comparison, operand)) })
}

fn quoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|mark| text.strip_prefix(mark)?.strip_suffix(mark))
}

fn walk<'a>(steps: &[Step], root: &'a Value) -> Result<Vec<&'a Value>, Unfit> {
    let mut found = vec![root];
    for step in steps {
        let mut next = Vec::new();
        for value in found {
            take(step, value, &mut next)?;
        }
        found = next;
    }
    Ok(found)
}

fn take<'a>(step: &Step, value: &'a Value, found: &mut Vec<&'a Value>) -> Result<(), Unfit> {
    match (step, value) {
        (Step::Name(name), _) => found.extend(value.get(name)),
        (Step::Every, Value::Array(items)) => found.extend(items),
        (Step::Every, Value::Object(members)) => found.extend(members.values()),
        (Step::Every, _) | (Step::Index(_) | Step::Slice(..), Value::Null) => {}
        (Step::Index(index), Value::Array(items)) => {
            let length = i64::try_from(items.len()).map_err(|_| Unfit)?;
            let place = if *index < 0 { index + length } else { *index };
            found.push(usize::try_from(place).ok().and_then(|place| items.get(place)).ok_or(Unfit)?);
        }
        (Step::Slice(first, end), Value::Array(items)) => {
            let length = i64::try_from(items.len()).map_err(|_| Unfit)?;
            let bound = |given: Option<i64>, otherwise: i64| match given {
                None => otherwise,
                Some(place) if place < 0 => place + length,
                Some(place) => place,
            };
            let (first, end) = (bound(*first, 0), bound(*end, length));
            // Nothing may be taken from anywhere.
            if first != end {
                let range = usize::try_from(first).map_err(|_| Unfit)?..usize::try_from(end).map_err(|_| Unfit)?;
                found.extend(items.get(range).ok_or(Unfit)?);
            }
        }
        (Step::Filter { left, test }, Value::Array(items)) => {
            for item in items {
                let left = walk(left, item);
                let passes = match test {
                    None => left.is_ok_and(|found| !found.is_empty()),
                    Some((comparison, operand)) => {
                        let right = match operand {
                            Operand::Literal(literal) => vec![literal],
                            Operand::Path(path) => walk(path, item)?,
                        };
                        match (&left?[..], &right[..]) {
                            ([], _) | ([_], []) => false,
                            ([left], [right]) => compare(*comparison, left, right)?,
                            _ => return Err(Unfit),
                        }
                    }
                };
                if passes {
                    found.push(item);
                }
            }
        }
        (Step::Index(_) | Step::Slice(..) | Step::Filter { .. }, _) => return Err(Unfit),
    }
    Ok(())
}

/// Compares two values of one kind (client-go `third_party/forked/golang/template`): integers are not compared with fractions, and
/// objects, lists and null with nothing.
fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool, Unfit> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
            _ => return Err(Unfit),
        },
        (Value::Bool(left), Value::Bool(right)) => match comparison {
            Comparison::Equal | Comparison::NotEqual => Some(left.cmp(right)),
            _ => return Err(Unfit),
        },
        _ => return Err(Unfit),
    };
    Ok(order.is_some_and(|order| match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }))
}

/// The cell of a value in a column of this type.
pub fn cell(kind: &str, value: Option<&Value>, now: Timestamp) -> Value {
    let Some(value) = value else { return Value::Null };
    match (kind, value) {
        ("string", _) => Value::from(print(value)),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(float)) => Value::from(integer_of(float)),
            (None, None) => Value::Null,
        },
        // Also of an integer, which may be more exact than a float.
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => Value::from(age_of(text, now)),
        _ => Value::Null,
    }
}

/// Go's conversion cuts the fraction off. What does not fit becomes the lowest integer on amd64; on other processors Go gives other
/// results.
fn integer_of(float: f64) -> i64 {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
    if (-BEYOND..BEYOND).contains(&float) { float as i64 } else { i64::MIN }
}

/// A value as client-go prints it: strings bare, objects and lists as JSON, numbers as Go does.
fn print(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) => value.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => print_float(float),
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

/// The age of a moment in Go's RFC 3339 (apimachinery `metav1.Time`, UnmarshalQueryParameter, which takes two texts for no moment).
fn age_of(text: &str, now: Timestamp) -> String {
    if matches!(text, "" | "null") {
        return "<unknown>".to_owned();
    }
    match Moment::parse(text) {
        Some(Moment::ZERO) => "<unknown>".to_owned(),
        Some(time) => human_duration(Moment::of_microseconds(now.as_microsecond()).seconds_since(time)),
        None => "<invalid>".to_owned(),
    }
}
