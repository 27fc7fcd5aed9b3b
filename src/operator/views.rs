//! Evaluates and serves Views in every replica, and writes their statuses in the leader.
//!
//! [`evaluate`] is pure: Views, the results of FieldCaches and the definitions of the cluster in, definitions of Views
//! out. A View is served as a whole or not at all: with an invalid selection it would show too much. `registry::views`
//! serves it. There is no finalizer, since deletion needs no cleanup.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use k8s_openapi::ByteString;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::events::Recorder;
use kube::runtime::reflector::Store;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::watch;

use super::admission_policy;
use super::api_error::{LastProblem, described};
use super::events;
use super::object_budget::{Age, age};
use super::reflector;
use super::replica_state::ReplicaState;
use super::reported::{ReportedConditions, ReportedKind};
use super::settle::settle;
use super::status::{ConditionStatus, FIELD_MANAGER, Finding, MOST_WRITES, conditions};
use super::stores::{DesiredStore, FieldCacheResults, SpecProblem, absent};
use super::synced::Synced;
use crate::extract::Prune;
use crate::extract::prune::copies::ANNOTATIONS;
use crate::kinds::accept::{CacheLookup, MOST_PROBLEMS};
use crate::kinds::field_cache::object_name;
use crate::kinds::view::{ConsumerValue, Endpoint};
use crate::kinds::{Authorization, Consistency, View, ViewStatus, accept};
use crate::registry::consumer::{ConsumerClaim, ConsumerTerms};
use crate::registry::view_namespaces::ViewNamespaces;
use crate::registry::views::{
    MOST_NAMESPACE_SELECTORS, ViewDefinition, ViewPart, ViewRights, views_beyond_selector_limit,
};
use crate::registry::{Definitions, LoadState, ViewDefinitions};
use crate::request::view_path::VIEWS;

/// How often a status is compared without a change.
const COMPARE_EVERY: Duration = Duration::from_secs(300);
const AFTER_FAILURE: Duration = Duration::from_secs(10);

const ACCEPTED: &str = "Accepted";
const READY: &str = "Ready";
/// Only on Views that prune.
const PRUNED: &str = "Pruned";
/// Only on Views that take a name from their consumers without its namespace.
const CONSUMER_NAMESPACED: &str = "ConsumerNamespaced";

/// The result on one View.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewResult {
    /// metadata.generation of the View that was evaluated.
    pub generation: i64,
    /// What is served, or the first problems.
    pub outcome: Result<Arc<ViewDefinition>, Vec<SpecProblem>>,
}

/// The results, by name.
pub type ViewResults = BTreeMap<String, Arc<ViewResult>>;

/// The URL of Views.
#[derive(Clone, Debug)]
pub struct Address {
    /// The URL before the path of a View, such as `https://fieldcache.fieldcache-system.svc`.
    pub base: String,
    /// The certificate authorities of the server, PEM; empty: clients trust its certificate without them.
    pub authorities: watch::Receiver<Vec<u8>>,
}

impl Address {
    /// The URL of a View and the authorities of its certificate.
    fn endpoint(&self, name: &str) -> Endpoint {
        let bundle = self.authorities.borrow().clone();
        Endpoint {
            url: format!("{}{}{name}/proxy", self.base.trim_end_matches('/'), VIEWS),
            ca_bundle: (!bundle.is_empty()).then_some(ByteString(bundle)),
        }
    }
}

/// Follows Views without their statuses. Returns a store of them, and a stream with an item for each change, which must
/// be polled.
pub fn follow(client: Client) -> (Store<View>, impl Stream<Item = ()> + Send) {
    let (store, changes) =
        reflector::follow_events(client, watcher::Config::default(), |view: &mut View| view.status = None);
    let is_change = |event: &_| !matches!(event, Ok(watcher::Event::Init | watcher::Event::InitApply(_)) | Err(_));
    (store, changes.filter_map(move |event| ready(is_change(&event).then_some(()))))
}

