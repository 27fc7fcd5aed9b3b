//! Labels that several collectors share.

/// Names of the labels of a resource; see `model::Gvr`.
pub(super) const RESOURCE_LABELS: [&str; 3] = ["group", "version", "resource"];
