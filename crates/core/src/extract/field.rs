//! A selectable field, and the field that a label of a field selector refers to.

use std::sync::Arc;

use crate::model::FieldIndex;

/// One selectable field besides metadata.name and metadata.namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The label in a selector and in OpenAPI (`fieldPath`), such as `spec.color`.
    pub label: String,
    /// The path as its author wrote it; for built-in kinds the first path of the value in the JSON, such as
    /// `.spec.color`.
    pub json_path: String,
    /// `string`, `integer` or `boolean`.
    pub kind: String,
    /// The first values of the schema's `enum`, as canonical texts; empty if the schema has none.
    pub allowed: Arc<[String]>,
    /// The schema's `format`; empty if the schema has none.
    pub format: String,
    /// The text if the object does not have the value: from the built-in table, or, for display only, the schema's
    /// default. `None`: the empty text.
    pub default: Option<String>,
    /// Description for users; may be empty.
    pub description: String,
    /// Where the field comes from.
    pub origin: Origin,
}

/// Where a field comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A CRD's selectableFields.
    CustomResourceDefinition,
    /// The built-in table.
    BuiltIn,
    /// A FieldCache's selectableFields.
    FieldCache,
}

/// The field that a label of a field selector refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldRef {
    /// metadata.name.
    Name,
    /// metadata.namespace; empty for cluster-scoped objects, if the label is accepted at all.
    Namespace,
    /// A field of the extractor.
    Field(FieldIndex),
    /// Accepted but never populated: reads as `""` for every object (Pod status.podIPs).
    Empty,
}

/// A label that the resource does not have; Display is kube-apiserver's message for that kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnsupportedLabel {
    /// kube-apiserver's message.
    pub message: String,
}
