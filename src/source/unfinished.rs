//! Room for long objects of which only a part has arrived: what all readers of a source hold of them together.
//!
//! A source decides how many objects it begins and does not finish. A short part is held by whoever reads it, so readers of objects of an
//! ordinary length never wait for others. Longer parts share one room. A reader that finds none gives up and reads again later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one reader may hold in any case, in bytes: more than an API server accepts as one object.
pub(super) const ALWAYS: usize = 4 << 20;

/// What all readers hold beyond that, in bytes.
pub(super) const MOST: usize = 256 << 20;

/// What is held.
#[derive(Debug, Default)]
pub(super) struct Room {
    held: AtomicUsize,
}

/// What one reader holds of it.
#[derive(Debug, Default)]
pub(super) struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Share {
    /// Nothing of this room.
    pub(super) fn of(room: &Arc<Room>) -> Share {
        Share { room: room.clone(), bytes: 0 }
    }

    /// The reader holds a part that takes so many bytes now; false if there is no room for it.
    pub(super) fn hold(&mut self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(ALWAYS);
        if bytes == self.bytes {
            return true;
        }
        let others = |held: usize| held.saturating_sub(self.bytes);
        let held = self.room.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            let all = others(held).saturating_add(bytes);
            (bytes < self.bytes || all <= MOST).then_some(all)
        });
        if held.is_ok() {
            self.bytes = bytes;
        }
        held.is_ok()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
