//! Divides the body of a watch into the messages of a WebSocket: one for each event, as kube-apiserver (apiserver
//! `endpoints/handlers/watch.go`, HandleWS).
//!
//! | events | message |
//! |---|---|
//! | lines of JSON | text: the line with its newline |
//! | protobuf | binary: the event without the length before it |
//!
//! A message is one frame if its event arrives at once, or is not longer than [`MOST_HELD`]. Only events that are
//! forwarded arrive in parts. [`crate::transport::websocket`] sends the frames.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use crate::transport::websocket::frame::{Opcode, push_head};

/// The maximum number of bytes of an incomplete event that are held back. No limit counts these bytes. A longer event
/// is sent in several frames, of which all but the last have at least this many bytes.
const MOST_HELD: usize = 64 << 10;

/// The maximum unused capacity of the returned frames, in bytes. Limits count the length of frames, not the capacity.
const MOST_UNUSED: usize = 8 << 10;

/// The length, in bytes, of the number before each event in protobuf: the big-endian length of the event.
const PREFIX: usize = 4;

/// Divides events into messages.
#[derive(Debug)]
pub(crate) struct EventMessages {
    format: EventFormat,
    /// The bytes of an incomplete event, or of an incomplete length before an event, that are held back.
    held: Vec<u8>,
    /// Whether a frame of the current message is sent already, so that its next frame is a continuation.
    is_continued: bool,
}

/// How events are separated in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventFormat {
    /// By newlines, in JSON.
    Lines,
    /// By the length before each event, in protobuf. `left` is the number of bytes of the current event that have not
    /// been read; `None` until its length is read.
    Lengths { left: Option<usize> },
}

impl EventMessages {
    /// A divider for the body of a response, by the media type in its headers. `None` if the response is not a watch in
    /// JSON or protobuf, or is compressed.
    pub(crate) fn of_response(headers: &HeaderMap) -> Option<EventMessages> {
        let media_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let format = match media_type.split(';').next().unwrap_or_default().trim() {
            "application/json" => EventFormat::Lines,
            "application/vnd.kubernetes.protobuf" => EventFormat::Lengths { left: None },
            _ => return None,
        };
        let is_plain = !headers.contains_key(http::header::CONTENT_ENCODING);
        is_plain.then(|| EventMessages { format, held: Vec::new(), is_continued: false })
    }

    /// The frames for the next bytes of the body. Empty if all of these bytes are held back, because they complete no
    /// event.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(bytes.len() + 16);
        match self.format {
            EventFormat::Lines => self.push_lines(bytes, &mut out),
            EventFormat::Lengths { .. } => self.push_lengths(bytes, &mut out),
        }
        if out.capacity() - out.len() > MOST_UNUSED {
            out.shrink_to_fit();
        }
        Bytes::from(out)
    }

    /// Whether the bytes so far end within an event. At the end of a body, this means that the body broke off.
    pub(crate) fn is_within_event(&self) -> bool {
        let has_begun = matches!(self.format, EventFormat::Lengths { left: Some(_) });
        has_begun || self.is_continued || !self.held.is_empty()
    }

    /// Appends the frames for bytes in which a newline ends each event.
    fn push_lines(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end + 1);
            self.push_part(line, true, out);
            bytes = rest;
        }
        self.push_part(bytes, false, out);
    }

    /// Appends the frames for bytes in which a length precedes each event.
    fn push_lengths(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let EventFormat::Lengths { left } = &mut self.format else { return };
            match left {
                None => {
                    let (prefix, rest) = bytes.split_at(bytes.len().min(PREFIX - self.held.len()));
                    self.held.extend_from_slice(prefix);
                    bytes = rest;
                    if let Ok(length) = <[u8; PREFIX]>::try_from(&*self.held) {
                        *left = Some(u32::from_be_bytes(length) as usize);
                        self.held.clear();
                    }
                }
                Some(length) => {
                    let (part, rest) = bytes.split_at(bytes.len().min(*length));
                    *length -= part.len();
                    let is_last = *length == 0;
                    if is_last {
                        *left = None;
                    }
                    self.push_part(part, is_last, out);
                    bytes = rest;
                }
            }
        }
    }

    /// Takes a part of an event. Appends a frame with it and what is held back, if it is the last part of the event or
    /// too long to be held back. Otherwise the part is held back.
    fn push_part(&mut self, part: &[u8], is_last: bool, out: &mut Vec<u8>) {
        if !is_last && self.held.len() + part.len() < MOST_HELD {
            self.held.extend_from_slice(part);
            return;
        }
        let opcode = match self.format {
            _ if self.is_continued => Opcode::Continuation,
            EventFormat::Lines => Opcode::Text,
            EventFormat::Lengths { .. } => Opcode::Binary,
        };
        push_head(opcode, is_last, self.held.len() + part.len(), out);
        out.extend_from_slice(&std::mem::take(&mut self.held));
        out.extend_from_slice(part);
        self.is_continued = !is_last;
    }
}

