//! Validates a value against a schema, with kube-apiserver's messages (kube-openapi `validation/validate`, translated
//! as apiextensions `apiserver/validation` does).
//!
//! Checks run in upstream's order. As upstream, the number of passed checks decides which alternative of `anyOf` and
//! `oneOf` has its errors reported. Also here: duplicates in lists of type `set` and `map`, and the type fields of
//! embedded resources. CEL rules are not evaluated. Members are visited in alphabetical order; upstream's is random.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use regex::Regex;
use serde_json::{Map, Value};

use super::format;
use super::node::{Additional, SchemaNode};
use crate::json;
use crate::model::{float, quote};
use crate::selector::syntax::dns_1035_label_errors;
use crate::selector::{FieldError, FieldErrorType};

/// The elements of a list, and the members of an object, are validated until so many errors are found. Each error can
/// repeat all values of an `enum`, and a file can have tens of thousands of invalid values.
const MOST_ERRORS: usize = 500;

/// Validates an object, and returns its errors: all of them, unless a list or an object has more than [`MOST_ERRORS`].
pub fn validate(object: &Value, schema: SchemaNode<'_>) -> Vec<FieldError> {
    let validator = Validator { patterns: RefCell::default(), empty_bytes: false };
    validator.all_errors(object, schema)
}

/// Validates an object of a built-in kind. Unlike for custom resources, the empty string has the format `byte`: Go
/// decodes such fields, and checks no pattern.
pub fn validate_built_in(object: &Value, schema: SchemaNode<'_>) -> Vec<FieldError> {
    let validator = Validator { patterns: RefCell::default(), empty_bytes: true };
    validator.all_errors(object, schema)
}

/// The result of one schema for one value.
#[derive(Default)]
struct Outcome {
    problems: Vec<FieldError>,
    /// The texts of the errors. A file of a folder can have very many.
    texts: HashSet<String>,
    /// The number of passed checks, counted as upstream counts them.
    matches: usize,
}

impl Outcome {
    /// Adds the errors and matches of another outcome.
    fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        for problem in other.problems {
            self.add(problem);
        }
    }

    /// Adds an error, unless the same one was added before.
    fn add(&mut self, problem: FieldError) {
        if self.texts.insert(problem.to_string()) {
            self.problems.push(problem);
        }
    }

    fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A number as a Go decoder stores it: an int64 if it is written without a fraction and fits, otherwise a float64.
#[derive(Clone, Copy)]
enum Numeral {
    Integer(i64),
    Float(f64),
}

impl Numeral {
    /// The number of a JSON value; `None` for other types.
    fn from_json(value: &Value) -> Option<Numeral> {
        let Value::Number(number) = value else { return None };
        Some(number.as_i64().map_or_else(|| Numeral::Float(number.as_f64().unwrap_or_default()), Numeral::Integer))
    }

    /// The number as a float, which can be rounded.
    fn float(self) -> f64 {
        match self {
            Numeral::Integer(integer) => integer as f64,
            Numeral::Float(float) => float,
        }
    }

    /// The number as Go's `%v` prints it.
    fn text(self) -> String {
        match self {
            Numeral::Integer(integer) => integer.to_string(),
            Numeral::Float(float) => float::general(float),
        }
    }
}

struct Validator {
    /// The compiled form of each `pattern`, or the error of the compiler in one line.
    patterns: RefCell<HashMap<String, Result<Regex, String>>>,
    /// Whether the empty text has the format `byte`.
    empty_bytes: bool,
}

impl Validator {
    /// All errors of an object: of its keywords, of lists of type `set` and `map`, and of embedded resources.
    fn all_errors(&self, object: &Value, schema: SchemaNode<'_>) -> Vec<FieldError> {
        let mut problems = self.validate_value(object, schema, "").problems;
        check_list_types(object, schema, "", &mut problems);
        check_embedded_resources(object, schema, "", &mut problems);
        problems
    }

