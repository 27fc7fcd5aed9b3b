//! Values that many pods have in common, each stored once: labels, tolerations, affinity.
//!
//! A value stays as long as a pod uses it. The pool counts its users itself, because clones of the index hold references too.

use std::hash::Hash;
use std::sync::Arc;

use imbl::HashMap;

/// The values, each with how many share it.
#[derive(Clone, Debug)]
pub(super) struct Pool<T: Eq + Hash> {
    held: HashMap<Arc<T>, u32>,
}

impl<T: Eq + Hash> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool { held: HashMap::new() }
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// The shared copy of a value, which is added if it is new.
    pub(super) fn share(&mut self, value: T) -> Arc<T> {
        if let Some((held, _)) = self.held.get_key_value(&value) {
            let held = Arc::clone(held);
            self.held.entry(Arc::clone(&held)).and_modify(|count| *count += 1);
            return held;
        }
        let value = Arc::new(value);
        self.held.insert(Arc::clone(&value), 1);
        value
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Gives up one use of a shared value.
    pub(super) fn release(&mut self, value: &Arc<T>) {
        match self.held.get_mut(&**value) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.held.remove(&**value);
            }
        }
    }
}
