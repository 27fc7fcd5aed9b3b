//! Whether what a client took in is what happened.
//!
//! A client lists, then is told events, then perhaps lists again. Each list must be the selection's state at one version, not older
//! than what the client had seen; what follows a list must be exactly the selection's transitions after that version, in order,
//! none left out and none twice; the last of them must be the last there is. How often it listed is the caller's to judge.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

use super::log::{Event, Objects, Step, Told};
use e2e::history::{Kind, Transition};

/// How much of both sides a failure shows.
const SHOWN: usize = 6;

/// Where each list stands in the transitions: how many of them it includes, and how many events were told before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// The list is the state after so many transitions.
    pub(crate) included: usize,
    /// So many transitions were known when the list came.
    pub(crate) known: usize,
}

/// Follows a client's steps through the transitions of its selection.
pub(crate) fn follow(steps: &[Step], transitions: &[Transition]) -> Result<Vec<Start>> {
    let mut starts = Vec::new();
    let mut known = 0;
    let mut rest = steps;
    while let [first, after @ ..] = rest {
        let Step::Listed { version, objects } = first else { bail!("an event before the first list: {first:?}") };
        let length = after.iter().position(|step| matches!(step, Step::Listed { .. })).unwrap_or(after.len());
        let events = &after[..length];
        let number = starts.len() + 1;
        let included = match version {
            Some(version) => transitions.partition_point(|transition| transition.version <= *version),
            None => place(objects, events, transitions, known)
                .with_context(|| format!("list {number} is the state at no version"))?,
        };
        ensure!(included >= known, "list {number} is older than what was known: {included} < {known} transitions");
        let expected = state(&transitions[..included]);
        ensure!(*objects == expected, "list {number} is not the state: {}", difference(objects, &expected));
        starts.push(Start { included, known });
        for (index, event) in events.iter().enumerate() {
            let expected = transitions.get(included + index);
            let Step::Event(event) = event else { bail!("a list among events") };
            ensure!(
                expected.is_some_and(|expected| is(event, expected)),
                "event {} after list {number}: came {event:?}, expected {expected:?}\nevents around it: {:?}\ntransitions around it: {:?}",
                index + 1,
                around(events, index),
                around(transitions, included + index),
            );
        }
        known = included + length;
        rest = &after[length..];
    }
    ensure!(!starts.is_empty(), "it never listed");
    ensure!(
        known == transitions.len(),
        "{} transitions did not come, beginning with {:?}",
        transitions.len() - known,
        transitions.get(known)
    );
    Ok(starts)
}

/// Follows what handlers were told, given where the lists stand: what a list changed in any order, then events in theirs.
///
/// Of what a list did not change a library may tell again, once, in the version it has: client-go does.
pub(crate) fn follow_handlers(handled: &[Event], starts: &[Start], transitions: &[Transition]) -> Result<()> {
    let mut rest = handled.iter().peekable();
    for (index, start) in starts.iter().enumerate() {
        let number = index + 1;
        let (before, after) = (state(&transitions[..start.known]), state(&transitions[..start.included]));
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        let mut changed: BTreeSet<&String> = after
            .iter()
            .filter(|(key, version)| before.get(*key) != Some(version))
            .map(|(key, _)| key)
            .chain(gone)
            .collect();
        let mut same: BTreeSet<&String> = after.keys().filter(|key| !changed.contains(key)).collect();
        loop {
            let repeats = |event: &Event| {
                event.kind == Told::Kind(Kind::Modified)
                    && after.get(&event.key) == Some(&event.version)
                    && same.contains(&event.key)
            };
            if let Some(event) = rest.next_if(|event| repeats(event)) {
                same.remove(&event.key);
                continue;
            }
            if changed.is_empty() {
                break;
            }
            let event =
                rest.next().with_context(|| format!("list {number}: {} changes were not told", changed.len()))?;
            let fits = match after.get(&event.key) {
                None => matches!(event.kind, Told::Gone | Told::Kind(Kind::Deleted)),
                Some(version) => {
                    let kind = if before.contains_key(&event.key) { Kind::Modified } else { Kind::Added };
                    event.kind == Told::Kind(kind) && event.version == *version
                }
            };
            ensure!(
                changed.remove(&event.key) && fits,
                "list {number}: handlers were told {event:?}; before {:?}, in the list {:?}",
                before.get(&event.key),
                after.get(&event.key)
            );
        }
        let end = starts.get(index + 1).map_or(transitions.len(), |next| next.known);
        for (position, expected) in transitions[start.included..end].iter().enumerate() {
            let event = rest.next();
            ensure!(
                event.is_some_and(|event| is(event, expected)),
                "event {} after list {number}: handlers were told {event:?}, expected {expected:?}",
                position + 1
            );
        }
    }
    ensure!(rest.peek().is_none(), "handlers were told more: {:?}", rest.peek());
    Ok(())
}

