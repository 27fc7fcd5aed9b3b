//! A position in JSON bytes that only moves forward: checks the tokens it steps over and skips whole values.
//!
//! Skipped values are balanced (brackets, strings, depth), not validated. Skipping takes no stack of the thread, and
//! rejects what Go's decoder rejects: more than [`MAX_DEPTH`] levels.

/// Bytes that are not the JSON that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {offset}: expected {expected}")]
pub struct SyntaxError {
    /// Byte offset.
    pub offset: usize,
    /// What was expected there.
    pub expected: &'static str,
}

/// The maximum number of nested objects and lists (Go's encoding/json `scanner.go`, maxNestingDepth).
pub const MAX_DEPTH: usize = 10_000;

/// Expected after an element of a list.
pub const LIST_GOES_ON: &str = "a comma or the end of a list";
/// Expected after a member of an object.
pub const OBJECT_GOES_ON: &str = "a comma or the end of an object";
/// Expected instead of deeper nesting.
pub const TOO_DEEP: &str = "at most 10000 levels of nesting";

/// The position of a value in the bytes. The span of an absent value is empty; no JSON value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

impl Span {
    /// Whether there is no value.
    pub fn is_absent(self) -> bool {
        self.start == self.end
    }

    /// The bytes of the span; empty when it is absent.
    pub fn slice(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.end]
    }
}

/// A JSON string in its raw form.
pub struct RawString<'b> {
    /// The bytes between the quotes.
    pub raw: &'b [u8],
    /// The offset of the first of these bytes.
    pub start: usize,
    /// Whether the string contains a backslash.
    pub is_escaped: bool,
}

/// A position in JSON bytes. Invariant: the position never passes the end.
pub struct Cursor<'b> {
    bytes: &'b [u8],
    position: usize,
}

#[cfg(debug_assertions)]
thread_local! {
    /// How far all cursors of this thread have moved. A cursor only moves forward, so this is the number of bytes read.
    static BYTES_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(debug_assertions)]
impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        BYTES_READ.set(BYTES_READ.get() + self.position);
    }
}

/// Calls `run`; returns its result, and the number of bytes that the cursors of this thread read meanwhile. For tests:
/// release builds do not count.
#[cfg(debug_assertions)]
pub fn bytes_read<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = bytes_read_so_far();
    let result = run();
    (result, bytes_read_so_far() - before)
}

/// The number of bytes that the cursors of this thread have read.
#[cfg(debug_assertions)]
pub fn bytes_read_so_far() -> usize {
    BYTES_READ.get()
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = ONES << 7;
const QUOTES: u64 = ONES * b'"' as u64;
const BACKSLASHES: u64 = ONES * b'\\' as u64;

/// Sets the high bit of each byte of the result whose byte in `word` is zero. Only the lowest set bit is reliable:
/// bytes above it may be set wrongly.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH_BITS
}

