//! The columns of tables, each made once for all requests that are under way.
//!
//! Columns hold the texts of a definition and its parsed paths: up to megabytes, and a watch holds them as long as it
//! lasts. They are cached only while they are in use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::model::Gvr;
use crate::registry::Resource;

use super::table::{Columns, Include};

/// Columns in use.
#[derive(Debug, Default)]
pub(crate) struct SharedColumns {
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    columns: HashMap<Key, Weak<Columns>>,
    /// At this number, unused ones are removed.
    removal: usize,
}

/// Addresses identify contents: of a definition's columns, and of what a View prunes. [`Columns`] hold both, so that
/// an address identifies nothing else as long as they are in use.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    gvr: Gvr,
    printer_columns: usize,
    prune: usize,
    form: usize,
}

/// The number of cached columns before the first removal.
const FIRST_REMOVAL: usize = 64;

impl SharedColumns {
    /// The columns of a resource, for tables of a version.
    pub(crate) fn get(&self, resource: &Resource, version: &str, include: Include) -> Arc<Columns> {
        // A View that leaves out nothing has the columns of the resource.
        let prune = resource.prune();
        let key = Key {
            gvr: resource.gvr.clone(),
            printer_columns: Arc::as_ptr(&resource.printer_columns).addr(),
            prune: prune.map_or(0, |prune| Arc::as_ptr(prune).addr()),
            form: Columns::number_of(version, include),
        };
        if let Some(columns) = self.lock().columns.get(&key).and_then(Weak::upgrade) {
            return columns;
        }
        // Not under the lock: those of a large definition take milliseconds.
        let made = Arc::new(Columns::new(resource, version, include));
        let mut kept = self.lock();
        if let Some(columns) = kept.columns.get(&key).and_then(Weak::upgrade) {
            return columns;
        }
        if kept.columns.len() >= kept.removal {
            kept.columns.retain(|_, columns| columns.strong_count() > 0);
            kept.removal = FIRST_REMOVAL.max(kept.columns.len() * 2);
        }
        kept.columns.insert(key, Arc::downgrade(&made));
        made
    }

    /// The number of cached columns, used or not.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().columns.len()
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
