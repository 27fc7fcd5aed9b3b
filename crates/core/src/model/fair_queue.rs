//! A fair queue: decides which user is next when a resource is scarce. All fair queues of the server use it. The module
//! is pure: it has no lock, no clock, and does not wait.
//!
//! A request takes *places*, and waits if there are not enough. The *use* of a user is a number that grows with the
//! turns that the user gets; the user with the least use is next. `now` is the virtual time of fair queueing: an idle
//! user starts with at least this use. Queues differ in when places are free again:
//!
//! - Large lists and reviews hold a place until they are done, and lists also bytes ([`Places::UntilLeft`];
//!   `fieldcache::fair_semaphore` suspends and wakes the requests). The next place goes to the waiting user with the
//!   fewest places, and among equals to the one whose last turn is longest ago. In addition to [`Bounds::places`],
//!   there are places for users who have none ([`Bounds::first_places`]). So requests that do not finish can take all
//!   other places, but not the first place of another user.
//! - Long work holds a place until it is done, and its amount, the bytes of its request, is known before
//!   ([`Places::UntilDone`]). The next place goes to the request that would be done first if all waiting users worked
//!   at once, each with an equal share (weighted fair queueing). So a short request does not wait for long ones of a
//!   hundred users, until its user has used as much as they request. An idle user starts at the use that each of the
//!   waiting users would have reached.
//! - Seats are all free again together, at the end of a round ([`Places::ForOneRound`]). A place goes to the waiting
//!   user with the least use. Use is counted as in start-time fair queueing. An idle user starts at the use of the user
//!   served last, so idle time gives no credit. *Unpaid* use, which is above `now`, is kept until the other users have
//!   used as much.
//!   The bound is never exceeded, except by one request that is larger than all places. A user whose turns cost more
//!   than they were granted gets fewer of them in a round. Otherwise a round would last as long as all these turns
//!   together. The cost of a user's turns is unknown before the first one, so granted turns can be taken back. Once a
//!   round has cost twice its places, only its first turn is still used ([`FairQueue::take_back`]). Of users with equal
//!   use, the one who came last is next. Otherwise a hundred users with long turns would all come before a user who
//!   rarely comes. No user waits forever: after a turn, a user has used more than those who still wait for their first.
//!
//! Users belong to tenants ([`Flow`]). A queue is fair between tenants first, and then between the users of each, by
//! the same rules. Otherwise a tenant that can create users would get a share for each of them. The rules about users
//! above apply to tenants too; only the bounds, and the places beyond the bound, are for each user. The turns of a user
//! whose cost is unknown are expected to cost what those of its tenant did.
//!
//! Within a user it is first come, first served. No request overtakes the one that is next, even if it would fit:
//! otherwise large requests would wait forever.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::flow::Flow;

/// When places are free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Each place when its request leaves ([`FairQueue::release`]). The user with the fewest places is next.
    UntilLeft,
    /// Each place when its request leaves. The user who has requested the fewest bytes is next.
    UntilDone,
    /// All places together, with [`FairQueue::next_round`]. The user who has used the fewest places is next.
    ForOneRound,
}

/// The bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum number of places that are taken at the same time, or in a round.
    pub places: u64,
    /// The number of additional places for users who have none. They are not used with [`Places::ForOneRound`]. `bytes`
    /// does not limit requests that get such a place.
    pub first_places: u64,
    /// The maximum of the bytes of all requests that have places.
    pub bytes: u64,
    /// The maximum number of waiting requests of one user.
    pub waiting: usize,
    /// The number of waiting requests of all users from which on only a user without a waiting request may wait.
    pub waiting_together: usize,
}

/// The places and bytes that one request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The number of places.
    pub places: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The result of a request for places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The request has its places.
    Granted,
    /// The request waits, until [`FairQueue::release`], [`FairQueue::cancel`] or [`FairQueue::next_round`] returns its
    /// ticket.
    Queued,
    /// Too many requests wait already, for what the value names.
    Rejected(Scarce),
}