impl<'b> Cursor<'b> {
    /// A cursor at the first byte.
    pub fn new(bytes: &'b [u8]) -> Cursor<'b> {
        Cursor { bytes, position: 0 }
    }

    /// The offset of the next byte.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next byte; `None` at the end.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    /// Advances by `count` bytes, which must exist.
    pub fn step(&mut self, count: usize) {
        debug_assert!(count <= self.bytes.len() - self.position, "a cursor must not pass the end");
        self.position += count;
    }

    /// Advances by one byte, which must exist: [`Cursor::peek`] returned it.
    pub fn advance(&mut self) {
        self.position += 1;
    }

    /// An error about the current position; `expected` is what should be there.
    pub fn error(&self, expected: &'static str) -> SyntaxError {
        SyntaxError { offset: self.position, expected }
    }

    /// Skips whitespace.
    pub fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.position += 1;
        }
    }

    /// Advances over `byte`; an error with `expected` if the next byte is another one.
    pub fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), SyntaxError> {
        if self.peek() != Some(byte) {
            return Err(self.error(expected));
        }
        self.position += 1;
        Ok(())
    }

    /// Advances over these bytes if they are next; returns whether they are.
    pub fn skip_if_next(&mut self, expected: &[u8]) -> bool {
        let takes = self.bytes[self.position..].starts_with(expected);
        self.position += if takes { expected.len() } else { 0 };
        takes
    }

    /// Skips white space, and the closing bracket `bracket` if it is next; returns whether it is.
    pub fn skip_closing(&mut self, bracket: u8) -> bool {
        self.space();
        let closes = self.peek() == Some(bracket);
        self.position += usize::from(closes);
        closes
    }

    /// Reads a string, without unescaping it. `expected` is for the error if the next byte is not a quote.
    pub fn string(&mut self, expected: &'static str) -> Result<RawString<'b>, SyntaxError> {
        self.expect(b'"', expected)?;
        let start = self.position;
        let is_escaped = self.finish_string()?;
        Ok(RawString { raw: &self.bytes[start..self.position - 1], start, is_escaped })
    }

    /// Advances from inside a string to the position after its closing quote; returns whether the string has a
    /// backslash.
    fn finish_string(&mut self) -> Result<bool, SyntaxError> {
        let mut is_escaped = false;
        loop {
            let rest = &self.bytes[self.position..];
            let step = if let Some(chunk) = rest.first_chunk::<8>() {
                // Eight bytes at a time; the lowest hit is the first quote or backslash.
                let word = u64::from_le_bytes(*chunk);
                let hits = zero_bytes(word ^ QUOTES) | zero_bytes(word ^ BACKSLASHES);
                if hits == 0 {
                    self.position += 8;
                    continue;
                }
                (hits.trailing_zeros() / 8) as usize
            } else {
                match rest.iter().position(|&byte| byte == b'"' || byte == b'\\') {
                    Some(step) => step,
                    None => {
                        self.position = self.bytes.len();
                        return Err(self.error("the end of a string"));
                    }
                }
            };
            self.position += step + 1;
            if rest[step] == b'"' {
                return Ok(is_escaped);
            }
            is_escaped = true;
            if self.peek().is_none() {
                return Err(self.error("an escape"));
            }
            self.position += 1;
        }
    }

    /// Skips a value; `depth` is the number of containers around it.
    pub fn skip_value(&mut self, depth: usize) -> Result<(), SyntaxError> {
        match self.peek() {
            Some(b'"') => {
                self.position += 1;
                self.finish_string()?;
                Ok(())
            }
            Some(b'{' | b'[') => self.skip_containers(0, depth),
            _ => self.skip_scalar(),
        }
    }

    /// Skips the rest of the list that the cursor is in, with its closing bracket. `depth` is the number of open
    /// containers, including this list.
    pub fn skip_rest_of_list(&mut self, depth: usize) -> Result<(), SyntaxError> {
        self.skip_containers(1, depth - 1)
    }

    /// Skips a container with its content. `open` is 0 if the cursor is at its opening bracket, 1 if it is in a list.
    /// `depth_around` is the number of containers around it.
    fn skip_containers(&mut self, open: usize, depth_around: usize) -> Result<(), SyntaxError> {
        let mut brackets = Brackets::default();
        if open == 1 {
            brackets.open(true);
        }
        loop {
            let Some(&byte) = self.bytes.get(self.position) else {
                return Err(self.error("the end of an object or list"));
            };
            self.position += 1;
            match byte {
                b'"' => {
                    self.finish_string()?;
                }
                b'{' | b'[' => {
                    brackets.open(byte == b'[');
                    if depth_around + brackets.depth > MAX_DEPTH {
                        self.position -= 1;
                        return Err(self.error(TOO_DEEP));
                    }
                }
                b'}' | b']' => {
                    if !brackets.close(byte == b']') {
                        self.position -= 1;
                        return Err(self.error("the bracket that closes the open object or list"));
                    }
                    if brackets.depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    }

    /// Skips and validates a number or literal.
    pub fn skip_scalar(&mut self) -> Result<(), SyntaxError> {
        let start = self.position;
        let rest = &self.bytes[start..];
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.' | b'E'))
            .unwrap_or(rest.len());
        let token = &rest[..length];
        if !matches!(token, b"true" | b"false" | b"null") && !is_number(token) {
            return Err(self.error("a value"));
        }
        self.position += length;
        Ok(())
    }
}

/// Whether a token is a number by the grammar of JSON.
fn is_number(token: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = token.strip_prefix(b"-").unwrap_or(token);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let unsigned = match exponent {
            [b'+' | b'-', unsigned @ ..] => unsigned,
            _ => exponent,
        };
        let length = digits(unsigned);
        return length > 0 && length == unsigned.len();
    }
    rest.is_empty()
}

/// The open brackets, one bit for each (set: a list).
#[derive(Default)]
struct Brackets {
    /// The innermost 64 brackets, the last one in the lowest bit.
    innermost: u64,
    /// Further brackets, 64 in each word; empty for almost every object.
    outer: Vec<u64>,
    depth: usize,
}

impl Brackets {
    /// Adds an opening bracket.
    fn open(&mut self, is_list: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(is_list);
        self.depth += 1;
    }

    /// Removes the innermost bracket; false if it is of the other kind.
    fn close(&mut self, is_list: bool) -> bool {
        if (self.innermost & 1 == 1) != is_list {
            return false;
        }
        self.innermost >>= 1;
        self.depth -= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.innermost = self.outer.pop().unwrap_or_default();
        }
        true
    }
}
