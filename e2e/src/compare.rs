//! Two JSON documents, and where they differ.
//!
//! Documents are compared by meaning. The order of members does not matter, the order of array items does, and numbers
//! are equal when their texts are. Nothing is ignored here: what may differ is removed or replaced by the caller, who
//! has a reason for it.

use std::fmt;

use serde_json::Value;

/// One place where two documents differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Where, as a path such as `.items[3].metadata.name`; the root is `.`.
    pub path: String,
    /// What the first document has there; `None` when it has nothing.
    pub left: Option<Value>,
    /// What the second has there.
    pub right: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} <> {}", self.path, shown(self.left.as_ref()), shown(self.right.as_ref()))
    }
}

/// All differences, in document order; empty when the documents are equal.
#[must_use]
pub fn differences(left: &Value, right: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", left, right, &mut found);
    found
}

/// Fails with every difference, one a line, unless the documents are equal.
///
/// # Errors
/// When they are not; `left_name` and `right_name` say whose documents they are.
pub fn equal(left_name: &str, left: &Value, right_name: &str, right: &Value) -> anyhow::Result<()> {
    /// More than this does not help a reader.
    const SHOWN: usize = 40;
    let found = differences(left, right);
    if found.is_empty() {
        return Ok(());
    }
    let mut text = format!("{} differences, {left_name} <> {right_name}", found.len());
    for difference in found.iter().take(SHOWN) {
        text.push_str(&format!("\n  {difference}"));
    }
    Err(anyhow::anyhow!(text))
}

fn compare(path: &str, left: &Value, right: &Value, found: &mut Vec<Difference>) {
    match (left, right) {
        (Value::Object(left_members), Value::Object(right_members)) => {
            for (name, left_value) in left_members {
                let member_path = format!("{path}{}", step(name));
                match right_members.get(name) {
                    Some(right_value) => compare(&member_path, left_value, right_value, found),
                    None => found.push(Difference { path: member_path, left: Some(left_value.clone()), right: None }),
                }
            }
            for (name, right_value) in right_members {
                if !left_members.contains_key(name) {
                    let path = format!("{path}{}", step(name));
                    found.push(Difference { path, left: None, right: Some(right_value.clone()) });
                }
            }
        }
        (Value::Array(left_items), Value::Array(right_items)) => {
            for index in 0..left_items.len().max(right_items.len()) {
                let item_path = format!("{path}[{index}]");
                match (left_items.get(index), right_items.get(index)) {
                    (Some(left_item), Some(right_item)) => compare(&item_path, left_item, right_item, found),
                    (left, right) => {
                        found.push(Difference { path: item_path, left: left.cloned(), right: right.cloned() });
                    }
                }
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            let path = if path.is_empty() { "." } else { path }.to_owned();
            found.push(Difference { path, left: Some(left.clone()), right: Some(right.clone()) });
        }
    }
}

/// A member's step in a path; names that are no plain words stand in quotes and brackets.
fn step(name: &str) -> String {
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_$".contains(&byte));
    if plain { format!(".{name}") } else { format!("[{}]", Value::from(name)) }
}

fn shown(value: Option<&Value>) -> String {
    /// Characters of one side.
    const WIDTH: usize = 200;
    let Some(value) = value else { return "(absent)".to_owned() };
    let text = value.to_string();
    if text.chars().count() <= WIDTH { text } else { text.chars().take(WIDTH).chain("...".chars()).collect() }
}
