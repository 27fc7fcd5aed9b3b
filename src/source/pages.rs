//! Splits a page of a list into its items while it arrives. It stores one item at a time, and everything that is no
//! item.
//!
//! The source chooses the length of its response. So every part has a bound: an item, the white space before it, and
//! the rest of the list. The walk only counts brackets and strings. The extractor validates items; the rest is read
//! when the list is complete.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::unfinished::{UnfinishedBudget, UnfinishedShare};
use super::watch_decoder::{self, FrameError};
use crate::model::Version;

/// The largest item; etcd rejects far smaller objects.
pub(super) const MAX_ITEM_BYTES: usize = 16 << 20;

/// The largest rest of a list: its kind and metadata. Also the most white space between two items.
const MAX_REST_BYTES: usize = 1 << 20;

/// Why bytes are not a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PageError {
    /// The bytes are not a list.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A part is longer than its bound.
    #[error("{part} is longer than {most} bytes")]
    TooLong {
        /// The part.
        part: &'static str,
        /// Its bound.
        most: usize,
    },
    /// The memory budget for unfinished items is exhausted.
    #[error("the memory for long items of lists is exhausted now")]
    NoRoom,
}

/// The end of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageEnd {
    /// metadata.resourceVersion.
    pub(super) version: Version,
    /// metadata.continue; empty on the last page.
    pub(super) next: String,
    /// metadata.remainingItemCount; `None` where the list does not have it.
    pub(super) remaining: Option<u64>,
}

/// The position of the reader in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Outside of the list's items.
    #[default]
    Around,
    /// In front of an item, a comma or the end of the items.
    Between,
    /// Inside of an item.
    Inside,
}

