//! One pass over an object's bytes: where the values of a plan's paths stand.
//!
//! The scanner walks only the parts of the object that the trie knows and skips everything else without looking at it:
//! skipped parts are balanced (brackets, strings, depth), not validated. It keeps its own stack, so that nesting costs
//! no stack of the thread, and refuses what Go's decoder refuses: more than [`MAX_DEPTH`] levels. A key that occurs twice
//! counts where it stands last, as in Go's encoding/json.
//! What the found bytes mean is `value`; what becomes of them is `plan`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::trie::{NodeId, ROOT, Trie};
use super::value;

/// Bytes that are not the JSON that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced {
    /// Byte offset.
    pub(crate) offset: usize,
    /// What was expected there.
    pub(crate) expected: &'static str,
}

/// Deepest nesting of objects and lists (Go's encoding/json `scanner.go`, maxNestingDepth).
pub(super) const MAX_DEPTH: usize = 10_000;

/// Most values of all slots of an object that can have several. The paths of a FieldCache can lead to each element of a list in 32 ways, so
/// without a bound an object of 1.5 MiB has 20 million.
pub(crate) const MOST_VALUES: usize = 1 << 16;

/// Where a value stands in the bytes; an absent one is empty (no JSON value is).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    pub(super) fn is_absent(self) -> bool {
        self.start == self.end
    }

    /// The bytes, or nothing when absent.
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.end]
    }
}

/// What a scan found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// One span for every slot of the trie; absent for slots that can have several values.
    pub(super) slots: Vec<Span>,
    /// The values of slots that can have several, by slot and place.
    pub(super) many: Vec<(usize, Span)>,
    /// Whether there are more than [`MOST_VALUES`] of them. Then `many` has a part of them.
    pub(super) has_too_many: bool,
    /// The object itself, without the white space around it.
    pub(super) object: Span,
}

/// Where values of slots that can have several no longer count, because a key came again. They are taken out at the end, in
/// one pass: an object can repeat its keys any number of times.
#[derive(Default)]
struct Replaced(BTreeMap<usize, Vec<Span>>);

impl Replaced {
    fn note(&mut self, slot: usize, span: Span) {
        let spans = self.0.entry(slot).or_default();
        match spans.last_mut() {
            // Of one object the span only grows.
            Some(last) if last.start == span.start => last.end = last.end.max(span.end),
            _ => spans.push(span),
        }
    }

    /// Takes out what lies in them. What was found is sorted by slot and place.
    fn take_out(self, many: &mut Vec<(usize, Span)>) {
        let mut sorted = self.0;
        sorted.values_mut().for_each(|spans| spans.sort_unstable_by_key(|span| span.start));
        // Of the slot at hand: its spans that begin later, and how far those that have begun go.
        let (mut slot, mut later, mut end) = (usize::MAX, [].iter(), 0);
        let mut waiting: Option<Span> = None;
        many.retain(|(of, span)| {
            if *of != slot {
                (slot, end) = (*of, 0);
                later = sorted.get(of).map_or([].iter(), |spans| spans.iter());
                waiting = later.next().copied();
            }
            while let Some(begun) = waiting.filter(|replaced| replaced.start <= span.start) {
                end = end.max(begun.end);
                waiting = later.next().copied();
            }
            span.start >= end
        });
    }
}

impl Found {
    /// The values of a slot that can have several, as they stand in the object.
    pub(super) fn values(&self, slot: usize) -> impl Iterator<Item = Span> {
        let start = self.many.partition_point(|(held, _)| *held < slot);
        self.many[start..].iter().take_while(move |(held, _)| *held == slot).map(|(_, span)| *span)
    }

    fn set(&mut self, trie: &Trie, slots: &[usize], span: Span) {
        for &slot in slots {
            if trie.is_many(slot) {
                self.has_too_many |= self.many.len() >= MOST_VALUES;
                if !self.has_too_many {
                    self.many.push((slot, span));
                }
            } else {
                self.slots[slot] = span;
            }
        }
    }
}

/// A container that the scanner is in.
struct Frame<'b> {
    node: NodeId,
    start: usize,
    is_list: bool,
    /// How many members or elements have been met.
    met: usize,
    /// How many values of slots that can have several had been found before it.
    found_before: usize,
    /// Of an object of which every member is asked for.
    members: Option<Box<Members<'b>>>,
}

/// The members of an object so far: one that comes again replaces what was found in the earlier one.
#[derive(Default)]
struct Members<'b> {
    places: HashMap<Cow<'b, [u8]>, usize>,
    starts: Vec<usize>,
}

