//! Decides which responses end when too many bytes are unread. Pure: no lock, no clock, no atomics.
//!
//! The user with the most unread bytes loses one response: the one whose client has read nothing for the longest
//! time. This is repeated until enough is free. So a user always has at least an equal part of all bytes, and clients
//! that make progress outlast those that have stopped.

use std::collections::{BinaryHeap, HashMap};

use super::user::User;

/// A response with unread bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseBacklog {
    /// The user.
    pub user: User,
    /// The number of unread bytes.
    pub bytes: u64,
    /// When the client last read something, in any unit that grows with time.
    pub progress: u64,
}

/// The responses to end so that at most `most` bytes stay unread, as indexes of `backlogs`.
pub fn slowest(backlogs: &[ResponseBacklog], most: u64) -> Vec<usize> {
    let mut total: u64 = backlogs.iter().map(|backlog| backlog.bytes).sum();
    let mut users: HashMap<&User, (u64, Vec<usize>)> = HashMap::new();
    for (place, backlog) in backlogs.iter().enumerate().filter(|(_, backlog)| backlog.bytes > 0) {
        let (bytes, places) = users.entry(&backlog.user).or_default();
        *bytes += backlog.bytes;
        places.push(place);
    }
    for (_, places) in users.values_mut() {
        // The slowest comes last, where `pop` removes it.
        places.sort_unstable_by_key(|place| std::cmp::Reverse((backlogs[*place].progress, *place)));
    }
    let mut heaviest: BinaryHeap<(u64, &User)> = users.iter().map(|(user, (bytes, _))| (*bytes, *user)).collect();
    let mut ended = Vec::new();
    while total > most {
        let Some((bytes, user)) = heaviest.pop() else { break };
        let Some(place) = users.get_mut(user).and_then(|(_, places)| places.pop()) else { continue };
        ended.push(place);
        total -= backlogs[place].bytes;
        heaviest.push((bytes - backlogs[place].bytes, user));
    }
    ended
}