/// A page of a list that arrives in chunks.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// What is left of the newest chunk.
    chunk: Bytes,
    /// The number of bytes that are consumed.
    consumed: usize,
    place: Place,
    /// The list without its items.
    rest: Vec<u8>,
    /// The start of the last string in `rest`, and its end once it is closed.
    last: (usize, usize),
    has_items: bool,
    /// Whether an item was read that no comma follows yet.
    needs_comma: bool,
    /// Whether a comma was read that no item follows yet.
    needs_item: bool,
    /// Bytes of white space since the last item.
    gap: usize,
    /// The beginning of an item that continues in the next chunk.
    begun: BytesMut,
    /// Its share of the memory budget for unfinished objects.
    share: UnfinishedShare,
    /// Open brackets of the part that is being read: the rest, or an item.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Page {
    /// A page for one of several readers, which share a memory budget for long items.
    pub(super) fn with_budget(budget: &Arc<UnfinishedBudget>) -> Page {
        Page { share: UnfinishedShare::new(budget), ..Page::default() }
    }

    /// Adds a chunk. All items of the previous one must have been taken.
    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunk = if self.chunk.is_empty() { chunk } else { Bytes::from([&*self.chunk, &*chunk].concat()) };
    }

    /// The next complete item: a slice of the chunk, or a copy if it was split. `None` when the chunk is used up.
    ///
    /// # Errors
    /// [`PageError`]; no item can be taken afterwards.
    pub(super) fn next_item(&mut self) -> Result<Option<Bytes>, PageError> {
        while !self.chunk.is_empty() {
            match self.place {
                Place::Around => self.read_around()?,
                Place::Between => self.read_between()?,
                Place::Inside => {
                    if let Some(item) = self.read_item()? {
                        return Ok(Some(item));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Reads the rest after the items, now that the response is complete.
    ///
    /// # Errors
    /// [`PageError`] if it is not a complete list.
    pub(super) fn finish(self) -> Result<PageEnd, PageError> {
        if self.place != Place::Around || self.depth != 0 {
            return Err(self.misplaced("the rest of the list"));
        }
        let page = watch_decoder::list_page(&Bytes::from(self.rest))?;
        // `rest` has none of the items that were read, so these come from a second list `items`.
        if !page.items.is_empty() {
            return Err(FrameError { offset: 0, expected: "items only once" }.into());
        }
        Ok(PageEnd { version: page.version, next: page.next, remaining: page.remaining })
    }

    /// The error for unexpected bytes at the current position.
    fn misplaced(&self, expected: &'static str) -> PageError {
        FrameError { offset: self.consumed, expected }.into()
    }

    /// Removes the first bytes of the chunk, and returns them.
    fn consume(&mut self, length: usize) -> Bytes {
        self.consumed += length;
        self.chunk.split_to(length)
    }

    /// Reads one byte of a string; true if the string ends with it.
    fn walk_string(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
        !self.in_string
    }

    /// Reads what surrounds the items, up to the first item or the end of the chunk.
    fn read_around(&mut self) -> Result<(), PageError> {
        let mut length = 0;
        while let Some(&byte) = self.chunk.get(length) {
            length += 1;
            self.rest.push(byte);
            if self.in_string {
                if self.walk_string(byte) {
                    self.last.1 = self.rest.len() - 1;
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.last = (self.rest.len(), self.rest.len());
                }
                // The list `items` of the outermost object.
                b'[' if self.depth == 1 && !self.has_items && &self.rest[self.last.0..self.last.1] == b"items" => {
                    self.has_items = true;
                    self.place = Place::Between;
                    break;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    let Some(depth) = self.depth.checked_sub(1) else {
                        return Err(self.misplaced("the end of the list"));
                    };
                    self.depth = depth;
                }
                _ => {}
            }
        }
        self.consume(length);
        if self.rest.len() > MAX_REST_BYTES {
            return Err(PageError::TooLong { part: "the part of the list outside of its items", most: MAX_REST_BYTES });
        }
        Ok(())
    }

    /// Reads one byte between two items. Changes the place if an item begins there, or the items end.
    fn read_between(&mut self) -> Result<(), PageError> {
        let Some(&byte) = self.chunk.first() else { return Ok(()) };
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                self.gap += 1;
                if self.gap > MAX_REST_BYTES {
                    return Err(PageError::TooLong { part: "white space between items", most: MAX_REST_BYTES });
                }
            }
            b',' if self.needs_comma => (self.needs_comma, self.needs_item) = (false, true),
            b']' if !self.needs_item => {
                self.rest.push(byte);
                self.place = Place::Around;
            }
            b',' | b']' => return Err(self.misplaced("an item")),
            _ if self.needs_comma => return Err(self.misplaced("a comma or the end of the items")),
            _ => {
                self.place = Place::Inside;
                (self.depth, self.gap) = (0, 0);
                return Ok(());
            }
        }
        self.consume(1);
        Ok(())
    }

    /// Reads an item; `None` if it continues in the next chunk.
    fn read_item(&mut self) -> Result<Option<Bytes>, PageError> {
        let mut length = 0;
        let mut is_complete = false;
        while let Some(&byte) = self.chunk.get(length) {
            if self.in_string {
                // Strings are most of an object.
                let left = &self.chunk[length..];
                let plain = memchr::memchr2(b'"', b'\\', left).unwrap_or(left.len());
                if plain > 0 && !self.is_escaped {
                    length += plain;
                    continue;
                }
                length += 1;
                is_complete = self.walk_string(byte) && self.depth == 0;
            } else {
                // A number or a word ends in front of what follows it.
                if self.depth == 0 && matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n') {
                    break;
                }
                length += 1;
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth -= 1;
                        is_complete = self.depth == 0;
                    }
                    _ => {}
                }
            }
            if is_complete {
                break;
            }
        }
        // A number or a word is complete if something follows it.
        is_complete |= length < self.chunk.len();
        if self.begun.len() + length > MAX_ITEM_BYTES {
            return Err(PageError::TooLong { part: "an item of a list", most: MAX_ITEM_BYTES });
        }
        let part = self.consume(length);
        if !is_complete {
            self.begun.extend_from_slice(&part);
            return if self.share.hold(self.begun.capacity()) { Ok(None) } else { Err(PageError::NoRoom) };
        }
        // Depth 1 is inside of the outermost object: the bracket of its items is not counted.
        (self.place, self.depth) = (Place::Between, 1);
        (self.needs_comma, self.needs_item) = (true, false);
        if self.begun.is_empty() {
            // A bracket that closes nothing.
            return if part.is_empty() { Err(self.misplaced("an item")) } else { Ok(Some(part)) };
        }
        self.begun.extend_from_slice(&part);
        self.share.hold(0);
        Ok(Some(std::mem::take(&mut self.begun).freeze()))
    }
}
