//! The indexed copy of one resource: every object once in little space, posting lists for fields and labels, and history.
//!
//! [`Store`] (`writer`) is the one writer; [`Snapshot`] is what readers hold: a point in time that costs one reference count.
//! Both share persistent structures, so publishing copies nothing but the parts that changed since the last snapshot.
//! Map: [`object`] is an object at rest, `object_encoder` makes it and `dictionary` compresses it, with `decompression_cache` for
//! what is read all the time; `order` is the order of a
//! list; [`pins`] bounds what readers hold of past states; [`postings`] are the indexes, made of `labels`, `terms` and [`slots`], and [`indexed`] says which objects are indexed
//! completely; `heap` is what parts take in memory; `relist` is a full list under way (`pending_list` holds it); [`history`]
//! remembers recent changes with their previous state; [`snapshot`] is the readers' side. This room receives values,
//! never JSON, paths or selectors.

mod decompression_cache;
mod dictionary;
mod heap;
pub mod history;
pub mod indexed;
mod labels;
mod lengths;
pub mod object;
mod object_encoder;
mod order;
mod pending_list;
pub mod pins;
pub mod postings;
mod relist;
pub mod slots;
pub mod snapshot;
mod terms;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
pub(crate) mod text_reads;
pub mod undone;
mod writer;

pub use history::{Change, Cursor, HistoryLimits, TooOld};
pub use indexed::{IndexLimits, Part};
pub use object::Object;
pub use pins::{Held, Pinned, Revocation};
pub use postings::{Attribute, AttributeUsage};
pub use relist::{Replaced, Trust};
pub use snapshot::{Snapshot, Usage};
pub use undone::Undone;
pub use writer::{Outcome, Store};