impl<'b> Members<'b> {
    /// Notes a member; answers where the bytes of the earlier one of the same name begin and end.
    fn note(&mut self, key: &RawString<'b>, start: usize) -> Option<Span> {
        let unescaped = if key.is_escaped { value::unescape(key.raw) } else { None };
        let key = unescaped.map_or(Cow::Borrowed(key.raw), |text| Cow::Owned(text.into_owned().into_bytes()));
        let earlier = self.places.insert(key, self.starts.len());
        self.starts.push(start);
        earlier.map(|place| Span { start: self.starts[place], end: self.starts[place + 1] })
    }
}

/// Finds the values of a trie's paths in an object.
///
/// # Errors
/// [`Misplaced`] when the bytes are no JSON object.
pub(super) fn locate(trie: &Trie, bytes: &[u8]) -> Result<Found, Misplaced> {
    let mut cursor = Cursor::new(bytes);
    let mut found = Found { slots: vec![Span::default(); trie.slots()], ..Found::default() };
    let mut stack: Vec<Frame<'_>> = Vec::with_capacity(8);
    let mut replaced_spans = Replaced::default();
    cursor.space();
    let object_start = cursor.position();
    cursor.expect(b'{', "an object")?;
    stack.push(frame(trie, ROOT, object_start, false, 0));
    loop {
        let depth = stack.len();
        let Some(frame) = stack.last_mut() else { break };
        let node = frame.node;
        let closes = cursor.closes(if frame.is_list { b']' } else { b'}' });
        if !closes && frame.met > 0 {
            cursor.expect(b',', if frame.is_list { LIST_GOES_ON } else { OBJECT_GOES_ON })?;
            cursor.space();
        }
        let child = if closes {
            None
        } else if frame.is_list {
            let place = frame.met;
            frame.met += 1;
            match trie.element(node, place) {
                Some(child) => Some(child),
                None if trie.has_elements_from(node, place) => {
                    cursor.skip_value(depth)?;
                    continue;
                }
                None => {
                    cursor.skip_rest_of_list(depth)?;
                    None
                }
            }
        } else {
            frame.met += 1;
            let key = cursor.string("a key")?;
            cursor.space();
            cursor.expect(b':', "a colon")?;
            cursor.space();
            let child = trie.child(node, key.raw, key.is_escaped);
            let Some(child) = child else {
                cursor.skip_value(depth)?;
                continue;
            };
            // An earlier value of the same key no longer counts, nor anything that was found inside of it.
            let replaced = match &mut frame.members {
                Some(members) => members.note(&key, cursor.position()),
                // Paths under different keys have nothing in common here, so what stands in this object stood under the key.
                None => Some(Span { start: frame.start, end: cursor.position() }),
            };
            let below = trie.slots_below(child);
            below.iter().for_each(|&slot| found.slots[slot] = Span::default());
            // Of too many values none counts.
            let may_count = found.many.len() > frame.found_before && !found.has_too_many;
            if let Some(span) = replaced.filter(|_| may_count) {
                below.iter().filter(|slot| trie.is_many(**slot)).for_each(|&slot| replaced_spans.note(slot, span));
            }
            Some(child)
        };
        let Some(child) = child else {
            // The container ended.
            found.set(trie, trie.slots_at(node), Span { start: frame.start, end: cursor.position() });
            stack.pop();
            continue;
        };
        let start = cursor.position();
        let enters = match cursor.peek() {
            Some(b'{') if trie.has_children(child) => Some(false),
            Some(b'[') if trie.has_elements_from(child, 0) => Some(true),
            _ => None,
        };
        if let Some(is_list) = enters {
            if depth >= MAX_DEPTH {
                return Err(cursor.error(TOO_DEEP));
            }
            cursor.advance();
            cursor.space();
            stack.push(self::frame(trie, child, start, is_list, found.many.len()));
        } else {
            cursor.skip_value(depth)?;
            found.set(trie, trie.slots_at(child), Span { start, end: cursor.position() });
        }
    }
    found.object = Span { start: object_start, end: cursor.position() };
    cursor.space();
    if cursor.peek().is_some() {
        return Err(cursor.error("the end of the object"));
    }
    found.many.sort_unstable_by_key(|(slot, span)| (*slot, span.start));
    if !replaced_spans.0.is_empty() {
        replaced_spans.take_out(&mut found.many);
    }
    Ok(found)
}

pub(super) const LIST_GOES_ON: &str = "a comma or the end of a list";
pub(super) const OBJECT_GOES_ON: &str = "a comma or the end of an object";
pub(super) const TOO_DEEP: &str = "at most 10000 levels of nesting";

