//! A cache of frequently read decompressed objects, within a budget.
//!
//! Decompressing an object takes some microseconds, which can be half of the response time when the same selection is
//! listed repeatedly. An entry is found by the address of its object and verified by its compressed bytes, so it cannot
//! be stale. An object enters when it misses its entry twice in a row, so that a walk over all objects does not evict
//! hot ones.

use std::sync::{Mutex, PoisonError};

/// Approximate number of decompressed bytes that are cached for one dictionary.
const BUDGET: usize = 4 << 20;

/// An object longer than this many times the mean is not cached.
const LONGEST: usize = 4;

/// The cached objects.
pub(super) struct DecompressionCache {
    places: Box<[Mutex<Place>]>,
    /// The maximum decompressed length of a cached object, in bytes.
    longest: usize,
}

/// A place of the cache, which has one object at a time.
#[derive(Default)]
struct Place {
    /// Address of the object that was last looked for here and not found.
    missed: usize,
    /// The compressed bytes of the cached object; empty if there is none.
    stored: Box<[u8]>,
    /// The decompressed bytes of the cached object.
    plain: Box<[u8]>,
}

impl DecompressionCache {
    /// A cache for objects of this mean length, in bytes.
    pub(super) fn new(mean_length: usize) -> DecompressionCache {
        let mean_length = mean_length.max(1);
        let places = (BUDGET / mean_length).next_power_of_two();
        DecompressionCache { places: (0..places).map(|_| Mutex::default()).collect(), longest: mean_length * LONGEST }
    }

    /// Appends the decompressed bytes of `stored`: the cached ones, or those that `decompress` appends.
    pub(super) fn write(&self, stored: &[u8], out: &mut Vec<u8>, decompress: impl FnOnce(&mut Vec<u8>)) {
        let address = stored.as_ptr().addr();
        // Addresses differ in their middle bits; multiplying brings them to the top.
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = &self.places[hash as usize & (self.places.len() - 1)];
        {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            if *place.stored == *stored {
                out.extend_from_slice(&place.plain);
                return;
            }
            if place.missed != address {
                place.missed = address;
                drop(place);
                return decompress(out);
            }
        }
        let start = out.len();
        decompress(out);
        if out.len() - start <= self.longest {
            let kept = Place { missed: 0, stored: stored.into(), plain: out[start..].into() };
            *place.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        }
    }

    /// Memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let inside = |place: &Mutex<Place>| {
            let place = place.lock().unwrap_or_else(PoisonError::into_inner);
            size_of::<Mutex<Place>>() + place.stored.len() + place.plain.len()
        };
        self.places.iter().map(inside).sum()
    }
}
