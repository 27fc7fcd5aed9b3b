//! What a store takes, asked of its [`Snapshot`].
//!
//! An estimate of what the parts of a store hold, from what a snapshot shows: texts and bitmaps by their length, nodes of
//! maps by their entries. Allocator overhead is not in it; the process's resident memory is beside it.

use std::collections::BTreeSet;
use std::mem::size_of;
use std::sync::Arc;

use crate::model::{FieldIndex, Key};
use crate::store::postings::Posting;
use crate::store::{Attribute, Object, Snapshot};

/// The sizes of one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many objects.
    pub objects: u64,
    /// The objects as JSON, in bytes.
    pub json_bytes: u64,
    /// The objects as they are held in memory, in bytes.
    pub held_bytes: u64,
    /// The order of keys, in bytes.
    pub order_bytes: u64,
    /// Changes that history keeps.
    pub history_changes: u64,
    /// Bytes that only history keeps alive.
    pub history_bytes: u64,
    /// The indexes, by what they are about.
    pub attributes: Vec<AttributeUsage>,
}

/// The size of the index of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeUsage {
    /// What it is about.
    pub attribute: Attribute,
    /// Distinct values.
    pub values: u64,
    /// Bytes of values and posting lists.
    pub bytes: u64,
}

impl Usage {
    /// Of a snapshot with so many fields. Walks its objects and values; not for a thread that answers requests.
    pub fn of(snapshot: &Snapshot, fields: usize) -> Usage {
        let objects = || snapshot.occupied().iter().filter_map(|slot| snapshot.object(slot));
        let mut usage = Usage {
            objects: snapshot.len() as u64,
            json_bytes: snapshot.object_bytes(),
            order_bytes: (snapshot.len() * (size_of::<Key>() + size_of::<u32>())) as u64,
            ..Usage::default()
        };
        let mut label_keys: BTreeSet<&str> = BTreeSet::new();
        for object in objects() {
            usage.held_bytes += held(object);
            label_keys.extend(object.labels().map(|(key, _)| key));
        }
        let changes = snapshot.since(snapshot.oldest()).ok().and_then(|oldest| snapshot.changes(oldest));
        for change in changes.into_iter().flatten() {
            usage.history_changes += 1;
            usage.history_bytes += change.before.as_ref().map_or(0, |before| before.bytes.len() as u64);
        }
        let labels = label_keys.into_iter().map(|key| Attribute::Label(Arc::from(key)));
        let fields = (0..fields).filter_map(|field| Some(Attribute::Field(FieldIndex(u16::try_from(field).ok()?))));
        usage.attributes =
            fields.chain(labels).chain([Attribute::Namespace]).map(|attribute| index(snapshot, attribute)).collect();
        usage
    }
}

fn held(object: &Object) -> u64 {
    // A label is two shared texts; so is the value of a field beside its number.
    let labels = object.labels().count() * 2 * size_of::<Arc<str>>();
    (size_of::<Object>() + object.bytes.len() + labels) as u64
}

fn index(snapshot: &Snapshot, attribute: Attribute) -> AttributeUsage {
    let (mut values, mut bytes) = (0, 0);
    for (value, posting) in snapshot.postings().values(&attribute) {
        let slots = match posting {
            Posting::One(_) => 0,
            Posting::Many(slots) => slots.serialized_size(),
        };
        values += 1;
        bytes += (size_of::<(Arc<str>, Posting)>() + value.len() + slots) as u64;
    }
    AttributeUsage { attribute, values, bytes }
}
