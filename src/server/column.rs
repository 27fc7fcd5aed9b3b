//! Printer columns: a JSONPath and how its value is shown in a cell (client-go `util/jsonpath`, apiextensions
//! `registry/customresource/tableconvertor`).
//!
//! Supported: names, quoted names, escaped dots, indexes (negative ones too), slices, `[*]`, `.*`, and filters that compare one path with
//! a literal or another path, `[?(@.type=="Ready")]`, or test that it exists. Unions and `..` give empty cells. Only the first
//! result is shown. A path that fails on one element, such as a filter that compares an integer with a text, gives an empty cell,
//! whatever the other elements hold: as upstream does.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

use crate::extract::Prune;
use crate::extract::tree::{self, Kind, NodeId, OBJECT_LEVELS, Tree, scalar_value};
use crate::extract::value::unescape;
use crate::printer::time::{Moment, human_duration};

use super::encode::{json_bytes, write_string, write_value};

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
    /// A path that is not read, and finds nothing.
    pub const NONE: ColumnPath = ColumnPath(None);

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

/// The values in which paths are followed, and how many more of them may be looked at.
///
/// A path of filters in filters looks at a value once for each step that reaches its level. So a hostile definition, or an object made
/// for it, could otherwise keep a processor for minutes.
pub(super) struct Search<'t, 'b> {
    tree: &'t Tree<'b>,
    left: usize,
}

/// How many values are looked at for one row. Twenty columns that each search a list of 100,000 elements stay below it.
pub(super) const MOST_LOOKS: usize = 4 << 20;

impl<'t, 'b> Search<'t, 'b> {
    /// A search for the cells of one row.
    pub(super) fn new(tree: &'t Tree<'b>) -> Search<'t, 'b> {
        Search { tree, left: MOST_LOOKS }
    }

    /// How many more values may be looked at.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The first value at a path; `None` when there is none, or the row has looked at too many values.
    pub(super) fn first(&mut self, path: &ColumnPath) -> Option<NodeId> {
        let steps = path.0.as_deref()?;
        self.walk(steps, self.tree.root()).ok()?.into_iter().next()
    }

    fn look(&mut self) -> Result<(), Unfit> {
        self.left = self.left.checked_sub(1).ok_or(Unfit)?;
        Ok(())
    }

    fn walk(&mut self, steps: &[Step], root: NodeId) -> Result<Vec<NodeId>, Unfit> {
        let mut found = vec![root];
        for step in steps {
            let mut next = Vec::new();
            for value in found {
                self.look()?;
                self.take(step, value, &mut next)?;
            }
            found = next;
        }
        Ok(found)
    }

    fn take(&mut self, step: &Step, value: NodeId, found: &mut Vec<NodeId>) -> Result<(), Unfit> {
        match (step, self.tree.kind(value)) {
            (Step::Name(name), Kind::Map) => {
                let mut member = self.tree.first(value);
                while let Some(id) = member {
                    self.look()?;
                    if self.tree.has_key(id, name) {
                        found.push(id);
                        break;
                    }
                    member = self.tree.next(id);
                }
            }
            (Step::Every, Kind::List | Kind::Map) => self.elements(value, found)?,
            (Step::Name(_) | Step::Every, _) => {}
            (Step::Index(_) | Step::Slice(..), Kind::Scalar) if self.tree.bytes(value) == b"null" => {}
            (Step::Index(index), Kind::List) => {
                let mut items = Vec::new();
                self.elements(value, &mut items)?;
                let length = i64::try_from(items.len()).map_err(|_| Unfit)?;
                let place = if *index < 0 { index + length } else { *index };
                found.push(*usize::try_from(place).ok().and_then(|place| items.get(place)).ok_or(Unfit)?);
            }
            (Step::Slice(first, end), Kind::List) => {
                let mut items = Vec::new();
                self.elements(value, &mut items)?;
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
            (Step::Filter { left, test }, Kind::List) => {
                let mut item = self.tree.first(value);
                while let Some(id) = item {
                    self.look()?;
                    if self.passes(left, test.as_ref(), id)? {
                        found.push(id);
                    }
                    item = self.tree.next(id);
                }
            }
            (Step::Index(_) | Step::Slice(..) | Step::Filter { .. }, _) => return Err(Unfit),
        }
        Ok(())
    }

    fn elements(&mut self, container: NodeId, found: &mut Vec<NodeId>) -> Result<(), Unfit> {
        for element in self.tree.children(container) {
            self.look()?;
            found.push(element);
        }
        Ok(())
    }

    fn passes(&mut self, left: &[Step], test: Option<&(Comparison, Operand)>, item: NodeId) -> Result<bool, Unfit> {
        let left = self.walk(left, item);
        let Some((comparison, operand)) = test else { return Ok(left.is_ok_and(|found| !found.is_empty())) };
        let (count, right) = match operand {
            Operand::Literal(literal) => (1, Cow::Borrowed(literal)),
            Operand::Path(path) => {
                let found = self.walk(path, item)?;
                (found.len(), Cow::Owned(found.first().map_or(Value::Null, |one| self.scalar(*one))))
            }
        };
        match (&left?[..], count) {
            ([], _) | ([_], 0) => Ok(false),
            ([left], 1) => compare(*comparison, &self.scalar(*left), &right),
            _ => Err(Unfit),
        }
    }

    /// What is compared: an object or list is like null, which equals nothing.
    fn scalar(&self, id: NodeId) -> Value {
        match self.tree.kind(id) {
            Kind::Scalar => scalar_value(self.tree.bytes(id)).unwrap_or_default(),
            Kind::List | Kind::Map => Value::Null,
        }
    }
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

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Shows any value.
    String,
    /// Shows numbers without their fraction.
    Integer,
    /// Shows numbers.
    Number,
    /// Shows booleans.
    Boolean,
    /// Shows the age of a time.
    Date,
    /// Shows nothing.
    Unknown,
}

impl ColumnKind {
    /// The type of this name.
    pub fn of(name: &str) -> ColumnKind {
        match name {
            "string" => ColumnKind::String,
            "integer" => ColumnKind::Integer,
            "number" => ColumnKind::Number,
            "boolean" => ColumnKind::Boolean,
            "date" => ColumnKind::Date,
            _ => ColumnKind::Unknown,
        }
    }

