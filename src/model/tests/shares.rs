//! Shares of a quantity: never more than there is, and always some for the next user.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::model::shares::{Share, Shares};

proptest! {
    #[test]
    fn a_user_holds_at_most_what_is_free(steps in vec((0u8..4, 0u64..400, 0u8..3, 0usize..8), 0..80)) {
        const MOST: u64 = 1000;
        let shares = Arc::new(Shares::new(MOST));
        let mut held: Vec<(u8, u64, Share<String>)> = Vec::new();
        for (who, amount, action, place) in steps {
            let total: u64 = held.iter().map(|(_, amount, _)| amount).sum();
            let of = |who: u8| -> u64 { held.iter().filter(|(owner, ..)| *owner == who).map(|(_, amount, _)| amount).sum() };
            match action {
                0 => {
                    let share = shares.take(&who.to_string(), amount);
                    prop_assert_eq!(share.is_some(), of(who) + amount <= MOST - total, "{} of {}", amount, who);
                    held.extend(share.map(|share| (who, amount, share)));
                }
                1 if place < held.len() => {
                    let owner = held[place].0;
                    let missing = amount.saturating_sub(held[place].1);
                    let may = missing == 0 || of(owner) + missing <= MOST - total;
                    let (_, before, share) = &mut held[place];
                    prop_assert_eq!(share.raise(amount), may, "{} to {}", before, amount);
                    *before += if may { missing } else { 0 };
                }
                _ if place < held.len() => drop(held.swap_remove(place)),
                _ => {}
            }
            let mut users: HashMap<u8, u64> = HashMap::new();
            for (who, amount, _) in &held {
                *users.entry(*who).or_default() += amount;
            }
            prop_assert_eq!(shares.total(), users.values().sum::<u64>());
            prop_assert!(users.iter().all(|(who, amount)| shares.of(&who.to_string()) == *amount));
            prop_assert!(shares.total() < MOST || users.len() > 1, "alone a user leaves a part");
        }
    }
}
