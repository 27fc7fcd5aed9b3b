//! The indexed store of one resource: every object once and compressed, posting lists for fields and labels, and
//! history.
//!
//! `writer` has [`Store`], the only writer. [`snapshot`] is the view of readers: a point in time that costs one
//! reference count. Both share persistent structures, so that publishing copies only the parts that changed since the
//! last snapshot.
//!
//! [`object`] is a stored object; `object_encoder` creates it, `dictionary` compresses it, and `decompression_cache`
//! caches frequently read ones. `order` is the order of a list. [`postings`] are the indexes, made of `labels`, `terms`
//! and [`slots`]; [`indexed`] decides which objects are completely indexed. [`shards`] is the index of the hashes of
//! uids, and [`owners`] that of the hashes of the uids of owners; both are [`hashes`]. `relist` applies a full list,
//! which `pending_list` collects. [`history`] has the recent changes, and [`rewind`] reverts them for a read at an
//! earlier version. [`pins`] bounds the memory of past states that readers reference, which `copies` counts. `heap`
//! computes memory. This module receives values, never JSON, paths or selectors.

mod copies;
mod decompression_cache;
mod dictionary;
pub mod hashes;
mod heap;
pub mod history;
pub mod indexed;
mod labels;
mod lengths;
pub mod object;
mod object_encoder;
mod order;
pub mod owners;
mod pending_list;
pub mod pins;
pub mod postings;
mod relist;
pub mod rewind;
pub mod shards;
pub mod slots;
pub mod snapshot;
mod terms;
#[cfg(test)]
pub mod tests;
#[cfg(test)]
pub mod text_reads;
mod writer;

pub use hashes::HashIndex;
pub use history::{Change, HistoryCursor, HistoryLimits, TooOld};
pub use indexed::{IndexLimits, IndexedPart};
pub use object::Object;
pub use owners::OwnerIndex;
pub use pins::{Pinned, PinnedValue, Revocation};
pub use postings::{Attribute, AttributeUsage};
pub use relist::{RelistMode, RelistOutcome};
pub use rewind::{Rewind, RewindBuilder};
pub use shards::{IndexPermit, ShardIndex};
pub use snapshot::{Snapshot, Usage};
pub use writer::{Store, WriteOutcome};
