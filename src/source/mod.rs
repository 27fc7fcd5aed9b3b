//! Where objects come from: a cluster or a folder, read into stores.
//!
//! Map, both: [`feed`] is the one writer of a store: it takes what a source says, in order, and publishes snapshots.
//! A cluster: [`watch_decoder`] splits lists and watch lines into object bytes, `pages` lists that are still arriving (`unfinished` bounds what all hold of long objects); [`kubeconfig`] finds out where it is and who we are; [`connection`] is kube's client with errors a
//! person can act on (`gunzip` reads its compressed responses), and [`forward`] one that hands requests on as they are; [`backoff`] says when to try again;
//! [`list_watch`] keeps one feed in step with one resource, and [`self_check`] asks whether it is; [`sync_supervisor`] runs both for
//! each resource; `newest` compares copies with sources whose watches bring no bookmarks; [`discovery`] asks what is served and [`openapi`] for the documents; [`cluster`] turns that and the CRDs into the
//! catalog and starts and stops feeds (with `resources`, which are made of both, `pending_replacements`, those that take another's place, and `departures`, those that end). A folder: [`folder`] turns files (read by [`crate::manifest`]) into objects, versions and changes;
//! [`scan`] reads and follows the folder on disk; [`folder_feeds`] makes the catalog of it. Both: [`store_options`] are those of
//! FieldCaches, which [`field_caches`] reads out of a folder.
//!
//! This room knows no HTTP server: the registry is all that it shares with it.

pub mod backoff;
pub mod cluster;
mod cluster_options;
pub mod cluster_settings;
mod collection;
pub mod connection;
mod departures;
pub mod discovery;
mod document_budget;
pub mod feed;
pub mod field_caches;
pub mod folder;
pub mod folder_feeds;
pub mod forward;
mod gunzip;
mod keeping;
pub mod kubeconfig;
pub mod list_watch;
pub mod metadata_pages;
mod newest;
pub mod object;
pub mod openapi;
mod pages;
mod pending_replacements;
mod phase_log;
mod resources;
pub mod scan;
pub mod self_check;
pub mod store_options;
pub mod sync_supervisor;
#[cfg(test)]
mod tests;
mod unfinished;
pub mod watch_decoder;
