//! Finds the subscriptions that a change may concern, so that a change costs only those.
//!
//! Each subscription is stored under one key: the narrowest property that every object of its selection has. Examples
//! are a name, the value of a field or its prefix, a range of integers, one of a few values of a label, or a range of
//! hashes. A change looks up the properties of its object before and after. The subscriptions found are candidates, and [`super::transition`] decides for each. A selection
//! that only excludes has no key and is a candidate for every change. The index stores only hashes of texts; a
//! collision costs one more decision. The registry wakes the watches and tracks which changes they have not yet
//! received.

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

/// Prefixes are stored by their first bytes, at most so many. A change looks up each shorter prefix of its values, so
/// this bounds its cost. A longer prefix costs needless decisions only.
const LONGEST_PREFIX: usize = 16;

/// Subscriptions by the hash of one text. A collision of hashes costs one needless decision.
type ByHash = HashMap<u64, Subscribers, BuildHasherDefault<Hashed>>;

/// The subscriptions of one entry of the index.
///
/// Most entries have one or a few, for which a list is smallest. Those with many are sets: thousands of watches of one
/// entry can end together, and searching a list for each of them would be quadratic.
#[derive(Debug)]
enum Subscribers {
    Few(Vec<SubscriptionId>),
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
    /// Adds a subscription that is not in the list, and turns a list that is full into a set.
    fn insert(&mut self, id: SubscriptionId) {
        match self {
            Subscribers::Few(list) if list.len() < MOST_FEW => {
                // Capacity for exactly one at first: most lists never have a second one.
                list.reserve_exact(usize::from(list.is_empty()));
                list.push(id);
            }
            Subscribers::Few(list) => *self = Subscribers::Many(list.drain(..).chain([id]).collect()),
            Subscribers::Many(set) => _ = set.insert(id),
        }
    }

