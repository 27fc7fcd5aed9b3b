//! How many objects of our own kinds are in memory, and how long they are. Whoever may write them chooses both, and they are there again
//! after each start.
//!
//! The oldest objects keep their specs, up to a number and a sum of bytes. Of younger ones only names are kept, so that their status can say
//! why they are not served, and beyond a further number nothing. Age decides, because nobody can then take the place of an object that is
//! served by writing more of them.
//!
//! [`Room`] is pure. What to do when there is room again is `world`'s.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::lenient::Replaceable;
use crate::kinds::Absence;

/// What objects of one kind may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Objects that keep their specs.
    pub objects: usize,
    /// Bytes of these specs together, as JSON. In memory, they take some ten times as much.
    pub bytes: usize,
    /// Bytes of one spec, as JSON.
    pub longest: usize,
    /// Objects of which at least the name is kept.
    pub names: usize,
}

impl Limits {
    /// Of FieldCaches, and of Views.
    pub const WRITTEN_BY_USERS: Limits = Limits { objects: 2_000, bytes: 8 << 20, longest: 64 << 10, names: 10_000 };
    /// Of what fieldcache itself writes, or selects by name.
    pub const NONE: Limits = Limits { objects: usize::MAX, bytes: usize::MAX, longest: usize::MAX, names: usize::MAX };
}

/// Objects are in this order: those without a time, which kube-apiserver gives to each, are the youngest.
type Age = (bool, Option<Time>, String);

fn age(metadata: &ObjectMeta) -> Age {
    let created = metadata.creation_timestamp.clone();
    (created.is_none(), created, metadata.name.clone().unwrap_or_default())
}

/// What a new or changed object does to what is kept.
#[derive(Debug)]
pub struct Admitted<K> {
    /// What to keep in its place, and then what to keep instead of others.
    pub kept: Vec<K>,
    /// Objects of which nothing is kept any more, with their names alone.
    pub gone: Vec<K>,
}

/// What is kept of the objects of one kind.
#[derive(Debug)]
pub struct Room {
    limits: Limits,
    /// Objects with their specs: how long these are, and what else is known of the object.
    whole: BTreeMap<Age, (usize, ObjectMeta)>,
    /// Bytes of these specs.
    bytes: usize,
    /// Objects of which the name is kept, and how long their specs are.
    named: BTreeMap<Age, usize>,
    ages: HashMap<String, Age>,
    /// Whether there are others.
    has_more: bool,
}

impl Room {
    /// An empty one.
    pub fn new(limits: Limits) -> Room {
        Room { limits, whole: BTreeMap::new(), bytes: 0, named: BTreeMap::new(), ages: HashMap::new(), has_more: false }
    }

    /// All objects come anew.
    pub fn clear(&mut self) {
        *self = Room::new(self.limits);
    }

    /// An object that is new or has changed.
    pub fn admit<K: Replaceable>(&mut self, mut object: K) -> Admitted<K> {
        let name = object.meta().name.clone().unwrap_or_default();
        let was_known = self.remove(&name);
        if object.spec_length() > self.limits.longest {
            object.drop_spec(Absence::TooLong);
        }
        let (length, age) = (object.spec_length(), age(object.meta()));
        let is_first = self.named.first_key_value().is_none_or(|(oldest, _)| age < *oldest);
        let is_whole = is_first && !self.younger_than(&age, length);
        self.ages.insert(name.clone(), age.clone());
        if is_whole {
            self.whole.insert(age, (length, object.meta().clone()));
            self.bytes += length;
        } else {
            self.named.insert(age, length);
            object.drop_spec(Absence::CrowdedOut);
        }
        let mut admitted = Admitted { kept: vec![object], gone: Vec::new() };
        while self.whole.len() > self.limits.objects || self.bytes > self.limits.bytes {
            let Some((age, (length, metadata))) = self.whole.pop_last() else { break };
            self.bytes -= length;
            self.named.insert(age, length);
            let mut other = K::default();
            *other.meta_mut() = metadata;
            other.drop_spec(Absence::CrowdedOut);
            admitted.kept.push(other);
        }
        while self.ages.len() > self.limits.names {
            let Some(((_, _, youngest), _)) = self.named.pop_last() else { break };
            self.has_more = true;
            self.ages.remove(&youngest);
            admitted.kept.retain(|kept| kept.meta().name.as_ref() != Some(&youngest));
            if youngest != name || was_known {
                let mut gone = K::default();
                gone.meta_mut().name = Some(youngest);
                admitted.gone.push(gone);
            }
        }
        admitted
    }

    /// Whether there is no room for such an object beside older ones.
    fn younger_than(&self, age: &Age, length: usize) -> bool {
        let is_full = self.whole.len() >= self.limits.objects || self.bytes.saturating_add(length) > self.limits.bytes;
        is_full && self.whole.last_key_value().is_some_and(|(youngest, _)| youngest < age)
    }

    /// An object that does not exist any more. Whether anything was kept of it.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(age) = self.ages.remove(name) else { return false };
        if let Some((length, _)) = self.whole.remove(&age) {
            self.bytes -= length;
        }
        self.named.remove(&age);
        true
    }

    /// Whether an object that was left out could be kept now. Then all objects are to be read anew.
    pub fn has_room(&self) -> bool {
        let fits = |length: usize| self.whole.len() < self.limits.objects && self.bytes + length <= self.limits.bytes;
        match self.named.first_key_value() {
            Some((_, length)) => fits(*length),
            None => self.has_more,
        }
    }
}
