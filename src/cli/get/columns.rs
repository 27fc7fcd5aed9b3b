//! The columns of `--columns`: simple paths, whose values this command finds in the JSON of an object.
//!
//! Members, `[*]`, `[0]` and `['a.b/c']` are the part of kubectl's custom columns that has no expressions. A path that
//! leads to nothing is `<none>`, as in kubectl (kubectl/pkg/cmd/get/customcolumn.go). Filters, slices and recursive
//! descent are rejected, not ignored.

use anyhow::{anyhow, bail};
use serde_json::Value;

use super::arguments::without_braces;

/// What a cell without a value shows.
const NONE: &str = "<none>";

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The member of an object with this name.
    Member(String),
    /// An element of a list; from the end if negative.
    Element(i64),
    /// All elements of a list, or all values of an object.
    All,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathColumn {
    /// The header.
    pub(super) name: String,
    path: Vec<Step>,
}

/// The maximum number of names in the paths of the media type parameter `keep`, over all columns. Servers reject more
/// than 256.
const MOST_KEPT: usize = 200;

/// The parts of objects that columns show, as the value of the media type parameter `keep` in the Accept header. An
/// example is `.metadata.name+.spec.containers`. `None` if the parameter cannot express the paths of the columns: then
/// whole objects must be requested.
pub(super) fn kept(columns: &[PathColumn]) -> Option<String> {
    let (mut paths, mut count) = (Vec::new(), 0);
    for column in columns {
        let mut path = String::new();
        // `keep` has only names, so a list, or an object of which all members are shown, is kept whole.
        for step in &column.path {
            let Step::Member(name) = step else { break };
            let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
            if name.chars().all(is_plain) {
                path.push_str(&format!(".{name}"));
            } else if name.chars().all(|character| is_plain(character) || matches!(character, '.' | '/' | ':')) {
                path.push_str(&format!("['{name}']"));
            } else {
                return None;
            }
            count += 1;
        }
        // The column shows the whole object, or a path that servers do not accept: paths of `keep` begin with a dot.
        if !path.starts_with('.') {
            return None;
        }
        paths.push(path);
    }
    (count <= MOST_KEPT).then(|| paths.join("+"))
}

impl PathColumn {
    /// Reads the value of `--columns`.
    ///
    /// # Errors
    /// Names the column that is invalid, and its problem.
    pub(super) fn read_all(text: &str) -> anyhow::Result<Vec<PathColumn>> {
        split(text).into_iter().map(PathColumn::read).collect()
    }

    /// Reads one column: `NAME:PATH`, or `PATH`, whose header is the last member of the path in upper case.
    fn read(text: &str) -> anyhow::Result<PathColumn> {
        let text = text.trim();
        let (name, path) = match text.split_once(':') {
            // Such a character before the colon shows that a path has begun, and the colon is in one of its members.
            Some((name, path)) if !name.contains(['.', '[', '{', '\\']) => (Some(name), path),
            _ => (None, text),
        };
        let path = steps(path).map_err(|problem| {
            anyhow!("--columns: {text:?}: {problem}; write NAME:PATH or PATH, such as IMAGES:spec.containers[*].image")
        })?;
        let last = path.iter().rev().find_map(|step| match step {
            Step::Member(member) => Some(member.to_uppercase()),
            Step::Element(_) | Step::All => None,
        });
        let name = name.map(str::to_owned).or(last).unwrap_or_default();
        if name.is_empty() {
            bail!("--columns: {text:?} has no name: write NAME:PATH");
        }
        Ok(PathColumn { name, path })
    }

    /// The text of the cell for an object: the values at the path, separated by commas. Values that are objects and
    /// lists are JSON. [`NONE`] if there are no values other than null.
    pub(super) fn cell(&self, object: &Value) -> String {
        let mut values = vec![object];
        for step in &self.path {
            values = values.into_iter().flat_map(|value| step.values(value)).collect();
        }
        let texts = values.into_iter().filter(|value| !value.is_null()).map(|value| match value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        });
        let texts: Vec<String> = texts.collect();
        if texts.is_empty() { NONE.to_owned() } else { texts.join(",") }
    }
}

impl Step {
    /// The values below `value` to which the step leads; empty if there are none.
    fn values<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Step::Member(name), Value::Object(members)) => members.get(name).into_iter().collect(),
            (Step::All, Value::Object(members)) => members.values().collect(),
            (Step::All, Value::Array(elements)) => elements.iter().collect(),
            (Step::Element(index), Value::Array(elements)) => {
                let from_end = i64::try_from(elements.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { from_end.saturating_add(*index) } else { *index };
                usize::try_from(index).ok().and_then(|index| elements.get(index)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Splits the value of `--columns` at the commas outside of quotes.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut quote) = (Vec::new(), 0, None);
    for (position, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, ',') => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Parses a path such as `spec.containers[*].image`, with or without `{}` around it and `$` or `.` before it.
///
/// # Errors
/// What is wrong with the path.
fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut rest = without_braces(path).ok_or("a brace is not closed")?;
    rest = rest.strip_prefix('$').unwrap_or(rest);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(brackets) = rest.strip_prefix('[') {
            let (step, after) = bracket(brackets)?;
            steps.push(step);
            rest = after;
            continue;
        }
        // The first member may have no dot before it.
        rest = match rest.strip_prefix('.') {
            Some(after) => after,
            None if steps.is_empty() => rest,
            None => return Err("a member needs a dot before it".to_owned()),
        };
        let (name, after) = member(rest);
        if name.is_empty() {
            return Err("a member has no name".to_owned());
        }
        steps.push(if name == "*" { Step::All } else { Step::Member(name) });
        rest = after;
    }
    if steps.is_empty() { Err("the path is empty".to_owned()) } else { Ok(steps) }
}

/// The name of the member with which `text` begins, and the text after the name. The name ends before the next dot or
/// opening bracket. A backslash escapes the next character.
fn member(text: &str) -> (String, &str) {
    let (mut name, mut characters) = (String::new(), text.char_indices());
    while let Some((position, character)) = characters.next() {
        match character {
            '.' | '[' => return (name, &text[position..]),
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => name.push(character),
        }
    }
    (name, "")
}

/// The step that brackets contain, and the text after the closing bracket. `text` begins after the opening bracket.
///
/// # Errors
/// The bracket is not closed, or its content is not `*`, a number or a quoted member.
fn bracket(text: &str) -> Result<(Step, &str), String> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (name, after) = quoted.split_once(quote).ok_or("a quote is not closed")?;
            let after = after.strip_prefix(']').ok_or("a bracket is not closed")?;
            return Ok((Step::Member(name.to_owned()), after));
        }
    }
    let (content, after) = text.split_once(']').ok_or("a bracket is not closed")?;
    let step = match content {
        "*" => Step::All,
        number => Step::Element(number.parse().map_err(|_| format!("[{content}] is not [*], [NUMBER] or ['MEMBER']"))?),
    };
    Ok((step, after))
}
