//! The type of a row in the table of built-in kinds.

use super::deprecation::Deprecation;
use super::served_version::ServedVersion;
use crate::extract::builtin::BuiltinFields;
use crate::model::Scope;
use crate::printer::{self, Printer};
use crate::schema::metadata::NameRule;

/// One built-in kind, in all of its versions.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinKind {
    /// Group, empty for core.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural name: the resource.
    pub plural: &'static str,
    /// Scope.
    pub scope: Scope,
    /// Short names (kubernetes `pkg/registry/*/*/storage/storage.go`, ShortNames).
    pub short_names: &'static [&'static str],
    /// Categories (the same files, Categories).
    pub categories: &'static [&'static str],
    /// Whether it has a status subresource (the same files).
    pub has_status: bool,
    /// The syntax of its object names.
    pub name_rule: NameRule,
    /// Its selectable fields; `None`: metadata.name and metadata.namespace only.
    pub fields: Option<&'static BuiltinFields>,
    /// The fields that Go writes for an object in which nothing is set.
    pub zero_values: ZeroValues,
    /// Columns and cells of its tables.
    pub printer: &'static Printer,
    /// Its deprecated versions.
    pub deprecations: &'static [Deprecation],
    /// The versions that folder mode serves, the preferred one first: those that a cluster serves by default, if they
    /// can be listed and watched.
    pub versions: &'static [ServedVersion],
}

/// The JSON fields that a kind's Go type always writes after the metadata, without braces.
///
/// They are those of Kubernetes 1.36 (`k8s.io/api`, fields without `omitempty` or `omitzero`). A bookmark is such an
/// object with a version (apiserver `storage/cacher/cacher.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroValues {
    /// The same in every version; empty if there are none.
    OfAll(&'static str),
    /// A pair for each version: its name and its fields. Versions that are not listed have none.
    OfVersions(&'static [(&'static str, &'static str)]),
}

/// The default row, which also holds for kinds that are not in the table. A row of the table states only what differs,
/// and copies the rest from here.
pub(super) const UNLISTED: BuiltinKind = BuiltinKind {
    group: "",
    kind: "",
    plural: "",
    scope: Scope::Namespaced,
    short_names: &[],
    categories: &[],
    has_status: false,
    name_rule: NameRule::DnsSubdomain,
    fields: None,
    zero_values: ZeroValues::OfAll(""),
    printer: printer::NAME_AND_AGE,
    deprecations: &[],
    versions: &[],
};

impl BuiltinKind {
    /// The selectable fields in one version; `None` if only metadata.name and metadata.namespace are selectable.
    pub(super) fn fields_of(&self, version: &str) -> Option<&'static BuiltinFields> {
        self.fields.filter(|fields| fields.versions.contains(&version))
    }
}
