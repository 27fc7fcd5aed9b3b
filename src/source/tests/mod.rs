//! Tests of the sources that need no cluster; what touches a cluster is tested beside a real one in `e2e`.

mod backoff;
mod departures;
mod discovery;
mod feed;
mod field_caches;
mod folder;
mod frames;
mod gunzip;
mod hostile;
mod kubeconfig;
mod list_watch;
mod nested;
mod newest;
mod openapi;
mod pages;
mod resources;
mod scan;
mod self_check;
mod successors;
mod sync_supervisor;
mod unfinished;
