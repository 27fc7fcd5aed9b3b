//! Counts the memory that changes release while earlier snapshots still have it.
//!
//! Snapshots share their structures with the writer. The first change of a shared part copies it, and the original then
//! belongs only to snapshots. [`Copies`] adds up the bytes of these originals, so that [`super::pins`] can bound the
//! memory of past states. All shared parts are changed with [`Copies::make_mut`] or [`Copies::make_mut_in`], so that
//! the count cannot differ from the copies.
//!
//! The nodes of persistent maps do not reveal whether they are shared. A map copies the nodes on the path to a value
//! exactly if the value is then shared, because a copied node references all its values once more.

use std::sync::Arc;

use roaring::RoaringBitmap;

/// A value that snapshots can share with the writer.
pub(super) trait CopyOnWrite: Clone {
    /// Memory of the value and its reference counts, in bytes. Without the parts that clones share.
    fn own_bytes(&self) -> usize;
}

/// The bytes that changes have released.
#[derive(Debug, Default)]
pub(super) struct Copies {
    bytes: usize,
}

impl Copies {
    /// Like [`Arc::make_mut`]. Counts the original if it is copied.
    pub(super) fn make_mut<'v, Value: CopyOnWrite>(&mut self, value: &'v mut Arc<Value>) -> &'v mut Value {
        self.make_mut_in(0, value)
    }

    /// Like [`Copies::make_mut`] for a value in a persistent map. `path`: the memory of the nodes on the path to the
    /// value (`heap::map_path`). The map must have returned a mutable reference, which copies the shared nodes.
    pub(super) fn make_mut_in<'v, Value: CopyOnWrite>(
        &mut self,
        path: usize,
        value: &'v mut Arc<Value>,
    ) -> &'v mut Value {
        if Arc::get_mut(value).is_none() {
            self.bytes += path + value.own_bytes();
        }
        Arc::make_mut(value)
    }

    /// Counts a value that is dropped without a change, if a snapshot has it too.
    pub(super) fn drop_shared<Value: CopyOnWrite>(&mut self, value: &Arc<Value>) {
        if Arc::strong_count(value) > 1 {
            self.bytes += value.own_bytes();
        }
    }

    /// Calls `change`, which changes a structure in a persistent map. Counts the nodes on the path to it if the
    /// structure was shared.
    pub(super) fn within<Done>(&mut self, path: usize, change: impl FnOnce(&mut Copies) -> Done) -> Done {
        let before = self.bytes;
        let done = change(self);
        if self.bytes > before {
            self.bytes += path;
        }
        done
    }

    /// Counts memory that is released in any case.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// The bytes so far; the count starts again at 0.
    pub(super) fn take(&mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}

impl CopyOnWrite for RoaringBitmap {
    fn own_bytes(&self) -> usize {
        super::slots::part_bytes(self)
    }
}
