//! Bytes on the wire: JSON as Go writes it, objects spliced into lists and events without being read again.
//!
//! The bytes of an object are the source's. What surrounds them is written here, with Go's escapes (`<`, `>`, `&`,
//! U+2028, U+2029 as `\u....`, apimachinery's encoder) because clients in other languages rely on them. A list is an
//! iterator of chunks, created when the connection can take one. An item that is longer than a chunk is written in
//! parts where possible. Indentation is in `indent`, YAML in `yaml`, columns are in `table`.

use std::ops::Range;

use bytes::Bytes;

use crate::flow_control::long_work::may_read;
pub use crate::json::{json_bytes, write_string, write_value};
use crate::model::Version;
use crate::registry::{Resource, ResourceOrigin};
use crate::store::Object;

/// Size of a chunk of a streamed response, in bytes. It is large enough that the cost per chunk vanishes, and small
/// enough that thousands of slow readers hold little.
pub const CHUNK: usize = 64 * 1024;

/// What a list envelope usually takes on either side, in bytes; with room for a whole empty list.
const ENVELOPE: usize = 256;

/// An object with the version that a response shows: its own, or that of the change that removed it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The object.
    pub object: &'a Object,
    /// The version to show.
    pub version: Version,
}

impl<'a> Shown<'a> {
    /// An object that is shown unchanged.
    pub fn as_is(object: &'a Object) -> Shown<'a> {
        Shown { object, version: object.version() }
    }

    /// Writes an item of a list: the bytes of the source.
    pub fn write_item(self, out: &mut Vec<u8>) {
        if self.version == self.object.version() {
            self.object.write_json(out);
        } else {
            self.write_range(&self.object.json(), 0..self.object.length(), out);
        }
    }

    /// Writes a single object, or one in an event: built-in kinds get kind and apiVersion in front.
    pub fn write_single(self, resource: &Resource, out: &mut Vec<u8>) {
        match resource.origin {
            ResourceOrigin::Custom => self.write_typed(None, out),
            ResourceOrigin::BuiltIn => self.write_typed(Some((&resource.kind, &resource.gvr.api_version())), out),
        }
    }

    /// Writes the object, with kind and apiVersion in front if they are given.
    pub fn write_typed(self, of: Option<(&str, &str)>, out: &mut Vec<u8>) {
        match of {
            None => self.write_item(out),
            Some((kind, api_version)) => {
                write_type(kind, api_version, out);
                // An object is never `{}`: it has metadata at least. Its brace becomes the comma.
                let brace = out.len();
                self.write_item(out);
                out[brace] = b',';
            }
        }
    }

    /// Writes the object as meta.k8s.io PartialObjectMetadata.
    pub fn write_partial(self, api_version: &str, out: &mut Vec<u8>) {
        self.write_partial_of(&self.object.json(), api_version, out);
    }

    /// Like [`Shown::write_partial`], from the object's bytes, for callers that have read them already.
    pub fn write_partial_of(self, json: &[u8], api_version: &str, out: &mut Vec<u8>) {
        write_type("PartialObjectMetadata", api_version, out);
        out.extend_from_slice(b",\"metadata\":");
        self.write_range(json, self.object.metadata_span(), out);
        out.push(b'}');
    }

    /// A part of the object that contains its version, with the version to show.
    fn write_range(self, json: &[u8], range: Range<usize>, out: &mut Vec<u8>) {
        let span = self.object.version_span();
        out.extend_from_slice(&json[range.start..span.start]);
        out.extend_from_slice(self.version.to_string().as_bytes());
        out.extend_from_slice(&json[span.end..range.end]);
    }
}

/// Writes `{"kind":K,"apiVersion":V`, to be continued.
pub fn write_type(kind: &str, api_version: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":");
    write_string(kind, out);
    out.extend_from_slice(b",\"apiVersion\":");
    write_string(api_version, out);
}

/// metadata of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMeta {
    /// The version that the list shows.
    pub version: Version,
    /// Token of the next page; empty on the last one.
    pub continue_token: String,
    /// The number of objects after this page, if it is reported.
    pub remaining: Option<u64>,
}

impl ListMeta {
    /// Writes the members in the order of the Go type, without empty ones.
    pub fn write_typed(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{");
        self.write_version(out);
        if !self.continue_token.is_empty() {
            out.extend_from_slice(b",\"continue\":");
            write_string(&self.continue_token, out);
        }
        self.write_remaining(out);
        out.push(b'}');
    }

    /// Writes the members in alphabetical order, as lists of custom resources have them; `continue` is written even
    /// when empty.
    pub fn write_untyped(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"continue\":");
        write_string(&self.continue_token, out);
        self.write_remaining(out);
        out.extend_from_slice(b",");
        self.write_version(out);
        out.extend_from_slice(b"}");
    }

    /// Writes the resourceVersion.
    fn write_version(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(self.version.number().to_string().as_bytes());
        out.extend_from_slice(b"\"");
    }

    /// Writes the remainingItemCount, if it is known.
    fn write_remaining(&self, out: &mut Vec<u8>) {
        if let Some(remaining) = self.remaining {
            out.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
        }
    }
}

/// What surrounds the items of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Before.
    pub head: Vec<u8>,
    /// After.
    pub tail: Vec<u8>,
}

