//! Where objects come from: a cluster or a folder, read into stores.
//!
//! Map: [`feed`] is the one writer of a store: it takes what a source says, in order, and publishes snapshots;
//! [`frames`] splits lists and watch lines into object bytes; [`connection`] is kube's client with errors a person can
//! act on; [`list_watch`] keeps one feed in step with one resource of a cluster; [`discovery`] asks a cluster what it
//! serves; [`openapi`] fetches its documents; [`cluster`] turns that and the CRDs into the catalog and starts and stops feeds; [`folder`] and [`yaml`]
//! read manifests. This room knows no HTTP server: the registry is all that it shares with it.

pub mod backoff;
pub mod cluster;
pub mod connection;
pub mod discovery;
pub mod feed;
pub mod frames;
pub mod list_watch;
pub mod openapi;
#[cfg(test)]
mod tests;
