//! The judge of real clients: it takes what happened, and finds what did not.

use anyhow::{Context, Result};
use e2e::clients::judge::{Start, follow, follow_handlers};
use e2e::clients::log::{ClientEventType, Event, Step};
use e2e::history::{Kind, Transition};

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
        fills_gap: false,
    };
    rows.into_iter().map(transition).collect()
}

fn event(transition: &Transition) -> Event {
    let Transition { kind, key, version, uid, .. } = transition.clone();
    Event { kind: ClientEventType::Kind(kind), key, version, uid }
}

fn listed(version: Option<u64>, objects: &[(&str, u64)]) -> Step {
    let objects = objects.iter().map(|(key, version)| ((*key).to_owned(), *version)).collect();
    Step::Listed { version, objects }
}

/// A client that listed at 12, received two events, and listed again at 18.
fn right() -> Vec<Step> {
    let all = transitions();
    let reported = |range: std::ops::Range<usize>| all[range].iter().map(|transition| Step::Event(event(transition)));
    let mut steps = vec![listed(Some(12), &[("a", 10), ("b", 12)])];
    steps.extend(reported(2..4));
    steps.push(listed(Some(19), &[("a", 13), ("c", 18)]));
    steps.extend(reported(6..8));
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
            Step::Event(event) if event.kind != ClientEventType::Kind(Kind::Deleted) => {
                event.kind = ClientEventType::Applied
            }
            Step::Event(_) => {}
        }
    }
    assert_eq!(follow(&silent, &transitions())?, starts, "without versions of lists and kinds of changes");
    Ok(())
}

#[test]
fn a_list_of_the_version_before_a_gap_shows_what_the_gap_removed() -> Result<()> {
    let mut all = transitions();
    all[3] = Transition { version: 13, fills_gap: true, ..all[3].clone() };
    let reported = |from: usize| all[from..].iter().map(|transition| Step::Event(event(transition)));
    let steps: Vec<Step> = std::iter::once(listed(Some(13), &[("a", 13), ("b", 12)])).chain(reported(3)).collect();
    assert_eq!(follow(&steps, &all)?, [Start { included: 3, known: 0 }]);
    let late: Vec<Step> = std::iter::once(listed(Some(13), &[("a", 13)])).chain(reported(4)).collect();
    assert!(follow(&late, &all).is_err(), "the removal was reported with this version, but happened later");
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
        ("a DELETED is reported as MODIFIED", |steps| {
            change(steps, 2, |event| event.kind = ClientEventType::Kind(Kind::Modified))
        }),
        ("a MODIFIED is reported as ADDED", |steps| {
            change(steps, 1, |event| event.kind = ClientEventType::Kind(Kind::Added))
        }),
        ("another object of the same name", |steps| change(steps, 1, |event| event.uid = "other".to_owned())),
        ("a list lacks an object", |steps| steps[0] = listed(Some(12), &[("a", 10)])),
        ("a list promises more than it has", |steps| steps[0] = listed(Some(13), &[("a", 10), ("b", 12)])),
        ("a list is older than what was reported", |steps| steps[3] = listed(Some(14), &[("a", 13), ("b", 12)])),
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

/// What handlers of that client receive.
fn valid_handled() -> Vec<Event> {
    let all = transitions();
    let make_event = |kind, key: &str, version| Event { kind, key: key.to_owned(), version, uid: String::new() };
    let mut handled = vec![
        make_event(ClientEventType::Kind(Kind::Added), "b", 12),
        make_event(ClientEventType::Kind(Kind::Added), "a", 10),
    ];
    handled.extend(all[2..4].iter().map(event));
    handled.push(make_event(ClientEventType::Kind(Kind::Added), "c", 18));
    handled.extend(all[6..8].iter().map(event));
    handled
}

#[test]
fn handlers_receive_what_lists_change_and_then_events() -> Result<()> {
    let starts = follow(&right(), &transitions())?;
    follow_handlers(&valid_handled(), &starts, &transitions())?;
    let mut repeated = valid_handled();
    repeated.insert(4, Event { kind: ClientEventType::Kind(Kind::Modified), ..repeated[2].clone() });
    follow_handlers(&repeated, &starts, &transitions()).context("an unchanged object may be reported again")?;
    type Fault = fn(&mut Vec<Event>);
    let rows: [(&str, Fault); 6] = [
        ("an object of the first list is left out", |handled| drop(handled.remove(0))),
        ("a change by the second list is left out", |handled| drop(handled.remove(4))),
        ("an event is left out", |handled| drop(handled.remove(2))),
        ("an event comes twice", |handled| handled.insert(3, handled[2].clone())),
        ("something is reported at the end", |handled| handled.push(handled[0].clone())),
        ("a change by a list has another version", |handled| handled[4].version = 17),
    ];
    for (message, fault) in rows {
        let mut handled = valid_handled();
        fault(&mut handled);
        assert!(follow_handlers(&handled, &starts, &transitions()).is_err(), "{message}");
    }
    Ok(())
}
