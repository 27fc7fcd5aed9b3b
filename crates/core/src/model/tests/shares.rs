//! Shares of a quantity: never more than there is, and always some for the next user.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::prop_oneof;
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::model::shares::{Share, Shares};

proptest! {
    #[test]
    fn a_user_holds_at_most_the_free_amount(steps in vec((0u8..20, prop_oneof![0u64..400, 0u64..40], 0u8..4, 0usize..20), 0..80)) {
        const MOST: u64 = 1000;
        const FIRST: u64 = 30;
        let shares = Arc::new(Shares::new(MOST, FIRST));
        let mut taken: Vec<(u8, u64, Share<String>)> = Vec::new();
        for (who, amount, action, place) in steps {
            // The amount that is free for all other users, or a first amount out of the reserve.
            let may_have = |of_user: u64, more: u64, total: u64| {
                of_user + more <= MOST.saturating_sub(total) || (of_user + more <= FIRST && total + more <= MOST + MOST / 4)
            };
            let total: u64 = taken.iter().map(|(_, amount, _)| amount).sum();
            let of = |who: u8| -> u64 { taken.iter().filter(|(owner, ..)| *owner == who).map(|(_, amount, _)| amount).sum() };
            match action {
                0 | 3 => {
                    let share = shares.take(&who.to_string(), amount);
                    prop_assert_eq!(share.is_some(), may_have(of(who), amount, total), "{} of {}", amount, who);
                    taken.extend(share.map(|share| (who, amount, share)));
                }
                1 if place < taken.len() => {
                    let owner = taken[place].0;
                    let missing = amount.saturating_sub(taken[place].1);
                    let may = missing == 0 || may_have(of(owner), missing, total);
                    let (_, before, share) = &mut taken[place];
                    prop_assert_eq!(share.raise(amount), may, "{} to {}", before, amount);
                    *before += if may { missing } else { 0 };
                }
                _ if place < taken.len() => drop(taken.swap_remove(place)),
                _ => {}
            }
            let mut users: HashMap<u8, u64> = HashMap::new();
            for (who, amount, _) in &taken {
                *users.entry(*who).or_default() += amount;
            }
            prop_assert_eq!(shares.total(), users.values().sum::<u64>());
            prop_assert!(users.iter().all(|(who, amount)| shares.amount_of(&who.to_string()) == *amount));
            prop_assert!(shares.total() < MOST || users.len() > 1, "alone a user leaves a part");
        }
    }
}

#[test]
fn a_dozen_users_leave_the_next_one_its_first_amount() {
    let shares = Arc::new(Shares::new(1000, 5));
    let mut taken = Vec::new();
    for user in 0..12 {
        let name = format!("greedy-{user}");
        // As much as there is, in ever smaller steps.
        for amount in [500, 250, 100, 50, 20, 10, 5, 2, 1] {
            while let Some(share) = shares.take(&name, amount) {
                taken.push(share);
            }
        }
    }
    let next: Vec<_> = ["a", "b", "c"].into_iter().filter_map(|user| shares.take(&user.to_owned(), 5)).collect();
    assert_eq!(next.len(), 3, "{} are held", shares.total());
    assert!(shares.take(&"a".to_owned(), 5).is_none(), "once");
    assert!(shares.total() <= 1250, "{}", shares.total());
}