    /// Validates a value, and everything below it, against all keywords of a schema. `path` is the path of the value in
    /// the document; empty for the document itself.
    fn validate_value(&self, value: &Value, schema: SchemaNode<'_>, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        if value.is_null() {
            // Of a null, upstream checks only the type and `enum`.
            if has_type_check(schema) {
                outcome.merge(type_check(value, schema, path));
            } else {
                outcome.matches += 1;
            }
            outcome.problems.extend(validate_enum(value, schema, path));
            return outcome;
        }
        if has_type_check(schema) {
            outcome.merge(type_check(value, schema, path));
            outcome.matches += 1;
        }
        outcome.merge(self.validate_combinations(value, schema, path));
        outcome.matches += 1;
        match value {
            Value::String(text) => {
                if let Some(problem) = self.validate_string(text, schema, path) {
                    outcome.add(problem);
                }
                outcome.matches += 1;
                if let Some(format) = effective_format(schema).filter(|format| format::is_known(format)) {
                    let is_empty_bytes = self.empty_bytes && text.is_empty() && format == "byte";
                    if !is_empty_bytes && !format::matches(format, text) {
                        outcome.add(wrong_type(path, format, Some(text)));
                    }
                    outcome.matches += 1;
                }
            }
            Value::Number(_) => {
                if let Some(numeral) = Numeral::from_json(value) {
                    outcome.merge(validate_number(numeral, schema, path));
                }
                outcome.matches += 1;
            }
            Value::Array(items) => {
                outcome.merge(self.validate_list(items, schema, path));
                outcome.matches += 1;
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        if let Some(problem) = validate_enum(value, schema, path) {
            outcome.add(problem);
        }
        outcome.matches += 1;
        if let Value::Object(members) = value {
            outcome.merge(self.validate_object(members, schema, path));
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    /// Validates the value at `path` against allOf, anyOf, oneOf and not. If no alternative of anyOf or oneOf is valid,
    /// the errors of the one with the most passed checks are reported.
    fn validate_combinations(&self, value: &Value, schema: SchemaNode<'_>, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let any_of = schema.alternatives("anyOf");
        if !any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            for alternative in any_of {
                let tried = self.validate_value(value, alternative, path);
                let is_valid = tried.is_valid();
                if is_valid || best.as_ref().is_none_or(|best| tried.matches > best.matches) {
                    best = Some(tried);
                }
                if is_valid {
                    break;
                }
            }
            if best.as_ref().is_some_and(|best| !best.is_valid()) {
                outcome.add(error_without_path(format!("{} must validate at least one schema (anyOf)", quote(path))));
            }
            outcome.merge(best.unwrap_or_default());
        }
        let one_of = schema.alternatives("oneOf");
        if !one_of.is_empty() {
            let mut best: Option<Outcome> = None;
            let mut valid = 0;
            for alternative in one_of {
                let tried = self.validate_value(value, alternative, path);
                if tried.is_valid() {
                    valid += 1;
                    if valid == 1 {
                        best = Some(tried);
                    }
                } else if valid == 0 && best.as_ref().is_none_or(|best| tried.matches > best.matches) {
                    best = Some(tried);
                }
            }
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                outcome.add(error_without_path(format!(
                    "{} must validate one and only one schema (oneOf). {found}",
                    quote(path)
                )));
            }
            outcome.merge(best.filter(|_| valid < 2).unwrap_or_default());
        }
        let all_of = schema.alternatives("allOf");
        let count = all_of.len();
        let mut valid = 0;
        for alternative in all_of {
            let tried = self.validate_value(value, alternative, path);
            valid += usize::from(tried.is_valid());
            outcome.merge(tried);
        }
        if valid != count {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.add(error_without_path(format!("{} must validate all the schemas (allOf){none}", quote(path))));
        }
        if let Some(not) = schema.get("not").filter(|not| not.is_object())
            && self.validate_value(value, schema.child(not), path).is_valid()
        {
            outcome.add(error_without_path(format!("{} must not validate the schema (not)", quote(path))));
        }
        outcome.matches += 1;
        outcome
    }

    /// The first error of the string at `path`, in its length or by its pattern; `None` if it is valid.
    fn validate_string(&self, text: &str, schema: SchemaNode<'_>, path: &str) -> Option<FieldError> {
        let length = text.chars().count() as u64;
        if let Some(limit) = limit(schema, "maxLength").filter(|limit| length > *limit) {
            let bytes = if limit == 1 { "byte" } else { "bytes" };
            let detail = format!("may not be more than {limit} {bytes}");
            return Some(FieldError::without_value(FieldErrorType::TooLong, cause_path(path), detail));
        }
        if let Some(limit) = limit(schema, "minLength").filter(|limit| length < *limit) {
            return Some(invalid(path, &quote(text), format!("should be at least {limit} chars long")));
        }
        let pattern = schema.text("pattern").filter(|pattern| !pattern.is_empty())?;
        let mut patterns = self.patterns.borrow_mut();
        let compiled = patterns
            .entry(pattern.to_owned())
            .or_insert_with(|| Regex::new(pattern).map_err(|error| error.to_string().replace('\n', " ")));
        match compiled {
            Ok(compiled) if compiled.is_match(text) => None,
            Ok(_) => Some(invalid(path, &quote(text), format!("should match '{pattern}'"))),
            Err(error) => {
                let rule = format!("should match '{pattern}, but pattern is invalid: {error}'");
                Some(invalid(path, &quote(text), rule))
            }
        }
    }

    /// Validates the list at `path` and its elements.
    fn validate_list(&self, items: &[Value], schema: SchemaNode<'_>, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(item_schema) = schema.items() {
            for (index, item) in items.iter().enumerate() {
                if outcome.problems.len() >= MOST_ERRORS {
                    break;
                }
                outcome.merge(self.validate_value(item, item_schema, &format!("{path}[{index}]")));
            }
        }
        let size = items.len() as u64;
        if let Some(limit) = limit(schema, "minItems").filter(|limit| size < *limit) {
            outcome.add(invalid(path, &size.to_string(), format!("should have at least {limit} items")));
        }
        if let Some(limit) = limit(schema, "maxItems").filter(|limit| size > *limit) {
            outcome.add(too_many(path, size, limit));
        }
        let mut seen = HashSet::new();
        if schema.is("uniqueItems") && !items.iter().all(|item| seen.insert(item)) {
            outcome.add(invalid(path, "\"\"", "shouldn't contain duplicates"));
        }
        outcome.matches += 1;
        outcome
    }