/// The last results of Views, and their inputs.
#[derive(Clone)]
pub(super) struct LastEvaluation {
    results: Arc<FieldCacheResults>,
    definitions: Arc<Definitions>,
    views: BTreeMap<String, Arc<View>>,
    /// The results before the limit of namespace selectors.
    evaluated: Arc<ViewResults>,
    pub(super) view_results: Arc<ViewResults>,
}

/// Evaluates all Views. A changed View is evaluated again, and so is one of which an input has changed since `last`.
/// The inputs are the results of the FieldCaches that it uses, and the cluster's resources if it shows one that no
/// FieldCache caches. Any other View keeps its result. Yields to other tasks between Views.
pub(super) async fn evaluate_all(
    all: Vec<Arc<View>>,
    results: &Arc<FieldCacheResults>,
    definitions: &Arc<Definitions>,
    last: Option<LastEvaluation>,
) -> LastEvaluation {
    let mut view_results = ViewResults::new();
    for view in &all {
        let name = view.name_any();
        let kept = last.as_ref().and_then(|last| {
            let is_known = last.views.get(&name).is_some_and(|known| Arc::ptr_eq(known, view));
            // For cached resources, only the results of FieldCaches are read, not the definitions.
            let is_of_these = Arc::ptr_eq(&last.definitions, definitions) || shows_only_cached(view, results);
            let is_alike = is_known && is_of_these && evaluates_alike(view, &last.results, results);
            last.evaluated.get(&name).filter(|_| is_alike)
        });
        let result = match kept {
            Some(kept) => kept.clone(),
            None => {
                tokio::task::yield_now().await;
                Arc::new(evaluate(view, results, definitions))
            }
        };
        view_results.insert(name, result);
    }
    let views: BTreeMap<String, Arc<View>> = all.into_iter().map(|view| (view.name_any(), view)).collect();
    let evaluated = Arc::new(view_results);
    LastEvaluation {
        results: results.clone(),
        definitions: definitions.clone(),
        view_results: limit_selectors(&views, &evaluated),
        views,
        evaluated,
    }
}

/// The results, where the Views with too many different selectors of namespaces are rejected. The oldest Views have
/// precedence, so that new ones do not end the service of others.
fn limit_selectors(views: &BTreeMap<String, Arc<View>>, evaluated: &Arc<ViewResults>) -> Arc<ViewResults> {
    let valid = evaluated.iter().filter_map(|(name, result)| {
        let (view, definition) = (views.get(name)?, result.outcome.as_ref().ok()?);
        Some((age(&view.metadata), &**definition))
    });
    let by_age: BTreeMap<Age, &ViewDefinition> = valid.collect();
    let rejected = views_beyond_selector_limit(by_age.iter().map(|((_, _, name), definition)| (name, *definition)));
    if rejected.is_empty() {
        return evaluated.clone();
    }
    let mut limited = ViewResults::clone(evaluated);
    for name in rejected {
        let Some(result) = evaluated.get(&name) else { continue };
        let message = format!(
            "older Views have {MOST_NAMESPACE_SELECTORS} different namespaceSelectors, which is the maximum: use one of these \
             selectors, or list the namespaces in namespaces"
        );
        let outcome = Err(vec![SpecProblem { reason: "TooManyNamespaceSelectors", message }]);
        limited.insert(name, Arc::new(ViewResult { generation: result.generation, outcome }));
    }
    Arc::new(limited)
}

/// Whether the results of the FieldCaches that a View uses are the same in `last` and `results`.
fn evaluates_alike(view: &View, last: &Arc<FieldCacheResults>, results: &Arc<FieldCacheResults>) -> bool {
    let is_same = |name: &str| last.get(name) == results.get(name);
    Arc::ptr_eq(last, results)
        // spec.consumer can select by the labels of the caller's Pod, and resources by those of Namespaces, or by the
        // permissions that RoleBindings grant.
        || is_same("pods")
            && is_same("namespaces")
            && is_same("rolebindings.rbac.authorization.k8s.io")
            && view.spec.resources.iter().all(|shown| is_same(&object_name(&shown.group, &shown.resource)))
}

