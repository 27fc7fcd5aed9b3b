//! The checker itself: it takes an honest recording as one, and finds every fault that is planted in it.
//!
//! Recordings come from random histories, as an honest cache would have sent them through a relist and a resumed watch.
//! Then one thing in one of them is made wrong. The message must name the client, the object and the version concerned.

#![expect(clippy::panic, reason = "a recording that is not what the test made it is a mistake of the test")]

use e2e::checker::story::Moment;
use e2e::checker::truth::{Due, Truth};
use e2e::checker::{ClientEvent, Listed, Page, RequiredFreshness, Seen, Step, Story, check};
use e2e::history::{Change, Gap, Kind};
use e2e::random::Random;
use e2e::selection::Selection;
use serde_json::json;

const CHANGES: u64 = 120;
/// Random histories that each fault is planted in.
const SEEDS: u64 = 8;

/// A recording, with what is known of its truth.
struct Recording {
    changes: Vec<Change>,
    relists: Vec<u64>,
    stories: Vec<Story>,
}

fn history(random: &mut Random) -> Vec<Change> {
    let keys = ["left/a", "left/b", "left/c", "right/a", "right/b", "right/c", "right/d"];
    let mut changes: Vec<Change> = Vec::new();
    let mut version = 100;
    for number in 0..CHANGES {
        // Other resources move the version too.
        version += random.between(1, 3);
        let key = random.choose(&keys);
        let exists = changes.iter().rev().find(|change| change.key == key).and_then(|change| change.after.as_ref());
        let (namespace, name) = key.split_once('/').expect("a key must have a slash");
        let after = match exists {
            Some(_) if random.below(5) == 0 => None,
            _ => {
                let uid = exists.map_or_else(
                    || format!("{key}-{number}"),
                    |object| object["metadata"]["uid"].as_str().expect("an object must have a uid").to_owned(),
                );
                let color = random.choose(&["blue", "green"]);
                Some(json!({
                    "metadata": { "namespace": namespace, "name": name, "uid": uid, "labels": { "number": number.to_string() } },
                    "spec": { "color": color },
                }))
            }
        };
        changes.push(Change { version, key: key.to_owned(), after, fills_gap: false });
    }
    changes
}

/// Adds to a story step by step.
struct Teller {
    story: Story,
    now: Moment,
}

impl Teller {
    fn new(client: &str, selection: Selection, holds_copy: bool) -> Teller {
        Teller { story: Story { client: client.to_owned(), selection, holds_copy, steps: Vec::new() }, now: 0 }
    }

    /// At the moment of a version; a version never comes before it is there.
    fn record(&mut self, at: u64, event: ClientEvent) {
        self.now = self.now.max(at * 1000) + 2;
        self.story.steps.push(Step { requested_at: self.now - 1, received_at: self.now, event });
    }

    fn list(&mut self, required: RequiredFreshness, version: u64, items: &[&Seen]) {
        let items = items.iter().map(|seen| (*seen).clone()).collect();
        self.record(version, ClientEvent::Listed(Listed { required, version, items, page: None, is_forwarded: false }));
    }

