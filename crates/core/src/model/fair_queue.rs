//! A fair queue: decides which user is next when a resource is scarce. All fair queues of the server use it. It is
//! pure: no lock, no clock, no waiting.
//!
//! Queues differ in when places are free again:
//!
//! - Large lists and reviews hold a place until they are done, and lists also bytes ([`Places::UntilLeft`];
//!   `crate::fair_semaphore` suspends and wakes the requests). The next place goes to the waiting user with the fewest
//!   places, and among equals to the one whose last turn is longest ago. Beyond the bound there are places for users
//!   without one ([`Bounds::first_places`]). So requests that never finish can take all other places, but never another
//!   user's first.
//! - Seats are all free again together, at the end of a round ([`Places::ForOneRound`]). A place goes to the waiting
//!   user with the least use. Use is counted as in start-time fair queueing. An idle user starts at the level of the
//!   user served last, so idle time gives no credit. Unpaid use is remembered until the other users have used as much.
//!   The bound is never exceeded, except by one request that is larger than all places. A user whose turns cost more
//!   than they were granted gets fewer of them in a round. Otherwise a round would last as long as all these turns
//!   together. The cost of a user's turns is unknown before the first one, so granted turns can be taken back. Once a
//!   round has cost twice its places, only its first turn is still used ([`FairQueue::take_back`]). Of users with equal
//!   use, the one who came last is next. Otherwise a hundred users with long turns would all come before a user who
//!   rarely comes. No user waits forever: after a turn, a user has used more than those who still wait for their first.
//!
//! Within a user it is first come, first served. No request overtakes the one that is next, even if it would fit:
//! otherwise large requests would wait forever.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

/// When places are free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Each when its holder leaves.
    UntilLeft,
    /// All of them, with [`FairQueue::next_round`].
    ForOneRound,
}

/// The amounts that all users share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Places taken at a time, or in a round.
    pub places: u64,
    /// Places beyond these for users who have none; with [`Places::UntilLeft`] only. Bytes do not bound them.
    pub first_places: u64,
    /// Bytes of those who have places.
    pub bytes: u64,
    /// Requests of one user that wait.
    pub waiting: usize,
    /// Requests that wait together. Beyond it only a user without a waiting request may wait.
    pub waiting_together: usize,
}

/// The places and bytes that one request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Places.
    pub places: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The result of requesting a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The request has its place.
    Granted,
    /// The request waits, until [`FairQueue::release`], [`FairQueue::cancel`] or [`FairQueue::next_round`] returns its
    /// ticket.
    Queued,
    /// Too many requests wait already.
    Rejected(Scarce),
}

/// The amount that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// Places.
    Places,
    /// Bytes.
    Bytes,
}

/// The number of one request, assigned by the caller.
pub type Ticket = u64;

/// The users with places, and the waiting requests. A user is any key.
#[derive(Debug)]
pub struct FairQueue<User> {
    kind: Places,
    bounds: Bounds,
    places: u64,
    bytes: u64,
    /// Users who have places, wait for one, or used more than they were granted.
    users: HashMap<User, Share>,
    /// Users who wait, the next one first.
    order: BTreeSet<(Rank, User)>,
    /// The number of turns granted, or the use of the user served last.
    now: u64,
    /// The first turn of this round.
    first: Option<Ticket>,
    /// The cost of the turns of this round beyond the places they were granted.
    overdrawn: u64,
    waiting: usize,
}

/// Places of a user, the user's use, and the order among equals.
type Rank = (u64, u64, u64);

#[derive(Debug, Default)]
struct Share {
    places: u64,
    waiting: VecDeque<(Ticket, Cost)>,
    /// The number of the last turn, or the total use.
    used: u64,
    /// The expected cost of a turn beyond its places, from the cost of earlier turns.
    beyond: u64,
    /// The order among users who have used the same, from the request that began to wait.
    precedence: u64,
}

impl Share {
    /// The sort key of users: a user with less comes first.
    fn rank(&self) -> Rank {
        (self.places, self.used, self.precedence)
    }
}

impl<User: Clone + Eq + Hash + Ord> FairQueue<User> {
    /// An empty queue.
    pub fn new(kind: Places, bounds: Bounds) -> FairQueue<User> {
        let (users, order) = (HashMap::new(), BTreeSet::new());
        FairQueue { kind, bounds, places: 0, bytes: 0, users, order, now: 0, first: None, overdrawn: 0, waiting: 0 }
    }