    /// Validates the members of the object at `path`, and their number.
    fn validate_object(&self, members: &Map<String, Value>, schema: SchemaNode<'_>, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        let size = members.len() as u64;
        if let Some(limit) = limit(schema, "minProperties").filter(|limit| size < *limit) {
            outcome.add(invalid(path, &size.to_string(), format!("should have at least {limit} properties")));
        }
        if let Some(limit) = limit(schema, "maxProperties").filter(|limit| size > *limit) {
            outcome.add(too_many(path, size, limit));
        }
        for (name, member) in members {
            if outcome.problems.len() >= MOST_ERRORS {
                break;
            }
            if let Some(property) = schema.property(name) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                outcome.merge(self.validate_value(member, property, &path));
                continue;
            }
            match schema.additional() {
                Additional::Schema(additional) => {
                    // Upstream's path of an undeclared member of the document itself begins with a dot.
                    outcome.merge(self.validate_value(member, additional, &format!("{path}.{name}")));
                }
                Additional::Forbidden => {
                    let detail = format!("{path}.{name} in body is a forbidden property");
                    outcome.add(FieldError::with_text(FieldErrorType::Invalid, cause_path(path), &quote(name), detail));
                }
                Additional::Absent | Additional::Anything => {}
            }
        }
        let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for name in required.iter().filter_map(Value::as_str).filter(|name| !members.contains_key(*name)) {
            outcome.add(FieldError::without_value(FieldErrorType::Required, cause_path(&format!("{path}.{name}")), ""));
        }
        outcome
    }
}

/// The field of a Status cause, from a path as messages have it: without a leading dot, and `<nil>` for the document
/// itself, as upstream prints it.
fn cause_path(path: &str) -> String {
    match path.strip_prefix('.').unwrap_or(path) {
        "" => "<nil>".to_owned(),
        path => path.to_owned(),
    }
}

/// A value as upstream's messages show it: strings quoted, numbers as `%v`, everything else as JSON.
fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Numeral::from_json(value).map_or_else(|| json::to_text(value), Numeral::text)
        }
    }
}

/// The error for a value that violates a rule. `value` is its form in the message; `rule` follows `PATH in body`.
fn invalid(path: &str, value: &str, rule: impl std::fmt::Display) -> FieldError {
    FieldError::with_text(FieldErrorType::Invalid, cause_path(path), value, format!("{path} in body {rule}"))
}

