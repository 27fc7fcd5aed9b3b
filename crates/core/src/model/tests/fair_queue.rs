//! Compares the fair queue with one that examines all state at every step, and checks its guarantees on random events.

use std::cmp::Reverse;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{TestUser, user_of};
use crate::model::fair_queue::{Bounds, Cost, Entered, FairQueue, Places, Scarce, Ticket};

const BOUNDS: Bounds = Bounds { places: 3, first_places: 2, bytes: 100, waiting: 2, waiting_together: 100 };

fn list(bytes: u64) -> Cost {
    Cost { places: 1, bytes }
}

/// A user who is a tenant of its own.
fn user(number: u8) -> TestUser {
    user_of(number, number)
}

/// The tenants of four users.
type Tenants = [u8; 4];

fn tenants() -> impl Strategy<Value = Tenants> {
    prop_oneof![Just([0, 1, 2, 3]), Just([0, 0, 1, 2]), Just([0, 0, 1, 1]), Just([0, 1, 1, 1]), Just([0; 4])]
}

/// One list, where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    ticket: Ticket,
    user: u8,
    bytes: u64,
    /// The number of its turn; `None` while it waits.
    turn: Option<u64>,
}

/// The same rules over one flat list, in the order of arrival.
#[derive(Default)]
struct Naive {
    tenants: Tenants,
    entries: Vec<Entry>,
    turns: u64,
    /// Last turns, by user; users without places and waiting requests have none.
    last: Vec<(u8, u64)>,
    /// The same by tenant.
    last_of_tenants: Vec<(u8, u64)>,
    /// The list with which a user began to wait.
    joined: [Ticket; 4],
}

impl Naive {
    fn in_flight(&self, user: Option<u8>) -> Vec<&Entry> {
        let is_asked = |entry: &&Entry| entry.turn.is_some() && user.is_none_or(|user| user == entry.user);
        self.entries.iter().filter(is_asked).collect()
    }

    fn waiting(&self, user: Option<u8>) -> Vec<&Entry> {
        let is_asked = |entry: &&Entry| entry.turn.is_none() && user.is_none_or(|user| user == entry.user);
        self.entries.iter().filter(is_asked).collect()
    }

    fn fits(&self, bytes: u64) -> bool {
        let in_flight = self.in_flight(None);
        let used: u64 = in_flight.iter().map(|entry| entry.bytes).sum();
        in_flight.is_empty() || (in_flight.len() < BOUNDS.places as usize && used + bytes <= BOUNDS.bytes)
    }

    fn last_turn(last: &[(u8, u64)], of: u8) -> u64 {
        last.iter().find(|(known, _)| *known == of).map_or(0, |(_, turn)| *turn)
    }

    fn tenant(&self, user: u8) -> u8 {
        self.tenants[usize::from(user)]
    }

    fn grant(&mut self, ticket: Ticket) {
        self.turns += 1;
        let entry = self.entries.iter_mut().find(|entry| entry.ticket == ticket).unwrap();
        entry.turn = Some(self.turns);
        let (user, turn) = (entry.user, self.turns);
        let tenant = self.tenant(user);
        for (last, of) in [(&mut self.last, user), (&mut self.last_of_tenants, tenant)] {
            last.retain(|(known, _)| *known != of);
            last.push((of, turn));
        }
    }

    /// Whether there is a place for a user without one.
    fn has_first_place(&self) -> bool {
        self.in_flight(None).len() < (BOUNDS.places + BOUNDS.first_places) as usize
    }

