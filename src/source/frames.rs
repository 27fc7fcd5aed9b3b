//! Lists and watch lines -> spans of object bytes, without decoding the objects.
//!
//! The wire is trusted to be JSON as Go writes it, but not to have any particular order of keys or white space.

use std::ops::Range;

use bytes::Bytes;

use crate::model::Version;

/// One line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchLine {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: String,
    /// The object's bytes.
    pub object: Bytes,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The items' bytes.
    pub items: Vec<Bytes>,
    /// metadata.resourceVersion.
    pub version: Version,
    /// metadata.continue; empty on the last page.
    pub next: String,
}

/// Bytes that are no list and no watch line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected answer at byte {offset}: {expected}")]
pub struct FrameError {
    /// Byte offset.
    pub offset: usize,
    /// What was expected.
    pub expected: &'static str,
}

/// Splits a watch line.
///
/// # Errors
/// [`FrameError`] when it is not an object with `type` and `object`.
pub fn watch_line(line: &Bytes) -> Result<WatchLine, FrameError> {
    let mut kind = None;
    let mut object = None;
    for_each_member(line, |key, value| match key {
        b"\"type\"" => kind = Some(string(&line[value])),
        b"\"object\"" => object = Some(line.slice(value)),
        _ => {}
    })?;
    match (kind.flatten(), object) {
        (Some(kind), Some(object)) => Ok(WatchLine { kind, object }),
        _ => Err(FrameError { offset: 0, expected: "an object with type and object" }),
    }
}

/// Splits a list.
///
/// # Errors
/// [`FrameError`] when it is not a list with metadata.resourceVersion and items.
pub fn list_page(body: &Bytes) -> Result<ListPage, FrameError> {
    let mut items = None;
    let mut metadata = None;
    for_each_member(body, |key, value| match key {
        b"\"items\"" => items = Some(value),
        b"\"metadata\"" => metadata = Some(value),
        _ => {}
    })?;
    let (Some(items), Some(metadata)) = (items, metadata) else {
        return Err(FrameError { offset: 0, expected: "a list with metadata and items" });
    };
    let mut version = None;
    let mut next = None;
    let metadata = body.slice(metadata);
    for_each_member(&metadata, |key, value| match key {
        b"\"resourceVersion\"" => version = string(&metadata[value]).and_then(|text| Version::parse(&text)),
        b"\"continue\"" => next = string(&metadata[value]),
        _ => {}
    })?;
    let Some(version) = version else {
        return Err(FrameError { offset: 0, expected: "metadata.resourceVersion, a number" });
    };
    let mut split = Vec::new();
    for_each_element(body, items.start, |value| split.push(body.slice(value)))?;
    Ok(ListPage { items: split, version, next: next.unwrap_or_default() })
}

/// Calls `visit` with the raw key (quotes included) and the value's span of each member of a JSON object.
fn for_each_member(bytes: &[u8], mut visit: impl FnMut(&[u8], Range<usize>)) -> Result<(), FrameError> {
    let mut position = blank(bytes, 0);
    position = expect(bytes, position, b'{', "an object")?;
    position = blank(bytes, position);
    if bytes.get(position) == Some(&b'}') {
        return Ok(());
    }
    loop {
        let key_start = blank(bytes, position);
        let key_end = skip_string(bytes, key_start)?;
        let colon = expect(bytes, blank(bytes, key_end), b':', "a colon")?;
        let value_start = blank(bytes, colon);
        let value_end = skip_value(bytes, value_start)?;
        visit(&bytes[key_start..key_end], value_start..value_end);
        position = blank(bytes, value_end);
        match bytes.get(position) {
            Some(b',') => position += 1,
            Some(b'}') => return Ok(()),
            _ => return Err(FrameError { offset: position, expected: "a comma or the end of an object" }),
        }
    }
}