/// An error without a path: upstream has only a sentence for it.
fn error_without_path(sentence: String) -> FieldError {
    FieldError::with_text(FieldErrorType::Invalid, "<nil>", "\"\"", sentence)
}

/// The error for a list or map with too many entries.
fn too_many(path: &str, size: u64, limit: u64) -> FieldError {
    let items = if limit == 1 { "item" } else { "items" };
    FieldError::with_text(
        FieldErrorType::TooMany,
        cause_path(path),
        &size.to_string(),
        format!("must have at most {limit} {items}"),
    )
}

/// The error for a value of another type or format than `expected`. `found` is the type or format of the value, or the
/// value itself; `None`: empty.
fn wrong_type(path: &str, expected: &str, found: Option<&str>) -> FieldError {
    let found = quote(found.unwrap_or_default());
    let detail = format!("{path} in body must be of type {expected}: {found}");
    FieldError::with_text(FieldErrorType::TypeInvalid, cause_path(path), &found, detail)
}

/// The value of a keyword such as `maxLength`; `None` if it is absent, negative or not a number.
fn limit(schema: SchemaNode<'_>, keyword: &str) -> Option<u64> {
    let value = schema.get(keyword)?;
    value.as_u64().or_else(|| value.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64))
}

/// The types that a schema allows; empty if it allows all. An int-or-string allows two.
fn types<'a>(schema: SchemaNode<'a>) -> Vec<&'a str> {
    if schema.is("x-kubernetes-int-or-string") {
        return vec!["integer", "string"];
    }
    match schema.get("type") {
        Some(Value::String(name)) if !name.is_empty() => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The format of a schema; `None` if it has none, or one that its type does not have. Upstream ignores the latter
/// (apiextensions `formats.go`).
fn effective_format<'a>(schema: SchemaNode<'a>) -> Option<&'a str> {
    let format = schema.text("format").filter(|format| !format.is_empty())?;
    let is_known = match types(schema)[..] {
        ["integer"] => matches!(format, "int32" | "int64"),
        ["number"] => matches!(format, "float" | "double"),
        ["string"] | [] | [_, _, ..] => format::is_known(format),
        _ => false,
    };
    is_known.then_some(format)
}

/// Whether the schema has a type or a format.
fn has_type_check(schema: SchemaNode<'_>) -> bool {
    !types(schema).is_empty() || effective_format(schema).is_some()
}

/// Checks whether a value has the type and the format of a schema. A success counts as one passed check. The content of
/// strings is not checked here.
fn type_check(value: &Value, schema: SchemaNode<'_>, path: &str) -> Outcome {
    let types = types(schema);
    let passed = Outcome { matches: 1, ..Outcome::default() };
    let failed = |problem| {
        let mut outcome = Outcome::default();
        outcome.add(problem);
        outcome
    };
    if value.is_null() {
        return if types.is_empty() || types.contains(&"null") || schema.is("nullable") {
            passed
        } else {
            failed(wrong_type(path, &types.join(","), Some("null")))
        };
    }
    let numeral = Numeral::from_json(value);
    let (found, found_format) = match (value, numeral) {
        (Value::Bool(_), _) => ("boolean", ""),
        (Value::String(_), _) => ("string", ""),
        (Value::Array(_), _) => ("array", ""),
        (_, Some(Numeral::Integer(_))) => ("integer", "int64"),
        (_, Some(Numeral::Float(_))) => ("number", "float64"),
        _ => ("object", ""),
    };
    let is_whole = matches!(numeral, Some(Numeral::Float(float)) if is_json_integer(float));
    let fits = types.contains(&found)
        || (is_whole && types.contains(&"integer"))
        || (found == "integer" && types.contains(&"number"));
    let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    let is_numeric = types.contains(&"number") || types.contains(&"integer");
    if let Some(format) = effective_format(schema) {
        if !is_text_or_list && !fits && found_format != format {
            return failed(wrong_type(path, format, Some(found_format)));
        }
        // Upstream leaves strings with a format to the format check. It also accepts lists here, which is odd.
        if is_text_or_list && !is_numeric {
            return passed;
        }
    }
    if fits { passed } else { failed(wrong_type(path, &types.join(","), Some(found))) }
}

/// Whether a float counts as an integer. It must be in the range in which a double represents every integer, and its
/// fraction must be at most a rounding error.
fn is_json_integer(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    let whole = float.trunc();
    float.abs() <= LARGEST && (float == whole || (float - whole).abs() / (float.abs() + whole.abs()) < 1e-9)
}

