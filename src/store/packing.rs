//! Records -> objects at rest: which layout they share, and when a dictionary is trained.
//!
//! The writer's. A store begins plain; past [`TRAIN_ABOVE`] it trains a dictionary on what it holds. When new objects
//! compress clearly worse than those the dictionary was made for, a new one is trained on objects from all over the
//! store. With the first dictionary everything is written anew; after that objects keep the form they were written with
//! until they change, since most are at rest.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::dictionary::{self, Compressor, Dictionary};
use super::object::{Layout, MOST_LABELS, Object};
use crate::model::Record;

/// A store with less than this as JSON, in bytes, stays plain: a dictionary and its tables would take as much.
const TRAIN_ABOVE: u64 = 1 << 20;

/// Objects over which a ratio is measured.
const WINDOW: u32 = 4_096;

/// Layouts and label keys that may be unused before they are looked through.
const UNUSED: usize = 1_024;

/// Makes objects.
#[derive(Debug, Default)]
pub(super) struct Packing {
    dictionary: Option<Arc<Dictionary>>,
    compressor: Option<Compressor>,
    ratio: Ratio,
    /// Plain bytes packed since a training was last thought of.
    plain: u64,
    /// After each training twice as much must come before the next.
    patience: u32,
    /// The layout of the object before: neighbours have the same labels.
    last: Arc<Layout>,
    /// By a hash of the label keys. Of two sets with the same hash only one is found; the other is merely not shared.
    layouts: HashMap<u64, Arc<Layout>>,
    label_keys: HashSet<Arc<str>>,
    /// What layouts and label keys take, about.
    shared_bytes: usize,
    sweep_above: usize,
}

/// What a layout takes beside its keys: itself, its counts, its place among the layouts.
const LAYOUT_BYTES: usize = size_of::<Layout>() + 4 * size_of::<usize>();

/// What a label key takes beside its text: its counts, its place among the keys, and what the allocator rounds up.
const KEY_BYTES: usize = 9 * size_of::<usize>();

fn layout_bytes(layout: &Layout) -> usize {
    LAYOUT_BYTES + size_of_val(&*layout.label_keys)
}

/// How well the dictionary does.
#[derive(Debug, Default)]
struct Ratio {
    objects: u32,
    plain: u64,
    stored: u64,
    /// Stored bytes for a thousand plain ones, in the best window so far.
    best: Option<u64>,
}

impl Ratio {
    /// Counts an object; true when a window has ended in which the dictionary did clearly worse than it used to.
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

impl Packing {
    /// Makes an object. True with it when a dictionary should be trained.
    pub(super) fn pack(&mut self, record: &Record) -> (Object, bool) {
        let layout = self.layout(record);
        let object = Object::pack(record, layout, self.compressor.as_mut());
        self.plain += object.length() as u64;
        let is_due = self.plain >= TRAIN_ABOVE << self.patience.min(16);
        let should_train = if self.dictionary.is_some() { self.ratio.count(&object) && is_due } else { is_due };
        (object, should_train)
    }

    /// The same object with the newest dictionary.
    pub(super) fn repack(&mut self, object: &Object) -> Option<Object> {
        let label_keys = object.layout().label_keys.clone();
        let hash = hash(label_keys.iter().map(|key| &**key));
        let layout = self.shared(hash, Layout { label_keys, dictionary: self.dictionary.clone() });
        self.compressor.as_mut().map(|compressor| object.repack(layout, compressor))
    }

    /// Trains a dictionary on these objects, unless they are too few or have too little in common; true when it is the
    /// first.
    pub(super) fn train<'o>(&mut self, objects: impl Iterator<Item = &'o Object>) -> bool {
        self.plain = 0;
        // A few objects that change again and again: the store may become large yet, so it is asked again as soon.
        let Some(sample) = dictionary::sample(objects.map(Object::json)) else { return false };
        // Also after one that succeeded: data that swings between two kinds must not leave a dictionary at each turn.
        self.patience += 1;
        let Some((dictionary, compressor)) = dictionary::train(&sample) else { return false };
        let is_first = self.dictionary.is_none();
        self.dictionary = Some(Arc::new(dictionary));
        self.compressor = Some(compressor);
        self.ratio = Ratio::default();
        self.layouts.clear();
        is_first
    }

    /// What the dictionary takes in memory, and what objects share, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.shared_bytes
            + self.dictionary.as_ref().map_or(0, |dictionary| dictionary.held_bytes())
            + self.compressor.as_ref().map_or(0, Compressor::held_bytes)
    }

    fn layout(&mut self, record: &Record) -> Arc<Layout> {
        let is_of = |layout: &Layout, dictionary: &Option<Arc<Dictionary>>| {
            let same_dictionary = match (&layout.dictionary, dictionary) {
                (Some(held), Some(wanted)) => Arc::ptr_eq(held, wanted),
                (None, None) => true,
                _ => false,
            };
            same_dictionary
                && layout.label_keys.len() == record.texts.labels().len()
                && layout.label_keys.iter().zip(record.texts.labels()).all(|(held, (key, _))| **held == *key)
        };
        if is_of(&self.last, &self.dictionary) {
            return self.last.clone();
        }
        // So many labels are not shared with others, and are not kept by those who only pass by.
        if record.texts.labels().len() > MOST_LABELS {
            return self
                .shared(hash([].into_iter()), Layout { label_keys: [].into(), dictionary: self.dictionary.clone() });
        }
        let hash = hash(record.texts.labels().map(|(key, _)| key));
        let layout = match self.layouts.get(&hash) {
            Some(layout) if is_of(layout, &self.dictionary) => layout.clone(),
            _ => {
                let label_keys = record.texts.labels().map(|(key, _)| self.label_key(key)).collect();
                self.shared(hash, Layout { label_keys, dictionary: self.dictionary.clone() })
            }
        };
        self.last = layout.clone();
        layout
    }

    /// The layout of that hash, or this one from now on.
    fn shared(&mut self, hash: u64, layout: Layout) -> Arc<Layout> {
        if let Some(held) = self.layouts.get(&hash)
            && held.label_keys == layout.label_keys
        {
            return held.clone();
        }
        if self.layouts.len() + self.label_keys.len() > self.sweep_above {
            self.layouts.retain(|_, layout| Arc::strong_count(layout) > 1);
            self.label_keys.retain(|key| Arc::strong_count(key) > 1);
            self.sweep_above = 2 * (self.layouts.len() + self.label_keys.len()) + UNUSED;
            self.shared_bytes = self.layouts.values().map(|layout| layout_bytes(layout)).sum::<usize>()
                + self.label_keys.iter().map(|key| KEY_BYTES + key.len()).sum::<usize>();
        }
        self.shared_bytes += layout_bytes(&layout);
        let layout = Arc::new(layout);
        self.layouts.insert(hash, layout.clone());
        layout
    }

    fn label_key(&mut self, key: &str) -> Arc<str> {
        if let Some(held) = self.label_keys.get(key) {
            return held.clone();
        }
        let key: Arc<str> = Arc::from(key);
        self.shared_bytes += KEY_BYTES + key.len();
        self.label_keys.insert(key.clone());
        key
    }
}

fn hash<'k>(keys: impl Iterator<Item = &'k str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for key in keys {
        key.hash(&mut hasher);
    }
    hasher.finish()
}