/// What waiting requests wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// Places.
    Places,
    /// Bytes.
    Bytes,
}

/// The number of one request, assigned by the caller. A later request must have a larger number.
pub type Ticket = u64;

/// The users with places, and the waiting requests.
#[derive(Debug)]
pub struct FairQueue<User> {
    kind: Places,
    bounds: Bounds,
    /// The number of places in use.
    places: u64,
    /// The bytes of requests that have places.
    bytes: u64,
    /// Tenants who have places, wait for one, or have unpaid use.
    tenants: HashMap<User, Tenant<User>>,
    /// Tenants who wait, the next one first.
    order: BTreeSet<(TenantRank, User)>,
    /// The virtual time. With [`Places::UntilLeft`], the number of turns granted. With [`Places::UntilDone`], the bytes
    /// that each waiting tenant would have got. With [`Places::ForOneRound`], the use of the tenant served last.
    now: u64,
    /// The request with the first turn of this round; `None` if no request waited when the round began.
    first: Option<Ticket>,
    /// The places that the turns of this round have used in addition to the places that they were granted.
    overdrawn: u64,
    /// The number of waiting requests.
    waiting: usize,
    /// The number of granted requests, with [`Places::UntilDone`].
    granted: u64,
}

/// With [`Places::UntilDone`], users who no longer wait are removed after each time that this many requests were
/// granted.
const SWEEP: u64 = 1024;

/// The sort key of users, of which the lowest is next: the places, the use, and the order among equals (`precedence`).
/// Only [`Places::UntilLeft`] compares places.
type Rank = (u64, u64, u64);

/// The sort key of tenants, of which the lowest is next: whether the next user of the tenant has places already, and
/// the rank of the tenant.
type TenantRank = (bool, Rank);

/// What a user or a tenant uses.
#[derive(Debug, Default)]
struct Usage {
    /// The places that are held; 0 with [`Places::ForOneRound`].
    places: u64,
    /// The use: with [`Places::UntilLeft`], the number of the last turn; otherwise the bytes or places used so far.
    used: u64,
    /// With [`Places::ForOneRound`]: the places that a turn is expected to use in addition to the granted ones, by the
    /// cost of earlier turns.
    beyond: u64,
}

impl Usage {
    /// Updates the use when the first request of this user or tenant begins to wait. Idle time gives no credit, so the
    /// use becomes at least `now`. This is the virtual time of the queue (for a tenant) or of the tenant (for a user).
    /// With [`Places::UntilLeft`], a user or tenant with places is not idle, and is not changed.
    fn begin_waiting(&mut self, kind: Places, now: u64) {
        if kind != Places::UntilLeft || self.places == 0 {
            self.used = self.used.max(now);
        }
    }

    /// Counts a turn that is granted. With [`Places::UntilLeft`], `now` is the number of the turn. With
    /// [`Places::ForOneRound`], `now` is raised to the use before the turn.
    fn grant(&mut self, kind: Places, cost: Cost, now: &mut u64) {
        match kind {
            Places::UntilLeft => (self.places, self.used) = (self.places + cost.places, *now),
            Places::UntilDone => {
                self.places += cost.places;
                self.used = self.used.saturating_add(cost.bytes);
            }
            Places::ForOneRound => {
                *now = (*now).max(self.used);
                self.used = now.saturating_add(cost.places);
                // The estimate decreases with each turn, unless `Usage::charge` raises it again.
                self.beyond -= self.beyond.div_ceil(8);
            }
        }
    }

    /// Counts places that a turn used in addition to the granted ones, and raises the estimate for the next turns.
    fn charge(&mut self, places: u64, now: u64) {
        self.used = self.used.max(now).saturating_add(places);
        self.beyond = self.beyond.midpoint(places);
    }

    /// Whether this user or tenant, which does not wait, can be removed: it has no place and no unpaid use. Unpaid is
    /// the use above `now`, the virtual time of the tenant (for a user) or of the queue (for a tenant).
    fn is_settled(&self, kind: Places, now: u64) -> bool {
        self.places == 0 && (kind == Places::UntilLeft || self.used <= now)
    }

