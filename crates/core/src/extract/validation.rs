//! Validates the selectable fields of a CustomResourceDefinition as kube-apiserver does, and reports how to fix them.
//!
//! Every rule, cause and message is apiextensions' (`apis/apiextensions/validation/validation.go`,
//! ValidateCustomResourceSelectableFields and its callers). There is one exception: a valid definition that an API
//! server rejects or crashes on is accepted here with a [`FieldWarning`]. Only the rules about selectable fields are
//! applied, and the one that every version needs a schema. An API server may reject a CustomResourceDefinition for
//! other reasons. The grammar and the walk over the schema are `path`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use super::field::{Field, Origin};
use super::path::{self, PathError};
use super::value::{self, text_of};
use crate::crd::{Crd, CrdVersion, Schema};
use crate::model::quote;

/// The maximum number of selectable fields of one version (apiextensions MaxSelectableFields).
pub const MAX_SELECTABLE_FIELDS: usize = 8;

/// The outcome for one CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrdValidation {
    /// The causes for which a kube-apiserver without the known defects would reject the definition, in its order. Empty
    /// if it would accept the definition.
    pub causes: Vec<StatusCause>,
    /// Warnings about fields that are accepted here but fail on current API servers, or are probably a mistake.
    pub warnings: Vec<FieldWarning>,
    /// The outcome for every version, in the order of spec.versions.
    pub versions: Vec<VersionValidation>,
}

/// One entry of details.causes of the Status that rejects a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusCause {
    /// `FieldValueRequired`, `FieldValueInvalid`, `FieldValueDuplicate` or `FieldValueTooMany`.
    pub reason: &'static str,
    /// Such as `spec.selectableFields[0].jsonPath`.
    pub field: String,
    /// kube-apiserver's message, such as `Duplicate value: ".spec.color"`.
    pub message: String,
    /// How to fix the error; empty if the message is enough.
    pub hint: String,
}

/// A warning about an accepted field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldWarning {
    /// The version; empty if the warning is about the whole definition.
    pub version: String,
    /// The path as written; empty if the warning is not about a single path.
    pub json_path: String,
    /// The warning, as one or more sentences.
    pub message: String,
}

/// The outcome for one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionValidation {
    /// The version.
    pub name: String,
    /// The valid fields, in order. All of them, even if there are too many.
    pub accepted: Vec<Field>,
    /// The invalid fields, in order; a path that violates two rules occurs once.
    pub rejected: Vec<RejectedPath>,
}

/// A field that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedPath {
    /// The path as written.
    pub json_path: String,
    /// The reason, as in [`StatusCause`].
    pub reason: &'static str,
    /// The message, as in [`StatusCause`]; that of the first violated rule.
    pub message: String,
}

impl CrdValidation {
    /// Whether kube-apiserver would accept the definition, apart from its known defects.
    pub fn is_accepted(&self) -> bool {
        self.causes.is_empty()
    }
}

const REQUIRED: &str = "FieldValueRequired";
const INVALID: &str = "FieldValueInvalid";
const DUPLICATE: &str = "FieldValueDuplicate";
const TOO_MANY: &str = "FieldValueTooMany";

/// The upstream issue about definitions that are rejected because equal parts of versions are moved to the top level.
const HOISTING_ISSUE: &str = "kubernetes/kubernetes#140689";

