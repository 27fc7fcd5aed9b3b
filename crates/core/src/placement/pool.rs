//! Values that many pods share, each stored once: labels, tolerations, affinity.
//!
//! A value stays as long as a pod uses it. The pool counts its users itself, because clones of the index hold
//! references too.

use std::hash::Hash;
use std::sync::Arc;

use imbl::HashMap;

/// The shared values, each with the number of its uses.
#[derive(Clone, Debug)]
pub(super) struct Pool<T: Eq + Hash> {
    values: HashMap<Arc<T>, u32>,
}

impl<T: Eq + Hash> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool { values: HashMap::new() }
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// The shared copy of a value, which is added if it is new. Counts one more use of it.
    pub(super) fn share(&mut self, value: T) -> Arc<T> {
        if let Some((shared, _)) = self.values.get_key_value(&value) {
            let shared = Arc::clone(shared);
            self.values.entry(Arc::clone(&shared)).and_modify(|count| *count += 1);
            return shared;
        }
        let value = Arc::new(value);
        self.values.insert(Arc::clone(&value), 1);
        value
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Releases one use of a shared value, and removes the value after its last use.
    pub(super) fn release(&mut self, value: &Arc<T>) {
        match self.values.get_mut(&**value) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.values.remove(&**value);
            }
        }
    }
}
