//! Which clients are in memory at the same time.
//!
//! Clients stay after their stores are complete, so that one stream of changes serves many of them. All of them at once would take more
//! memory than a machine of 24 GB has.

use super::clients::Consumer;
use super::kept::Kept;

/// Memory that stays free, beside that for more of the servers: some clients take more while they start, and all while objects change.
const RESERVE: u64 = 1_000_000_000;

/// Memory of a client without objects.
const BASE: u64 = 50_000_000;

/// A client, and beside which of the two servers.
pub(super) type Run = (Consumer, usize);

/// Groups of clients that fit into this memory, in few groups: the largest first, into the first group that has room.
///
/// A client of each server receives the changes at the same time, unless memory does not suffice for both.
pub(super) fn groups(kept: &Kept, consumers: impl Iterator<Item = Consumer>, available: u64) -> Vec<Vec<Run>> {
    let room = available.saturating_sub(RESERVE + kept.count() * kept.server_bytes_an_object());
    let mut units: Vec<(u64, Vec<Run>)> = Vec::new();
    for consumer in consumers {
        let size = BASE + kept.count() * consumer.bytes_an_object(kept);
        if 2 * size <= room {
            units.push((2 * size, vec![(consumer, 0), (consumer, 1)]));
        } else {
            units.extend([(size, vec![(consumer, 0)]), (size, vec![(consumer, 1)])]);
        }
    }
    units.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let mut groups: Vec<(u64, Vec<Run>)> = Vec::new();
    for (size, runs) in units {
        // What fits nowhere has a group of its own.
        match groups.iter_mut().find(|(taken, _)| taken.saturating_add(size) <= room) {
            Some((taken, group)) => {
                *taken += size;
                group.extend(runs);
            }
            None => groups.push((size, runs)),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