#[cfg(test)]
mod tests {
    use super::{EventFormat, EventMessages};
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    fn messages(format: EventFormat) -> EventMessages {
        EventMessages { format, held: Vec::new(), is_continued: false }
    }

    /// The frames: opcode, whether it is the last one of its message, payload.
    fn frames(mut bytes: &[u8]) -> Vec<(u8, bool, Vec<u8>)> {
        let mut frames = Vec::new();
        while let [first, second, rest @ ..] = bytes {
            let (length, rest) = match second {
                126 => (usize::from(rest[0]) << 8 | usize::from(rest[1]), &rest[2..]),
                127 => (usize::try_from(u64::from_be_bytes(rest[..8].try_into().unwrap())).unwrap(), &rest[8..]),
                short => (usize::from(*short), rest),
            };
            frames.push((first & 0xf, first & 0x80 != 0, rest[..length].to_vec()));
            bytes = &rest[length..];
        }
        frames
    }

    proptest! {
        #[test]
        fn an_event_is_a_message_however_it_arrives(
            lengths in vec(0usize..60_000, 1..6),
            sizes in vec(1usize..80_000, 1..20),
        ) {
            for format in [EventFormat::Lines, EventFormat::Lengths { left: None }] {
                let (opcode, is_lines) = if format == EventFormat::Lines { (1, true) } else { (2, false) };
                let events: Vec<Vec<u8>> = lengths
                    .iter()
                    .enumerate()
                    .map(|(number, length)| [vec![b'a' + number as u8; *length], vec![b'\n']].concat())
                    .collect();
                let body: Vec<u8> = events
                    .iter()
                    .flat_map(|event| {
                        let prefix = (event.len() as u32).to_be_bytes();
                        [if is_lines { &[][..] } else { &prefix }, event].concat()
                    })
                    .collect();
                let mut messages = messages(format);
                let (mut sent, mut rest) = (Vec::new(), &body[..]);
                for size in sizes.iter().cycle() {
                    let (part, others) = rest.split_at(rest.len().min(*size));
                    sent.extend_from_slice(&messages.push(part));
                    rest = others;
                    if rest.is_empty() {
                        break;
                    }
                }
                let expected: Vec<_> = events.into_iter().map(|event| (opcode, true, event)).collect();
                prop_assert_eq!(frames(&sent), expected);
                prop_assert!(messages.held.is_empty());
            }
        }
    }

    #[test]
    fn a_long_event_that_arrives_in_parts_is_a_message_of_several_frames() {
        let mut messages = messages(EventFormat::Lines);
        let part = vec![b'x'; 10_000];
        let mut sent = Vec::new();
        for number in 1..=17 {
            sent.extend_from_slice(&messages.push(&part));
            assert!(number * part.len() < sent.len() + (64 << 10), "the rest is given to who counts it");
        }
        assert!(messages.is_within_event());
        sent.extend_from_slice(&messages.push(b"\nnext\nrest"));
        let frames = frames(&sent);
        let kinds: Vec<_> =
            frames.iter().map(|(opcode, is_last, payload)| (*opcode, *is_last, payload.len())).collect();
        assert_eq!(kinds, [(1, false, 70_000), (0, false, 70_000), (0, true, 30_001), (1, true, 5)]);
    }
}
