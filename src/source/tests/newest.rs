//! Comparisons with the newest state of a source.

use std::sync::Mutex;

use super::self_check::{Listed, Objects, holding, objects};
use crate::model::Version;
use crate::source::newest::{ComparisonGoal, NewestComparison, compare_with_newest};

/// So many objects, which are more than a page of a list has.
fn many(count: u64) -> Objects {
    (0..count).map(|number| (format!("a/{number:04}"), 3)).collect()
}

/// The outcome without its time, and how many requests were made.
async fn compared(stored: &Objects, source: Listed, wanted: ComparisonGoal) -> (&'static str, Option<Version>, usize) {
    let (resource, _feed) = holding(stored);
    let newest = compare_with_newest(&source, ("/x", ""), &resource.state, wanted).await.unwrap();
    let requested = Mutex::lock(&source.requested).unwrap().len();
    match newest {
        NewestComparison::Equal { version, .. } => ("equal", Some(version), requested),
        NewestComparison::Alike { .. } => ("alike", None, requested),
        NewestComparison::Differs => ("differs", None, requested),
    }
}

#[tokio::test]
async fn a_small_store_is_compared_object_by_object() {
    let stored = objects(&[("a/b", 3), ("a/c", 4)]);
    let at = |version: u64, list: &[(&str, u64)]| Listed::at(version, 2, objects(list));
    for wanted in [ComparisonGoal::Version, ComparisonGoal::Progress] {
        let same = at(70, &[("a/b", 3), ("a/c", 4)]);
        assert_eq!(compared(&stored, same, wanted).await, ("equal", Some(Version::new(70)), 1));
        let changed = at(70, &[("a/b", 3), ("a/c", 60)]);
        assert_eq!(compared(&stored, changed, wanted).await, ("differs", None, 1), "an event is on its way");
        let back = at(49, &[("a/b", 3), ("a/c", 4)]);
        assert_eq!(compared(&stored, back, wanted).await, ("differs", None, 1), "versions went back");
    }
}

#[tokio::test]
async fn a_large_store_is_compared_in_one_request_unless_a_reader_waits_for_a_version() {
    let stored = many(501);
    let at = |version: u64, count: u64, page: usize| Listed::at(version, page, many(count));
    assert_eq!(compared(&stored, at(70, 501, 1), ComparisonGoal::Progress).await, ("alike", None, 1));
    assert_eq!(
        compared(&stored, at(70, 502, 1), ComparisonGoal::Progress).await,
        ("differs", None, 1),
        "one object more"
    );
    assert_eq!(
        compared(&stored, at(70, 500, 1), ComparisonGoal::Progress).await,
        ("differs", None, 1),
        "one object less"
    );
    assert_eq!(
        compared(&stored, at(49, 501, 1), ComparisonGoal::Progress).await,
        ("differs", None, 1),
        "versions went back"
    );
    assert_eq!(
        compared(&stored, at(70, 501, 501), ComparisonGoal::Progress).await,
        ("alike", None, 1),
        "the limit is ignored"
    );
    assert_eq!(
        compared(&stored, at(70, 501, 251), ComparisonGoal::Version).await,
        ("equal", Some(Version::new(70)), 2)
    );
}