/// Whether FieldCaches cache everything that a View shows.
fn shows_only_cached(view: &View, results: &FieldCacheResults) -> bool {
    view.spec
        .resources
        .iter()
        .all(|shown| preferred_store(&object_name(&shown.group, &shown.resource), results).is_some())
}

/// The store of the preferred version of the resource `name`, as `PLURAL.GROUP`; `None` if no FieldCache caches it. A
/// View is validated against this version only: another version that lacks a field of the View shows nothing.
fn preferred_store<'v>(name: &str, results: &'v FieldCacheResults) -> Option<&'v DesiredStore> {
    results.get(name)?.stores.first()
}

/// Evaluates one View against the results of FieldCaches and the resources of the cluster. If any part of the View is
/// invalid, the outcome is its problems: without that part, the View would show too much.
pub fn evaluate(view: &View, results: &FieldCacheResults, definitions: &Definitions) -> ViewResult {
    let spec = &view.spec;
    if let Some(why) = &spec.absent {
        let outcome = Err(vec![absent(why, "TooManyViews")]);
        return ViewResult { generation: view.metadata.generation.unwrap_or_default(), outcome };
    }
    let look_up = |group: &str, resource: &str| -> CacheLookup {
        if let Some(store) = preferred_store(&object_name(group, resource), results) {
            return CacheLookup::Cached(store.extractor.clone(), store.resource_scope);
        }
        if !definitions.versions(group, resource).is_empty() {
            return CacheLookup::NotCached;
        }
        // Resources that the author may mean: the plural in another group, or a kind in lower case, which is the usual
        // singular.
        let others = definitions.resources.iter().filter(|(gvr, definition)| {
            gvr.resource == resource || (&*gvr.group == group && definition.kind.to_lowercase() == resource)
        });
        // In the order of groups, with the versions of one group together.
        let mut names: Vec<String> = others.map(|(gvr, _)| object_name(&gvr.group, &gvr.resource)).collect();
        names.dedup();
        CacheLookup::NotFound(names)
    };
    let problems = accept::view(spec, &look_up);
    let generation = view.metadata.generation.unwrap_or_default();
    let deleting = view
        .metadata
        .deletion_timestamp
        .is_some()
        .then(|| SpecProblem { reason: "Deleting", message: "the View is being deleted".to_owned() });
    let problems: Vec<SpecProblem> = deleting.into_iter().chain(problems.into_iter().map(SpecProblem::from)).collect();
    if !problems.is_empty() {
        return ViewResult { generation, outcome: Err(problems) };
    }
    let mut parts = Vec::with_capacity(spec.resources.len());
    for shown in &spec.resources {
        let [pruned, kept] = [&shown.prune, &shown.keep].map(|paths| paths.iter().map(String::as_str));
        let prune = match Prune::with_kept(pruned, kept) {
            Ok(prune) => prune,
            // `accept::view` reports it already. Without the path, the View would show too much.
            Err(invalid) => {
                let problem =
                    SpecProblem { reason: accept::SpecErrorReason::InvalidPath.as_str(), message: invalid.to_string() };
                return ViewResult { generation, outcome: Err(vec![problem]) };
            }
        };
        parts.push(ViewPart {
            group: shown.group.clone(),
            resource: shown.resource.clone(),
            // All selectors can be read, or there would be a problem.
            namespaces: match shown.namespace_selector.as_ref().filter(|selector| !selector.is_empty()) {
                _ if shown.permitted_namespaces == Some(true) => ViewNamespaces::Permitted,
                Some(selector) => {
                    ViewNamespaces::Selected(accept::label_selector(Some(selector), "").unwrap_or_default())
                }
                None => shown.namespaces.clone().into(),
            },
            labels: accept::label_selector(shown.label_selector.as_ref(), "").unwrap_or_default(),
            fields: accept::field_selector(shown.field_selector.as_ref(), "").unwrap_or_default(),
            prune: Arc::new(prune),
        });
    }
    let consumer = spec.consumer.clone().unwrap_or_default();
    let definition = ViewDefinition {
        parts,
        rights: match spec.authorization {
            Authorization::Caller => ViewRights::Caller,
            Authorization::View => ViewRights::View,
        },
        consumer: ConsumerTerms {
            fields: consumer.fields.into_iter().map(|field| (field.key, claim(field.value))).collect(),
            match_label_keys: consumer.match_label_keys,
            mismatch_label_keys: consumer.mismatch_label_keys,
        },
        is_strong: spec.consistency == Consistency::Strong,
    };
    ViewResult { generation, outcome: Ok(Arc::new(definition)) }
}