    /// The sort key. `cost` is the cost of the next request, and `precedence` the order among equals. With
    /// [`Places::UntilDone`], it is the use after the next request.
    fn rank(&self, kind: Places, cost: Cost, precedence: u64) -> Rank {
        match kind {
            Places::UntilLeft | Places::ForOneRound => (self.places, self.used, precedence),
            Places::UntilDone => (0, self.used.saturating_add(cost.bytes), precedence),
        }
    }
}

/// The use of a tenant, and its users.
#[derive(Debug)]
struct Tenant<User> {
    usage: Usage,
    /// Users who have places, wait for one, or have unpaid use.
    users: HashMap<User, Share>,
    /// Users who wait, the next one first.
    order: BTreeSet<(Rank, User)>,
    /// The virtual time for the users of the tenant, as [`FairQueue::now`] is for tenants.
    now: u64,
}

impl<User: Flow> Tenant<User> {
    /// A tenant without users and use.
    fn new() -> Tenant<User> {
        Tenant { usage: Usage::default(), users: HashMap::new(), order: BTreeSet::new(), now: 0 }
    }

    /// The sort key among tenants; `None` if no user waits. `has_first_places`: the queue has additional places for
    /// users who have none. Then tenants whose next user has none come first.
    fn rank(&self, kind: Places, has_first_places: bool) -> Option<TenantRank> {
        let ((places, _, precedence), user) = self.order.first()?;
        let cost = self.users.get(user)?.waiting.front()?.1;
        Some((has_first_places && *places > 0, self.usage.rank(kind, cost, *precedence)))
    }
}

/// The use of a user, and its waiting requests, the next one first.
#[derive(Debug)]
struct Share {
    usage: Usage,
    waiting: VecDeque<(Ticket, Cost)>,
    /// The order among users with equal use; see the function `precedence`.
    precedence: u64,
}

impl Share {
    /// The sort key of users; `None` if no request waits.
    fn rank(&self, kind: Places) -> Option<Rank> {
        let (_, cost) = self.waiting.front()?;
        Some(self.usage.rank(kind, *cost, self.precedence))
    }
}

/// The state of a user and of its tenant, borrowed for one change.
struct Change<'a> {
    kind: Places,
    /// [`FairQueue::now`].
    now: &'a mut u64,
    tenant: &'a mut Usage,
    /// [`Tenant::now`].
    tenant_now: &'a mut u64,
    /// Whether any user of the tenant waits.
    tenant_is_waiting: bool,
    user: &'a mut Share,
}

/// Whether a request was in the queue when its places were granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsWaiting {
    Yes,
    No,
}

impl Change<'_> {
    /// Updates the use of the user and of the tenant before a request that need not wait. The user is unchanged if
    /// another request of it waits, and the tenant if a request of any of its users waits.
    fn raise_idle(&mut self) {
        if !self.tenant_is_waiting {
            self.tenant.begin_waiting(self.kind, *self.now);
        }
        if self.user.waiting.is_empty() {
            self.user.usage.begin_waiting(self.kind, *self.tenant_now);
        }
    }

    /// Updates the use of the user and of the tenant when a request begins to wait, as [`Change::raise_idle`] does.
    /// Sets the precedence of the user if no other request of it waits.
    fn begin_waiting(&mut self, ticket: Ticket) {
        if self.user.waiting.is_empty() {
            self.user.precedence = precedence(self.kind, ticket);
        }
        self.raise_idle();
    }
}

