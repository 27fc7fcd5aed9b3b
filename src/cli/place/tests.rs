//! `fieldcache place` over folders.