/// Validates a definition. `old` is the stored definition for an update; `None` for a new one.
///
/// Of all rules, only the limit on the number of fields is lenient on update. A list that was too long before and has
/// not changed may stay (findTooManySelectableFieldsAllowed).
pub fn validate(new: &Crd, old: Option<&Crd>) -> CrdValidation {
    let mut validation = CrdValidation {
        versions: new
            .versions
            .iter()
            .map(|version| VersionValidation { name: version.name.clone(), ..VersionValidation::default() })
            .collect(),
        ..CrdValidation::default()
    };
    // On update of a definition that lacks schemas already, only versions that would lose all their fields need one.
    let had_schemas = old.is_none_or(|old| old.versions.iter().all(|version| version.schema.is_some()));
    for (index, version) in new.versions.iter().enumerate().filter(|(_, version)| version.schema.is_none()) {
        if had_schemas || (version.served && !new.preserve_unknown_fields) {
            let detail = if had_schemas { "" } else { ": because otherwise all fields are pruned" };
            validation.causes.push(StatusCause {
                reason: REQUIRED,
                field: format!("spec.versions[{index}].schema.openAPIV3Schema"),
                message: format!("Required value{detail}"),
                hint: format!("give version {} a schema, at least `type: object`", version.name),
            });
        }
    }
    let has_fields = new.versions.iter().any(|version| !version.selectable_fields.is_empty());
    // The API server moves parts that are equal in all versions to the top level before it validates, each part on its
    // own.
    let fields_are_equal = fields_are_equal(new);
    // Without fields nothing depends on it, and no schema has to be read.
    let schemas_are_equal = has_fields
        && all_equal(&new.versions, |left, right| {
            left.has_schema_field == right.has_schema_field && same_schema(left.schema.as_ref(), right.schema.as_ref())
        });
    if has_fields && fields_are_equal && schemas_are_equal {
        let may_exceed = old.is_some_and(|old| may_exceed_at_top(new, old));
        validate_once_for_all(new, may_exceed, &mut validation);
    } else if has_fields {
        validate_each_version(new, old, &mut validation);
        // Otherwise a version has fields but no schema, so the definition is rejected anyway.
        let has_schemas = new.versions.iter().all(|version| version.schema.is_some());
        if (fields_are_equal || schemas_are_equal) && has_schemas {
            let (equal, different) =
                if fields_are_equal { ("selectableFields", "schema") } else { ("schema", "selectableFields") };
            validation.warnings.push(FieldWarning {
                version: String::new(),
                json_path: String::new(),
                message: format!(
                    "All versions have the same {equal} but not the same {different}; current API servers reject such a CRD although it is valid ({HOISTING_ISSUE}). To avoid this, make the {equal} of two versions differ, for example in a description."
                ),
            });
        }
    }
    validation
}

/// Whether `same` holds for all neighbouring versions.
fn all_equal(versions: &[CrdVersion], same: impl Fn(&CrdVersion, &CrdVersion) -> bool) -> bool {
    versions.windows(2).all(|pair| same(&pair[0], &pair[1]))
}

/// Whether all versions have the same selectable fields.
fn fields_are_equal(crd: &Crd) -> bool {
    all_equal(&crd.versions, |left, right| left.selectable_fields == right.selectable_fields)
}

/// Whether the fields that all versions share may be too many, because they were too many before and are unchanged.
fn may_exceed_at_top(new: &Crd, old: &Crd) -> bool {
    let list = |crd: &Crd| crd.versions.first().map(|version| version.selectable_fields.clone()).unwrap_or_default();
    fields_are_equal(old) && list(old).len() > MAX_SELECTABLE_FIELDS && list(old) == list(new)
}

/// Whether the fields of a version may be too many, because they were too many before and are unchanged. The API server
/// moves equal lists of all versions to the top level. It compares a list only with one that was at the same place.
fn may_exceed_in_version(version: &CrdVersion, new: &Crd, old: &Crd) -> bool {
    fields_are_equal(old) == fields_are_equal(new)
        && old.version(&version.name).is_some_and(|stored| {
            stored.selectable_fields.len() > MAX_SELECTABLE_FIELDS
                && stored.selectable_fields == version.selectable_fields
        })
}

/// Validates selectable fields that all versions share, once, as `spec.selectableFields`. `may_exceed`: whether they
/// may be too many. Adds the outcome to `validation`.
fn validate_once_for_all(crd: &Crd, may_exceed: bool, validation: &mut CrdValidation) {
    const LIST: &str = "spec.selectableFields";
    let Some(version) = crd.versions.first() else { return };
    let Some(schema) = &version.schema else {
        if version.has_schema_field {
            // `schema` is present but empty, and the API server continues without a schema. A path that is invalid
            // before it names anything has its usual cause. The first path that names something makes the API server
            // crash.
            let list = validate_list(&version.selectable_fields, &Value::Null, LIST, may_exceed);
            if !list.walks_into_nothing {
                validation.causes.extend(list.causes);
                validation.versions.iter_mut().for_each(|outcome| outcome.rejected.clone_from(&list.rejected));
                return;
            }
            validation.warnings.push(FieldWarning {
                version: String::new(),
                json_path: String::new(),
                message: "Current API servers crash on selectableFields with an empty `schema` and close the connection without a response."
                    .to_owned(),
            });
        }
        let cause = without_schema(LIST, "may only be set when validations.schema is included", &version.name);
        for (version, outcome) in crd.versions.iter().zip(&mut validation.versions) {
            outcome.rejected = reject_all(version, &cause);
        }
        validation.causes.push(cause);
        return;
    };
    let list = validate_list(&version.selectable_fields, &schema.to_value(), LIST, may_exceed);
    validation.causes.extend(list.causes.iter().cloned());
    for outcome in &mut validation.versions {
        validation.warnings.extend(list.warnings_of(&outcome.name));
        outcome.accepted = list.accepted.iter().map(|(field, _)| field.clone()).collect();
        outcome.rejected.clone_from(&list.rejected);
    }
}

