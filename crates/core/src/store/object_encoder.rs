//! Encodes records as compressed objects: their layout, and the training of dictionaries.
//!
//! Only the writer uses it. A store begins without compression. Beyond [`TRAIN_ABOVE`] bytes it trains a dictionary on
//! its objects. When new objects compress clearly worse than those that the dictionary was trained on, it trains
//! another one on a sample of the whole store. The first dictionary is applied to all objects immediately. Later ones
//! apply to objects as they change, because most objects rarely do.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::dictionary::{self, Compressor, Dictionary};
use super::heap::{allocated, shared, shared_text};
use super::indexed::IndexLimits;
use super::object::{LabelKeys, Layout, Object};
use crate::model::Record;

/// A store with less JSON than this, in bytes, is not compressed: a dictionary and its tables would take as much.
const TRAIN_ABOVE: u64 = 1 << 20;

/// Number of objects over which a compression ratio is measured.
const WINDOW: u32 = 4_096;

/// At least this many layouts and label keys are added between two removals of unused ones.
const UNUSED: usize = 1_024;

/// Encodes records as objects; see the module.
#[derive(Debug, Default)]
pub(super) struct ObjectEncoder {
    dictionary: Option<Arc<Dictionary>>,
    compressor: Option<Compressor>,
    ratio: Ratio,
    /// Bytes of JSON packed since the last attempt at training.
    plain: u64,
    /// The number of dictionaries so far. It is part of each hash in `layouts`, which also has layouts of earlier
    /// dictionaries while objects use them.
    trainings: u64,
    /// The number of attempts at training with a large enough sample, successful or not. Each doubles the bytes that
    /// must be packed before the next one.
    attempts: u32,
    /// The layout of the previous object: objects that follow each other often have the same labels.
    last: Arc<Layout>,
    /// By a hash of the label keys. Of two sets with the same hash only one is found; the other is merely not shared.
    layouts: HashMap<u64, Arc<Layout>>,
    label_keys: HashSet<Arc<str>>,
    /// Unused layouts and label keys are removed when there are more than this many of both together.
    sweep_above: usize,
    /// Memory of layouts and label keys, in bytes, without the capacity of their maps.
    shared_bytes: usize,
    /// Objects beyond these have keys of their own.
    pub(super) limits: IndexLimits,
}

/// The compression ratio of the dictionary, to detect when it gets worse. It is measured over windows of [`WINDOW`]
/// objects.
#[derive(Debug, Default)]
struct Ratio {
    /// The number of objects in the current window.
    objects: u32,
    /// Their bytes of JSON.
    plain: u64,
    /// Their bytes in memory.
    stored: u64,
    /// Bytes in memory for a thousand bytes of JSON, in the best window so far.
    best: Option<u64>,
}

impl Ratio {
    /// Counts an object; true when it ends a window whose ratio is over a quarter worse than the best one.
    fn count(&mut self, object: &Object) -> bool {
        self.objects += 1;
        self.plain += object.length() as u64;
        self.stored += object.held_bytes() as u64;
        if self.objects < WINDOW {
            return false;
        }
        let now = self.stored * 1000 / self.plain.max(1);
        let best = self.best.map_or(now, |best| best.min(now));
        *self = Ratio { best: Some(best), ..Ratio::default() };
        now > best + best / 4
    }
}

impl ObjectEncoder {
    /// Encodes an object. Also returns whether a dictionary should be trained now.
    pub(super) fn pack(&mut self, record: &Record) -> (Object, bool) {
        let layout = self.layout(record);
        let object = Object::pack(record, layout, self.compressor.as_mut());
        self.plain += object.length() as u64;
        // The shift has a bound so that it cannot overflow: 64 GiB.
        let is_due = self.plain >= TRAIN_ABOVE << self.attempts.min(16);
        // `count` comes first: it must also run while training is not due, because it measures the window.
        let should_train = if self.dictionary.is_some() { self.ratio.count(&object) && is_due } else { is_due };
        (object, should_train)
    }

    /// Encodes an object again with the newest dictionary; `None` if there is none.
    pub(super) fn repack(&mut self, object: &Object) -> Option<Object> {
        let label_keys = object.layout().label_keys.clone();
        let hash = match &label_keys {
            LabelKeys::Shared(keys) => self.hash(keys.iter().map(|key| &**key)),
            LabelKeys::Own => OWN,
        };
        let layout = self.shared(hash, Layout { label_keys, dictionary: self.dictionary.clone() });
        self.compressor.as_mut().map(|compressor| object.repack(layout, compressor))
    }

