//! Splits lists and watch lines into spans of object bytes, without decoding the objects.
//!
//! It expects JSON as Go writes it, but no particular order of keys or white space. The cursor of `json` only
//! balances what it skips; the extractor validates it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::unfinished::{UnfinishedBudget, UnfinishedShare};
use crate::json::SyntaxError;
use crate::json::cursor::Cursor;
use crate::model::{Key, Version};
use crate::registry::fieldcache_protocol::LAG_ANNOTATION;

/// The type of a watch line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// `ADDED`.
    Added,
    /// `MODIFIED`.
    Modified,
    /// `DELETED`.
    Deleted,
    /// `BOOKMARK`.
    Bookmark,
    /// `ERROR`, or a type that is not known.
    Error,
}

impl EventType {
    /// The event type of this name, such as `ADDED`. Every unknown name is [`EventType::Error`].
    fn from_name(text: &[u8]) -> EventType {
        match text {
            b"ADDED" => EventType::Added,
            b"MODIFIED" => EventType::Modified,
            b"DELETED" => EventType::Deleted,
            b"BOOKMARK" => EventType::Bookmark,
            _ => EventType::Error,
        }
    }
}

/// One line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchLine {
    /// Its type.
    pub event_type: EventType,
    /// The object's bytes: a slice of the line.
    pub object: Bytes,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The items' bytes: slices of the page.
    pub items: Vec<Bytes>,
    /// metadata.resourceVersion.
    pub version: Version,
    /// metadata.continue; empty on the last page.
    pub next: String,
    /// metadata.remainingItemCount; `None` where the list does not have it.
    pub remaining: Option<u64>,
}

/// Bytes that are neither a list nor a watch line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected response at byte {offset}: expected {expected}")]
pub struct FrameError {
    /// Byte offset.
    pub offset: usize,
    /// What was expected.
    pub expected: &'static str,
}

impl From<SyntaxError> for FrameError {
    fn from(SyntaxError { offset, expected }: SyntaxError) -> FrameError {
        FrameError { offset, expected }
    }
}

/// Splits a watch line.
///
/// The line of an object in the form that Go writes is not walked: it is cut at both ends. The extractor, which walks
/// the object anyway, rejects it if it is unbalanced or followed by anything.
///
/// # Errors
/// [`FrameError`] when it is not an object with `type` and `object`.
pub fn watch_line(line: &Bytes) -> Result<WatchLine, FrameError> {
    match usual_watch_line(line) {
        Some(split) => Ok(split),
        None => any_watch_line(line),
    }
}

/// Splits an ADDED, MODIFIED or DELETED line in the form that kube-apiserver writes, without walking the object: the
/// extractor rejects it if it is not one valid object. `None` for every other line, also for a bookmark:
/// [`any_watch_line`] splits it.
fn usual_watch_line(line: &Bytes) -> Option<WatchLine> {
    let behind_type = line.strip_prefix(b"{\"type\":\"")?;
    let kind = [&b"ADDED"[..], b"MODIFIED", b"DELETED"].into_iter().find(|kind| behind_type.starts_with(kind))?;
    let object = behind_type[kind.len()..].strip_prefix(b"\",\"object\":")?.strip_suffix(b"}")?;
    let is_braced = object.starts_with(b"{") && object.ends_with(b"}");
    is_braced.then(|| WatchLine { event_type: EventType::from_name(kind), object: line.slice_ref(object) })
}

/// Splits a line with its fields in any order.
///
/// # Errors
/// It is not a JSON object with `type` and `object`.
pub(super) fn any_watch_line(line: &Bytes) -> Result<WatchLine, FrameError> {
    let mut event_type = None;
    let mut object = None;
    for_each_member(line, |key, cursor| {
        let value = skip(cursor)?;
        match key {
            b"type" => event_type = string(&line[value]).map(|text| EventType::from_name(text.as_bytes())),
            b"object" => object = Some(line.slice(value)),
            _ => {}
        }
        Ok(())
    })?;
    match (event_type, object) {
        (Some(event_type), Some(object)) => Ok(WatchLine { event_type, object }),
        _ => Err(FrameError { offset: 0, expected: "an object with type and object" }),
    }
}

