//! Names, keys, versions, records: plain types that all other modules use.
//!
//! Map: [`gvr`] names a resource type. [`key`] names an object and fixes the order of a list. [`version`] is the only
//! code that reads a resourceVersion as a number. [`record`] is an object on its way into a store. [`quantity`] is an
//! amount of bytes in the form of a Kubernetes quantity. [`shares`] divides a quantity between users, and
//! [`fair_queue`] decides which user is next. [`mod@quote`] quotes texts in messages, and [`percent`] decodes URLs.
//! [`float`] prints numbers as Go does, [`moment`] reads times as Go does, and [`object_meta`] names the members of
//! ObjectMeta. [`integer`] gives the texts of integers in numeric order. [`own_groups`] has the names of fieldcache's own
//! API groups, [`owners`] are the owners of an object, and [`fnv`] is the hash of both shards and owners. This module
//! does not depend on JSON or selectors.

pub mod fair_queue;
pub mod float;
pub mod flow;
pub mod fnv;
pub mod gvr;
pub mod integer;
pub mod key;
pub mod moment;
pub mod object_meta;
pub mod own_groups;
pub mod owners;
pub mod percent;
pub mod quantity;
pub mod quote;
pub mod record;
pub mod shares;
pub mod user_name;
pub mod version;

#[cfg(test)]
mod tests;

pub use fnv::fnv1a;
pub use gvr::{GroupVersion, Gvr, Scope};
pub use key::Key;
pub use moment::Moment;
pub use owners::OwnerHashes;
pub use percent::percent_decode;
pub use quote::quote;
pub use record::{FieldIndex, IndexedValues, Record};
pub use version::Version;
