//! Upper bounds of the memory that finding objects takes while a request waits for its next turn.
//!
//! All requests of a user can wait at the same time, each with sets of slots. So each counts for its user before it
//! waits. The bounds depend only on the request, on size classes of the store and of its changes, and on selected
//! objects. Otherwise, whether a request is rejected would reveal how many objects there are that its user may not
//! read.

use super::cel_filter::CelFilter;
use super::page::State;
use super::selection::Selection;
use crate::cel::ObjectSet;
use crate::extract::FieldRef;
use crate::model::Version;
use crate::store::Snapshot;

/// Stores of up to this many slots are of one size class. Above it, a class is a power of two. It is smaller in tests,
/// whose stores are small.
const SMALLEST_STORE: u64 = if cfg!(test) { 1 << 16 } else { 1 << 20 };

/// Changes of an earlier version up to this many bytes are of one size class. Above it, a class is a power of two.
const SMALLEST_REWIND: u64 = 64 << 10;

/// The sets of slots that a plan holds while it runs, without those that it computes: the candidates, and two that are
/// combined with them.
const SETS_OF_RUN: u64 = 3;

/// The sets that a plan computes, because the index has no lists for them: one to include and one to exclude.
const COMPUTED_SETS: u64 = 2;

/// The sets for an expression, besides one for each level of the sets that bound it: the candidates, those whose values
/// are unknown, the result, the result that is remembered, and those of the plan of one requirement.
const SETS_OF_CEL: u64 = 4 + SETS_OF_RUN + 1;

/// The sets of a listing: its slots, or a handle of eight bytes for each of its objects, of which it then has at most one
/// for 16 objects of the store.
const SETS_OF_LISTING: u64 = 4;

/// The sets after the selected objects are found, to sort or count them: the selected ones as two sets, those to read,
/// two sets of ranks, and those with one value.
const SETS_OF_SELECTED: u64 = 6;

/// The memory for each requirement in a plan, in bytes.
const BYTES_OF_REQUIREMENT: u64 = 256;

impl State {
    /// An upper bound of the memory to find the objects of a selection, and of their [`Listing`](super::Listing), in
    /// bytes.
    pub fn most_listing_bytes(&self, selection: &Selection) -> u64 {
        self.most_held_bytes(selection, SETS_OF_LISTING)
    }

    /// An upper bound of the memory to find the objects of a selection, and to sort or count them, in bytes, without the
    /// memory for each selected object: [`SortOrder::most_held_bytes`](super::SortOrder::most_held_bytes) and
    /// [`SelectedObjects::held_bytes`](super::SelectedObjects::held_bytes) have that.
    pub fn most_selecting_bytes(&self, selection: &Selection) -> u64 {
        self.most_held_bytes(selection, SETS_OF_SELECTED)
    }

    /// An upper bound of the memory to find the objects of a selection, in bytes. `found_sets`: the number of sets that
    /// are held afterwards.
    fn most_held_bytes(&self, selection: &Selection, found_sets: u64) -> u64 {
        let is_computed = selection.shard.is_some() || selection.fields.iter().any(|term| term.field == FieldRef::Name);
        let planned = SETS_OF_RUN + if is_computed { COMPUTED_SETS } else { 0 };
        let sets = planned + selection.cel.as_deref().map_or(0, most_sets_of_cel);
        let requirements = (selection.labels.requirements.len() + selection.fields.len()) as u64;
        sets.max(found_sets) * bytes_of_set(self.snapshot())
            // A plan has each requirement, and a test of objects has their texts.
            + requirements * BYTES_OF_REQUIREMENT
            + selection.requirement_bytes() as u64
            + self.most_rewind_bytes()
    }

    /// An upper bound of the memory to find the state of the snapshot at a version ([`State::begin_at`]), in bytes.
    pub fn most_finding_bytes(snapshot: &Snapshot, version: Version) -> u64 {
        (snapshot.most_rewind_bytes(version) as u64).max(SMALLEST_REWIND).next_power_of_two()
    }

    /// An upper bound of the memory for the changes since the version of the state, in bytes: of the changes, and of
    /// lists of the selected ones among them, which grow by doubling.
    fn most_rewind_bytes(&self) -> u64 {
        if self.version() == self.snapshot().version() {
            return 0;
        }
        3 * (self.rewind().held_bytes() as u64).max(SMALLEST_REWIND).next_power_of_two()
    }
}

/// The size class of a set of slots of the store, in bytes: a bit for each slot, and the memory to find the bits.
fn bytes_of_set(snapshot: &Snapshot) -> u64 {
    let bits = snapshot.slots().max(SMALLEST_STORE).next_power_of_two() / 8;
    bits + bits / 64
}

/// An upper bound of the number of sets that are held for an expression.
fn most_sets_of_cel(cel: &CelFilter) -> u64 {
    SETS_OF_CEL + depth(&cel.at_most).max(depth(&cel.at_least))
}

/// The number of levels of a set. Each level holds one set of slots while the level below it is found. The recursion is
/// bounded like that of `CelFilter::slots_of`.
fn depth(set: &ObjectSet) -> u64 {
    match set {
        ObjectSet::All | ObjectSet::Nothing | ObjectSet::Leaf(_) => 1,
        ObjectSet::Not(inner) => 1 + depth(inner),
        ObjectSet::And(sets) | ObjectSet::Or(sets) => 1 + sets.iter().map(depth).max().unwrap_or_default(),
    }
}
