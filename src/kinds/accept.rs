//! Validates what a schema and CEL cannot. The resource of a FieldCache or a View must exist and have the selected
//! fields, and its selectors must be valid.
//!
//! The functions are pure: the caller passes what is known of resources. `extract::extra` validates the extra fields,
//! and its reasons go into the same conditions. An empty list of problems means Accepted.

use serde_json::Value;

use super::field_cache::FieldCacheSpec;
use super::selectors::{FieldSelectorSpec, LabelSelectorSpec};
use super::view::{Authorization, ViewResource, ViewSpec};
use crate::extract::Extractor;
use crate::extract::extra::{self, FieldRequest};
use crate::extract::prune;
use crate::model::Scope;
use crate::selector::{self, Dialect, FieldExpression, FieldRequirement, LabelSelection, wire};

/// An error of the spec of a FieldCache or View.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct SpecError {
    /// The path of the field, such as `spec.versions[0]`.
    pub place: String,
    /// The reason, for programs: that of the condition.
    pub reason: SpecErrorReason,
    /// The error and the remedy: a sentence without a full stop.
    pub message: String,
}

/// The reason of an error, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpecErrorReason {
    /// No served resource has that name.
    ResourceNotFound,
    /// The resource is not served in that version.
    VersionNotServed,
    /// A selector cannot be read.
    InvalidSelector,
    /// A selector names a field that the resource does not have, or in a scope, one that the API server does not know.
    FieldNotSelectable,
    /// No FieldCache caches the resource.
    NotCached,
    /// The spec has a field that this release does not know.
    UnknownField,
    /// A path in prune is invalid, or names a field that cannot be pruned.
    InvalidPath,
    /// An extra field is not valid, for this reason.
    Field(extra::ExtraFieldReason),
}

impl SpecErrorReason {
    /// The reason as the condition has it.
    pub fn as_str(self) -> &'static str {
        match self {
            SpecErrorReason::ResourceNotFound => "ResourceNotFound",
            SpecErrorReason::VersionNotServed => "VersionNotServed",
            SpecErrorReason::InvalidSelector => "InvalidSelector",
            SpecErrorReason::FieldNotSelectable => "FieldNotSelectable",
            SpecErrorReason::NotCached => "NotCached",
            SpecErrorReason::UnknownField => "UnknownField",
            SpecErrorReason::InvalidPath => "InvalidPath",
            SpecErrorReason::Field(reason) => reason.as_str(),
        }
    }
}

impl From<extra::ExtraFieldError> for SpecError {
    fn from(problem: extra::ExtraFieldError) -> SpecError {
        SpecError {
            place: problem.place,
            reason: SpecErrorReason::Field(problem.reason),
            message: shortened(problem.message),
        }
    }
}

/// An error with a message of bounded length.
fn problem(place: impl Into<String>, reason: SpecErrorReason, message: impl Into<String>) -> SpecError {
    SpecError { place: place.into(), reason, message: shortened(message.into()) }
}

/// The maximum number of errors that are reported for one object. An author fixes one after the other, and a message
/// takes much more memory than the field that it is about.
pub const MOST_PROBLEMS: usize = 8;

/// The maximum number of characters of a message, which can contain a value of the spec.
const LONGEST_MESSAGE: usize = 1_024;

/// Shortens a message that is too long.
pub fn shortened(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
        message.truncate(end);
        message.push_str(" ...");
    }
    message
}

/// The extra fields of a FieldCache, in the form that `extract::extra` validates.
pub fn field_requests(spec: &FieldCacheSpec) -> Vec<FieldRequest> {
    spec.selectable_fields
        .iter()
        .map(|field| FieldRequest {
            name: field.name.clone(),
            json_path: field.json_path.clone(),
            printer_column: field.printer_column.clone(),
        })
        .collect()
}

/// The served versions that a FieldCache selects: those that it names, otherwise the preferred one and those of
/// `cached`. There is one problem for each version that is not served; the others are cached nevertheless. `served` are
/// the versions of the resource, the preferred one first; empty if there is no such resource. `cached` are the versions
/// that are already cached.
pub fn versions(spec: &FieldCacheSpec, cached: &[String], served: &[&str]) -> (Vec<String>, Vec<SpecError>) {
    let name = spec.object_name();
    let Some(preferred) = served.first() else {
        let message = format!(
            "the API server serves no resource {name} that can be listed and watched; correct spec.group and \
             spec.resource, or add its CustomResourceDefinition"
        );
        return (Vec::new(), vec![problem("spec.resource", SpecErrorReason::ResourceNotFound, message)]);
    };
    if spec.versions.is_empty() {
        // Clients read the versions that are cached already. The others are not added, because each costs a store.
        let others = served[1..].iter().filter(|version| cached.iter().any(|cached| cached == *version));
        return (std::iter::once(preferred).chain(others).map(|version| (*version).to_owned()).collect(), Vec::new());
    }
    let is_served = |version: &&String| served.contains(&version.as_str());
    let unknown =
        (0..).zip(&spec.versions).filter(|(_, version)| !is_served(version)).map(|(index, version): (usize, _)| {
            let message = format!("{name} is not served in {version}; its versions are {}", served.join(", "));
            problem(format!("spec.versions[{index}]"), SpecErrorReason::VersionNotServed, message)
        });
    (spec.versions.iter().filter(is_served).cloned().collect(), unknown.collect())
}

