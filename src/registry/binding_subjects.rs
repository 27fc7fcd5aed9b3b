//! The namespaces whose RoleBindings name a caller: RBAC can grant the caller a permission there.
//!
//! The store of RoleBindings has an index of subjects ([`FieldIndex::SUBJECTS`]), so a search reads the RoleBindings of one
//! caller only, and a subscription is woken by their changes only. The texts of that index are exact, so no RoleBinding
//! is parsed here: someone who may write RoleBindings in one namespace could otherwise make the search of every caller
//! expensive. Roles are not read: what a RoleBinding grants, a SubjectAccessReview decides. ClusterRoleBindings grant
//! permissions in all namespaces, and are not read either. `server::permitted_caller` sends the reviews.

use std::collections::BTreeSet;

use tokio::task::yield_now;

use crate::extract::FieldRef;
use crate::extract::role_binding::{ROLE, group_text, service_account_text, user_text};
use crate::model::{FieldIndex, Gvr, Version, user_name};
use crate::query::{FieldTerm, Listing, Selection, State};
use crate::selector::Operator;
use crate::store::{Change, HistoryCursor, Object, Snapshot};

/// The maximum number of changes of RoleBindings that are looked through at a time. Anyone who may write RoleBindings
/// in one namespace can fill the history.
const MOST_CHANGES: usize = 1_024;

/// The number of changes, or of RoleBindings, between two pauses.
pub const STEPS: usize = 64;

/// The resource of RoleBindings.
pub fn role_bindings() -> Gvr {
    Gvr::new("rbac.authorization.k8s.io", "v1", "rolebindings")
}

/// A caller as RoleBindings name it.
#[derive(Debug)]
pub struct BindingSubjects {
    /// The texts of the caller, of its groups, and of its ServiceAccount as subjects, sorted.
    texts: Vec<String>,
    /// Selects the RoleBindings that name one of them.
    selection: Selection,
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
pub struct BindingSearch {
    found: Listing,
    /// The namespace of the last RoleBinding.
    namespace: Option<String>,
}

impl BindingSubjects {
    /// The caller with this user name and these groups.
    pub fn new(user: &str, groups: &[String]) -> BindingSubjects {
        let service_account = user_name::service_account(user).map(|(own, name)| service_account_text(own, name));
        let groups = groups.iter().map(|group| group_text(group));
        let mut texts: Vec<String> = groups.chain([user_text(user)]).chain(service_account).collect();
        // The values of an `Operator` are sorted.
        texts.sort_unstable();
        texts.dedup();
        let term = FieldTerm::new(FieldRef::Field(FieldIndex::SUBJECTS), Operator::In(texts.clone()));
        let selection = Selection { fields: vec![term], ..Selection::default() };
        BindingSubjects { texts, selection }
    }

    /// Selects the RoleBindings that name the caller.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Memory in bytes.
    pub fn held_bytes(&self) -> usize {
        let texts: usize = self.texts.iter().map(|text| size_of::<String>() + text.len()).sum();
        size_of::<Self>() + texts + self.selection.held_bytes()
    }

    /// The role that a RoleBinding grants to the caller, by the rules of kube-apiserver (`appliesToUser` in kubernetes
    /// `pkg/registry/rbac/validation/rule.go`). `None` if it does not name the caller, or has so many subjects that they
    /// are unknown.
    fn granted_by<'b>(&self, binding: &'b Object) -> Option<&'b str> {
        let is_named = match binding.has_many_texts() {
            true => self.texts.iter().any(|text| binding.has_value(FieldIndex::SUBJECTS, text)),
            false => {
                let is_own = |subject: &str| self.texts.binary_search_by(|text| text.as_str().cmp(subject)).is_ok();
                binding.values(FieldIndex::SUBJECTS).any(is_own)
            }
        };
        let role = binding.values(FieldIndex::SUBJECTS).next().filter(|first| first.starts_with(ROLE));
        role.filter(|_| is_named)
    }

    /// Whether a change of a RoleBinding can change the permissions of the caller. It cannot if the RoleBinding grants the
    /// caller the same role before and after it: someone who may write a RoleBinding could otherwise cause reviews for
    /// all of its subjects, as often as it changes.
    pub fn are_affected_by(&self, change: &Change) -> bool {
        let before = change.before.as_ref().and_then(|binding| self.granted_by(binding));
        before != change.after.as_ref().and_then(|binding| self.granted_by(binding))
    }

    /// Searches all namespaces, in order.
    pub fn search(&self, snapshot: &Snapshot) -> BindingSearch {
        self.search_in(snapshot, None)
    }

    /// Whether a RoleBinding of a namespace names the caller.
    pub fn are_named_in(&self, snapshot: &Snapshot, namespace: &str) -> bool {
        self.search_in(snapshot, Some(namespace.to_owned())).next().is_some()
    }

    fn search_in(&self, snapshot: &Snapshot, namespace: Option<String>) -> BindingSearch {
        let selection = Selection { namespace, ..self.selection.clone() };
        BindingSearch { found: Listing::new(State::current(snapshot.clone()), &selection, None), namespace: None }
    }

    /// The changes of the caller's RoleBindings from `cursor` on. `None` if they are no longer in history, or too many.
    pub async fn changes(&self, snapshot: &Snapshot, cursor: HistoryCursor) -> Option<BindingChanges> {
        let mut found = BindingChanges::default();
        for (number, change) in snapshot.changes(cursor)?.enumerate() {
            if number == MOST_CHANGES {
                return None;
            }
            self.add_change(change, snapshot, &mut found);
            pause_after(number).await;
        }
        Some(found)
    }

    /// The latest changes of the caller's RoleBindings that history has. If it has many, only the newest are looked
    /// through. `last` is never older than the last change: without a change, it is the oldest version in question.
    pub async fn latest_changes(&self, snapshot: &Snapshot) -> BindingChanges {
        let oldest = snapshot.oldest();
        let (mut found, mut since) = (BindingChanges::default(), oldest);
        let Some(changes) = snapshot.since(oldest).ok().and_then(|begin| snapshot.changes(begin)) else {
            return BindingChanges { last: Some(oldest), ..found };
        };
        for (number, change) in changes.rev().enumerate() {
            if number == MOST_CHANGES {
                since = change.version;
                break;
            }
            let last = found.last;
            self.add_change(change, snapshot, &mut found);
            // The first one found is the last change.
            found.last = last.or(found.last);
            pause_after(number).await;
        }
        BindingChanges { last: found.last.or(Some(since)), ..found }
    }

    /// Adds a change to `found` if it affects the caller. It counts as the last change.
    fn add_change(&self, change: &Change, snapshot: &Snapshot, found: &mut BindingChanges) {
        if self.are_affected_by(change) {
            let binding = change.after.as_ref().or(change.before.as_ref());
            found.namespaces.extend(binding.map(|binding| binding.namespace().to_owned()));
            // A relist does not show at which version its changes happened, so the newest version is returned.
            found.last = Some(if change.in_relist_gap { snapshot.version() } else { change.version });
        }
    }
}

/// Pauses after each [`STEPS`] steps, so that other tasks continue.
async fn pause_after(number: usize) {
    if (number + 1).is_multiple_of(STEPS) {
        yield_now().await;
    }
}

impl Iterator for BindingSearch {
    type Item = Option<String>;

    fn next(&mut self) -> Option<Option<String>> {
        let binding = self.found.next()?;
        let is_known = self.namespace.as_deref() == Some(binding.namespace());
        Some((!is_known).then(|| self.namespace.insert(binding.namespace().to_owned()).clone()))
    }
}
