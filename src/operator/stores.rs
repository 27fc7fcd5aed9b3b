//! Evaluates FieldCaches against the definitions of the cluster: which stores they define, and which problems they
//! have.
//!
//! Pure: FieldCaches and [`Definitions`] in, results out. Every replica gets the same results, so all of them serve
//! the same stores. `field_caches` writes the results to the objects. A result is reused while its inputs are the
//! same ([`EvaluationInputs`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;

use super::controller_tasks::compute;
use super::object_budget::ObjectLimits;
use crate::builtin::schemas;
use crate::crd::{Crd, Schema};
use crate::extract::extra::{self, TargetResource};
use crate::extract::{ExtraFields, Extractor};
use crate::kinds::{Absence, FieldCache, FieldCacheSpec, accept};
use crate::model::{Gvr, Scope};
use crate::registry::{Definition, Definitions, PartialStore};

/// The result on one FieldCache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldCacheResult {
    /// metadata.generation of the evaluated object.
    pub generation: i64,
    /// The stores, that of the preferred version first; empty if the FieldCache is rejected as a whole.
    pub stores: Vec<DesiredStore>,
    /// Its problems. If there are stores, these are the problems of fields and versions that are left out.
    pub problems: Vec<SpecProblem>,
    /// Whether its spec names no version.
    pub follows_preferred: bool,
}

/// A store that a FieldCache defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredStore {
    /// Its resource.
    pub gvr: Gvr,
    /// Its valid extra fields.
    pub fields: ExtraFields,
    /// The extractor of the resource with these fields.
    pub extractor: Extractor,
    /// Problems of invalid extra fields.
    pub rejected: Vec<extra::ExtraFieldError>,
    /// The selection of its objects; `None`: all.
    pub scope: Option<Arc<PartialStore>>,
    /// Whether its objects are in namespaces.
    pub resource_scope: Scope,
}

/// A problem of a FieldCache or View.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecProblem {
    /// The reason, one word for programs.
    pub reason: &'static str,
    /// The message for users: location, problem and remedy.
    pub message: String,
}

impl From<accept::SpecError> for SpecProblem {
    fn from(problem: accept::SpecError) -> SpecProblem {
        SpecProblem { reason: problem.reason.as_str(), message: problem.to_string() }
    }
}

/// The results, by name.
pub type FieldCacheResults = BTreeMap<String, Arc<FieldCacheResult>>;

/// The last results, by name, each with its inputs.
pub type EvaluatedFieldCaches = BTreeMap<String, (EvaluationInputs, Arc<FieldCacheResult>)>;

/// All that a result depends on.
#[derive(Clone, Debug)]
pub struct EvaluationInputs {
    field_cache: Arc<FieldCache>,
    /// Why the CustomResourceDefinition of the resource cannot be read; `None` if it can, or if there is none.
    unreadable: Option<String>,
    /// The served versions of the resource, with kind and extractor.
    served: Vec<(Gvr, String, Extractor)>,
    crd: Option<Arc<Crd>>,
}

impl EvaluationInputs {
    /// The parts of a FieldCache, and of the definitions, that its result depends on.
    fn new(field_cache: &Arc<FieldCache>, definitions: &Definitions) -> EvaluationInputs {
        let (spec, name) = (&field_cache.spec, field_cache.spec.object_name());
        let served = definitions.versions(&spec.group, &spec.resource);
        let served =
            served.into_iter().map(|(gvr, found)| (gvr, found.kind.clone(), found.extractor.clone())).collect();
        EvaluationInputs {
            field_cache: field_cache.clone(),
            unreadable: definitions.unreadable.get(&name).cloned(),
            served,
            crd: definitions.crds.get(&name).cloned(),
        }
    }