    fn enter(&mut self, user: u8, ticket: Ticket, bytes: u64) -> Entered {
        let is_new = !self.entries.iter().any(|entry| entry.user == user);
        let tenant = self.tenant(user);
        let is_new_tenant = !self.entries.iter().any(|entry| self.tenant(entry.user) == tenant);
        let own_turns = Naive::last_turn(&self.last_of_tenants, tenant);
        let is_first = is_new && self.has_first_place();
        if !(is_first || (self.waiting(None).is_empty() && self.fits(bytes)))
            && self.waiting(Some(user)).len() >= BOUNDS.waiting
        {
            let is_full = self.in_flight(None).len() >= BOUNDS.places as usize;
            return Entered::Rejected(if is_full { Scarce::Places } else { Scarce::Bytes });
        }
        let goes = is_first || (self.waiting(None).is_empty() && self.fits(bytes));
        if self.waiting(Some(user)).is_empty() {
            self.joined[usize::from(user)] = ticket;
        }
        self.entries.push(Entry { ticket, user, bytes, turn: None });
        if goes {
            self.grant(ticket);
            return Entered::Granted;
        }
        if is_new {
            self.last.push((user, own_turns));
        }
        if is_new_tenant {
            self.last_of_tenants.push((tenant, self.turns));
        }
        Entered::Queued
    }