fn frame<'b>(trie: &Trie, node: NodeId, start: usize, is_list: bool, found_before: usize) -> Frame<'b> {
    let members = (!is_list && trie.takes_any(node)).then(Box::default);
    Frame { node, start, is_list, met: 0, found_before, members }
}

/// A JSON string as it stands in the bytes.
pub(crate) struct RawString<'b> {
    /// Between the quotes.
    pub(crate) raw: &'b [u8],
    /// Where that begins.
    pub(crate) start: usize,
    /// Whether it contains a backslash.
    pub(crate) is_escaped: bool,
}

/// A position in JSON bytes. Invariant: the position never passes the end.
pub(crate) struct Cursor<'b> {
    bytes: &'b [u8],
    position: usize,
}

#[cfg(test)]
thread_local! {
    /// How far all cursors of this thread have moved. A cursor only moves forward, so this is the number of bytes read.
    static BYTES_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        BYTES_READ.set(BYTES_READ.get() + self.position);
    }
}

/// How many bytes the cursors of this thread read while it runs.
#[cfg(test)]
pub(crate) fn bytes_read<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = bytes_read_so_far();
    let result = run();
    (result, bytes_read_so_far() - before)
}

/// How many bytes the cursors of this thread have read.
#[cfg(test)]
pub(crate) fn bytes_read_so_far() -> usize {
    BYTES_READ.get()
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = ONES << 7;
const QUOTES: u64 = ONES * b'"' as u64;
const BACKSLASHES: u64 = ONES * b'\\' as u64;

/// A set high bit in each byte that is zero; bytes above the lowest hit may be wrong, the lowest never is.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH_BITS
}

impl<'b> Cursor<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Cursor<'b> {
        Cursor { bytes, position: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    /// Steps over bytes that are known to be there.
    pub(crate) fn step(&mut self, count: usize) {
        debug_assert!(count <= self.bytes.len() - self.position, "a cursor must not pass the end");
        self.position += count;
    }

    /// Steps over one byte that was peeked.
    pub(crate) fn advance(&mut self) {
        self.position += 1;
    }

    pub(crate) fn error(&self, expected: &'static str) -> Misplaced {
        Misplaced { offset: self.position, expected }
    }

    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.position += 1;
        }
    }

    pub(crate) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Misplaced> {
        if self.peek() != Some(byte) {
            return Err(self.error(expected));
        }
        self.position += 1;
        Ok(())
    }

    /// Steps over these bytes if they stand here.
    pub(crate) fn takes(&mut self, expected: &[u8]) -> bool {
        let takes = self.bytes[self.position..].starts_with(expected);
        self.position += if takes { expected.len() } else { 0 };
        takes
    }

    /// Skips white space and, if it stands there, the closing bracket.
    pub(crate) fn closes(&mut self, bracket: u8) -> bool {
        self.space();
        let closes = self.peek() == Some(bracket);
        self.position += usize::from(closes);
        closes
    }

    pub(crate) fn string(&mut self, expected: &'static str) -> Result<RawString<'b>, Misplaced> {
        self.expect(b'"', expected)?;
        let start = self.position;
        let is_escaped = self.finish_string()?;
        Ok(RawString { raw: &self.bytes[start..self.position - 1], start, is_escaped })
    }

    /// Moves behind the closing quote; true when a backslash stood before it.
    fn finish_string(&mut self) -> Result<bool, Misplaced> {
        let mut is_escaped = false;
        loop {
            let rest = &self.bytes[self.position..];
            let step = if let Some(chunk) = rest.first_chunk::<8>() {
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
    pub(crate) fn skip_value(&mut self, depth: usize) -> Result<(), Misplaced> {
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

    /// Skips to behind the bracket that closes the list the cursor is in, its `depth` included in the count.
    fn skip_rest_of_list(&mut self, depth: usize) -> Result<(), Misplaced> {
        self.skip_containers(1, depth - 1)
    }

    /// Skips until all containers are closed, of which `open` lists (0 or 1) are open already.
    fn skip_containers(&mut self, open: usize, depth_around: usize) -> Result<(), Misplaced> {
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

    /// Skips a number or literal, checking it.
    pub(super) fn skip_scalar(&mut self) -> Result<(), Misplaced> {
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

/// Whether a token is a number of JSON's grammar.
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

/// The open brackets, one bit each (set: a list), the innermost lowest.
#[derive(Default)]
struct Brackets {
    innermost: u64,
    /// Full words further out; empty in every sane object.
    outer: Vec<u64>,
    depth: usize,
}

impl Brackets {
    fn open(&mut self, is_list: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(is_list);
        self.depth += 1;
    }

    /// False when the innermost bracket is of the other kind.
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