/// Parses the label selector at the path `place`. A missing one selects everything.
///
/// # Errors
/// The first invalid keys, operators and values.
pub fn label_selector(
    selector: Option<&LabelSelectorSpec>,
    place: &str,
) -> Result<selector::LabelSelector, Vec<SpecError>> {
    let Some(selector) = selector else { return Ok(selector::LabelSelector::default()) };
    // Converted to JSON, so that there is only one parser of label selectors.
    let value = serde_json::to_value(selector).unwrap_or(Value::Null);
    match wire::label_selector(&value, place, MOST_PROBLEMS).map_err(unreadable)? {
        LabelSelection::Matching(selector) => Ok(selector),
        LabelSelection::Everything | LabelSelection::Nothing => Ok(selector::LabelSelector::default()),
    }
}

/// Parses the field selector at the path `place`, without looking up its fields. A missing one has no requirements.
///
/// # Errors
/// The first invalid requirements.
pub fn field_selector(
    selector: Option<&FieldSelectorSpec>,
    place: &str,
) -> Result<Vec<FieldExpression>, Vec<SpecError>> {
    let Some(selector) = selector else { return Ok(Vec::new()) };
    let value = serde_json::to_value(selector).unwrap_or(Value::Null);
    wire::field_expressions(&value, place, MOST_PROBLEMS).map_err(unreadable)
}

/// Converts the errors of a selector to errors of the spec.
fn unreadable(problems: Vec<selector::FieldError>) -> Vec<SpecError> {
    let read = |found: selector::FieldError| problem(found.field, SpecErrorReason::InvalidSelector, found.message);
    problems.into_iter().map(read).collect()
}

/// A scope as query parameters of a list request: labelSelector and fieldSelector, empty without a restriction.
/// `extractor` is the resource's own, without extra fields: the API server knows no others.
///
/// # Errors
/// The first labels and requirements that are invalid, or by which the API server cannot select.
pub fn scope(spec: &FieldCacheSpec, extractor: &Extractor) -> Result<(String, String), Vec<SpecError>> {
    let Some(scope) = &spec.scope else { return Ok(Default::default()) };
    let mut problems = Vec::new();
    let labels = label_selector(scope.label_selector.as_ref(), "spec.scope.labelSelector").unwrap_or_else(|found| {
        problems.extend(found);
        selector::LabelSelector::default()
    });
    let place = "spec.scope.fieldSelector";
    let mut terms = Vec::new();
    let requirements = scope.field_selector.iter().flat_map(|selector| &selector.match_expressions);
    for (index, requirement) in requirements.enumerate() {
        if problems.len() >= MOST_PROBLEMS {
            break;
        }
        let place = format!("{place}.matchExpressions[{index}]");
        if extractor.resolve(&requirement.key).is_err() {
            let message = format!(
                "the API server cannot select this resource by {}: use a field that `kubectl get selectableresources` shows with an origin other than FieldCache",
                requirement.key
            );
            problems.push(problem(format!("{place}.key"), SpecErrorReason::FieldNotSelectable, message));
        }
        let is_known = requirement.operator.is_in(Dialect::KubernetesFieldText) && requirement.values.len() == 1;
        match requirement.operator.with_values(requirement.values.clone()) {
            Ok(operator) if is_known => {
                terms.push(FieldRequirement { label: requirement.key.clone(), operator }.to_string());
            }
            Ok(_) | Err(_) => {
                let message = "the API server supports only In and NotIn with exactly one value";
                problems.push(problem(place, SpecErrorReason::InvalidSelector, message));
            }
        }
    }
    if problems.is_empty() { Ok((labels.to_string(), terms.join(","))) } else { Err(problems) }
}

/// Whether a resource that a View names is cached.
#[derive(Clone, Debug)]
pub enum CacheLookup {
    /// A FieldCache caches it: its fields, extra ones too, in the version of the View, and its scope.
    Cached(Extractor, Scope),
    /// No FieldCache caches it.
    NotCached,
    /// There is no such resource. The names of FieldCaches of the resources that the author may mean.
    NotFound(Vec<String>),
}

