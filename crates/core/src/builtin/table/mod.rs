//! The rows of all built-in kinds that can be listed, for Kubernetes 1.32 to 1.37.
//!
//! Groups are in the order of kube-apiserver's `/apis`: [`core`] first, then the [`groups`] with a name. Kinds of a
//! group are in the order of their plural names. Groups that are served only with `--runtime-config` are at the end.
//! [`BuiltinKind`] names the upstream source of each fact. k8s-openapi's types state the same names again, and a test
//! compares them.

mod core;
mod groups;
mod shared;

use super::kind::BuiltinKind;

/// All rows, in the order that the module states.
pub fn kinds() -> impl Iterator<Item = &'static BuiltinKind> {
    core::KINDS.iter().chain(groups::KINDS)
}
