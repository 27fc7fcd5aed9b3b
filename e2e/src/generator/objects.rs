//! The bytes of a corpus, and what a change does to them.
//!
//! A change replaces the values of a few members in the bytes and decodes nothing: a generator must be far faster than what it feeds.
//! It depends on the order in which the corpora write their members, which is that of their names.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::Value;

/// What a member becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewValue {
    /// The version of the change.
    Version,
    /// A text that no other object has, made of the version.
    Unique,
    /// One of a few texts, in turn.
    OneOf(&'static [&'static str]),
    /// When it was sent, nanoseconds since 1970: see [`sent_at`].
    Stamp,
}

/// Which members a change replaces: the bytes before the value, the byte after it, and what it becomes.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// In the order in which they stand in an object.
    edits: &'static [(&'static str, char, NewValue)],
    /// The bytes before the stamp.
    stamp: &'static str,
}

impl Change {
    /// Of a shirt: a selectable field whose values are unique, and the status. The colour and the labels stay, so that
    /// the same selectors keep their hits.
    pub const SHIRT: Change = Change {
        edits: &[
            ("\"resourceVersion\":\"", '"', NewValue::Version),
            ("\"order\":\"", '"', NewValue::Unique),
            ("\"observedGeneration\":", ',', NewValue::Stamp),
            ("\"phase\":\"", '"', NewValue::OneOf(&["Available", "Reserved", "Sold"])),
        ],
        stamp: "\"observedGeneration\":",
    };

    /// Of a Pod: its node and its phase, both selectable, and an annotation.
    pub const POD: Change = Change {
        edits: &[
            ("\"kubectl.kubernetes.io/restartedAt\":\"", '"', NewValue::Stamp),
            ("\"resourceVersion\":\"", '"', NewValue::Version),
            ("\"nodeName\":\"", '"', NewValue::OneOf(&["node-001", "node-077", "node-123", "node-250", "node-499"])),
            ("\"phase\":\"", '"', NewValue::OneOf(&["Running", "Succeeded", "Failed"])),
        ],
        stamp: "\"kubectl.kubernetes.io/restartedAt\":\"",
    };

    /// Appends the object in its next state to `line`.
    ///
    /// # Errors
    /// When the object lacks one of the members.
    pub fn apply(&self, object: &[u8], version: u64, stamp: u128, line: &mut Vec<u8>) -> Result<()> {
        let mut rest = std::str::from_utf8(object).context("an object must be text")?;
        for (before, after, value) in self.edits {
            let start = rest.find(before).with_context(|| format!("no {before} in {rest}"))? + before.len();
            let length = rest[start..].find(*after).with_context(|| format!("no end of {before} in {rest}"))?;
            line.extend_from_slice(&rest.as_bytes()[..start]);
            let text = match value {
                NewValue::Version => version.to_string(),
                NewValue::Unique => format!("O-v{version}"),
                NewValue::OneOf(texts) => texts[usize::try_from(version).unwrap_or_default() % texts.len()].to_owned(),
                NewValue::Stamp => stamp.to_string(),
            };
            line.extend_from_slice(text.as_bytes());
            rest = &rest[start + length..];
        }
        line.extend_from_slice(rest.as_bytes());
        Ok(())
    }

    /// When the state in these bytes was sent, nanoseconds since 1970; `None` for one that no change made.
    #[must_use]
    pub fn sent_at(&self, bytes: &[u8]) -> Option<u128> {
        /// Stamps have nineteen digits since 2001; other values of the same members are shorter or no numbers.
        const DIGITS: usize = 19;
        let text = std::str::from_utf8(bytes).ok()?;
        let start = text.find(self.stamp)? + self.stamp.len();
        let digits = text.get(start..start + DIGITS)?;
        digits.parse().ok()
    }
}

/// The JSON of all objects, made by as many threads as there are cores.
///
/// # Errors
/// When one cannot be written.
pub fn prepare(count: u64, object: impl Fn(u64) -> Value + Sync) -> Result<Vec<Bytes>> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let share = count.div_ceil(threads).max(1);
    let object = &object;
    let parts: Vec<std::thread::Result<Result<Vec<Bytes>, serde_json::Error>>> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..threads)
            .map(|thread| {
                let range = (thread * share).min(count)..((thread + 1) * share).min(count);
                scope.spawn(move || range.map(|index| serde_json::to_vec(&object(index)).map(Bytes::from)).collect())
            })
            .collect();
        makers.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut objects = Vec::with_capacity(usize::try_from(count).unwrap_or_default());
    for part in parts {
        let part = part.map_err(|_| anyhow::anyhow!("a thread that makes objects panicked"))?;
        objects.extend(part?);
    }
    ensure!(objects.len() as u64 == count, "{} objects were made of {count}", objects.len());
    Ok(objects)
}
