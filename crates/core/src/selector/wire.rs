//! Selectors as JSON in objects: `matchLabels` and `matchExpressions`, and the field expressions of a View.
//!
//! Reading validates as kube-apiserver does (apimachinery `apis/meta/v1/validation`) and reports every error. The
//! meaning of an absent selector differs between the fields of Kubernetes. [`LabelSelection`] therefore distinguishes
//! selectors of no object, of every object and of some objects. The text forms are in [`super::label`] and
//! [`super::field`].

use serde_json::{Map, Value};

use super::label::{LabelRequirement, LabelSelector};
use super::operator::{Dialect, OperandError, Operator, OperatorName};
use super::problem::{FieldError, FieldErrorType};
use super::syntax::{label_key_errors, label_value_errors};

/// The meaning of a label selector in an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LabelSelection {
    /// No object: the selector is null or absent.
    Nothing,
    /// Every object: the selector exists and has no requirement.
    Everything,
    /// The objects that satisfy the requirements; there is at least one requirement.
    Matching(LabelSelector),
}

impl LabelSelection {
    /// The selection by these requirements; none selects everything.
    fn from_requirements(requirements: Vec<LabelRequirement>) -> LabelSelection {
        if requirements.is_empty() {
            LabelSelection::Everything
        } else {
            LabelSelection::Matching(LabelSelector::new(requirements))
        }
    }
}

/// One entry of a field selector's `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldExpression {
    /// The field label, such as `spec.color`.
    pub key: String,
    /// The comparison. If a field has several values, In and Exists hold if any of them matches; NotIn and DoesNotExist
    /// are the opposite.
    pub operator: Operator,
}

/// Reads a `metav1.LabelSelector` at `path`. Null selects nothing, `{}` everything.
///
/// It stops after `most` errors, because the message of an error takes a hundred times the bytes of its value.
///
/// # Errors
/// The first errors, with upstream's messages. There can be a few more than `most`.
pub fn label_selector(value: &Value, path: &str, most: usize) -> Result<LabelSelection, Vec<FieldError>> {
    if value.is_null() {
        return Ok(LabelSelection::Nothing);
    }
    let mut problems = Vec::new();
    let Some(object) = object(value, path, &mut problems) else { return Err(problems) };
    let labels = object.get("matchLabels").unwrap_or(&Value::Null);
    let mut requirements = read_match_labels(labels, &format!("{path}.matchLabels"), most, &mut problems);
    for expression in expressions(object, path, most, &mut problems) {
        let found = problems.len();
        if found >= most {
            break;
        }
        let operator = expression.operator(Dialect::Requirement, &mut problems);
        for error in label_key_errors(&expression.key) {
            let value = Value::from(&*expression.key);
            problems.push(FieldError::with_value(
                FieldErrorType::Invalid,
                format!("{}.key", expression.path),
                &value,
                error,
            ));
        }
        for (index, value) in expression.values.iter().enumerate() {
            if problems.len() >= most {
                break;
            }
            for error in label_value_errors(value) {
                let field = format!("{}.values[{index}]", expression.path);
                problems.push(FieldError::with_value(FieldErrorType::Invalid, field, &Value::from(&**value), error));
            }
        }
        if let (Some(operator), true) = (operator, found == problems.len()) {
            requirements.push(LabelRequirement { key: expression.key, operator });
        }
    }
    if problems.is_empty() { Ok(LabelSelection::from_requirements(requirements)) } else { Err(problems) }
}

/// Reads a field selector `{matchExpressions: [{key, operator, values}]}` at `path`. Null, absent and empty mean no
/// restriction. Whether the resource has the fields is not checked here. It stops after `most` errors.
///
/// # Errors
/// The first errors, with the messages that upstream has for FieldSelectorRequirements.
pub fn field_expressions(value: &Value, path: &str, most: usize) -> Result<Vec<FieldExpression>, Vec<FieldError>> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let mut problems = Vec::new();
    let Some(object) = object(value, path, &mut problems) else { return Err(problems) };
    let mut read = Vec::new();
    for expression in expressions(object, path, most, &mut problems) {
        if problems.len() >= most {
            break;
        }
        if expression.key.is_empty() {
            let field = format!("{}.key", expression.path);
            problems.push(FieldError::without_value(FieldErrorType::Required, field, "must be specified"));
        }
        if let Some(operator) = expression.operator(Dialect::View, &mut problems) {
            read.push(FieldExpression { key: expression.key, operator });
        }
    }
    if problems.is_empty() { Ok(read) } else { Err(problems) }
}

