//! A quantity that users share: a user may hold as much as is free for everyone else. A user is any key.
//!
//! A single user can hold at most half, each of two users a third, and so on. Users belong to tenants ([`Flow`]), and
//! these rules apply to tenants first. Within its tenant, a user may hold as much as the tenant may still take beyond
//! what all of its users hold. Otherwise a tenant that can create users could hold almost everything.
//!
//! A dozen tenants could still leave almost nothing for the next one. Therefore a user may also have a small first
//! amount, independent of the others, out of a reserve of a quarter of the maximum. Half of the reserve is for tenants
//! that hold nothing beyond such an amount. A tenant that holds more exceeds its own part by the other half at most.
//! The sum never exceeds five quarters of the maximum. Nothing waits here: a request that gets no share is rejected,
//! and its client repeats it. Nothing is taken from users with more than an equal part, because that would end requests
//! in progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::flow::Flow;

/// A quantity, and the amount of it that each user holds.
#[derive(Debug)]
pub struct Shares<User> {
    /// The maximum of all users together, without the reserve.
    most: u64,
    /// The amount up to which a user may use the reserve.
    first: u64,
    in_use: Mutex<SharesInUse<User>>,
}

/// The reserve is the maximum divided by this number.
const RESERVE: u64 = 4;

#[derive(Debug)]
struct SharesInUse<User> {
    total: u64,
    /// Only users who hold something.
    users: HashMap<User, u64>,
    /// The sums of the users of each tenant.
    tenants: HashMap<User, u64>,
}

impl<User: Flow> SharesInUse<User> {
    /// Adds to what a user holds, and to the sums.
    fn add(&mut self, user: &User, amount: u64) {
        if amount == 0 {
            return;
        }
        self.total += amount;
        *self.users.entry(user.clone()).or_default() += amount;
        *self.tenants.entry(user.tenant()).or_default() += amount;
    }

    /// Subtracts from what a user holds, and from the sums.
    fn subtract(&mut self, user: &User, amount: u64) {
        self.total -= amount;
        for (amounts, key) in [(&mut self.users, user), (&mut self.tenants, &user.tenant())] {
            if let Some(held) = amounts.get_mut(key) {
                *held -= amount;
                if *held == 0 {
                    amounts.remove(key);
                }
            }
        }
    }
}

/// The amount that one request holds; free again when dropped.
#[derive(Debug)]
pub struct Share<User: Flow> {
    shares: Arc<Shares<User>>,
    user: User,
    amount: u64,
}

impl<User: Flow> Shares<User> {
    /// A quantity of which nothing is in use. `most` is the maximum of all users together. `first` is the amount that a
    /// user may take even if the others hold everything else.
    pub fn new(most: u64, first: u64) -> Shares<User> {
        let in_use = SharesInUse { total: 0, users: HashMap::new(), tenants: HashMap::new() };
        Shares { most, first, in_use: Mutex::new(in_use) }
    }

    /// The maximum of all users together, without the reserve.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The amount that all users hold.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// The amount that a user holds.
    pub fn amount_of(&self, user: &User) -> u64 {
        self.lock().users.get(user).copied().unwrap_or_default()
    }

    /// The amounts that all users and this user hold.
    pub fn total_and_amount_of(&self, user: &User) -> (u64, u64) {
        let in_use = self.lock();
        // Most of the time no user holds anything.
        let of_user = if in_use.total == 0 { 0 } else { in_use.users.get(user).copied().unwrap_or_default() };
        (in_use.total, of_user)
    }

    /// The amount that the user with the most holds.
    pub fn largest_amount(&self) -> u64 {
        self.lock().users.values().copied().max().unwrap_or_default()
    }

    /// Takes an amount for a user; `None` if it is more than the user may hold.
    pub fn take(self: &Arc<Shares<User>>, user: &User, amount: u64) -> Option<Share<User>> {
        let mut share = Share { shares: self.clone(), user: user.clone(), amount: 0 };
        share.grow(amount).then_some(share)
    }

    /// Whether a user may hold this much more.
    fn may_add(&self, in_use: &SharesInUse<User>, user: &User, amount: u64) -> bool {
        let held = |amounts: &HashMap<User, u64>, key: &User| amounts.get(key).copied().unwrap_or_default();
        let (of_user, of_tenant) = (held(&in_use.users, user), held(&in_use.tenants, &user.tenant()));
        let free = self.most.saturating_sub(in_use.total);
        let (user_after, tenant_after) = (of_user.saturating_add(amount), of_tenant.saturating_add(amount));
        // What other tenants leave is divided between this tenant and the next one, and then in the same way within it.
        let most_of_tenant = free.saturating_add(of_tenant) / 2;
        // If no other user of the tenant holds anything, there is nothing to divide within it.
        let fits_in_tenant = of_tenant == of_user || user_after <= most_of_tenant.saturating_sub(of_tenant);
        if tenant_after <= free && fits_in_tenant {
            return true;
        }
        // A first amount. A tenant that holds more already gets it out of half of the reserve.
        let (reserve, is_first) = (self.most / RESERVE, tenant_after <= self.first);
        let of_reserve = if is_first { reserve } else { reserve / 2 };
        user_after <= self.first
            && in_use.total.saturating_add(amount) <= self.most.saturating_add(of_reserve)
            && (is_first || tenant_after <= most_of_tenant.saturating_add(of_reserve))
    }

    /// Locks the amounts, also after a panic. They are consistent then too: code that holds the lock does not panic.
    fn lock(&self) -> MutexGuard<'_, SharesInUse<User>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<User: Flow> Share<User> {
    /// The amount of the share.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Raises the share to an amount, unless it is that high already. False, and the share stays as it is, if this is
    /// more than the user may hold.
    pub fn raise(&mut self, amount: u64) -> bool {
        amount <= self.amount || self.grow(amount - self.amount)
    }

    /// Adds an amount to the share. False, and the share stays as it is, if this is more than the user may hold.
    pub fn grow(&mut self, amount: u64) -> bool {
        let mut in_use = self.shares.lock();
        if !self.shares.may_add(&in_use, &self.user, amount) {
            return false;
        }
        in_use.add(&self.user, amount);
        self.amount += amount;
        true
    }
}

impl<User: Flow> Drop for Share<User> {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.shares.lock().subtract(&self.user, self.amount);
        }
    }
}