/// Validates the selectable fields of each version, and adds the outcome to `validation`. `old` is the stored
/// definition for an update.
fn validate_each_version(crd: &Crd, old: Option<&Crd>, validation: &mut CrdValidation) {
    for (index, (version, outcome)) in crd.versions.iter().zip(&mut validation.versions).enumerate() {
        if version.selectable_fields.is_empty() {
            continue;
        }
        let field = format!("spec.versions[{index}].selectableFields");
        let Some(schema) = &version.schema else {
            // The "not" is upstream's.
            let message = "may only be set when `version.schema.openAPIV3Schema` is not included";
            let cause = without_schema(&field, message, &version.name);
            outcome.rejected = reject_all(version, &cause);
            validation.causes.push(cause);
            continue;
        };
        let may_exceed = old.is_some_and(|old| may_exceed_in_version(version, crd, old));
        let list = validate_list(&version.selectable_fields, &schema.to_value(), &field, may_exceed);
        validation.warnings.extend(list.warnings_of(&version.name));
        validation.causes.extend(list.causes);
        outcome.accepted = list.accepted.into_iter().map(|(field, _)| field).collect();
        outcome.rejected = list.rejected;
    }
}

/// The cause for selectable fields of a version without a schema. `list` is the path of the fields, `text` the end of
/// the message, and `version` the name of the version.
fn without_schema(list: &str, text: &str, version: &str) -> StatusCause {
    StatusCause {
        reason: INVALID,
        field: list.to_owned(),
        message: format!("Invalid value: \"\": {text}"),
        hint: format!("give version {version} a schema that declares the fields"),
    }
}

/// Rejects every selectable field of a version with this cause.
fn reject_all(version: &CrdVersion, cause: &StatusCause) -> Vec<RejectedPath> {
    let rejected = |json_path: &String| RejectedPath {
        json_path: json_path.clone(),
        reason: cause.reason,
        message: cause.message.clone(),
    };
    version.selectable_fields.iter().map(rejected).collect()
}

/// The valid fields of one version, each with the keys of its path.
pub(super) fn accepted_fields(version: &CrdVersion) -> Vec<(Field, Vec<String>)> {
    match &version.schema {
        Some(schema) if !version.selectable_fields.is_empty() => {
            // Too many fields are permitted, as after an update. Causes are not used, so the path of the list is empty.
            validate_list(&version.selectable_fields, &schema.to_value(), "", true).accepted
        }
        Some(_) | None => Vec::new(),
    }
}

/// The outcome for one list of paths.
#[derive(Default)]
struct List {
    causes: Vec<StatusCause>,
    /// The path of each warning, and its message.
    warnings: Vec<(String, String)>,
    /// Each valid field with the keys of its path.
    accepted: Vec<(Field, Vec<String>)>,
    rejected: Vec<RejectedPath>,
    /// Whether a path names something that the schema does not have.
    walks_into_nothing: bool,
}

impl List {
    /// The warnings of the list, for the version of this name.
    fn warnings_of(&self, version: &str) -> impl Iterator<Item = FieldWarning> {
        self.warnings.iter().map(|(json_path, message)| FieldWarning {
            version: version.to_owned(),
            json_path: json_path.clone(),
            message: message.clone(),
        })
    }
}