/// Splits a list, in one pass.
///
/// # Errors
/// [`FrameError`] when it is not a list with metadata.resourceVersion and items.
pub fn list_page(body: &Bytes) -> Result<ListPage, FrameError> {
    let mut items = None;
    let mut metadata = None;
    for_each_member(body, |key, cursor| {
        match key {
            b"items" => items = Some(elements(cursor, body)?),
            b"metadata" => metadata = Some(skip(cursor)?),
            _ => {
                skip(cursor)?;
            }
        }
        Ok(())
    })?;
    let (Some(items), Some(metadata)) = (items, metadata) else {
        return Err(FrameError { offset: 0, expected: "a list with metadata and items" });
    };
    let mut version = None;
    let (mut next, mut remaining) = (None, None);
    let metadata = &body[metadata];
    for_each_member(metadata, |key, cursor| {
        let value = skip(cursor)?;
        match key {
            b"resourceVersion" => version = string(&metadata[value]).and_then(|text| Version::parse(&text)),
            b"continue" => next = string(&metadata[value]),
            b"remainingItemCount" => {
                remaining = std::str::from_utf8(&metadata[value]).ok().and_then(|text| text.trim().parse().ok());
            }
            _ => {}
        }
        Ok(())
    })?;
    let Some(version) = version else {
        return Err(FrameError { offset: 0, expected: "metadata.resourceVersion, a number" });
    };
    Ok(ListPage { items, version, next: next.unwrap_or_default(), remaining })
}

/// A page of a list of metadata: enough to decide whether a store has the same objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataPage {
    /// The key of each object, and its version; `None` for one that is no number.
    pub entries: Vec<(Key, Option<Version>)>,
    /// metadata.resourceVersion of the list.
    pub version: Version,
    /// metadata.continue; empty on the last page.
    pub next: String,
    /// metadata.remainingItemCount; `None` where the list does not have it.
    pub remaining: Option<u64>,
}

/// The longest name, namespace or version of an item of a list, in bytes as it is written.
const MAX_NAME_BYTES: usize = 64 << 10;

