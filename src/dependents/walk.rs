//! Walks from an owner to its dependents, level by level, over the indexes of owners of all stores.
//!
//! The index gives candidates: objects that have an owner with the hash of a wanted uid. Each candidate is read, and is
//! a dependent only if it names the uid itself. An object occurs once, so cycles end. The limits below bound the work
//! and the result; a walk that reaches one says so. Stores are read one after the other, each in its newest state, so
//! the result is not of one point in time. No snapshot is held while the walk waits for its next turn.

use std::collections::{BTreeSet, HashSet, btree_set};
use std::sync::Arc;

use super::candidate::Candidate;
use super::document::{Dependent, MOST_OWNERS_SHOWN};
use crate::flow_control::long_work::{WorkMeter, count_work, wait_to_read};
use crate::model::fnv1a;
use crate::query::work::yield_to_others;
use crate::registry::{LoadState, Resource};
use crate::store::Object;

/// The limits of a walk. A walk that reaches one ends, and [`FoundDependents::truncated`] names the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkOptions {
    /// The maximum number of dependents.
    pub dependents: usize,
    /// The maximum number of levels; 1 finds only the dependents of the owner itself, and is not reported as a limit.
    pub levels: usize,
    /// The maximum number of objects that are read. More can be read than are found, because an object with very many
    /// owners is a candidate for each owner.
    pub reads: usize,
    /// The maximum number of entries of the indexes of owners, of all stores, that are looked at in one level. An object
    /// has an entry for each owner. Only entries of objects within [`SearchScope`] count.
    pub candidates: usize,
    /// The maximum memory of the dependents, in bytes.
    pub bytes: usize,
}

impl Default for WalkOptions {
    /// Trees that people look at have some ten to some hundred objects, of less than a kilobyte each.
    fn default() -> WalkOptions {
        WalkOptions { dependents: 5_000, levels: 32, reads: 20_000, candidates: 100_000, bytes: 6 << 20 }
    }
}

/// A store to search.
#[derive(Clone, Debug)]
pub struct SearchedStore {
    /// Its resource.
    pub resource: Arc<Resource>,
    /// The part that is searched.
    pub scope: SearchScope,
}

/// The part of a store that is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchScope {
    /// All objects.
    All,
    /// The objects of one namespace.
    Namespace(Arc<str>),
}

/// The dependents that a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundDependents {
    /// The dependents; see [`super::DependentsDocument::dependents`].
    pub dependents: Vec<Dependent>,
    /// Which limit the walk reached; `None`: the result is complete.
    pub truncated: Option<String>,
}

/// Why a walk ends before all dependents are found.
enum Stop<E> {
    /// A limit was reached, which the text names. The result is incomplete.
    Limit(String),
    /// `hold` rejected the memory of the dependents. The walk fails.
    NoMemory(E),
}

/// A walk in progress.
struct Walk<'w, Hold> {
    stores: &'w [SearchedStore],
    options: WalkOptions,
    /// A function that is called with the memory that the dependents take so far, in bytes. Its error ends the walk.
    hold: Hold,
    /// The uids of the owner and of all dependents so far.
    known: HashSet<String>,
    /// The dependents so far.
    found: Vec<Dependent>,
    /// The memory of `found` and `known`, in bytes.
    bytes: usize,
    /// The number of objects that were read.
    reads: usize,
    /// The work of the current turn.
    meter: WorkMeter,
}

/// A search for the candidates of one level in one store. It continues in later turns, with newer snapshots.
struct Search<'l> {
    /// The owners whose entries have not been looked at.
    uids: btree_set::Iter<'l, String>,
    /// Where the search continues; `None`: it is complete.
    place: Option<Place>,
    /// The candidates so far.
    slots: BTreeSet<u32>,
}

/// Where the search for candidates continues.
enum Place {
    /// At the objects with too many owners to be indexed.
    Unindexed,
    /// At the entries of an owner whose uid has this hash, from a slot on.
    Owner { hash: u64, from: u32 },
}

/// Finds the dependents of the object with the uid `owner`. The object itself need not exist. `hold` is called before
/// each dependent is kept, with the memory in bytes that all dependents so far take.
///
/// # Errors
/// The first error of `hold`.
pub async fn walk<E>(
    stores: &[SearchedStore],
    owner: &str,
    options: WalkOptions,
    hold: impl FnMut(usize) -> Result<(), E>,
) -> Result<FoundDependents, E> {
    let (known, meter) = (HashSet::from([owner.to_owned()]), WorkMeter::start());
    let mut walk = Walk { stores, options, hold, known, found: Vec::new(), bytes: 0, reads: 0, meter };
    let truncated = match walk.levels(owner).await {
        Ok(()) => None,
        Err(Stop::Limit(limit)) => Some(limit),
        Err(Stop::NoMemory(error)) => return Err(error),
    };
    let mut dependents = walk.found;
    for dependent in &mut dependents {
        // An owner that is not in the result, such as an object that the user may not list, must not be shown. An
        // object is not shown as the owner of itself either.
        let uid = &dependent.uid;
        dependent.owners.retain(|reference| reference.uid != *uid && walk.known.contains(&reference.uid));
        dependent.owners.truncate(MOST_OWNERS_SHOWN);
    }
    Ok(FoundDependents { dependents, truncated })
}

