//! Indentation of JSON responses, in pieces of bounded size.
//!
//! Up to [`DEEPEST`] levels the bytes are those of Go's `json.Indent`, which kube-apiserver uses. What is nested deeper
//! is printed without line breaks and spaces. A line of depth n costs 2n spaces, so a document of some hundred
//! kilobytes with thousands of levels would otherwise become hundreds of megabytes. The text is made while the client
//! reads it; no piece is much longer than [`CHUNK`].

use bytes::{Buf, Bytes};

use super::encode::CHUNK;
use super::pieces::Pieces;

/// The deepest level of objects and lists whose content is indented, as in YAML. Only schemas in definitions nest nearly as deep.
pub const DEEPEST: usize = crate::yaml::DEEPEST;

/// Where indented text goes.
trait Sink {
    /// Appends a byte.
    fn byte(&mut self, byte: u8);
    /// Appends spaces.
    fn spaces(&mut self, count: usize);
}

impl Sink for Vec<u8> {
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }

    fn spaces(&mut self, count: usize) {
        self.resize(self.len() + count, b' ');
    }
}

/// Counts bytes.
struct Length(u64);

impl Sink for Length {
    fn byte(&mut self, _: u8) {
        self.0 += 1;
    }

    fn spaces(&mut self, count: usize) {
        self.0 += count as u64;
    }
}

/// Indents JSON by two spaces a level as it passes.
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// An opening bracket has been written; whether a line break follows depends on the next byte.
    opened: bool,
}

impl Indenter {
    /// Writes the next piece of a JSON text.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.push_up_to(usize::MAX, piece, out);
    }

    /// Writes of the next piece until `out` has `most` bytes; returns how much of the piece has been written. `out` becomes longer than
    /// `most` by one line's indentation at most.
    fn push_up_to(&mut self, most: usize, piece: &[u8], out: &mut Vec<u8>) -> usize {
        for (position, &byte) in piece.iter().enumerate() {
            if out.len() >= most {
                return position;
            }
            self.step(byte, out);
        }
        piece.len()
    }

    /// Takes the next byte of compact JSON.
    fn step(&mut self, byte: u8, out: &mut impl Sink) {
        if self.in_string {
            out.byte(byte);
            self.in_string = self.escaped || byte != b'"';
            self.escaped = byte == b'\\' && !self.escaped;
            return;
        }
        // The newline at the end too: an indented response has none.
        if byte.is_ascii_whitespace() {
            return;
        }
        let is_indented = self.depth <= DEEPEST;
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        if std::mem::take(&mut self.opened) != closes && is_indented {
            self.break_line(out);
        }
        out.byte(byte);
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                self.depth += 1;
                self.opened = true;
            }
            b',' if is_indented => self.break_line(out),
            b':' if is_indented => out.byte(b' '),
            _ => {}
        }
    }

    /// Begins a line, indented by the current depth.
    fn break_line(&self, out: &mut impl Sink) {
        out.byte(b'\n');
        out.spaces(2 * self.depth);
    }
}

/// The length of a JSON text when it is indented as JSON.
pub fn json_length(json: &[u8]) -> u64 {
    let (mut indenter, mut length) = (Indenter::default(), Length(0));
    json.iter().for_each(|&byte| indenter.step(byte, &mut length));
    length.0
}

/// How long a JSON text becomes at most as YAML, where each line of a text of several lines is indented too.
pub fn yaml_length(json: &[u8]) -> u64 {
    let (mut indenter, mut length) = (Indenter::default(), Length(0));
    for &byte in json {
        if byte == b'n' && indenter.in_string && indenter.escaped && indenter.depth <= DEEPEST {
            length.spaces(2 * indenter.depth);
        }
        indenter.step(byte, &mut length);
    }
    length.0
}

/// Pieces of one JSON text, indented as they are read.
pub struct Pretty {
    pieces: Pieces,
    /// What is left of the last piece.
    rest: Bytes,
    /// What has been written and not given.
    out: Vec<u8>,
    indenter: Indenter,
}

impl Pretty {
    /// Indents a JSON body of these pieces.
    pub fn new(pieces: Pieces) -> Pretty {
        Pretty { pieces, rest: Bytes::new(), out: Vec::new(), indenter: Indenter::default() }
    }
}

impl Iterator for Pretty {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = std::mem::take(&mut self.out);
        while out.len() < CHUNK {
            if self.rest.is_empty() {
                let Some(piece) = self.pieces.next() else { break };
                if piece.is_empty() {
                    self.out = out;
                    return Some(piece);
                }
                self.rest = piece;
                continue;
            }
            out.reserve((2 * self.rest.len()).min(CHUNK + CHUNK / 8 - out.len().min(CHUNK)));
            let written = self.indenter.push_up_to(CHUNK, &self.rest, &mut out);
            self.rest.advance(written);
        }
        (!out.is_empty()).then(|| Bytes::from(out))
    }
}