    fn events(&mut self, due: &[Due<'_>], from: u64, until: u64) {
        for due in due.iter().filter(|due| due.is_after(from) && due.version <= until && !due.fills_gap) {
            let seen = Seen { version: due.version, ..due.object.clone() };
            self.record(due.version, ClientEvent::Event { kind: due.kind, seen });
        }
    }
}

fn record(seed: u64) -> Recording {
    let mut random = Random::from_seed(seed, 0);
    let changes = history(&mut random);
    let version = |index: usize| changes[index].version;
    let (start, resumed, gap, last) =
        (version(20), version(40), Gap { before: version(60), end: version(75) }, version(119));
    let truth = Truth::new(&changes);
    let mut stories = Vec::new();

    // An informer that lists, watches, resumes, and whose source was listed again meanwhile.
    let blue = Selection::everything().field("spec.color", "blue");
    let selected = truth.selected(&blue);
    let due = selected.due(&[gap]);
    let mut informer = Teller::new("informer", blue, true);
    informer.list(RequiredFreshness::NotOlderThan(0), start, &selected.state(start));
    informer.record(start, ClientEvent::Watching { after: Some(start), not_older_than: 0, is_forwarded: false });
    informer.events(&due, start, resumed);
    informer.record(resumed, ClientEvent::Bookmark { version: resumed, ends_initial: false });
    informer.record(resumed, ClientEvent::Ended);
    informer.record(resumed, ClientEvent::Watching { after: Some(resumed), not_older_than: 0, is_forwarded: false });
    informer.events(&due, resumed, gap.before);
    informer.record(gap.end, ClientEvent::Bookmark { version: gap.before, ends_initial: false });
    let after_gap = due.iter().filter(|due| due.fills_gap || due.version > gap.before);
    for due in after_gap {
        let seen = Seen { version: due.version, ..due.object.clone() };
        informer.record(due.version.max(gap.end), ClientEvent::Event { kind: due.kind, seen });
    }
    informer.record(last, ClientEvent::Bookmark { version: last, ends_initial: false });
    stories.push(informer.story);

    // One that begins with initial events, of everything.
    let everything = truth.selected(&Selection::everything());
    let due = everything.due(&[gap]);
    let mut streaming = Teller::new("streaming", Selection::everything(), true);
    streaming.record(start, ClientEvent::Watching { after: None, not_older_than: start, is_forwarded: false });
    for seen in everything.state(start) {
        streaming.record(start, ClientEvent::Event { kind: Kind::Added, seen: seen.clone() });
    }
    streaming.record(start, ClientEvent::Bookmark { version: start, ends_initial: true });
    streaming.events(&due, start, gap.before);
    for due in due.iter().filter(|due| due.fills_gap || due.version > gap.before) {
        let seen = Seen { version: due.version, ..due.object.clone() };
        streaming.record(due.version.max(gap.end), ClientEvent::Event { kind: due.kind, seen });
    }
    streaming.record(last, ClientEvent::Bookmark { version: last, ends_initial: false });
    stories.push(streaming.story);

    // One that reads in all ways.
    let mut reader = Teller::new("reader", Selection::everything(), false);
    let state = everything.state(resumed);
    for (number, items) in state.chunks(2).enumerate() {
        let required = if number == 0 { RequiredFreshness::Any } else { RequiredFreshness::Continued };
        let shown = (number * 2 + items.len()).min(state.len());
        let is_last = shown == state.len();
        let page = Page { walk: 1, limit: 2, is_last, remaining: (!is_last).then(|| state.len() - shown) };
        let items = items.iter().map(|seen| (*seen).clone()).collect();
        reader.record(
            resumed,
            ClientEvent::Listed(Listed { required, version: resumed, items, page: Some(page), is_forwarded: false }),
        );
    }
    reader.list(RequiredFreshness::Exact(start), start, &everything.state(start));
    reader.now = reader.now.max(version(100) * 1000);
    reader.list(RequiredFreshness::Strong(version(100)), version(100), &everything.state(version(100)));
    for key in ["left/a", "left/b", "right/c"] {
        let state = everything.state(version(100));
        let found = state.iter().find(|seen| seen.key == key).map(|seen| (*seen).clone());
        reader.record(version(100), ClientEvent::Got { required: RequiredFreshness::Any, key: key.to_owned(), found });
    }
    stories.push(reader.story);
    // That of the first list, the gap's, and one in which nothing changed.
    let relists = vec![version(2), gap.end, version(90)];
    Recording { changes, relists, stories }
}

#[test]
fn honest_recordings_are_taken_as_honest() {
    for seed in 0..SEEDS * 3 {
        let Recording { changes, relists, stories } = record(seed);
        let report = check(&changes, &relists, &stories);
        assert_eq!(report.complaints, Vec::<String>::new(), "seed {seed}");
        assert!(report.gaps.len() <= 1, "seed {seed}: {:?}", report.gaps);
        assert!(report.figures.events > 100, "{}", report.figures);
    }
}

/// Where a version is no longer served, a watch reports every object as deleted, and its client must list.
#[test]
fn the_end_of_a_version_is_taken_as_honest_if_it_is_complete() {
    let ends = |seed: u64, left_out: usize, end: &[ClientEvent]| {
        let mut random = Random::from_seed(seed, 0);
        let changes = history(&mut random);
        let (start, ended, last) = (changes[20].version, changes[40].version, changes[119].version);
        let truth = Truth::new(&changes);
        let selected = truth.selected(&Selection::everything());
        let mut informer = Teller::new("informer", Selection::everything(), true);
        informer.list(RequiredFreshness::NotOlderThan(0), start, &selected.state(start));
        informer.record(start, ClientEvent::Watching { after: Some(start), not_older_than: 0, is_forwarded: false });
        informer.events(&selected.due(&[]), start, ended);
        for seen in selected.state(ended).into_iter().skip(left_out) {
            let seen = Seen { version: ended, ..seen.clone() };
            informer.record(ended, ClientEvent::Event { kind: Kind::Deleted, seen });
        }
        for event in end {
            informer.record(ended, event.clone());
        }
        informer.list(RequiredFreshness::NotOlderThan(0), last, &selected.state(last));
        check(&changes, &[start, last], &[informer.story]).complaints
    };
    for seed in 0..SEEDS {
        let of_the_version = |seed: u64| history(&mut Random::from_seed(seed, 0))[40].version;
        let resumed =
            || ClientEvent::Watching { after: Some(of_the_version(seed)), not_older_than: 0, is_forwarded: false };
        let bookmark = || ClientEvent::Bookmark { version: of_the_version(seed), ends_initial: false };
        assert_eq!(ends(seed, 0, &[ClientEvent::Expired]), Vec::<String>::new(), "seed {seed}");
        assert_ne!(ends(seed, 1, &[ClientEvent::Expired]), Vec::<String>::new(), "seed {seed}: one is left out");
        for left_out in 0..3 {
            let cut = ends(seed, left_out, &[ClientEvent::Ended]);
            assert_eq!(
                cut,
                Vec::<String>::new(),
                "seed {seed}: the connection ended before {left_out} events and the 410"
            );
            let refused = ends(seed, left_out, &[ClientEvent::Ended, resumed(), ClientEvent::Expired]);
            assert_eq!(refused, Vec::<String>::new(), "seed {seed}: the resumption is refused");
            let goes_on = ends(seed, left_out, &[ClientEvent::Ended, resumed(), bookmark()]);
            assert_ne!(goes_on, Vec::<String>::new(), "seed {seed}: the resumed watch goes on");
        }
    }
}

/// What a fault was planted in: the words that a complaint must say.
type Planted = Vec<String>;
/// Plants a fault; `None` where this history has no place for it.
type Plant = fn(&mut Recording) -> Option<Planted>;

/// The place of an event of the informer after its resumption and before the gap, of this kind.
fn event(recording: &Recording, story: usize, wanted: impl Fn(&Kind, &Seen) -> bool) -> Option<usize> {
    let steps = &recording.stories[story].steps;
    steps.iter().position(|step| matches!(&step.event, ClientEvent::Event { kind, seen } if wanted(kind, seen)))
}

fn seen_at(recording: &mut Recording, story: usize, step: usize) -> (&mut Kind, &mut Seen) {
    match &mut recording.stories[story].steps[step].event {
        ClientEvent::Event { kind, seen } => (kind, seen),
        other => panic!("{other:?} is no event"),
    }
}

fn said(client: &str, seen: &Seen) -> Planted {
    vec![client.to_owned(), seen.key.clone(), seen.version.to_string()]
}

/// Versions after the first list and before the gap.
fn plain(recording: &Recording) -> std::ops::Range<u64> {
    recording.changes[41].version..recording.changes[55].version
}

fn plain_event(recording: &Recording, story: usize, of: Kind) -> Option<usize> {
    let plain = plain(recording);
    event(recording, story, |kind, seen| *kind == of && plain.contains(&seen.version))
}

fn listed(recording: &mut Recording, story: usize, step: usize) -> &mut Listed {
    match &mut recording.stories[story].steps[step].event {
        ClientEvent::Listed(listed) => listed,
        other => panic!("{other:?} is no list"),
    }
}

#[test]
fn every_planted_fault_is_found() {
    let rows: [(&str, Plant); 24] = [
        ("an event is dropped", |recording| {
            let step = plain_event(recording, 0, Kind::Modified)?;
            let seen = seen_at(recording, 0, step).1.clone();
            recording.stories[0].steps.remove(step);
            Some(said("informer", &seen))
        }),
        ("the drop is hidden in what a relist could explain, but another client received it", |recording| {
            let gap_end = recording.relists[1];
            let before = recording.changes[60].version;
            let step = event(recording, 1, |_, seen| seen.version > before && seen.version < gap_end)?;
            recording.stories[1].steps.remove(step);
            // Where the gap began is not certain any more, and so neither is what is missing.
            Some(vec!["streaming".to_owned()])
        }),
        ("an event comes twice", |recording| {
            let step = plain_event(recording, 0, Kind::Modified)?;
            let (copy, seen) = (recording.stories[0].steps[step].clone(), seen_at(recording, 0, step).1.clone());
            recording.stories[0].steps.insert(step + 1, copy);
            Some(said("informer", &seen))
        }),
        ("two events are exchanged", |recording| {
            let step = plain_event(recording, 1, Kind::Modified)?;
            let seen = seen_at(recording, 1, step).1.clone();
            recording.stories[1].steps.swap(step, step + 1);
            Some(said("streaming", &seen))
        }),
        ("an object is invented", |recording| {
            let step = plain_event(recording, 1, Kind::Modified)?;
            let mut invented = recording.stories[1].steps[step].clone();
            let ClientEvent::Event { kind, seen } = &mut invented.event else { return None };
            (*kind, seen.key) = (Kind::Added, "right/ghost".to_owned());
            let seen = seen.clone();
            recording.stories[1].steps.insert(step + 1, invented);
            Some(said("streaming", &seen))
        }),
        ("a DELETED has the content of an older state", |recording| {
            let step = plain_event(recording, 0, Kind::Deleted)?;
            let seen = seen_at(recording, 0, step).1;
            seen.content += 1;
            Some(said("informer", &seen.clone()))
        }),
        ("a MODIFIED has the content of another version", |recording| {
            let step = plain_event(recording, 0, Kind::Modified)?;
            let seen = seen_at(recording, 0, step).1;
            seen.content += 1;
            Some(said("informer", &seen.clone()))
        }),
        ("a removal that a relist found is lost", |recording| {
            let before = recording.changes[60].version;
            let keys: Vec<String> = recording
                .changes
                .iter()
                .filter(|change| change.version == before)
                .map(|change| change.key.clone())
                .collect();
            let step = recording.stories[1].steps.iter().position(|step| {
                matches!(&step.event, ClientEvent::Event { kind: Kind::Deleted, seen } if seen.version == before && !keys.contains(&seen.key))
            })?;
            let seen = seen_at(recording, 1, step).1.clone();
            recording.stories[1].steps.remove(step);
            Some(vec!["streaming".to_owned(), seen.key])
        }),
        ("a list promises a version that its items do not have", |recording| {
            let ahead = recording.changes[30].version;
            listed(recording, 0, 0).version = ahead;
            Some(vec!["informer".to_owned(), ahead.to_string()])
        }),
        ("an exit is reported as MODIFIED", |recording| {
            let step = plain_event(recording, 0, Kind::Deleted)?;
            let (kind, seen) = seen_at(recording, 0, step);
            *kind = Kind::Modified;
            Some(said("informer", &seen.clone()))
        }),
        ("an entry is reported as MODIFIED", |recording| {
            let step = plain_event(recording, 0, Kind::Added)?;
            let (kind, seen) = seen_at(recording, 0, step);
            *kind = Kind::Modified;
            Some(said("informer", &seen.clone()))
        }),
        ("a DELETED has the version of the object instead of its own", |recording| {
            let step = plain_event(recording, 0, Kind::Deleted)?;
            let seen = seen_at(recording, 0, step).1;
            seen.version -= 1;
            Some(said("informer", &seen.clone()))
        }),
        ("what came between the watches is not reported after the resumption", |recording| {
            let steps = &mut recording.stories[0].steps;
            let resumed = steps.iter().rposition(|step| matches!(step.event, ClientEvent::Watching { .. })).unwrap();
            let ClientEvent::Event { seen, .. } = steps.get(resumed + 1)?.event.clone() else { return None };
            steps.remove(resumed + 1);
            Some(said("informer", &seen))
        }),
        ("what was reported before the resumption is reported again", |recording| {
            let steps = &mut recording.stories[0].steps;
            let ended = steps.iter().position(|step| matches!(step.event, ClientEvent::Ended)).unwrap();
            let ClientEvent::Event { seen, .. } = steps[ended - 2].event.clone() else { return None };
            let again = steps[ended - 2].clone();
            steps.insert(ended + 2, again);
            Some(said("informer", &seen))
        }),
        ("a bookmark is ahead of what was reported", |recording| {
            let step = plain_event(recording, 1, Kind::Modified)?;
            let version = recording.changes[56].version;
            let mut bookmark = recording.stories[1].steps[step].clone();
            bookmark.event = ClientEvent::Bookmark { version, ends_initial: false };
            recording.stories[1].steps.insert(step, bookmark);
            Some(vec!["streaming".to_owned(), version.to_string()])
        }),
        ("a bookmark points back", |recording| {
            let step = plain_event(recording, 1, Kind::Modified)?;
            let version = recording.changes[22].version;
            let mut bookmark = recording.stories[1].steps[step].clone();
            bookmark.event = ClientEvent::Bookmark { version, ends_initial: false };
            recording.stories[1].steps.insert(step, bookmark);
            Some(vec!["streaming".to_owned(), version.to_string()])
        }),
        ("another object of the same name", |recording| {
            let step = plain_event(recording, 0, Kind::Modified)?;
            let seen = seen_at(recording, 0, step).1;
            seen.uid.push('x');
            Some(said("informer", &seen.clone()))
        }),
        ("initial events lack an object", |recording| {
            let ClientEvent::Event { seen, .. } = recording.stories[1].steps.remove(1).event else { return None };
            Some(said("streaming", &seen))
        }),
        ("initial events are older than was requested", |recording| {
            let version = recording.changes[25].version;
            let ClientEvent::Watching { not_older_than, .. } = &mut recording.stories[1].steps[0].event else {
                return None;
            };
            *not_older_than = version;
            Some(vec!["streaming".to_owned(), version.to_string()])
        }),
        ("a page is of another state", |recording| {
            let version = recording.changes[41].version;
            listed(recording, 2, 1).version = version;
            Some(vec!["reader".to_owned(), version.to_string()])
        }),
        ("pages leave out an object", |recording| {
            let seen = listed(recording, 2, 1).items.remove(0);
            Some(said("reader", &seen))
        }),
        ("a Strong list is older than its request", |recording| {
            let step = recording.stories[2].steps.iter().position(|step| {
                matches!(step.event, ClientEvent::Listed(Listed { required: RequiredFreshness::Strong(_), .. }))
            })?;
            let version = recording.changes[101].version;
            listed(recording, 2, step).required = RequiredFreshness::Strong(version);
            Some(vec!["reader".to_owned(), version.to_string()])
        }),
        ("a list shows less than somebody received before", |recording| {
            let changes = &recording.changes;
            let old = changes[99].version;
            let truth = Truth::new(changes);
            let items = truth.selected(&Selection::everything()).state(old).into_iter().cloned().collect();
            let last = recording.stories[2].steps.last()?.clone();
            let event = ClientEvent::Listed(Listed {
                required: RequiredFreshness::Any,
                version: old,
                items,
                page: None,
                is_forwarded: false,
            });
            recording.stories[2].steps.push(Step {
                requested_at: last.received_at + 1,
                received_at: last.received_at + 2,
                event,
            });
            Some(vec!["reader".to_owned(), old.to_string(), recording.changes[100].version.to_string()])
        }),
        ("a get shows what is not so any more", |recording| {
            let (changes, last) = (&recording.changes, recording.changes[100].version);
            let truth = Truth::new(changes);
            let step =
                recording.stories[2].steps.iter().position(|step| matches!(step.event, ClientEvent::Got { .. }))?;
            let ClientEvent::Got { key, .. } = recording.stories[2].steps[step].event.clone() else { return None };
            let states: Vec<_> = truth.of_key(&key).filter(|(version, _)| *version <= last).collect();
            let stale = states.iter().rev().skip(1).find_map(|(_, state)| state.cloned())?;
            let ClientEvent::Got { found, .. } = &mut recording.stories[2].steps[step].event else { return None };
            *found = Some(stale.clone());
            Some(said("reader", &stale))
        }),
    ];
    for (what, plant) in rows {
        let mut planted = 0;
        for seed in 0..SEEDS {
            let mut recording = record(seed);
            let Some(words) = plant(&mut recording) else { continue };
            planted += 1;
            let complaints = check(&recording.changes, &recording.relists, &recording.stories).complaints;
            let says = |complaint: &String| words.iter().all(|word| complaint.contains(word.as_str()));
            assert!(
                complaints.iter().any(says),
                "{what}, seed {seed}: no complaint says {words:?}, but: {complaints:#?}"
            );
        }
        assert!(planted >= SEEDS as usize / 4, "{what}: planted only {planted} times");
    }
}
