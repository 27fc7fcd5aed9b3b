//! Writes objects, lists and events as JSON. The stored bytes of objects are copied into them without being parsed.
//!
//! The bytes of an object are the source's. What surrounds them is written here, with Go's escapes (`<`, `>`, `&`,
//! U+2028, U+2029 as `\u....`, apimachinery's encoder) because clients in other languages rely on them. A list is an
//! iterator of chunks, created when the connection can take one. An item that is longer than a chunk is written in
//! parts where possible. Indentation is in `indent`, YAML in `yaml`, columns are in `table`.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::flow_control::long_work::{ObjectWork, WorkMeter, count_work, may_read};
pub use crate::json::{json_bytes, write_string, write_value};
use crate::model::Version;
use crate::registry::{Resource, ResourceOrigin};
use crate::selector::Shard;
use crate::store::Object;

/// Size of a chunk of a streamed response, in bytes. It is large enough that the cost per chunk is negligible, and
/// small enough that thousands of slow readers hold little.
pub const CHUNK: usize = 64 * 1024;

/// The bytes that are reserved for each of the two parts of a list envelope: more than most of them take.
const ENVELOPE: usize = 256;

/// An object with the version that a response shows: its own, or for a deleted object that of its deletion.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The object.
    pub object: &'a Object,
    /// The version to show.
    pub version: Version,
}

impl<'a> Shown<'a> {
    /// An object with its own version.
    pub fn as_is(object: &'a Object) -> Shown<'a> {
        Shown { object, version: object.version() }
    }

    /// Writes the object as an item of a list: the bytes of the source, with the version to show.
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

    /// Writes the object. `object_type`: the kind and the apiVersion to write in front; `None` if the stored bytes
    /// contain them.
    pub fn write_typed(self, object_type: Option<(&str, &str)>, out: &mut Vec<u8>) {
        match object_type {
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

    /// Writes the object as PartialObjectMetadata. `api_version`: such as `meta.k8s.io/v1`.
    pub fn write_partial(self, api_version: &str, out: &mut Vec<u8>) {
        self.write_partial_of(&self.object.json(), api_version, out);
    }

    /// Like [`Shown::write_partial`], for callers that have the object's bytes already: `json`.
    pub fn write_partial_of(self, json: &[u8], api_version: &str, out: &mut Vec<u8>) {
        write_type("PartialObjectMetadata", api_version, out);
        out.extend_from_slice(b",\"metadata\":");
        self.write_range(json, self.object.metadata_span(), out);
        out.push(b'}');
    }

    /// Writes a part of the object, with the version to show. `json`: the whole object; `range`: the part of it,
    /// which must contain the resourceVersion.
    fn write_range(self, json: &[u8], range: Range<usize>, out: &mut Vec<u8>) {
        let span = self.object.version_span();
        out.extend_from_slice(&json[range.start..span.start]);
        out.extend_from_slice(self.version.to_string().as_bytes());
        out.extend_from_slice(&json[span.end..range.end]);
    }
}

/// Writes `{"kind":K,"apiVersion":V`. The caller writes the other fields and the closing brace.
pub fn write_type(kind: &str, api_version: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":");
    write_string(kind, out);
    out.extend_from_slice(b",\"apiVersion\":");
    write_string(api_version, out);
}

/// The metadata of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the state that the list shows.
    pub version: Version,
    /// Token of the next page; empty on the last one.
    pub continue_token: String,
    /// The number of objects after this page; `None` if the list does not report it.
    pub remaining: Option<u64>,
    /// The shard that the list shows; `None` if the list shows all objects.
    pub shard: Option<Arc<Shard>>,
}

impl ListMeta {
    /// Writes the fields in the order of the Go type, without empty ones.
    pub fn write_typed(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{");
        self.write_version(out);
        if !self.continue_token.is_empty() {
            out.extend_from_slice(b",\"continue\":");
            write_string(&self.continue_token, out);
        }
        self.write_remaining(out);
        self.write_shard(out);
        out.push(b'}');
    }

    /// Writes the fields in alphabetical order, as in lists of custom resources, which have `continue` even when it is
    /// empty.
    pub fn write_untyped(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"continue\":");
        write_string(&self.continue_token, out);
        self.write_remaining(out);
        out.extend_from_slice(b",");
        self.write_version(out);
        self.write_shard(out);
        out.extend_from_slice(b"}");
    }

    /// Writes the field resourceVersion.
    fn write_version(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(self.version.number().to_string().as_bytes());
        out.extend_from_slice(b"\"");
    }

    /// Writes the field shardInfo, if the list shows a shard. It comes last in both orders.
    fn write_shard(&self, out: &mut Vec<u8>) {
        if let Some(shard) = &self.shard {
            out.extend_from_slice(b",\"shardInfo\":{\"selector\":");
            write_string(shard.text(), out);
            out.push(b'}');
        }
    }

