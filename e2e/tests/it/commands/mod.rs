//! Commands that people type against a cluster, in a shell with the real kubectl. They are the program as kubectl's
//! plugin, a kubeconfig for a View, and what a cache would save.

mod advise;
mod kubeconfig;
mod plugin;
pub(crate) mod stage;