/// The state after transitions.
pub(crate) fn state(transitions: &[Transition]) -> Objects {
    let mut objects = Objects::new();
    for transition in transitions {
        apply(&mut objects, transition);
    }
    objects
}

fn apply(objects: &mut Objects, transition: &Transition) {
    match transition.kind {
        Kind::Added | Kind::Modified => objects.insert(transition.key.clone(), transition.version),
        Kind::Deleted => objects.remove(&transition.key),
    };
}

/// The place of a list whose version is not told: a state like it, after which the events fit. The first such, else the first like it.
fn place(objects: &Objects, events: &[Step], transitions: &[Transition], known: usize) -> Option<usize> {
    let mut found = None;
    let mut held = state(&transitions[..known]);
    for included in known..=transitions.len() {
        if held == *objects {
            found = found.or(Some(included));
            let following = transitions.get(included..included + events.len()).unwrap_or_default();
            let mut pairs = events.iter().zip(following);
            let fits = |(event, expected): (&Step, _)| matches!(event, Step::Event(event) if is(event, expected));
            if following.len() == events.len() && pairs.all(fits) {
                return Some(included);
            }
        }
        if let Some(next) = transitions.get(included) {
            apply(&mut held, next);
        }
    }
    found
}

fn is(event: &Event, expected: &Transition) -> bool {
    let is_kind = match event.kind {
        Told::Kind(kind) => kind == expected.kind,
        Told::Applied => matches!(expected.kind, Kind::Added | Kind::Modified),
        Told::Gone => false,
    };
    is_kind && event.key == expected.key && event.version == expected.version && event.uid == expected.uid
}

/// Some entries of two maps that differ.
pub(crate) fn difference(came: &Objects, expected: &Objects) -> String {
    let keys = came.keys().chain(expected.keys().filter(|key| !came.contains_key(*key)));
    let differing = keys.filter(|key| came.get(*key) != expected.get(*key));
    let lines: Vec<String> =
        differing.map(|key| format!("{key}: came {:?}, expected {:?}", came.get(key), expected.get(key))).collect();
    format!("{} differ: {}", lines.len(), lines[..lines.len().min(SHOWN)].join("; "))
}

