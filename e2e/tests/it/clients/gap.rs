//! What fieldcache itself could not know while kube-apiserver was away, found from outside.

use std::collections::{BTreeMap, BTreeSet};

use e2e::clients::log::{ClientEventType, Step};
use e2e::history::{Change, Gap, Kind};

/// From what a client without selection did not receive while it watched: what fieldcache itself knows only the outcome of.
///
/// A change that was not reported lies in one gap with the next event of the same object. A removal that a relist found
/// lies in one with its version, at which history has no removal of that object. What overlaps is one gap. There may be
/// several: a kube-apiserver that has just started refuses the version of the list that it has just given, and is
/// listed again.
pub(crate) fn gaps(steps: &[Step], history: &[Change]) -> Vec<Gap> {
    let by_version: BTreeMap<u64, &Change> = history.iter().map(|change| (change.version, change)).collect();
    let mut missing: Vec<&Change> = Vec::new();
    // By object: the versions and kinds of what was reported as it happened, and the versions of removals that a relist found.
    let mut lives: BTreeMap<&str, BTreeMap<u64, ClientEventType>> = BTreeMap::new();
    let mut stamped: BTreeSet<(&str, u64)> = BTreeSet::new();
    let mut rest = steps;
    while let [Step::Listed { version: Some(from), .. }, after @ ..] = rest {
        let length = after.iter().position(|step| matches!(step, Step::Listed { .. })).unwrap_or(after.len());
        let mut reported = BTreeSet::new();
        for step in &after[..length] {
            let Step::Event(event) = step else { continue };
            let is_removal = event.kind == ClientEventType::Kind(Kind::Deleted);
            let change = by_version.get(&event.version).filter(|change| change.key == event.key);
            if change.is_some_and(|change| change.after.is_none() == is_removal) {
                reported.insert(event.version);
                lives.entry(&event.key).or_default().insert(event.version, event.kind);
            } else {
                stamped.insert((&event.key, event.version));
            }
        }
        let last = reported.last().copied().unwrap_or(*from);
        let due = by_version.range(from + 1..last + 1).filter(|(version, _)| !reported.contains(version));
        missing.extend(due.map(|(_, change)| *change));
        rest = &after[length..];
    }
    let unreported = |change: &Change| {
        let seen = lives.get(change.key.as_str());
        let followed = by_version.range(change.version + 1..).find(|(_, later)| later.key == change.key);
        if change.after.is_some() {
            return Gap { before: change.version - 1, end: followed.map_or(change.version, |(version, _)| *version) };
        }
        let found = stamped.range((change.key.as_str(), 0)..(change.key.as_str(), change.version)).next_back();
        let found = found.map(|(_, version)| *version);
        // It came with the first removal after it.
        let is_of_this_life = |from: &u64| {
            let between = by_version.range(from + 1..change.version).map(|(_, between)| between);
            !between.into_iter().any(|between| between.key == change.key && between.after.is_none())
        };
        let replaced = seen.and_then(|seen| seen.range(change.version..).next());
        match (found.filter(is_of_this_life), replaced) {
            (Some(before), _) => Gap { before, end: change.version },
            // Removed and created again, which to a list is a change.
            (None, Some((version, ClientEventType::Kind(Kind::Modified)))) => {
                Gap { before: change.version - 1, end: *version }
            }
            // Created and removed; what follows is an object of its own.
            (None, _) => Gap { before: change.version - 1, end: change.version },
        }
    };
    let mut found: Vec<Gap> = missing.into_iter().map(unreported).collect();
    found.sort_unstable_by_key(|gap| gap.before);
    let mut gaps: Vec<Gap> = Vec::new();
    for gap in found {
        match gaps.last_mut() {
            Some(last) if gap.before < last.end => last.end = last.end.max(gap.end),
            _ => gaps.push(gap),
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use e2e::clients::log::{Event, Objects};
    use e2e::history::{transitions, visible_changes};
    use e2e::random::Random;
    use e2e::selection::Selection;

    /// What a client without selection receives after a list of version 2.
    fn steps(changes: &[Change]) -> Vec<Step> {
        let list = Step::Listed { version: Some(2), objects: Objects::new() };
        let events = transitions(changes, &Selection::everything()).into_iter().filter(|event| event.version > 2);
        let event = |event: e2e::history::Transition| {
            Step::Event(Event {
                kind: ClientEventType::Kind(event.kind),
                key: event.key,
                version: event.version,
                uid: event.uid,
            })
        };
        std::iter::once(list).chain(events.map(event)).collect()
    }

    /// Objects that exist or not, one change each, from version 1 on.
    fn history(rows: &[(&str, bool)]) -> Vec<Change> {
        let change = |(index, (key, exists)): (usize, &(&str, bool))| {
            let after = exists.then(|| json!({ "metadata": { "uid": format!("{key}{index}") } }));
            Change { version: index as u64 + 1, key: (*key).to_owned(), after, fills_gap: false }
        };
        rows.iter().enumerate().map(change).collect()
    }

    /// What is reported with these gaps is reported with those that are found in it, and these are found.
    fn assert_found(history: &[Change], is: &[Gap], expected: &[Gap], why: &str) {
        let as_reported = steps(&visible_changes(history, is));
        let found = gaps(&as_reported, history);
        assert_eq!(found, expected, "{why}");
        assert_eq!(steps(&visible_changes(history, &found)), as_reported, "{why}");
    }

    #[test]
    fn a_gap_is_found_from_changes_that_were_not_reported() {
        let history = history(&[
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
        ]);
        assert_found(&history, &[], &[], "nothing is missing");
        let why = "the removal's version is the start, the last of a is the end; what was reported alone after it belongs to no gap";
        assert_found(&history, &[Gap { before: 4, end: 9 }], &[Gap { before: 4, end: 8 }], why);
    }

    #[test]
    fn two_lists_in_a_row_leave_two_gaps() {
        let history = history(&[
            ("a", true),
            ("b", true),
            ("c", true),
            ("d", true),
            ("c", false),
            ("a", true),
            // The first list.
            ("d", false),
            ("a", true),
            ("b", true),
            // The second list.
            ("c", true),
            ("a", true),
        ]);
        let why = "each removal came with the version before its gap";
        let is = [Gap { before: 4, end: 6 }, Gap { before: 6, end: 9 }];
        assert_found(&history, &is, &[Gap { before: 4, end: 5 }, Gap { before: 6, end: 7 }], why);
    }

    #[test]
    fn a_recreated_object_is_one_with_its_removal() {
        let history = history(&[
            ("a", true),
            ("b", true),
            ("c", true),
            // A gap up to 8.
            ("b", false),
            ("d", true),
            ("d", false),
            ("c", true),
            ("b", true),
            ("a", true),
            ("d", true),
        ]);
        let why = "b is reported as changed, d only when it comes again";
        assert_found(&history, &[Gap { before: 3, end: 8 }], &[Gap { before: 3, end: 8 }], why);
    }

    /// Whatever happens and wherever the gaps are, what is found explains what was reported.
    #[test]
    fn gaps_found_explain_what_was_reported() {
        for seed in 0..2_000 {
            let mut random = Random::from_seed(seed, 0);
            let mut exists = [true; 5];
            let mut rows = vec![("a", true), ("b", true), ("c", true), ("d", true), ("e", true)];
            for _ in 0..40 {
                let index = usize::try_from(random.below(5)).unwrap_or_default();
                exists[index] = !exists[index] || random.below(3) > 0;
                rows.push((["a", "b", "c", "d", "e"][index], exists[index]));
            }
            // A removal of what does not exist changes nothing; there is none above.
            rows.extend([("last", true)]);
            let history = history(&rows);
            let mut is = Vec::new();
            let mut end = 6;
            for _ in 0..random.below(4) {
                let before = end + random.below(6);
                end = before + 1 + random.below(8);
                is.push(Gap { before, end });
            }
            is.retain(|gap| gap.end < 45);
            let as_reported = steps(&visible_changes(&history, &is));
            let found = gaps(&as_reported, &history);
            assert_eq!(
                steps(&visible_changes(&history, &found)),
                as_reported,
                "seed {seed}: found {found:?}, is {is:?}: {rows:?}"
            );
        }
    }
}
