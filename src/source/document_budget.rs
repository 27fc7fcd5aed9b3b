//! Which OpenAPI v3 documents of a cluster are fetched and cached. Pure: no IO, no clock.
//!
//! kube-apiserver's index also names the documents of aggregated API servers, in any number and of any length, so the
//! cached documents are bounded together. The index does not say which server has a group. So documents of built-in
//! kinds come first, and of the others the longest ones are left out. `openapi` sends the requests.

use std::collections::BTreeMap;
use std::time::Duration;

/// The most bytes of cached documents, as the cluster sends them.
pub(super) const MOST_BYTES: usize = 128 << 20;

/// The most memory that the value of one document takes while its forms are created, in bytes. The definitions in it
/// take about six times as much as their text.
pub(super) const MOST_MEMORY: usize = 256 << 20;

/// The maximum memory of the v2 document, which has the definitions of all kinds.
pub(super) const MOST_MEMORY_V2: usize = 512 << 20;

/// The most cached documents.
pub(super) const MOST_DOCUMENTS: usize = 4_096;

/// How long a document is not requested after it timed out for the first time. The pause doubles each further time.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Lengths of the cached documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    /// By key: whether the document is not of built-in kinds, and its length in bytes. The greatest is evicted first.
    kept: BTreeMap<String, (bool, usize)>,
    /// The sum of all lengths.
    bytes: usize,
}

impl Budget {
    /// Counts a document, in place of one with the same key. `length` is in bytes, and `most` is the bound of all
    /// lengths. Returns the keys of documents that no longer fit, which may include this one.
    pub(super) fn add(&mut self, key: &str, is_built_in: bool, length: usize, most: usize) -> Vec<String> {
        self.remove(key);
        self.bytes += length;
        self.kept.insert(key.to_owned(), (!is_built_in, length));
        let mut left_out = Vec::new();
        while self.bytes > most || self.kept.len() > MOST_DOCUMENTS {
            // Of several equal ones, the one with the last key is evicted.
            let Some(longest) = self.kept.iter().max_by_key(|(_, rank)| **rank).map(|(key, _)| key.clone()) else {
                break;
            };
            self.remove(&longest);
            left_out.push(longest);
        }
        left_out
    }

    /// Removes a document that is not cached any more.
    pub(super) fn remove(&mut self, key: &str) {
        if let Some((_, length)) = self.kept.remove(key) {
            self.bytes -= length;
        }
    }
}

/// The pause after a document has timed out. `last` is the previous pause of the same document.
pub(super) fn next_pause(last: Option<Duration>) -> Duration {
    last.map_or(FIRST_PAUSE, |last| (last * 2).min(LONGEST_PAUSE))
}
