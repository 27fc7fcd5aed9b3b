//! Decides which responses end when too many bytes are unread. The module is pure: it has no lock, clock or atomics.
//!
//! Of the tenant with the most unread bytes, the user with the most unread bytes loses one response: the one whose
//! client has read nothing for the longest time. This is repeated until enough is free. So no tenant loses a response
//! while it has less than an equal part of all bytes. No user loses one while it has less than an equal part of the
//! bytes of its tenant. Clients that make progress keep their responses longer than clients that have stopped.

use std::collections::{BinaryHeap, HashMap};

use super::user::User;
use crate::model::flow::Flow;

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

/// The responses to end so that at most `most` bytes stay unread, as indexes of `backlogs`. The first response is of
/// the user with the most unread bytes in the tenant with the most. Empty if no more than `most` bytes are unread.
pub fn slowest(backlogs: &[ResponseBacklog], most: u64) -> Vec<usize> {
    let mut total: u64 = backlogs.iter().map(|backlog| backlog.bytes).sum();
    // The unread bytes of each user, and the indexes of its responses.
    let mut users: HashMap<&User, (u64, Vec<usize>)> = HashMap::new();
    for (place, backlog) in backlogs.iter().enumerate().filter(|(_, backlog)| backlog.bytes > 0) {
        let (bytes, places) = users.entry(&backlog.user).or_default();
        *bytes += backlog.bytes;
        places.push(place);
    }
    // The users of each tenant. The heap returns the one with the most unread bytes first.
    let mut tenants: HashMap<User, BinaryHeap<(u64, &User)>> = HashMap::new();
    for (user, (bytes, places)) in &mut users {
        // The response whose client has read nothing for the longest time is last, where `pop` removes it.
        places.sort_unstable_by_key(|place| std::cmp::Reverse((backlogs[*place].progress, *place)));
        tenants.entry(user.tenant()).or_default().push((*bytes, *user));
    }
    let sum = |users: &BinaryHeap<(u64, &User)>| users.iter().map(|(bytes, _)| bytes).sum();
    let mut heaviest: BinaryHeap<(u64, User)> =
        tenants.iter().map(|(tenant, users)| (sum(users), tenant.clone())).collect();
    let mut ended = Vec::new();
    while total > most {
        let Some((bytes_of_tenant, tenant)) = heaviest.pop() else { break };
        let Some(of_tenant) = tenants.get_mut(&tenant) else { continue };
        let Some((bytes, user)) = of_tenant.pop() else { continue };
        let place = users.get_mut(user).and_then(|(_, places)| places.pop());
        let freed = place.map_or(0, |place| backlogs[place].bytes);
        if let Some(place) = place {
            ended.push(place);
            total -= freed;
            of_tenant.push((bytes - freed, user));
        }
        heaviest.push((bytes_of_tenant - freed, tenant));
    }
    ended
}
