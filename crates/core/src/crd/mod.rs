//! A CustomResourceDefinition, parsed once into the parts that other modules need. Nothing is validated.
//!
//! Reading is lenient: fields of another JSON type than declared are reported as [`Malformed`] with their path, and
//! unknown fields are ignored. The rules of selectable fields are in `extract::validation`. Schemas stay JSON text
//! ([`Schema`]): a typed form would drop keywords that must be republished (`openapi`).

mod read;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use schema::{DEFINITION_LEVELS, Schema};

use crate::model::{GroupVersion, Gvr, Scope};

/// One CustomResourceDefinition (apiextensions.k8s.io/v1).
#[derive(Clone, Debug, PartialEq)]
pub struct Crd {
    /// metadata.name, `PLURAL.GROUP`.
    pub name: String,
    /// metadata.uid; empty in a file.
    pub uid: String,
    /// metadata.generation; 0 in a file.
    pub generation: i64,
    /// spec.group.
    pub group: String,
    /// spec.names with upstream's defaults filled in: singular = lower-case kind, listKind = kind + "List".
    pub names: CrdNames,
    /// spec.scope.
    pub scope: Scope,
    /// spec.versions, in order.
    pub versions: Vec<CrdVersion>,
    /// True when spec.conversion.strategy is `None` or absent: the API server converts by rewriting apiVersion.
    pub converts_by_renaming: bool,
    /// spec.preserveUnknownFields, a v1beta1 relic that a v1 object may still carry.
    pub preserve_unknown_fields: bool,
    /// Whether status.conditions has Established=True. A file has no status; folder mode treats it as established.
    pub established: bool,
}

/// spec.names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdNames {
    /// Plural, lower case: the resource name.
    pub plural: String,
    /// Singular.
    pub singular: String,
    /// Kind.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Short names.
    pub short_names: Arc<[String]>,
    /// Categories, such as `all`.
    pub categories: Arc<[String]>,
}

/// One entry of spec.versions.
#[derive(Clone, Debug, PartialEq)]
pub struct CrdVersion {
    /// Version name.
    pub name: String,
    /// Whether it is served.
    pub served: bool,
    /// Whether it is the storage version.
    pub storage: bool,
    /// The warning in every response for a deprecated version; upstream's text unless the CRD has its own.
    pub deprecation_warning: Option<String>,
    /// schema.openAPIV3Schema. `None` when `schema` is absent, or is present without openAPIV3Schema.
    pub schema: Option<Schema>,
    /// Whether `schema` itself is present (`schema: {}` crashes upstream's validation; see `extract::validation`).
    pub has_schema_field: bool,
    /// Whether the status subresource is enabled.
    pub has_status: bool,
    /// subresources.scale, raw, when enabled.
    pub scale: Option<Value>,
    /// additionalPrinterColumns, in order.
    pub printer_columns: Vec<PrinterColumn>,
    /// selectableFields[].jsonPath, in order; an entry without a path, or with null, is the empty string.
    pub selectable_fields: Vec<String>,
}

/// One entry of additionalPrinterColumns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrinterColumn {
    /// Column header.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Format hint, may be empty.
    pub format: String,
    /// Description, may be empty.
    pub description: String,
    /// 0 is shown always, others with `-o wide`.
    pub priority: i64,
    /// Path as written, such as `.spec.color`.
    pub json_path: String,
}

/// Why a document cannot be read as a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct Malformed {
    /// The field, such as `spec.versions[0].selectableFields[1].jsonPath`.
    pub path: String,
    /// The error, such as `expected a string, found a number`.
    pub problem: String,
}

impl Crd {
    /// Reads a document whose kind is CustomResourceDefinition.
    ///
    /// # Errors
    /// [`Malformed`] names the first field that is missing although it is required, or that has another type than
    /// declared.
    pub fn read(document: &Value) -> Result<Crd, Malformed> {
        read::crd(document)
    }

    /// The version of that name; `None` if the CRD does not have it.
    pub fn version(&self, name: &str) -> Option<&CrdVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Served versions, the preferred one first: by Kubernetes' version priority (GA before beta before alpha, then by
    /// number, newest first; apimachinery `version/helpers.go`).
    pub fn served_versions(&self) -> Vec<&CrdVersion> {
        let mut served: Vec<&CrdVersion> = self.versions.iter().filter(|version| version.served).collect();
        served.sort_by_key(|version| std::cmp::Reverse(version_priority(&version.name)));
        served
    }

    /// The resource of one version.
    pub fn gvr(&self, version: &str) -> Gvr {
        Gvr::new(&*self.group, version, &*self.names.plural)
    }

    /// The group and version of one version.
    pub fn group_version(&self, version: &str) -> GroupVersion {
        GroupVersion::new(&*self.group, version)
    }
}

/// The served versions of these definitions by group, preferred one first; groups by name.
pub fn served_groups<'a>(crds: impl IntoIterator<Item = &'a Crd>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for crd in crds {
        let served = crd.versions.iter().filter(|version| version.served).map(|version| &*version.name);
        groups.entry(&crd.group).or_default().extend(served);
    }
    groups.retain(|_, versions| !versions.is_empty());
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        versions.dedup();
    }
    groups
}

/// The sort key of a version name: larger keys are preferred. Its parts are the stage (3 for GA, 2 for beta, 1 for
/// alpha, 0 for other names), the major version, the version of the stage, and the name if the stage is 0. Names that
/// are not `vN[alphaN|betaN]` come last, in alphabetical order (apimachinery `CompareKubeAwareVersionStrings`).
pub fn version_priority(name: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    read::version_priority(name)
}
