//! Values that many pods share, each stored once: labels, tolerations, affinity.
//!
//! A value stays as long as a pod uses it. The pool counts its users itself, because clones of the index hold
//! references too.

use std::hash::Hash;
use std::sync::Arc;

use imbl::HashMap;

/// A value that knows how much memory it takes.
pub(super) trait Held {
    /// The approximate memory of the value, in bytes.
    fn held_bytes(&self) -> u64;
}

/// The shared values, each with the number of its uses.
#[derive(Clone, Debug)]
pub(super) struct Pool<T: Eq + Hash> {
    values: HashMap<Arc<T>, u32>,
    /// The approximate memory of all values, in bytes.
    bytes: u64,
}

impl<T: Eq + Hash> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool { values: HashMap::new(), bytes: 0 }
    }
}

impl<T: Eq + Hash + Held> Pool<T> {
    /// The shared copy of a value, which is added if it is new. Counts one more use of it.
    pub(super) fn share(&mut self, value: T) -> Arc<T> {
        if let Some((shared, _)) = self.values.get_key_value(&value) {
            let shared = Arc::clone(shared);
            self.values.entry(Arc::clone(&shared)).and_modify(|count| *count += 1);
            return shared;
        }
        self.bytes += value.held_bytes();
        let value = Arc::new(value);
        self.values.insert(Arc::clone(&value), 1);
        value
    }

    /// The approximate memory of all values, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.bytes
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
                if self.values.remove(&**value).is_some() {
                    self.bytes -= value.held_bytes();
                }
            }
        }
    }
}
