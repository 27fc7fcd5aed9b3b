//! The fair queue beside one that looks at everything at every step, and what it promises whatever happens.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::server::limits::User;
use crate::server::limits::turns::{Bounds, Entered, Scarce, Ticket, Turns};

const BOUNDS: Bounds = Bounds { lists: 3, bytes: 100, waiting: 2 };

fn user(number: u8) -> User {
    User::named(&format!("user-{number}"))
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
    entries: Vec<Entry>,
    turns: u64,
    /// Last turns, by user; of those who have nothing any more none is known.
    last: Vec<(u8, u64)>,
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
        in_flight.is_empty() || (in_flight.len() < BOUNDS.lists && used + bytes <= BOUNDS.bytes)
    }

    fn last_turn(&self, user: u8) -> u64 {
        self.last.iter().find(|(known, _)| *known == user).map_or(0, |(_, turn)| *turn)
    }

    fn grant(&mut self, ticket: Ticket) {
        self.turns += 1;
        let entry = self.entries.iter_mut().find(|entry| entry.ticket == ticket).unwrap();
        entry.turn = Some(self.turns);
        let (user, turn) = (entry.user, self.turns);
        self.last.retain(|(known, _)| *known != user);
        self.last.push((user, turn));
    }

    fn enter(&mut self, user: u8, ticket: Ticket, bytes: u64) -> Entered {
        let is_first = !self.entries.iter().any(|entry| entry.user == user);
        if !(is_first || (self.waiting(None).is_empty() && self.fits(bytes)))
            && self.waiting(Some(user)).len() >= BOUNDS.waiting
        {
            let is_full = self.in_flight(None).len() >= BOUNDS.lists;
            return Entered::Refused(if is_full { Scarce::Lists } else { Scarce::Bytes });
        }
        let goes = is_first || (self.waiting(None).is_empty() && self.fits(bytes));
        self.entries.push(Entry { ticket, user, bytes, turn: None });
        if goes {
            self.grant(ticket);
            return Entered::Now;
        }
        Entered::Waits
    }

    fn remove(&mut self, ticket: Ticket) -> Vec<Ticket> {
        self.entries.retain(|entry| entry.ticket != ticket);
        self.last.retain(|(user, _)| self.entries.iter().any(|entry| entry.user == *user));
        let mut granted = Vec::new();
        loop {
            // The first of each user, the user with the fewest in flight before the others.
            let mut heads: Vec<(usize, u64, Ticket, u64)> = Vec::new();
            for user in 0..4 {
                if let Some(head) = self.waiting(Some(user)).first() {
                    heads.push((self.in_flight(Some(user)).len(), self.last_turn(user), head.ticket, head.bytes));
                }
            }
            heads.sort_unstable();
            match heads.first() {
                Some((in_flight, _, ticket, bytes)) if *in_flight == 0 || self.fits(*bytes) => {
                    let ticket = *ticket;
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
    // A flood of one user is what this is about, so one of the users comes more often.
    let flood = (1u64..40).prop_map(|bytes| Step::Enter { user: 0, bytes });
    vec(prop_oneof![3 => enter, 2 => flood, 4 => (0usize..16).prop_map(Step::Leave)], 0..120)
}

proptest! {
    #[test]
    fn turns_are_those_of_a_queue_that_looks_at_everything(steps in steps()) {
        let (mut turns, mut naive) = (Turns::new(BOUNDS), Naive::default());
        for (number, step) in steps.into_iter().enumerate() {
            let ticket = number as Ticket;
            match step {
                Step::Enter { user: who, bytes } => {
                    let entered = turns.enter(&user(who), ticket, bytes);
                    prop_assert_eq!(entered, naive.enter(who, ticket, bytes), "step {}", number);
                }
                Step::Leave(place) if !naive.entries.is_empty() => {
                    let gone = naive.entries[place % naive.entries.len()].clone();
                    let expected = naive.remove(gone.ticket);
                    let next = match gone.turn {
                        Some(_) => {
                            prop_assert_eq!(turns.give_up(&user(gone.user), gone.ticket), None, "it does not wait");
                            turns.leave(&user(gone.user), gone.bytes)
                        }
                        None => turns.give_up(&user(gone.user), gone.ticket).expect("it waits"),
                    };
                    prop_assert_eq!(next, expected, "step {}", number);
                }
                Step::Leave(_) => {}
            }
            let in_flight = naive.in_flight(None);
            let bytes: u64 = in_flight.iter().map(|entry| entry.bytes).sum();
            prop_assert_eq!((turns.lists(), turns.bytes()), (in_flight.len(), bytes));
            prop_assert_eq!(turns.waiting(), naive.waiting(None).len());
            // What is promised, apart from how it is done.
            let users = (0..4).filter(|who| turns.of(&user(*who)).0 > 0).count();
            prop_assert!(turns.lists() <= BOUNDS.lists + users, "at most one beyond the bound for each user");
            for who in 0..4 {
                let (lists, waiting) = turns.of(&user(who));
                prop_assert!(lists > 0 || waiting == 0, "nobody waits who has none in flight");
                prop_assert!(waiting <= BOUNDS.waiting);
                let of_user: Vec<Ticket> = naive.waiting(Some(who)).iter().map(|entry| entry.ticket).collect();
                prop_assert!(of_user.is_sorted(), "first come, first served");
            }
        }
    }
}

#[test]
fn a_flood_leaves_every_other_user_a_place_at_once() {
    let mut turns = Turns::new(BOUNDS);
    let flood: Vec<Entered> = (0..10_000).map(|ticket| turns.enter(&user(0), ticket, 10)).collect();
    let count = |what: Entered| flood.iter().filter(|entered| **entered == what).count();
    assert_eq!((count(Entered::Now), count(Entered::Waits)), (3, 2));
    assert_eq!(count(Entered::Refused(Scarce::Lists)), 9_995);
    assert_eq!(turns.enter(&user(1), 10_000, 10), Entered::Now, "the first of another user");
    assert_eq!(turns.enter(&user(1), 10_001, 10), Entered::Waits, "not the second");
    assert_eq!(turns.leave(&user(0), 10), Vec::<Ticket>::new(), "four were in flight, one of them beyond the bound");
    assert_eq!(turns.leave(&user(0), 10), [3], "one each: whose last turn is longer ago");
    assert_eq!(turns.leave(&user(0), 10), [10_001], "one each again, though another came before");
    assert_eq!(turns.leave(&user(0), 10), [4], "who has none is next at once");
}

#[test]
fn a_list_that_is_larger_than_everything_goes_when_nothing_else_does() {
    let mut turns = Turns::new(BOUNDS);
    assert_eq!(turns.enter(&user(0), 0, 50), Entered::Now);
    assert_eq!(turns.enter(&user(0), 1, 1_000), Entered::Waits);
    assert_eq!(turns.enter(&user(0), 2, 1), Entered::Waits, "it would fit, but does not overtake");
    assert_eq!(turns.enter(&user(0), 3, 1), Entered::Refused(Scarce::Bytes));
    assert_eq!(turns.leave(&user(0), 50), [1]);
    assert_eq!(turns.leave(&user(0), 1_000), [2]);
    assert_eq!((turns.leave(&user(0), 1), turns.lists(), turns.bytes()), (Vec::new(), 0, 0));
}