/// The error if the value at `path` is not in `enum`; `None` if it is, or if the schema has no `enum`.
fn validate_enum(value: &Value, schema: SchemaNode<'_>, path: &str) -> Option<FieldError> {
    let allowed = schema.get("enum")?.as_array().filter(|allowed| !allowed.is_empty())?;
    let equals = |one: &Value| match (Numeral::from_json(one), Numeral::from_json(value)) {
        // Upstream converts the value to the type of the allowed one. For an integer, this removes the fraction.
        (Some(Numeral::Integer(one)), Some(value)) => one as f64 == value.float().trunc(),
        (Some(one), Some(value)) => one.float() == value.float(),
        // Upstream never finds a null in `enum`.
        _ => one == value && !value.is_null(),
    };
    if allowed.iter().any(equals) {
        return None;
    }
    let texts: Vec<String> = allowed
        .iter()
        .map(|one| match one {
            Value::String(text) => quote(text),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                quote(&json::to_text(other))
            }
        })
        .collect();
    let detail = format!("supported values: {}", texts.join(", "));
    Some(FieldError::with_text(FieldErrorType::NotSupported, cause_path(path), &format_value(value), detail))
}

/// Validates the number at `path` against the range of its type and format, and against multipleOf, minimum and
/// maximum.
fn validate_number(numeral: Numeral, schema: SchemaNode<'_>, path: &str) -> Outcome {
    let mut outcome = Outcome { matches: 1, ..Outcome::default() };
    let types = types(schema);
    if let ([kind], format) = (&types[..], effective_format(schema).unwrap_or_default()) {
        let fits = match (*kind, format, numeral) {
            ("integer", "int32", Numeral::Integer(integer)) => i32::try_from(integer).is_ok(),
            ("integer", "int32", Numeral::Float(float)) => float.fract() == 0.0 && float.abs() <= f64::from(i32::MAX),
            // The bound is just below 2^63: the value must fit into an int64.
            ("integer", _, Numeral::Float(float)) => float.fract() == 0.0 && float.abs() < 9.223_372_036_854_775e18,
            ("number", "float", numeral) => numeral.float().abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let format =
                if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
            outcome.add(error_without_path(format!("Checked value must be of type {kind} {format} in {path}")));
        }
    }
    // For an integer, upstream truncates the bound to an integer, compares with that, and prints that.
    let bound = |keyword: &str| {
        let bound = schema.get(keyword)?.as_f64()?;
        Some(match numeral {
            Numeral::Integer(_) => Numeral::Integer(bound as i64),
            Numeral::Float(_) => Numeral::Float(bound),
        })
    };
    let shown = numeral.text();
    if let Some(factor) = bound("multipleOf") {
        let is_multiple = match (numeral, factor) {
            (Numeral::Integer(integer), Numeral::Integer(factor)) => factor > 0 && integer % factor == 0,
            _ if factor.float() < 1.0 => is_json_integer(numeral.float() * (1.0 / factor.float())),
            _ => is_json_integer(numeral.float() / factor.float()),
        };
        if factor.float() <= 0.0 {
            let detail = format!("factor MultipleOf declared for {path} must be positive: {}", factor.text());
            outcome.add(FieldError::with_text(FieldErrorType::Invalid, cause_path(path), &factor.text(), detail));
        } else if !is_multiple {
            outcome.add(invalid(path, &shown, format!("should be a multiple of {}", factor.text())));
        }
    }
    let compare = |bound: Numeral| match (numeral, bound) {
        (Numeral::Integer(one), Numeral::Integer(other)) => Some(one.cmp(&other)),
        _ => numeral.float().partial_cmp(&bound.float()),
    };
    for (keyword, exclusive_keyword, wrong, inclusive_words, exclusive_words) in [
        ("minimum", "exclusiveMinimum", std::cmp::Ordering::Less, "greater than or equal to", "greater than"),
        ("maximum", "exclusiveMaximum", std::cmp::Ordering::Greater, "less than or equal to", "less than"),
    ] {
        let Some(bound) = bound(keyword) else { continue };
        let order = compare(bound);
        let is_exclusive = schema.is(exclusive_keyword);
        if order == Some(wrong) || (is_exclusive && order == Some(std::cmp::Ordering::Equal)) {
            let words = if is_exclusive { exclusive_words } else { inclusive_words };
            outcome.add(invalid(path, &shown, format!("should be {words} {}", bound.text())));
        }
    }
    outcome
}

