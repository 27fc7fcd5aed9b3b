//! Every row of the transition table, and that a change outside the namespace has no event.

mod routes;

use super::{Transition, transition};
use crate::extract::FieldRef;
use crate::model::{FieldIndex, Version};
use crate::query::{FieldTerm, Selection};
use crate::selector::Operator;
use crate::store::tests::record;
use crate::store::{Change, HistoryLimits, Object, Store};

fn object(value: &str) -> Object {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[record("a/x", 1, &[], &[value])], Version::new(1));
    store.snapshot().get("a/x").unwrap().clone()
}

#[test]
fn entering_is_added_leaving_is_deleted() {
    let selection = Selection {
        fields: vec![FieldTerm::new(FieldRef::Field(FieldIndex(0)), Operator::equal_to("in"))],
        ..Selection::default()
    };
    for (before, after, expected) in [
        (None, Some("in"), Some("ADDED in")),
        (None, Some("out"), None),
        (Some("out"), Some("in"), Some("ADDED in")),
        (Some("in"), Some("in"), Some("MODIFIED in")),
        (Some("in"), Some("out"), Some("DELETED in")),
        (Some("out"), Some("out"), None),
        (Some("in"), None, Some("DELETED in")),
        (Some("out"), None, None),
    ] {
        let change = Change {
            version: Version::new(2),
            before: before.map(object),
            after: after.map(object),
            in_relist_gap: false,
        };
        let value = |object: &Object| object.values(FieldIndex(0)).next().unwrap().to_owned();
        let found = transition(&selection, &change).map(|event| match event {
            Transition::Added(object) => format!("ADDED {}", value(&object)),
            Transition::Modified(object) => format!("MODIFIED {}", value(&object)),
            Transition::Deleted(object) => format!("DELETED {}", value(&object)),
        });
        assert_eq!(found.as_deref(), expected, "{before:?} -> {after:?}");
        let elsewhere = Selection { namespace: Some("b".to_owned()), ..selection.clone() };
        assert_eq!(transition(&elsewhere, &change), None, "{before:?} -> {after:?} in another namespace");
    }
}
