//! Follows the steps of a path over a structural schema: whether the path exists, and the type of its value.
//!
//! A wildcard follows all its ways together. Where a schema is open (preserved unknown fields,
//! `additionalProperties: true`), every path is accepted. A definition's schema does not describe metadata, so this
//! file has the schema that all objects share.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::problem::{ExtraFieldReason, Violation};
use crate::extract::trie::PathStep;
use crate::extract::value;
use crate::model::quote;

/// The schema of the value at the end of a path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    /// `string`, `integer` or `boolean`; empty if the schema does not restrict the type.
    pub(super) kind: String,
    /// The first values of the schema's enum, as canonical texts; empty if the schema has none.
    pub(super) allowed: Arc<[String]>,
    /// The first characters of the schema's format; empty if the schema has none.
    pub(super) format: String,
}

/// The maximum number of characters of a format: the defined ones are words such as `date-time`.
const LONGEST_FORMAT: usize = 63;

/// The maximum number of places that wildcards may lead to at the same time.
const MOST_WAYS: usize = 1_024;

/// A place in the schema.
#[derive(Clone, Copy)]
struct Place<'s> {
    /// `None`: the schema does not describe the value.
    schema: Option<&'s Value>,
    /// The path to this place: an index in [`Ways`].
    way: usize,
}

/// The paths to places: each is the path to another place (by index; `None` for the object itself), and one more step.
/// Only messages need a path as text: a wildcard can lead to a thousand places, each below a name of a megabyte.
struct Ways<'s>(Vec<(Option<usize>, Taken<'s>)>);

/// A step from a place in the schema to the next.
#[derive(Clone, Copy)]
enum Taken<'s> {
    /// To the object itself.
    Root,
    /// To a member.
    Key(&'s str),
    /// To an element of a list.
    Element(usize),
    /// To all elements of a list, or all members that the schema does not name.
    Any,
}

impl<'s> From<&'s PathStep> for Taken<'s> {
    fn from(step: &'s PathStep) -> Taken<'s> {
        match step {
            PathStep::Key(name) => Taken::Key(name),
            PathStep::Element(place) => Taken::Element(*place),
            PathStep::Any => Taken::Any,
        }
    }
}

impl<'s> Ways<'s> {
    /// Adds the path that is `before` and one more step; returns its index.
    fn add(&mut self, before: Option<usize>, taken: Taken<'s>) -> usize {
        self.0.push((before, taken));
        self.0.len() - 1
    }

    /// The path at index `way`, as an RFC 9535 path.
    fn written(&self, way: usize) -> String {
        let mut steps = Vec::new();
        let mut next = Some(way);
        while let Some((before, taken)) = next.and_then(|way| self.0.get(way)) {
            steps.push(written(*taken));
            next = *before;
        }
        steps.reverse();
        steps.concat()
    }
}

/// Follows the steps through the schema of the whole object, and returns the schema of their values. `schema` is `None`
/// if it is unknown: then every path is valid.
///
/// # Errors
/// The schema does not have the path, the type of a value is not selectable, or wildcards lead to too many places.
pub(super) fn leaf(steps: &[PathStep], schema: Option<&Value>) -> Result<Leaf, Violation> {
    let mut ways = Ways(Vec::new());
    let root = ways.add(None, Taken::Root);
    let mut places = vec![Place { schema, way: root }];
    for (index, step) in steps.iter().enumerate() {
        if index == 0 && *step == PathStep::Key("metadata".to_owned()) {
            places = vec![Place { schema: Some(&METADATA), way: ways.add(Some(root), step.into()) }];
            continue;
        }
        let mut next: Vec<Place<'_>> = Vec::new();
        // Below a place without a schema every path is valid and has no type, so one such place is enough.
        let mut is_open = false;
        for place in &places {
            for (schema, taken) in follow_step(step, place, &ways)? {
                if schema.is_some() || !std::mem::replace(&mut is_open, true) {
                    next.push(Place { schema, way: ways.add(Some(place.way), taken) });
                }
            }
            if next.len() > MOST_WAYS {
                return Err(Violation::new(
                    ExtraFieldReason::TooComplex,
                    format!("a wildcard matches more than {MOST_WAYS} paths in the schema"),
                ));
            }
        }
        places = next;
    }
    let mut leaf: Option<Leaf> = None;
    for place in &places {
        let found = leaf_at(place, &ways)?;
        leaf = Some(match leaf {
            None => found,
            Some(leaf) => Leaf {
                // Several types are compared as text, which is what a string is.
                kind: if leaf.kind == found.kind { leaf.kind } else { "string".to_owned() },
                allowed: if leaf.allowed == found.allowed { leaf.allowed } else { Arc::default() },
                format: if leaf.format == found.format { leaf.format } else { String::new() },
            },
        });
    }
    Ok(leaf.unwrap_or_default())
}

