//! `fieldcache place` over the folders of manifests/placement: as their page shows it, and with a server in between.

mod asking;
mod walk_through;

use super::commands::stage::repository;