/// Converts the name of a token's claim from the type of the View's spec to that of the registry.
fn claim(value: ConsumerValue) -> ConsumerClaim {
    match value {
        ConsumerValue::NodeName => ConsumerClaim::NodeName,
        ConsumerValue::PodName => ConsumerClaim::PodName,
        ConsumerValue::PodUID => ConsumerClaim::PodUid,
        ConsumerValue::Namespace => ConsumerClaim::Namespace,
        ConsumerValue::ServiceAccountName => ConsumerClaim::ServiceAccountName,
    }
}

/// Evaluates the Views whenever they or their inputs change, serves them through the registry, and sends the results to
/// `view_results`. `changes` has an item for each change of `views`. Runs as long as it is polled, or until an input
/// ends.
pub async fn serve(
    replica: ReplicaState,
    views: Store<View>,
    changes: impl Stream<Item = ()>,
    view_results: watch::Sender<Arc<ViewResults>>,
    synced: &Synced,
) {
    let ReplicaState { registry, mut definitions, mut results, mut policy, .. } = replica;
    let mut changes = std::pin::pin!(changes);
    let mut last = None;
    // Before the FieldCaches have been evaluated, a valid View that selects by their fields would be rejected.
    if results.changed().await.is_err() {
        return;
    }
    loop {
        let known = views.wait_until_ready().now_or_never().is_some();
        if known {
            let (results, definitions) = (results.borrow_and_update().clone(), definitions.borrow_and_update().clone());
            let policy = policy.borrow_and_update().clone();
            let judged_now = evaluate_all(views.state(), &results, &definitions, last.take()).await;
            let now = &judged_now.view_results;
            let served: ViewDefinitions = now
                .iter()
                .map(|(name, result)| {
                    let outcome = result.outcome.clone().map_err(|problems| problems[0].message.clone());
                    let outcome = outcome.and_then(|definition| match (definition.rights, &policy) {
                        (ViewRights::View, Err(problem)) => Err(problem.clone()),
                        _ => Ok(definition),
                    });
                    (name.clone(), outcome)
                })
                .collect();
            registry.replace_views(served);
            // Until the policies are read, Views with `authorization: View` are not served although they may be valid.
            if policy != admission_policy::unread() {
                synced.set_views_evaluated();
            }
            view_results.send_if_modified(|current| {
                let differs = *current != *now;
                if differs {
                    *current = now.clone();
                }
                differs
            });
            last = Some(judged_now);
        }
        tokio::select! {
            change = changes.next() => if change.is_none() { return },
            changed = definitions.changed() => if changed.is_err() { return },
            changed = results.changed() => if changed.is_err() { return },
            changed = policy.changed() => if changed.is_err() { return },
        }
        if !settle(&mut changes).await {
            return;
        }
    }
}

struct Context {
    replica: ReplicaState,
    view_results: watch::Receiver<Arc<ViewResults>>,
    api: Api<View>,
    recorder: Recorder,
    reported: Arc<ReportedConditions>,
    /// The problem of failed writes that was logged last.
    logged: Mutex<LastProblem>,
    address: Address,
}