    /// Removes a subscription, if it is in the list. A set remains a set until it is empty.
    fn remove(&mut self, id: SubscriptionId) {
        match self {
            Subscribers::Few(list) => {
                if let Some(place) = list.iter().position(|other| *other == id) {
                    list.swap_remove(place);
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

    fn len(&self) -> usize {
        match self {
            Subscribers::Few(list) => list.len(),
            Subscribers::Many(set) => set.len(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The subscriptions that one change may concern, each once: an object can have many of the values that one
/// subscription is stored under.
#[derive(Debug, Default)]
pub struct Candidates {
    ids: Vec<SubscriptionId>,
    /// A set of the subscriptions in `ids`, as a bit for each number.
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
            // All numbers of this word are removed, so the whole word can be cleared.
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

    /// Adds all subscribers of a list.
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

/// The entries in which a subscription is stored: [`SubscriptionIndex::remove`] needs them.
#[derive(Debug)]
pub struct StoredKeys {
    map: Map,
    /// The hashes under which the subscription is stored in that map. Empty if this part of the index is a single list.
    texts: Box<[u64]>,
    /// Whether it is also in [`SubscriptionIndex::unknown`].
    takes_unknown: bool,
}

/// A part of [`SubscriptionIndex`], in which a subscription is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    Names,
    /// Names by their beginnings.
    NamePrefixes,
    Field(FieldIndex),
    /// The values of a field by their beginnings.
    FieldPrefixes(FieldIndex),
    /// The integers of a field by ranges.
    FieldIntegers(FieldIndex),
    /// The list of a field with any value.
    FieldPresent(FieldIndex),
    /// The values of a label, by the hash of its key.
    Label(u64),
    /// The list of a label with any value, by the hash of its key.
    LabelPresent(u64),
    Namespaces,
    /// Blocks of hashes, by what is hashed.
    Shards(ShardKey),
    /// None: the selection is always empty.
    Nowhere,
    /// The list of subscriptions that are candidates for every change.
    Rest,
}

impl StoredKeys {
    /// The approximate memory of this value and of its entries in the index, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.texts.len() * PLACE_BYTES
    }
}

/// Approximate memory of one text of one subscription: its hash here, its entry in a half-empty map, and an allocation.
const PLACE_BYTES: usize = 104;

/// The index of subscriptions; see the module.
#[derive(Debug, Default)]
pub struct SubscriptionIndex {
    hasher: RandomState,
    names: ByHash,
    /// Subscriptions by the hash of the beginning of a name.
    name_prefixes: ByHash,
    fields: Vec<(FieldIndex, FieldSubscribers)>,
    /// Subscriptions by the hash of the label key.
    labels: HashMap<u64, Label, BuildHasherDefault<Hashed>>,
    namespaces: ByHash,
    /// Subscriptions of shards of uids, by blocks of hashes: see `hash_ranges`.
    uid_shards: ByHash,
    /// The same for shards of namespaces.
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
    values: ByHash,
    /// By the hash of the beginning of a value.
    prefixes: ByHash,
    /// Blocks of integers: see [`block_of_integer`].
    integers: ByHash,
    /// Subscriptions that need any value.
    present: Subscribers,
}

impl FieldSubscribers {
    fn is_empty(&self) -> bool {
        self.values.is_empty() && self.prefixes.is_empty() && self.integers.is_empty() && self.present.is_empty()
    }
}

/// Subscriptions that need a label.
#[derive(Debug, Default)]
struct Label {
    values: ByHash,
    /// Subscriptions that need the label with any value.
    present: Subscribers,
}

/// The property of a selection by which it is stored, with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexKey<'a> {
    Names(&'a [String]),
    NamePrefix(&'a str),
    Fields(FieldIndex, &'a [String]),
    FieldPrefix(FieldIndex, &'a str),
    /// The first and the last integer.
    FieldIntegers(FieldIndex, i64, i64),
    FieldPresent(FieldIndex),
    Labels(&'a str, &'a [String]),
    LabelPresent(&'a str),
    Namespaces(&'a [String]),
    Shard(&'a Shard),
    /// The selection is always empty.
    Nowhere,
    /// No property: the selection only excludes, or selects everything.
    Rest,
}

impl<'a> IndexKey<'a> {
    /// The narrowest key of a selection: a name, then a field, then a label, whose values tend to be fewer, then the
    /// namespace.
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
            let found = match (term.operator.values(), term.field) {
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
            best = best.narrower(found);
        }
        for requirement in &selection.labels.requirements {
            if requirement.operator.is_negative() {
                continue;
            }
            let found = match requirement.operator.values() {
                TestedValues::Listed(values) if values.len() <= MOST_VALUES => {
                    IndexKey::Labels(&requirement.key, values)
                }
                TestedValues::Listed(_)
                | TestedValues::Any
                | TestedValues::Integers(_)
                | TestedValues::WithPrefix(_) => IndexKey::LabelPresent(&requirement.key),
            };
            best = best.narrower(found);
        }
        match &selection.shard {
            Some(shard) => best.narrower(IndexKey::Shard(shard)),
            None => best,
        }
    }

    /// The key that fewer changes match.
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
            // Most objects lack the field, which reads as empty: a broad key.
            IndexKey::Fields(_, values) if values.iter().any(String::is_empty) => MOST_VALUES + 3,
            IndexKey::Fields(_, values) => 1 + values.len(),
            IndexKey::Labels(_, values) => 2 + values.len(),
            // Each of many watches that divide a namespace or a label gets its share.
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
    /// Adds a subscription, and returns its entries, which [`SubscriptionIndex::remove`] needs. After that call, the
    /// number can be used again.
    pub fn insert(&mut self, id: SubscriptionId, selection: &Selection) -> StoredKeys {
        let stored = self.keys_of(&selection.with_requirements_of_cel(), selection.cel.is_some());
        if stored.takes_unknown {
            self.unknown.insert(id);
        }
        self.change_lists(&stored, |subscribers| subscribers.insert(id));
        stored
    }

    /// Removes a subscription from the lists that it is in.
    pub fn remove(&mut self, id: SubscriptionId, stored: &StoredKeys) {
        if stored.takes_unknown {
            self.unknown.remove(id);
        }
        self.change_lists(stored, |subscribers| subscribers.remove(id));
        self.sweep(stored);
    }

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

    /// Applies `change` to each list in which a subscription is stored. Creates missing lists.
    fn change_lists(&mut self, stored: &StoredKeys, mut change: impl FnMut(&mut Subscribers)) {
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
        let place = match self.fields.binary_search_by_key(&index, |(other, _)| *other) {
            Ok(place) => place,
            Err(place) => {
                self.fields.insert(place, (index, FieldSubscribers::default()));
                place
            }
        };
        &mut self.fields[place].1
    }

    /// Removes those of these entries that have no subscriptions any more: the number of different values has no bound.
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

    /// Adds to `touched` the subscriptions that a change may concern.
    pub fn candidates(&self, change: &Change, touched: &mut Candidates) {
        touched.extend(&self.rest);
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        if !self.unknown.is_empty() && before.into_iter().chain(after).any(Object::has_unknown_values) {
            touched.extend(&self.unknown);
        }
        // The name and the namespace of an object never change.
        if let Some(object) = after.or(before) {
            self.extend(touched, &self.names, object.name());
            self.extend(touched, &self.namespaces, object.namespace());
            self.extend_beginnings(touched, &self.name_prefixes, object.name());
            if !self.namespace_shards.is_empty() {
                extend_around(touched, &self.namespace_shards, fnv1a(object.namespace()));
            }
        }
        if !self.uid_shards.is_empty() {
            let (after, before) = (after.map(Object::uid_hash), before.map(Object::uid_hash));
            let hashes = after.into_iter().chain(before.filter(|hash| Some(*hash) != after));
            hashes.for_each(|hash| extend_around(touched, &self.uid_shards, hash));
        }
        if let Some(object) = after {
            self.candidates_by_values(object, None, touched);
        }
        if let Some(object) = before {
            self.candidates_by_values(object, after, touched);
        }
    }

    /// Adds the candidates by labels and values that `object` has and `known` does not have. Those of `known` were
    /// looked up before. Labels and values are sorted, so one pass over both objects is enough.
    fn candidates_by_values(&self, object: &Object, known: Option<&Object>, touched: &mut Candidates) {
        for (index, subscribers) in &self.fields {
            let mut known = known.into_iter().flat_map(|known| known.values(*index)).peekable();
            for value in object.values(*index) {
                while known.next_if(|other| *other < value).is_some() {}
                if known.peek() != Some(&value) {
                    self.candidates_by_value(subscribers, value, touched);
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
                    self.extend(touched, &label.values, value);
                }
                if before.is_none() {
                    touched.extend(&label.present);
                }
            }
        }
    }

    /// Adds the candidates by one value of a field.
    fn candidates_by_value(&self, subscribers: &FieldSubscribers, value: &str, touched: &mut Candidates) {
        let FieldSubscribers { values, prefixes, integers, present } = subscribers;
        self.extend(touched, values, value);
        self.extend_beginnings(touched, prefixes, value);
        if !integers.is_empty()
            && let Some(number) = integer::canonical(value)
        {
            extend_around(touched, integers, block_of_integer(number));
        }
        if !value.is_empty() {
            touched.extend(present);
        }
    }

    /// Adds the subscribers that `map` has for a beginning of a text.
    fn extend_beginnings(&self, touched: &mut Candidates, map: &ByHash, text: &str) {
        if map.is_empty() {
            return;
        }
        for length in (1..=text.len().min(LONGEST_PREFIX)).filter(|length| text.is_char_boundary(*length)) {
            self.extend(touched, map, &text[..length]);
        }
    }

    /// The number of subscriptions that have no key, and are candidates for every change.
    pub fn unanchored(&self) -> usize {
        self.rest.len()
    }

    /// Adds the subscribers that `map` has for a text.
    fn extend(&self, touched: &mut Candidates, map: &ByHash, text: &str) {
        // Most maps are empty, and hashing costs more than this test.
        if !map.is_empty()
            && let Some(subscribers) = map.get(&self.hash(text))
        {
            touched.extend(subscribers);
        }
    }
}

/// The beginning of a prefix by which it is stored.
fn beginning(prefix: &str) -> &str {
    let end = (0..=prefix.len().min(LONGEST_PREFIX)).rev().find(|end| prefix.is_char_boundary(*end));
    &prefix[..end.unwrap_or_default()]
}

/// The position of an integer among all of them, for `hash_ranges`. That module distinguishes the first bits only. So
/// the position is that of a floating-point number, whose first bits distinguish small integers too. The order of
/// integers is kept; large ones can have equal positions.
fn block_of_integer(number: i64) -> u64 {
    const SIGN: u64 = 1 << 63;
    #[expect(clippy::cast_precision_loss, reason = "the order is kept, and nothing else is needed")]
    let bits = (number as f64).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Adds the subscribers of the blocks around a hash.
fn extend_around(touched: &mut Candidates, map: &ByHash, hash: u64) {
    hash_ranges::around(hash).filter_map(|block| map.get(&block)).for_each(|subscribers| touched.extend(subscribers));
}
