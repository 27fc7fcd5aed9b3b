//! The subjects and the role of a RoleBinding, as texts of [`FieldIndex::SUBJECTS`](crate::model::FieldIndex::SUBJECTS).
//!
//! The texts are exact: whether a RoleBinding names a caller, and whether a change alters what it grants to the caller,
//! is known from them, without parsing the object again. They are in an index, which finds the RoleBindings of a caller.

use std::borrow::Cow;

use serde::Deserialize;

use super::scan::FoundSpans;
use crate::json::cursor::Span;

/// The text of a role begins with this. No other text of a RoleBinding sorts before it, so that it is found first.
pub const ROLE: char = '!';

/// The numbers of the paths to the subjects and to the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubjectPaths {
    /// `subjects[*]`.
    pub(super) subjects: usize,
    /// `roleRef`.
    pub(super) role: usize,
}

/// A subject of a RoleBinding. Absent fields are empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Subject<'j> {
    #[serde(borrow)]
    kind: Option<Cow<'j, str>>,
    #[serde(borrow)]
    name: Option<Cow<'j, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'j, str>>,
}

/// The text of a user as a subject.
pub fn user_text(name: &str) -> String {
    format!("User:{name}")
}

/// The text of a group as a subject.
pub fn group_text(name: &str) -> String {
    format!("Group:{name}")
}

/// The text of a ServiceAccount as a subject.
pub fn service_account_text(namespace: &str, name: &str) -> String {
    format!("ServiceAccount:{namespace}:{name}")
}

/// The texts of a RoleBinding of this namespace: its role and its subjects, sorted and without duplicates. Subjects of
/// other kinds grant nothing and have no text, as in `appliesToUser` (kubernetes `pkg/registry/rbac/validation/rule.go`).
/// The spans are positions in longer bytes, of which the first `shift` have been removed.
pub(super) fn texts(
    bytes: &[u8],
    found: &FoundSpans,
    paths: SubjectPaths,
    (namespace, shift): (&str, usize),
) -> Vec<String> {
    let read = |span: Span| {
        let span = Span { start: span.start - shift, end: span.end - shift };
        serde_json::from_slice::<Subject<'_>>(span.slice(bytes)).unwrap_or_default()
    };
    let role = found.spans[paths.role];
    let role = if role.is_absent() { Subject::default() } else { read(role) };
    let role = format!("{ROLE}{}/{}", role.kind.unwrap_or_default(), role.name.unwrap_or_default());
    let subjects = found.values(paths.subjects).filter_map(|span| {
        let subject = read(span);
        let name = subject.name?;
        match &*subject.kind? {
            "User" => Some(user_text(&name)),
            "Group" => Some(group_text(&name)),
            // Without a namespace, a ServiceAccount of the namespace of the RoleBinding.
            "ServiceAccount" => {
                let own = subject.namespace.filter(|own| !own.is_empty());
                Some(service_account_text(own.as_deref().unwrap_or(namespace), &name))
            }
            _ => None,
        }
    });
    let mut texts: Vec<String> = subjects.chain([role]).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}
