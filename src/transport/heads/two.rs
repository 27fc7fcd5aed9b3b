//! Decodes the header blocks of HTTP/2 requests, changes those that hyper would not accept, and encodes them again.
//!
//! h2 resets a stream whose path `http::Uri` rejects, before any code of this server runs. Every block of a
//! connection is encoded again, because the dynamic table of the client's encoder is known here and not in h2. All
//! other frames are passed on unchanged. Invalid frames are passed to h2 too, which responds with the right error. If
//! that is not possible, the connection ends ([`FrameAction::Broken`]).
//!
//! Trailers are decoded and not passed on. No handler reads them, and no rule of the API server depends on them. h2
//! would store them until their stream ends, which takes hours for a watch, even after the request is dropped.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::bounds::{MOST_FIELDS, MOST_HEAD, TakeShare, USUAL_HEAD, memory_of_head};
use super::hpack;
use super::hpack::{Broken, Decoder, Skipped};
use super::slots::{SLOT_HEADER, Slots, StoredParts};
use super::target::Target;
use crate::flow_control::connections::LONG_HEAD;
use crate::flow_control::user::UserShare;
use crate::transport::head_error::HeadError;

/// The length of the header of a frame, in bytes.
const FRAME_HEAD: usize = 9;

/// The longest payload of a frame, in bytes, for a server that announces no other maximum.
const MOST_PAYLOAD: usize = 16 << 10;

/// Fields up to this many bytes in total are passed on in the block. A block can be much shorter than its decoded
/// fields.
const USUAL_LIST: usize = 16 << 10;

/// The maximum number of frames of one block. Without it, a client could send empty ones without an end.
const MOST_FRAMES: usize = 1024;

// Types and flags of frames (RFC 9113, 6).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// A frame for which h2 ends the connection: a CONTINUATION without HEADERS before it.
pub(super) const BROKEN: [u8; FRAME_HEAD] = [0, 0, 0, CONTINUATION, END_HEADERS, 0, 0, 0, 1];

/// The pseudo-headers, which replace the first line of a request.
const PSEUDO: [&[u8]; 5] = [b":method", b":scheme", b":authority", b":path", b":protocol"];

/// Headers about the connection, which h2 rejects.
const OF_CONNECTION: [&str; 5] = ["connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection"];

/// Headers that h2 and hyper read themselves.
const READ_BY_HYPER: [&[u8]; 3] = [b"content-length", b"expect", b"te"];

/// How the bytes that were read are passed on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameAction {
    /// More bytes must be read first.
    More,
    /// This many bytes are passed on unchanged.
    Pass(usize),
    /// This many bytes are replaced by these.
    Instead(usize, Vec<u8>),
    /// The connection must end.
    Broken,
}

/// The state of the frames of one connection.
#[derive(Debug, Default)]
pub(super) struct Frames {
    decoder: Decoder,
    /// The header block that is incomplete.
    block: Option<Block>,
    /// The highest number of a stream with a header block. A later block of this stream, or of one before it, has
    /// trailers, because the numbers of new streams increase (RFC 9113, 5.1.1).
    newest: [u8; 4],
}

/// A header block that is being read.
#[derive(Debug)]
struct Block {
    /// The number of the stream.
    stream: [u8; 4],
    /// Whether the request has no body.
    ends_stream: bool,
    /// The payload of all frames so far; empty if the fields are not stored.
    bytes: Vec<u8>,
    /// The length of the payload of all frames so far.
    length: usize,
    /// The number of frames so far.
    frames: usize,
    /// The share of a long block's memory.
    share: Option<UserShare>,
    /// Set if the fields of the block are not stored.
    unstored: Option<UnstoredBlock>,
}

/// The state of a block whose fields are not stored: trailers, or a request that is rejected because of a limit. It is
/// still decoded, because the connection continues: it can carry requests of other users.
#[derive(Debug, Default)]
struct UnstoredBlock {
    skipped: Skipped,
    /// Why the request is rejected; `None` for trailers.
    failure: Option<HeadError>,
    /// Whether the block has a pseudo-header.
    has_pseudo: bool,
    /// Whether the method is HEAD.
    is_head: bool,
}

