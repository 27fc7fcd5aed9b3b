//! Parts of objects from many readers, and the room that they share.

use std::sync::Arc;

use bytes::Bytes;

use crate::source::pages::{Page, PageError};
use crate::source::unfinished::{ALWAYS, MOST, UnfinishedBudget, UnfinishedShare};
use crate::source::watch_decoder::Lines;

#[test]
fn long_parts_share_one_budget_and_short_ones_need_none() {
    let room = Arc::<UnfinishedBudget>::default();
    let mut readers: Vec<UnfinishedShare> = (0..3).map(|_| UnfinishedShare::new(&room)).collect();
    assert!(readers[0].hold(ALWAYS + MOST - 10));
    assert!(readers[1].hold(ALWAYS), "it is short");
    assert!(readers[1].hold(ALWAYS + 10));
    assert!(!readers[2].hold(ALWAYS + 1), "there is no room left");
    assert!(!readers[0].hold(ALWAYS + MOST), "nor for more of the first one");
    assert!(readers[0].hold(ALWAYS + 5), "less is always possible");
    assert!(readers[2].hold(ALWAYS + MOST - 15));
    assert!(!readers[1].hold(ALWAYS + 11));
    drop(readers.pop());
    assert!(readers[1].hold(ALWAYS + 11), "what a reader held is free when it ends");
}

#[test]
fn pages_and_lines_give_up_an_item_for_which_there_is_no_room() {
    let room = Arc::<UnfinishedBudget>::default();
    let mut taken = UnfinishedShare::new(&room);
    let megabyte = Bytes::from(vec![b'x'; 1 << 20]);
    let mut line = Lines::with_budget(&room);
    let push = |line: &mut Lines| {
        line.push(megabyte.clone());
        assert_eq!(line.next_line(), None);
        line.reserve_memory()
    };
    assert!((0..4).all(|_| push(&mut line)), "a short line");
    assert!(taken.hold(ALWAYS + MOST));
    assert!((0..8).any(|_| !push(&mut line)), "a long one");
    drop(line);

    let mut page = Page::with_budget(&room);
    let mut chunks =
        std::iter::once(Bytes::from_static(br#"{"items":[{"a":""#)).chain(std::iter::repeat_n(megabyte, 12));
    let ended = chunks.find_map(|chunk| {
        page.push(chunk);
        page.next_item().err()
    });
    assert_eq!(ended, Some(PageError::NoRoom));
}

#[test]
fn an_item_that_is_complete_holds_no_room() {
    let room = Arc::<UnfinishedBudget>::default();
    let (mut page, mut lines) = (Page::with_budget(&room), Lines::with_budget(&room));
    let half = "x".repeat(ALWAYS);
    for chunk in [format!(r#"{{"items":["{half}"#), format!(r#"{half}""#), ",".to_owned()] {
        page.push(Bytes::from(chunk));
        while page.next_item().unwrap().is_some() {}
    }
    for chunk in [&half, &half, "\n"] {
        lines.push(Bytes::copy_from_slice(chunk.as_bytes()));
        while lines.next_line().is_some() {}
        assert!(lines.reserve_memory());
    }
    assert!(UnfinishedShare::new(&room).hold(ALWAYS + MOST), "all of it is free");
}
