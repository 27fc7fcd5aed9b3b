//! What FieldCaches ask for, judged against what the cluster has: which stores to keep, and what to tell their authors.
//!
//! Pure: FieldCaches and [`Definitions`] in, verdicts out. Every replica judges alike, so all of them serve the same stores; what the
//! verdicts look like on the objects is `field_caches`'.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;

use crate::kinds::FieldCache;
use crate::model::Gvr;
use crate::registry::Definitions;

/// The verdict on one FieldCache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// metadata.generation of what was judged.
    pub generation: i64,
    /// The stores to keep, the preferred version first; empty when it is refused.
    pub stores: Vec<Gvr>,
    /// Why it is refused.
    pub problem: Option<Problem>,
}

/// Why a FieldCache, or a View, cannot be as its author wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// For programs: one word.
    pub reason: &'static str,
    /// For people: what, and what to do.
    pub message: String,
}

/// The verdicts, by name.
pub type Verdicts = BTreeMap<String, Verdict>;

/// Judges all of them.
pub fn judge_all(field_caches: &[Arc<FieldCache>], definitions: &Definitions) -> Verdicts {
    field_caches.iter().map(|field_cache| (field_cache.name_any(), judge(field_cache, definitions))).collect()
}

/// Everything that is to be kept.
pub fn named(verdicts: &Verdicts) -> BTreeSet<Gvr> {
    verdicts.values().flat_map(|verdict| verdict.stores.iter().cloned()).collect()
}

/// Judges one.
pub fn judge(field_cache: &FieldCache, definitions: &Definitions) -> Verdict {
    let generation = field_cache.metadata.generation.unwrap_or_default();
    match stores(field_cache, definitions) {
        Ok(stores) => Verdict { generation, stores, problem: None },
        Err(problem) => Verdict { generation, stores: Vec::new(), problem: Some(problem) },
    }
}

fn stores(field_cache: &FieldCache, definitions: &Definitions) -> Result<Vec<Gvr>, Problem> {
    let spec = &field_cache.spec;
    let name = if spec.group.is_empty() { spec.resource.clone() } else { format!("{}.{}", spec.resource, spec.group) };
    // A FieldCache that is being deleted asks for nothing any more; there is nothing outside to undo.
    if field_cache.metadata.deletion_timestamp.is_some() {
        return Err(Problem { reason: "Deleting", message: "the FieldCache is being deleted".to_owned() });
    }
    let served = definitions.versions(&spec.group, &spec.resource);
    let Some((preferred, _)) = served.first() else {
        return Err(Problem {
            reason: "ResourceNotFound",
            message: format!(
                "the API server serves no resource {name} that can be listed and watched: check spec.group and spec.resource \
                 against `kubectl api-resources`, or create its CustomResourceDefinition"
            ),
        });
    };
    if spec.scope.is_some() {
        return Err(Problem {
            reason: "NotSupported",
            message: "spec.scope: partial stores are not served yet: remove it to keep all objects".to_owned(),
        });
    }
    if !spec.selectable_fields.is_empty() {
        return Err(Problem {
            reason: "NotSupported",
            message: "spec.selectableFields: fields beyond the resource's own are not served yet: remove them"
                .to_owned(),
        });
    }
    if spec.versions.is_empty() {
        return Ok(vec![preferred.clone()]);
    }
    let of_version = |version: &String| {
        let found = served.iter().map(|(gvr, _)| gvr).find(|gvr| gvr.version == *version);
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = served.iter().map(|(gvr, _)| &*gvr.version).collect();
            Problem {
                reason: "VersionNotServed",
                message: format!(
                    "spec.versions: {name} is not served in version {version}: name some of {}",
                    known.join(", ")
                ),
            }
        })
    };
    spec.versions.iter().map(of_version).collect()
}
