//! Extra fields: what a FieldCache makes selectable beyond what the API server offers, judged and compiled.
//!
//! Map: `dialect` reads a path (RFC 9535, or the one of a printer column) into steps; `walk` follows the steps over the
//! schema. [`accept`] applies every rule and says, for each field that is left out, which one and what to do about it. What
//! CEL rules of the kind's definition check too is checked here again: a FieldCache may come out of a file.
//!
//! How the values are found in an object is [`super::plan`]'s.

mod dialect;
mod walk;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use super::trie::{Step, is_many};
use super::{Field, Origin, Plan};
use crate::crd::PrinterColumn;
use crate::model::quote;

/// Most extra fields of one resource.
pub const MAX_EXTRA_FIELDS: usize = 32;
/// Longest path, in characters.
pub const MAX_PATH: usize = 512;
/// Longest name, in characters.
pub const MAX_NAME: usize = 63;

/// A field as somebody asks for it: an entry of a FieldCache's selectableFields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The name that selectors are to use.
    pub name: String,
    /// An RFC 9535 path.
    pub json_path: Option<String>,
    /// Or the name of a column of the resource's definition.
    pub printer_column: Option<String>,
}

/// What is known of the resource, in one version.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its plan without extra fields: the labels that it offers already.
    pub plan: &'a Plan,
    /// Its schema without references; `None`: nothing is known, and every path is taken.
    pub schema: Option<&'a Value>,
    /// Its additionalPrinterColumns.
    pub columns: &'a [PrinterColumn],
}

/// A field that has been accepted, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraField {
    field: Field,
    /// Shared with the plans.
    steps: Arc<[Step]>,
}

impl ExtraField {
    /// The name that selectors use.
    pub fn name(&self) -> &str {
        &self.field.label
    }

    /// Whether an object can have several values of it.
    pub fn is_many(&self) -> bool {
        is_many(&self.steps)
    }

    /// The field as a plan has it.
    pub fn field(&self) -> &Field {
        &self.field
    }

    pub(super) fn steps(&self) -> &Arc<[Step]> {
        &self.steps
    }
}

/// Fields that have been accepted for a plan, and that plan with them. To merge their paths takes time, so it is done once. Clones
/// share everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraFields(Option<Arc<Extended>>);

#[derive(Debug, PartialEq, Eq)]
struct Extended {
    fields: Vec<ExtraField>,
    /// The plan without them.
    own: Plan,
    /// The plan with them.
    whole: Plan,
}

impl ExtraFields {
    /// A plan with these fields.
    ///
    /// A field whose name the resource itself has come to offer since it was accepted is left out: the resource's own wins.
    ///
    /// # Errors
    /// [`TooComplex`], if the plan is another one than the one for which they were accepted.
    pub fn extend(&self, plan: &Plan) -> Result<Plan, TooComplex> {
        let Some(extended) = &self.0 else { return Ok(plan.clone()) };
        if extended.own == *plan {
            return Ok(extended.whole.clone());
        }
        let is_free = |field: &&ExtraField| plan.resolve(field.name()).is_err();
        plan.with_extra(&extended.fields.iter().filter(is_free).cloned().collect::<Vec<ExtraField>>())
    }
}

impl Deref for ExtraFields {
    type Target = [ExtraField];

    fn deref(&self) -> &[ExtraField] {
        self.0.as_ref().map_or(&[], |extended| &extended.fields)
    }
}

/// What became of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The fields that are right, in order. They may be used although others are not.
    pub fields: ExtraFields,
    /// What is wrong with the others, in order.
    pub problems: Vec<Problem>,
}

/// A field that is left out, or a list that is wrong as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Problem {
    /// Where, such as `spec.selectableFields[0].jsonPath`.
    pub place: String,
    /// The path, the column or, failing both, the name as it is written.
    pub written: String,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, and what to do about it: a sentence without a full stop.
    pub message: String,
}

