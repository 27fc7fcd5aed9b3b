//! Where the gaps are of which only the outcome was reported.
//!
//! A gap ends at a version that the source has listed; that is seen. It begins at the version that fieldcache had
//! reached before, which no client sees. So the search looks for a beginning that makes everything valid that any
//! client received up to the end of the gap. There must be one for all clients together, since they all received one
//! history. A list that changed nothing, or that was the first of a new process, leaves no gap, which is tried first.

use std::collections::BTreeSet;

use super::story::ClientEvent;
use super::watches::{Session, follow};
use crate::history::{Gap, Kind};

/// A list may have been given without having been taken in (the connection broke just then): then the gap reaches on to the next.
const LISTS_IN_A_GAP: usize = 3;

/// Finds the gaps that explain the sessions, given the versions that the source has listed; what they do not explain remains a
/// difference.
#[must_use]
pub fn find(sessions: &[Session<'_>], relists: &[u64]) -> Vec<Gap> {
    let relists: BTreeSet<u64> = relists.iter().copied().collect();
    let ends: Vec<u64> = relists.into_iter().collect();
    let mut gaps = Vec::new();
    let mut index = 0;
    let mut start = 0;
    while index < ends.len() {
        let (found, taken) = explain(sessions, &gaps, start, &ends[index..]);
        gaps.extend(found);
        index += taken;
        start = ends[index - 1];
    }
    gaps
}

/// The gap, if any, that ends at one of the next lists, and how many lists that settles.
fn explain(sessions: &[Session<'_>], gaps: &[Gap], start: u64, ends: &[u64]) -> (Option<Gap>, usize) {
    // Only clients that received something of these versions show it.
    let concerned: Vec<&Session<'_>> = sessions
        .iter()
        .filter(|session| !session.is_forwarded && session.from < ends[0] && reaches(session) >= start)
        .collect();
    // Counted only as far as matters.
    let differences = |gaps: &[Gap], until: u64, most: usize| {
        concerned.iter().filter(|session| follow(session, gaps, Some(until)).is_err()).take(most).count()
    };
    let mut best = (differences(gaps, ends[0], usize::MAX), None, 1);
    for (number, &end) in ends.iter().take(LISTS_IN_A_GAP).enumerate() {
        for before in beginnings(&concerned, start, end) {
            if best.0 == 0 {
                return (best.1, best.2);
            }
            let mut tried = gaps.to_vec();
            tried.push(Gap { before, end });
            let left = differences(&tried, end, best.0);
            if left < best.0 {
                best = (left, Some(Gap { before, end }), number + 1);
            }
        }
    }
    (best.1, best.2)
}

/// The highest version that a session received.
fn reaches(session: &Session<'_>) -> u64 {
    let version = |event: &&ClientEvent| match event {
        ClientEvent::Event { seen, .. } => Some(seen.version),
        ClientEvent::Bookmark { version, .. } => Some(*version),
        _ => None,
    };
    session.events.iter().filter_map(version).max().unwrap_or(session.from)
}

/// Versions at which a gap may begin, the latest first: where something happened, or was reported.
fn beginnings(sessions: &[&Session<'_>], start: u64, end: u64) -> Vec<u64> {
    let mut found = BTreeSet::from([start]);
    for session in sessions {
        found.extend(session.selected.due(&[]).iter().map(|due| due.version));
        found.insert(session.from);
        for event in &session.events {
            match event {
                ClientEvent::Bookmark { version, .. } => found.insert(*version),
                ClientEvent::Event { kind: Kind::Deleted, seen } => found.insert(seen.version),
                _ => continue,
            };
        }
    }
    found.into_iter().rev().filter(|version| (start..end).contains(version)).collect()
}
