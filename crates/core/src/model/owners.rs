//! The owners of an object (`metadata.ownerReferences`), as a store indexes them.

use super::fnv::fnv1a;

/// The maximum number of different owners of an object that are indexed. Objects usually have one, and a change of the
/// owners of an object costs as many changes of the index.
pub const MOST_OWNERS: usize = 256;

/// The hashes ([`fnv1a`]) of the uids of the owners of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerHashes {
    /// The hashes of all owners, sorted and without repetition. At most [`MOST_OWNERS`].
    All(Vec<u64>),
    /// The object has more owners, so none of them is indexed.
    TooMany,
}

impl Default for OwnerHashes {
    /// No owners.
    fn default() -> OwnerHashes {
        OwnerHashes::All(Vec::new())
    }
}

impl OwnerHashes {
    /// The hashes of these uids.
    pub fn from_uids<Uid: AsRef<str>>(uids: impl IntoIterator<Item = Uid>) -> OwnerHashes {
        let mut hashes: Vec<u64> = uids.into_iter().map(|uid| fnv1a(uid.as_ref())).collect();
        hashes.sort_unstable();
        hashes.dedup();
        if hashes.len() > MOST_OWNERS { OwnerHashes::TooMany } else { OwnerHashes::All(hashes) }
    }
}