/// Why a field is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// There are more than [`MAX_EXTRA_FIELDS`].
    TooManyFields,
    /// The name is no lower-case DNS label.
    InvalidName,
    /// An earlier field has the same name.
    DuplicateName,
    /// The API server knows a field label of that name.
    NameTaken,
    /// There is no path, or there are two.
    PathAmbiguous,
    /// The path cannot be read.
    InvalidPath,
    /// The path can be read and has parts that are not supported.
    UnsupportedPath,
    /// The schema has no such path.
    PathNotFound,
    /// What the path leads to is no string, boolean or integer.
    TypeNotSelectable,
    /// What the path leads to can be selected by already, or is the same in all objects.
    Pointless,
    /// The definition has no such column.
    ColumnNotFound,
    /// The paths or wildcards of all fields together are too many.
    TooComplex,
}

impl Reason {
    /// The reason of a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::TooManyFields => "TooManyFields",
            Reason::InvalidName => "InvalidName",
            Reason::DuplicateName => "DuplicateName",
            Reason::NameTaken => "NameTaken",
            Reason::PathAmbiguous => "PathAmbiguous",
            Reason::InvalidPath => "InvalidPath",
            Reason::UnsupportedPath => "UnsupportedPath",
            Reason::PathNotFound => "PathNotFound",
            Reason::TypeNotSelectable => "TypeNotSelectable",
            Reason::Pointless => "Pointless",
            Reason::ColumnNotFound => "ColumnNotFound",
            Reason::TooComplex => "TooComplex",
        }
    }
}

/// The paths of all fields have too many steps, or their wildcards meet in too many ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "with the fields before it, the paths are too long together or their wildcards meet in too many ways: use fewer wildcards, \
     shorter paths or fewer fields"
)]
pub struct TooComplex;

/// A rule that is broken, before it is known of which field.
struct Broken {
    reason: Reason,
    message: String,
}

impl Broken {
    fn new(reason: Reason, message: impl Into<String>) -> Broken {
        Broken { reason, message: message.into() }
    }
}

