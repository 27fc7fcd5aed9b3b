//! What is served while a changed definition is read again: the old store, then the new one, and never nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::feed::resource;
use crate::registry::{LoadState, Resource};
use crate::source::pending_replacements::PendingReplacements;
use crate::store::{HistoryLimits, Store};

fn generation(number: u64) -> Resource {
    Resource { definition: format!("uid/{number}"), ..resource().with_new_state() }
}

fn ready() -> LoadState {
    LoadState::Ready(Store::new(HistoryLimits::default()).snapshot())
}

fn is_gone(resource: &Resource) -> bool {
    matches!(resource.state.load_state(), LoadState::Gone(_))
}

async fn settles(successors: &PendingReplacements) -> bool {
    timeout(Duration::from_millis(20), successors.settled()).await.is_ok()
}

#[tokio::test]
async fn the_old_store_is_served_until_the_new_one_is_complete() {
    let (mut successors, mut fresh) = (PendingReplacements::default(), Vec::new());
    let first = successors.choose(None, generation(1), &mut fresh);
    assert!(Arc::ptr_eq(&fresh[0], &first), "what nothing is served of is served at once");

    first.state.publish(ready());
    let served = successors.choose(Some(&first), generation(2), &mut fresh);
    assert!(Arc::ptr_eq(&served, &first), "the old store, while the new one is read");
    assert_eq!(fresh.len(), 2, "the new one is to be read");
    assert_eq!(*fresh[1].state.load_requests().borrow(), 1, "although no request came for it");
    assert!(!settles(&successors).await);

    let again = successors.choose(Some(&first), generation(2), &mut fresh);
    assert!(Arc::ptr_eq(&again, &first) && fresh.len() == 2, "another look changes nothing");

    let third = successors.choose(Some(&first), generation(3), &mut fresh);
    assert!(Arc::ptr_eq(&third, &first) && fresh.len() == 3, "another change while the last one is read");
    assert!(is_gone(&fresh[1]), "what it replaces is not read on");

    fresh[2].state.publish(ready());
    assert!(settles(&successors).await);
    let promoted = successors.choose(Some(&first), generation(3), &mut fresh);
    assert!(Arc::ptr_eq(&promoted, &fresh[2]) && fresh.len() == 3, "the new store takes its place");
    assert!(!settles(&successors).await, "nothing is awaited any more");
}

#[tokio::test]
async fn what_may_not_be_read_any_more_is_not_served_on() {
    let (mut successors, mut fresh) = (PendingReplacements::default(), Vec::new());
    let first = successors.choose(None, generation(1), &mut fresh);
    first.state.publish(ready());
    successors.choose(Some(&first), generation(2), &mut fresh);
    fresh[1].state.publish(LoadState::SourceError { code: 403, message: "no".to_owned() });
    assert!(settles(&successors).await);
    let served = successors.choose(Some(&first), generation(2), &mut fresh);
    assert!(Arc::ptr_eq(&served, &fresh[1]));
}

#[tokio::test]
async fn what_is_not_served_any_more_is_not_read_on() {
    let (mut successors, mut fresh) = (PendingReplacements::default(), Vec::new());
    let first = successors.choose(None, generation(1), &mut fresh);
    first.state.publish(ready());
    successors.choose(Some(&first), generation(2), &mut fresh);
    successors.retain(std::slice::from_ref(&first));
    assert!(!is_gone(&fresh[1]), "the resource is served still");
    successors.retain(&[]);
    assert!(is_gone(&fresh[1]));

    successors.choose(Some(&first), generation(3), &mut fresh);
    successors.cancel(&first.gvr);
    assert!(is_gone(&fresh[2]), "the definition is again what it was");
}
