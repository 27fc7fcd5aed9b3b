//! Whose large list is answered next: places shared fairly between users. Pure: no lock, no clock, nobody waits here.
//!
//! Bounded are the lists in flight, their bytes together, and how many of one user wait. A place that comes free goes to the
//! waiting user who has the fewest, and among equals to the one whose last turn was longest ago; within a user it is first
//! come, first served. Whoever has none in flight gets one at once, whatever others have taken: so one user's flood, or
//! readers who never finish, take all places but never another user's first. That goes beyond the bound by at most one
//! list a user, which is the price of never having to take a place away again.
//!
//! One list that is larger than all bytes together is answered when nothing else is in flight. Nobody overtakes whoever is
//! next, small as his list may be, or large ones would wait for ever.

use std::collections::{HashMap, VecDeque};

use super::User;

/// How much there is to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lists in flight.
    pub lists: usize,
    /// Their bytes together.
    pub bytes: u64,
    /// Lists of one user that wait.
    pub waiting: usize,
}

/// What came of a request for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It has one.
    Now,
    /// It waits for its turn, which [`Turns::leave`] or [`Turns::give_up`] of another announces.
    Waits,
    /// So many of this user wait already that it is refused.
    Refused(Scarce),
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// Lists in flight.
    Lists,
    /// Bytes in flight.
    Bytes,
}

/// Names one list; the caller's numbers.
pub type Ticket = u64;

/// Who has a place and who waits for one.
#[derive(Debug)]
pub struct Turns {
    bounds: Bounds,
    lists: usize,
    bytes: u64,
    /// Only users who have or want something.
    users: HashMap<User, Held>,
    /// Counts the turns.
    turns: u64,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Held {
    lists: usize,
    waiting: VecDeque<(Ticket, u64)>,
    /// The number of the last turn.
    last: u64,
}

impl Turns {
    /// Everything free.
    pub fn new(bounds: Bounds) -> Turns {
        Turns { bounds, lists: 0, bytes: 0, users: HashMap::new(), turns: 0, waiting: 0 }
    }

    /// How much there is.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Lists in flight.
    pub fn lists(&self) -> usize {
        self.lists
    }

    /// Bytes in flight.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lists that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Lists of a user in flight, and waiting.
    pub fn of(&self, user: &User) -> (usize, usize) {
        self.users.get(user).map_or((0, 0), |held| (held.lists, held.waiting.len()))
    }

    /// A list of so many bytes wants a place.
    pub fn enter(&mut self, user: &User, ticket: Ticket, bytes: u64) -> Entered {
        let (lists, waiting) = self.of(user);
        let is_first = lists == 0 && waiting == 0;
        if is_first || (self.waiting == 0 && self.fits(bytes)) {
            self.grant(user, bytes);
            return Entered::Now;
        }
        if waiting >= self.bounds.waiting {
            return Entered::Refused(self.scarce());
        }
        self.users.entry(user.clone()).or_default().waiting.push_back((ticket, bytes));
        self.waiting += 1;
        Entered::Waits
    }

    /// A list of so many bytes is done; answers whose turn it is now.
    pub fn leave(&mut self, user: &User, bytes: u64) -> Vec<Ticket> {
        if let Some(held) = self.users.get_mut(user) {
            held.lists = held.lists.saturating_sub(1);
            self.lists = self.lists.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        self.forget_if_idle(user);
        self.next_turns()
    }

    /// A list does not wait any longer; `None` when it did not, as its turn had come. Answers whose turn it is now.
    pub fn give_up(&mut self, user: &User, ticket: Ticket) -> Option<Vec<Ticket>> {
        let held = self.users.get_mut(user)?;
        let place = held.waiting.iter().position(|(waiting, _)| *waiting == ticket)?;
        held.waiting.remove(place);
        self.waiting -= 1;
        self.forget_if_idle(user);
        Some(self.next_turns())
    }

    /// What is used up, as far as it is.
    pub fn scarce(&self) -> Scarce {
        if self.lists >= self.bounds.lists { Scarce::Lists } else { Scarce::Bytes }
    }

    fn fits(&self, bytes: u64) -> bool {
        let is_alone = self.lists == 0;
        is_alone || (self.lists < self.bounds.lists && self.bytes.saturating_add(bytes) <= self.bounds.bytes)
    }

    fn grant(&mut self, user: &User, bytes: u64) {
        self.turns += 1;
        let held = self.users.entry(user.clone()).or_default();
        held.lists += 1;
        held.last = self.turns;
        self.lists += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Gives out what is free. Looks at every user who waits, at each turn: users are few beside lists.
    fn next_turns(&mut self) -> Vec<Ticket> {
        let mut turns = Vec::new();
        loop {
            let waiting = self.users.iter().filter(|(_, held)| !held.waiting.is_empty());
            let Some((user, held)) = waiting.min_by_key(|(_, held)| (held.lists, held.last)) else { break };
            let Some((ticket, bytes)) = held.waiting.front().copied() else { break };
            if held.lists > 0 && !self.fits(bytes) {
                break;
            }
            let user = user.clone();
            if let Some(held) = self.users.get_mut(&user) {
                held.waiting.pop_front();
            }
            self.waiting -= 1;
            self.grant(&user, bytes);
            turns.push(ticket);
        }
        turns
    }

    fn forget_if_idle(&mut self, user: &User) {
        if self.users.get(user).is_some_and(|held| held.lists == 0 && held.waiting.is_empty()) {
            self.users.remove(user);
        }
    }
}
