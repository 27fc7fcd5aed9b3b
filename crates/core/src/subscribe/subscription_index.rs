//! Finds the subscriptions that a change may concern, so that the cost of a change does not depend on the others.
//!
//! Each subscription is stored under one key: the narrowest property that every object of its selection has. Examples
//! are a name, the value of a field or its prefix, a range of integers, one of a few values of a label, or a range of
//! hashes. The properties of an object before and after a change are looked up. The subscriptions found are candidates,
//! and [`super::transition`] decides for each. A selection that only excludes has no key, so its subscription is a
//! candidate for every change. The index stores only hashes of texts; a collision costs one more decision. The registry
//! wakes the watches, and tracks which changes they have not yet received.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use super::hash_ranges;
use crate::extract::FieldRef;
use crate::model::{FieldIndex, fnv1a, integer};
use crate::query::Selection;
use crate::selector::{HashRange, Shard, ShardKey, TestedValues};
use crate::store::{Change, Object};

/// The number of a subscription, assigned by the owner of the index.
pub type SubscriptionId = u32;

/// A requirement with more values than this is not stored by its values, because it would take too many entries. If it
/// is about a label, it is stored by the key of the label.
const MOST_VALUES: usize = 64;

/// The maximum number of first bytes by which a prefix is stored. For a change, each beginning of a value up to this
/// length is looked up, so this bounds the cost of a change. A longer prefix only causes needless decisions.
const LONGEST_PREFIX: usize = 16;

/// Subscriptions by the hash of a text, or by the key of a block of hashes. A collision costs one needless decision.
type ByHash = HashMap<u64, Subscribers, BuildHasherDefault<Hashed>>;

/// The subscriptions of one entry of the index.
///
/// Most entries have one or a few subscriptions, for which a list is smallest. Entries with many are sets: thousands of
/// watches of one entry can end together, and searching a list for each of them would take quadratic time.
#[derive(Debug)]
enum Subscribers {
    /// At most [`MOST_FEW`] subscriptions.
    Few(Vec<SubscriptionId>),
    /// A list that had more than [`MOST_FEW`] subscriptions at some time.
    Many(BTreeSet<SubscriptionId>),
}

/// The maximum length of [`Subscribers::Few`].
const MOST_FEW: usize = 32;

impl Default for Subscribers {
    fn default() -> Subscribers {
        Subscribers::Few(Vec::new())
    }
}

impl Subscribers {
    /// Adds a subscription that is not in the entry. A list that is full becomes a set.
    fn insert(&mut self, id: SubscriptionId) {
        match self {
            Subscribers::Few(list) if list.len() < MOST_FEW => {
                // The first subscription gets capacity for exactly one, because most lists have no second subscription.
                list.reserve_exact(usize::from(list.is_empty()));
                list.push(id);
            }
            Subscribers::Few(list) => *self = Subscribers::Many(list.drain(..).chain([id]).collect()),
            Subscribers::Many(set) => _ = set.insert(id),
        }
    }

    /// Removes a subscription, if the entry has it. A set remains a set until it is empty.
    fn remove(&mut self, id: SubscriptionId) {
        match self {
            Subscribers::Few(list) => {
                if let Some(index) = list.iter().position(|other| *other == id) {
                    list.swap_remove(index);
                }
            }
            Subscribers::Many(set) => {
                set.remove(&id);
                if set.is_empty() {
                    *self = Subscribers::default();
                }
            }
        }
    }

    /// The number of subscriptions.
    fn len(&self) -> usize {
        match self {
            Subscribers::Few(list) => list.len(),
            Subscribers::Many(set) => set.len(),
        }
    }

    /// Whether the entry has no subscriptions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The subscriptions that one change may concern. Each occurs once, although an object can have many of the values
/// under which one subscription is stored.
#[derive(Debug, Default)]
pub struct Candidates {
    /// The subscriptions, in the order in which they were added.
    ids: Vec<SubscriptionId>,
    /// The set of the subscriptions in `ids`: the bit with the number of a subscription is set.
    seen: Vec<u64>,
}

impl Candidates {
    /// The subscriptions, each once.
    pub fn ids(&self) -> &[SubscriptionId] {
        &self.ids
    }