/// Calls `visit` with each element's span of the array that begins at `start`; null counts as empty.
fn for_each_element(bytes: &[u8], start: usize, mut visit: impl FnMut(Range<usize>)) -> Result<(), FrameError> {
    if bytes[start..].starts_with(b"null") {
        return Ok(());
    }
    let mut position = blank(bytes, expect(bytes, start, b'[', "a list")?);
    if bytes.get(position) == Some(&b']') {
        return Ok(());
    }
    loop {
        let value_start = blank(bytes, position);
        let value_end = skip_value(bytes, value_start)?;
        visit(value_start..value_end);
        position = blank(bytes, value_end);
        match bytes.get(position) {
            Some(b',') => position += 1,
            Some(b']') => return Ok(()),
            _ => return Err(FrameError { offset: position, expected: "a comma or the end of a list" }),
        }
    }
}

fn blank(bytes: &[u8], mut position: usize) -> usize {
    while matches!(bytes.get(position), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        position += 1;
    }
    position
}

fn expect(bytes: &[u8], position: usize, byte: u8, expected: &'static str) -> Result<usize, FrameError> {
    if bytes.get(position) == Some(&byte) { Ok(position + 1) } else { Err(FrameError { offset: position, expected }) }
}

fn skip_string(bytes: &[u8], start: usize) -> Result<usize, FrameError> {
    let mut position = expect(bytes, start, b'"', "a string")?;
    loop {
        match bytes.get(position) {
            Some(b'"') => return Ok(position + 1),
            Some(b'\\') => position += 2,
            Some(_) => position += 1,
            None => return Err(FrameError { offset: position, expected: "the end of a string" }),
        }
    }
}

/// Finds the end of a value by counting brackets outside strings; what is inside is the extractor's to judge.
fn skip_value(bytes: &[u8], start: usize) -> Result<usize, FrameError> {
    let mut depth = 0usize;
    let mut position = start;
    loop {
        match bytes.get(position) {
            Some(b'"') => position = skip_string(bytes, position)?,
            Some(b'{' | b'[') => {
                depth += 1;
                position += 1;
                continue;
            }
            Some(b'}' | b']') if depth > 0 => {
                depth -= 1;
                position += 1;
            }
            Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n') if depth == 0 => {
                return Err(FrameError { offset: position, expected: "a value" });
            }
            Some(b',' | b':' | b' ' | b'\t' | b'\r' | b'\n') => {
                position += 1;
                continue;
            }
            Some(_) => {
                while bytes.get(position).is_some_and(|byte| !b",:{}[]\" \t\r\n".contains(byte)) {
                    position += 1;
                }
            }
            None => return Err(FrameError { offset: position, expected: "the end of a value" }),
        }
        if depth == 0 {
            return Ok(position);
        }
    }
}

/// The text of a JSON string; `None` for any other value.
fn string(bytes: &[u8]) -> Option<String> {
    serde_json::from_slice(bytes).ok()
}

/// metadata.resourceVersion of a bookmark and whether it marks the end of the initial events.
///
/// # Errors
/// [`FrameError`] when there is no version.
pub fn bookmark(object: &Bytes) -> Result<(Version, bool), FrameError> {
    let mut version = None;
    let mut ends_initial_events = false;
    for_each_member(object, |key, value| {
        if key == b"\"metadata\"" {
            // A bookmark is small; a plain decode is clearer than another splitter.
            let metadata: serde_json::Value = serde_json::from_slice(&object[value]).unwrap_or_default();
            version = metadata["resourceVersion"].as_str().and_then(Version::parse);
            ends_initial_events = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
        }
    })?;
    let version = version.ok_or(FrameError { offset: 0, expected: "metadata.resourceVersion, a number" })?;
    Ok((version, ends_initial_events))
}

/// Collects a stream of chunks into lines.
#[derive(Debug, Default)]
pub struct Lines {
    pending: bytes::BytesMut,
    /// How much of `pending` is known to hold no line end.
    searched: usize,
}

impl Lines {
    /// Adds a chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.pending.extend_from_slice(chunk);
    }

    /// The next whole line, without its end; empty lines are passed over.
    pub fn next_line(&mut self) -> Option<Bytes> {
        loop {
            let Some(found) = self.pending[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.pending.len();
                return None;
            };
            let mut line = self.pending.split_to(self.searched + found + 1);
            self.searched = 0;
            line.truncate(line.len() - 1);
            if !line.is_empty() {
                return Some(line.freeze());
            }
        }
    }

    /// How many bytes wait for their line end.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}