    /// The bounds of the queue.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The number of places in use.
    pub fn places(&self) -> u64 {
        self.places
    }

    /// The bytes of requests that have places.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The number of users in the queue's memory.
    pub fn users(&self) -> usize {
        self.users.len()
    }

    /// The number of places of a user, and of the user's waiting requests.
    pub fn usage_of(&self, user: &User) -> (u64, usize) {
        self.users.get(user).map_or((0, 0), |share| (share.places, share.waiting.len()))
    }

    /// Grants a place, or queues the request.
    pub fn enter(&mut self, user: &User, ticket: Ticket, cost: Cost) -> Entered {
        let (places, waiting) = self.usage_of(user);
        let is_first = places == 0 && waiting == 0 && self.has_first_place();
        if is_first || (self.waiting == 0 && self.fits(cost)) {
            self.grant(user, cost);
            return Entered::Granted;
        }
        self.wait(user, ticket, cost)
    }

    /// Queues a request, unless too many wait.
    pub fn wait(&mut self, user: &User, ticket: Ticket, cost: Cost) -> Entered {
        let waiting = self.usage_of(user).1;
        let is_full = self.waiting >= self.bounds.waiting_together && waiting > 0;
        if is_full || waiting >= self.bounds.waiting {
            return Entered::Rejected(self.scarce());
        }
        self.go_on(user, ticket, cost);
        Entered::Queued
    }

    /// Grants a further place to a request, or queues it. It is never rejected: the bounds counted it when it came.
    pub fn go_on(&mut self, user: &User, ticket: Ticket, cost: Cost) {
        let (kind, now) = (self.kind, self.now);
        self.waiting += 1;
        self.change(user, |share| {
            if share.waiting.is_empty() {
                share.precedence = precedence(kind, ticket);
                if kind == Places::ForOneRound || share.places == 0 {
                    share.used = share.used.max(now);
                }
            }
            share.waiting.push_back((ticket, cost));
        });
    }

    /// Counts places that a request used beyond those it was granted. They count against the next turns of its user.
    pub fn charge(&mut self, user: &User, places: u64) {
        let now = self.now;
        self.places = self.places.saturating_add(places);
        self.overdrawn = self.overdrawn.saturating_add(places);
        self.change(user, |share| {
            share.used = share.used.max(now).saturating_add(places);
            share.beyond = share.beyond.midpoint(places);
        });
    }

    /// Takes an unused granted turn back if the round has cost too much already; returns whether it did. The request
    /// waits again, before later ones of its user: tickets of later requests are larger numbers.
    ///
    /// The turns of a round are granted before their cost is known. Without this, all of them would be used however
    /// long they take, and other users would wait. The first turn of a round is never taken back, so each round serves
    /// the user with the least use.
    pub fn take_back(&mut self, user: &User, ticket: Ticket, cost: Cost) -> bool {
        if self.overdrawn <= self.bounds.places || self.first == Some(ticket) {
            return false;
        }
        let (kind, now) = (self.kind, self.now);
        self.waiting += 1;
        self.change(user, |share| {
            if share.waiting.is_empty() {
                share.precedence = precedence(kind, ticket);
                share.used = share.used.max(now);
            }
            share.used = share.used.saturating_sub(cost.places);
            let place = share.waiting.partition_point(|(waiting, _)| *waiting < ticket);
            share.waiting.insert(place, (ticket, cost));
        });
        true
    }

    /// Frees the place of a request; returns the tickets whose turn it is now.
    pub fn release(&mut self, user: &User, cost: Cost) -> Vec<Ticket> {
        if self.users.contains_key(user) {
            self.change(user, |share| share.places = share.places.saturating_sub(cost.places));
            self.places = self.places.saturating_sub(cost.places);
            self.bytes = self.bytes.saturating_sub(cost.bytes);
        }
        self.next_turns()
    }

    /// Ends a round: all places are free again. Returns the tickets whose turn it is.
    pub fn next_round(&mut self) -> Vec<Ticket> {
        (self.places, self.bytes, self.overdrawn) = (0, 0, 0);
        let turns = self.next_turns();
        self.first = turns.first().copied();
        // Without waiting users there is nothing to compare with.
        let (now, waiting) = (self.now, self.waiting);
        self.users.retain(|_, share| !share.waiting.is_empty() || (waiting > 0 && share.used > now));
        turns
    }