impl<User: Flow> FairQueue<User> {
    /// An empty queue. `kind` states when its places are free again.
    pub fn new(kind: Places, bounds: Bounds) -> FairQueue<User> {
        let (tenants, order) = (HashMap::new(), BTreeSet::new());
        FairQueue {
            kind,
            bounds,
            places: 0,
            bytes: 0,
            tenants,
            order,
            now: 0,
            first: None,
            overdrawn: 0,
            waiting: 0,
            granted: 0,
        }
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

    /// The number of users that the queue stores: those with places, waiting requests or unpaid use.
    pub fn users(&self) -> usize {
        self.tenants.values().map(|tenant| tenant.users.len()).sum()
    }

    /// The number of places of a user, and of the user's waiting requests.
    pub fn usage_of(&self, user: &User) -> (u64, usize) {
        self.share(user).map_or((0, 0), |share| (share.usage.places, share.waiting.len()))
    }

    /// The state of a user; `None` if the queue has none for this user.
    fn share(&self, user: &User) -> Option<&Share> {
        self.tenants.get(&user.tenant())?.users.get(user)
    }

    /// Grants the places of `cost` if they are free and no request waits. Also grants them if the user has no place and
    /// no waiting request, and there is a place for such users. Otherwise queues or rejects the request.
    pub fn enter(&mut self, user: &User, ticket: Ticket, cost: Cost) -> Entered {
        let (places, waiting) = self.usage_of(user);
        let is_first = places == 0 && waiting == 0 && self.has_first_place();
        if is_first || (self.waiting == 0 && self.fits(cost)) {
            self.grant(user, cost, IsWaiting::No);
            return Entered::Granted;
        }
        self.wait(user, ticket, cost)
    }

    /// Queues a request, or rejects it if too many wait. Does not grant places, also if they are free.
    pub fn wait(&mut self, user: &User, ticket: Ticket, cost: Cost) -> Entered {
        let waiting = self.usage_of(user).1;
        let is_full = self.waiting >= self.bounds.waiting_together && waiting > 0;
        if is_full || waiting >= self.bounds.waiting {
            return Entered::Rejected(self.scarce());
        }
        self.requeue(user, ticket, cost);
        Entered::Queued
    }

    /// Queues a request for its next places. The request is not rejected, because the bounds were checked when it came.
    pub fn requeue(&mut self, user: &User, ticket: Ticket, cost: Cost) {
        self.waiting += 1;
        self.change(user, |mut change| {
            change.begin_waiting(ticket);
            change.user.waiting.push_back((ticket, cost));
        });
    }

    /// Counts places that a request used in addition to those that it was granted. Its user gets fewer turns in the
    /// next rounds.
    pub fn charge(&mut self, user: &User, places: u64) {
        self.places = self.places.saturating_add(places);
        self.overdrawn = self.overdrawn.saturating_add(places);
        self.change(user, |change| {
            change.tenant.charge(places, *change.now);
            change.user.usage.charge(places, *change.tenant_now);
        });
    }

    /// Counts bytes that a request used in addition to those that it requested; with [`Places::UntilDone`] only.
    pub fn charge_bytes(&mut self, user: &User, bytes: u64) {
        if self.kind == Places::UntilDone && self.share(user).is_some() {
            self.change(user, |change| {
                for usage in [change.tenant, &mut change.user.usage] {
                    usage.used = usage.used.saturating_add(bytes);
                }
            });
        }
    }

    /// Takes back a turn that was granted and is not used yet, if the round has cost too much already. Returns whether
    /// the turn was taken back. The request then waits again, before later requests of its user, whose tickets are
    /// larger.
    ///
    /// The turns of a round are granted before their cost is known. Without this method, all of them would be used
    /// however long they take, and other users would wait. The first turn of a round is not taken back, so each round
    /// serves the user with the least use.
    pub fn take_back(&mut self, user: &User, ticket: Ticket, cost: Cost) -> bool {
        // The granted places were used in addition to `overdrawn`. So above this bound, the round has cost more than
        // twice its places.
        if self.overdrawn <= self.bounds.places || self.first == Some(ticket) {
            return false;
        }
        self.waiting += 1;
        self.change(user, |mut change| {
            change.begin_waiting(ticket);
            for usage in [change.tenant, &mut change.user.usage] {
                usage.used = usage.used.saturating_sub(cost.places);
            }
            let waiting = &mut change.user.waiting;
            let index = waiting.partition_point(|(other, _)| *other < ticket);
            waiting.insert(index, (ticket, cost));
        });
        true
    }

    /// Frees the places and bytes of a request. Returns the tickets of the waiting requests that get places now.
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
        if self.kind == Places::UntilDone && self.places == 0 && self.waiting == 0 {
            // No request has or waits for a place, so past use does not matter.
            self.tenants.clear();
        }
        self.next_turns()
    }

