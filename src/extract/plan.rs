//! The checked fields of one resource; object bytes -> [`Record`].

use bytes::Bytes;

use crate::crd::Crd;
use crate::model::{FieldIndex, Record, Scope};

/// One selectable field besides metadata.name and metadata.namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The label in a selector and in OpenAPI (`fieldPath`), such as `spec.color`.
    pub label: String,
    /// The path as its author wrote it; for built-in types the path of the wire source, such as `.spec.color`.
    pub json_path: String,
    /// `string`, `integer` or `boolean`.
    pub kind: String,
    /// The schema's `enum`, as canonical texts; empty without one.
    pub allowed: Vec<String>,
    /// The schema's `format`; empty without one.
    pub format: String,
    /// Value when the source is absent: the built-in table's, or the schema's default for display. `None`: "".
    pub default: Option<String>,
    /// Description for people; empty without one.
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
}

/// What a label of a field selector refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRef {
    /// metadata.name.
    Name,
    /// metadata.namespace; `""` on cluster-scoped objects where the label is accepted at all.
    Namespace,
    /// A field of the plan.
    Field(FieldIndex),
    /// Accepted but never populated: reads as `""` for every object (Pod status.podIPs).
    Empty,
}

/// A label that the resource does not offer; Display is kube-apiserver's message for that kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnsupportedLabel {
    /// kube-apiserver's words.
    pub message: String,
}

/// Why bytes are no object that a store can take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not JSON, or cut short.
    #[error("invalid JSON at byte {offset}: {expected}")]
    Syntax {
        /// Byte offset.
        offset: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// A part that every Kubernetes object has is missing or of a wrong type.
    #[error("{path} is missing or not a string")]
    Missing {
        /// Such as `metadata.name`.
        path: &'static str,
    },
    /// metadata.resourceVersion is no decimal number.
    #[error("metadata.resourceVersion {text:?} is not a number")]
    Version {
        /// What stands there.
        text: String,
    },
}

/// The checked, compiled fields of one resource (one group, version and plural).
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {}

impl Plan {
    /// The plan of one version of a custom resource. Fields that `judge` refuses are left out.
    pub fn custom_resource(_crd: &Crd, _version: &str) -> Plan {
        unimplemented!()
    }

    /// The plan of a built-in type, from the table; kinds that are not in it have only metadata.name and
    /// metadata.namespace.
    pub fn built_in(_group: &str, _version: &str, _kind: &str, _scope: Scope) -> Plan {
        unimplemented!()
    }

    /// The fields, in publication order; a [`FieldIndex`] is a position in this list.
    pub fn fields(&self) -> &[Field] {
        unimplemented!()
    }

    /// What a label of a field selector refers to.
    ///
    /// # Errors
    /// kube-apiserver's refusal for this kind.
    pub fn resolve(&self, _label: &str) -> Result<FieldRef, UnsupportedLabel> {
        unimplemented!()
    }

    /// Reads an object in one pass over its bytes.
    ///
    /// # Errors
    /// Only bytes that are no Kubernetes object; never a valid one.
    pub fn extract(&self, _bytes: Bytes) -> Result<Record, Unreadable> {
        unimplemented!()
    }
}
