//! Shares of a quantity: never more than there is, and always some for the next user.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::prop_oneof;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{TestUser, user_of};
use crate::model::shares::{Share, Shares};

const MOST: u64 = 1000;
const FIRST: u64 = 30;

/// The rules over a flat list of what is held: user and amount.
fn may_hold(held: &[(u8, u64)], tenant: impl Fn(u8) -> u8, user: u8, more: u64) -> bool {
    let sum = |counts: &dyn Fn(u8) -> bool| -> u64 {
        held.iter().filter(|(user, _)| counts(*user)).map(|(_, amount)| amount).sum()
    };
    let (total, of_user) = (sum(&|_| true), sum(&|other| other == user));
    let of_tenant = sum(&|other| tenant(other) == tenant(user));
    // What other tenants leave, and half of it for this tenant.
    let left = MOST.saturating_sub(total) + of_tenant;
    let is_fair_between_tenants = total <= MOST && of_tenant + more <= left - of_tenant;
    let is_fair_within = of_tenant == of_user || of_user + more + of_tenant <= left / 2;
    let is_first = of_user + more <= FIRST;
    let is_reserved = match of_tenant + more <= FIRST {
        true => total + more <= MOST + MOST / 4,
        false => total + more <= MOST + MOST / 8 && of_tenant + more <= left / 2 + MOST / 8,
    };
    is_fair_between_tenants && is_fair_within || is_first && is_reserved
}

proptest! {
    #[test]
    fn a_user_holds_at_most_the_free_amount(
        steps in vec((0u8..20, prop_oneof![0u64..400, 0u64..40], 0u8..4, 0usize..20), 0..80),
        users_per_tenant in 1u8..8,
    ) {
        let tenant = |user: u8| user / users_per_tenant;
        let user = |number: u8| user_of(tenant(number), number);
        let shares = Arc::new(Shares::new(MOST, FIRST));
        let mut taken: Vec<(u8, u64, Share<TestUser>)> = Vec::new();
        for (who, amount, action, place) in steps {
            let held: Vec<(u8, u64)> = taken.iter().map(|(who, amount, _)| (*who, *amount)).collect();
            match action {
                0 | 3 => {
                    let share = shares.take(&user(who), amount);
                    prop_assert_eq!(share.is_some(), may_hold(&held, tenant, who, amount), "{} of {}", amount, who);
                    taken.extend(share.map(|share| (who, amount, share)));
                }
                1 if place < taken.len() => {
                    let missing = amount.saturating_sub(taken[place].1);
                    let may = missing == 0 || may_hold(&held, tenant, taken[place].0, missing);
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
            prop_assert!(users.iter().all(|(who, amount)| shares.amount_of(&user(*who)) == *amount));
            let tenants: HashSet<u8> = users.keys().map(|who| tenant(*who)).collect();
            prop_assert!(shares.total() < MOST || tenants.len() > 1, "alone a tenant leaves a part");
            prop_assert!(shares.total() <= MOST + MOST / 4, "the reserve is bounded");
        }
    }
}

/// However many users a tenant has, half remains for others.
#[test]
fn the_users_of_one_tenant_hold_half_together() {
    let shares = Arc::new(Shares::new(MOST, 5));
    let mut taken = Vec::new();
    for user in 0..200 {
        for amount in [500, 250, 100, 50, 20, 10, 5, 2, 1] {
            while let Some(share) = shares.take(&user_of(0, user), amount) {
                taken.push(share);
            }
        }
    }
    assert!((400..=625).contains(&shares.total()), "half, and less than half of the reserve: {}", shares.total());
    assert!(shares.take(&user_of(1, 0), 180).is_some(), "another tenant has half of the rest at once");
}

#[test]
fn a_dozen_users_leave_the_next_one_its_first_amount() {
    let shares = Arc::new(Shares::new(1000, 5));
    let mut taken = Vec::new();
    for user in 0..12 {
        let name = user_of(user, user);
        // As much as there is, in ever smaller steps.
        for amount in [500, 250, 100, 50, 20, 10, 5, 2, 1] {
            while let Some(share) = shares.take(&name, amount) {
                taken.push(share);
            }
        }
    }
    let next: Vec<_> = [20, 21, 22].into_iter().filter_map(|user| shares.take(&user_of(user, user), 5)).collect();
    assert_eq!(next.len(), 3, "{} are held", shares.total());
    assert!(shares.take(&user_of(20, 20), 5).is_none(), "once");
    assert!(shares.total() <= 1250, "{}", shares.total());
}
