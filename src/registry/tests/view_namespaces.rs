//! Since which version the namespaces of a View are shown.

use std::sync::Arc;

use crate::model::Version;
use crate::registry::view_namespaces::{FollowedNamespaces, PermittedNamespaces, PermittedSince, SelectedSince};

#[test]
fn a_version_is_lowered_only_while_it_is_the_one_that_was_awaited() {
    for (current, awaited, version, expected, why) in [
        (10, 10, 5, 5, "the source has no newer version than 5"),
        (10, 12, 5, 5, "another selection was awaited, which is newer"),
        (10, 8, 5, 10, "the selection has changed since the wait for 8 began"),
        (10, 10, 12, 10, "it is not raised"),
    ] {
        let since = SelectedSince::new(Version::new(current));
        since.lower(Version::new(awaited), Version::new(version));
        assert_eq!(since.version(), Version::new(expected), "{why}");
    }
}

/// Records these names as the result of reviews at this version of the resource.
fn record(permitted: &PermittedNamespaces, names: Option<&[&str]>, first: u64, reached: u64) -> (usize, u64) {
    let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    permitted.record(|| (names, Version::new(first)), || Version::new(reached));
    let set = permitted.current().unwrap();
    (Arc::as_ptr(&set) as usize, set.since.version().number())
}

#[test]
fn lists_and_watches_have_the_same_version_since_which_namespaces_are_shown() {
    let since = PermittedSince::default();
    let [listed, watched] = [PermittedNamespaces::new(since.clone()), PermittedNamespaces::new(since)].map(Arc::new);
    assert!(listed.current().is_none() && FollowedNamespaces::permitted(&listed).is_none(), "before the first reviews");
    let (first, version) = record(&listed, Some(&["a"]), 100, 500);
    assert_eq!(version, 100, "of the first result, that of the last RoleBinding");
    let followed = FollowedNamespaces::permitted(&listed).unwrap();
    assert_eq!(record(&listed, Some(&["a"]), 300, 500), (first, 100), "the same names");
    assert!(!followed.is_changed());
    // The source has no newer version than this one.
    listed.current().unwrap().since.lower(Version::new(100), Version::new(90));
    assert_eq!(record(&watched, Some(&["a"]), 100, 500).1, 90, "the first result with another verb");
    let (second, version) = record(&watched, Some(&["a", "b"]), 100, 500);
    assert_eq!(version, 501, "another result");
    assert_eq!(record(&listed, Some(&["a"]), 100, 600), (first, 501), "also for lists, whose names are the same");
    assert!(!followed.is_changed());
    let (all, version) = record(&listed, None, 0, 600);
    assert_eq!(version, 601, "all namespaces");
    assert!(all != first && followed.is_changed() && followed.is_changed_by(Version::new(601)));
    assert!(!followed.is_changed_by(Version::new(600)), "lists at earlier versions show the earlier names");
    assert_eq!(record(&watched, Some(&["a", "b"]), 100, 600), (second, 601));
    assert_eq!(record(&listed, Some(&[]), 0, 700).1, 701, "no namespace");
}