fn around<Entry>(entries: &[Entry], index: usize) -> &[Entry] {
    let start = index.saturating_sub(SHOWN / 2).min(entries.len());
    &entries[start..entries.len().min(start + SHOWN)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transitions() -> Vec<Transition> {
        let rows = [
            (Kind::Added, "a", 10),
            (Kind::Added, "b", 12),
            (Kind::Modified, "a", 13),
            (Kind::Deleted, "b", 15),
            (Kind::Added, "c", 17),
            (Kind::Modified, "c", 18),
            (Kind::Deleted, "a", 20),
            (Kind::Added, "b", 21),
        ];
        let transition = |(kind, key, version): (Kind, &str, u64)| Transition {
            kind,
            key: key.to_owned(),
            version,
            uid: format!("{key}-uid"),
        };
        rows.into_iter().map(transition).collect()
    }

    fn event(transition: &Transition) -> Event {
        let Transition { kind, key, version, uid } = transition.clone();
        Event { kind: Told::Kind(kind), key, version, uid }
    }

    fn listed(version: Option<u64>, objects: &[(&str, u64)]) -> Step {
        let objects = objects.iter().map(|(key, version)| ((*key).to_owned(), *version)).collect();
        Step::Listed { version, objects }
    }

    /// A client that listed at 12, was told two events, and listed again at 18.
    fn right() -> Vec<Step> {
        let all = transitions();
        let told = |range: std::ops::Range<usize>| all[range].iter().map(|transition| Step::Event(event(transition)));
        let mut steps = vec![listed(Some(12), &[("a", 10), ("b", 12)])];
        steps.extend(told(2..4));
        steps.push(listed(Some(19), &[("a", 13), ("c", 18)]));
        steps.extend(told(6..8));
        steps
    }

    #[test]
    fn what_happened_is_accepted() -> Result<()> {
        let starts = [Start { included: 2, known: 0 }, Start { included: 6, known: 4 }];
        assert_eq!(follow(&right(), &transitions())?, starts);
        let mut silent = right();
        for step in &mut silent {
            match step {
                Step::Listed { version, .. } => *version = None,
                Step::Event(event) if event.kind != Told::Kind(Kind::Deleted) => event.kind = Told::Applied,
                Step::Event(_) => {}
            }
        }
        assert_eq!(follow(&silent, &transitions())?, starts, "without versions of lists and kinds of changes");
        Ok(())
    }

    #[test]
    fn what_did_not_happen_is_refused() {
        type Fault = fn(&mut Vec<Step>);
        let rows: [(&str, Fault); 13] = [
            ("an event is left out", |steps| drop(steps.remove(1))),
            ("the last event is left out", |steps| drop(steps.pop())),
            ("an event comes twice", |steps| steps.insert(2, steps[1].clone())),
            ("two events are exchanged", |steps| steps.swap(1, 2)),
            ("an event of before the list comes again", |steps| steps.insert(4, steps[2].clone())),
            ("a DELETED has the version of before", |steps| change(steps, 2, |event| event.version = 12)),
            ("a DELETED is told as MODIFIED", |steps| {
                change(steps, 2, |event| event.kind = Told::Kind(Kind::Modified))
            }),
            ("a MODIFIED is told as ADDED", |steps| change(steps, 1, |event| event.kind = Told::Kind(Kind::Added))),
            ("another object of the same name", |steps| change(steps, 1, |event| event.uid = "other".to_owned())),
            ("a list lacks an object", |steps| steps[0] = listed(Some(12), &[("a", 10)])),
            ("a list promises more than it has", |steps| steps[0] = listed(Some(13), &[("a", 10), ("b", 12)])),
            ("a list is older than what was told", |steps| steps[3] = listed(Some(14), &[("a", 13), ("b", 12)])),
            ("no list at first", |steps| drop(steps.remove(0))),
        ];
        for (message, fault) in rows {
            let mut steps = right();
            fault(&mut steps);
            assert!(follow(&steps, &transitions()).is_err(), "{message}");
        }
        assert!(follow(&[], &transitions()).is_err(), "nothing at all");
    }

    fn change(steps: &mut [Step], index: usize, fault: fn(&mut Event)) {
        if let Step::Event(event) = &mut steps[index] {
            fault(event);
        }
    }

    /// What handlers are told by that client.
    fn right_handled() -> Vec<Event> {
        let all = transitions();
        let of = |kind, key: &str, version| Event { kind, key: key.to_owned(), version, uid: String::new() };
        let mut handled = vec![of(Told::Kind(Kind::Added), "b", 12), of(Told::Kind(Kind::Added), "a", 10)];
        handled.extend(all[2..4].iter().map(event));
        handled.push(of(Told::Kind(Kind::Added), "c", 18));
        handled.extend(all[6..8].iter().map(event));
        handled
    }

    #[test]
    fn handlers_are_told_what_lists_change_and_then_events() -> Result<()> {
        let starts = follow(&right(), &transitions())?;
        follow_handlers(&right_handled(), &starts, &transitions())?;
        let mut repeated = right_handled();
        repeated.insert(4, Event { kind: Told::Kind(Kind::Modified), ..repeated[2].clone() });
        follow_handlers(&repeated, &starts, &transitions()).context("an unchanged object may be told again")?;
        type Fault = fn(&mut Vec<Event>);
        let rows: [(&str, Fault); 6] = [
            ("an object of the first list is left out", |handled| drop(handled.remove(0))),
            ("a change by the second list is left out", |handled| drop(handled.remove(4))),
            ("an event is left out", |handled| drop(handled.remove(2))),
            ("an event comes twice", |handled| handled.insert(3, handled[2].clone())),
            ("something is told at the end", |handled| handled.push(handled[0].clone())),
            ("a change by a list has another version", |handled| handled[4].version = 17),
        ];
        for (message, fault) in rows {
            let mut handled = right_handled();
            fault(&mut handled);
            assert!(follow_handlers(&handled, &starts, &transitions()).is_err(), "{message}");
        }
        Ok(())
    }
}
