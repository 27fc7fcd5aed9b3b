//! What truly happened, as one selection sees it.

use std::collections::BTreeMap;

use super::story::{Seen, content};
use crate::history::{Change, Gap, Kind};
use crate::selection::Selection;

/// What truly happened to a resource, in the order of versions.
#[derive(Debug)]
pub struct Truth<'a> {
    changes: &'a [Change],
    /// The object after each change.
    after: Vec<Option<Seen>>,
    /// The number of each change's key.
    keys: Vec<usize>,
    /// Every key that ever was, in order.
    names: Vec<&'a str>,
}

/// The same for one selection.
#[derive(Debug)]
pub struct Selected<'a> {
    truth: &'a Truth<'a>,
    /// Whether what is there after each change is selected.
    is_selected: Vec<bool>,
}

/// The events that a watch must send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due<'a> {
    /// As what.
    pub kind: Kind,
    /// With which version.
    pub version: u64,
    /// The object; a DELETED one as it was before.
    pub object: &'a Seen,
    /// A removal within a gap, reported with the version before it, also to a client that has seen all changes up to there.
    pub fills_gap: bool,
}

impl Due<'_> {
    /// Whether a client that has seen everything up to `version` must still receive it.
    #[must_use]
    pub fn is_after(&self, version: u64) -> bool {
        self.version > version || self.fills_gap && self.version == version
    }
}

impl<'a> Truth<'a> {
    /// Reads the changes.
    #[must_use]
    pub fn new(changes: &'a [Change]) -> Truth<'a> {
        let mut numbers: BTreeMap<&str, usize> = changes.iter().map(|change| (change.key.as_str(), 0)).collect();
        for (number, place) in numbers.values_mut().enumerate() {
            *place = number;
        }
        let seen = |change: &Change| {
            let object = change.after.as_ref()?;
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            Some(Seen { key: change.key.clone(), version: change.version, uid, content: content(object) })
        };
        Truth {
            changes,
            after: changes.iter().map(seen).collect(),
            keys: changes.iter().map(|change| numbers[change.key.as_str()]).collect(),
            names: numbers.into_keys().collect(),
        }
    }

    /// The version of the last change; zero before the first.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.changes.last().map_or(0, |change| change.version)
    }

    /// As a selection sees it.
    #[must_use]
    pub fn selected(&'a self, selection: &Selection) -> Selected<'a> {
        let is_selected = |change: &Change| change.after.as_ref().is_some_and(|object| selection.selects(object));
        Selected { truth: self, is_selected: self.changes.iter().map(is_selected).collect() }
    }

    /// What became of one key, in order: versions, and the object after each.
    pub fn of_key<'b>(&'b self, key: &'b str) -> impl Iterator<Item = (u64, Option<&'b Seen>)> {
        let changes = self.changes.iter().zip(&self.after);
        changes.filter(move |(change, _)| change.key == key).map(|(change, after)| (change.version, after.as_ref()))
    }
}

impl<'a> Selected<'a> {
    /// All of it.
    #[must_use]
    pub fn truth(&self) -> &'a Truth<'a> {
        self.truth
    }

    /// What was selected at a version, in the order of keys.
    #[must_use]
    pub fn state(&self, version: u64) -> Vec<&'a Seen> {
        let truth = self.truth;
        let until = truth.changes.partition_point(|change| change.version <= version);
        let mut objects = vec![None; truth.names.len()];
        for index in 0..until {
            objects[truth.keys[index]] = truth.after[index].as_ref().filter(|_| self.is_selected[index]);
        }
        objects.into_iter().flatten().collect()
    }

    /// The events that a watch must send from the beginning on, if only the outcome of these gaps is known.
    #[must_use]
    pub fn due(&self, gaps: &[Gap]) -> Vec<Due<'a>> {
        let truth = self.truth;
        let count = truth.names.len();
        // What is held of each key, and whether it is selected.
        let mut states: Vec<Option<(&Seen, bool)>> = vec![None; count];
        let mut due = Vec::new();
        let mut next = 0;
        let mut gaps = gaps.iter().peekable();
        while next < truth.changes.len() {
            let Some(gap) = gaps.next_if(|gap| gap.before < truth.changes[next].version) else {
                self.enter(next, &mut states, &mut due);
                next += 1;
                continue;
            };
            // The last change of each key within.
            let end = truth.changes.partition_point(|change| change.version <= gap.end).max(next);
            let mut last = vec![None; count];
            for index in next..end {
                last[truth.keys[index]] = Some(index);
            }
            // Keys have their numbers in order, which is the order of removals.
            for (key, index) in last.iter().enumerate() {
                if index.is_some_and(|index| truth.after[index].is_none())
                    && let Some((object, true)) = states[key].take()
                {
                    due.push(Due { kind: Kind::Deleted, version: gap.before, object, fills_gap: true });
                }
            }
            let mut changed: Vec<usize> =
                last.into_iter().flatten().filter(|index| truth.after[*index].is_some()).collect();
            changed.sort_unstable();
            for index in changed {
                self.enter(index, &mut states, &mut due);
            }
            next = end;
        }
        due
    }

    fn enter(&self, index: usize, states: &mut [Option<(&'a Seen, bool)>], due: &mut Vec<Due<'a>>) {
        let truth = self.truth;
        let after = truth.after[index].as_ref().map(|object| (object, self.is_selected[index]));
        let before = std::mem::replace(&mut states[truth.keys[index]], after);
        let chosen = |states: Option<(&'a Seen, bool)>| states.filter(|(_, is_selected)| *is_selected);
        let (kind, object) = match (chosen(before), chosen(after)) {
            (None, None) => return,
            (None, Some((object, _))) => (Kind::Added, object),
            (Some(_), Some((object, _))) => (Kind::Modified, object),
            (Some((object, _)), None) => (Kind::Deleted, object),
        };
        due.push(Due { kind, version: truth.changes[index].version, object, fills_gap: false });
    }
}
