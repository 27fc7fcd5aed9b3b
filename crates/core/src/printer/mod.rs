//! kube-apiserver's printers of the built-in kinds: the columns of their tables, and the cells of an object.
//!
//! Upstream prints Go structs after defaulting and conversion (kubernetes `pkg/printers/internalversion/printers.go`,
//! always called with `Wide`). Here the same is read from an object's JSON, in which a missing member means Go's zero
//! value. An object that an API server sent is defaulted already; one from a folder is printed as it is. Names, types
//! and descriptions of columns are exactly those of Kubernetes 1.36; some descriptions differ in later and older
//! servers. All functions are pure: time and bytes are arguments. Columns of custom resources are part of their
//! CustomResourceDefinitions and are printed in `wire::column`. `builtin::table` assigns the printers to kinds.
//!
//! A [`Printer`] has the columns of a kind, and a function that makes the row of an object. That function has the
//! plural name of the kind: `pods(object, now)` makes the row of a Pod, with ages counted until `now`. Related printers
//! are in one file. [`mod@read`] reads members, [`text`] has the texts that several kinds share, [`time`] counts ages.

pub mod access;
pub mod autoscaling;
pub mod cluster;
mod column;
pub mod devices;
pub mod events;
mod kind;
pub mod network;
pub mod pods;
pub mod policy;
mod read;
pub mod shared;
pub mod storage;

#[cfg(test)]
mod tests;
mod text;
pub mod time;
pub mod workloads;

pub use column::{AGE, Column, NAME};
pub use kind::{PrintedRow, Printer, RowCondition, SortKey};
pub use shared::NAME_AND_AGE;
