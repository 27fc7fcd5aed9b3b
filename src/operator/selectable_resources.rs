//! Writes SelectableResources, which list the selectable fields of a resource.
//!
//! [`describe`] is pure: definitions of the cluster and results of FieldCaches in, desired objects out. [`run`] makes
//! the cluster have exactly these. It compares all of them whenever something changes, so that deleted and changed
//! objects are restored. It is a loop of its own, since controllers of kube-runtime reconcile only objects that exist.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::reflector;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use super::api_error::{LastProblem, described};
use super::controller_tasks::compute;
use super::replica_state::ReplicaState;
use super::settle::settle;
use super::status::{ConditionStatus, FIELD_MANAGER, Finding, conditions};
use super::stores::{DesiredStore, FieldCacheResults, unsupported};
use crate::crd::Crd;
use crate::extract::validation::{CrdValidation, CrdValidationCache};
use crate::extract::{CompiledField, Field, Origin};
use crate::kinds::selectable_resource::{MAX_DESCRIPTION, MAX_ENUM, MAX_FIELDS, MAX_LISTED, MAX_TEXT};
use crate::kinds::{
    FieldOrigin, OpenApi, RejectedField, ResourceVersion, SelectableField, SelectableResource, SelectableResourceStatus,
};
use crate::registry::Definitions;

/// How often all objects are compared without a change.
const COMPARE_EVERY: Duration = Duration::from_secs(60);
/// kube-apiserver publishes a changed definition in OpenAPI a moment later.
const PUBLISHED_AFTER: Duration = Duration::from_secs(2);

/// A desired SelectableResource.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The CustomResourceDefinition that owns it, for a custom resource.
    pub owner: Option<OwnerReference>,
    /// Served versions, the preferred one first.
    pub versions: Vec<ResourceVersion>,
    /// Key of the OpenAPI document of the first version, such as `apis/apps/v1`.
    pub document: String,
    /// Whether a FieldCache defines a store.
    pub cached: bool,
    /// The condition Accepted.
    pub accepted: Finding,
}

/// Most entries of status.fieldPaths.
const MAX_PATHS: usize = 256;
const ACCEPTED: &str = "Accepted";
const PUBLISHED: &str = "Published";

/// The desired SelectableResources by name. There is one for each resource with a selectable field in addition to name
/// and namespace, with a rejected field, or with an accepted FieldCache. `validations` caches the results of validating
/// CustomResourceDefinitions; those of deleted ones are dropped.
pub fn describe(
    definitions: &Definitions,
    results: &FieldCacheResults,
    validations: &CrdValidationCache,
) -> BTreeMap<String, Described> {
    validations.retain(|name| definitions.crds.contains_key(name));
    let mut names: BTreeMap<String, (String, String)> = BTreeMap::new();
    for gvr in definitions.resources.keys() {
        names.insert(gvr.group_resource(), (gvr.group.clone(), gvr.resource.clone()));
    }
    let described = names.into_iter().filter_map(|(name, (group, resource))| {
        let stores = results.get(&name).map_or(&[][..], |result| &result.stores);
        let cached = !stores.is_empty();
        let crd = definitions.crds.get(&name);
        let validation = crd.map(|crd| validations.get_or_validate(crd));
        let served = definitions.versions(&group, &resource);
        let versions: Vec<ResourceVersion> = served
            .iter()
            .take(MAX_LISTED)
            .map(|(gvr, definition)| {
                let store = stores.iter().find(|store| store.gvr == *gvr);
                describe_version(&gvr.version, definition.extractor.fields(), store, validation.as_deref())
            })
            .collect();
        let has_fields = versions.iter().any(|version| !version.fields.is_empty() || !version.rejected.is_empty());
        let (first, _) = served.first()?;
        (has_fields || cached).then(|| {
            let described = Described {
                owner: crd.map(|crd| owner(crd)),
                document: first.group_version().path().trim_start_matches('/').to_owned(),
                cached,
                accepted: match first.has_collection_path() {
                    true => accepted(&versions),
                    false => {
                        Finding::new(ACCEPTED, ConditionStatus::False, "ResourceUnsupported", unsupported(&resource))
                    }
                },
                versions,
            };
            (name, described)
        })
    });
    described.collect()
}

