//! Lists, pages, single objects and initial events, against the state at their version; and that no read goes back.

use super::story::{ClientEvent, Listed, Moment, RequiredFreshness, Seen, Step, Story};
use super::truth::{Selected, Truth};
use crate::history::Kind;

/// Checks every list of a story, those that came as initial events too.
pub(super) fn lists(story: &Story, selected: &Selected<'_>, complaints: &mut Vec<String>) {
    // What the open walk has shown: its number, version, objects.
    let mut walk: Option<(u64, u64, Vec<&Seen>)> = None;
    // What a watch has sent of its initial events.
    let mut initial: Option<(Vec<&Seen>, u64)> = None;
    for Step { event, .. } in &story.steps {
        let mut complain = |what: String| complaints.push(format!("{}: {what}", story.client));
        match event {
            ClientEvent::Listed(listed) => {
                is_as_new_as_required(listed.required, listed.version, &mut complain);
                match listed.page {
                    None => whole(
                        "the list",
                        listed.version,
                        &listed.items.iter().collect::<Vec<_>>(),
                        selected,
                        &mut complain,
                    ),
                    Some(page) => {
                        let (_, version, mut shown) = walk
                            .take()
                            .filter(|(number, ..)| *number == page.walk)
                            .unwrap_or((page.walk, listed.version, Vec::new()));
                        if version != listed.version {
                            complain(format!("a page of the list at {version} has the version {}", listed.version));
                        }
                        if listed.items.len() > page.limit {
                            complain(format!(
                                "a page of {} at {version} has {} objects",
                                page.limit,
                                listed.items.len()
                            ));
                        }
                        shown.extend(&listed.items);
                        let state = selected.state(version);
                        let so_far = if page.is_last { &state[..] } else { &state[..shown.len().min(state.len())] };
                        same("the pages", version, &shown, so_far, &mut complain);
                        let left = state.len().saturating_sub(shown.len());
                        if let Some(remaining) = page.remaining.filter(|remaining| *remaining != left) {
                            complain(format!("a page at {version} says that {remaining} objects remain, not {left}"));
                        }
                        if !page.is_last {
                            walk = Some((page.walk, version, shown));
                        }
                    }
                }
            }
            ClientEvent::Watching { after, not_older_than, .. } => {
                initial = after.is_none().then(|| (Vec::new(), *not_older_than))
            }
            ClientEvent::Event { kind, seen } => {
                if let Some((shown, _)) = &mut initial {
                    if *kind != Kind::Added {
                        complain(format!("an initial event of {} at {} is {kind:?}", seen.key, seen.version));
                    }
                    shown.push(seen);
                }
            }
            ClientEvent::Bookmark { version, ends_initial: true } => match initial.take() {
                Some((shown, not_older_than)) => {
                    is_as_new_as_required(RequiredFreshness::NotOlderThan(not_older_than), *version, &mut complain);
                    whole("the initial events", *version, &shown, selected, &mut complain);
                }
                None => complain(format!("the bookmark of {version} ends initial events that were not requested")),
            },
            ClientEvent::Bookmark { version, ends_initial: false } => {
                if initial.is_some() {
                    complain(format!("a bookmark of {version} among the initial events"));
                }
            }
            ClientEvent::Ended | ClientEvent::Expired | ClientEvent::Failed(_) => initial = None,
            ClientEvent::Got { .. } => {}
        }
    }
}

fn is_as_new_as_required(required: RequiredFreshness, version: u64, complain: &mut impl FnMut(String)) {
    match required {
        RequiredFreshness::Any | RequiredFreshness::Continued => {}
        RequiredFreshness::NotOlderThan(least) | RequiredFreshness::Strong(least) if version >= least => {}
        RequiredFreshness::Exact(exactly) if version == exactly => {}
        RequiredFreshness::NotOlderThan(_) | RequiredFreshness::Strong(_) | RequiredFreshness::Exact(_) => {
            complain(format!("a list that was requested as {required:?} has the version {version}"));
        }
    }
}

fn whole(what: &str, version: u64, shown: &[&Seen], selected: &Selected<'_>, complain: &mut impl FnMut(String)) {
    same(what, version, shown, &selected.state(version), complain);
}