/// Whether a schema preserves members that it does not declare.
fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true)
}

/// The schemas to which a step leads from a place, each with the step that was taken. A wildcard leads to several. A
/// schema is `None` if the value is not described.
///
/// # Errors
/// The schema does not have such a member or element.
fn follow_step<'s>(
    step: &'s PathStep,
    place: &Place<'s>,
    ways: &Ways<'s>,
) -> Result<Vec<(Option<&'s Value>, Taken<'s>)>, Violation> {
    let Some(schema) = place.schema else { return Ok(vec![(None, step.into())]) };
    let way = || ways.written(place.way);
    let properties = schema["properties"].as_object();
    let is_list = schema["type"] == "array" || schema.get("items").is_some();
    let to = |schema: Option<&'s Value>| vec![(schema, step.into())];
    // The schema of the members that `properties` does not name: `None` if there are no others, and `Some(None)` if the
    // schema does not describe them.
    let additional = match &schema["additionalProperties"] {
        Value::Bool(true) => Some(None),
        open @ Value::Object(_) => Some(Some(open)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            is_open(schema).then_some(None)
        }
    };
    let refused = |why: String| Err(Violation::new(ExtraFieldReason::PathNotFound, why));
    match step {
        PathStep::Key(name) => match (properties.and_then(|properties| properties.get(name)), additional) {
            (Some(property), _) => Ok(to(Some(property))),
            (None, Some(open)) => Ok(to(open)),
            (None, None) if is_list => {
                let way = way();
                refused(format!("{way} is a list: write {way}[*]{}", written(step.into())))
            }
            (None, None) => refused(unknown(name, &way(), properties)),
        },
        PathStep::Element(_) if is_list => Ok(to(schema.get("items"))),
        PathStep::Element(_) if is_open(schema) => Ok(to(None)),
        PathStep::Element(_) => refused(format!("{} is not a list in the schema", way())),
        PathStep::Any if is_list => Ok(to(schema.get("items"))),
        PathStep::Any => {
            let named = properties.into_iter().flatten();
            let named = named.map(|(name, property)| (Some(property), Taken::Key(name.as_str())));
            let places: Vec<_> = named.chain(additional.into_iter().flat_map(to)).collect();
            if places.is_empty() {
                return refused(format!("{} is neither a list nor an object in the schema", way()));
            }
            Ok(places)
        }
    }
}

/// A step as text of an RFC 9535 path.
fn written(taken: Taken<'_>) -> String {
    match taken {
        Taken::Root => "$".to_owned(),
        Taken::Any => "[*]".to_owned(),
        Taken::Element(place) => format!("[{place}]"),
        Taken::Key(name) => {
            let is_plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_plain {
                format!(".{name}")
            } else {
                format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
            }
        }
    }
}

/// The maximum number of names that are compared to find the most similar one: a schema may have tens of thousands.
const MOST_COMPARED: usize = 256;