impl Envelope {
    /// The envelope of an ordinary list.
    pub fn of_list(resource: &Resource, meta: &ListMeta) -> Envelope {
        let api_version = resource.gvr.api_version();
        match resource.origin {
            ResourceOrigin::Custom => {
                let mut head = Vec::with_capacity(ENVELOPE);
                head.extend_from_slice(b"{\"apiVersion\":");
                write_string(&api_version, &mut head);
                head.extend_from_slice(b",\"items\":[");
                let mut tail = Vec::with_capacity(ENVELOPE);
                tail.extend_from_slice(b"],\"kind\":");
                write_string(&resource.list_kind, &mut tail);
                tail.extend_from_slice(b",\"metadata\":");
                meta.write_untyped(&mut tail);
                tail.extend_from_slice(b"}\n");
                Envelope { head, tail }
            }
            ResourceOrigin::BuiltIn => Envelope::typed(&resource.list_kind, &api_version, meta),
        }
    }

    /// The envelope of a list of a Go type: kind, apiVersion, metadata, items.
    pub fn typed(kind: &str, api_version: &str, meta: &ListMeta) -> Envelope {
        let mut head = Vec::with_capacity(ENVELOPE);
        write_type(kind, api_version, &mut head);
        head.extend_from_slice(b",\"metadata\":");
        meta.write_typed(&mut head);
        head.extend_from_slice(b",\"items\":[");
        Envelope { head, tail: b"]}\n".to_vec() }
    }
}

/// A text that is written in parts.
pub trait Unfinished: Send {
    /// Writes what comes next, until `out` has `most` bytes or a bounded amount of work is done; true at the end. `out` becomes longer
    /// than `most` by [`LONG`] bytes of the source in JSON, by one line in YAML.
    fn fill(&mut self, most: usize, out: &mut Vec<u8>) -> bool;
}

/// What is left of an item that does not fit its chunk.
pub type Left = Option<Box<dyn Unfinished>>;

/// Begins a text in a chunk.
pub fn begin(mut text: impl Unfinished + 'static, out: &mut Vec<u8>) -> Left {
    if text.fill(CHUNK, out) { None } else { Some(Box::new(text)) }
}

/// What is longer is written through a buffer of its own, in parts.
pub const LONG: usize = CHUNK / 8;

/// The maximum bytes of objects that are read for one chunk. A chunk that shows little of each object would otherwise
/// take long.
pub const MOST_READ: usize = 1 << 20;

/// Makes of an object what is shown of it; `None` where nothing can be.
pub type Show = Box<dyn Fn(Object) -> Option<Object> + Send>;

/// Chunks of a response: a head, items one by one, a tail. Nothing is created before it is requested. An empty chunk
/// means that enough has been done for one turn.
pub struct Chunks<Items, Write> {
    pending: Vec<u8>,
    items: Items,
    /// The next item, if it is too long for the turn in which it was found.
    next: Option<Object>,
    show: Show,
    write: Write,
    separator: &'static [u8],
    is_first: bool,
    /// The item that is being written.
    left: Left,
    tail: Option<Vec<u8>>,
}

impl<Items, Write> Chunks<Items, Write>
where
    Items: Iterator<Item = Object>,
    Write: FnMut(Object, &mut Vec<u8>) -> Left,
{
    /// What is shown of items in an envelope, with a separator in between.
    pub fn new(
        envelope: Envelope,
        items: Items,
        show: Show,
        separator: &'static [u8],
        write: Write,
    ) -> Chunks<Items, Write> {
        let Envelope { head, tail } = envelope;
        Chunks {
            pending: head,
            items,
            next: None,
            show,
            write,
            separator,
            is_first: true,
            left: None,
            tail: Some(tail),
        }
    }
}

impl<Items, Write> Iterator for Chunks<Items, Write>
where
    Items: Iterator<Item = Object>,
    Write: FnMut(Object, &mut Vec<u8>) -> Left,
{
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.pending.len() > CHUNK {
            return Some(self.pending.drain(..CHUNK).collect());
        }
        let mut chunk = std::mem::take(&mut self.pending);
        if let Some(left) = &mut self.left {
            if !left.fill(CHUNK, &mut chunk) {
                return Some(Bytes::from(chunk));
            }
            self.left = None;
        }
        let (mut items, mut read) = (0, 0);
        while chunk.len() < CHUNK && read < MOST_READ && self.left.is_none() && self.tail.is_some() {
            match self.next.take().or_else(|| self.items.next()) {
                Some(item) if !may_read(item.length()) => {
                    self.next = Some(item);
                    break;
                }
                Some(item) => {
                    // All of it is read, however little is shown.
                    read += item.length();
                    let Some(item) = (self.show)(item) else { continue };
                    items += 1;
                    if items == 2 {
                        // One allocation, whatever follows; with room for the item that goes over the size.
                        chunk.reserve(CHUNK + CHUNK / 8);
                    }
                    if !std::mem::take(&mut self.is_first) {
                        chunk.extend_from_slice(self.separator);
                    }
                    self.left = (self.write)(item, &mut chunk);
                }
                None => chunk.extend_from_slice(&self.tail.take().unwrap_or_default()),
            }
        }
        if chunk.len() < CHUNK && self.left.is_none() && self.tail.is_some() {
            // Where a chunk ends must not say how much was read that is not shown.
            self.pending = chunk;
            return Some(Bytes::new());
        }
        (!chunk.is_empty()).then(|| Bytes::from(chunk))
    }
}