/// Writes statuses for as long as it is polled. All Views are reconciled for each item of `triggers`. It has one
/// whenever the phase of a store, the result of a View, the admission policies or the certificate authorities change.
pub async fn run(
    client: Client,
    replica: ReplicaState,
    view_results: watch::Receiver<Arc<ViewResults>>,
    (recorder, reported): (Recorder, Arc<ReportedConditions>),
    address: Address,
    triggers: impl Stream<Item = ()> + Send + 'static,
) {
    let api: Api<View> = Api::all(client.clone());
    let context = Context { replica, view_results, api, recorder, reported, logged: Mutex::default(), address };
    let (store, changes) = reflector::follow_events(client, watcher::Config::default(), |_: &mut View| {});
    Controller::for_stream(changes.applied_objects(), store)
        .with_config(Config::default().concurrency(MOST_WRITES))
        .reconcile_all_on(triggers)
        .run(reconcile, |_, error, context| retry_later(error, &context), Arc::new(context))
        .for_each(|_| ready(()))
        .await;
}

/// Logs a failed write, and returns when to try again.
fn retry_later(error: &kube::Error, context: &Context) -> Action {
    let problem = described(error);
    if context.logged.lock().unwrap_or_else(PoisonError::into_inner).record_if_new(&problem) {
        tracing::warn!(problem, "cannot write the status of a View, retrying");
    }
    Action::requeue(AFTER_FAILURE)
}

/// Writes the status of a View if it has changed, with Events for new reasons, and records its conditions for metrics.
/// Does nothing while this replica has not evaluated this generation.
///
/// # Errors
/// The status cannot be written. A failed Event is not an error.
async fn reconcile(view: Arc<View>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let name = view.name_any();
    let result = context.view_results.borrow().get(&name).cloned();
    let Some(result) = result.filter(|result| Some(result.generation) == view.metadata.generation) else {
        return Ok(Action::requeue(COMPARE_EVERY));
    };
    let current = view.status.clone().unwrap_or_default();
    let findings = findings(&result, &context.replica);
    let status = ViewStatus {
        conditions: conditions(&current.conditions, &findings, view.metadata.generation, jiff::Timestamp::now()),
        endpoint: result.outcome.is_ok().then(|| context.address.endpoint(&name)),
    };
    if status != current {
        let patch = json!({
            "apiVersion": View::api_version(&()), "kind": View::kind(&()),
            "metadata": { "name": name }, "status": status,
        });
        context.api.patch_status(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&patch)).await?;
        context.logged.lock().unwrap_or_else(PoisonError::into_inner).forget();
        for kind in [READY, CONSUMER_NAMESPACED] {
            let finding = findings.iter().find(|finding| finding.kind == kind);
            events::record(&context.recorder, &view.object_ref(&()), &current.conditions, finding, "Serve").await;
        }
    }
    context.reported.set(ReportedKind::View, &name, &findings);
    Ok(Action::requeue(COMPARE_EVERY))
}