/// Validates a list of paths against a schema, with upstream's errors and additional warnings. `list_field` is the path
/// of the list in the definition; `may_exceed`: whether the list may be too long.
fn validate_list(json_paths: &[String], schema: &Value, list_field: &str, may_exceed: bool) -> List {
    let mut list = List::default();
    let mut unique = BTreeSet::new();
    for (index, json_path) in json_paths.iter().enumerate() {
        let field = format!("{list_field}[{index}].jsonPath");
        let quoted = quote(json_path);
        let cause = |reason, message: String, hint: String| StatusCause { reason, field: field.clone(), message, hint };
        let mut causes = Vec::new();
        if json_path.is_empty() {
            let hint = "write a path such as \".spec.color\"".to_owned();
            causes.push(cause(REQUIRED, "Required value".to_owned(), hint));
        } else {
            match path::resolve(json_path, schema) {
                Err(error) => {
                    list.walks_into_nothing |= matches!(error, PathError::NotAField { .. });
                    if let Some(warning) = crash_warning(&error) {
                        list.warnings.push((json_path.clone(), warning));
                    }
                    let hint = path_hint(json_path, &error);
                    causes.push(cause(INVALID, format!("Invalid value: {quoted}: is an invalid path: {error}"), hint));
                }
                Ok(resolved) => {
                    // `[metadata]` is a key of a map at the root, to which the rule does not apply upstream.
                    if resolved.segments.first().is_some_and(|first| first == "metadata")
                        && !resolved.normalised.starts_with('[')
                    {
                        let message = format!("Invalid value: {quoted}: must not point to fields in metadata");
                        let hint = "metadata.name and metadata.namespace are selectable without being listed; for \
                                    anything else use labels"
                            .to_owned();
                        causes.push(cause(INVALID, message, hint));
                    }
                    let kind = resolved.leaf.and_then(|leaf| leaf["type"].as_str()).unwrap_or_default();
                    if !matches!(kind, "string" | "boolean" | "integer") {
                        let message = format!(
                            "Invalid value: {quoted}: must point to a field of type string, boolean or integer. Enum \
                             string fields and strings with formats are allowed."
                        );
                        causes.push(cause(INVALID, message, type_hint(kind, resolved.leaf)));
                    }
                    if !unique.insert(resolved.normalised.clone()) {
                        let hint = "remove one of them".to_owned();
                        causes.push(cause(DUPLICATE, format!("Duplicate value: {quoted}"), hint));
                    }
                    if causes.is_empty() {
                        let warnings = run_time_warnings(json_path, &resolved.segments);
                        list.warnings.extend(warnings.into_iter().map(|message| (json_path.clone(), message)));
                        list.accepted.push((field_of(json_path, resolved.leaf), resolved.segments));
                    }
                }
            }
        }
        if let Some(first) = causes.first() {
            list.rejected.push(RejectedPath {
                json_path: json_path.clone(),
                reason: first.reason,
                message: first.message.clone(),
            });
        }
        list.causes.append(&mut causes);
    }
    // As upstream, the limit is on different paths that exist in the schema.
    if unique.len() > MAX_SELECTABLE_FIELDS && !may_exceed {
        list.causes.push(StatusCause {
            reason: TOO_MANY,
            field: list_field.to_owned(),
            message: format!("Too many: {}: must have at most {MAX_SELECTABLE_FIELDS} items", unique.len()),
            hint: format!("remove {}", unique.len() - MAX_SELECTABLE_FIELDS),
        });
    }
    list
}

/// The field for an accepted path. `leaf` is the schema of its value; `None` if the schema does not describe it.
fn field_of(json_path: &str, leaf: Option<&Value>) -> Field {
    let leaf = leaf.unwrap_or(&Value::Null);
    let word = |key: &str| leaf[key].as_str().unwrap_or_default().to_owned();
    let allowed = leaf["enum"].as_array().map_or(&[][..], Vec::as_slice);
    Field {
        label: json_path.strip_prefix('.').unwrap_or(json_path).to_owned(),
        json_path: json_path.to_owned(),
        kind: word("type"),
        // The enum of a nullable field can contain null, which is not a text to select.
        allowed: value::allowed(allowed.iter().filter(|value| !value.is_null())),
        format: word("format"),
        default: Some(&leaf["default"]).filter(|default| !default.is_null()).map(text_of),
        description: word("description"),
        origin: Origin::CustomResourceDefinition,
    }
}

/// The warning for a path that makes kube-apiserver panic; `None` for any other error.
fn crash_warning(error: &PathError) -> Option<String> {
    let why = match error {
        PathError::NotAField { crashes_upstream: true, .. } => "a path that goes below `additionalProperties: true`",
        PathError::ExpectedDelimiter { crashes_upstream: true, .. } => "a path whose first part is longer than 64 KiB",
        PathError::ArrayNotation
        | PathError::NotAField { .. }
        | PathError::UnexpectedEnd
        | PathError::ExpectedDelimiter { .. } => return None,
    };
    Some(format!("Current API servers crash on {why} and close the connection without a response."))
}

