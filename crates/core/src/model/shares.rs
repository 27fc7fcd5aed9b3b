//! A quantity that users share: a user may hold as much as is free for everyone else. A user is any key.
//!
//! A single user can hold at most half, each of two users a third, and so on. A dozen users could thus leave almost
//! nothing for the next one. Therefore a user may also have a small first amount, independent of the other users, out
//! of a reserve of a quarter of the maximum. The sum never exceeds five quarters of the maximum. Nothing waits here: a
//! request that gets no share is rejected, and its client repeats it. Nothing is taken from users with more than an
//! equal part, because that would end requests in progress.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A quantity, and the amount of it that each user holds.
#[derive(Debug)]
pub struct Shares<User: Eq + Hash> {
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
}

/// The amount that one request holds; free again when dropped.
#[derive(Debug)]
pub struct Share<User: Clone + Eq + Hash> {
    shares: Arc<Shares<User>>,
    user: User,
    amount: u64,
}

impl<User: Clone + Eq + Hash> Shares<User> {
    /// A quantity of which nothing is in use. `most` is the maximum of all users together. `first` is the amount that a
    /// user may take even if the others hold everything else.
    pub fn new(most: u64, first: u64) -> Shares<User> {
        Shares { most, first, in_use: Mutex::new(SharesInUse { total: 0, users: HashMap::new() }) }
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

    /// Locks the amounts, also after a panic. They are consistent then too: code that holds the lock does not panic.
    fn lock(&self) -> MutexGuard<'_, SharesInUse<User>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<User: Clone + Eq + Hash> Share<User> {
    /// Raises the share to an amount, unless it is that high already. False, and the share stays as it is, if this is
    /// more than the user may hold.
    pub fn raise(&mut self, amount: u64) -> bool {
        amount <= self.amount || self.grow(amount - self.amount)
    }

    /// Adds an amount to the share. False, and the share stays as it is, if this is more than the user may hold.
    pub fn grow(&mut self, amount: u64) -> bool {
        let mut in_use = self.shares.lock();
        let free = self.shares.most.saturating_sub(in_use.total);
        let before = in_use.users.get(&self.user).copied().unwrap_or_default();
        let after = before.saturating_add(amount);
        let most = self.shares.most.saturating_add(self.shares.most / RESERVE);
        if after > free && (after > self.shares.first || in_use.total.saturating_add(amount) > most) {
            return false;
        }
        if amount > 0 {
            in_use.total += amount;
            in_use.users.insert(self.user.clone(), before + amount);
            self.amount += amount;
        }
        true
    }
}

impl<User: Clone + Eq + Hash> Drop for Share<User> {
    fn drop(&mut self) {
        let mut in_use = self.shares.lock();
        in_use.total -= self.amount;
        if let Some(of_user) = in_use.users.get_mut(&self.user) {
            *of_user -= self.amount;
            if *of_user == 0 {
                in_use.users.remove(&self.user);
            }
        }
    }
}
