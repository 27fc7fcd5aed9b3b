//! The built-in kinds of Kubernetes 1.36, for a folder without a cluster: what a cluster's own discovery and OpenAPI
//! would say.
//!
//! Map: [`kinds`] is the table of kinds that are served by default, [`deprecations`] that of deprecated ones, of clusters
//! too; [`schemas`] makes OpenAPI documents and schemas of
//! them out of k8s-openapi. Which of their fields are selectable is not known here: see `extract::builtin`. Kinds that
//! cannot be listed and watched (reviews, bindings, ComponentStatus) are left out, and so are beta and alpha versions,
//! which kube-apiserver does not serve by default.

pub mod deprecations;
pub mod kinds;
pub mod schemas;

#[cfg(test)]
mod tests;