    /// Removes a waiting request; `None` if it did not wait. Returns the tickets whose turn it is now.
    pub fn cancel(&mut self, user: &User, ticket: Ticket) -> Option<Vec<Ticket>> {
        let share = self.users.get(user)?;
        let place = share.waiting.iter().position(|(waiting, _)| *waiting == ticket)?;
        self.change(user, |share| _ = share.waiting.remove(place));
        self.waiting -= 1;
        // Places of a round are given out at its beginning only.
        Some(if self.kind == Places::UntilLeft { self.next_turns() } else { Vec::new() })
    }

    /// Which of places and bytes is used up.
    pub fn scarce(&self) -> Scarce {
        if self.places >= self.bounds.places { Scarce::Places } else { Scarce::Bytes }
    }

    /// Whether these costs fit into the bounds now. A single request always fits.
    fn fits(&self, cost: Cost) -> bool {
        let is_alone = self.places == 0;
        let has_place = self.places.saturating_add(cost.places) <= self.bounds.places;
        is_alone || (has_place && self.bytes.saturating_add(cost.bytes) <= self.bounds.bytes)
    }

    /// Whether there is a place for a user who has none.
    fn has_first_place(&self) -> bool {
        self.kind == Places::UntilLeft && self.places < self.bounds.places.saturating_add(self.bounds.first_places)
    }

    /// The places that must be free for a request: a guess that shrinks with each turn that costs less.
    fn expected(&self, user: &User, cost: Cost) -> Cost {
        let beyond = self.users.get(user).map_or(0, |share| share.beyond);
        Cost { places: cost.places.saturating_add(beyond), ..cost }
    }

    /// Counts the costs of a request that may run.
    fn grant(&mut self, user: &User, cost: Cost) {
        self.places = self.places.saturating_add(self.expected(user, cost).places);
        self.bytes = self.bytes.saturating_add(cost.bytes);
        match self.kind {
            Places::UntilLeft => {
                self.now += 1;
                let turn = self.now;
                self.change(user, |share| (share.places, share.used) = (share.places + cost.places, turn));
            }
            Places::ForOneRound => {
                let mut now = self.now;
                self.change(user, |share| {
                    now = now.max(share.used);
                    share.used = now.saturating_add(cost.places);
                    share.beyond -= share.beyond.div_ceil(8);
                });
                self.now = now;
            }
        }
    }

    /// Grants free places to waiting requests, and returns their tickets.
    fn next_turns(&mut self) -> Vec<Ticket> {
        let mut turns = Vec::new();
        while let Some((rank, user)) = self.order.first() {
            let user = user.clone();
            let is_first = rank.0 == 0 && self.has_first_place();
            let next = self.users.get(&user).and_then(|share| share.waiting.front().copied());
            let fits = |cost: Cost| is_first || self.fits(self.expected(&user, cost));
            let Some((ticket, cost)) = next.filter(|(_, cost)| fits(*cost)) else { break };
            self.waiting -= 1;
            // Its use is counted first: a user who neither waits nor owes is forgotten.
            self.grant(&user, cost);
            self.change(&user, |share| _ = share.waiting.pop_front());
            turns.push(ticket);
        }
        turns
    }

    /// Changes the state of a user, and updates the order and the map.
    fn change(&mut self, user: &User, change: impl FnOnce(&mut Share)) {
        let share = self.users.entry(user.clone()).or_default();
        let (was_waiting, before) = (!share.waiting.is_empty(), share.rank());
        change(share);
        let (is_waiting, after) = (!share.waiting.is_empty(), share.rank());
        let owes = self.kind == Places::ForOneRound && share.used > self.now;
        let is_idle = share.places == 0 && !is_waiting && !owes;
        if was_waiting && (before != after || !is_waiting) {
            self.order.remove(&(before, user.clone()));
        }
        if is_waiting && (before != after || !was_waiting) {
            self.order.insert((after, user.clone()));
        }
        if is_idle {
            self.users.remove(user);
        }
    }
}

/// The order among users with equal use. Places that are held for long go to the user who has waited longest.
fn precedence(kind: Places, ticket: Ticket) -> u64 {
    match kind {
        Places::UntilLeft => ticket,
        Places::ForOneRound => u64::MAX - ticket,
    }
}