impl<E, Hold: FnMut(usize) -> Result<(), E>> Walk<'_, Hold> {
    /// Finds the dependents of all levels, and adds them to `found`.
    ///
    /// # Errors
    /// A limit is reached, or `hold` fails. `found` keeps the dependents so far.
    async fn levels(&mut self, owner: &str) -> Result<(), Stop<E>> {
        // The uids of the objects of one level, whose dependents are searched for.
        let mut level = BTreeSet::from([owner.to_owned()]);
        for _ in 0..self.options.levels {
            let mut candidates = 0;
            let begins = self.found.len();
            for index in 0..self.stores.len() {
                let slots = self.candidates(index, &level, &mut candidates).await?;
                for chunk in slots.chunks(AT_ONCE) {
                    for object in self.objects(index, chunk) {
                        self.look_at(index, &object, &level).await?;
                    }
                    self.end_turn_if_over().await;
                }
                self.end_turn_if_over().await;
            }
            self.found[begins..].sort_by(|one, other| place(one).cmp(&place(other)));
            level = self.found[begins..].iter().map(|dependent| dependent.uid.clone()).collect();
            if level.is_empty() {
                return Ok(());
            }
        }
        match self.options.levels {
            // The caller wants only the dependents of the owner itself, so the result is complete.
            1 => Ok(()),
            levels => Err(Stop::Limit(format!("the result has only the first {levels} levels"))),
        }
    }

    /// The slots of the objects of the store with this index that may have one of the owners of `level`. Empty if the
    /// store is not loaded. `visited` is the number of entries of this level in all stores so far. The method adds its
    /// entries to it.
    ///
    /// # Errors
    /// The level has more entries than the limit.
    async fn candidates(
        &mut self,
        index: usize,
        level: &BTreeSet<String>,
        visited: &mut usize,
    ) -> Result<Vec<u32>, Stop<E>> {
        let mut search = Search { uids: level.iter(), place: Some(Place::Unindexed), slots: BTreeSet::new() };
        while search.place.is_some() {
            self.advance(index, &mut search, visited)?;
            self.end_turn_if_over().await;
        }
        Ok(search.slots.into_iter().collect())
    }

    /// Looks at some entries of the index of owners of the newest snapshot, and adds the slots within the scope.
    ///
    /// # Errors
    /// The level has more entries than the limit.
    fn advance(&self, index: usize, search: &mut Search<'_>, visited: &mut usize) -> Result<(), Stop<E>> {
        let SearchedStore { resource, scope } = &self.stores[index];
        let Some(place) = search.place.take() else { return Ok(()) };
        count_work(BYTES_OF_A_LOOKUP);
        let LoadState::Ready(snapshot) = resource.state.load_state() else { return Ok(()) };
        let owners = snapshot.postings().owners();
        if owners.is_empty() {
            return Ok(());
        }
        // Only objects in the scope count towards the limit, so that it reveals nothing of other namespaces.
        let searched = match scope {
            SearchScope::All => None,
            SearchScope::Namespace(namespace) => match snapshot.postings().namespace(namespace) {
                Some(slots) => Some(slots),
                None => return Ok(()),
            },
        };
        let mut add = |slot: u32| {
            if searched.is_none_or(|searched| searched.contains(slot)) {
                *visited += 1;
                search.slots.insert(slot);
            }
            if *visited > self.options.candidates {
                return Err(Stop::Limit(format!(
                    "more than {} references to owners were found in one level, which is too many to read",
                    self.options.candidates
                )));
            }
            Ok(())
        };
        let (hash, from) = match place {
            // Objects with too many owners are not in the index, so each of them is a candidate for each owner.
            Place::Unindexed => {
                count_work(owners.unindexed().len() as usize * BYTES_OF_A_LOOKUP);
                owners.unindexed().to_bitmap().into_iter().try_for_each(add)?;
                search.place = search.uids.next().map(|uid| Place::Owner { hash: fnv1a(uid), from: 0 });
                return Ok(());
            }
            Place::Owner { hash, from } => (hash, from),
        };
        let (mut looked_at, mut last) = (0, None);
        for slot in owners.candidates(hash, from).take(ENTRIES_AT_ONCE) {
            add(slot)?;
            looked_at += 1;
            last = Some(slot);
        }
        count_work(looked_at * BYTES_OF_A_LOOKUP);
        search.place = match last.and_then(|last| last.checked_add(1)).filter(|_| looked_at == ENTRIES_AT_ONCE) {
            Some(from) => Some(Place::Owner { hash, from }),
            None => search.uids.next().map(|uid| Place::Owner { hash: fnv1a(uid), from: 0 }),
        };
        Ok(())
    }

    /// The objects in these slots of the newest snapshot, if they are within the scope. A slot can be empty, or have
    /// another object than when [`Walk::candidates`] found it.
    fn objects(&self, index: usize, slots: &[u32]) -> Vec<Object> {
        let SearchedStore { resource, scope } = &self.stores[index];
        count_work(slots.len() * BYTES_OF_A_LOOKUP);
        let LoadState::Ready(snapshot) = resource.state.load_state() else { return Vec::new() };
        let is_searched = |object: &&Object| match scope {
            SearchScope::Namespace(namespace) => object.namespace() == &**namespace,
            SearchScope::All => true,
        };
        slots.iter().filter_map(|slot| snapshot.object(*slot)).filter(is_searched).cloned().collect()
    }

    /// Reads the candidate `object` of the store with this index. Adds it to the dependents if one of its owners is in
    /// `level`, it has a uid, and it is not in the result yet.
    ///
    /// # Errors
    /// A limit is reached, or `hold` fails.
    async fn look_at(&mut self, index: usize, object: &Object, level: &BTreeSet<String>) -> Result<(), Stop<E>> {
        if self.reads == self.options.reads {
            return Err(Stop::Limit(format!("the maximum of {} objects was read", self.options.reads)));
        }
        self.reads += 1;
        wait_to_read(object.length()).await;
        count_work(object.length());
        let known = &self.known;
        // `others`: the number of owners that are not in the result so far.
        let (mut is_owned, mut others) = (false, 0);
        let read = Candidate::read(&object.json(), |uid| {
            let is_of_level = level.contains(uid);
            is_owned |= is_of_level;
            if is_of_level || known.contains(uid) {
                return true;
            }
            // This owner may be found in a later level, so it is kept. `walk` removes the owners that are not found.
            others += 1;
            others <= MOST_OWNERS_SHOWN && uid.len() <= LONGEST_UID
        });
        self.end_turn_if_over().await;
        let Some(candidate) = read.filter(|candidate| is_owned && !candidate.uid.is_empty()) else { return Ok(()) };
        // The same object can be served in two API groups, so it may be in the result already.
        if self.known.contains(&candidate.uid) {
            return Ok(());
        }
        if self.found.len() == self.options.dependents {
            return Err(Stop::Limit(format!("the result has only the first {} dependents", self.options.dependents)));
        }
        let resource = &self.stores[index].resource;
        let Candidate { uid, name, namespace, creation_timestamp, status, mut owners } = candidate;
        // An owner of the level before comes first, so that each object has an owner through which it is reached.
        owners.sort_by_key(|owner| !level.contains(&owner.uid));
        owners.truncate(MOST_OWNERS_READ);
        let dependent = Dependent {
            api_version: resource.gvr.group_version().to_string(),
            kind: resource.kind.clone(),
            namespace,
            name,
            uid,
            owners,
            creation_timestamp,
            status,
        };
        // `known` and the set of the next level each hold a copy of the uid.
        self.bytes += dependent.held_bytes() + 2 * (dependent.uid.len() + size_of::<String>());
        if self.bytes > self.options.bytes {
            let number = self.found.len();
            return Err(Stop::Limit(format!(
                "the result has only the first {number} dependents, because more would exceed its maximum memory"
            )));
        }
        (self.hold)(self.bytes).map_err(Stop::NoMemory)?;
        self.known.insert(dependent.uid.clone());
        self.found.push(dependent);
        Ok(())
    }

    /// Ends the turn of the user if it has taken its time, and waits for the next turn.
    async fn end_turn_if_over(&mut self) {
        if self.meter.is_over() {
            yield_to_others().await;
            self.meter = WorkMeter::start();
        }
    }
}

/// The sort key of the dependents of one level.
fn place(dependent: &Dependent) -> (&str, &str, &str, &str) {
    (&dependent.kind, &dependent.namespace, &dependent.name, &dependent.api_version)
}

/// The number of objects that a walk holds while it waits for its next turn.
const AT_ONCE: usize = 64;

/// The number of entries of an index that a walk looks at without measuring its turn.
const ENTRIES_AT_ONCE: usize = 1_024;

/// The work of looking for the dependents of one owner in one store, or at one entry of its index, in bytes of an object
/// that could be read instead.
const BYTES_OF_A_LOOKUP: usize = 64;

/// The maximum length, in bytes, of the uid of an owner that is kept though it is not in the result yet. An API server
/// makes uids of 36 characters.
const LONGEST_UID: usize = 128;

/// The maximum number of owners of one object that are kept during a walk.
const MOST_OWNERS_READ: usize = 4 * MOST_OWNERS_SHOWN;
