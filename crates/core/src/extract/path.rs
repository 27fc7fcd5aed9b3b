//! The grammar of `selectableFields[].jsonPath`, which is a walk over the schema.
//!
//! The text is cut at `.`, `[` and `]` and nowhere else; there is no escape and no trimming (apiextensions
//! `apiserver/schema/cel/validation.go`, ValidFieldPath without array notation). Only structural `properties` and
//! `additionalProperties` count. This is not RFC 9535 and not client-go's JSONPath, which API servers use later to read
//! the value: where the two disagree, `validation` warns. Rules about the target of a path are not here.

use serde_json::Value;

/// A path that resolves.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved<'s> {
    /// The keys to walk, literally.
    pub segments: Vec<String>,
    /// The path as Kubernetes prints it after the walk (`spec.m[key]`), which identifies duplicates.
    pub normalised: String,
    /// The schema at the end; `None` below `additionalProperties: true`.
    pub leaf: Option<&'s Value>,
}

/// The reason why a path does not resolve; Display is kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A bracket where a dot was possible.
    #[error("array notation is not allowed")]
    ArrayNotation,
    /// A segment that the schema does not have.
    #[error("does not refer to a valid field")]
    NotAField {
        /// The path up to the parent, as Kubernetes prints it; empty for the object itself.
        parent: String,
        /// The segment.
        segment: String,
        /// The members that the parent has, in alphabetical order.
        known: Vec<String>,
        /// True below `additionalProperties: true`, where upstream dereferences nil.
        crashes_upstream: bool,
    },
    /// Nothing after a dot.
    #[error("unexpected end of JSON path")]
    UnexpectedEnd,
    /// Text where a dot was expected.
    #[error("expected [ or . but got: {token}")]
    ExpectedDelimiter {
        /// The text.
        token: String,
        /// True for a first token that upstream's scanner rejects; upstream then dereferences nil.
        crashes_upstream: bool,
    },
}

/// The maximum length of a token in upstream's scanner, in bytes (Go `bufio` MaxScanTokenSize, of which one byte must
/// remain free).
const LONGEST_TOKEN: usize = 64 * 1024 - 1;

/// Walks a path over a schema (the raw openAPIV3Schema of a version).
///
/// # Errors
/// [`PathError`], in kube-apiserver's words.
pub fn resolve<'s>(json_path: &str, schema: &'s Value) -> Result<Resolved<'s>, PathError> {
    let mut resolved = Resolved { segments: Vec::new(), normalised: String::new(), leaf: Some(schema) };
    let mut rest = json_path;
    while let Some(delimiter) = token(&mut rest) {
        match delimiter {
            "." => {}
            "[" => return Err(PathError::ArrayNotation),
            _ => {
                let crashes_upstream = resolved.segments.is_empty() && delimiter.len() > LONGEST_TOKEN;
                return Err(PathError::ExpectedDelimiter { token: delimiter.to_owned(), crashes_upstream });
            }
        }
        // Any token after a dot is a name, even a delimiter. A token that is too long ends upstream's scanner, as the
        // end of the text does.
        let segment = token(&mut rest).filter(|segment| segment.len() <= LONGEST_TOKEN);
        let segment = segment.ok_or(PathError::UnexpectedEnd)?;
        step(&mut resolved, segment)?;
    }
    Ok(resolved)
}

/// Resolves one more segment of a path, and appends it to `resolved`.
fn step(resolved: &mut Resolved<'_>, segment: &str) -> Result<(), PathError> {
    let properties = resolved.leaf.and_then(|node| node["properties"].as_object()).filter(|map| !map.is_empty());
    let additional = resolved.leaf.map_or(&Value::Null, |node| &node["additionalProperties"]);
    let refused = |known: Vec<String>| PathError::NotAField {
        parent: resolved.normalised.clone(),
        segment: segment.to_owned(),
        known,
        crashes_upstream: resolved.leaf.is_none(),
    };
    let (leaf, is_named) = match (properties, additional) {
        (Some(properties), _) => match properties.get(segment) {
            Some(schema) => (Some(schema), true),
            None => {
                let mut known: Vec<String> = properties.keys().cloned().collect();
                known.sort();
                return Err(refused(known));
            }
        },
        (None, Value::Object(_)) => (Some(additional), false),
        // Upstream only tests that the keyword is present, so false is like true.
        (None, Value::Bool(_)) => (None, false),
        (None, _) => return Err(refused(Vec::new())),
    };
    if is_named {
        if !resolved.normalised.is_empty() {
            resolved.normalised.push('.');
        }
        resolved.normalised.push_str(segment);
    } else {
        resolved.normalised.push_str(&format!("[{segment}]"));
    }
    resolved.segments.push(segment.to_owned());
    resolved.leaf = leaf;
    Ok(())
}

/// Removes the next token from `rest` and returns it: a delimiter, a text up to the next delimiter, or a text in single
/// quotes, with the quotes. A quoted text ends at the next quote without a backslash before it, else at the end. `None`
/// if `rest` is empty.
fn token<'p>(rest: &mut &'p str) -> Option<&'p str> {
    let bytes = rest.as_bytes();
    let length = match bytes.first()? {
        b'.' | b'[' | b']' => 1,
        b'\'' => (1..bytes.len())
            .find(|&index| bytes[index] == b'\'' && bytes[index - 1] != b'\\')
            .map_or(bytes.len(), |index| index + 1),
        _ => bytes.iter().position(|byte| matches!(byte, b'.' | b'[' | b']')).unwrap_or(bytes.len()),
    };
    // All cuts are at ASCII bytes, so they are at character boundaries.
    let (token, after) = rest.split_at(length);
    *rest = after;
    Some(token)
}
