//! The table of expressions, objects and results.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{CelProgram, CelType, EvaluationError};

/// The table; its head describes the form.
const TABLE: &str = include_str!("../testdata/expressions.txt");

/// More than any expression of the table costs.
const LIMIT: u64 = 10_000;

#[test]
fn expressions_have_the_results_of_the_table() {
    let dynamic = Arc::new(CelType::Dyn);
    let mut objects: BTreeMap<&str, &str> = BTreeMap::new();
    let mut wrong: Vec<String> = Vec::new();
    let mut count = 0;
    for (index, line) in TABLE.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, json)) = line.strip_prefix("object ").and_then(|rest| rest.split_once(' ')) {
            objects.insert(name, json);
            continue;
        }
        let [expression, object, expected] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("line {} does not have three parts: {line}", index + 1);
        };
        count += 1;
        let (found, detail) = match CelProgram::compile(expression, &dynamic) {
            Err(error) => ("compile", error.message),
            Ok(program) => match program.evaluate(objects[object].as_bytes(), LIMIT).result {
                Ok(true) => ("true", String::new()),
                Ok(false) => ("false", String::new()),
                Err(EvaluationError::Failed(error)) => ("error", error.to_string()),
                Err(over) => ("over", over.to_string()),
            },
        };
        if found != expected {
            wrong.push(format!("line {}: {expression}: {found} ({detail}), not {expected}", index + 1));
        }
    }
    assert!(count >= 300, "the table has {count} lines");
    assert!(wrong.is_empty(), "{} of {count} results differ:\n{}", wrong.len(), wrong.join("\n"));
}
