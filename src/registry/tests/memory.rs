//! What stores hold together, and the limit that another one gets.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::{prop_assert_eq, proptest};

use crate::model::quantity::Bytes;
use crate::registry::{Memory, OverMemory};

fn limited(limit: u64) -> Arc<Memory> {
    Arc::new(Memory::new(Some(Bytes(limit))))
}

#[test]
fn another_store_is_refused_at_the_limit_and_one_that_was_let_go_until_there_is_room_for_it() {
    let memory = limited(100);
    let mut account = memory.open();
    for (bytes_held, needed, refused, why) in [
        (0, 0, false, "nothing is held"),
        (99, 0, false, "there is some room"),
        (100, 0, true, "there is none"),
        (40, 59, false, "what it needs fits"),
        (40, 60, true, "it needs more than what it was let go at"),
        (300, 0, true, "what is served has grown"),
    ] {
        account.set(bytes_held);
        let over = OverMemory { limit: Bytes(100), held: Bytes(bytes_held), needed: Bytes(needed) };
        assert_eq!(memory.rejection(Bytes(needed)), refused.then_some(over), "{why}");
    }
    drop(account);
    assert_eq!(memory.held(), Bytes(0), "what goes gives back what it held");
    assert_eq!(Arc::new(Memory::default()).rejection(Bytes(u64::MAX)), None, "no limit");
}

#[test]
fn crossing_the_limit_is_reported_once_until_there_was_room_again() {
    let memory = limited(100);
    let (mut first, mut second) = (memory.open(), memory.open());
    assert!(!first.set(60));
    assert!(!second.set(40), "exactly the limit is not above it");
    assert!(second.set(41));
    assert!(memory.is_over());
    assert!(!second.set(90) && !first.set(61), "it was above it before");
    assert!(!second.set(0));
    assert!(second.set(40));
}

/// A user who may create objects of one resource must not end the process, nor the stores of others.
#[tokio::test]
async fn far_past_the_limit_the_store_that_has_grown_most_is_let_go_and_no_other() {
    let memory = limited(100);
    let (mut steady, mut grown, mut late) = (memory.open_store(), memory.open_store(), memory.open_store());
    let mut index = memory.open();
    steady.set(80);
    steady.note_served();
    grown.set(10);
    grown.note_served();
    grown.note_served();
    grown.set(50);
    index.set(20);
    assert!(!steady.must_unload() && !grown.must_unload(), "exactly half as much again");
    steady.set(85);
    assert!(!steady.must_unload() && grown.must_unload(), "it has grown by 40, the largest by 5");
    grown.unload_notice().notified().await;
    steady.set(200);
    assert!(!steady.must_unload(), "room is about to be made");
    drop(grown);
    late.set(100);
    assert!(steady.must_unload(), "it did not suffice, and one that is not served yet is refused otherwise");
    drop(steady);
    index.set(300);
    assert!(!late.must_unload(), "what has not grown is not let go for what others hold");
}

proptest! {
    #[test]
    fn the_sum_is_that_of_all_accounts(steps in vec((0usize..5, 0u64..1_000, 0u8..8), 0..60)) {
        let memory = limited(500);
        let mut accounts: Vec<_> = (0..5).map(|_| (memory.open(), 0)).collect();
        for (place, bytes, chance) in steps {
            let before: u64 = accounts.iter().map(|(_, bytes)| bytes).sum();
            if chance == 0 {
                accounts[place] = (memory.open(), 0);
            } else {
                let crossed = accounts[place].0.set(bytes);
                accounts[place].1 = bytes;
                let after: u64 = accounts.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(crossed, before <= 500 && after > 500);
            }
            let sum: u64 = accounts.iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(memory.held(), Bytes(sum));
        }
    }
}
