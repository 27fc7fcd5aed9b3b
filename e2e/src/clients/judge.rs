//! Whether what a real client took in is what happened.
//!
//! A client lists, then receives events, then perhaps lists again. Each list must be the selection's state at one
//! version, not older than what the client had seen. What follows a list must be exactly the selection's transitions
//! after that version, in order, complete and none twice. The last of them must be the selection's latest transition.
//! The caller decides how often it may list.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

use super::log::{ClientEventType, Event, Objects, Step};
use crate::history::{Kind, Transition};

/// How much of both sides a failure shows.
const SHOWN: usize = 6;

/// Where each list is in the transitions: how many of them it includes, and how many events were reported before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The list is the state after so many transitions.
    pub included: usize,
    /// So many transitions were known when the list came.
    pub known: usize,
}

/// Follows a client's steps through the transitions of its selection.
///
/// # Errors
/// At the first difference.
pub fn follow(steps: &[Step], transitions: &[Transition]) -> Result<Vec<Start>> {
    let mut starts = Vec::new();
    let mut known = 0;
    let mut rest = steps;
    while let [first, after @ ..] = rest {
        let Step::Listed { version, objects } = first else { bail!("an event before the first list: {first:?}") };
        let length = after.iter().position(|step| matches!(step, Step::Listed { .. })).unwrap_or(after.len());
        let events = &after[..length];
        let number = starts.len() + 1;
        let included = match version {
            // A list of the version before a gap was given before it.
            Some(version) => transitions.partition_point(|Transition { version: reached, fills_gap, .. }| {
                reached < version || reached == version && !fills_gap
            }),
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

/// Follows what handlers received, given where the lists stand: what a list changed in any order, then events in theirs.
///
/// A library may report again what a list did not change, once, in the version that it has: client-go does.
///
/// # Errors
/// At the first difference.
pub fn follow_handlers(handled: &[Event], starts: &[Start], transitions: &[Transition]) -> Result<()> {
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
                event.kind == ClientEventType::Kind(Kind::Modified)
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
                rest.next().with_context(|| format!("list {number}: {} changes were not reported", changed.len()))?;
            let fits = match after.get(&event.key) {
                None => matches!(event.kind, ClientEventType::Gone | ClientEventType::Kind(Kind::Deleted)),
                Some(version) => {
                    let kind = if before.contains_key(&event.key) { Kind::Modified } else { Kind::Added };
                    event.kind == ClientEventType::Kind(kind) && event.version == *version
                }
            };
            ensure!(
                changed.remove(&event.key) && fits,
                "list {number}: handlers received {event:?}; before {:?}, in the list {:?}",
                before.get(&event.key),
                after.get(&event.key)
            );
        }
        let end = starts.get(index + 1).map_or(transitions.len(), |next| next.known);
        for (position, expected) in transitions[start.included..end].iter().enumerate() {
            let event = rest.next();
            ensure!(
                event.is_some_and(|event| is(event, expected)),
                "event {} after list {number}: handlers received {event:?}, expected {expected:?}",
                position + 1
            );
        }
    }
    ensure!(rest.peek().is_none(), "handlers received more: {:?}", rest.peek());
    Ok(())
}

/// The state after transitions.
#[must_use]
pub fn state(transitions: &[Transition]) -> Objects {
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

/// The place of a list whose version is not reported: a state like it, after which the events fit. The first such, else the first like it.
fn place(objects: &Objects, events: &[Step], transitions: &[Transition], known: usize) -> Option<usize> {
    let mut found = None;
    let mut store = state(&transitions[..known]);
    for included in known..=transitions.len() {
        if store == *objects {
            found = found.or(Some(included));
            let following = transitions.get(included..included + events.len()).unwrap_or_default();
            let mut pairs = events.iter().zip(following);
            let fits = |(event, expected): (&Step, _)| matches!(event, Step::Event(event) if is(event, expected));
            if following.len() == events.len() && pairs.all(fits) {
                return Some(included);
            }
        }
        if let Some(next) = transitions.get(included) {
            apply(&mut store, next);
        }
    }
    found
}

fn is(event: &Event, expected: &Transition) -> bool {
    let is_kind = match event.kind {
        ClientEventType::Kind(kind) => kind == expected.kind,
        ClientEventType::Applied => matches!(expected.kind, Kind::Added | Kind::Modified),
        ClientEventType::Gone => false,
    };
    is_kind && event.key == expected.key && event.version == expected.version && event.uid == expected.uid
}

/// Some entries of two maps that differ.
#[must_use]
pub fn difference(came: &Objects, expected: &Objects) -> String {
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