/// The conditions of a View: Accepted and Ready, and for an accepted View those of [`further_conditions`].
fn findings(result: &ViewResult, replica: &ReplicaState) -> Vec<Finding> {
    let definition = match &result.outcome {
        Ok(definition) => definition,
        Err(problems) => {
            let (first, rest) = (&problems[0], problems.len() - 1);
            let more = match rest {
                0 => String::new(),
                // With MOST_PROBLEMS there can be others, which were not recorded.
                rest if problems.len() < MOST_PROBLEMS => format!("; further problems: {rest}"),
                rest => format!("; further problems: {rest} or more"),
            };
            let refused =
                |kind| Finding::new(kind, ConditionStatus::False, first.reason, format!("{}{more}", first.message));
            return vec![refused(ACCEPTED), refused(READY)];
        }
    };
    let accepted = Finding::new(
        ACCEPTED,
        ConditionStatus::True,
        "Accepted",
        "all resources, selectors and paths of the spec are valid",
    );
    // The admission policies restrict who decides what such a View shows. Without them, any author of Views or
    // FieldCaches could.
    let policy = replica.policy.borrow().clone();
    if let (ViewRights::View, Err(problem)) = (definition.rights, policy) {
        let ready = Finding::new(READY, ConditionStatus::False, "AdmissionPolicyMissing", problem);
        return [accepted, ready].into_iter().chain(further_conditions(definition)).collect();
    }
    let catalog = replica.registry.catalog();
    // A part waits if its resource has no store, or that of one of its versions is not complete.
    let is_waiting = |part: &&ViewPart| {
        let mut states = catalog
            .stores()
            .filter(|resource| resource.gvr.group == part.group && resource.gvr.resource == part.resource)
            .map(|resource| resource.state.load_state())
            .peekable();
        states.peek().is_none() || states.any(|state| !matches!(state, LoadState::Ready(_)))
    };
    let waiting = definition.parts.iter().find(is_waiting);
    let ready = match waiting {
        None => Finding::new(READY, ConditionStatus::True, "Ready", "served at status.endpoint.url"),
        Some(part) => {
            let name = crate::kinds::field_cache::object_name(&part.group, &part.resource);
            let message = format!("the store of {name} is not complete: see the conditions of FieldCache {name}");
            Finding::new(READY, ConditionStatus::False, "NotSynced", message)
        }
    };
    [accepted, ready].into_iter().chain(further_conditions(definition)).collect()
}

/// The conditions Pruned and ConsumerNamespaced, as far as they apply.
fn further_conditions(definition: &ViewDefinition) -> impl Iterator<Item = Finding> {
    pruned(definition).into_iter().chain(not_namespaced(definition))
}

/// The condition ConsumerNamespaced with status False: a View with `authorization: View` selects by a name of its
/// consumer without the namespace of that name. `None` otherwise. With `authorization: Caller`, the caller's own
/// permissions are checked anyway.
pub(super) fn not_namespaced(definition: &ViewDefinition) -> Option<Finding> {
    let fields = &definition.consumer.fields;
    let field_of = |wanted: ConsumerClaim| fields.iter().find(|(_, value)| *value == wanted);
    // The uid of a Pod is unique in all namespaces.
    let is_unique = field_of(ConsumerClaim::Namespace).or(field_of(ConsumerClaim::PodUid)).is_some();
    let (name, owner, value) = match (field_of(ConsumerClaim::PodName), field_of(ConsumerClaim::ServiceAccountName)) {
        (Some((name, _)), _) => (name, "a Pod", "PodName"),
        (None, Some((name, _))) => (name, "a ServiceAccount", "ServiceAccountName"),
        (None, None) => return None,
    };
    (definition.rights == ViewRights::View && !is_unique).then(|| {
        let message = format!(
            "spec.consumer.fields selects {name} by {value} without the namespace: a user of the View who may create {owner} in any namespace can choose the name, and so the objects that the View shows. Add {{key: metadata.namespace, value: Namespace}}, or another field \
             with the value Namespace"
        );
        Finding::new(CONSUMER_NAMESPACED, ConditionStatus::False, "NamespaceNotSelected", message)
    })
}

/// The condition Pruned of a View that prunes or keeps: what the View leaves out in addition to the paths of `prune`
/// and to what `keep` does not name, and where the same data can still be read. `None` if the View shows whole objects.
fn pruned(definition: &ViewDefinition) -> Option<Finding> {
    definition.parts.iter().any(|part| !part.prune.is_empty()).then(|| {
        let message = format!(
            "besides the parts that prune and keep leave out, the View leaves out the names of these parts in metadata.managedFields, and annotations that contain copies of objects: {}. The View does not recognize copies in other annotations, in other fields, or in other resources such as \
             ControllerRevisions, ReplicaSets of earlier templates, and Events",
            ANNOTATIONS.join(", ")
        );
        Finding::new(PRUNED, ConditionStatus::True, "CopiesOmitted", message)
    })
}