/// A hint for messages: the first fields of a resource, and how to add others. `name` is that of the resource and of
/// its FieldCache.
fn offered(extractor: &Extractor, name: &str) -> String {
    const MOST: usize = 8;
    let namespace = extractor.accepts_namespace().then_some("metadata.namespace");
    let own = extractor.fields().iter().map(|field| &*field.label);
    let all: Vec<&str> = std::iter::once("metadata.name").chain(namespace).chain(own).collect();
    let more = match all.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = all[..all.len().min(MOST)].join(", ");
    format!("{name} has {shown}{more}. Use one of them, or add a field to the selectableFields of FieldCache {name}")
}

/// The problems of the namespaceSelector of a resource at the path `place`; none if it has no such
/// selector, or an empty one. `scope` is that of the resource, and `shown_of` looks up others.
fn namespace_selector(
    shown: &ViewResource,
    place: &str,
    scope: Scope,
    shown_of: &dyn Fn(&str, &str) -> CacheLookup,
) -> Vec<SpecError> {
    let Some(selector) = shown.namespace_selector.as_ref().filter(|selector| !selector.is_empty()) else {
        return Vec::new();
    };
    let place = format!("{place}.namespaceSelector");
    let invalid = |reason, message: &str| vec![problem(&*place, reason, message)];
    if !shown.namespaces.is_empty() {
        return invalid(SpecErrorReason::InvalidSelector, "set namespaces or namespaceSelector, not both");
    }
    if (&*shown.group, &*shown.resource) == ("", "namespaces") {
        let message = "select Namespaces by labelSelector: namespaceSelector is for objects in namespaces";
        return invalid(SpecErrorReason::InvalidSelector, message);
    }
    if scope == Scope::Cluster {
        let message = "the resource is cluster-scoped: its objects have no namespace to select";
        return invalid(SpecErrorReason::InvalidSelector, message);
    }
    if !matches!(shown_of("", "namespaces"), CacheLookup::Cached(..)) {
        let message = "the labels of Namespaces are read from their cache, and namespaces are not cached: create the \
                       FieldCache namespaces, without a scope";
        return invalid(SpecErrorReason::NotCached, message);
    }
    label_selector(Some(selector), &place).err().unwrap_or_default()
}

/// The problems of permittedNamespaces of a resource at the path `place`; none if it is not set. `authorization` is that
/// of the View, `scope` that of the resource, and `shown_of` looks up others.
fn permitted_namespaces(
    shown: &ViewResource,
    place: &str,
    authorization: Authorization,
    scope: Scope,
    shown_of: &dyn Fn(&str, &str) -> CacheLookup,
) -> Vec<SpecError> {
    if shown.permitted_namespaces != Some(true) {
        return Vec::new();
    }
    let place = format!("{place}.permittedNamespaces");
    let invalid = |reason, message: &str| vec![problem(&*place, reason, message)];
    if !shown.namespaces.is_empty() || shown.namespace_selector.is_some() {
        let message = "set only one of namespaces, namespaceSelector and permittedNamespaces";
        return invalid(SpecErrorReason::InvalidSelector, message);
    }
    if authorization == Authorization::View {
        let message = "permittedNamespaces shows the namespaces in which the caller has the permission itself: it needs \
                       authorization Caller";
        return invalid(SpecErrorReason::InvalidSelector, message);
    }
    let is_namespaces = (&*shown.group, &*shown.resource) == ("", "namespaces");
    if !is_namespaces && scope == Scope::Cluster {
        let message = "the resource is cluster-scoped: its objects have no namespace in which a permission could hold";
        return invalid(SpecErrorReason::InvalidSelector, message);
    }
    if !matches!(shown_of("rbac.authorization.k8s.io", "rolebindings"), CacheLookup::Cached(..)) {
        let message = "the namespaces of a caller are found by RoleBindings, and rolebindings are not cached: create the \
                       FieldCache rolebindings.rbac.authorization.k8s.io, without a scope";
        return invalid(SpecErrorReason::NotCached, message);
    }
    Vec::new()
}

