//! FieldCaches of a folder: validated, and applied as extra fields of the resources that they name.
//!
//! They are ordinary manifests. Their definition need not be in the folder: then they are checked against the one that
//! `fieldcache crds` prints, and are not served themselves. Everything in a folder is served anyway, so only the fields
//! of a FieldCache matter; a partial store makes no sense.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::Value;

use super::store_options::{StoreOption, StoreOptions};
use crate::builtin::served::served_kinds;
use crate::builtin::{self, schemas};
use crate::crd::{Crd, Schema};
use crate::extract::Extractor;
use crate::extract::extra::{AcceptedFields, TargetResource, accept};
use crate::kinds as own;
use crate::kinds::{FieldCache, FieldCacheSpec, definitions};
use crate::model::{Gvr, Key};

/// The name of a FieldCache, and what is wrong with it.
pub(super) type FieldCacheProblem = (Key, String);

/// The resource of FieldCaches.
pub(super) fn field_caches_gvr() -> Gvr {
    Gvr::new(own::GROUP, own::VERSION, "fieldcaches")
}

/// The definition of FieldCache that this program contains, for folders without one. `None` for every other kind.
pub(super) fn own_definition(group: &str, kind: &str) -> Option<&'static Crd> {
    static FIELD_CACHE: LazyLock<Option<Crd>> = LazyLock::new(|| {
        let all = definitions::all();
        all.iter().filter_map(|document| Crd::read(document).ok()).find(|crd| crd.names.kind == "FieldCache")
    });
    FIELD_CACHE.as_ref().filter(|crd| crd.group == group && crd.names.kind == kind)
}

/// Validates the FieldCaches of a folder. Returns the fields that they add, and their problems. `crds` are the
/// definitions of the folder.
pub(super) fn read(field_caches: &BTreeMap<Key, Bytes>, crds: &[&Crd]) -> (StoreOptions, Vec<FieldCacheProblem>) {
    let mut extra = StoreOptions::default();
    let mut problems = Vec::new();
    for (key, bytes) in field_caches {
        let mut report = |message: String| problems.push((key.clone(), message));
        let field_cache: FieldCache = match serde_json::from_slice(bytes) {
            Ok(field_cache) => field_cache,
            Err(error) => {
                report(format!("it cannot be read: {error}"));
                continue;
            }
        };
        let spec = &field_cache.spec;
        if key.name() != spec.object_name() {
            report(format!(
                "the name must be {}, so that there is one FieldCache for each resource",
                spec.object_name()
            ));
            continue;
        }
        if spec.scope.is_some() {
            report("spec.scope: a partial store is only served through Views, which a folder does not have".to_owned());
            continue;
        }
        let (versions, unserved) = versions(spec, crds);
        unserved.into_iter().for_each(|problem| report(problem.to_string()));
        for version in &versions {
            let AcceptedFields { fields, problems } = accept_in(spec, version, crds);
            for problem in problems {
                let place = if versions.len() > 1 { format!("version {version}: ") } else { String::new() };
                report(format!("{place}{problem}"));
            }
            extra.set(Gvr::new(&*spec.group, &**version, &*spec.resource), StoreOption { fields, partial_store: None });
        }
    }
    (extra, problems)
}

/// The served versions that a FieldCache selects: those that it names, otherwise the preferred one. Also one error for
/// each version that is not served.
fn versions(spec: &FieldCacheSpec, crds: &[&Crd]) -> (Vec<String>, Vec<own::accept::SpecError>) {
    let served: Vec<&str> = match definition(spec, crds) {
        Some(crd) => crd.served_versions().into_iter().map(|version| &*version.name).collect(),
        None => served_kinds()
            .iter()
            .filter(|kind| kind.row.group == spec.group && kind.row.plural == spec.resource)
            .map(|kind| kind.version)
            .collect(),
    };
    own::accept::versions(spec, &[], &served)
}

/// The definition of the resource that a FieldCache names; `None` for a built-in or unknown resource.
fn definition<'c>(spec: &FieldCacheSpec, crds: &[&'c Crd]) -> Option<&'c Crd> {
    crds.iter().copied().find(|crd| crd.group == spec.group && crd.names.plural == spec.resource)
}

/// Validates the extra fields of a FieldCache against one version of its resource. Empty if that version does not
/// exist.
fn accept_in(spec: &FieldCacheSpec, version: &str, crds: &[&Crd]) -> AcceptedFields {
    let requests = own::accept::field_requests(spec);
    if let Some(crd) = definition(spec, crds) {
        let found = crd.version(version);
        let schema = found.and_then(|version| version.schema.as_ref()).map(Schema::to_value);
        let subject = TargetResource {
            extractor: &Extractor::custom_resource(crd, version),
            schema: schema.as_ref(),
            columns: found.map_or(&[], |version| &version.printer_columns),
        };
        return accept(&requests, &subject);
    }
    let kind = served_kinds()
        .iter()
        .find(|kind| kind.row.group == spec.group && kind.row.plural == spec.resource && kind.version == version);
    let Some(kind) = kind else { return AcceptedFields::default() };
    let schema: Option<Value> = schemas::structural_schema(kind.row.group, kind.version, kind.row.kind);
    let extractor = builtin::extractor(kind.row.group, kind.version, kind.row.kind);
    accept(&requests, &TargetResource { extractor: &extractor, schema: schema.as_ref(), columns: &[] })
}
