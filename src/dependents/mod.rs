//! The dependents of an object: the objects that name it, or one of its dependents, in `metadata.ownerReferences`.
//!
//! [`walk`](mod@walk) finds them over the indexes of owners of all stores, without HTTP: for the server and the command
//! line. [`candidate`] reads one object, `versions` chooses one version of each resource, and [`document`] is the
//! result as a document. This module decides no permissions: callers do, by the stores that they pass. It knows nothing
//! of Views.

pub mod candidate;
pub mod document;
#[cfg(test)]
pub(crate) mod tests;
mod versions;
pub mod walk;

pub use document::{Dependent, DependentsDocument};
pub use versions::preferred;
pub use walk::{FoundDependents, SearchScope, SearchedStore, WalkOptions, walk};
