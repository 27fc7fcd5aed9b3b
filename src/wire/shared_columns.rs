//! A cache of the columns of tables, which requests in progress share.
//!
//! Columns hold the strings and the parsed paths of a CRD's printer columns, up to megabytes. A watch holds them
//! until it ends. The cache keeps columns only while a request uses them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::model::Gvr;
use crate::registry::Resource;

use super::table::{Columns, Include};

/// The cache of columns in use.
#[derive(Debug, Default)]
pub(crate) struct SharedColumns {
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    columns: HashMap<Key, Weak<Columns>>,
    /// The number of entries at which the entries of unused columns are removed next.
    removal: usize,
}

/// What determines the columns of a table. Addresses identify the contents of a CRD's columns and of a View's pruned
/// fields. [`Columns`] hold both, so an address identifies nothing else while they are in use.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    gvr: Gvr,
    /// The address of the CRD's printer columns.
    printer_columns: usize,
    /// The address of the pruned fields; 0 if there are none.
    prune: usize,
    /// See [`Columns::form_number_of`].
    form: usize,
}

/// The minimum number of entries at which unused ones are removed.
const LEAST_REMOVAL: usize = 64;

impl SharedColumns {
    /// The columns of a resource, from the cache if another request uses them. `version`: of meta.k8s.io; `include`:
    /// what the rows show of the object.
    pub(crate) fn get(&self, resource: &Resource, version: &str, include: Include) -> Arc<Columns> {
        // A View that prunes nothing shares the columns of the resource.
        let prune = resource.prune();
        let key = Key {
            gvr: resource.gvr.clone(),
            printer_columns: Arc::as_ptr(&resource.printer_columns).addr(),
            prune: prune.map_or(0, |prune| Arc::as_ptr(prune).addr()),
            form: Columns::form_number_of(version, include),
        };
        if let Some(columns) = self.lock().columns.get(&key).and_then(Weak::upgrade) {
            return columns;
        }
        // Without the lock: the columns of a large CRD take milliseconds.
        let made = Arc::new(Columns::new(resource, version, include));
        let mut kept = self.lock();
        // Another request may have created the same columns meanwhile.
        if let Some(columns) = kept.columns.get(&key).and_then(Weak::upgrade) {
            return columns;
        }
        if kept.columns.len() >= kept.removal {
            kept.columns.retain(|_, columns| columns.strong_count() > 0);
            kept.removal = LEAST_REMOVAL.max(kept.columns.len() * 2);
        }
        kept.columns.insert(key, Arc::downgrade(&made));
        made
    }

    /// The number of entries, also of unused columns.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().columns.len()
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