    /// Trains a dictionary on these objects, unless they are too few or have too little in common. True when it trained
    /// the first dictionary.
    pub(super) fn train<'o>(&mut self, objects: impl Iterator<Item = &'o Object>) -> bool {
        self.plain = 0;
        // Few objects that changed often. The store may still grow, so the next attempt does not come later than this.
        let Some(sample) = dictionary::sample(objects.map(Object::json)) else { return false };
        // Successes count too: data that alternates between two kinds must not make a new dictionary each time.
        self.attempts += 1;
        let Some((dictionary, compressor)) = dictionary::train(&sample) else { return false };
        let is_first = self.dictionary.is_none();
        self.dictionary = Some(Arc::new(dictionary));
        self.compressor = Some(compressor);
        self.ratio = Ratio::default();
        self.trainings += 1;
        is_first
    }

    /// Memory of the dictionary, the layouts and the label keys, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        // A hash table has one more byte for each entry, and uses at most seven of eight places.
        let layouts = self.layouts.capacity() * (size_of::<(u64, Arc<Layout>)>() + 1) * 8 / 7;
        let keys = self.label_keys.capacity() * (size_of::<Arc<str>>() + 1) * 8 / 7;
        self.dictionary.as_ref().map_or(0, |dictionary| dictionary.held_bytes())
            + self.compressor.as_ref().map_or(0, Compressor::held_bytes)
            + layouts
            + keys
            + self.shared_bytes
    }

    /// The layout for a record, shared by all objects with the same label keys and dictionary.
    fn layout(&mut self, record: &Record) -> Arc<Layout> {
        let texts = &record.texts;
        let has_shared_keys = self.limits.is_within(texts.labels().len(), texts.values().len());
        // Whether a layout has the label keys of this record.
        let has_keys = |existing: &LabelKeys| match existing {
            LabelKeys::Shared(keys) => {
                has_shared_keys
                    && keys.len() == texts.labels().len()
                    && keys.iter().zip(texts.labels()).all(|(existing, (key, _))| **existing == *key)
            }
            LabelKeys::Own => !has_shared_keys,
        };
        // Whether a layout has the label keys of this record, and this dictionary.
        let is_of = |layout: &Layout, dictionary: &Option<Arc<Dictionary>>| {
            let same_dictionary = match (&layout.dictionary, dictionary) {
                (Some(existing), Some(wanted)) => Arc::ptr_eq(existing, wanted),
                (None, None) => true,
                _ => false,
            };
            same_dictionary && has_keys(&layout.label_keys)
        };
        if is_of(&self.last, &self.dictionary) {
            return self.last.clone();
        }
        let hash = if has_shared_keys { self.hash(texts.labels().map(|(key, _)| key)) } else { OWN };
        let layout = match self.layouts.get(&hash) {
            Some(layout) if is_of(layout, &self.dictionary) => layout.clone(),
            _ => {
                let label_keys = match has_shared_keys {
                    true => LabelKeys::Shared(texts.labels().map(|(key, _)| self.label_key(key)).collect()),
                    false => LabelKeys::Own,
                };
                self.shared(hash, Layout { label_keys, dictionary: self.dictionary.clone() })
            }
        };
        self.last = layout.clone();
        layout
    }

    /// The stored layout that equals `layout`; adds it if it is new. `hash` is [`ObjectEncoder::hash`] of its label
    /// keys, or [`OWN`].
    fn shared(&mut self, hash: u64, layout: Layout) -> Arc<Layout> {
        if let Some(existing) = self.layouts.get(&hash)
            && existing.label_keys == layout.label_keys
            && existing.dictionary.as_ref().map(Arc::as_ptr) == layout.dictionary.as_ref().map(Arc::as_ptr)
        {
            return existing.clone();
        }
        if self.layouts.len() + self.label_keys.len() > self.sweep_above {
            self.sweep();
        }
        let layout = Arc::new(layout);
        self.shared_bytes += layout_bytes(&layout);
        // Another layout with this hash stays with its objects, but new objects do not share it.
        if let Some(other) = self.layouts.insert(hash, layout.clone()) {
            self.shared_bytes -= layout_bytes(&other);
        }
        layout
    }

    /// Removes layouts and label keys that no object uses.
    fn sweep(&mut self) {
        self.layouts.retain(|_, layout| Arc::strong_count(layout) > 1);
        self.label_keys.retain(|key| Arc::strong_count(key) > 1);
        self.layouts.shrink_to_fit();
        self.label_keys.shrink_to_fit();
        self.sweep_above = 2 * (self.layouts.len() + self.label_keys.len()) + UNUSED;
        self.shared_bytes = self.layouts.values().map(|layout| layout_bytes(layout)).sum::<usize>()
            + self.label_keys.iter().map(shared_text).sum::<usize>();
    }

    /// The shared text of a label key; adds it if it is new.
    fn label_key(&mut self, key: &str) -> Arc<str> {
        if let Some(existing) = self.label_keys.get(key) {
            return existing.clone();
        }
        let key: Arc<str> = Arc::from(key);
        self.shared_bytes += shared_text(&key);
        self.label_keys.insert(key.clone());
        key
    }

    /// The hash of label keys, which changes with the dictionary.
    fn hash<'k>(&self, keys: impl Iterator<Item = &'k str>) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.trainings.hash(&mut hasher);
        for key in keys {
            key.hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The hash of all layouts without label keys: their objects have the keys themselves.
const OWN: u64 = 0;

/// Memory of a layout in bytes, without the dictionary and the texts of the keys, which are counted once for all
/// layouts.
fn layout_bytes(layout: &Layout) -> usize {
    let keys = match &layout.label_keys {
        LabelKeys::Shared(keys) => allocated(size_of_val(&**keys)),
        LabelKeys::Own => 0,
    };
    shared::<Layout>() + keys
}
