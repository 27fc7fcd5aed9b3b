//! Finds the row of a kind, and returns the facts in it.

use std::sync::Arc;

use super::kind::{BuiltinKind, UNLISTED, ZeroValues};
use super::table::kinds;
use crate::extract::builtin::{self, PublishedField};
use crate::extract::{BuiltInName, Extractor, ObjectSchema};
use crate::model::Scope;
use crate::printer::{self, Printer};
use crate::schema::metadata::NameRule;

/// The row of a kind; `None` for custom kinds, and for built-in ones that cannot be listed.
pub fn find(group: &str, kind: &str) -> Option<&'static BuiltinKind> {
    kinds().find(|row| row.group == group && row.kind == kind)
}

/// The extractor of a built-in kind in one version. Kinds that are not in the table have only metadata.name and
/// metadata.namespace.
pub fn extractor(group: &str, version: &str, kind: &str) -> Extractor {
    let extractor = Extractor::built_in(find(group, kind).and_then(|row| row.fields_of(version)), version);
    let extractor = match (group, kind) {
        ("rbac.authorization.k8s.io", "RoleBinding") => extractor.with_subjects(),
        _ => extractor,
    };
    let name = || BuiltInName { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() };
    match super::served::find(group, version, kind) {
        Some(_) => extractor.with_schema(ObjectSchema::BuiltIn(Arc::new(name()))),
        None => extractor,
    }
}

/// The selectable fields that a kind publishes in one version: metadata.name and metadata.namespace for kinds that are
/// not in the table. The description of metadata.namespace depends on `scope`.
pub fn published_fields(group: &str, version: &str, kind: &str, scope: Scope) -> Vec<PublishedField> {
    builtin::published(find(group, kind).and_then(|row| row.fields_of(version)), scope)
}

/// The printer of a resource, the same in every version; [`printer::NAME_AND_AGE`] for those that are not in the table.
pub fn printer(group: &str, resource: &str) -> &'static Printer {
    let row = kinds().find(|row| row.group == group && row.plural == resource);
    row.map_or(printer::NAME_AND_AGE, |row| row.printer)
}

/// The syntax of the names of a kind's objects: a DNS subdomain for kinds that are not in the table.
pub fn name_rule(group: &str, kind: &str) -> NameRule {
    find(group, kind).map_or(UNLISTED.name_rule, |row| row.name_rule)
}

/// The JSON fields that Go writes after kind, apiVersion and metadata for an object in which nothing is set. Without
/// braces; empty if there are none, and for kinds and versions that are not in the table.
pub fn zero_values(group: &str, version: &str, kind: &str) -> &'static str {
    match find(group, kind).map(|row| row.zero_values) {
        None => "",
        Some(ZeroValues::OfAll(members)) => members,
        Some(ZeroValues::OfVersions(rows)) => {
            rows.iter().find(|(known, _)| *known == version).map_or("", |(_, members)| members)
        }
    }
}

/// The warning that a server of Kubernetes 1.`minor` sends about a built-in kind; `None` if the kind is not deprecated
/// in that version.
pub fn deprecation_warning(group: &str, version: &str, kind: &str, minor: u64) -> Option<String> {
    let row = find(group, kind)?;
    let deprecation = row.deprecations.iter().find(|known| known.version == version && known.since <= minor)?;
    Some(deprecation.warning(group, kind, minor))
}