/// Validates a View and returns its first problems. `shown_of` looks up a resource by group and plural name.
pub fn view(spec: &ViewSpec, shown_of: &dyn Fn(&str, &str) -> CacheLookup) -> Vec<SpecError> {
    let mut problems = Vec::new();
    // Each part of a View has few problems, or stops at so many.
    let is_enough = |problems: &Vec<SpecError>| problems.len() >= MOST_PROBLEMS;
    for place in &spec.unknown {
        let message = "this release of fieldcache does not know this field and cannot enforce its restriction: remove the field, or upgrade fieldcache to the release whose CustomResourceDefinitions are installed";
        problems.push(problem(place.as_str(), SpecErrorReason::UnknownField, message));
    }
    if let Some(consumer) = &spec.consumer
        && !(consumer.match_label_keys.is_empty() && consumer.mismatch_label_keys.is_empty())
    {
        if spec.authorization == Authorization::View {
            let message = "matchLabelKeys and mismatchLabelKeys follow labels that a Pod's owner may change: they need \
                           authorization Caller";
            problems.push(problem("spec.consumer", SpecErrorReason::InvalidSelector, message));
        }
        if !matches!(shown_of("", "pods"), CacheLookup::Cached(..)) {
            let message = "matchLabelKeys and mismatchLabelKeys are read from the caller's Pod, and pods are not cached: create the \
                           FieldCache pods";
            problems.push(problem("spec.consumer", SpecErrorReason::NotCached, message));
        }
    }
    for (index, shown) in spec.resources.iter().enumerate() {
        if is_enough(&problems) {
            break;
        }
        let place = format!("spec.resources[{index}]");
        let mut names = 0;
        let pruned = shown.prune.iter().enumerate().map(|path| ("prune", path, prune::path::prunable_names(path.1)));
        let kept = shown.keep.iter().enumerate().map(|path| ("keep", path, prune::path::names(path.1)));
        for (list, (number, path), found) in pruned.chain(kept) {
            if is_enough(&problems) {
                break;
            }
            match found {
                Ok(found) => names += found.len(),
                Err(invalid) => {
                    let place = format!("{place}.{list}[{number}]");
                    problems.push(problem(place, SpecErrorReason::InvalidPath, format!("{path} {invalid}")));
                }
            }
        }
        if names > prune::MOST_NAMES {
            let most = prune::MOST_NAMES;
            let message = format!(
                "all paths together have {names} names; at most {most} are allowed: prune or keep larger parts instead"
            );
            let list = if shown.prune.is_empty() { "keep" } else { "prune" };
            problems.push(problem(format!("{place}.{list}"), SpecErrorReason::InvalidPath, message));
        }
        let name = super::field_cache::object_name(&shown.group, &shown.resource);
        let (extractor, scope) = match shown_of(&shown.group, &shown.resource) {
            CacheLookup::Cached(extractor, scope) => (extractor, scope),
            CacheLookup::NotCached => {
                let message = format!("{name} is not cached: create a FieldCache with that name");
                problems.push(problem(place, SpecErrorReason::NotCached, message));
                continue;
            }
            CacheLookup::NotFound(others) => {
                let mut message = format!("the API server serves no resource {name} that can be listed and watched");
                if !others.is_empty() {
                    let named = &others[..others.len().min(MOST_PROBLEMS)];
                    message.push_str(&format!("; there is {}", named.join(", ")));
                }
                problems.push(problem(place, SpecErrorReason::ResourceNotFound, message));
                continue;
            }
        };
        problems.extend(namespace_selector(shown, &place, scope, shown_of));
        problems.extend(permitted_namespaces(shown, &place, spec.authorization, scope, shown_of));
        let labels = label_selector(shown.label_selector.as_ref(), &format!("{place}.labelSelector"));
        problems.extend(labels.err().into_iter().flatten());
        let fields = field_selector(shown.field_selector.as_ref(), &format!("{place}.fieldSelector"));
        problems.extend(fields.err().into_iter().flatten());
        let requirements = shown.field_selector.iter().flat_map(|selector| &selector.match_expressions);
        for (number, requirement) in requirements.enumerate() {
            if is_enough(&problems) {
                break;
            }
            if let Err(unsupported) = extractor.resolve(&requirement.key) {
                let place = format!("{place}.fieldSelector.matchExpressions[{number}].key");
                let message = format!("{}; {}", unsupported.message, offered(&extractor, &name));
                problems.push(problem(place, SpecErrorReason::FieldNotSelectable, message));
            }
        }
        for (number, field) in spec.consumer.iter().flat_map(|consumer| &consumer.fields).enumerate() {
            if is_enough(&problems) {
                break;
            }
            if let Err(unsupported) = extractor.resolve(&field.key) {
                let place = format!("spec.consumer.fields[{number}].key");
                let message = format!(
                    "every resource of the View needs this field, but spec.resources[{index}] does not have it: {}; {}",
                    unsupported.message,
                    offered(&extractor, &name)
                );
                problems.push(problem(place, SpecErrorReason::FieldNotSelectable, message));
            }
        }
    }
    problems.truncate(MOST_PROBLEMS);
    problems
}