/// The owner reference to a CustomResourceDefinition, so that the SelectableResource is deleted with it.
fn owner(crd: &Crd) -> OwnerReference {
    OwnerReference {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        name: crd.name.clone(),
        uid: crd.uid.clone(),
        ..OwnerReference::default()
    }
}

/// The status of one version: its fields, and those that were rejected. `fields` are those of the resource itself.
/// `store` is the store of this version that a FieldCache defines, with extra fields. `validation` is that of the
/// CustomResourceDefinition; `None` for a built-in resource.
fn describe_version(
    name: &str,
    fields: &[Field],
    store: Option<&DesiredStore>,
    validation: Option<&CrdValidation>,
) -> ResourceVersion {
    let version_result =
        validation.and_then(|validation| validation.versions.iter().find(|version| version.name == name));
    let rejected =
        version_result.iter().flat_map(|version| &version.rejected).take(MAX_LISTED).map(|rejected| RejectedField {
            json_path: shortened(&rejected.json_path, MAX_TEXT),
            reason: rejected.reason.to_owned(),
            message: shortened(&rejected.message, MAX_DESCRIPTION),
        });
    let refused = store.iter().flat_map(|store| &store.rejected).map(|problem| RejectedField {
        json_path: shortened(&problem.written, MAX_TEXT),
        reason: problem.reason.as_str().to_owned(),
        message: shortened(&problem.message, MAX_DESCRIPTION),
    });
    let extra = store.iter().flat_map(|store| &*store.fields).map(CompiledField::field);
    let warnings = validation.iter().flat_map(|validation| &validation.warnings);
    // A warning without a version is about all versions.
    let warnings = warnings.filter(|warning| warning.version.is_empty() || warning.version == name);
    // The path is the key of the list in the status, so it must be unique. Long paths are cut, and then two can be the
    // same.
    let mut names = HashSet::new();
    let fields = fields.iter().chain(extra).map(field).filter(|field| names.insert(field.field_path.clone()));
    ResourceVersion {
        name: name.to_owned(),
        fields: fields.take(MAX_FIELDS).collect(),
        rejected: rejected.chain(refused).take(MAX_LISTED).collect(),
        warnings: warnings.take(MAX_LISTED).map(|warning| shortened(&warning.message, MAX_DESCRIPTION)).collect(),
    }
}

/// A field for the status.
fn field(field: &Field) -> SelectableField {
    // Texts have at most the characters that the CustomResourceDefinition of SelectableResources permits.
    let some = |text: &str, most| (!text.is_empty()).then(|| shortened(text, most));
    SelectableField {
        field_path: shortened(&field.label, MAX_TEXT),
        json_path: shortened(&field.json_path, MAX_TEXT),
        kind: field.kind.clone(),
        allowed: field.allowed.iter().take(MAX_ENUM).map(|allowed| shortened(allowed, MAX_TEXT)).collect(),
        format: some(&field.format, 63),
        default: field.default.as_deref().map(|default| shortened(default, MAX_TEXT)),
        description: some(&field.description, MAX_DESCRIPTION),
        origin: match field.origin {
            Origin::CustomResourceDefinition => FieldOrigin::CustomResourceDefinition,
            Origin::BuiltIn => FieldOrigin::BuiltIn,
            Origin::FieldCache => FieldOrigin::FieldCache,
        },
    }
}

/// The first `most` characters of a string.
fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// The condition Accepted, from the rejected fields of all versions.
fn accepted(versions: &[ResourceVersion]) -> Finding {
    let rejected = || versions.iter().flat_map(|version| version.rejected.iter().map(move |field| (version, field)));
    match rejected().next() {
        None => Finding::new(ACCEPTED, ConditionStatus::True, "Accepted", "all fields are valid"),
        Some((version, first)) => {
            let more = rejected().count() - 1;
            let more =
                if more == 0 { String::new() } else { format!("; further rejected fields in status.versions: {more}") };
            let message = format!("version {}, {}: {}{more}", version.name, first.json_path, first.message);
            Finding::new(ACCEPTED, ConditionStatus::False, "FieldsRejected", message)
        }
    }
}

