//! The namespaces whose RoleBindings name a caller: RBAC can grant the caller a permission there.
//!
//! The store of RoleBindings has an index of the names of subjects ([`FieldIndex::SUBJECTS`]), so a search reads the
//! RoleBindings of one caller only, and a subscription is woken by their changes only. Roles are not read: what a
//! RoleBinding grants, a SubjectAccessReview decides. ClusterRoleBindings grant permissions in all namespaces, and are
//! not read either. `server::permitted_caller` sends the reviews.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::extract::FieldRef;
use crate::model::{FieldIndex, Gvr, Version, user_name};
use crate::query::{FieldTerm, Listing, Selection, State};
use crate::selector::Operator;
use crate::store::{Change, HistoryCursor, Object, Snapshot};
use crate::subscribe::transition;

/// The maximum number of RoleBindings of one namespace that are parsed for one caller. If none of them names the caller,
/// and there are more, the namespace counts as one that does: only a review decides.
const MOST_PARSED: usize = 4;

/// Longer RoleBindings, in bytes of JSON, are not parsed: their namespace counts as one that names the caller.
const LONGEST_PARSED: usize = 16 << 10;

/// The maximum number of changes of RoleBindings that are looked through at a time. Anyone who may write RoleBindings
/// in one namespace can fill the history.
const MOST_CHANGES: usize = 4_096;

/// The resource of RoleBindings.
pub fn role_bindings() -> Gvr {
    Gvr::new("rbac.authorization.k8s.io", "v1", "rolebindings")
}

/// A caller as RoleBindings name it.
#[derive(Debug)]
pub struct BindingSubjects {
    user: String,
    groups: Vec<String>,
    /// Selects the RoleBindings with the name of the caller, of one of its groups, or of its ServiceAccount.
    selection: Selection,
}

/// The subjects and the role of a RoleBinding.
#[derive(Deserialize)]
struct Binding {
    #[serde(default)]
    subjects: Option<Vec<Subject>>,
    #[serde(default, rename = "roleRef")]
    role: RoleRef,
}

/// The role that a RoleBinding grants.
#[derive(Default, Deserialize, PartialEq, Eq)]
struct RoleRef {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

/// A subject of a RoleBinding.
#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

/// The changes of a caller's RoleBindings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BindingChanges {
    /// The namespaces of the changed RoleBindings.
    pub namespaces: BTreeSet<String>,
    /// The version of the last change; `None` if there is none.
    pub last: Option<Version>,
}

/// A search for the namespaces whose RoleBindings name a caller. Each item is one step, so that callers can pause between
/// steps: a namespace, or `None` if the step found none.
pub struct BindingSearch<'s> {
    subjects: &'s BindingSubjects,
    found: Listing,
    /// The namespace of the last RoleBinding.
    namespace: String,
    /// The number of its RoleBindings that were parsed.
    parsed: usize,
    /// Whether the namespace was returned.
    is_found: bool,
}

impl BindingSubjects {
    /// The caller with this user name and these groups.
    pub fn new(user: &str, groups: &[String]) -> BindingSubjects {
        let service_account = user_name::service_account(user).map(|(_, name)| name.to_owned());
        let mut names: Vec<String> = groups.iter().cloned().chain([user.to_owned()]).chain(service_account).collect();
        // The values of an `Operator` are sorted.
        names.sort_unstable();
        names.dedup();
        let term = FieldTerm::new(FieldRef::Field(FieldIndex::SUBJECTS), Operator::In(names));
        let selection = Selection { fields: vec![term], ..Selection::default() };
        BindingSubjects { user: user.to_owned(), groups: groups.to_vec(), selection }
    }

    /// Selects the RoleBindings that may name the caller. Others with a subject of the same name are selected too.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Memory in bytes.
    pub fn held_bytes(&self) -> usize {
        let groups: usize = self.groups.iter().map(|group| size_of::<String>() + group.len()).sum();
        size_of::<Self>() + self.user.len() + groups + self.selection.held_bytes()
    }

    /// Whether a RoleBinding names the caller, by the rules of kube-apiserver (`appliesToUser` in kubernetes
    /// `pkg/registry/rbac/validation/rule.go`).
    pub fn are_named_by(&self, binding: &Object) -> bool {
        self.granted_by(binding).is_some()
    }