/// How to fix an invalid path.
fn path_hint(json_path: &str, error: &PathError) -> String {
    match error {
        PathError::ArrayNotation => "list elements are not selectable, and neither are names in brackets".to_owned(),
        PathError::UnexpectedEnd => "remove the dot at the end, or add the name of a field".to_owned(),
        // Paths of other dialects begin with `$`, `@` or a brace.
        PathError::ExpectedDelimiter { .. } => match json_path.trim_start_matches(['$', '@', '{', ' ']) {
            rest if rest.starts_with('.') => format!("write {}", quote(rest.trim_end_matches('}'))),
            _ if json_path.starts_with(|first: char| first.is_alphabetic() || first == '_') => {
                format!("write {}", quote(&format!(".{json_path}")))
            }
            _ => "a path begins with a dot, such as \".spec.color\"".to_owned(),
        },
        PathError::NotAField { parent, segment, known, .. } => {
            let place = if parent.is_empty() { "the schema".to_owned() } else { format!("{parent} in the schema") };
            if known.is_empty() {
                return format!("{place} has no properties");
            }
            if let Some(other) = known.iter().find(|name| name.eq_ignore_ascii_case(segment)) {
                return format!("{place} has {}", quote(other));
            }
            const SHOWN: usize = 10;
            let mut names: Vec<String> = known.iter().take(SHOWN).map(|name| quote(name)).collect();
            if known.len() > SHOWN {
                names.push(format!("{} more", known.len() - SHOWN));
            }
            format!("{place} has only {}", names.join(", "))
        }
    }
}

/// Why a field is not selectable, with a remedy if there is one. `kind` is its type; empty if the schema has none.
/// `leaf` is its schema; `None` if there is none.
fn type_hint(kind: &str, leaf: Option<&Value>) -> String {
    let leaf = leaf.unwrap_or(&Value::Null);
    match kind {
        "object" => match leaf["properties"].as_object().filter(|map| !map.is_empty()) {
            Some(_) => "the field is an object; select one of its fields".to_owned(),
            None => "the field is an object".to_owned(),
        },
        "" if leaf["x-kubernetes-int-or-string"] == Value::Bool(true) => {
            "the field is an int-or-string, which has no single type".to_owned()
        }
        "" => "the field has no type in the schema".to_owned(),
        other => format!("the field is of type {other}"),
    }
}

/// Warnings about an accepted path that API servers evaluate wrongly. They compile the path as a JSONPath template of
/// client-go (`util/jsonpath/parser.go`), in which some characters have a special meaning.
fn run_time_warnings(json_path: &str, segments: &[String]) -> Vec<String> {
    let any =
        |characters: &[char]| segments.iter().find_map(|segment| segment.chars().find(|c| characters.contains(c)));
    let mut warnings = Vec::new();
    if let Some(character) = any(&[' ', '\t', '\r', '\n', '$', '@', '{', ',']) {
        warnings.push(format!(
            "Current API servers cannot evaluate a path with {character:?}: every list and watch of this version then returns no objects, even without a selector."
        ));
    }
    if segments.iter().any(|segment| segment == "*") {
        warnings.push(
            "Current API servers read \"*\" as any key: objects with two or more keys there are missing from their \
             lists and watches."
                .to_owned(),
        );
    }
    if any(&['}']).is_some() {
        warnings.push(
            "Current API servers read a path only up to '}': the field is always empty, and objects that have the \
             shorter path are missing from their lists and watches."
                .to_owned(),
        );
    }
    if any(&['\\']).is_some() {
        warnings
            .push("Current API servers drop the backslash and read another key: the field is always empty.".to_owned());
    }
    if any(&['.', '[', ']']).is_some() {
        warnings.push("Current API servers read a dot or bracket in a name as the end of that name.".to_owned());
    }
    if let Some(character) = any(&['=', ',']) {
        warnings.push(format!("No field selector can name a path with {character:?}."));
    } else if json_path.ends_with('!') {
        warnings.push("No field selector can name a path that ends in '!'.".to_owned());
    }
    warnings
}

/// Warnings that an API server returns when it decodes the raw document: `selectableFields` where v1 has none, and
/// misspelt keys in its entries. The API server drops these fields, so [`Crd::read`] does not show them.
pub fn unknown_fields(document: &Value) -> Vec<FieldWarning> {
    let mut warnings = Vec::new();
    let mut unknown = |version: &str, field: String| {
        let message = format!("unknown field {}", quote(&field));
        warnings.push(FieldWarning { version: version.to_owned(), json_path: String::new(), message });
    };
    let spec = &document["spec"];
    if spec.get("selectableFields").is_some() {
        unknown("", "spec.selectableFields".to_owned());
    }
    for (index, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
        let name = version["name"].as_str().unwrap_or_default();
        for (position, entry) in version["selectableFields"].as_array().into_iter().flatten().enumerate() {
            for key in entry.as_object().into_iter().flat_map(Map::keys).filter(|key| *key != "jsonPath") {
                unknown(name, format!("spec.versions[{index}].selectableFields[{position}].{key}"));
            }
        }
    }
    warnings
}

