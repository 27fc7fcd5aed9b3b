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
//! Users belong to tenants ([`Flow`]). A queue is fair between tenants first, and then between the users of each, by the
//! same rules. Otherwise a tenant that can create users would get a share for each of them. What is said of users above
//! holds for tenants too; only the bounds, and the places beyond the bound, go by user. The turns of a user whose cost
//! is unknown are expected to cost what those of its tenant did.
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

/// The user of a fair queue.
pub trait Flow: Clone + Eq + Hash + Ord {
    /// The tenant of the user, as a user that stands for all of them. The tenant of a tenant is itself.
    #[must_use]
    fn tenant(&self) -> Self;
}

/// The users with places, and the waiting requests.
#[derive(Debug)]
pub struct FairQueue<User> {
    kind: Places,
    bounds: Bounds,
    places: u64,
    bytes: u64,
    /// Tenants who have places, wait for one, or used more than they were granted.
    tenants: HashMap<User, Tenant<User>>,
    /// Tenants who wait, the next one first.
    order: BTreeSet<(TenantRank, User)>,
    /// The number of turns granted, or the use of the tenant served last.
    now: u64,
    /// The first turn of this round.
    first: Option<Ticket>,
    /// The cost of the turns of this round beyond the places they were granted.
    overdrawn: u64,
    waiting: usize,
}

/// The sort key of users: places, use, and the order among equals. A user with less comes first.
type Rank = (u64, u64, u64);

/// The sort key of tenants: whether the next user has places already, and the rank.
type TenantRank = (bool, Rank);

/// What a user or a tenant uses.
#[derive(Debug, Default)]
struct Usage {
    places: u64,
    /// The number of the last turn, or the total use.
    used: u64,
    /// The expected cost of a turn beyond its places, from the cost of earlier turns.
    beyond: u64,
}

impl Usage {
    /// A first request begins to wait.
    fn begin(&mut self, kind: Places, now: u64) {
        if kind == Places::ForOneRound || self.places == 0 {
            self.used = self.used.max(now);
        }
    }

    /// Counts a turn that is granted. `now` becomes the number of the turn, or the use before it.
    fn grant(&mut self, kind: Places, cost: Cost, now: &mut u64) {
        match kind {
            Places::UntilLeft => (self.places, self.used) = (self.places + cost.places, *now),
            Places::ForOneRound => {
                *now = (*now).max(self.used);
                self.used = now.saturating_add(cost.places);
                self.beyond -= self.beyond.div_ceil(8);
            }
        }
    }

    /// Counts places that a turn used beyond its cost.
    fn charge(&mut self, places: u64, now: u64) {
        self.used = self.used.max(now).saturating_add(places);
        self.beyond = self.beyond.midpoint(places);
    }

    /// Whether nothing has to be remembered of a user who does not wait.
    fn is_settled(&self, kind: Places, now: u64) -> bool {
        self.places == 0 && (kind == Places::UntilLeft || self.used <= now)
    }
}

#[derive(Debug)]
struct Tenant<User> {
    usage: Usage,
    /// Users who have places, wait for one, or used more than they were granted.
    users: HashMap<User, Share>,
    /// Users who wait, the next one first.
    order: BTreeSet<(Rank, User)>,
    /// The number of turns granted, or the use of the user served last.
    now: u64,
}

impl<User: Flow> Tenant<User> {
    fn new() -> Tenant<User> {
        Tenant { usage: Usage::default(), users: HashMap::new(), order: BTreeSet::new(), now: 0 }
    }

    /// The rank among tenants; `None` if no user waits.
    fn rank(&self, has_first_places: bool) -> Option<TenantRank> {
        let ((places, _, precedence), _) = self.order.first()?;
        Some((has_first_places && *places > 0, (self.usage.places, self.usage.used, *precedence)))
    }
}

#[derive(Debug)]
struct Share {
    usage: Usage,
    waiting: VecDeque<(Ticket, Cost)>,
    /// The order among users who have used the same, from the request that began to wait.
    precedence: u64,
}

