//! Which answers end when too many bytes are unread. Pure: no lock, no clock, no atomics.
//!
//! The user with the most unread bytes loses a response: the one whose reader has read nothing for the longest time.
//! This repeats until enough is free. So a user always has at least an equal part of all bytes, however much others
//! leave unread. Readers that make progress outlast those that have stopped.

use std::collections::{BinaryHeap, HashMap};

use super::user::User;

/// An answer with unread bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseBacklog {
    /// The user.
    pub user: User,
    /// How many bytes are unread.
    pub bytes: u64,
    /// When the reader took something last, in any unit that grows.
    pub progress: u64,
}

/// The positions of the responses to end, so that at most `most` bytes stay unread.
pub fn slowest(backlogs: &[ResponseBacklog], most: u64) -> Vec<usize> {
    let mut total: u64 = backlogs.iter().map(|answer| answer.bytes).sum();
    let mut users: HashMap<&User, (u64, Vec<usize>)> = HashMap::new();
    for (place, answer) in backlogs.iter().enumerate().filter(|(_, answer)| answer.bytes > 0) {
        let (bytes, answers) = users.entry(&answer.user).or_default();
        *bytes += answer.bytes;
        answers.push(place);
    }
    for (_, answers) in users.values_mut() {
        // The slowest last, to be taken from there.
        answers.sort_unstable_by_key(|place| std::cmp::Reverse((backlogs[*place].progress, *place)));
    }
    let mut heaviest: BinaryHeap<(u64, &User)> = users.iter().map(|(user, (bytes, _))| (*bytes, *user)).collect();
    let mut ended = Vec::new();
    while total > most {
        let Some((bytes, user)) = heaviest.pop() else { break };
        let Some(place) = users.get_mut(user).and_then(|(_, answers)| answers.pop()) else { continue };
        ended.push(place);
        total -= backlogs[place].bytes;
        heaviest.push((bytes - backlogs[place].bytes, user));
    }
    ended
}