/// Writes the SelectableResources for as long as it is polled. `existing` has those of the cluster, and `changes` an
/// item whenever one of them has changed.
pub async fn run(
    client: Client,
    mut replica: ReplicaState,
    existing: reflector::Store<SelectableResource>,
    changes: impl Stream<Item = ()>,
) {
    let api: Api<SelectableResource> = Api::all(client);
    let mut changes = std::pin::pin!(changes);
    let mut logged = LastProblem::default();
    let validations = CrdValidationCache::default();
    // When everything is compared again without another change.
    let mut again = std::pin::pin!(sleep(Duration::ZERO));
    loop {
        let definitions = replica.definitions.borrow_and_update().clone();
        let results = replica.results.borrow_and_update().clone();
        // This validates all CustomResourceDefinitions that have changed, so it runs on another thread.
        let known = validations.clone();
        let wanted = compute(move || describe(&definitions, &results, &known)).await;
        let documents = hashes(&replica, &wanted).await;
        match reconcile(&api, &existing, &wanted, &documents).await.first() {
            None => logged.forget(),
            Some((name, error)) => {
                let problem = described(error);
                if logged.record_if_new(&problem) {
                    tracing::warn!(name, problem, "cannot write a SelectableResource, retrying");
                }
            }
        }
        tokio::select! {
            change = changes.next() => if change.is_none() { return },
            changed = replica.definitions.changed() => {
                if changed.is_err() {
                    return;
                }
                again.set(sleep(PUBLISHED_AFTER));
            }
            changed = replica.results.changed() => if changed.is_err() { return },
            () = &mut again => again.set(sleep(COMPARE_EVERY)),
        }
        if !settle(&mut changes).await {
            return;
        }
    }
}

/// The hashes of the OpenAPI documents of `wanted`, by key. A document that the API server does not have is left out.
/// The error is the reason why there are no documents at all, as a message of the condition Published. A panic while a
/// document is generated is such a reason too.
async fn hashes(
    replica: &ReplicaState,
    wanted: &BTreeMap<String, Described>,
) -> Result<BTreeMap<String, String>, String> {
    let Some(documents) = replica.registry.catalog().documents.clone() else {
        return Err("this server publishes no OpenAPI documents".to_owned());
    };
    let set = documents.v3().await?;
    let keys: Vec<String> = wanted.values().map(|described| described.document.clone()).collect();
    // Documents that were not requested yet are generated, which takes seconds for the longest ones.
    let hashes = tokio::task::spawn_blocking(move || {
        let hash = |key: String| set.v3(&key).map(|forms| forms.document().hash.clone()).map(|hash| (key, hash));
        keys.into_iter().filter_map(hash).collect()
    });
    hashes.await.map_err(|error| error.to_string())
}

/// Creates, updates and deletes objects until the cluster has the desired ones. Returns the names of those that could
/// not be written, with errors: one that fails does not stop the others.
async fn reconcile(
    api: &Api<SelectableResource>,
    existing: &reflector::Store<SelectableResource>,
    wanted: &BTreeMap<String, Described>,
    documents: &Result<BTreeMap<String, String>, String>,
) -> Vec<(String, kube::Error)> {
    let existing: BTreeMap<String, Arc<SelectableResource>> =
        existing.state().into_iter().map(|object| (object.name_any(), object)).collect();
    let mut failed = Vec::new();
    for (name, object) in &existing {
        if !wanted.contains_key(name) && object.metadata.deletion_timestamp.is_none() {
            let only_this = Preconditions { uid: object.uid(), resource_version: None };
            let parameters = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
            match api.delete(name, &parameters).await {
                Ok(_) => {}
                // It was deleted or changed meanwhile.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => failed.push((name.clone(), error)),
            }
        }
    }
    for (name, described) in wanted {
        if let Err(error) = write(api, name, existing.get(name).map(|object| &**object), described, documents).await {
            // If the API server does not respond, each further write would also wait until it times out.
            let is_response = matches!(error, kube::Error::Api(_));
            failed.push((name.clone(), error));
            if !is_response {
                break;
            }
        }
    }
    failed
}