    /// Begins a round, in which all places are free again. Returns the tickets of the waiting requests that get places.
    pub fn next_round(&mut self) -> Vec<Ticket> {
        (self.places, self.bytes, self.overdrawn) = (0, 0, 0);
        let turns = self.next_turns();
        self.first = turns.first().copied();
        if self.waiting == 0 {
            // No request waits, so past use does not matter.
            self.tenants.clear();
        }
        self.forget_settled();
        turns
    }

    /// Removes a waiting request. Returns the tickets of the waiting requests that get places now; `None` if the
    /// request did not wait.
    pub fn cancel(&mut self, user: &User, ticket: Ticket) -> Option<Vec<Ticket>> {
        let share = self.share(user)?;
        let index = share.waiting.iter().position(|(waiting, _)| *waiting == ticket)?;
        self.change(user, |change| _ = change.user.waiting.remove(index));
        self.waiting -= 1;
        // Places of a round are granted at its beginning only.
        Some(if self.kind == Places::ForOneRound { Vec::new() } else { self.next_turns() })
    }

    /// What requests wait for: places if all are taken, otherwise bytes.
    pub fn scarce(&self) -> Scarce {
        if self.places >= self.bounds.places { Scarce::Places } else { Scarce::Bytes }
    }

    /// Whether a request of this cost fits into the bounds now. If no place is taken, any request fits.
    fn fits(&self, cost: Cost) -> bool {
        let is_alone = self.places == 0;
        let has_place = self.places.saturating_add(cost.places) <= self.bounds.places;
        is_alone || (has_place && self.bytes.saturating_add(cost.bytes) <= self.bounds.bytes)
    }

    /// Whether there is a place for a user who has none: within the bound, or in [`Bounds::first_places`].
    fn has_first_place(&self) -> bool {
        self.kind != Places::ForOneRound && self.places < self.bounds.places.saturating_add(self.bounds.first_places)
    }

    /// The cost of a request, with the places that its turn is expected to use in addition ([`Usage::beyond`]). The
    /// estimate is from earlier turns of the user, or of its tenant if the user is new.
    fn expected(&self, user: &User, cost: Cost) -> Cost {
        let tenant = self.tenants.get(&user.tenant());
        let usage = tenant.map(|tenant| tenant.users.get(user).map_or(&tenant.usage, |share| &share.usage));
        let beyond = usage.map_or(0, |usage| usage.beyond);
        Cost { places: cost.places.saturating_add(beyond), ..cost }
    }

    /// Counts the cost of a request that gets its places. The queue counts the places that the turn is expected to use.
    /// The user and the tenant are charged only with the granted places.
    ///
    /// With [`Places::UntilDone`], the use of an idle user is raised to `now` for a request that need not wait. For a
    /// request from the queue, this happened when it began to wait. It must not happen again: the user would lose the
    /// advantage of having used less than others.
    fn grant(&mut self, user: &User, cost: Cost, is_waiting: IsWaiting) {
        self.places = self.places.saturating_add(self.expected(user, cost).places);
        self.bytes = self.bytes.saturating_add(cost.bytes);
        match self.kind {
            Places::UntilLeft => self.now += 1,
            Places::UntilDone => self.raise_levels(user, cost.bytes),
            Places::ForOneRound => {}
        }
        self.change(user, |mut change| {
            if change.kind == Places::UntilDone && is_waiting == IsWaiting::No {
                change.raise_idle();
            }
            change.tenant.grant(change.kind, cost, change.now);
            if change.kind == Places::UntilLeft {
                // All tenants share the numbers of turns.
                *change.tenant_now = *change.now;
            }
            change.user.usage.grant(change.kind, cost, change.tenant_now);
        });
    }

