//! What a selection says and does, and what it makes of a history.

use e2e::history::{Change, Gap, Kind, Transition, transitions, visible_changes};
use e2e::selection::Selection;
use serde_json::json;

/// `(version, key, color)`; no color is a deletion.
fn history(rows: &[(u64, &str, &str)]) -> Vec<Change> {
    let change = |&(version, key, color): &(u64, &str, &str)| {
        let object = json!({ "metadata": { "uid": key }, "spec": { "color": color } });
        Change { version, key: key.to_owned(), after: (!color.is_empty()).then_some(object), fills_gap: false }
    };
    rows.iter().map(change).collect()
}

fn shown(found: &[Transition]) -> Vec<(Kind, &str, u64)> {
    found.iter().map(|transition| (transition.kind, transition.key.as_str(), transition.version)).collect()
}

#[test]
fn entering_staying_leaving() {
    let blue = Selection::everything().field("spec.color", "blue");
    let rows = [
        (1, "a", "red"),
        (2, "a", "blue"),
        (3, "b", "blue"),
        (4, "a", "blue"),
        (5, "a", "red"),
        (6, "a", ""),
        (7, "b", ""),
    ];
    let expected = [
        (Kind::Added, "a", 2),
        (Kind::Added, "b", 3),
        (Kind::Modified, "a", 4),
        (Kind::Deleted, "a", 5),
        (Kind::Deleted, "b", 7),
    ];
    assert_eq!(shown(&transitions(&history(&rows), &blue)), expected);
}

#[test]
fn a_gap_shows_only_its_outcome() {
    let everything = Selection::everything();
    let rows = [
        (1, "stays", "red"),
        (2, "changes", "red"),
        (3, "goes", "red"),
        (4, "changes", "blue"),
        (5, "flashes", "red"),
        (6, "comes", "red"),
        (7, "goes", ""),
        (8, "changes", "green"),
        (9, "flashes", ""),
        (10, "stays", "blue"),
    ];
    let changes = visible_changes(&history(&rows), &[Gap { before: 3, end: 9 }]);
    let expected = [
        (Kind::Added, "stays", 1),
        (Kind::Added, "changes", 2),
        (Kind::Added, "goes", 3),
        (Kind::Deleted, "goes", 3),
        (Kind::Added, "comes", 6),
        (Kind::Modified, "changes", 8),
        (Kind::Modified, "stays", 10),
    ];
    assert_eq!(shown(&transitions(&changes, &everything)), expected);
    assert_eq!(visible_changes(&history(&rows), &[]).len(), rows.len());
}

#[test]
fn a_selection_says_and_does_the_same() {
    let selection = Selection::everything().within("a").label("x", "1").label_is_not("y", "2").field("spec.z", "3");
    let selection = selection.field_is_not("spec.w", "4");
    assert_eq!(selection.label_selector(), "x=1,y!=2");
    assert_eq!(selection.field_selector(), "spec.z=3,spec.w!=4");
    let object = |namespace: &str, x: &str, y: &str, z: &str, w: &str| {
        let labels = serde_json::json!({ "x": x, "y": y });
        serde_json::json!({ "metadata": { "namespace": namespace, "labels": labels }, "spec": { "z": z, "w": w } })
    };
    let rows = [
        (object("a", "1", "1", "3", "3"), true, "all terms hold"),
        (object("b", "1", "1", "3", "3"), false, "another namespace"),
        (object("a", "2", "1", "3", "3"), false, "another label"),
        (object("a", "1", "2", "3", "3"), false, "the label that must not be"),
        (object("a", "1", "1", "4", "3"), false, "another field"),
        (object("a", "1", "1", "3", "4"), false, "the field that must not be"),
        (serde_json::json!({ "metadata": { "namespace": "a" } }), false, "nothing there"),
    ];
    for (object, expected, message) in rows {
        assert_eq!(selection.selects(&object), expected, "{message}");
    }
    let negative = Selection::everything().label_is_not("y", "2");
    assert!(negative.selects(&serde_json::json!({ "metadata": {} })), "an absent label is another one");
}
