//! kube-apiserver's printers of the built-in kinds: the columns of their tables, and the cells of an object.
//!
//! Upstream prints Go structs after defaulting and conversion (kubernetes `pkg/printers/internalversion/printers.go`, called with
//! `Wide` always on); here the same is read from an object's JSON, in which a missing member means Go's zero value. An object that
//! an API server sent is defaulted already; one from a folder is printed as it is. Names, types and descriptions of columns
//! are wire facts of 1.36, byte by byte; later and older servers word some descriptions otherwise. All functions are pure: time and bytes
//! are arguments. Columns of custom resources are data of their definitions and are
//! printed in `wire::column`; kinds without an entry here show what [`FALLBACK`] shows.
//!
//! Tables of kinds: one file for what belongs together. [`mod@read`] reads members, [`text`] holds the texts that several kinds share,
//! [`time`] counts ages.

mod access;
mod autoscaling;
mod cluster;
mod column;
mod devices;
mod events;
mod kind;
mod network;
mod pods;
mod policy;
mod read;
mod storage;
mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod time;
mod workloads;

pub use column::{AGE, Column, NAME};
pub use kind::{PrintedRow, Printer, RowCondition, SortKey};
pub use table::FALLBACK;