    /// Raises the virtual times at which idle tenants, and idle users of this user's tenant, start. The increase is the
    /// granted bytes, divided by the number of tenants or users who wait. So the virtual time advances as fast as the
    /// waiting ones are served together. Users who come later delay a long request for a bounded time only.
    fn raise_levels(&mut self, user: &User, bytes: u64) {
        let share = |waiting: usize| bytes / (waiting as u64).max(1);
        self.now = self.now.saturating_add(share(self.order.len()));
        if let Some(tenant) = self.tenants.get_mut(&user.tenant()) {
            tenant.now = tenant.now.saturating_add(share(tenant.order.len()));
        }
        self.granted += 1;
        if self.granted.is_multiple_of(SWEEP) {
            self.forget_settled();
        }
    }

    /// Removes tenants and users who do not wait, and have no places and no unpaid use.
    fn forget_settled(&mut self) {
        let (kind, now) = (self.kind, self.now);
        self.tenants.retain(|_, tenant| {
            let tenant_now = tenant.now;
            tenant.users.retain(|_, share| !share.waiting.is_empty() || !share.usage.is_settled(kind, tenant_now));
            !tenant.order.is_empty() || !tenant.usage.is_settled(kind, now)
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
            // No other request overtakes the next one, even if it would fit.
            let Some((ticket, cost)) = next.filter(|(_, cost)| fits(*cost)) else { break };
            self.waiting -= 1;
            // The use is counted before the request leaves the queue. Otherwise the user could be removed before it.
            self.grant(&user, cost, IsWaiting::Yes);
            self.change(&user, |change| _ = change.user.waiting.pop_front());
            turns.push(ticket);
        }
        turns
    }

    /// The user whose request is next; `None` if no request waits.
    fn next_user(&self) -> Option<User> {
        let (_, tenant) = self.order.first()?;
        let (_, user) = self.tenants.get(tenant)?.order.first()?;
        Some(user.clone())
    }

    /// Applies `change` to the state of a user and of its tenant, which are created if they are missing. Then updates
    /// their sort keys. Removes the user or the tenant if it does not wait, and has no place and no unpaid use.
    fn change(&mut self, user: &User, change: impl FnOnce(Change<'_>)) {
        let (kind, has_first_places) = (self.kind, self.bounds.first_places > 0);
        let name = user.tenant();
        let tenant = self.tenants.entry(name.clone()).or_insert_with(Tenant::new);
        let tenant_before = tenant.rank(kind, has_first_places);
        // The turns of a new user are expected to cost as much as the earlier turns of its tenant.
        let beyond = tenant.usage.beyond;
        let share = tenant.users.entry(user.clone()).or_insert_with(|| Share {
            usage: Usage { beyond, ..Usage::default() },
            waiting: VecDeque::new(),
            precedence: 0,
        });
        let before = share.rank(kind);
        change(Change {
            kind,
            now: &mut self.now,
            tenant: &mut tenant.usage,
            tenant_now: &mut tenant.now,
            tenant_is_waiting: tenant_before.is_some(),
            user: share,
        });
        reorder(&mut tenant.order, user, before, share.rank(kind));
        if share.waiting.is_empty() && share.usage.is_settled(kind, tenant.now) {
            tenant.users.remove(user);
        }
        reorder(&mut self.order, &name, tenant_before, tenant.rank(kind, has_first_places));
        if tenant.order.is_empty() && tenant.usage.is_settled(kind, self.now) {
            self.tenants.remove(&name);
        }
    }
}

/// Moves a user or a tenant in `order` from the sort key `before` to `after`; `None` means that it does not wait.
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

/// The order among users with equal use; the user with the lowest number is next. `ticket` is the ticket of the user's
/// first waiting request; later requests have larger tickets. Places that are held for long go to the user who has
/// waited longest. Places of a round go to the user who came last, for the reason in the module documentation.
fn precedence(kind: Places, ticket: Ticket) -> u64 {
    match kind {
        Places::UntilLeft | Places::UntilDone => ticket,
        Places::ForOneRound => u64::MAX - ticket,
    }
}