    /// Removes all candidates.
    pub fn clear(&mut self) {
        for id in self.ids.drain(..) {
            // All subscriptions with a bit in this word are removed, so the whole word can be cleared.
            self.seen[id as usize / 64] = 0;
        }
    }

    /// Adds a subscription, unless it is a candidate already.
    fn add(&mut self, id: SubscriptionId) {
        let (word, bit) = (id as usize / 64, 1 << (id % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.ids.push(id);
        }
    }

    /// Adds all subscriptions of an entry, unless they are candidates already.
    fn extend(&mut self, subscribers: &Subscribers) {
        match subscribers {
            Subscribers::Few(list) => list.iter().for_each(|id| self.add(*id)),
            Subscribers::Many(set) => set.iter().for_each(|id| self.add(*id)),
        }
    }
}

/// A hasher for keys that are hashes already: it returns the key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    /// The trait requires this function. The keys are `u64`, which call [`Hasher::write_u64`].
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The entries of the index in which a subscription is stored. [`SubscriptionIndex::remove`] needs them.
#[derive(Debug)]
pub struct StoredKeys {
    map: Map,
    /// The keys of the entries in that map: hashes of texts, or keys of blocks. Empty if the part of the index is a
    /// single entry.
    texts: Box<[u64]>,
    /// Whether it is also in [`SubscriptionIndex::unknown`].
    takes_unknown: bool,
}

/// The part of [`SubscriptionIndex`] in which a subscription is stored. A label is identified by the hash of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    /// Names.
    Names,
    /// Beginnings of names.
    NamePrefixes,
    /// Values of a field.
    Field(FieldIndex),
    /// Beginnings of values of a field.
    FieldPrefixes(FieldIndex),
    /// Blocks of the integers of a field.
    FieldIntegers(FieldIndex),
    /// The entry of subscriptions that need any value of a field.
    FieldPresent(FieldIndex),
    /// Values of a label.
    Label(u64),
    /// The entry of subscriptions that need any value of a label.
    LabelPresent(u64),
    /// Namespaces.
    Namespaces,
    /// Blocks of the hashes of this key.
    Shards(ShardKey),
    /// The subscription is not stored, because its selection is always empty.
    Nowhere,
    /// The entry of subscriptions that are candidates for every change.
    Rest,
}

impl StoredKeys {
    /// The approximate memory of this value and of its entries in the index, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.texts.len() * PLACE_BYTES
    }
}

/// The approximate memory, in bytes, of one key of one subscription. It consists of the hash in [`StoredKeys`], an
/// entry in a map that is half empty, and the allocation of the entry.
const PLACE_BYTES: usize = 104;

/// The index of subscriptions. Each subscription is in one of the parts.
#[derive(Debug, Default)]
pub struct SubscriptionIndex {
    /// Hashes texts with a random key, so that clients cannot choose texts with the same hash.
    hasher: RandomState,
    /// Subscriptions by the hash of a name.
    names: ByHash,
    /// Subscriptions by the hash of the beginning of a name.
    name_prefixes: ByHash,
    /// Subscriptions by a field, sorted by field.
    fields: Vec<(FieldIndex, FieldSubscribers)>,
    /// Subscriptions by the hash of the label key.
    labels: HashMap<u64, Label, BuildHasherDefault<Hashed>>,
    /// Subscriptions by the hash of a namespace.
    namespaces: ByHash,
    /// Subscriptions of shards of uids, by blocks of hashes: see `hash_ranges`.
    uid_shards: ByHash,
    /// Subscriptions of shards of namespaces, by blocks of hashes.
    namespace_shards: ByHash,
    /// Subscriptions that are candidates for every change.
    rest: Subscribers,
    /// Those with an expression: candidates also for changes of objects with unknown values of a field. The expression
    /// reads the object itself, so it can be true for them.
    unknown: Subscribers,
}

/// Subscriptions that need a value of a field.
#[derive(Debug, Default)]
struct FieldSubscribers {
    /// Subscriptions by the hash of a value.
    values: ByHash,
    /// Subscriptions by the hash of the beginning of a value.
    prefixes: ByHash,
    /// Subscriptions by blocks of integers: see [`block_of_integer`].
    integers: ByHash,
    /// Subscriptions that need any value.
    present: Subscribers,
}

