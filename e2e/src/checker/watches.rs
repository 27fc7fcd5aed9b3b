//! What watches reported, against what was due.
//!
//! One kind of event has no change of an object behind it. When a version is no longer served, its clients receive a
//! DELETED event for every object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::story::{ClientEvent, Seen, Step, Story};
use super::truth::{Due, Selected};
use crate::history::{Gap, Kind};

/// What one watch reported after a version.
#[derive(Debug)]
pub struct Session<'a> {
    pub(super) client: &'a str,
    pub(super) selected: &'a Selected<'a>,
    /// The watcher has seen all up to this version.
    pub(super) from: u64,
    /// Whether the source itself reported it, which has no gaps of fieldcache.
    pub(super) is_forwarded: bool,
    /// Events and bookmarks.
    pub(super) events: Vec<&'a ClientEvent>,
    /// Whether it received in the end that its version is too old.
    pub(super) is_expired: bool,
    /// Whether a later watch went on from where it ended, and reported something.
    pub(super) is_resumed: bool,
}

/// Where what was reported and what was due part.
#[derive(Debug)]
pub(super) struct Mismatch<'a> {
    session: &'a Session<'a>,
    /// Number of what was reported.
    index: usize,
    /// What was due there.
    pub(super) due: Option<Due<'a>>,
    fault: &'static str,
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { session, index, due, fault } = self;
        let (client, from) = (session.client, session.from);
        write!(formatter, "{client}: the watch from {from}, event {}: {fault}: ", index + 1)?;
        match session.events.get(*index) {
            Some(ClientEvent::Event { kind, seen }) => {
                write!(formatter, "came {kind:?} {} of {} (uid {})", seen.key, seen.version, seen.uid)?;
            }
            Some(ClientEvent::Bookmark { version, .. }) => write!(formatter, "came a bookmark of {version}")?,
            other => write!(formatter, "came {other:?}")?,
        }
        match due {
            Some(Due { kind, version, object, fills_gap }) => {
                let stamped = if *fills_gap { ", which a relist found" } else { "" };
                write!(
                    formatter,
                    ", due was {kind:?} {} at {version} (uid {}, last changed at {}{stamped})",
                    object.key, object.uid, object.version
                )
            }
            None => write!(formatter, ", nothing was due"),
        }
    }
}

/// The sessions of a story: what came after initial events or a version.
pub(super) fn sessions<'a>(story: &'a Story, selected: &'a Selected<'a>) -> Vec<Session<'a>> {
    let mut found: Vec<Session<'_>> = Vec::new();
    let (mut is_open, mut is_of_source) = (false, false);
    let session = |from, is_forwarded| Session {
        client: &story.client,
        selected,
        from,
        is_forwarded,
        events: Vec::new(),
        is_expired: false,
        is_resumed: false,
    };
    // Whether the session that is open goes on from the one before it, because no list came between them.
    let (mut may_resume, mut has_listed) = (false, false);
    for Step { event, .. } in &story.steps {
        match event {
            ClientEvent::Watching { after: Some(from), is_forwarded, .. } => {
                may_resume = !found.is_empty() && !has_listed;
                found.push(session(*from, *is_forwarded));
                has_listed = false;
                (is_open, is_of_source) = (true, *is_forwarded);
            }
            ClientEvent::Bookmark { version, ends_initial: true } => {
                found.push(session(*version, is_of_source));
                (is_open, may_resume, has_listed) = (true, false, false);
            }
            ClientEvent::Event { .. } | ClientEvent::Bookmark { .. } if is_open => {
                found.last_mut().expect("an open session must be there").events.push(event);
                if let [.., before, _] = found.as_mut_slice()
                    && may_resume
                {
                    before.is_resumed = true;
                }
            }
            ClientEvent::Watching { after: None, is_forwarded, .. } => (is_open, is_of_source) = (false, *is_forwarded),
            ClientEvent::Expired => {
                if let Some(open) = found.last_mut().filter(|_| is_open) {
                    open.is_expired = true;
                }
                is_open = false;
            }
            ClientEvent::Listed(_) => (is_open, has_listed) = (false, true),
            ClientEvent::Ended | ClientEvent::Failed(_) => is_open = false,
            ClientEvent::Event { .. } | ClientEvent::Bookmark { .. } | ClientEvent::Got { .. } => {}
        }
    }
    found
}

impl Session<'_> {
    /// Whether the events from an index on are the end of a version that is no longer served. That is a DELETED event
    /// for every object that was selected at one version, and then 410. A watch whose client or connection ended before
    /// the 410 has seen some of them. No watch may continue from there, because its client would miss the objects that
    /// exist.
    fn ends_its_version(&self, index: usize, next_due: Option<&Due<'_>>) -> bool {
        let rest = self.events.get(index..).unwrap_or_default();
        let Some(ClientEvent::Event { seen: Seen { version, .. }, .. }) = rest.first() else { return false };
        let deleted = |event: &&ClientEvent| match event {
            ClientEvent::Event { kind: Kind::Deleted, seen } if seen.version == *version => Some(seen.key.clone()),
            _ => None,
        };
        let deleted: Option<BTreeSet<String>> = rest.iter().map(deleted).collect();
        let objects: BTreeSet<String> =
            self.selected.state(*version).into_iter().map(|seen| seen.key.clone()).collect();
        let is_complete = next_due.is_none_or(|due| due.version > *version);
        let ends = |deleted: BTreeSet<String>| {
            let is_whole =
                if self.is_expired { deleted == objects } else { !self.is_resumed && deleted.is_subset(&objects) };
            deleted.len() == rest.len() && is_whole
        };
        is_complete && deleted.is_some_and(ends)
    }
}