    fn remove(&mut self, ticket: Ticket) -> Vec<Ticket> {
        self.entries.retain(|entry| entry.ticket != ticket);
        self.last.retain(|(user, _)| self.entries.iter().any(|entry| entry.user == *user));
        let (tenants, entries) = (self.tenants, &self.entries);
        self.last_of_tenants
            .retain(|(tenant, _)| entries.iter().any(|entry| tenants[usize::from(entry.user)] == *tenant));
        let mut granted = Vec::new();
        loop {
            // The first of each user, the user with the fewest in flight before the others of its tenant.
            let of_users = (0..4u8).filter_map(|user| {
                let head = self.waiting(Some(user)).first().copied()?;
                let (in_flight, last) = (self.in_flight(Some(user)).len(), Naive::last_turn(&self.last, user));
                Some(((in_flight, last, self.joined[usize::from(user)]), head))
            });
            let of_users: Vec<_> = of_users.collect();
            // The first of each tenant, a user without one before the others, then the tenant with the fewest.
            let of_tenants = (0..4u8).filter_map(|tenant| {
                let members = of_users.iter().filter(|(_, head)| self.tenant(head.user) == tenant);
                let ((in_flight, _, joined), head) = members.min_by_key(|(rank, _)| *rank)?;
                let all = (0..4).filter(|user| self.tenant(*user) == tenant);
                let of_tenant: usize = all.map(|user| self.in_flight(Some(user)).len()).sum();
                let last = Naive::last_turn(&self.last_of_tenants, tenant);
                Some(((*in_flight > 0, of_tenant, last, *joined), *in_flight, *head))
            });
            match of_tenants.min_by_key(|(rank, _, _)| *rank) {
                Some((_, in_flight, head)) if (in_flight == 0 && self.has_first_place()) || self.fits(head.bytes) => {
                    let ticket = head.ticket;
                    self.grant(ticket);
                    granted.push(ticket);
                }
                _ => return granted,
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter {
        user: u8,
        bytes: u64,
    },
    /// Of the lists that are there, the one at this place (modulo) goes.
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sizes = prop_oneof![1u64..40, Just(60), Just(100), Just(101), Just(1_000)];
    let enter = (0u8..4, sizes).prop_map(|(user, bytes)| Step::Enter { user, bytes });
    // This tests a flood of one user, so one of the users comes more often.
    let flood = (1u64..40).prop_map(|bytes| Step::Enter { user: 0, bytes });
    vec(prop_oneof![3 => enter, 2 => flood, 4 => (0usize..16).prop_map(Step::Leave)], 0..120)
}

proptest! {
    #[test]
    fn turns_are_those_of_a_queue_that_looks_at_everything(steps in steps(), tenants in tenants()) {
        let mut turns = FairQueue::new(Places::UntilLeft, BOUNDS);
        let mut naive = Naive { tenants, ..Naive::default() };
        let user = |number: u8| user_of(tenants[usize::from(number)], number);
        for (number, step) in steps.into_iter().enumerate() {
            let ticket = number as Ticket;
            match step {
                Step::Enter { user: who, bytes } => {
                    let entered = turns.enter(&user(who), ticket, list(bytes));
                    prop_assert_eq!(entered, naive.enter(who, ticket, bytes), "step {}", number);
                }
                Step::Leave(place) if !naive.entries.is_empty() => {
                    let gone = naive.entries[place % naive.entries.len()].clone();
                    let expected = naive.remove(gone.ticket);
                    let next = match gone.turn {
                        Some(_) => {
                            prop_assert_eq!(turns.cancel(&user(gone.user), gone.ticket), None, "it does not wait");
                            turns.release(&user(gone.user), list(gone.bytes))
                        }
                        None => turns.cancel(&user(gone.user), gone.ticket).expect("it waits"),
                    };
                    prop_assert_eq!(next, expected, "step {}", number);
                }
                Step::Leave(_) => {}
            }
            let in_flight = naive.in_flight(None);
            let bytes: u64 = in_flight.iter().map(|entry| entry.bytes).sum();
            prop_assert_eq!((turns.places(), turns.bytes()), (in_flight.len() as u64, bytes));
            prop_assert_eq!(turns.waiting(), naive.waiting(None).len());
            // The guarantees, independent of the implementation.
            let users = (0..4).filter(|who| turns.usage_of(&user(*who)).0 > 0).count();
            let beyond = BOUNDS.first_places.min(users as u64);
            prop_assert!(turns.places() <= BOUNDS.places + beyond, "at most one beyond the bound for each user");
            let is_full = turns.places() == BOUNDS.places + BOUNDS.first_places;
            for who in 0..4 {
                let (lists, waiting) = turns.usage_of(&user(who));
                prop_assert!(lists > 0 || waiting == 0 || is_full, "a user who waits with none in flight waits for a first place");
                prop_assert!(waiting <= BOUNDS.waiting);
                let of_user: Vec<Ticket> = naive.waiting(Some(who)).iter().map(|entry| entry.ticket).collect();
                prop_assert!(of_user.is_sorted(), "first come, first served");
            }
        }
    }
}

#[test]
fn a_flood_leaves_every_other_user_a_place_at_once() {
    let mut turns = FairQueue::new(Places::UntilLeft, BOUNDS);
    let flood: Vec<Entered> = (0..10_000).map(|ticket| turns.enter(&user(0), ticket, list(10))).collect();
    let count = |what: Entered| flood.iter().filter(|entered| **entered == what).count();
    assert_eq!((count(Entered::Granted), count(Entered::Queued)), (3, 2));
    assert_eq!(count(Entered::Rejected(Scarce::Places)), 9_995);
    assert_eq!(turns.enter(&user(1), 10_000, list(10)), Entered::Granted, "the first of another user");
    assert_eq!(turns.enter(&user(1), 10_001, list(10)), Entered::Queued, "not the second");
    assert_eq!(
        turns.release(&user(0), list(10)),
        Vec::<Ticket>::new(),
        "four were in flight, one of them beyond the bound"
    );
    assert_eq!(turns.release(&user(0), list(10)), [3], "one each: whose last turn is longer ago");
    assert_eq!(turns.release(&user(0), list(10)), [10_001], "one each again, though another came before");
    assert_eq!(turns.release(&user(0), list(10)), [4], "who has none is next at once");
}

#[test]
fn a_list_larger_than_the_bound_runs_when_no_other_does() {
    let mut turns = FairQueue::new(Places::UntilLeft, BOUNDS);
    assert_eq!(turns.enter(&user(0), 0, list(50)), Entered::Granted);
    assert_eq!(turns.enter(&user(0), 1, list(1_000)), Entered::Queued);
    assert_eq!(turns.enter(&user(0), 2, list(1)), Entered::Queued, "it would fit, but does not overtake");
    assert_eq!(turns.enter(&user(0), 3, list(1)), Entered::Rejected(Scarce::Bytes));
    assert_eq!(turns.release(&user(0), list(50)), [1]);
    assert_eq!(turns.release(&user(0), list(1_000)), [2]);
    assert_eq!((turns.release(&user(0), list(1)), turns.places(), turns.bytes()), (Vec::new(), 0, 0));
}

/// What a user or a tenant has used.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    used: u64,
    /// The expected cost of turns beyond their places.
    beyond: u64,
    is_known: bool,
}

/// Seats of a round, by rules that examine all state. The user with the least use is next, and among equals the one who
/// came last; before that, the tenant by the same rules.
#[derive(Default)]
struct NaiveRounds {
    tenants: Tenants,
    waiting: Vec<(u8, Ticket, u64)>,
    users: [Used; 4],
    of_tenants: [Used; 4],
    now: u64,
    /// The same in each tenant.
    now_there: [u64; 4],
    /// Turns of this round.
    granted: Vec<(u8, Ticket, u64)>,
    first: Option<Ticket>,
    /// The cost of the turns of this round beyond their places.
    overdrawn: u64,
    /// The request with which a user began to wait.
    joined: [Ticket; 4],
}

impl NaiveRounds {
    fn tenant(&self, user: u8) -> usize {
        usize::from(self.tenants[usize::from(user)])
    }

    fn is_waiting(&self, user: u8) -> bool {
        self.waiting.iter().any(|(waiting, _, _)| *waiting == user)
    }

    fn is_tenant_waiting(&self, tenant: usize) -> bool {
        self.waiting.iter().any(|(waiting, _, _)| self.tenant(*waiting) == tenant)
    }

    /// A user is mentioned: one that is unknown is expected to cost what its tenant does.
    fn meet(&mut self, user: u8) {
        let tenant = self.tenant(user);
        self.of_tenants[tenant].is_known = true;
        let expected = self.of_tenants[tenant].beyond;
        let share = &mut self.users[usize::from(user)];
        if !share.is_known {
            *share = Used { used: 0, beyond: expected, is_known: true };
        }
    }

    fn next_round(&mut self) -> Vec<Ticket> {
        let (mut taken, mut granted) = (0, Vec::new());
        self.granted.clear();
        self.overdrawn = 0;
        loop {
            let heads = (0..4u8).filter_map(|who| {
                let head = self.waiting.iter().position(|(user, _, _)| *user == who)?;
                Some((self.users[usize::from(who)].used, Reverse(self.joined[usize::from(who)]), who, head))
            });
            let heads: Vec<_> = heads.collect();
            let next = (0..4usize).filter_map(|tenant| {
                let members = heads.iter().filter(|(_, _, who, _)| self.tenant(*who) == tenant);
                let (_, joined, who, head) = members.min()?;
                Some((self.of_tenants[tenant].used, *joined, *who, *head))
            });
            let Some((_, _, who, head)) = next.min() else { break };
            let (_, ticket, cost) = self.waiting[head];
            let tenant = self.tenant(who);
            let expected = cost + self.users[usize::from(who)].beyond;
            if taken > 0 && taken + expected > SEATS {
                break;
            }
            taken += expected;
            self.granted.push(self.waiting.remove(head));
            for (usage, now) in [
                (&mut self.of_tenants[tenant], &mut self.now),
                (&mut self.users[usize::from(who)], &mut self.now_there[tenant]),
            ] {
                usage.beyond -= usage.beyond.div_ceil(8);
                *now = (*now).max(usage.used);
                usage.used = *now + cost;
            }
            granted.push(ticket);
        }
        self.first = granted.first().copied();
        (0..4).for_each(|who| self.forget(who));
        if self.waiting.is_empty() {
            // There is no waiting user to compare with.
            (self.users, self.of_tenants, self.now_there) = Default::default();
        }
        granted
    }

    /// No state remains of a user or tenant who neither waits nor owes.
    fn forget(&mut self, who: u8) {
        let tenant = self.tenant(who);
        if !self.is_waiting(who) && self.users[usize::from(who)].used <= self.now_there[tenant] {
            self.users[usize::from(who)] = Used::default();
        }
        if !self.is_tenant_waiting(tenant) && self.of_tenants[tenant].used <= self.now {
            (self.of_tenants[tenant], self.now_there[tenant]) = Default::default();
            for user in (0..4u8).filter(|user| usize::from(self.tenants[usize::from(*user)]) == tenant) {
                self.users[usize::from(user)] = Used::default();
            }
        }
    }

    /// A user begins to wait, unless it does already.
    fn join(&mut self, user: u8, ticket: Ticket) {
        self.meet(user);
        let tenant = self.tenant(user);
        if !self.is_tenant_waiting(tenant) {
            let used = &mut self.of_tenants[tenant].used;
            *used = (*used).max(self.now);
        }
        if !self.is_waiting(user) {
            let used = &mut self.users[usize::from(user)].used;
            *used = (*used).max(self.now_there[tenant]);
            self.joined[usize::from(user)] = ticket;
        }
    }

    fn take_back(&mut self, place: usize) -> bool {
        let (who, ticket, cost) = self.granted[place];
        if self.first == Some(ticket) || self.overdrawn <= SEATS {
            return false;
        }
        self.join(who, ticket);
        self.waiting.push(self.granted.remove(place));
        self.waiting.sort_by_key(|(_, ticket, _)| *ticket);
        let tenant = self.tenant(who);
        for used in [&mut self.users[usize::from(who)].used, &mut self.of_tenants[tenant].used] {
            *used = used.saturating_sub(cost);
        }
        true
    }

    fn charge(&mut self, who: u8, cost: u64) {
        self.meet(who);
        let tenant = self.tenant(who);
        let of_user = (&mut self.users[usize::from(who)], self.now_there[tenant]);
        for (usage, now) in [of_user, (&mut self.of_tenants[tenant], self.now)] {
            usage.used = usage.used.max(now) + cost;
            usage.beyond = usage.beyond.midpoint(cost);
        }
        self.overdrawn += cost;
    }

    fn wait(&mut self, user: u8, ticket: Ticket, cost: u64) {
        self.join(user, ticket);
        self.waiting.push((user, ticket, cost));
    }
}

const SEATS: u64 = 10;
const ROUNDS: Bounds = Bounds { places: SEATS, first_places: 0, bytes: u64::MAX, waiting: 50, waiting_together: 120 };

#[derive(Clone, Copy, Debug)]
enum Event {
    Wait { user: u8, cost: u64 },
    Charge { user: u8, cost: u64 },
    GiveUp(usize),
    TakeBack(usize),
    Round,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let wait = (0u8..4, 1u64..14).prop_map(|(user, cost)| Event::Wait { user, cost });
    let flood = (1u64..4).prop_map(|cost| Event::Wait { user: 0, cost });
    let charge = (0u8..4, 1u64..30).prop_map(|(user, cost)| Event::Charge { user, cost });
    let give_up = (0usize..64).prop_map(Event::GiveUp);
    let take_back = (0usize..64).prop_map(Event::TakeBack);
    vec(prop_oneof![4 => wait, 6 => flood, 1 => charge, 1 => give_up, 1 => take_back, 3 => Just(Event::Round)], 0..200)
}

proptest! {
    #[test]
    fn rounds_are_those_of_a_queue_that_looks_at_everything(events in events(), tenants in tenants()) {
        let mut queue = FairQueue::new(Places::ForOneRound, ROUNDS);
        let mut naive = NaiveRounds { tenants, ..NaiveRounds::default() };
        let user = |number: u8| user_of(tenants[usize::from(number)], number);
        for (number, event) in events.into_iter().enumerate() {
            let ticket = number as Ticket;
            match event {
                Event::Wait { user: who, cost } => {
                    let of_user = naive.waiting.iter().filter(|(user, _, _)| *user == who).count();
                    let is_full = of_user > 0 && naive.waiting.len() >= ROUNDS.waiting_together;
                    let entered = queue.wait(&user(who), ticket, Cost { places: cost, bytes: 0 });
                    if of_user >= ROUNDS.waiting || is_full {
                        prop_assert!(matches!(entered, Entered::Rejected(_)), "the queue is bounded");
                    } else {
                        prop_assert_eq!(entered, Entered::Queued);
                        naive.wait(who, ticket, cost);
                    }
                }
                // Without waiting users, a charge is forgotten at the end of the round.
                Event::Charge { user: who, cost } if !naive.waiting.is_empty() => {
                    queue.charge(&user(who), cost);
                    naive.charge(who, cost);
                }
                Event::TakeBack(place) if !naive.granted.is_empty() => {
                    let place = place % naive.granted.len();
                    let (who, ticket, cost) = naive.granted[place];
                    let taken_back = queue.take_back(&user(who), ticket, Cost { places: cost, bytes: 0 });
                    prop_assert_eq!(taken_back, naive.take_back(place), "step {}", number);
                }
                Event::GiveUp(place) if !naive.waiting.is_empty() => {
                    let (who, gone, _) = naive.waiting.remove(place % naive.waiting.len());
                    naive.forget(who);
                    prop_assert_eq!(queue.cancel(&user(who), gone), Some(Vec::new()), "no turn before the round");
                }
                Event::Round => {
                    let was_waiting = naive.waiting.len();
                    let granted = queue.next_round();
                    prop_assert_eq!(&granted, &naive.next_round(), "step {}", number);
                    prop_assert!(was_waiting == 0 || !granted.is_empty(), "seats do not stay empty while requests wait");
                    prop_assert!(queue.places() <= SEATS || granted.len() == 1, "the bound");
                }
                Event::Charge { .. } | Event::GiveUp(_) | Event::TakeBack(_) => {}
            }
            prop_assert_eq!(queue.waiting(), naive.waiting.len());
        }
        while queue.waiting() > 0 {
            prop_assert!(!queue.next_round().is_empty(), "every request has its turn");
        }
        queue.next_round();
        prop_assert_eq!(queue.users(), 0, "nothing is kept of users who are gone");
    }

    /// Max-min fairness: among users who always wait, the difference is at most two of the largest requests.
    #[test]
    fn users_that_always_wait_get_equal_shares(costs in vec(1u64..=SEATS, 2..6), rounds in 50usize..150) {
        let mut queue = FairQueue::new(Places::ForOneRound, Bounds { waiting: 10_000, waiting_together: 100_000, ..ROUNDS });
        let mut used = vec![0u64; costs.len()];
        let name = |number: usize| user(number as u8);
        let mut ticket = 0;
        for _ in 0..rounds {
            for (number, cost) in costs.iter().enumerate() {
                // The first user floods; the others have enough requests for one round.
                while queue.usage_of(&name(number)).1 < if number == 0 { 500 } else { 10 } {
                    queue.wait(&name(number), ticket * 8 + number as u64, Cost { places: *cost, bytes: 0 });
                    ticket += 1;
                }
            }
            for granted in queue.next_round() {
                let number = (granted % 8) as usize;
                used[number] += costs[number];
            }
        }
        let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
        prop_assert!(most - least <= 2 * SEATS, "{:?} of {:?}", used, costs);
    }
}

#[test]
fn a_user_whose_turns_cost_more_than_expected_gets_fewer_of_them_in_a_round() {
    let mut queue = FairQueue::new(Places::ForOneRound, ROUNDS);
    let one = Cost { places: 1, bytes: 0 };
    for ticket in 0..50 {
        queue.wait(&user(0), ticket, one);
    }
    assert_eq!(queue.next_round().len(), 10, "nothing is known of what they cost");
    (0..10).for_each(|_| queue.charge(&user(0), 9));
    assert_eq!(queue.next_round().len(), 1, "each has cost ten");
    queue.charge(&user(0), 9);
    assert_eq!(queue.next_round().len(), 1, "and it does again");
    let rounds: Vec<usize> = (0..6).map(|_| queue.next_round().len()).collect();
    assert!(rounds.is_sorted() && rounds[5] > 4, "turns that cost what they take are more again: {rounds:?}");
}

#[test]
fn a_late_user_is_next_however_many_wait() {
    let mut queue = FairQueue::new(Places::ForOneRound, ROUNDS);
    let one = Cost { places: 1, bytes: 0 };
    for ticket in 0..50 {
        assert_eq!(queue.wait(&user(0), ticket, one), Entered::Queued);
    }
    assert_eq!(queue.wait(&user(0), 50, one), Entered::Rejected(Scarce::Bytes), "the queue of a user is bounded");
    assert_eq!(queue.next_round().len(), 10);
    queue.wait(&user(1), 100, one);
    assert_eq!(queue.next_round()[..2], [100, 10], "idle time before gives no more than the next turn");
    queue.charge(&user(1), 5);
    queue.wait(&user(1), 101, one);
    let round = queue.next_round();
    assert!(!round[..4].contains(&101) && round.contains(&101), "what it has cost is paid first: {round:?}");
}

#[test]
fn many_users_of_a_tenant_share_one_users_part() {
    let one = Cost { places: 1, bytes: 0 };
    let mut queue = FairQueue::new(Places::ForOneRound, ROUNDS);
    for ticket in 0..40 {
        queue.wait(&user_of(0, ticket), Ticket::from(ticket), one);
    }
    assert_eq!(queue.next_round().len(), 10, "nothing is known of what they cost");
    // Its first turn was long: the others are taken back.
    queue.charge(&user_of(0, 39), 50);
    for ticket in 30..39 {
        assert!(queue.take_back(&user_of(0, ticket), Ticket::from(ticket), one), "{ticket}");
    }
    queue.wait(&user(1), 100, one);
    assert_eq!(queue.next_round()[..2], [100, 38], "the tenant has used more");
    queue.wait(&user(1), 101, one);
    assert_eq!(
        queue.next_round()[0],
        101,
        "the second request of a user comes before the first of the tenant's others"
    );

    // Places that are held go to the tenant with the fewest.
    let mut places = FairQueue::new(Places::UntilLeft, Bounds { places: 2, first_places: 0, ..BOUNDS });
    for ticket in 0..40 {
        places.enter(&user_of(0, ticket), Ticket::from(ticket), list(1));
    }
    assert_eq!(places.enter(&user(1), 100, list(1)), Entered::Queued);
    assert_eq!(places.enter(&user(1), 101, list(1)), Entered::Queued);
    assert_eq!(places.release(&user_of(0, 0), list(1)), [100]);
    assert_eq!(places.release(&user_of(0, 1), list(1)), [2], "one each");
}

/// Places for long work.
const WORK: Bounds = Bounds { places: 2, first_places: 0, bytes: u64::MAX, waiting: 100, waiting_together: 10_000 };

#[test]
fn short_work_does_not_wait_for_long_work_of_many_users() {
    let mut queue = FairQueue::new(Places::UntilDone, WORK);
    for ticket in 0..100 {
        queue.enter(&user(ticket), Ticket::from(ticket), list(12_000));
    }
    let victim = user(200);
    let (mut ticket, mut served) = (1_000, 0);
    let mut running = vec![(user(0), 12_000), (user(1), 12_000)];
    // With each place that becomes free, the victim gets one at once, until it has used as much as the others request.
    while running.len() == 2 {
        assert_eq!(queue.enter(&victim, ticket, list(1_400)), Entered::Queued);
        let (done, bytes) = running.remove(0);
        let next = queue.release(&done, list(bytes));
        if next != [ticket] {
            break;
        }
        served += 1;
        ticket += 1;
        running.push((victim, 1_400));
    }
    assert_eq!(served, 12_000 / 1_400, "the victim has had its share");
}

#[test]
fn users_who_come_later_delay_long_work_for_a_bounded_time() {
    let mut queue = FairQueue::new(Places::UntilDone, Bounds { places: 1, ..WORK });
    let newcomer = |number: u64| user_of(u8::try_from(number % 200).unwrap(), u8::try_from(number / 200).unwrap());
    queue.enter(&newcomer(0), 0, list(256));
    queue.enter(&user(255), 1_000_000, list(12_000));
    let mut running = newcomer(0);
    // One user after the other has its first request, which is short.
    let served = (1..1_000).find(|number| {
        queue.enter(&newcomer(*number), *number, list(256));
        let next = queue.release(&running, list(256));
        running = newcomer(*number);
        next == [1_000_000]
    });
    assert!(served.is_some_and(|served| served < 2 * 12_000 / 256 + 2), "{served:?}");
}

#[test]
fn work_beyond_what_was_requested_counts() {
    let mut queue = FairQueue::new(Places::UntilDone, Bounds { places: 1, ..WORK });
    queue.enter(&user(0), 0, list(10));
    queue.charge_bytes(&user(0), 100);
    queue.enter(&user(0), 1, list(10));
    queue.enter(&user(1), 2, list(50));
    assert_eq!(queue.release(&user(0), list(10)), [2], "the other user has had less");
}

proptest! {
    /// Users who always wait get equal amounts of work done, up to a few of the longest requests.
    #[test]
    fn users_who_always_wait_share_work_by_its_amount(
        costs in vec(1..50_u64, 4),
        tenants in tenants(),
        steps in 50..400_usize,
    ) {
        let mut queue = FairQueue::new(Places::UntilDone, Bounds { places: 1, ..WORK });
        let name = |number: usize| user_of(tenants[number], u8::try_from(number).unwrap());
        let mut ticket = 0;
        let mut begin = |queue: &mut FairQueue<TestUser>, number: usize| {
            ticket += 4;
            let ticket = ticket + number as u64;
            queue.enter(&name(number), ticket, list(costs[number]))
        };
        let mut running = 0;
        let mut done = [0_u64; 4];
        for number in 0..4 {
            for _ in 0..2 {
                if begin(&mut queue, number) == Entered::Granted {
                    running = number;
                }
            }
        }
        for _ in 0..steps {
            done[running] += costs[running];
            begin(&mut queue, running);
            let next = queue.release(&name(running), list(costs[running]));
            prop_assert_eq!(next.len(), 1);
            running = usize::try_from(next[0] % 4).unwrap();
        }
        let of_tenant = |tenant: u8| -> u64 { (0..4).filter(|user| tenants[*user] == tenant).map(|user| done[user]).sum() };
        let most = 3 * costs.iter().max().unwrap();
        for left in 0..4 {
            for right in 0..4 {
                let (tenant_left, tenant_right) = (of_tenant(tenants[left]), of_tenant(tenants[right]));
                prop_assert!(tenant_left.abs_diff(tenant_right) <= most, "{:?} by {:?}", done, tenants);
                if tenants[left] == tenants[right] {
                    prop_assert!(done[left].abs_diff(done[right]) <= most, "{:?} by {:?}", done, tenants);
                }
            }
        }
    }

    /// The queue grants every request, and forgets all users once no request is left.
    #[test]
    fn all_work_is_granted_and_then_forgotten(requests in vec((0..4_u8, 1..50_u64, 0..3_u8), 1..100), tenants in tenants()) {
        let mut queue = FairQueue::new(Places::UntilDone, WORK);
        let name = |number: u8| user_of(tenants[usize::from(number)], number);
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        let end = |queue: &mut FairQueue<TestUser>, running: &mut Vec<(u8, u64)>, waiting: &mut Vec<(Ticket, u8, u64)>| {
            let (number, bytes) = running.remove(0);
            for ticket in queue.release(&name(number), list(bytes)) {
                let place = waiting.iter().position(|(waits, ..)| *waits == ticket).unwrap();
                let (_, number, bytes) = waiting.remove(place);
                running.push((number, bytes));
            }
        };
        for (ticket, (number, bytes, ends)) in requests.into_iter().enumerate() {
            match queue.enter(&name(number), ticket as u64, list(bytes)) {
                Entered::Granted => running.push((number, bytes)),
                Entered::Queued => waiting.push((ticket as u64, number, bytes)),
                Entered::Rejected(_) => unreachable!("there is room"),
            }
            for _ in 0..ends {
                if !running.is_empty() {
                    end(&mut queue, &mut running, &mut waiting);
                }
            }
            prop_assert!(running.len() <= 2 && (waiting.is_empty() || running.len() == 2));
        }
        while !running.is_empty() {
            end(&mut queue, &mut running, &mut waiting);
        }
        prop_assert!(waiting.is_empty());
        prop_assert_eq!(queue.users(), 0);
    }
}
