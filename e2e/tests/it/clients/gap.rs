//! What fieldcache itself could not know while kube-apiserver was away, found from outside.

use std::collections::{BTreeMap, BTreeSet};

use e2e::clients::log::{Step, Told};
use e2e::history::{Change, Gap, Kind};

/// From what a client without selection was not told while it watched: what fieldcache itself knows only the outcome of.
///
/// A removal within the gap comes with the version before it, at which history has no removal of that object. The gap reaches at
/// least to what followed the last change that was not told.
pub(crate) fn gap(steps: &[Step], history: &[Change]) -> Option<Gap> {
    let by_version: BTreeMap<u64, &Change> = history.iter().map(|change| (change.version, change)).collect();
    let mut missing: Vec<&Change> = Vec::new();
    let mut stamped = Vec::new();
    let mut rest = steps;
    while let [Step::Listed { version: Some(from), .. }, after @ ..] = rest {
        let length = after.iter().position(|step| matches!(step, Step::Listed { .. })).unwrap_or(after.len());
        let mut told = BTreeSet::new();
        for step in &after[..length] {
            let Step::Event(event) = step else { continue };
            let is_removal = event.kind == Told::Kind(Kind::Deleted);
            let change = by_version.get(&event.version).filter(|change| change.key == event.key);
            if change.is_some_and(|change| change.after.is_none() == is_removal) {
                told.insert(event.version);
            } else {
                stamped.push(event.version);
            }
        }
        let last = told.last().copied().unwrap_or(*from);
        let due = by_version.range(from + 1..last + 1).filter(|(version, _)| !told.contains(version));
        missing.extend(due.map(|(_, change)| *change));
        rest = &after[length..];
    }
    let first = missing.iter().map(|change| change.version).min()?;
    let settled = |change: &&Change| {
        let later = by_version.range(change.version + 1..).find(|(_, later)| later.key == change.key);
        // What followed a removal was an object of its own.
        later.filter(|_| change.after.is_some()).map_or(change.version, |(version, _)| *version)
    };
    let end = missing.iter().map(settled).max()?;
    Some(Gap { before: stamped.into_iter().min().unwrap_or(first - 1), end })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use e2e::clients::log::{Event, Objects};
    use e2e::history::{told, transitions};
    use e2e::selection::Selection;

    /// What a client without selection is told after a list of version 2.
    fn steps(changes: &[Change]) -> Vec<Step> {
        let list = Step::Listed { version: Some(2), objects: Objects::new() };
        let events = transitions(changes, &Selection::everything()).into_iter().filter(|event| event.version > 2);
        let event = |event: e2e::history::Transition| {
            Step::Event(Event { kind: Told::Kind(event.kind), key: event.key, version: event.version, uid: event.uid })
        };
        std::iter::once(list).chain(events.map(event)).collect()
    }

    #[test]
    fn a_gap_is_found_from_what_was_not_told() {
        let change = |(index, (key, exists)): (usize, &(&str, bool))| {
            let after = exists.then(|| json!({ "metadata": { "uid": *key } }));
            Change { version: index as u64 + 1, key: (*key).to_owned(), after }
        };
        let rows = [
            ("a", true),
            ("b", true),
            ("c", true),
            ("a", true),
            // From here on only the outcome is known, up to 9.
            ("a", true),
            ("b", true),
            ("c", false),
            ("a", true),
            ("d", true),
            ("b", true),
            ("d", false),
        ];
        let history: Vec<Change> = rows.iter().enumerate().map(change).collect();
        assert_eq!(gap(&steps(&history), &history), None, "nothing is missing");
        let as_told = told(&history, Some(Gap { before: 4, end: 9 }));
        let found = gap(&steps(&as_told), &history);
        assert_eq!(
            found,
            Some(Gap { before: 4, end: 8 }),
            "the removal's version is the start, the last of a is the end"
        );
        assert_eq!(steps(&told(&history, found)), steps(&as_told), "what was told alone after it belongs to no gap");
    }
}