/// Names the first difference, in the order of keys.
fn same(what: &str, version: u64, shown: &[&Seen], expected: &[&Seen], complain: &mut impl FnMut(String)) {
    for index in 0..shown.len().max(expected.len()) {
        let fault = match (shown.get(index), expected.get(index)) {
            (Some(shown), Some(expected)) if shown == expected => continue,
            (Some(shown), Some(expected)) if shown.key == expected.key && shown.version == expected.version => {
                format!("{} of {} has another uid or content", shown.key, shown.version)
            }
            (Some(shown), Some(expected)) if shown.key == expected.key => {
                format!("{} has the version {}, true is {}", shown.key, shown.version, expected.version)
            }
            (Some(shown), Some(expected)) if shown.key < expected.key => {
                format!("{} of {} is not in the state, or not at this place", shown.key, shown.version)
            }
            (_, Some(expected)) => format!("{} of {} is missing", expected.key, expected.version),
            (Some(shown), None) => format!("{} of {} is not in the state", shown.key, shown.version),
            (None, None) => continue,
        };
        complain(format!("{what} at {version}: {fault}"));
        return;
    }
}

/// One store does not go back: what a read shows is not older than what any client had received before it was
/// requested. Single objects, which come without a version of the whole, are checked against the same.
pub(super) fn never_back(truth: &Truth<'_>, stories: &[Story], complaints: &mut Vec<String>) {
    // When a version was shown, and to which client.
    let mut shown: Vec<(Moment, u64, &str)> = Vec::new();
    for story in stories {
        let (mut is_initial, mut is_of_source) = (false, false);
        for step in &story.steps {
            let version = match &step.event {
                // An older state may be requested, and a server that responds instead of the store may be ahead of it.
                ClientEvent::Listed(
                    Listed { required: RequiredFreshness::Exact(_) | RequiredFreshness::Continued, .. }
                    | Listed { is_forwarded: true, .. },
                ) => continue,
                ClientEvent::Listed(listed) => listed.version,
                ClientEvent::Watching { after, is_forwarded, .. } => {
                    (is_initial, is_of_source) = (after.is_none(), *is_forwarded);
                    continue;
                }
                ClientEvent::Event { .. } | ClientEvent::Bookmark { .. } if is_of_source => continue,
                ClientEvent::Bookmark { version, ends_initial } => {
                    is_initial &= !ends_initial;
                    *version
                }
                ClientEvent::Event { seen, .. } if !is_initial => seen.version,
                ClientEvent::Event { .. }
                | ClientEvent::Got { .. }
                | ClientEvent::Expired
                | ClientEvent::Ended
                | ClientEvent::Failed(_) => continue,
            };
            shown.push((step.received_at, version, &story.client));
        }
    }
    shown.sort_unstable();
    // The newest so far.
    let mut newest: Vec<(Moment, u64, &str)> = Vec::new();
    for (came, version, client) in shown {
        if newest.last().is_none_or(|(_, highest, _)| *highest < version) {
            newest.push((came, version, client));
        }
    }
    let before = |moment: Moment| {
        let index = newest.partition_point(|(came, ..)| *came < moment);
        index.checked_sub(1).map_or((0, ""), |last| (newest[last].1, newest[last].2))
    };
    for story in stories {
        for step in &story.steps {
            let (least, shown_by) = before(step.requested_at);
            match &step.event {
                ClientEvent::Listed(Listed {
                    required: RequiredFreshness::Any | RequiredFreshness::NotOlderThan(_) | RequiredFreshness::Strong(_),
                    is_forwarded: false,
                    version,
                    ..
                }) if *version < least => {
                    complaints
                        .push(format!("{}: a list at {version}, after {shown_by} had received {least}", story.client));
                }
                ClientEvent::Got { required, key, found } => {
                    if let Err(fault) = got(truth, *required, key, found.as_ref(), least) {
                        complaints.push(format!(
                            "{}: a get of {key}, after {shown_by} had received {least}: {fault}",
                            story.client
                        ));
                    }
                }
                _ => {}
            }
        }
    }
}

/// An object that was shown must have been so at some version that is new enough.
fn got(
    truth: &Truth<'_>,
    required: RequiredFreshness,
    key: &str,
    found: Option<&Seen>,
    shown: u64,
) -> Result<(), String> {
    let least = match required {
        RequiredFreshness::NotOlderThan(version) | RequiredFreshness::Strong(version) => version.max(shown),
        RequiredFreshness::Any | RequiredFreshness::Exact(_) | RequiredFreshness::Continued => shown,
    };
    let mut states: Vec<(u64, Option<&Seen>)> = vec![(0, None)];
    states.extend(truth.of_key(key));
    // Each state lasts until the next.
    let lasts_beyond = |index: usize| states.get(index + 1).is_none_or(|(next, _)| *next > least);
    let mut matching = states.iter().enumerate().filter(|(_, (_, state))| *state == found).peekable();
    let what = found.map_or("none".to_owned(), |seen| format!("version {}", seen.version));
    if matching.peek().is_none() {
        return Err(format!("came {what}, which never was so"));
    }
    if matching.any(|(index, _)| lasts_beyond(index)) {
        return Ok(());
    }
    Err(format!("came {what}, which was not so any more at {least} ({required:?})"))
}