/// Whether two schemas are equal after they are decoded to upstream's JSONSchemaProps. Empty keywords count as absent,
/// and unknown ones are ignored. Two missing schemas are equal.
fn same_schema(left: Option<&Schema>, right: Option<&Schema>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => left == right || same_decoded(&left.to_value(), &right.to_value()),
        _ => left.is_none() && right.is_none(),
    }
}

/// Like [`same_schema`], for schemas as JSON.
pub(super) fn same_decoded(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let kept =
                |schema: &Map<String, Value>| schema.iter().filter(|(keyword, value)| is_set(keyword, value)).count();
            kept(left) == kept(right)
                && left.iter().filter(|(keyword, value)| is_set(keyword, value)).all(|(keyword, value)| {
                    right
                        .get(keyword)
                        .is_some_and(|other| is_set(keyword, other) && same_keyword(keyword, value, other))
                })
        }
        _ => left == right,
    }
}

/// Whether two schemas have the same value of a keyword.
fn same_keyword(keyword: &str, left: &Value, right: &Value) -> bool {
    match (keyword, left, right) {
        ("properties" | "patternProperties" | "definitions", Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, schema)| right.get(name).is_some_and(|other| same_decoded(schema, other)))
        }
        ("allOf" | "anyOf" | "oneOf", Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_decoded(left, right))
        }
        ("items" | "additionalProperties" | "additionalItems" | "not", left, right) => same_decoded(left, right),
        (_, left, right) => left == right,
    }
}

/// Whether JSONSchemaProps has a keyword, and this value sets it: it differs from the value of an absent keyword.
fn is_set(keyword: &str, value: &Value) -> bool {
    match keyword {
        // These are pointers upstream: false or an empty object is a value.
        "items" | "additionalProperties" | "additionalItems" | "not" | "default" | "example" => !value.is_null(),
        "x-kubernetes-preserve-unknown-fields" => !value.is_null(),
        "properties" | "patternProperties" | "definitions" => {
            value.as_object().is_some_and(|members| !members.is_empty())
        }
        "allOf" | "anyOf" | "oneOf" => value.as_array().is_some_and(|items| !items.is_empty()),
        "enum" | "required" | "dependencies" | "externalDocs" | "minimum" | "maximum" | "multipleOf" | "minLength"
        | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "exclusiveMinimum"
        | "exclusiveMaximum" | "uniqueItems" | "nullable" | "type" | "format" | "title" | "description" | "pattern"
        | "id" | "$schema" | "$ref" => is_non_zero_in_go(value),
        _ => keyword.starts_with("x-kubernetes-") && is_non_zero_in_go(value),
    }
}

/// Whether the value of a keyword differs from Go's zero value. Numbers always do, also 0: upstream's are pointers.
fn is_non_zero_in_go(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Number(_) => true,
    }
}

/// Caches the validation of each definition until the definition changes. Clones share the cache. It does not keep the
/// valid fields, because extractors have them.
#[derive(Clone, Debug, Default)]
pub struct CrdValidationCache(Arc<Mutex<BTreeMap<String, Validated>>>);

/// A definition, and its validation.
type Validated = (Arc<Crd>, Arc<CrdValidation>);

impl CrdValidationCache {
    /// The validation of a definition as if it were created now, without its valid fields. Validates it only if the
    /// cache does not have this definition.
    pub fn get_or_validate(&self, crd: &Arc<Crd>) -> Arc<CrdValidation> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((validated, validation)) = known.get(&crd.name)
            && Arc::ptr_eq(validated, crd)
        {
            return validation.clone();
        }
        let mut validation = validate(crd, None);
        validation.versions.iter_mut().for_each(|version| version.accepted = Vec::new());
        let validation = Arc::new(validation);
        known.insert(crd.name.clone(), (crd.clone(), validation.clone()));
        validation
    }

    /// Removes the entries of definitions for whose name `is_there` returns false.
    pub fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| is_there(name));
    }
}