    /// Writes the field remainingItemCount, if the list reports it.
    fn write_remaining(&self, out: &mut Vec<u8>) {
        if let Some(remaining) = self.remaining {
            out.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
        }
    }
}

/// The bytes of a list around its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The bytes before the first item.
    pub head: Vec<u8>,
    /// The bytes after the last item.
    pub tail: Vec<u8>,
}

impl Envelope {
    /// The envelope of a list of whole objects.
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

    /// The envelope of a list that has a Go type upstream: kind, apiVersion, metadata, items.
    pub fn typed(kind: &str, api_version: &str, meta: &ListMeta) -> Envelope {
        let mut head = Vec::with_capacity(ENVELOPE);
        write_type(kind, api_version, &mut head);
        head.extend_from_slice(b",\"metadata\":");
        meta.write_typed(&mut head);
        head.extend_from_slice(b",\"items\":[");
        Envelope { head, tail: b"]}\n".to_vec() }
    }
}

/// An item that is written in parts.
pub trait Unfinished: Send {
    /// Appends the next part. Stops when `out` has `target` bytes, or when a bounded amount of work is done. Returns
    /// whether the item is complete. `out` can exceed `target`, in JSON by [`LONG`] bytes of the source, and in YAML
    /// by one line.
    fn fill(&mut self, target: usize, out: &mut Vec<u8>) -> bool;
}

/// The rest of an item that did not fit into its chunk. `None`: the item is complete.
pub type Left = Option<Box<dyn Unfinished>>;

/// Writes the first part of an item to its chunk, and returns the rest of the item.
pub fn begin(mut item: impl Unfinished + 'static, out: &mut Vec<u8>) -> Left {
    if item.fill(CHUNK, out) { None } else { Some(Box::new(item)) }
}

/// Values longer than this many bytes are first written to a buffer, and then copied to the response in parts.
pub const LONG: usize = CHUNK / 8;

/// Converts a stored object to what the response shows of it, such as without the fields that a View prunes. `None`:
/// the conversion failed, and the response omits the object.
pub type Show = Box<dyn Fn(Object) -> Option<Object> + Send>;

/// The chunks of a response: an envelope with items in between. Nothing is created before it is requested. An empty
/// chunk ends a turn of work, and more chunks follow.
pub struct Chunks<Items, Write> {
    /// Bytes of the next chunk.
    pending: Vec<u8>,
    items: Items,
    /// The next item, if it is too long for the turn in which it was found.
    next: Option<Object>,
    show: Show,
    write: Write,
    separator: &'static [u8],
    /// Whether no item has been written.
    is_first: bool,
    /// The rest of the item that is being written.
    left: Left,
    /// The bytes after the last item; `None` once they are written.
    tail: Option<Vec<u8>>,
    /// The work of writing an item, as a multiple of the object's length.
    work: ObjectWork,
}

impl<Items, Write> Chunks<Items, Write>
where
    Items: Iterator<Item = Object>,
    Write: FnMut(Object, &mut Vec<u8>) -> Left,
{
    /// The chunks of `envelope` and of what `show` returns for each of the `items`, with `separator` between them.
    /// `write` appends an item to a chunk, and returns the rest of a long one.
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
            work: ObjectWork::Times(1),
        }
    }

    /// The same chunks, whose items take this multiple of the work of reading the object.
    #[must_use]
    pub fn with_work(self, work: ObjectWork) -> Chunks<Items, Write> {
        Chunks { work, ..self }
    }
}

impl<Items, Write> Iterator for Chunks<Items, Write>
where
    Items: Iterator<Item = Object>,
    Write: FnMut(Object, &mut Vec<u8>) -> Left,
{
    type Item = Bytes;

    /// Fills a chunk until it has [`CHUNK`] bytes, the work of a turn was done ([`WorkMeter`]), or the next object needs
    /// a long turn. `None` at the end.
    ///
    /// If a turn ends between two items, a chunk that is not full is kept for the next call, and an empty one is
    /// returned. If it ends within an item, the chunk is returned as it is: it contains only bytes of the envelope and
    /// of objects that are shown.
    fn next(&mut self) -> Option<Bytes> {
        // Only the head of a list can be longer than a chunk.
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
        let (mut items, meter) = (0, WorkMeter::start());
        while chunk.len() < CHUNK && !meter.is_over() && self.left.is_none() && self.tail.is_some() {
            match self.next.take().or_else(|| self.items.next()) {
                // This turn is too short for the object. The next one is a long turn.
                Some(item) if !may_read(self.work.bytes(item.length())) => {
                    self.next = Some(item);
                    break;
                }
                Some(item) => {
                    // The whole object is read, however little of it is shown.
                    count_work(item.length());
                    let Some(item) = (self.show)(item) else { continue };
                    items += 1;
                    if items == 2 {
                        // Reserves memory once: for the chunk, and for an item that exceeds its size.
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
            // The end of a chunk must not reveal how much was read that is not shown.
            self.pending = chunk;
            return Some(Bytes::new());
        }
        (!chunk.is_empty()).then(|| Bytes::from(chunk))
    }
}