impl FieldSubscribers {
    /// Whether there are no subscriptions.
    fn is_empty(&self) -> bool {
        self.values.is_empty() && self.prefixes.is_empty() && self.integers.is_empty() && self.present.is_empty()
    }
}

/// Subscriptions that need a label.
#[derive(Debug, Default)]
struct Label {
    /// Subscriptions by the hash of a value.
    values: ByHash,
    /// Subscriptions that need the label with any value.
    present: Subscribers,
}

/// The property of a selection by which it is stored: every selected object has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexKey<'a> {
    /// One of these names.
    Names(&'a [String]),
    /// A name with this prefix.
    NamePrefix(&'a str),
    /// One of these values of the field.
    Fields(FieldIndex, &'a [String]),
    /// A value of the field with this prefix.
    FieldPrefix(FieldIndex, &'a str),
    /// A value of the field that is an integer from the first to the last one.
    FieldIntegers(FieldIndex, i64, i64),
    /// Any value of the field.
    FieldPresent(FieldIndex),
    /// One of these values of the label with this key.
    Labels(&'a str, &'a [String]),
    /// Any value of the label with this key.
    LabelPresent(&'a str),
    /// One of these namespaces.
    Namespaces(&'a [String]),
    /// A hash in this shard.
    Shard(&'a Shard),
    /// The selection is always empty.
    Nowhere,
    /// No property: the selection only excludes, or selects everything.
    Rest,
}

impl<'a> IndexKey<'a> {
    /// The narrowest key of a selection by [`IndexKey::breadth`], among its requirements that are not negative.
    fn narrowest(selection: &'a Selection) -> IndexKey<'a> {
        let mut best = match &selection.namespace {
            Some(namespace) => IndexKey::Namespaces(std::slice::from_ref(namespace)),
            None => IndexKey::Rest,
        };
        for term in &selection.fields {
            // Every object has the empty value, so the term matches all objects or none.
            if term.field == FieldRef::Empty {
                if !term.matches_absent() {
                    return IndexKey::Nowhere;
                }
                continue;
            }
            if term.operator.is_negative() {
                continue;
            }
            let key = match (term.operator.values(), term.field) {
                (TestedValues::Listed(values), _) if values.len() > MOST_VALUES => continue,
                (TestedValues::Listed(values), FieldRef::Name) => IndexKey::Names(values),
                (TestedValues::Listed(values), FieldRef::Field(index)) => IndexKey::Fields(index, values),
                (TestedValues::Listed(values), FieldRef::Namespace) => IndexKey::Namespaces(values),
                (TestedValues::WithPrefix(prefix), FieldRef::Name) => IndexKey::NamePrefix(prefix),
                (TestedValues::WithPrefix(prefix), FieldRef::Field(index)) => IndexKey::FieldPrefix(index, prefix),
                (TestedValues::Integers(range), FieldRef::Field(index)) => {
                    IndexKey::FieldIntegers(index, *range.start(), *range.end())
                }
                (TestedValues::Any, FieldRef::Field(index)) => IndexKey::FieldPresent(index),
                (_, FieldRef::Name | FieldRef::Namespace | FieldRef::Empty) => continue,
            };
            best = best.narrower(key);
        }
        for requirement in &selection.labels.requirements {
            if requirement.operator.is_negative() {
                continue;
            }
            let key = match requirement.operator.values() {
                TestedValues::Listed(values) if values.len() <= MOST_VALUES => {
                    IndexKey::Labels(&requirement.key, values)
                }
                TestedValues::Listed(_)
                | TestedValues::Any
                | TestedValues::Integers(_)
                | TestedValues::WithPrefix(_) => IndexKey::LabelPresent(&requirement.key),
            };
            best = best.narrower(key);
        }
        match &selection.shard {
            Some(shard) => best.narrower(IndexKey::Shard(shard)),
            None => best,
        }
    }

    /// The key of the two that fewer changes match, by [`IndexKey::breadth`]; `self` if both are equal.
    fn narrower(self, other: IndexKey<'a>) -> IndexKey<'a> {
        if other.breadth() < self.breadth() { other } else { self }
    }

    /// A rank of how many changes the key matches: the lowest is the narrowest. Among keys with as many values, a name
    /// comes before a field, and a field before a label.
    fn breadth(self) -> usize {
        match self {
            IndexKey::Nowhere => 0,
            IndexKey::Names(names) => names.len(),
            IndexKey::NamePrefix(_) | IndexKey::FieldPrefix(..) => MOST_VALUES + 2,
            // An absent value is the empty one, and most objects can lack the field. So this is a broad key.
            IndexKey::Fields(_, values) if values.iter().any(String::is_empty) => MOST_VALUES + 3,
            IndexKey::Fields(_, values) => 1 + values.len(),
            IndexKey::Labels(_, values) => 2 + values.len(),
            // A narrow shard comes before a namespace and a label with any value: many watches may divide the objects
            // of one namespace or label by shards.
            IndexKey::Shard(shard) if is_narrow(shard) => MOST_VALUES + 3,
            IndexKey::FieldIntegers(..) => MOST_VALUES + 3,
            IndexKey::LabelPresent(_) | IndexKey::FieldPresent(_) => MOST_VALUES + 4,
            IndexKey::Namespaces(namespaces) => MOST_VALUES + 4 + namespaces.len(),
            IndexKey::Shard(_) => usize::MAX - 1,
            IndexKey::Rest => usize::MAX,
        }
    }
}

/// Whether a shard has at most half of all hashes.
fn is_narrow(shard: &Shard) -> bool {
    let hashes: u128 = shard.ranges().iter().map(|HashRange { first, last }| u128::from(last - first) + 1).sum();
    hashes <= 1 << 63
}

impl SubscriptionIndex {
    /// Adds a subscription, and returns its entries, which [`SubscriptionIndex::remove`] needs. The number `id` must
    /// not be in use; after `remove`, it can be used again.
    pub fn insert(&mut self, id: SubscriptionId, selection: &Selection) -> StoredKeys {
        let stored = self.keys_of(&selection.with_requirements_of_cel(), selection.cel.is_some());
        if stored.takes_unknown {
            self.unknown.insert(id);
        }
        self.change_entries(&stored, |subscribers| subscribers.insert(id));
        stored
    }

    /// Removes a subscription from the entries in which it is stored.
    pub fn remove(&mut self, id: SubscriptionId, stored: &StoredKeys) {
        if stored.takes_unknown {
            self.unknown.remove(id);
        }
        self.change_entries(stored, |subscribers| subscribers.remove(id));
        self.sweep(stored);
    }

    /// The hash of a text in this index.
    fn hash(&self, text: &str) -> u64 {
        self.hasher.hash_one(text)
    }

    /// The entries of a subscription in the index: its narrowest property, with texts replaced by their hashes.
    fn keys_of(&self, selection: &Selection, takes_unknown: bool) -> StoredKeys {
        let hashes = |texts: &[String]| {
            let mut hashes: Vec<u64> = texts.iter().map(|text| self.hash(text)).collect();
            hashes.sort_unstable();
            hashes.dedup();
            hashes.into_boxed_slice()
        };
        let (map, texts) = match IndexKey::narrowest(selection) {
            IndexKey::Nowhere => (Map::Nowhere, [].into()),
            IndexKey::Names(names) => (Map::Names, hashes(names)),
            IndexKey::NamePrefix(prefix) => (Map::NamePrefixes, [self.hash(beginning(prefix))].into()),
            IndexKey::Fields(index, values) => (Map::Field(index), hashes(values)),
            IndexKey::FieldPrefix(index, prefix) => (Map::FieldPrefixes(index), [self.hash(beginning(prefix))].into()),
            IndexKey::FieldIntegers(index, first, last) => {
                let range = HashRange { first: block_of_integer(first), last: block_of_integer(last) };
                (Map::FieldIntegers(index), hash_ranges::covering(&[range]))
            }
            IndexKey::FieldPresent(index) => (Map::FieldPresent(index), [].into()),
            IndexKey::Labels(key, values) => (Map::Label(self.hash(key)), hashes(values)),
            IndexKey::LabelPresent(key) => (Map::LabelPresent(self.hash(key)), [].into()),
            IndexKey::Namespaces(names) => (Map::Namespaces, hashes(names)),
            IndexKey::Shard(shard) => (Map::Shards(shard.key()), hash_ranges::covering(shard.ranges())),
            IndexKey::Rest => (Map::Rest, [].into()),
        };
        StoredKeys { map, texts, takes_unknown }
    }

    /// Applies `change` to each entry in which a subscription is stored. Creates missing entries.
    fn change_entries(&mut self, stored: &StoredKeys, mut change: impl FnMut(&mut Subscribers)) {
        let by_hash = match stored.map {
            Map::Nowhere => return,
            Map::Rest => return change(&mut self.rest),
            Map::LabelPresent(key) => return change(&mut self.labels.entry(key).or_default().present),
            Map::FieldPresent(index) => return change(&mut self.field(index).present),
            Map::Names => &mut self.names,
            Map::NamePrefixes => &mut self.name_prefixes,
            Map::Field(index) => &mut self.field(index).values,
            Map::FieldPrefixes(index) => &mut self.field(index).prefixes,
            Map::FieldIntegers(index) => &mut self.field(index).integers,
            Map::Label(key) => &mut self.labels.entry(key).or_default().values,
            Map::Namespaces => &mut self.namespaces,
            Map::Shards(ShardKey::Uid) => &mut self.uid_shards,
            Map::Shards(ShardKey::Namespace) => &mut self.namespace_shards,
        };
        stored.texts.iter().for_each(|text| change(by_hash.entry(*text).or_default()));
    }

    /// The maps of a field, which are created if needed.
    fn field(&mut self, index: FieldIndex) -> &mut FieldSubscribers {
        let position = match self.fields.binary_search_by_key(&index, |(other, _)| *other) {
            Ok(position) => position,
            Err(position) => {
                self.fields.insert(position, (index, FieldSubscribers::default()));
                position
            }
        };
        &mut self.fields[position].1
    }

    /// Removes the entries in `stored` that have no subscriptions any more. Otherwise the index would grow without a
    /// bound, because the number of different values has none.
    fn sweep(&mut self, stored: &StoredKeys) {
        let sweep = |map: &mut ByHash| {
            for text in &stored.texts {
                if map.get(text).is_some_and(Subscribers::is_empty) {
                    map.remove(text);
                }
            }
            // A map does not shrink by itself.
            if map.capacity() > 4 * map.len().max(64) {
                map.shrink_to(2 * map.len());
            }
        };
        match stored.map {
            Map::Nowhere | Map::Rest => {}
            Map::Names => sweep(&mut self.names),
            Map::NamePrefixes => sweep(&mut self.name_prefixes),
            Map::Namespaces => sweep(&mut self.namespaces),
            Map::Shards(ShardKey::Uid) => sweep(&mut self.uid_shards),
            Map::Shards(ShardKey::Namespace) => sweep(&mut self.namespace_shards),
            Map::Field(index) | Map::FieldPrefixes(index) | Map::FieldIntegers(index) | Map::FieldPresent(index) => {
                let FieldSubscribers { values, prefixes, integers, present: _ } = self.field(index);
                [values, prefixes, integers].into_iter().for_each(sweep);
                self.fields.retain(|(_, subscribers)| !subscribers.is_empty());
            }
            Map::Label(key) | Map::LabelPresent(key) => {
                if let Some(label) = self.labels.get_mut(&key) {
                    sweep(&mut label.values);
                    if label.values.is_empty() && label.present.is_empty() {
                        self.labels.remove(&key);
                    }
                }
            }
        }
    }

    /// Adds the subscriptions that a change may concern to `candidates`.
    pub fn candidates(&self, change: &Change, candidates: &mut Candidates) {
        candidates.extend(&self.rest);
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        if !self.unknown.is_empty() && before.into_iter().chain(after).any(Object::has_unknown_values) {
            candidates.extend(&self.unknown);
        }
        // The name and the namespace of an object do not change, so one lookup is enough.
        if let Some(object) = after.or(before) {
            self.extend(candidates, &self.names, object.name());
            self.extend(candidates, &self.namespaces, object.namespace());
            self.extend_beginnings(candidates, &self.name_prefixes, object.name());
            if !self.namespace_shards.is_empty() {
                extend_around(candidates, &self.namespace_shards, fnv1a(object.namespace()));
            }
        }
        if !self.uid_shards.is_empty() {
            let (after, before) = (after.map(Object::uid_hash), before.map(Object::uid_hash));
            let hashes = after.into_iter().chain(before.filter(|hash| Some(*hash) != after));
            hashes.for_each(|hash| extend_around(candidates, &self.uid_shards, hash));
        }
        if let Some(object) = after {
            self.candidates_by_values(object, None, candidates);
        }
        if let Some(object) = before {
            self.candidates_by_values(object, after, candidates);
        }
    }

    /// Adds the candidates for the labels and values that `object` has and `known` does not have. The labels and values
    /// of `known` were looked up before. Labels and values are sorted, so one pass over both objects is enough.
    fn candidates_by_values(&self, object: &Object, known: Option<&Object>, candidates: &mut Candidates) {
        for (index, subscribers) in &self.fields {
            let mut known = known.into_iter().flat_map(|known| known.values(*index)).peekable();
            for value in object.values(*index) {
                while known.next_if(|other| *other < value).is_some() {}
                if known.peek() != Some(&value) {
                    self.candidates_by_value(subscribers, value, candidates);
                }
            }
        }
        if self.labels.is_empty() {
            return;
        }
        let mut known = known.into_iter().flat_map(Object::labels).peekable();
        for (key, value) in object.labels() {
            while known.next_if(|(other, _)| *other < key).is_some() {}
            if let Some(label) = self.labels.get(&self.hash(key)) {
                let before = known.peek().filter(|(other, _)| *other == key).map(|(_, value)| *value);
                if before != Some(value) {
                    self.extend(candidates, &label.values, value);
                }
                if before.is_none() {
                    candidates.extend(&label.present);
                }
            }
        }
    }

    /// Adds the candidates for one value of a field, of which `subscribers` has the subscriptions.
    fn candidates_by_value(&self, subscribers: &FieldSubscribers, value: &str, candidates: &mut Candidates) {
        let FieldSubscribers { values, prefixes, integers, present } = subscribers;
        self.extend(candidates, values, value);
        self.extend_beginnings(candidates, prefixes, value);
        if !integers.is_empty()
            && let Some(number) = integer::canonical(value)
        {
            extend_around(candidates, integers, block_of_integer(number));
        }
        if !value.is_empty() {
            candidates.extend(present);
        }
    }

    /// Adds the subscriptions that `map` has for each beginning of a text, up to [`LONGEST_PREFIX`] bytes.
    fn extend_beginnings(&self, candidates: &mut Candidates, map: &ByHash, text: &str) {
        if map.is_empty() {
            return;
        }
        for length in (1..=text.len().min(LONGEST_PREFIX)).filter(|length| text.is_char_boundary(*length)) {
            self.extend(candidates, map, &text[..length]);
        }
    }

    /// The number of subscriptions that have no key, and are candidates for every change.
    pub fn unanchored(&self) -> usize {
        self.rest.len()
    }

    /// Adds the subscriptions that `map` has for a text.
    fn extend(&self, candidates: &mut Candidates, map: &ByHash, text: &str) {
        // Most maps are empty, and hashing costs more than this test.
        if !map.is_empty()
            && let Some(subscribers) = map.get(&self.hash(text))
        {
            candidates.extend(subscribers);
        }
    }
}

/// The beginning of a prefix by which the prefix is stored: whole characters within the first [`LONGEST_PREFIX`] bytes.
fn beginning(prefix: &str) -> &str {
    let end = (0..=prefix.len().min(LONGEST_PREFIX)).rev().find(|end| prefix.is_char_boundary(*end));
    &prefix[..end.unwrap_or_default()]
}

/// A number for an integer, in the order of integers, which `hash_ranges` uses like a hash. `hash_ranges` distinguishes
/// only the first bits. So the number has the bits of the floating-point number, whose first bits distinguish small
/// integers too. Large integers that are close to each other can have the same number.
fn block_of_integer(number: i64) -> u64 {
    const SIGN: u64 = 1 << 63;
    #[expect(clippy::cast_precision_loss, reason = "the order is kept, and nothing else is needed")]
    let bits = (number as f64).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Adds the subscriptions that `map` has for the blocks around a hash.
fn extend_around(candidates: &mut Candidates, map: &ByHash, hash: u64) {
    hash_ranges::around(hash)
        .filter_map(|block| map.get(&block))
        .for_each(|subscribers| candidates.extend(subscribers));
}