impl UnstoredBlock {
    /// Decodes a part of the block without storing its fields.
    fn skip(&mut self, decoder: &mut Decoder, part: &[u8]) -> Result<(), Broken> {
        decoder.skip(&mut self.skipped, part, |name, value| {
            self.has_pseudo |= name.starts_with(b":");
            self.is_head |= name == b":method" && value == b"HEAD";
        })
    }

    /// The header block that h2 gets instead. An error about a request is stored in one of the `slots`.
    fn convert(self, slots: &Slots) -> Vec<u8> {
        match (self.failure, self.has_pseudo) {
            (Some(failure), true) => rejected_block(failure, self.is_head, slots),
            (None, false) => Vec::new(),
            // A request has pseudo-headers, and trailers have none (RFC 9113, 8.1 and 8.3).
            (Some(_), false) | (None, true) => malformed_block(),
        }
    }
}

/// The fields of a block: pseudo-headers and headers.
#[derive(Debug, Default)]
struct Fields {
    /// The pseudo-headers that the block has: one bit for each entry of [`PSEUDO`].
    pseudo: u8,
    /// Whether the block has a header that is not a pseudo-header.
    has_regular: bool,
    /// Whether a pseudo-header is unknown, repeated, or after a header. The stream is then reset, as with Go's server.
    is_malformed: bool,
    /// The names and values of all fields.
    text: Vec<u8>,
    /// For each field, its position in `text`, and the lengths of its name and value.
    places: Vec<(usize, usize, usize)>,
    /// The size as for SETTINGS_MAX_HEADER_LIST_SIZE.
    size: usize,
    /// Whether the fields exceed [`MOST_HEAD`] or [`MOST_FIELDS`]. Further fields are not stored.
    is_over: bool,
}

impl Fields {
    /// Adds a field. Omits the header for slots, which clients cannot send.
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if name.starts_with(b":") {
            let bit = PSEUDO.iter().position(|pseudo| *pseudo == name).map_or(0, |place| 1 << place);
            self.is_malformed |= bit == 0 || self.has_regular || self.pseudo & bit != 0;
            self.pseudo |= bit;
        } else {
            self.has_regular = true;
        }
        // Each field counts 32 bytes more (RFC 9113, 6.5.2).
        self.size = self.size.saturating_add(name.len() + value.len() + 32);
        if self.size > MOST_HEAD || self.places.len() >= MOST_FIELDS {
            self.is_over = true;
        } else if name != SLOT_HEADER.as_bytes() {
            self.places.push((self.text.len(), name.len(), value.len()));
            self.text.extend_from_slice(name);
            self.text.extend_from_slice(value);
        }
    }

    /// The names and values of the fields.
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places.iter().map(|(begin, name, value)| self.text[*begin..begin + name + value].split_at(*name))
    }

    /// Whether the method is HEAD.
    fn is_head(&self) -> bool {
        self.iter().any(|(name, value)| name == b":method" && value == b"HEAD")
    }

    /// The headers, without pseudo-headers.
    ///
    /// # Errors
    /// A header is invalid, or not allowed in HTTP/2.
    fn headers(&self) -> Result<HeaderMap, HeadError> {
        let bad = |message: &str| HeadError::Malformed(message.to_owned());
        let mut map = HeaderMap::with_capacity(self.places.len());
        for (name, value) in self.iter().filter(|(name, _)| !name.starts_with(b":")) {
            let name =
                HeaderName::from_lowercase(name).map_err(|_| bad("the request has a header with an invalid name"))?;
            let value =
                HeaderValue::from_bytes(value).map_err(|_| bad("the value of a header has a control character"))?;
            if OF_CONNECTION.contains(&name.as_str()) {
                return Err(bad(&format!("HTTP/2 has no header {name}: remove it")));
            }
            map.try_append(name, value).map_err(|_| too_long())?;
        }
        Ok(map)
    }
}

/// The error for a head that exceeds [`MOST_HEAD`] or [`MOST_FIELDS`].
fn too_long() -> HeadError {
    let message = format!(
        "the URL and the headers of the request have more than {MOST_HEAD} bytes or {MOST_FIELDS} headers: send less"
    );
    HeadError::Unsupported(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message)
}

impl Frames {
    /// Whether a header block is incomplete.
    pub(super) fn is_within_block(&self) -> bool {
        self.block.is_some()
    }