/// Follows a session through what was due; with `until` only as far as versions up to that are concerned.
///
/// # Errors
/// At the first difference.
pub(super) fn follow<'a>(session: &'a Session<'a>, gaps: &[Gap], until: Option<u64>) -> Result<(), Mismatch<'a>> {
    let due = session.selected.due(if session.is_forwarded { &[] } else { gaps });
    let due: Vec<&Due<'a>> = due.iter().filter(|due| due.is_after(session.from)).collect();
    follow_due(session, &due, until)
}

/// The same with what is due at hand.
pub(super) fn follow_due<'a>(
    session: &'a Session<'a>,
    due: &[&Due<'a>],
    until: Option<u64>,
) -> Result<(), Mismatch<'a>> {
    let is_within = |version: u64| until.is_none_or(|until| version <= until);
    let mut next = 0;
    let mut reached = session.from;
    for (index, event) in session.events.iter().enumerate() {
        let expected = due.get(next).copied();
        let mismatch = |fault| Err(Mismatch { session, index, due: expected.cloned(), fault });
        match event {
            ClientEvent::Event { kind, seen } => {
                if !is_within(seen.version) {
                    // Later than what is looked at: everything up to there must have been reported.
                    return match expected {
                        Some(expected) if is_within(expected.version) => mismatch("something before it was left out"),
                        _ => Ok(()),
                    };
                }
                let is = |due: &Due<'_>| due.kind == *kind && due.version == seen.version && due.object.key == seen.key;
                let Some(expected) = expected.filter(|expected| is(expected)) else {
                    if session.ends_its_version(index, expected) {
                        return Ok(());
                    }
                    return mismatch(match () {
                        () if due[..next].iter().any(|earlier| is(earlier)) => "it was reported before",
                        () if due[next..].iter().any(|later| is(later)) => "something before it was left out",
                        () if expected.is_some_and(|due| due.version == seen.version && due.object.key == seen.key) => {
                            "its type is wrong"
                        }
                        () if expected.is_some_and(|due| due.kind == *kind && due.object.key == seen.key) => {
                            "its version is wrong"
                        }
                        () => "nothing of the kind happened",
                    });
                };
                if expected.object.uid != seen.uid {
                    return mismatch("it is another object of that name");
                }
                if expected.object.content != seen.content {
                    return mismatch(match kind {
                        Kind::Deleted => "its content is not that of before",
                        Kind::Added | Kind::Modified => "its content is not that of its version",
                    });
                }
                reached = reached.max(seen.version);
                next += 1;
            }
            ClientEvent::Bookmark { version, .. } => {
                if *version < reached {
                    return mismatch("a bookmark points back");
                }
                let has_unreported =
                    expected.is_some_and(|due| due.version <= *version && !due.fills_gap || due.version < *version);
                if has_unreported && expected.is_some_and(|due| is_within(due.version)) {
                    return mismatch("a bookmark is ahead of what was reported");
                }
                if !is_within(*version) {
                    return Ok(());
                }
                reached = *version;
            }
            ClientEvent::Listed(_)
            | ClientEvent::Got { .. }
            | ClientEvent::Watching { .. }
            | ClientEvent::Expired
            | ClientEvent::Ended
            | ClientEvent::Failed(_) => {}
        }
    }
    Ok(())
}

/// Replays a story that has a store: it must be the truth in the end.
pub(super) fn ends_with_the_truth(story: &Story, selected: &Selected<'_>, complaints: &mut Vec<String>) {
    if !story.holds_copy {
        return;
    }
    let mut objects: BTreeMap<&str, &Seen> = BTreeMap::new();
    let mut initial: Option<BTreeMap<&str, &Seen>> = None;
    for Step { event, .. } in &story.steps {
        match event {
            ClientEvent::Listed(listed) => {
                objects = listed.items.iter().map(|seen| (seen.key.as_str(), seen)).collect()
            }
            ClientEvent::Watching { after, .. } => initial = after.is_none().then(BTreeMap::new),
            ClientEvent::Bookmark { ends_initial: true, .. } => objects = initial.take().unwrap_or(objects),
            ClientEvent::Event { kind, seen } => {
                let place = initial.as_mut().unwrap_or(&mut objects);
                match kind {
                    Kind::Added | Kind::Modified => place.insert(&seen.key, seen),
                    Kind::Deleted => place.remove(seen.key.as_str()),
                };
            }
            ClientEvent::Bookmark { .. }
            | ClientEvent::Got { .. }
            | ClientEvent::Expired
            | ClientEvent::Ended
            | ClientEvent::Failed(_) => {}
        }
    }
    let truth = selected.state(selected.truth().end());
    let expected: BTreeMap<&str, &Seen> = truth.into_iter().map(|seen| (seen.key.as_str(), seen)).collect();
    let keys = objects.keys().chain(expected.keys().filter(|key| !objects.contains_key(*key)));
    for key in keys {
        let (objects, expected) = (objects.get(key), expected.get(key));
        if objects != expected {
            let version =
                |seen: Option<&&Seen>| seen.map_or("nothing".to_owned(), |seen| format!("version {}", seen.version));
            complaints.push(format!(
                "{}: in the end it holds {} of {key}, true is {}",
                story.client,
                version(objects),
                version(expected)
            ));
        }
    }
}
