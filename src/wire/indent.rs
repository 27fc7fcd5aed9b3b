//! Indentation of JSON responses, in pieces of bounded size.
//!
//! Up to [`DEEPEST`] levels the bytes are those of Go's `json.Indent`, which kube-apiserver uses. Values that are
//! nested deeper are printed without line breaks and spaces. A line of depth n costs 2n spaces, so a document of a
//! few hundred kilobytes with thousands of levels would otherwise become hundreds of megabytes. The output is created
//! while the client reads it, and no piece is much longer than [`CHUNK`].

use bytes::{Buf, Bytes};

use super::encode::CHUNK;
use super::pieces::Pieces;

/// The deepest level of objects and lists whose content is indented, as in YAML. Only the schemas of CRDs nest nearly
/// as deep.
pub const DEEPEST: usize = crate::yaml::DEEPEST;

/// The output of an [`Indenter`].
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

/// Counts the bytes of indented JSON instead of writing them.
struct Length(u64);

impl Sink for Length {
    fn byte(&mut self, _: u8) {
        self.0 += 1;
    }

    fn spaces(&mut self, count: usize) {
        self.0 += count as u64;
    }
}

/// Indents JSON by two spaces for each level, byte by byte.
#[derive(Debug, Default)]
pub struct Indenter {
    /// The number of open objects and lists.
    depth: usize,
    /// Whether the next byte belongs to a string.
    in_string: bool,
    /// Whether the previous byte was a backslash that begins an escape.
    escaped: bool,
    /// Whether the previous byte was an opening bracket. A line break follows unless the next byte closes it.
    opened: bool,
}

impl Indenter {
    /// Writes the next piece of a JSON text.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.push_up_to(usize::MAX, piece, out);
    }

    /// Writes the next piece of a JSON text until `out` has `target` bytes. Returns how many bytes of the piece were
    /// written. `out` can exceed `target` by the indentation of one line.
    fn push_up_to(&mut self, target: usize, piece: &[u8], out: &mut Vec<u8>) -> usize {
        for (position, &byte) in piece.iter().enumerate() {
            if out.len() >= target {
                return position;
            }
            self.step(byte, out);
        }
        piece.len()
    }

    /// Writes the next byte of compact JSON, with line breaks and spaces around it.
    fn step(&mut self, byte: u8, out: &mut impl Sink) {
        if self.in_string {
            out.byte(byte);
            self.in_string = self.escaped || byte != b'"';
            self.escaped = byte == b'\\' && !self.escaped;
            return;
        }
        // Also the newline at the end, because an indented response has none.
        if byte.is_ascii_whitespace() {
            return;
        }
        let is_indented = self.depth <= DEEPEST;
        let closes = matches!(byte, b'}' | b']');
        if closes {
            self.depth = self.depth.saturating_sub(1);
        }
        // A line break follows an opening bracket and precedes a closing one, but an empty object or list has none.
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

/// The length in bytes of a JSON text after it is indented.
pub fn json_length(json: &[u8]) -> u64 {
    let (mut indenter, mut length) = (Indenter::default(), Length(0));
    json.iter().for_each(|&byte| indenter.step(byte, &mut length));
    length.0
}

/// The approximate maximum length in bytes of a JSON text as YAML. YAML also indents each line of a multi-line string.
pub fn yaml_length(json: &[u8]) -> u64 {
    let (mut indenter, mut length) = (Indenter::default(), Length(0));
    for &byte in json {
        // The escape of a line break.
        if byte == b'n' && indenter.in_string && indenter.escaped && indenter.depth <= DEEPEST {
            length.spaces(2 * indenter.depth);
        }
        indenter.step(byte, &mut length);
    }
    length.0
}

/// The pieces of a JSON text, indented on demand.
pub struct Pretty {
    pieces: Pieces,
    /// The part of the last piece that is not indented yet.
    rest: Bytes,
    /// Indented bytes of the next piece.
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

    /// The next piece of about [`CHUNK`] bytes. An empty piece of the source is returned at once, because it ends a
    /// turn of work (see [`Pieces`]). `None` at the end.
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
            // Indented JSON is about twice as long. At most a chunk, and what one line exceeds it by, is reserved.
            out.reserve((2 * self.rest.len()).min(CHUNK + CHUNK / 8 - out.len().min(CHUNK)));
            let written = self.indenter.push_up_to(CHUNK, &self.rest, &mut out);
            self.rest.advance(written);
        }
        (!out.is_empty()).then(|| Bytes::from(out))
    }
}
