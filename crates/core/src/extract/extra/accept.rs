//! Every rule of extra fields, applied to the entries of one FieldCache.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{CompiledField, TooComplex};
use super::fields::ExtraFields;
use super::problem::{ExtraFieldError, ExtraFieldReason, MAX_EXTRA_FIELDS, MAX_NAME, Violation};
use super::{dialect, walk};
use crate::crd::PrinterColumn;
use crate::extract::extractor::Extractor;
use crate::extract::field::{Field, Origin};
use crate::extract::trie::{PathStep, is_many};
use crate::model::quote;

/// An entry of a FieldCache's selectableFields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldRequest {
    /// The name for selectors.
    pub name: String,
    /// An RFC 9535 path.
    pub json_path: Option<String>,
    /// Alternatively, the name of a printer column of the resource, whose path is used.
    pub printer_column: Option<String>,
}

/// One version of the resource, as the rules need it.
#[derive(Clone, Copy, Debug)]
pub struct TargetResource<'a> {
    /// The extractor of the version, without extra fields. It knows the field labels that the resource already has.
    pub extractor: &'a Extractor,
    /// The schema of the version, without references. `None` if it is unknown: then every path is accepted.
    pub schema: Option<&'a Value>,
    /// The additionalPrinterColumns of the version.
    pub columns: &'a [PrinterColumn],
}

/// The result of [`accept`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptedFields {
    /// The valid fields, in order. They are usable even if other fields are not valid.
    pub fields: ExtraFields,
    /// The errors of the invalid fields, in order.
    pub problems: Vec<ExtraFieldError>,
}