impl Share {
    /// The sort key of users; `None` if no request waits.
    fn rank(&self) -> Option<Rank> {
        (!self.waiting.is_empty()).then_some((self.usage.places, self.usage.used, self.precedence))
    }
}

/// A user, and the state that belongs to it, for one change.
struct Change<'a> {
    kind: Places,
    /// Of the queue.
    now: &'a mut u64,
    tenant: &'a mut Usage,
    tenant_now: &'a mut u64,
    tenant_is_waiting: bool,
    user: &'a mut Share,
}

impl Change<'_> {
    /// A request begins to wait, if none of the user waits already.
    fn begin(&mut self, ticket: Ticket) {
        if !self.tenant_is_waiting {
            self.tenant.begin(self.kind, *self.now);
        }
        if self.user.waiting.is_empty() {
            self.user.precedence = precedence(self.kind, ticket);
            self.user.usage.begin(self.kind, *self.tenant_now);
        }
    }
}

impl<User: Flow> FairQueue<User> {
    /// An empty queue.
    pub fn new(kind: Places, bounds: Bounds) -> FairQueue<User> {
        let (tenants, order) = (HashMap::new(), BTreeSet::new());
        FairQueue { kind, bounds, places: 0, bytes: 0, tenants, order, now: 0, first: None, overdrawn: 0, waiting: 0 }
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
        self.tenants.values().map(|tenant| tenant.users.len()).sum()
    }

    /// The number of places of a user, and of the user's waiting requests.
    pub fn usage_of(&self, user: &User) -> (u64, usize) {
        self.share(user).map_or((0, 0), |share| (share.usage.places, share.waiting.len()))
    }

    fn share(&self, user: &User) -> Option<&Share> {
        self.tenants.get(&user.tenant())?.users.get(user)
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
        self.waiting += 1;
        self.change(user, |mut change| {
            change.begin(ticket);
            change.user.waiting.push_back((ticket, cost));
        });
    }