    /// Processes the first frame in `held`, the bytes that were read. Stores parts of requests in `slots`; `share`
    /// takes the share of a long head.
    pub(super) fn step(&mut self, held: &[u8], slots: &Slots, share: TakeShare<'_>) -> FrameAction {
        let Some(([length @ .., kind, flags, s0, s1, s2, s3], rest)) = held.split_first_chunk::<FRAME_HEAD>() else {
            return FrameAction::More;
        };
        let length = length.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
        let stream = [s0 & 0x7f, *s1, *s2, *s3];
        match (*kind, &self.block) {
            (HEADERS, None) | (CONTINUATION, Some(_)) if length <= MOST_PAYLOAD => {}
            // A frame without headers, or an invalid one, to which h2 responds.
            (_, None) => return FrameAction::Pass(FRAME_HEAD + length),
            // Only the rest of the block may follow (RFC 9113, 6.10).
            (_, Some(_)) => return FrameAction::Broken,
        }
        let Some(mut payload) = rest.get(..length) else { return FrameAction::More };
        if *kind == HEADERS {
            match without_padding(payload, *flags) {
                Some(fragment) => payload = fragment,
                // h2 responds to padding that is longer than the frame.
                None => return FrameAction::Pass(FRAME_HEAD + length),
            }
        }
        let ends_stream = flags & END_STREAM != 0;
        let newest = &mut self.newest;
        let block = self.block.get_or_insert_with(|| {
            let is_trailers = stream <= *newest;
            *newest = stream.max(*newest);
            Block {
                stream,
                ends_stream,
                bytes: Vec::new(),
                length: 0,
                frames: 0,
                share: None,
                unstored: is_trailers.then(UnstoredBlock::default),
            }
        });
        block.length += payload.len();
        block.frames += 1;
        if block.stream != stream || block.frames > MOST_FRAMES || block.length > MOST_HEAD {
            return FrameAction::Broken;
        }
        match &mut block.unstored {
            None => block.bytes.extend_from_slice(payload),
            Some(unstored) => {
                if unstored.skip(&mut self.decoder, payload).is_err() {
                    return FrameAction::Broken;
                }
            }
        }
        if block.bytes.len() > USUAL_HEAD && block.share.is_none() {
            match share(LONG_HEAD) {
                Ok(share) => block.share = Some(share),
                Err(failure) => {
                    let mut unstored = UnstoredBlock { failure: Some(failure), ..UnstoredBlock::default() };
                    // The dynamic table needs this block to decode the next one.
                    if unstored.skip(&mut self.decoder, &std::mem::take(&mut block.bytes)).is_err() {
                        return FrameAction::Broken;
                    }
                    block.unstored = Some(unstored);
                }
            }
        }
        if flags & END_HEADERS == 0 {
            // Nothing is passed on before the block is complete.
            return FrameAction::Instead(FRAME_HEAD + length, Vec::new());
        }
        match self.block.take().and_then(|block| self.convert(block, slots, share)) {
            Some(frames) => FrameAction::Instead(FRAME_HEAD + length, frames),
            None => FrameAction::Broken,
        }
    }

    /// The frames that replace a complete block; `None` if it cannot be decoded. A request that is rejected becomes a
    /// short one, with the error in one of the `slots`. For malformed fields, the frames make h2 reset the stream.
    fn convert(&mut self, block: Block, slots: &Slots, share: TakeShare<'_>) -> Option<Vec<u8>> {
        if let Some(unstored) = block.unstored {
            return unstored
                .skipped
                .is_complete()
                .then(|| encode_frames(&unstored.convert(slots), block.stream, block.ends_stream));
        }
        let mut fields = Fields::default();
        self.decoder.decode(&block.bytes, |name, value| fields.add(name, value)).ok()?;
        // `request_block` takes a share of the actual memory instead.
        drop(block.share);
        let written = if fields.is_malformed || fields.pseudo == 0 {
            malformed_block()
        } else {
            request_block(&fields, slots, share)
                .unwrap_or_else(|failure| rejected_block(failure, fields.is_head(), slots))
        };
        Some(encode_frames(&written, block.stream, block.ends_stream))
    }
}

