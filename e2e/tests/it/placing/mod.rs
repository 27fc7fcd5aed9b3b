//! `fieldcache place` over the folders of manifests/placement, as their page shows it.

mod walk_through;

use super::commands::stage::repository;