/// Judges the fields that are asked for.
pub fn accept(requests: &[Request], subject: &Subject<'_>) -> Outcome {
    const LIST: &str = "spec.selectableFields";
    let mut outcome = Outcome::default();
    if requests.len() > MAX_EXTRA_FIELDS {
        outcome.problems.push(Problem {
            place: LIST.to_owned(),
            written: String::new(),
            reason: Reason::TooManyFields,
            message: format!("{} fields are more than {MAX_EXTRA_FIELDS}", requests.len()),
        });
        return outcome;
    }
    let problem = |index: usize, member: &str, Broken { reason, message }: Broken| {
        let written = match (&requests[index].json_path, &requests[index].printer_column) {
            (Some(json_path), None) => json_path,
            (None, Some(column)) => column,
            _ => &requests[index].name,
        };
        (index, Problem { place: format!("{LIST}[{index}]{member}"), written: written.clone(), reason, message })
    };
    let member = |index: usize| match (&requests[index].json_path, &requests[index].printer_column) {
        (Some(_), None) => ".jsonPath",
        (None, Some(_)) => ".printerColumn",
        _ => "",
    };
    let mut names = BTreeSet::new();
    let (mut places, mut fields, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (index, request) in requests.iter().enumerate() {
        let named = name(&request.name, subject.plan, &mut names).map_err(|broken| (".name", broken));
        match named.and_then(|()| field(request, subject, &fields).map_err(|broken| (member(index), broken))) {
            Ok(accepted) => {
                places.push(index);
                fields.push(accepted);
            }
            Err((member, broken)) => problems.push(problem(index, member, broken)),
        }
    }
    let (fitting, whole) = fitting(subject.plan, &fields);
    for index in places.drain(fitting..) {
        problems.push(problem(index, member(index), Broken::new(Reason::TooComplex, TooComplex.to_string())));
    }
    fields.truncate(fitting);
    problems.sort_by_key(|(index, _)| *index);
    outcome.problems = problems.into_iter().map(|(_, problem)| problem).collect();
    if !fields.is_empty() {
        outcome.fields = ExtraFields(Some(Arc::new(Extended { fields, own: subject.plan.clone(), whole })));
    }
    outcome
}

/// How many of the fields a plan can take, from the first on, and the plan with them. Each field makes the plan larger, so a few
/// attempts find the last one.
fn fitting(plan: &Plan, fields: &[ExtraField]) -> (usize, Plan) {
    if let Ok(whole) = plan.with_extra(fields) {
        return (fields.len(), whole);
    }
    let (mut fitting, mut whole, mut too_many) = (0, plan.clone(), fields.len());
    while too_many - fitting > 1 {
        let middle = (fitting + too_many) / 2;
        match plan.with_extra(&fields[..middle]) {
            Ok(larger) => (fitting, whole) = (middle, larger),
            Err(TooComplex) => too_many = middle,
        }
    }
    (fitting, whole)
}

fn name(name: &str, plan: &Plan, names: &mut BTreeSet<String>) -> Result<(), Broken> {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(is_inside)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !is_label {
        return Err(Broken::new(
            Reason::InvalidName,
            format!(
                "{} must be 1 to {MAX_NAME} lower-case letters, digits and '-', begin and end with a letter or digit, and \
                 have no dot",
                quote(name)
            ),
        ));
    }
    if plan.resolve(name).is_ok() {
        return Err(Broken::new(
            Reason::NameTaken,
            format!("{} is a field label of the API server for this resource; choose another name", quote(name)),
        ));
    }
    if !names.insert(name.to_owned()) {
        return Err(Broken::new(Reason::DuplicateName, format!("{} is the name of an earlier field", quote(name))));
    }
    Ok(())
}

fn field(request: &Request, subject: &Subject<'_>, others: &[ExtraField]) -> Result<ExtraField, Broken> {
    let (steps, json_path) = match (&request.json_path, &request.printer_column) {
        (Some(json_path), None) => (dialect::rfc_9535(json_path)?, json_path.clone()),
        (None, Some(wanted)) => {
            let column = subject.columns.iter().find(|column| column.name == *wanted);
            let column = column.ok_or_else(|| no_column(wanted, subject.columns))?;
            (dialect::printer_column(&column.json_path)?, column.json_path.clone())
        }
        _ => {
            let message = "exactly one of jsonPath and printerColumn must be set";
            return Err(Broken::new(Reason::PathAmbiguous, message));
        }
    };
    not_pointless(&steps)?;
    let leaf = walk::leaf(&steps, subject.schema)?;
    let mut description = format!("The value at {json_path}.");
    if is_many(&steps) {
        description = format!(
            "The values at {json_path}, of which an object may have several: = means that some of them \
             is equal, != that none is."
        );
    }
    // All fields may lead to one place, whose enum may be long.
    let held = others.iter().map(|other| &other.field.allowed).find(|held| **held == leaf.allowed);
    let allowed = held.cloned().unwrap_or(leaf.allowed);
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
    Ok(ExtraField { field, steps: steps.into() })
}

fn no_column(wanted: &str, columns: &[PrinterColumn]) -> Broken {
    let known: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
    let hint = if known.is_empty() {
        "its definition has no additionalPrinterColumns, or Kubernetes itself defines it; name a jsonPath".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    Broken::new(Reason::ColumnNotFound, format!("the resource has no column {}: {hint}", quote(wanted)))
}

/// Refuses what nobody can mean.
fn not_pointless(steps: &[Step]) -> Result<(), Broken> {
    let keys: Vec<&str> = steps
        .iter()
        .map(|step| match step {
            Step::Key(name) => name.as_str(),
            Step::Element(_) | Step::Any => "",
        })
        .collect();
    let why = match keys[..] {
        ["kind" | "apiVersion"] => "it is the same in all objects of a resource",
        ["metadata", "name" | "namespace"] => "it can be selected by anyway, under its own path",
        ["metadata", "resourceVersion"] => "it changes with every write",
        _ => return Ok(()),
    };
    Err(Broken::new(Reason::Pointless, format!("{} needs no field: {why}", keys.join("."))))
}
