//! Label and field selectors of FieldCaches and Views.
//!
//! The label selector has the fields of metav1.LabelSelector, with bounds. The field selector names selectable fields
//! and, unlike the one of a request, can have several values. `selector` and `query` match both.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::selector::{Dialect, OperatorName};

/// Selects objects by their labels. All parts must hold; an empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelectorSpec {
    /// Labels that an object must have, each with exactly this value. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "match_labels")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements in addition to matchLabels. All must hold. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelRequirementSpec>,
}

impl LabelSelectorSpec {
    /// Whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

/// The schema of matchLabels.
fn match_labels(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 63},
    })
}

/// A requirement on the value of one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "message": "In and NotIn need values, Exists and DoesNotExist forbid them",
    "fieldPath": ".values",
}]))]
pub struct LabelRequirementSpec {
    /// The key of the label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// How the label is compared with the values: In (the label has one of them), NotIn (the label has none of them, or
    /// is absent), Exists (the label is present), DoesNotExist (the label is absent).
    #[serde(with = "operator_name")]
    #[schemars(schema_with = "label_operators")]
    pub operator: OperatorName,
    /// The values to compare with: at least one for In and NotIn, none for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 63)), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// Selects objects by their selectable fields. All requirements must hold; an empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelectorSpec {
    /// Requirements. All must hold. Absent or empty: no restriction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<FieldRequirementSpec>,
}

/// A requirement on the value of one selectable field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "message": "In and NotIn need values, Exists and DoesNotExist forbid them",
    "fieldPath": ".values",
}]))]
pub struct FieldRequirementSpec {
    /// The name of the field in field selectors, such as metadata.name, spec.color, or the name of an entry in the
    /// selectableFields of a FieldCache. `kubectl get selectableresources -o wide` shows all names.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// How the field is compared with the values: In (the field has one of them), NotIn (the field has none of them),
    /// Exists (the field is not empty), DoesNotExist (the field is empty). If a field has several values, In and Exists
    /// need one value that matches. NotIn and DoesNotExist need that no value matches.
    #[serde(with = "operator_name")]
    #[schemars(schema_with = "field_operators")]
    pub operator: OperatorName,
    /// The values to compare with, as text: at least one for In and NotIn, none for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// Serializes an operator as its name in Views and FieldCaches, and parses that name.
mod operator_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::selector::{Dialect, OperatorName};

    pub(super) fn serialize<S: Serializer>(operator: &OperatorName, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(operator.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OperatorName, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || D::Error::custom(format!("{name} is not a selector operator"));
        OperatorName::read(&name, Dialect::View).ok_or_else(unknown)
    }
}

/// The schema of an operator: a string that is one of the operators of a dialect.
fn operators_of(dialect: Dialect) -> schemars::Schema {
    let names: Vec<&str> = OperatorName::all_in(dialect).map(OperatorName::as_str).collect();
    schemars::json_schema!({"type": "string", "enum": names})
}

/// The schema of the operator of a label requirement.
fn label_operators(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    operators_of(Dialect::Requirement)
}

/// The schema of the operator of a field requirement.
fn field_operators(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    operators_of(Dialect::View)
}