/// Writes a SelectableResource and its status, each if it differs from `object`, the existing one; `None`: it does not
/// exist. `documents` is the result of [`hashes`].
///
/// # Errors
/// The API server rejects one of the two, or does not respond.
async fn write(
    api: &Api<SelectableResource>,
    name: &str,
    object: Option<&SelectableResource>,
    described: &Described,
    documents: &Result<BTreeMap<String, String>, String>,
) -> Result<(), kube::Error> {
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    let owners: Vec<OwnerReference> = described.owner.clone().into_iter().collect();
    let head = json!({ "apiVersion": SelectableResource::api_version(&()), "kind": SelectableResource::kind(&()) });
    if object.is_none_or(|object| object.owner_references() != owners) {
        let mut body = head.clone();
        // An empty list removes owners that this program set before.
        body["metadata"] = json!({ "name": name, "ownerReferences": owners });
        api.patch(name, &apply, &Patch::Apply(&body)).await?;
    }
    let before = object.and_then(|object| object.status.clone()).unwrap_or_default();
    let status = status(described, &before, documents);
    if status != before {
        let mut body = head;
        body["metadata"] = json!({ "name": name });
        body["status"] = json!(status);
        api.patch_status(name, &apply, &Patch::Apply(&body)).await?;
    }
    Ok(())
}

/// The selectable field paths of all versions without duplicates, in the order of the versions, at most [`MAX_PATHS`].
fn field_paths(versions: &[ResourceVersion]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for field in versions.iter().flat_map(|version| &version.fields) {
        if paths.len() < MAX_PATHS && !paths.contains(&field.field_path) {
            paths.push(field.field_path.clone());
        }
    }
    paths
}

/// The text of a printer column: the first paths, separated by commas, as many as fit into 30 characters, and the
/// number of the others. If not even the first path fits, it is cut.
pub(super) fn summary(paths: &[String]) -> String {
    const WIDTH: usize = 30;
    let mut text = String::new();
    let mut shown = 0;
    for path in paths {
        let separator = if shown == 0 { "" } else { "," };
        if shown > 0 && text.chars().count() + 1 + path.chars().count() > WIDTH {
            break;
        }
        text.push_str(separator);
        text.push_str(path);
        shown += 1;
    }
    if text.chars().count() > WIDTH {
        text = format!("{}...", shortened(&text, WIDTH - 3));
    }
    match paths.len() - shown {
        0 => text,
        more => format!("{text},+{more}"),
    }
}

/// The status of a SelectableResource. `before` is the current status: a condition with the same status keeps its last
/// transition time. `documents` is the result of [`hashes`].
fn status(
    described: &Described,
    before: &SelectableResourceStatus,
    documents: &Result<BTreeMap<String, String>, String>,
) -> SelectableResourceStatus {
    let hash = documents.as_ref().map(|documents| documents.get(&described.document));
    let (open_api, published) = match hash {
        Ok(Some(hash)) => {
            let url = format!("/openapi/v3/{}", described.document);
            let published = Finding::new(
                PUBLISHED,
                ConditionStatus::True,
                "Published",
                format!("the OpenAPI v3 document {url} of fieldcache has the fields"),
            );
            (Some(OpenApi { url, hash: hash.clone() }), published)
        }
        Ok(None) => {
            let message = format!("the API server has no OpenAPI document for {} yet", described.document);
            (None, Finding::new(PUBLISHED, ConditionStatus::False, "DocumentMissing", message))
        }
        Err(error) => (None, Finding::new(PUBLISHED, ConditionStatus::Unknown, "DocumentsUnavailable", error.clone())),
    };
    let field_paths = field_paths(&described.versions);
    SelectableResourceStatus {
        versions: described.versions.clone(),
        field_summary: summary(&field_paths),
        field_paths,
        open_api,
        cached: described.cached,
        // A SelectableResource has no spec, so its generation has no meaning.
        conditions: conditions(
            &before.conditions,
            &[described.accepted.clone(), published],
            None,
            jiff::Timestamp::now(),
        ),
    }
}