    /// The role that a RoleBinding grants to the caller; `None` if it does not name the caller.
    fn granted_by(&self, binding: &Object) -> Option<RoleRef> {
        let Ok(Binding { subjects: Some(subjects), role }) = serde_json::from_slice(&binding.json()) else {
            return None;
        };
        let is_named = subjects.iter().any(|Subject { kind, name, namespace }| match &**kind {
            "User" => *name == self.user,
            "Group" => self.groups.contains(name),
            // Without a namespace, a ServiceAccount of the namespace of the RoleBinding.
            "ServiceAccount" => {
                let namespace = namespace.as_deref().filter(|own| !own.is_empty()).unwrap_or(binding.namespace());
                user_name::service_account(&self.user) == Some((namespace, name))
            }
            _ => false,
        });
        is_named.then_some(role)
    }

    /// Whether a change of a RoleBinding can change the permissions of the caller. It cannot if the RoleBinding grants the
    /// caller the same role before and after it: someone who may write a RoleBinding could otherwise cause reviews for
    /// all of its subjects, as often as it changes.
    fn are_affected_by(&self, change: &Change) -> bool {
        if transition(&self.selection, change).is_none() {
            return false;
        }
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
        if before.length().max(after.length()) > LONGEST_PARSED {
            return true;
        }
        self.granted_by(before) != self.granted_by(after)
    }

    /// Searches all namespaces, in order.
    pub fn search(&self, snapshot: &Snapshot) -> BindingSearch<'_> {
        self.search_in(snapshot, None)
    }

    /// Whether a RoleBinding of a namespace names the caller.
    pub fn are_named_in(&self, snapshot: &Snapshot, namespace: &str) -> bool {
        self.search_in(snapshot, Some(namespace.to_owned())).flatten().next().is_some()
    }

    fn search_in(&self, snapshot: &Snapshot, namespace: Option<String>) -> BindingSearch<'_> {
        let selection = Selection { namespace, ..self.selection.clone() };
        let found = Listing::new(State::current(snapshot.clone()), &selection, None);
        BindingSearch { subjects: self, found, namespace: String::new(), parsed: 0, is_found: false }
    }

    /// The changes of the caller's RoleBindings from `cursor` on. `None` if they are no longer in history, or too many.
    pub fn changes(&self, snapshot: &Snapshot, cursor: HistoryCursor) -> Option<BindingChanges> {
        let mut found = BindingChanges::default();
        for (number, change) in snapshot.changes(cursor)?.enumerate() {
            if number == MOST_CHANGES {
                return None;
            }
            if !self.are_affected_by(change) {
                continue;
            }
            let binding = change.after.as_ref().or(change.before.as_ref());
            found.namespaces.extend(binding.map(|binding| binding.namespace().to_owned()));
            // A relist does not show at which version its changes happened, so the newest version is returned.
            found.last = Some(if change.in_relist_gap { snapshot.version() } else { change.version });
        }
        Some(found)
    }

    /// The latest changes of the caller's RoleBindings that history has. If it has many, only the newest are looked
    /// through. `last` is never older than the last change: without a change, it is the oldest version in question.
    pub fn latest_changes(&self, snapshot: &Snapshot) -> BindingChanges {
        let oldest = snapshot.oldest();
        let mut found = BindingChanges { last: Some(oldest), ..BindingChanges::default() };
        let Some(changes) = snapshot.since(oldest).ok().and_then(|begin| snapshot.changes(begin)) else { return found };
        let mut last = None;
        for (number, change) in changes.rev().enumerate() {
            if number == MOST_CHANGES {
                last = last.or(Some(change.version));
                break;
            }
            if self.are_affected_by(change) {
                let binding = change.after.as_ref().or(change.before.as_ref());
                found.namespaces.extend(binding.map(|binding| binding.namespace().to_owned()));
                last = last.or(Some(if change.in_relist_gap { snapshot.version() } else { change.version }));
            }
        }
        found.last = last.or(found.last);
        found
    }
}

impl Iterator for BindingSearch<'_> {
    type Item = Option<String>;

    fn next(&mut self) -> Option<Option<String>> {
        let binding = self.found.next()?;
        if binding.namespace() != self.namespace {
            binding.namespace().clone_into(&mut self.namespace);
            (self.parsed, self.is_found) = (0, false);
        }
        if self.is_found {
            return Some(None);
        }
        let is_parsed = self.parsed < MOST_PARSED && binding.length() <= LONGEST_PARSED;
        self.is_found = !is_parsed || self.subjects.are_named_by(&binding);
        self.parsed += 1;
        Some(self.is_found.then(|| self.namespace.clone()))
    }
}