/// The part of a header block in the payload of a HEADERS frame, without padding and priority. `None`: the payload is
/// shorter than its padding.
fn without_padding(mut payload: &[u8], flags: u8) -> Option<&[u8]> {
    let mut padding = 0;
    if flags & PADDED != 0 {
        let (first, rest) = payload.split_first()?;
        (padding, payload) = (usize::from(*first), rest);
    }
    if flags & PRIORITY != 0 {
        payload = payload.get(5..)?;
    }
    payload.get(..payload.len().checked_sub(padding)?)
}

/// A block that hyper accepts, for a request with these fields. If it cannot have all of them, the others are stored in
/// one of the `slots`, and `share` takes the share of their memory.
///
/// # Errors
/// The request is rejected.
fn request_block(fields: &Fields, slots: &Slots, share: TakeShare<'_>) -> Result<Vec<u8>, HeadError> {
    if fields.is_over {
        return Err(too_long());
    }
    let has_many = fields.text.len() > USUAL_LIST;
    let path = fields.iter().find(|(name, _)| *name == b":path").map(|(_, path)| path);
    let path = path.map(|path| std::str::from_utf8(path).map_err(|_| super::target::not_a_url())).transpose()?;
    // A path that is missing or empty is left to h2.
    let target = path.filter(|path| !path.is_empty()).map(|path| Target::read(path, has_many)).transpose()?;
    let query = target.as_ref().and_then(|target| target.query.as_deref());
    let number = if query.is_some() || has_many {
        let headers = if has_many { Some(fields.headers()?) } else { None };
        let share = share(memory_of_head(fields.text.len(), fields.places.len()))?;
        Some(slots.store(StoredParts { query: query.map(Into::into), headers, rejection: None, share: Some(share) }))
    } else {
        None
    };
    let mut written = Vec::with_capacity(fields.text.len().min(USUAL_LIST) + 4 * fields.places.len() + 64);
    for (name, value) in fields.iter() {
        match (&target, name) {
            (Some(target), b":path") => hpack::write(&mut written, name, target.text.as_bytes()),
            _ if !has_many || name.starts_with(b":") || READ_BY_HYPER.contains(&name) => {
                hpack::write(&mut written, name, value);
            }
            _ => {}
        }
    }
    if let Some(number) = number {
        hpack::write(&mut written, SLOT_HEADER.as_bytes(), number.to_string().as_bytes());
    }
    Ok(written)
}

/// The block for a request that is rejected, with the error in a slot. `is_head`: the method is HEAD.
fn rejected_block(failure: HeadError, is_head: bool, slots: &Slots) -> Vec<u8> {
    let number = slots.store(StoredParts::rejected(failure)).to_string();
    let method = if is_head { "HEAD" } else { "GET" };
    encode_block(&[
        (":method", method),
        (":scheme", "http"),
        (":authority", "rejected"),
        (":path", "/"),
        (SLOT_HEADER, &number),
    ])
}

/// A block for which h2 resets the stream with PROTOCOL_ERROR: it has a pseudo-header after a header.
fn malformed_block() -> Vec<u8> {
    encode_block(&[("malformed", ""), (":method", "GET")])
}

/// Encodes these fields as a header block.
fn encode_block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut written = Vec::new();
    fields.iter().for_each(|(name, value)| hpack::write(&mut written, name.as_bytes(), value.as_bytes()));
    written
}

/// Splits a header block into a HEADERS frame and CONTINUATION frames.
fn encode_frames(block: &[u8], stream: [u8; 4], ends_stream: bool) -> Vec<u8> {
    let mut written = Vec::with_capacity(block.len() + FRAME_HEAD * (1 + block.len() / MOST_PAYLOAD));
    let mut rest = block;
    loop {
        let (part, after) = rest.split_at(rest.len().min(MOST_PAYLOAD));
        let is_first = written.is_empty();
        let kind = if is_first { HEADERS } else { CONTINUATION };
        let flags =
            if is_first && ends_stream { END_STREAM } else { 0 } | if after.is_empty() { END_HEADERS } else { 0 };
        written.extend_from_slice(&(part.len() as u32).to_be_bytes()[1..]);
        written.extend_from_slice(&[kind, flags]);
        written.extend_from_slice(&stream);
        written.extend_from_slice(part);
        rest = after;
        if rest.is_empty() {
            return written;
        }
    }
}
