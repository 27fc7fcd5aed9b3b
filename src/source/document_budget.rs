//! Which OpenAPI v3 documents of a cluster are fetched and kept. Pure: no IO, no clock.
//!
//! kube-apiserver's index also names the documents that aggregated API servers name, as many as they like and of any length, so what is
//! kept is bounded together. Which groups are whose is not in the index: documents of built-in kinds come first, and of the others the
//! longest ones are left out. Fetching and asking is `openapi`'s.

use std::collections::BTreeMap;
use std::time::Duration;

/// Most bytes of documents that are kept, as the cluster sends them.
pub(super) const MOST_BYTES: usize = 128 << 20;

/// The most memory that the values of one document take while it is made, in bytes. Those of a definition in it take about six times as much
/// as their text.
pub(super) const MOST_MEMORY: usize = 256 << 20;

/// The same of the v2 document, which has those of all kinds.
pub(super) const MOST_MEMORY_V2: usize = 512 << 20;

/// Most documents that are kept.
pub(super) const MOST_DOCUMENTS: usize = 4_096;

/// How long a document that did not come in time is not asked for again, the first time. Each further time it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

/// The longest such time.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Lengths of the documents that are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    kept: BTreeMap<String, (bool, usize)>,
    bytes: usize,
}

impl Budget {
    /// Counts a document in place of the one of the same key, and returns the keys of those for which there is no room then.
    pub(super) fn add(&mut self, key: &str, is_built_in: bool, length: usize, most: usize) -> Vec<String> {
        self.remove(key);
        self.bytes += length;
        self.kept.insert(key.to_owned(), (!is_built_in, length));
        let mut left_out = Vec::new();
        while self.bytes > most || self.kept.len() > MOST_DOCUMENTS {
            // Of equal ones that with the last key.
            let Some(longest) = self.kept.iter().max_by_key(|(_, rank)| **rank).map(|(key, _)| key.clone()) else {
                break;
            };
            self.remove(&longest);
            left_out.push(longest);
        }
        left_out
    }

    /// A document is not kept any more.
    pub(super) fn remove(&mut self, key: &str) {
        if let Some((_, length)) = self.kept.remove(key) {
            self.bytes -= length;
        }
    }
}

/// The pause after another document of a key did not come in time.
pub(super) fn next_pause(last: Option<Duration>) -> Duration {
    last.map_or(FIRST_PAUSE, |last| (last * 2).min(LONGEST_PAUSE))
}
