//! What one client requested and received, in its order.
//!
//! Of objects only what a check needs is kept: key, version, uid, and a digest of the content.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::history::Kind;
use crate::selection::Selection;

/// A moment of the run; of two steps the one came before the other was requested if its number is smaller.
pub type Moment = u64;

/// One client's story.
#[derive(Debug, Clone)]
pub struct Story {
    /// Its name, for messages.
    pub client: String,
    /// What it selects.
    pub selection: Selection,
    /// Whether it has a store that must be the truth in the end.
    pub holds_copy: bool,
    /// What happened to it.
    pub steps: Vec<Step>,
}

/// One thing that a client requested or received.
#[derive(Debug, Clone)]
pub struct Step {
    /// When it was requested; for events of a watch, when it came.
    pub requested_at: Moment,
    /// When it came.
    pub received_at: Moment,
    /// What it was.
    pub event: ClientEvent,
}

/// What a client received.
#[derive(Debug, Clone)]
pub enum ClientEvent {
    /// A whole list, or one page.
    Listed(Listed),
    /// One object, or that there is none.
    Got {
        /// The required freshness.
        required: RequiredFreshness,
        /// `namespace/name`.
        key: String,
        /// What came.
        found: Option<Seen>,
    },
    /// A watch was taken: after this version, or with initial events.
    Watching {
        /// `None`: with initial events.
        after: Option<u64>,
        /// Its initial events are to show at least this.
        not_older_than: u64,
        /// Whether the source itself answers.
        is_forwarded: bool,
    },
    /// An event of the watch.
    Event {
        /// Its type.
        kind: Kind,
        /// Its object.
        seen: Seen,
    },
    /// A bookmark of the watch.
    Bookmark {
        /// Its version.
        version: u64,
        /// Whether it ends the initial events.
        ends_initial: bool,
    },
    /// 410: the version is too old.
    Expired,
    /// The watch is over, in whatever way.
    Ended,
    /// No answer that says something, in words.
    Failed(String),
}

/// How new a read had to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredFreshness {
    /// Whatever is there: version 0, or none.
    Any,
    /// Not older than this version.
    NotOlderThan(u64),
    /// The state at this version.
    Exact(u64),
    /// Not older than the request, before which this version was there.
    Strong(u64),
    /// What its continue token says.
    Continued,
}

/// A list, or a page of one.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The required freshness.
    pub required: RequiredFreshness,
    /// Its version.
    pub version: u64,
    /// Its objects, in its order.
    pub items: Vec<Seen>,
    /// Which page of which walk; `None` for a whole list.
    pub page: Option<Page>,
    /// Whether the source itself answered.
    pub is_forwarded: bool,
}

/// A page's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The walk it belongs to, a number of the client's own.
    pub walk: u64,
    /// At most so many objects.
    pub limit: usize,
    /// Whether nothing comes after it.
    pub is_last: bool,
    /// How many objects are said to come after it, if that is said.
    pub remaining: Option<usize>,
}

/// An object as a client received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `namespace/name`.
    pub key: String,
    /// Its resourceVersion.
    pub version: u64,
    /// Its uid.
    pub uid: String,
    /// A digest of everything else.
    pub content: u64,
}

impl Seen {
    /// Reads an object of the wire.
    ///
    /// # Errors
    /// When it has no name or no version.
    pub fn from_object(object: &Value) -> Result<Seen> {
        let metadata = &object["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default();
        let name = metadata["name"].as_str().with_context(|| format!("an object without a name: {object}"))?;
        Ok(Seen {
            key: format!("{}/{name}", text("namespace")),
            version: text("resourceVersion").parse().with_context(|| format!("the version of {name}"))?,
            uid: text("uid").to_owned(),
            content: content(object),
        })
    }
}

/// A digest of an object, without what may differ between two readings of the same state. That is kind and apiVersion,
/// which are with the list or in another served version. It is also the resourceVersion, which differs on DELETED and
/// is compared separately.
#[must_use]
pub fn content(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, member) in object.as_object().into_iter().flatten() {
        match (name.as_str(), member.as_object()) {
            ("kind" | "apiVersion", _) => {}
            ("metadata", Some(metadata)) => {
                for (name, value) in metadata.iter().filter(|(name, _)| *name != "resourceVersion") {
                    (name, value.to_string()).hash(&mut hasher);
                }
            }
            _ => (name, member.to_string()).hash(&mut hasher),
        }
    }
    hasher.finish()
}
