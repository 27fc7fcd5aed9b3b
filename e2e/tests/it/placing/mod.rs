//! `fieldcache place` over the folders of manifests/placement: as their page shows it, and with a server in between.

mod remote;
mod walk_through;

use super::commands::stage::repository;