/// Reports duplicates in lists of type `set` and `map` (apiextensions `schema/listtype`), in the value at `path` and
/// below it.
fn check_list_types(value: &Value, schema: SchemaNode<'_>, path: &str, problems: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(property) = schema.property(name) {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    check_list_types(member, property, &path, problems);
                } else if let Additional::Schema(additional) = schema.additional() {
                    check_list_types(member, additional, &format!("{path}[{name}]"), problems);
                }
            }
        }
        Value::Array(items) => {
            match schema.text("x-kubernetes-list-type") {
                Some("set") => report_duplicates(items, path, problems),
                Some("map") => match items.iter().position(|item| !item.is_object() && !item.is_null()) {
                    Some(index) => problems.push(FieldError::with_text(
                        FieldErrorType::Invalid,
                        format!("{path}[{index}]"),
                        &format_value(&items[index]),
                        "must be an object for an array of list-type map",
                    )),
                    None => {
                        let keys: Vec<Value> = items.iter().map(|item| map_key(item, schema)).collect();
                        report_duplicates(&keys, path, problems);
                    }
                },
                _ => {}
            }
            if let Some(item_schema) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    check_list_types(item, item_schema, &format!("{path}[{index}]"), problems);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The members that identify an item of a list of type `map`, as an object. Missing ones are left out.
fn map_key(item: &Value, schema: SchemaNode<'_>) -> Value {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).map(Vec::as_slice);
    let names = keys.unwrap_or_default().iter().filter_map(Value::as_str);
    names.filter_map(|name| Some((name.to_owned(), item.get(name)?.clone()))).collect::<Map<_, _>>().into()
}

/// Adds an error for the second occurrence of each repeated item, but not for later ones.
fn report_duplicates(items: &[Value], path: &str, problems: &mut Vec<FieldError>) {
    let mut seen: HashMap<&Value, usize> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let count = seen.entry(item).or_default();
        *count += 1;
        if *count == 2 {
            problems.push(FieldError::with_text(
                FieldErrorType::Duplicate,
                format!("{path}[{index}]"),
                &format_value(item),
                "",
            ));
        }
    }
}

/// Validates apiVersion and kind of the root (with an empty `path`), and of embedded resources in the value at `path`
/// (apiextensions `schema/objectmeta`). [`super::metadata`] validates the metadata of the root.
fn check_embedded_resources(value: &Value, schema: SchemaNode<'_>, path: &str, problems: &mut Vec<FieldError>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(members) => {
            if path.is_empty() || schema.is("x-kubernetes-embedded-resource") {
                for name in ["apiVersion", "kind"] {
                    problems.extend(validate_type_field(members.get(name), name, below(name)));
                }
            }
            for (name, member) in members {
                if let Some(property) = schema.property(name) {
                    check_embedded_resources(member, property, &below(name), problems);
                } else if let Additional::Schema(additional) = schema.additional() {
                    check_embedded_resources(member, additional, &format!("{path}[{name}]"), problems);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    check_embedded_resources(item, item_schema, &format!("{path}[{index}]"), problems);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The error of the member `name` of a resource, which is `apiVersion` or `kind`; `None` if it is valid. `value` is
/// `None` if the member is missing, and `field` is its path.
fn validate_type_field(value: Option<&Value>, name: &str, field: String) -> Option<FieldError> {
    let Some(value) = value else { return Some(FieldError::without_value(FieldErrorType::Required, field, "")) };
    let detail = match value {
        Value::String(text) if text.is_empty() => "must not be empty".to_owned(),
        Value::String(text) if name == "kind" => {
            let errors = dns_1035_label_errors(&text.to_lowercase());
            if errors.is_empty() {
                return None;
            }
            format!("may have mixed case, but should otherwise match: {}", errors.join(","))
        }
        Value::String(text) if text.matches('/').count() > 1 => {
            format!("unexpected GroupVersion string: {text}")
        }
        Value::String(_) => return None,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            "must be a string".to_owned()
        }
    };
    Some(FieldError::with_text(FieldErrorType::Invalid, field, &format_value(value), detail))
}