    /// Counts places that a request used beyond those it was granted. They count against the next turns of its user.
    pub fn charge(&mut self, user: &User, places: u64) {
        self.places = self.places.saturating_add(places);
        self.overdrawn = self.overdrawn.saturating_add(places);
        self.change(user, |change| {
            change.tenant.charge(places, *change.now);
            change.user.usage.charge(places, *change.tenant_now);
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
        self.waiting += 1;
        self.change(user, |mut change| {
            change.begin(ticket);
            for usage in [change.tenant, &mut change.user.usage] {
                usage.used = usage.used.saturating_sub(cost.places);
            }
            let waiting = &mut change.user.waiting;
            let place = waiting.partition_point(|(waiting, _)| *waiting < ticket);
            waiting.insert(place, (ticket, cost));
        });
        true
    }

    /// Frees the place of a request; returns the tickets whose turn it is now.
    pub fn release(&mut self, user: &User, cost: Cost) -> Vec<Ticket> {
        if self.share(user).is_some() {
            self.change(user, |change| {
                for usage in [change.tenant, &mut change.user.usage] {
                    usage.places = usage.places.saturating_sub(cost.places);
                }
            });
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
        if self.waiting == 0 {
            // There is nothing to compare with.
            self.tenants.clear();
        }
        let (kind, now) = (self.kind, self.now);
        self.tenants.retain(|_, tenant| {
            let now_there = tenant.now;
            tenant.users.retain(|_, share| !share.waiting.is_empty() || !share.usage.is_settled(kind, now_there));
            !tenant.order.is_empty() || !tenant.usage.is_settled(kind, now)
        });
        turns
    }

    /// Removes a waiting request; `None` if it did not wait. Returns the tickets whose turn it is now.
    pub fn cancel(&mut self, user: &User, ticket: Ticket) -> Option<Vec<Ticket>> {
        let share = self.share(user)?;
        let place = share.waiting.iter().position(|(waiting, _)| *waiting == ticket)?;
        self.change(user, |change| _ = change.user.waiting.remove(place));
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
        let tenant = self.tenants.get(&user.tenant());
        let usage = tenant.map(|tenant| tenant.users.get(user).map_or(&tenant.usage, |share| &share.usage));
        let beyond = usage.map_or(0, |usage| usage.beyond);
        Cost { places: cost.places.saturating_add(beyond), ..cost }
    }

    /// Counts the costs of a request that may run.
    fn grant(&mut self, user: &User, cost: Cost) {
        self.places = self.places.saturating_add(self.expected(user, cost).places);
        self.bytes = self.bytes.saturating_add(cost.bytes);
        if self.kind == Places::UntilLeft {
            self.now += 1;
        }
        self.change(user, |change| {
            change.tenant.grant(change.kind, cost, change.now);
            if change.kind == Places::UntilLeft {
                *change.tenant_now = *change.now;
            }
            change.user.usage.grant(change.kind, cost, change.tenant_now);
        });
    }

    /// Grants free places to waiting requests, and returns their tickets.
    fn next_turns(&mut self) -> Vec<Ticket> {
        let mut turns = Vec::new();
        while let Some(user) = self.next_user() {
            let share = self.share(&user);
            let is_first = share.is_some_and(|share| share.usage.places == 0) && self.has_first_place();
            let next = share.and_then(|share| share.waiting.front().copied());
            let fits = |cost: Cost| is_first || self.fits(self.expected(&user, cost));
            let Some((ticket, cost)) = next.filter(|(_, cost)| fits(*cost)) else { break };
            self.waiting -= 1;
            // Its use is counted first: a user who neither waits nor owes is forgotten.
            self.grant(&user, cost);
            self.change(&user, |change| _ = change.user.waiting.pop_front());
            turns.push(ticket);
        }
        turns
    }

    /// The user whose request is next.
    fn next_user(&self) -> Option<User> {
        let (_, tenant) = self.order.first()?;
        let (_, user) = self.tenants.get(tenant)?.order.first()?;
        Some(user.clone())
    }

    /// Changes the state of a user, and updates the orders and the maps.
    fn change(&mut self, user: &User, change: impl FnOnce(Change<'_>)) {
        let (kind, has_first_places) = (self.kind, self.bounds.first_places > 0);
        let name = user.tenant();
        let tenant = self.tenants.entry(name.clone()).or_insert_with(Tenant::new);
        let tenant_before = tenant.rank(has_first_places);
        let beyond = tenant.usage.beyond;
        let share = tenant.users.entry(user.clone()).or_insert_with(|| Share {
            usage: Usage { beyond, ..Usage::default() },
            waiting: VecDeque::new(),
            precedence: 0,
        });
        let before = share.rank();
        change(Change {
            kind,
            now: &mut self.now,
            tenant: &mut tenant.usage,
            tenant_now: &mut tenant.now,
            tenant_is_waiting: tenant_before.is_some(),
            user: share,
        });
        reorder(&mut tenant.order, user, before, share.rank());
        if share.waiting.is_empty() && share.usage.is_settled(kind, tenant.now) {
            tenant.users.remove(user);
        }
        reorder(&mut self.order, &name, tenant_before, tenant.rank(has_first_places));
        if tenant.order.is_empty() && tenant.usage.is_settled(kind, self.now) {
            self.tenants.remove(&name);
        }
    }
}

/// Moves a user or a tenant to its new rank among those who wait.
fn reorder<Key: Clone + Ord, Rank: Ord>(
    order: &mut BTreeSet<(Rank, Key)>,
    key: &Key,
    before: Option<Rank>,
    after: Option<Rank>,
) {
    if before == after {
        return;
    }
    if let Some(before) = before {
        order.remove(&(before, key.clone()));
    }
    if let Some(after) = after {
        order.insert((after, key.clone()));
    }
}

/// The order among users with equal use. Places that are held for long go to the user who has waited longest.
fn precedence(kind: Places, ticket: Ticket) -> u64 {
    match kind {
        Places::UntilLeft => ticket,
        Places::ForOneRound => u64::MAX - ticket,
    }
}