/// One entry of `matchExpressions` with checked JSON types.
struct Expression {
    path: String,
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Expression {
    /// The operator with its values in a dialect. `None`, and an error in `problems`, if the dialect does not have the
    /// operator, or the operator cannot have the values.
    fn operator(&self, dialect: Dialect, problems: &mut Vec<FieldError>) -> Option<Operator> {
        let Some(name) = OperatorName::read(&self.operator, dialect) else {
            let field = format!("{}.operator", self.path);
            let detail = "not a valid selector operator";
            problems.push(FieldError::with_value(
                FieldErrorType::Invalid,
                field,
                &Value::from(&*self.operator),
                detail,
            ));
            return None;
        };
        let (reason, detail) = match name.with_values(self.values.clone()) {
            Ok(operator) => return Some(operator),
            Err(OperandError::Missing) => {
                (FieldErrorType::Required, "must be specified when `operator` is 'In' or 'NotIn'")
            }
            Err(OperandError::Forbidden) => {
                (FieldErrorType::Forbidden, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            }
            Err(OperandError::NotOne | OperandError::NotInteger(_)) => (FieldErrorType::Invalid, "must be one integer"),
        };
        problems.push(FieldError::without_value(reason, format!("{}.values", self.path), detail));
        None
    }
}

/// Reads `matchExpressions` of the selector at `path`. Leaves out entries with other JSON types, and adds errors to
/// `problems` until these are `most`.
fn expressions(
    selector: &Map<String, Value>,
    path: &str,
    most: usize,
    problems: &mut Vec<FieldError>,
) -> Vec<Expression> {
    let path = format!("{path}.matchExpressions");
    let list = list(selector.get("matchExpressions").unwrap_or(&Value::Null), &path, problems);
    let mut read = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let found = problems.len();
        if found >= most {
            break;
        }
        let Some(entry) = object(entry, &path, problems) else { continue };
        let mut member = |name: &str| {
            text(entry.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}"), problems).unwrap_or_default()
        };
        let (key, operator) = (member("key"), member("operator"));
        let values_path = format!("{path}.values");
        let values = list_of_texts(entry.get("values").unwrap_or(&Value::Null), &values_path, most, problems);
        if found == problems.len() {
            read.push(Expression { path, key, operator, values });
        }
    }
    read
}

/// Reads `matchLabels` at `path`. Leaves out invalid labels, and adds errors to `problems` until these are `most`.
fn read_match_labels(value: &Value, path: &str, most: usize, problems: &mut Vec<FieldError>) -> Vec<LabelRequirement> {
    let mut requirements = Vec::new();
    if value.is_null() {
        return requirements;
    }
    let Some(map) = object(value, path, problems) else { return requirements };
    for (key, value) in map {
        let found = problems.len();
        if found >= most {
            break;
        }
        let Some(value) = text(value, &format!("{path}[{key}]"), problems) else { continue };
        for (shown, errors) in [(key, label_key_errors(key)), (&value, label_value_errors(&value))] {
            problems.extend(
                errors
                    .iter()
                    .map(|error| FieldError::with_value(FieldErrorType::Invalid, path, &Value::from(&**shown), error)),
            );
        }
        if found == problems.len() {
            requirements.push(LabelRequirement { key: key.clone(), operator: Operator::equal_to(value) });
        }
    }
    requirements
}

/// The members of an object. `None`, and an error in `problems`, for other types.
fn object<'a>(value: &'a Value, path: &str, problems: &mut Vec<FieldError>) -> Option<&'a Map<String, Value>> {
    if !value.is_object() {
        problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, path, value, "must be an object"));
    }
    value.as_object()
}

/// The elements of a list; none for null. Other types have none, and add an error to `problems`.
fn list<'a>(value: &'a Value, path: &str, problems: &mut Vec<FieldError>) -> &'a [Value] {
    match value {
        Value::Null => &[],
        Value::Array(items) => items,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, path, value, "must be a list"));
            &[]
        }
    }
}

/// Reads a string; null is empty, as in Go. `None`, and an error in `problems`, for other types.
fn text(value: &Value, path: &str, problems: &mut Vec<FieldError>) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            problems.push(FieldError::with_value(FieldErrorType::TypeInvalid, path, value, "must be a string"));
            None
        }
    }
}

/// The strings of a list. Leaves out elements of other types, and adds errors to `problems` until these are `most`.
fn list_of_texts(value: &Value, path: &str, most: usize, problems: &mut Vec<FieldError>) -> Vec<String> {
    let mut texts = Vec::new();
    for (index, item) in list(value, path, problems).iter().enumerate() {
        if problems.len() >= most {
            break;
        }
        texts.extend(text(item, &format!("{path}[{index}]"), problems));
    }
    texts
}