/// Validates and compiles the requested fields for one version of a resource. If there are too many requests, all are
/// rejected.
pub fn accept(requests: &[FieldRequest], subject: &TargetResource<'_>) -> AcceptedFields {
    const LIST: &str = "spec.selectableFields";
    let mut outcome = AcceptedFields::default();
    if requests.len() > MAX_EXTRA_FIELDS {
        outcome.problems.push(ExtraFieldError {
            place: LIST.to_owned(),
            written: String::new(),
            reason: ExtraFieldReason::TooManyFields,
            message: format!("it has {} fields; at most {MAX_EXTRA_FIELDS} are allowed", requests.len()),
        });
        return outcome;
    }
    let problem = |index: usize, member: &str, Violation { reason, message }: Violation| {
        let written = match (&requests[index].json_path, &requests[index].printer_column) {
            (Some(json_path), None) => json_path,
            (None, Some(column)) => column,
            _ => &requests[index].name,
        };
        (
            index,
            ExtraFieldError { place: format!("{LIST}[{index}]{member}"), written: written.clone(), reason, message },
        )
    };
    let member = |index: usize| match (&requests[index].json_path, &requests[index].printer_column) {
        (Some(_), None) => ".jsonPath",
        (None, Some(_)) => ".printerColumn",
        _ => "",
    };
    let mut names = BTreeSet::new();
    let (mut places, mut fields, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (index, request) in requests.iter().enumerate() {
        let named = validate_name(&request.name, subject.extractor, &mut names).map_err(|broken| (".name", broken));
        match named.and_then(|()| compile_field(request, subject, &fields).map_err(|broken| (member(index), broken))) {
            Ok(accepted) => {
                places.push(index);
                fields.push(accepted);
            }
            Err((member, broken)) => problems.push(problem(index, member, broken)),
        }
    }
    let (fitting, whole) = fitting_fields(subject.extractor, &fields);
    for index in places.drain(fitting..) {
        problems.push(problem(
            index,
            member(index),
            Violation::new(ExtraFieldReason::TooComplex, TooComplex.to_string()),
        ));
    }
    fields.truncate(fitting);
    problems.sort_by_key(|(index, _)| *index);
    outcome.problems = problems.into_iter().map(|(_, problem)| problem).collect();
    if !fields.is_empty() {
        outcome.fields = ExtraFields::new(fields, subject.extractor.clone(), whole);
    }
    outcome
}

/// The number of fields, counted from the first, that can be added to an extractor; and the extractor with them. Each
/// field only makes the extractor larger, so a binary search finds the number.
fn fitting_fields(extractor: &Extractor, fields: &[CompiledField]) -> (usize, Extractor) {
    if let Ok(whole) = extractor.with_extra(fields) {
        return (fields.len(), whole);
    }
    let (mut fitting, mut whole, mut too_many) = (0, extractor.clone(), fields.len());
    while too_many - fitting > 1 {
        let middle = (fitting + too_many) / 2;
        match extractor.with_extra(&fields[..middle]) {
            Ok(larger) => (fitting, whole) = (middle, larger),
            Err(TooComplex) => too_many = middle,
        }
    }
    (fitting, whole)
}

/// Validates the name of an extra field: its form, and that the name is new. `names` has the names of the fields before
/// it, and gets this one. `extractor` knows the field labels of the resource.
fn validate_name(name: &str, extractor: &Extractor, names: &mut BTreeSet<String>) -> Result<(), Violation> {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(is_inside)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !is_label {
        return Err(Violation::new(
            ExtraFieldReason::InvalidName,
            format!(
                "{} must be 1 to {MAX_NAME} lower-case letters, digits and '-', begin and end with a letter or digit, and \
                 have no dot",
                quote(name)
            ),
        ));
    }
    if extractor.resolve(name).is_ok() {
        return Err(Violation::new(
            ExtraFieldReason::NameTaken,
            format!("{} is a field label of the API server for this resource; choose another name", quote(name)),
        ));
    }
    if !names.insert(name.to_owned()) {
        return Err(Violation::new(
            ExtraFieldReason::DuplicateName,
            format!("an earlier field of this FieldCache already has the name {}; choose another name", quote(name)),
        ));
    }
    Ok(())
}

/// Compiles an extra field from its path or its printer column. `others` are the fields before it, whose enum values it
/// shares if they are equal.
fn compile_field(
    request: &FieldRequest,
    subject: &TargetResource<'_>,
    others: &[CompiledField],
) -> Result<CompiledField, Violation> {
    let (steps, json_path) = match (&request.json_path, &request.printer_column) {
        (Some(json_path), None) => (dialect::parse_rfc_9535(json_path)?, json_path.clone()),
        (None, Some(wanted)) => {
            let column = subject.columns.iter().find(|column| column.name == *wanted);
            let column = column.ok_or_else(|| column_not_found(wanted, subject.columns))?;
            (dialect::parse_printer_column(&column.json_path)?, column.json_path.clone())
        }
        _ => {
            let message = "exactly one of jsonPath and printerColumn must be set";
            return Err(Violation::new(ExtraFieldReason::PathAmbiguous, message));
        }
    };
    reject_pointless(&steps)?;
    let leaf = walk::leaf(&steps, subject.schema)?;
    let mut description = format!("The value at {json_path}.");
    if is_many(&steps) {
        description = format!(
            "The values at {json_path}. An object can have several: = matches if any of them is equal, != if none is."
        );
    }
    // All fields may lead to the same value, whose enum may be long.
    let shared = others.iter().map(|other| &other.field().allowed).find(|allowed| **allowed == leaf.allowed);
    let allowed = shared.cloned().unwrap_or(leaf.allowed);
    let field = Field {
        label: request.name.clone(),
        json_path,
        kind: leaf.kind,
        allowed,
        format: leaf.format,
        default: None,
        description,
        origin: Origin::FieldCache,
    };
    Ok(CompiledField::new(field, steps))
}

/// The error for a printer column that does not exist.
fn column_not_found(wanted: &str, columns: &[PrinterColumn]) -> Violation {
    let known: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
    let hint = if known.is_empty() {
        "it is a built-in resource, or its CRD has no additionalPrinterColumns; use jsonPath".to_owned()
    } else {
        format!("its columns are {}", known.join(", "))
    };
    Violation::new(ExtraFieldReason::ColumnNotFound, format!("the resource has no column {}: {hint}", quote(wanted)))
}

/// Rejects fields that are of no use, such as `kind`.
fn reject_pointless(steps: &[PathStep]) -> Result<(), Violation> {
    let keys: Vec<&str> = steps
        .iter()
        .map(|step| match step {
            PathStep::Key(name) => name.as_str(),
            PathStep::Element(_) | PathStep::Any => "",
        })
        .collect();
    let why = match keys[..] {
        ["kind" | "apiVersion"] => "it is the same in all objects of a resource",
        ["metadata", "name" | "namespace"] => "it is already selectable, under its own path",
        ["metadata", "resourceVersion"] => "it changes with every write",
        _ => return Ok(()),
    };
    Err(Violation::new(ExtraFieldReason::Pointless, format!("{} needs no field: {why}", keys.join("."))))
}