/// The message about a member that the schema does not have at the path `way`, with similar or existing names.
fn unknown(name: &str, way: &str, properties: Option<&Map<String, Value>>) -> String {
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        return format!("the schema has no {} in {way}, which has no fields", quote(name));
    };
    let wanted = name.to_lowercase();
    let compared = properties.keys().take(MOST_COMPARED);
    let nearest = compared.map(|known| (distance(&known.to_lowercase(), &wanted), known)).min();
    // If more than half of the characters differ, it is not a typing error.
    match nearest.filter(|(distance, known)| distance * 2 <= known.chars().count().max(name.chars().count())) {
        Some((_, known)) => {
            let meant = written(Taken::Key(known));
            format!("the schema has no {} in {way}; the nearest is {way}{meant}", quote(name))
        }
        None => {
            const SHOWN: usize = 8;
            let mut names: Vec<String> = properties.keys().take(SHOWN).map(|known| quote(known)).collect();
            if properties.len() > SHOWN {
                names.push(format!("{} more", properties.len() - SHOWN));
            }
            format!("the schema has no {} in {way}, which has {}", quote(name), names.join(", "))
        }
    }
}

/// The edit distance of the first 64 characters of two texts: the number of characters to add, remove or change.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

/// The type, enum and format of the values at a place.
///
/// # Errors
/// Fields cannot have this type.
fn leaf_at(place: &Place<'_>, ways: &Ways<'_>) -> Result<Leaf, Violation> {
    let Some(schema) = place.schema else { return Ok(Leaf::default()) };
    let way = || ways.written(place.way);
    let refused = |why: String| Err(Violation::new(ExtraFieldReason::TypeNotSelectable, why));
    match schema["type"].as_str().unwrap_or_default() {
        kind @ ("string" | "boolean" | "integer") => Ok(Leaf {
            kind: kind.to_owned(),
            allowed: value::allowed(schema["enum"].as_array().into_iter().flatten()),
            format: schema["format"].as_str().unwrap_or_default().chars().take(LONGEST_FORMAT).collect(),
        }),
        _ if schema["x-kubernetes-int-or-string"] == Value::Bool(true) => {
            Ok(Leaf { kind: "string".to_owned(), ..Leaf::default() })
        }
        "" if is_open(schema) => Ok(Leaf::default()),
        // The schemas of built-in kinds write quantities and int-or-strings like this.
        "" if schema["oneOf"].is_array() || schema["anyOf"].is_array() => {
            Ok(Leaf { kind: "string".to_owned(), ..Leaf::default() })
        }
        "array" => {
            let way = way();
            refused(format!("{way} is a list: write {way}[*] for its elements"))
        }
        "object" => {
            let way = way();
            match schema["properties"].as_object().and_then(|properties| properties.keys().next()) {
                Some(first) => refused(format!(
                    "{way} is an object: add the name of a field, such as {way}{}",
                    written(Taken::Key(first))
                )),
                None => {
                    refused(format!("{way} is an object: add the name of a field, or write {way}[*] for all fields"))
                }
            }
        }
        "" => refused(format!("{} has no type in the schema", way())),
        other => refused(format!("{} has the type {other}; only string, boolean and integer are selectable", way())),
    }
}

/// metadata as all objects have it (apimachinery `meta/v1/types.go`, ObjectMeta).
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let integer = json!({"type": "integer", "format": "int64"});
    let texts = json!({"type": "object", "additionalProperties": text});
    json!({
        "type": "object",
        "properties": {
            "annotations": texts,
            "creationTimestamp": time,
            "deletionGracePeriodSeconds": integer,
            "deletionTimestamp": time,
            "finalizers": {"type": "array", "items": text},
            "generateName": text,
            "generation": integer,
            "labels": texts,
            "managedFields": {"type": "array", "items": {"type": "object", "properties": {
                "apiVersion": text, "fieldsType": text, "manager": text, "operation": text, "subresource": text,
                "time": time,
            }}},
            "name": text,
            "namespace": text,
            "ownerReferences": {"type": "array", "items": {"type": "object", "properties": {
                "apiVersion": text, "blockOwnerDeletion": {"type": "boolean"}, "controller": {"type": "boolean"},
                "kind": text, "name": text, "uid": text,
            }}},
            "resourceVersion": text,
            "selfLink": text,
            "uid": text,
        },
    })
});
