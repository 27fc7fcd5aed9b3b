//! The tree as it is printed: one line for each object below each of its owners.
//!
//! An object with several owners in the tree is below each of them, and its own dependents are below the first line
//! only. So the number of lines is at most the number of pairs of an object and an owner, also with cycles.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cli::output::{Printed, TextTable};
use crate::dependents::{Dependent, DependentsDocument};
use crate::model::Moment;
use crate::printer::time::human_duration;

/// The result of the command.
pub(super) struct OwnerTree {
    /// The owner, at the root of the tree.
    pub(super) owner: Dependent,
    /// Its dependents.
    pub(super) found: DependentsDocument,
    /// The current time.
    pub(super) now: Moment,
}

/// A line of the tree.
struct Line<'t> {
    /// The lines that lead to the object, such as `│ ├─`.
    branches: String,
    object: &'t Dependent,
}

impl OwnerTree {
    /// The lines of the tree, from the root.
    fn lines(&self) -> Vec<Line<'_>> {
        // The uid of each owner, and the indexes in `found.dependents` of the objects that it owns.
        let mut owned: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, dependent) in self.found.dependents.iter().enumerate() {
            for owner in &dependent.owners {
                owned.entry(&owner.uid).or_default().push(index);
            }
        }
        let mut lines = vec![Line { branches: String::new(), object: &self.owner }];
        // The uids of the objects below which their dependents are printed.
        let mut expanded: BTreeSet<&str> = BTreeSet::from([&*self.owner.uid]);
        let owned_by = |uid: &str| owned.get(uid).cloned().unwrap_or_default().into_iter().peekable();
        // A stack for the depth-first walk. For each object on the path from the root, it has the dependents that are
        // still to print, and the branches before their lines.
        let mut open = vec![(owned_by(&self.owner.uid), String::new())];
        while let Some((remaining, before)) = open.last_mut() {
            let Some(index) = remaining.next() else {
                open.pop();
                continue;
            };
            let object = &self.found.dependents[index];
            let (branch, continued) = if remaining.peek().is_some() { ("├─", "│ ") } else { ("└─", "  ") };
            let below_object = format!("{before}{continued}");
            lines.push(Line { branches: format!("{before}{branch}"), object });
            if expanded.insert(&object.uid) {
                open.push((owned_by(&object.uid), below_object));
            }
        }
        lines
    }
}

impl Printed for OwnerTree {
    fn document(&self) -> Value {
        // Both consist of texts and lists, so the conversion to JSON does not fail.
        let mut document = serde_json::to_value(&self.found).unwrap_or_default();
        document["owner"] = serde_json::to_value(&self.owner).unwrap_or_default();
        document
    }

    fn table(&self, is_wide: bool) -> String {
        let mut headers = vec!["NAMESPACE", "NAME", "READY", "REASON", "STATUS", "AGE"];
        if is_wide {
            headers.extend(["APIVERSION", "UID"]);
        }
        let mut table = TextTable::new(&headers);
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        for Line { branches, object } in self.lines() {
            let age = Moment::parse(&object.creation_timestamp);
            let age = age.map(|created| human_duration(self.now.seconds_since(created)));
            let mut cells = vec![
                object.namespace.clone(),
                format!("{branches}{}/{}", object.kind, object.name),
                or_dash(&object.status.ready),
                object.status.reason.clone(),
                or_dash(&object.status.phase),
                age.unwrap_or_else(|| "<unknown>".to_owned()),
            ];
            if is_wide {
                cells.extend([object.api_version.clone(), object.uid.clone()]);
            }
            table.push(cells);
        }
        table.print()
    }

    fn names(&self) -> Vec<String> {
        std::iter::once(&self.owner).chain(&self.found.dependents).map(name).collect()
    }
}

/// The name of an object as kubectl prints it: `deployment.apps/web`, or `pod/web` for the core group.
fn name(object: &Dependent) -> String {
    let kind = object.kind.to_lowercase();
    match object.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", object.name),
        None => format!("{kind}/{}", object.name),
    }
}