    /// Whether both inputs have the same result, apart from its `generation`. Only the parts that the evaluation reads
    /// are compared: the status of a FieldCache changes often, and of it only `versions` is read.
    /// CustomResourceDefinitions are equal if uid and generation are: after a change of labels alone, the source reads
    /// one again as a new `Arc`.
    fn is_same(&self, other: &EvaluationInputs) -> bool {
        let is_deleted = |field_cache: &FieldCache| field_cache.metadata.deletion_timestamp.is_some();
        let kept = |field_cache: &FieldCache| field_cache.status.as_ref().map(|status| status.versions.clone());
        let (left, right) = (&self.field_cache, &other.field_cache);
        let is_same_object = Arc::ptr_eq(left, right)
            || (left.spec == right.spec
                && is_deleted(left) == is_deleted(right)
                && kept(left).unwrap_or_default() == kept(right).unwrap_or_default());
        let is_same_crd = match (&self.crd, &other.crd) {
            (None, None) => true,
            (Some(left), Some(right)) => {
                let is_named = !left.uid.is_empty() && (&left.uid, left.generation) == (&right.uid, right.generation);
                Arc::ptr_eq(left, right) || is_named
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        is_same_object && is_same_crd && self.unreadable == other.unreadable && self.served == other.served
    }
}

/// Evaluates all FieldCaches of which an input has changed, and returns the results of all. `last` has the last results
/// and their inputs, and is replaced by the new ones. Yields to other tasks in between: there can be many FieldCaches,
/// and to evaluate one can take a second.
pub async fn evaluate_all(
    field_caches: &[Arc<FieldCache>],
    definitions: &Arc<Definitions>,
    last: &mut EvaluatedFieldCaches,
) -> FieldCacheResults {
    let mut next = EvaluatedFieldCaches::new();
    for field_cache in field_caches {
        let name = field_cache.name_any();
        let basis = EvaluationInputs::new(field_cache, definitions);
        let generation = field_cache.metadata.generation.unwrap_or_default();
        let result = match last.remove(&name).filter(|(made_of, _)| made_of.is_same(&basis)) {
            Some((_, kept)) if kept.generation == generation => kept,
            Some((_, kept)) => Arc::new(FieldCacheResult { generation, ..FieldCacheResult::clone(&kept) }),
            None => {
                let (field_cache, definitions) = (field_cache.clone(), definitions.clone());
                Arc::new(compute(move || evaluate(&field_cache, &definitions)).await)
            }
        };
        next.insert(name, (basis, result));
        tokio::task::yield_now().await;
    }
    *last = next;
    last.iter().map(|(name, (_, result))| (name.clone(), result.clone())).collect()
}

/// The resources of all stores that FieldCaches define.
pub fn cached_resources(results: &FieldCacheResults) -> BTreeSet<Gvr> {
    results.values().flat_map(|result| &result.stores).map(|store| store.gvr.clone()).collect()
}

/// Evaluates one FieldCache against the resources of the cluster.
pub fn evaluate(field_cache: &FieldCache, definitions: &Definitions) -> FieldCacheResult {
    let generation = field_cache.metadata.generation.unwrap_or_default();
    let follows_preferred = field_cache.spec.versions.is_empty();
    match stores(field_cache, definitions) {
        Ok((stores, unserved)) => {
            let problems = unserved.into_iter().chain(rejected(&stores)).collect();
            FieldCacheResult { generation, stores, problems, follows_preferred }
        }
        Err(problems) => FieldCacheResult { generation, stores: Vec::new(), problems, follows_preferred },
    }
}

/// The problem of an object without its spec. `crowded_out` is the reason for an object that exceeds the budget of its
/// kind.
pub(super) fn absent(why: &Absence, crowded_out: &'static str) -> SpecProblem {
    let ObjectLimits { objects, free, excess, longest, .. } = ObjectLimits::WRITTEN_BY_USERS;
    let (reason, message) = match why {
        Absence::Unreadable(reason) => (
            "Unreadable",
            format!(
                "this release of fieldcache cannot read the object: {reason}; correct the object, or upgrade fieldcache to the release whose CustomResourceDefinitions are installed"
            ),
        ),
        Absence::TooLong => (
            "TooLarge",
            format!("the spec has more than {longest} bytes as JSON: shorten it, or split it into several objects"),
        ),
        Absence::CrowdedOut => (
            crowded_out,
            format!(
                "fieldcache serves only the oldest {objects} objects of this kind. The first {free} bytes of each spec do not count. The other bytes of all specs together are limited to {excess}; older objects have precedence. This object exceeds one of these limits: shorten its spec, or delete unused objects of this kind"
            ),
        ),
    };
    SpecProblem { reason, message }
}

/// The message for a resource whose plural name prevents lists in all namespaces, so that it cannot be cached.
pub(super) fn unsupported(resource: &str) -> String {
    format!(
        "a resource with the plural name {resource} cannot be listed in all namespaces: API servers read {resource} after /apis/GROUP/VERSION/ as a prefix of an old form of path; give the resource another plural name"
    )
}

/// The problems of rejected extra fields. A problem that all versions have is reported once; others name their version.
fn rejected(stores: &[DesiredStore]) -> Vec<SpecProblem> {
    let is_common = |problem: &extra::ExtraFieldError| stores.iter().all(|store| store.rejected.contains(problem));
    let mut problems = Vec::new();
    for (index, store) in stores.iter().enumerate() {
        for problem in &store.rejected {
            let message = match is_common(problem) {
                true if index > 0 => continue,
                true => problem.to_string(),
                false => format!("version {}: {problem}", store.gvr.version),
            };
            problems.push(SpecProblem { reason: problem.reason.as_str(), message });
        }
    }
    problems
}

/// The stores that a FieldCache defines, and the problems of versions that are left out.
///
/// # Errors
/// The problems because of which the FieldCache is rejected as a whole.
fn stores(
    field_cache: &FieldCache,
    definitions: &Definitions,
) -> Result<(Vec<DesiredStore>, Vec<SpecProblem>), Vec<SpecProblem>> {
    let spec = &field_cache.spec;
    let one = |reason, message: &str| Err(vec![SpecProblem { reason, message: message.to_owned() }]);
    // A FieldCache that is being deleted defines no stores. Deletion needs no cleanup.
    if field_cache.metadata.deletion_timestamp.is_some() {
        return one("Deleting", "the FieldCache is being deleted");
    }
    if let Some(why) = &spec.absent {
        return Err(vec![absent(why, "TooManyFieldCaches")]);
    }
    // The CRD validates this too. Without its rules, two FieldCaches could define one store.
    if field_cache.name_any() != spec.object_name() {
        let message =
            format!("metadata.name: must be {}, so that there is one FieldCache for each resource", spec.object_name());
        return one("NameInvalid", &message);
    }
    if !Gvr::new(&*spec.group, "", &*spec.resource).has_collection_path() {
        return one("ResourceUnsupported", &unsupported(&spec.resource));
    }
    if let Some(reason) = definitions.unreadable.get(&spec.object_name()) {
        let message = format!("the CustomResourceDefinition {} cannot be read: {reason}", spec.object_name());
        return one("DefinitionUnreadable", &message);
    }
    let served = definitions.versions(&spec.group, &spec.resource);
    let names: Vec<&str> = served.iter().map(|(gvr, _)| &*gvr.version).collect();
    // The versions that are cached already, by the status. They stay cached after the preferred version has changed.
    let kept = field_cache.status.as_ref().map_or(&[][..], |status| &status.versions);
    let (versions, problems) = accept::versions(spec, kept, &names);
    let problems: Vec<SpecProblem> = problems.into_iter().map(SpecProblem::from).collect();
    if versions.is_empty() {
        return Err(problems);
    }
    let requests = accept::field_requests(spec);
    let mut stores = Vec::new();
    for (gvr, definition) in
        versions.iter().filter_map(|version| served.iter().find(|(gvr, _)| gvr.version == *version))
    {
        let scope = match store_scope(spec, definition) {
            Ok(scope) => scope,
            // An older version that the spec does not name must not prevent the preferred one.
            Err(_) if spec.versions.is_empty() && !stores.is_empty() => continue,
            Err(problems) => return Err(problems),
        };
        let mut outcome = accept_fields(&requests, gvr, definition, definitions);
        for problem in &mut outcome.problems {
            // Cut, because it can quote what the author wrote.
            problem.message = accept::shortened(std::mem::take(&mut problem.message));
        }
        // The fields were accepted for this extractor, so it can be extended by them.
        let extended = outcome.fields.extend(&definition.extractor).unwrap_or_else(|_| definition.extractor.clone());
        stores.push(DesiredStore {
            gvr: gvr.clone(),
            fields: outcome.fields,
            extractor: extended,
            rejected: outcome.problems,
            scope,
            resource_scope: definition.scope,
        });
    }
    Ok((stores, problems))
}

/// The selection of objects by `spec.scope`; `None` for all objects. The API server applies it.
///
/// # Errors
/// The problems of a scope that the API server cannot apply. There is no store then: one with more objects was not
/// requested.
fn store_scope(spec: &FieldCacheSpec, definition: &Definition) -> Result<Option<Arc<PartialStore>>, Vec<SpecProblem>> {
    if spec.scope.is_none() {
        return Ok(None);
    }
    let selected = accept::scope(spec, &definition.extractor);
    let (label_selector, field_selector) =
        selected.map_err(|problems| problems.into_iter().map(SpecProblem::from).collect::<Vec<_>>())?;
    Ok(Some(Arc::new(PartialStore { label_selector, field_selector })))
}

/// Validates the extra fields of a FieldCache for the resource `gvr`, by the schema of its CustomResourceDefinition, or
/// by the built-in schema. Returns the valid fields and the problems of the others.
fn accept_fields(
    requests: &[extra::FieldRequest],
    gvr: &Gvr,
    definition: &Definition,
    definitions: &Definitions,
) -> extra::AcceptedFields {
    if requests.is_empty() {
        return extra::AcceptedFields::default();
    }
    if let Some(crd) = definitions.crds.get(&gvr.group_resource()) {
        let version = crd.version(&gvr.version);
        let schema = version.and_then(|version| version.schema.as_ref()).map(Schema::to_value);
        let subject = TargetResource {
            extractor: &definition.extractor,
            schema: schema.as_ref(),
            columns: version.map_or(&[], |version| &version.printer_columns),
        };
        return extra::accept(requests, &subject);
    }
    // The schemas of the Kubernetes version that this program was built with. Newer fields are unknown.
    let schema = schemas::structural_schema(&gvr.group, &gvr.version, &definition.kind);
    extra::accept(requests, &TargetResource { extractor: &definition.extractor, schema: schema.as_ref(), columns: &[] })
}