/// The key and version of an item of a PartialObjectMetadataList. The item may be a whole object: the rest is skipped.
/// The version is `None` if it is not a number.
///
/// # Errors
/// [`FrameError`] when the item is invalid JSON or has no name, or when its name, namespace or resourceVersion is
/// longer than 64 KiB. That is longer than those of any API server.
pub fn entry(item: &Bytes) -> Result<(Key, Option<Version>), FrameError> {
    let (mut namespace, mut name, mut version) = (None, None, None);
    for_each_member(item, |key, cursor| {
        let value = skip(cursor)?;
        if key == b"metadata" {
            let metadata = &item[value];
            for_each_member(metadata, |key, cursor| {
                let value = skip(cursor)?;
                let is_kept = matches!(key, b"namespace" | b"name" | b"resourceVersion");
                if is_kept && value.len() > MAX_NAME_BYTES {
                    return Err(SyntaxError { offset: value.start, expected: "a shorter name" });
                }
                match key {
                    b"namespace" => namespace = string(&metadata[value]),
                    b"name" => name = string(&metadata[value]),
                    b"resourceVersion" => version = string(&metadata[value]),
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    let name = name.ok_or(FrameError { offset: 0, expected: "an object with metadata.name" })?;
    Ok((Key::new(&namespace.unwrap_or_default(), &name), version.and_then(|text| Version::parse(&text))))
}

/// Calls `visit` for each field of a JSON object. `visit` gets the key as it is between the quotes, and the cursor at
/// the value, which `visit` must skip.
///
/// # Errors
/// The bytes are not one JSON object, or `visit` fails.
fn for_each_member(
    bytes: &[u8],
    mut visit: impl FnMut(&[u8], &mut Cursor<'_>) -> Result<(), SyntaxError>,
) -> Result<(), SyntaxError> {
    let mut cursor = Cursor::new(bytes);
    cursor.space();
    cursor.expect(b'{', "an object")?;
    let mut is_first = true;
    while !cursor.skip_closing(b'}') {
        if !is_first {
            cursor.expect(b',', "a comma or the end of an object")?;
            cursor.space();
        }
        is_first = false;
        let key = cursor.string("a key")?.raw;
        cursor.space();
        cursor.expect(b':', "a colon")?;
        cursor.space();
        visit(key, &mut cursor)?;
    }
    cursor.space();
    if cursor.peek().is_some() { Err(cursor.error("the end of the response")) } else { Ok(()) }
}

/// The elements of the list at the cursor, as slices of `body`; null counts as empty.
///
/// # Errors
/// The value is not a complete list.
fn elements(cursor: &mut Cursor<'_>, body: &Bytes) -> Result<Vec<Bytes>, SyntaxError> {
    let mut found = Vec::new();
    if cursor.peek() == Some(b'n') {
        skip(cursor)?;
        return Ok(found);
    }
    cursor.expect(b'[', "a list")?;
    while !cursor.skip_closing(b']') {
        if !found.is_empty() {
            cursor.expect(b',', "a comma or the end of a list")?;
            cursor.space();
        }
        found.push(body.slice(skip(cursor)?));
    }
    Ok(found)
}

/// Skips a value and returns its range.
fn skip(cursor: &mut Cursor<'_>) -> Result<Range<usize>, SyntaxError> {
    let start = cursor.position();
    cursor.skip_value(0)?;
    Ok(start..cursor.position())
}

/// The text of a JSON string; `None` for any other value.
fn string(bytes: &[u8]) -> Option<String> {
    serde_json::from_slice(bytes).ok()
}

/// The contents of a bookmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Everything up to this version has been sent.
    pub version: Version,
    /// Whether it marks the end of the initial events.
    pub ends_initial_events: bool,
    /// The age of this progress when it was sent. Another fieldcache reports it; for an API server it is zero.
    pub lag: Duration,
}

/// The longest BOOKMARK or ERROR object that is decoded, in bytes. Both have metadata or a message, and nothing of an
/// object.
pub(super) const MAX_NOTICE_BYTES: usize = 64 << 10;

/// Reads a bookmark.
///
/// # Errors
/// [`FrameError`] when there is no version, or the bookmark is as long as an object.
pub fn bookmark(object: &Bytes) -> Result<Bookmark, FrameError> {
    let mut read = None;
    if object.len() > MAX_NOTICE_BYTES {
        return Err(FrameError { offset: MAX_NOTICE_BYTES, expected: "the end of a bookmark" });
    }
    for_each_member(object, |key, cursor| {
        let value = skip(cursor)?;
        if key == b"metadata" {
            // A bookmark is small; a plain decode is clearer than another splitter.
            let metadata: serde_json::Value = serde_json::from_slice(&object[value]).unwrap_or_default();
            let annotations = &metadata["annotations"];
            let lag = annotations[LAG_ANNOTATION].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
            read = metadata["resourceVersion"].as_str().and_then(Version::parse).map(|version| Bookmark {
                version,
                ends_initial_events: annotations["k8s.io/initial-events-end"] == "true",
                lag: Duration::from_millis(lag),
            });
        }
        Ok(())
    })?;
    read.ok_or(FrameError { offset: 0, expected: "metadata.resourceVersion, a number" })
}

/// Collects a stream of chunks into lines. A line that lies within one chunk is a slice of it; only one that was cut is
/// copied.
#[derive(Debug, Default)]
pub struct Lines {
    /// What is left of the newest chunk.
    chunk: Bytes,
    /// The beginning of a line whose end has not arrived.
    begun: BytesMut,
    /// Its share of the memory budget for unfinished objects.
    share: UnfinishedShare,
}

impl Lines {
    /// The lines of one of several readers, which share a memory budget for long lines.
    pub(super) fn with_budget(budget: &Arc<UnfinishedBudget>) -> Lines {
        Lines { share: UnfinishedShare::new(budget), ..Lines::default() }
    }

    /// Counts the received part of a line in the budget. False if the budget is exhausted.
    pub(super) fn reserve_memory(&mut self) -> bool {
        self.share.hold(self.begun.capacity())
    }

    /// Adds a chunk. Take all lines of the previous one before: its rest is copied.
    pub fn push(&mut self, chunk: Bytes) {
        self.chunk = if self.chunk.is_empty() { chunk } else { Bytes::from([&*self.chunk, &*chunk].concat()) };
    }

    /// The next complete line, without its end; `None` if no line is complete. Empty lines are skipped.
    pub fn next_line(&mut self) -> Option<Bytes> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.chunk) else {
                self.begun.extend_from_slice(&std::mem::take(&mut self.chunk));
                return None;
            };
            let mut line = self.chunk.split_to(end + 1);
            line.truncate(end);
            if !self.begun.is_empty() {
                self.begun.extend_from_slice(&line);
                line = std::mem::take(&mut self.begun).freeze();
            }
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    /// The number of bytes whose line has not ended.
    pub fn pending(&self) -> usize {
        self.begun.len() + self.chunk.len()
    }
}
