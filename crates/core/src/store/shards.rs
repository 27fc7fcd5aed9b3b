//! The slots of a store in the order of the hashes of their objects' metadata.uid. With it, a list of a shard reads
//! only the objects of the shard.
//!
//! Few stores are read in shards, so the index is built on demand. The first reader that needs it builds it in turns,
//! and sets it in its snapshot. From then on the writer maintains it; a writer that changes the store meanwhile builds
//! the index itself. Readers without an index test all objects.
//!
//! [`super::hashes`] is the form of the index. Shards of namespaces need no index, because there is a posting list for
//! each namespace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::copies::Copies;
use super::hashes::HashIndex;
use super::heap::shared;
use super::object::Object;

/// The slots of a store by the hash of the uid of their objects. Objects without a uid have the same hash.
pub type ShardIndex = HashIndex;

/// The index of one state of a store, if it has one. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shards {
    /// The index; not set until a reader of this state or the writer has built it.
    index: Arc<OnceLock<ShardIndex>>,
    /// Whether a reader has the permit to build the index. All states of the store share this flag.
    wanted: Arc<AtomicBool>,
}

/// The permit to build the index of a store. When it is dropped, whether the index was set or not, a reader of a state
/// without an index can get the next permit.
#[derive(Debug)]
pub struct IndexPermit(Shards);

impl IndexPermit {
    /// Sets the index, which must have all objects of the state that returned the permit.
    pub fn set(self, index: ShardIndex) {
        // Before the writer changes the state, it replaces the `OnceLock` of its own state. So this one is still of the
        // state that returned the permit.
        let _ = self.0.index.set(index);
    }
}

impl Drop for IndexPermit {
    fn drop(&mut self) {
        self.0.wanted.store(false, Ordering::Release);
    }
}

impl Shards {
    /// The index of this state; `None` if it has none.
    pub(super) fn index(&self) -> Option<&ShardIndex> {
        self.index.get()
    }

    /// Requests the index. Returns the permit to build it for this state; `None` while another reader has the permit.
    /// If the writer changes the store before the index is set, the writer builds it.
    pub(super) fn want(&self) -> Option<IndexPermit> {
        let is_first = !self.wanted.swap(true, Ordering::AcqRel);
        is_first.then(|| IndexPermit(self.clone()))
    }

    /// Applies a change of the object in a slot, which `before` and `after` describe. `objects` is the state before the
    /// change. Builds the index first if a reader wants it.
    pub(super) fn change<'o>(
        &mut self,
        slot: u32,
        before: Option<&Object>,
        after: Option<&Object>,
        objects: impl Iterator<Item = Option<&'o Object>>,
        copies: &mut Copies,
    ) {
        let Some(index) = self.own_index(objects, copies) else { return };
        let (before, after) = (before.map(Object::uid_hash), after.map(Object::uid_hash));
        if before == after {
            return;
        }
        if let Some(hash) = before {
            index.remove(hash, slot, copies);
        }
        if let Some(hash) = after {
            index.insert_shared(hash, slot, copies);
        }
    }

    /// The index, for a change by the writer. After this call, its `OnceLock` is not shared with snapshots, so that no
    /// reader can set the index of an earlier state here. `None` if there is no index and no reader wants one.
    /// `objects` is the state from which a missing index is built.
    fn own_index<'o>(
        &mut self,
        objects: impl Iterator<Item = Option<&'o Object>>,
        copies: &mut Copies,
    ) -> Option<&mut ShardIndex> {
        if Arc::get_mut(&mut self.index).is_none() {
            let own = self.index.get().cloned().map_or_else(OnceLock::new, OnceLock::from);
            self.index = Arc::new(own);
            copies.add(shared::<OnceLock<ShardIndex>>());
        }
        let index = Arc::get_mut(&mut self.index)?;
        if index.get().is_none() && self.wanted.load(Ordering::Acquire) {
            let mut built = ShardIndex::default();
            for (slot, object) in (0u32..).zip(objects) {
                if let Some(object) = object {
                    built.insert(object.uid_hash(), slot);
                }
            }
            let _ = index.set(built);
        }
        index.get_mut()
    }
}
