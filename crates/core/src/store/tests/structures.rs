//! The persistent structures compared with simple ones, over enough steps that blocks split, join and change their
//! form. Every structure is compared twice: as it is, and as a copy that was taken in the middle and must not have
//! moved.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use proptest::prelude::{ProptestConfig, Strategy, any};
use proptest::{prop_assert, prop_assert_eq, proptest};
use roaring::RoaringBitmap;

use crate::store::copies::Copies;
use crate::store::order::Order;
use crate::store::slots::SlotSet;
use crate::store::terms::Terms;

/// Waves of steps: so many insertions or removals of neighbours (true) or of anything (false), so that whole blocks
/// come and go.
fn waves(most: u32) -> impl Strategy<Value = Vec<(bool, bool, u32, u16)>> {
    proptest::collection::vec((any::<bool>(), any::<bool>(), 0..most, 1u16..400), 1..14)
}

/// The numbers that a wave touches.
fn touched(is_run: bool, start: u32, count: u16, most: u32) -> impl Iterator<Item = u32> {
    (0..u32::from(count)).map(move |step| if is_run { (start + step) % most } else { (start + step * 7_919) % most })
}

proptest! {
    // Each case is thousands of steps.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_slot_set_is_a_set(waves in waves(200_000)) {
        let mut set = SlotSet::default();
        let mut model = BTreeSet::new();
        let mut kept = (set.clone(), model.clone());
        for (index, (inserts, is_run, start, count)) in waves.iter().enumerate() {
            if index == waves.len() / 2 {
                kept = (set.clone(), model.clone());
            }
            for slot in touched(*is_run, *start, *count, 200_000) {
                if *inserts {
                    prop_assert_eq!(set.insert(slot, &mut Copies::default()), model.insert(slot));
                } else {
                    prop_assert_eq!(set.remove(slot, &mut Copies::default()), model.remove(&slot));
                }
            }
        }
        for (set, model) in [(set, model), kept] {
            let expected: RoaringBitmap = model.iter().copied().collect();
            prop_assert_eq!(set.len(), expected.len());
            prop_assert_eq!(set.min(), expected.min());
            prop_assert!(set.to_bitmap() == expected, "the same slots");
            let other: RoaringBitmap = (0..200_000).step_by(3).collect();
            let mut both = other.clone();
            set.intersect(&mut both);
            prop_assert!(both == &other & &expected, "intersected");
            let mut rest = other.clone();
            set.subtract_from(&mut rest);
            prop_assert!(rest == &other - &expected, "subtracted");
            for step in [3, 1_009] {
                let other: RoaringBitmap = (0..200_000).step_by(step).collect();
                let same = SlotSet::from(other.clone());
                prop_assert!(same == (0..200_000).step_by(step).collect::<SlotSet>(), "divided into parts");
                let in_bits = set.intersection_len_in(&same.bits(), &same);
                prop_assert_eq!(in_bits, other.intersection_len(&expected), "every {}", step);
                prop_assert_eq!(set.intersection_len(&same), other.intersection_len(&expected), "every {}", step);
                prop_assert_eq!(same.intersection_len(&set), other.intersection_len(&expected), "every {}", step);
            }
            for slot in touched(false, 5, 50, 200_000) {
                prop_assert_eq!(set.contains(slot), expected.contains(slot));
            }
        }
    }

    #[test]
    fn a_term_dictionary_is_a_sorted_map(waves in waves(1_500)) {
        let mut terms = Terms::default();
        let mut model: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        let mut kept = (terms.clone(), model.clone());
        // Texts of different lengths, among them the empty one, and some values that many slots share. Some are so long
        // that few of them fill a block. The characters of some begin with the same byte.
        let text = |number: u32| match number % 977 {
            _ if number < 3 => "x".repeat(number as usize),
            value if value % 50 == 0 => format!("{value:x}-{}", "y".repeat(6_000)),
            value if value % 7 == 0 => format!("é{}", char::from_u32(0xe0 + value % 31).unwrap()),
            value => format!("{value:x}-{}", "y".repeat((value % 5) as usize)),
        };
        for (index, (inserts, is_run, start, count)) in waves.iter().enumerate() {
            if index == waves.len() / 2 {
                kept = (terms.clone(), model.clone());
            }
            for number in touched(*is_run, *start, *count, 1_500) {
                let (text, slot) = (text(number), number * 31 % 2_000);
                if *inserts {
                    terms.insert(&text, slot, &mut Copies::default());
                    model.entry(text).or_default().insert(slot);
                } else {
                    terms.remove(&text, slot, &mut Copies::default());
                    if let Some(slots) = model.get_mut(&text) {
                        slots.remove(&slot);
                        if slots.is_empty() {
                            model.remove(&text);
                        }
                    }
                }
            }
        }
        for (terms, model) in [(terms, model), kept] {
            prop_assert_eq!(terms.len(), model.len());
            prop_assert_eq!(terms.is_empty(), model.is_empty());
            let found: Vec<(String, Vec<u32>)> = terms.iter().map(|(text, posting)| (text.to_owned(), posting.to_bitmap().into_iter().collect())).collect();
            let expected: Vec<(String, Vec<u32>)> = model.iter().map(|(text, slots)| (text.clone(), slots.iter().copied().collect())).collect();
            prop_assert_eq!(&found, &expected);
            let back: Vec<&str> = terms.back_from(None).map(|(text, _)| text).collect();
            prop_assert!(back.iter().rev().eq(expected.iter().map(|(text, _)| text)), "backwards");
            for number in 0..1_600 {
                let text = text(number);
                let before = terms.back_from(Some(&text)).next().map(|(text, _)| text);
                prop_assert_eq!(before, model.range(..=text.clone()).next_back().map(|(text, _)| text.as_str()));
                prop_assert_eq!(terms.get(&text).map(|posting| posting.len()), model.get(&text).map(|slots| slots.len() as u64));
            }
        }
    }

    #[test]
    fn an_order_is_a_sorted_map(waves in waves(4_000)) {
        // Slot n has the n-th of these keys, which do not sort by number.
        let keys: Vec<String> = (0..4_000).map(|number| format!("{}/{number}", number * 7 % 13)).collect();
        let key_of = |slot: u32| keys[slot as usize].as_str();
        let mut order = Order::default();
        let mut model: BTreeMap<&str, u32> = BTreeMap::new();
        let mut kept = (order.clone(), model.clone());
        for (index, (inserts, is_run, start, count)) in waves.iter().enumerate() {
            if index == waves.len() / 2 {
                kept = (order.clone(), model.clone());
            }
            for slot in touched(*is_run, *start, *count, 4_000) {
                let key = key_of(slot);
                if *inserts && !model.contains_key(key) {
                    order.insert(key, slot, key_of, &mut Copies::default());
                    model.insert(key, slot);
                } else if !*inserts {
                    prop_assert_eq!(order.remove(key, key_of, &mut Copies::default()), model.remove(key));
                }
            }
        }
        for (order, model) in [(order, model), kept] {
            prop_assert_eq!(order.len(), model.len());
            let all: Vec<u32> = order.range(Bound::Unbounded, key_of).collect();
            prop_assert_eq!(&all, &model.values().copied().collect::<Vec<u32>>());
            for probe in ["", "0/", "12/999\0", "3/21", "5/", "7/3000", "~"].into_iter().chain(keys.iter().step_by(97).map(String::as_str)) {
                prop_assert_eq!(order.find(probe, key_of), model.get(probe).copied());
                prop_assert_eq!(order.rank(probe, key_of), model.range(..probe).count());
                let from: Vec<u32> = order.range(Bound::Included(probe), key_of).collect();
                prop_assert_eq!(from, model.range(probe..).map(|(_, slot)| *slot).collect::<Vec<u32>>());
                let after: Vec<u32> = order.range(Bound::Excluded(probe), key_of).collect();
                let expected = model.range::<str, _>((Bound::Excluded(probe), Bound::Unbounded));
                prop_assert_eq!(after, expected.map(|(_, slot)| *slot).collect::<Vec<u32>>());
            }
        }
    }
}
