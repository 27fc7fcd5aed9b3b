//! The built-in kinds of Kubernetes 1.36 for folder mode, in place of a cluster's own discovery and OpenAPI.
//!
//! Map: [`kinds`] is the table of kinds that are served by default, [`deprecations`] that of deprecated ones, of clusters
//! too; [`schemas`] makes OpenAPI documents and schemas of
//! them out of k8s-openapi. Their selectable fields are in `extract::builtin`. Kinds that
//! cannot be listed and watched (reviews, bindings, ComponentStatus) are left out, and so are beta and alpha versions,
//! which kube-apiserver does not serve by default.

pub mod deprecations;
pub mod kinds;
pub mod schemas;

#[cfg(test)]
mod tests;
