//! Sources of objects: a cluster or a folder, read into stores.
//!
//! # Both
//! [`feed`] is the only writer of a store: it takes the events of a source, in order, and publishes snapshots.
//! [`store_options`] are the options of FieldCaches; [`field_caches`] reads them from a folder.
//!
//! # A cluster
//! [`kubeconfig`] finds the cluster and the identity. [`connection`] is kube's client with errors that a user can act
//! on; `gunzip` reads its compressed responses. [`forward`] is a client that forwards requests as they are.
//! [`watch_decoder`] splits lists and watch lines into object bytes. `pages` splits lists that are still arriving, and
//! `metadata_pages` reads them to their end. `unfinished` bounds the memory for objects that have not arrived
//! completely. [`list_watch`] keeps one feed in step with one resource, with [`backoff`] between attempts. `newest`
//! compares stores with sources whose watches send no bookmarks, and [`self_check`] compares all of them.
//! `resource_sync` is the task of one resource, and [`sync_supervisor`] restarts it. [`discovery`] reads what is
//! served, and [`openapi`] the documents. [`cluster`] builds the catalog from discovery and the CRDs, and starts and
//! stops feeds. `resources` makes the resources and groups of the catalog. `pending_replacements` has the new stores of
//! changed resources, and `departures` ends removed ones. [`cluster_settings`] are its settings.
//!
//! # A folder
//! [`folder`] turns files (read by [`crate::manifest`]) into objects, versions and changes. [`scan`] reads and follows
//! the folder on disk. [`folder_feeds`] builds its catalog.
//!
//! This module uses no HTTP server: it shares only the registry with it.

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
mod folder_namespaces;
pub mod forward;
mod gunzip;
pub mod kubeconfig;
pub mod list_watch;
pub mod metadata_pages;
mod newest;
pub mod object;
pub mod openapi;
mod pages;
mod pending_replacements;
mod phase_log;
mod resource_sync;
mod resources;
pub mod scan;
pub mod self_check;
pub mod store_options;
pub mod sync_supervisor;
#[cfg(test)]
mod tests;
mod unfinished;
pub mod watch_decoder;