    /// Whether a value of this JSON text may show something: decided without reading it.
    fn shows(self, json: &[u8]) -> bool {
        match (self, json.first()) {
            (_, None) | (ColumnKind::Unknown, _) => false,
            (ColumnKind::String, _) => true,
            (ColumnKind::Integer | ColumnKind::Number, Some(first)) => matches!(first, b'-' | b'0'..=b'9'),
            (ColumnKind::Boolean, Some(first)) => matches!(first, b't' | b'f'),
            (ColumnKind::Date, Some(first)) => *first == b'"',
        }
    }
}

/// Writes the cell of a value that is stored as this JSON text.
pub fn write_cell(kind: ColumnKind, json: &[u8], now: Timestamp, out: &mut Vec<u8>) {
    if !kind.shows(json) {
        return out.extend_from_slice(b"null");
    }
    // The usual one, without a value in between.
    if let (ColumnKind::String, [b'"', text @ .., b'"']) = (kind, json)
        && let Some(text) = unescape(text)
    {
        return write_string(&text, out);
    }
    if let (ColumnKind::String, [b'{' | b'[', ..]) = (kind, json)
        && let Some(text) = print_container(json)
    {
        return write_string(&String::from_utf8_lossy(&text), out);
    }
    let value = tree::shallow(json, OBJECT_LEVELS).unwrap_or_default();
    write_value(&cell(kind, &value, now), out);
}

/// An object or list as Go writes it: by a [`Tree`], which takes a tenth of the memory of values, and any depth.
fn print_container(json: &[u8]) -> Option<Vec<u8>> {
    let tree = Tree::read(json).ok()?;
    let mut text = Vec::with_capacity(json.len());
    let mut open: Vec<(Kind, bool, Option<NodeId>)> = Vec::new();
    let mut at = tree.root();
    loop {
        match (tree.kind(at), tree.bytes(at)) {
            (Kind::Scalar, [b'"', inside @ .., b'"']) => write_string(&unescape(inside)?, &mut text),
            (Kind::Scalar, literal) => write_value(&scalar_value(literal)?, &mut text),
            (kind, _) => {
                text.push(if kind == Kind::Map { b'{' } else { b'[' });
                open.push((kind, false, tree.first(at)));
            }
        }
        loop {
            let Some((kind, is_begun, next)) = open.last_mut() else { return Some(text) };
            let Some(id) = *next else {
                text.push(if *kind == Kind::Map { b'}' } else { b']' });
                open.pop();
                continue;
            };
            *next = tree.next(id);
            if std::mem::replace(is_begun, true) {
                text.push(b',');
            }
            if *kind == Kind::Map {
                write_string(&tree.key(id), &mut text);
                text.push(b':');
            }
            at = id;
            break;
        }
    }
}

/// The cell of a value in a column of this type.
pub fn cell(kind: ColumnKind, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (ColumnKind::String, _) => Value::from(print(value)),
        (ColumnKind::Integer, Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(float)) => Value::from(integer_of(float)),
            (None, None) => Value::Null,
        },
        // Also of an integer, which may be more exact than a float.
        (ColumnKind::Number, Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
        (ColumnKind::Boolean, Value::Bool(_)) => value.clone(),
        (ColumnKind::Date, Value::String(text)) => Value::from(age_of(text, now)),
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
