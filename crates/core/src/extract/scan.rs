//! Finds the values of all paths of an extractor in one pass over an object's bytes.
//!
//! The scanner walks only the parts of the object that are in the trie, and skips all others. Of skipped parts it
//! checks the balance (brackets, strings, depth) only. It has a stack of its own, so that nesting costs no stack of the
//! thread. It rejects what Go's decoder rejects: more than [`MAX_DEPTH`] levels. Of a key that occurs twice the last
//! value counts, as in Go's encoding/json. `value` interprets the found bytes, and `extractor` uses them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::trie::{ROOT, Trie, TrieNodeId};
use crate::json::cursor::{Cursor, LIST_GOES_ON, MAX_DEPTH, OBJECT_GOES_ON, RawString, Span, SyntaxError, TOO_DEEP};
use crate::json::unescape;

/// Most values of all slots of an object that can have several. The paths of a FieldCache can lead to each element of a
/// list in 32 ways. Without a bound, an object of 1.5 MiB could have 20 million values.
pub const MOST_VALUES: usize = 1 << 16;

/// The result of a scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FoundSpans {
    /// One span for every slot of the trie; absent for slots that can have several values.
    pub(super) slots: Vec<Span>,
    /// The values of slots that can have several, by slot and place.
    pub(super) many: Vec<(usize, Span)>,
    /// Whether there are more than [`MOST_VALUES`] of them. Then `many` has a part of them.
    pub(super) has_too_many: bool,
    /// The object itself, without the white space around it.
    pub(super) object: Span,
}

/// Where values of slots that can have several no longer count, because a key came again. They are taken out at the
/// end, in one pass: an object can repeat its keys any number of times.
#[derive(Default)]
struct Replaced(BTreeMap<usize, Vec<Span>>);

impl Replaced {
    /// Notes a span whose values no longer count for this slot.
    fn note(&mut self, slot: usize, span: Span) {
        let spans = self.0.entry(slot).or_default();
        match spans.last_mut() {
            // Of one object the span only grows.
            Some(last) if last.start == span.start => last.end = last.end.max(span.end),
            _ => spans.push(span),
        }
    }

    /// Removes the values that lie in the noted spans. `many` is sorted by slot and place.
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

impl FoundSpans {
    /// The values of a slot that can have several, in the order of the object.
    pub(super) fn values(&self, slot: usize) -> impl Iterator<Item = Span> {
        let start = self.many.partition_point(|(of_slot, _)| *of_slot < slot);
        self.many[start..].iter().take_while(move |(of_slot, _)| *of_slot == slot).map(|(_, span)| *span)
    }

    /// Stores a span in each of these slots.
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
    node: TrieNodeId,
    start: usize,
    is_list: bool,
    /// How many members or elements have been met.
    met: usize,
    /// How many values of slots that can have several had been found before it.
    found_before: usize,
    /// The members of an object of which every member is wanted.
    members: Option<Box<Members<'b>>>,
}

/// The members of an object so far: one that comes again replaces what was found in the earlier one.
#[derive(Default)]
struct Members<'b> {
    places: HashMap<Cow<'b, [u8]>, usize>,
    starts: Vec<usize>,
}

impl<'b> Members<'b> {
    /// Notes a member, and returns the span of an earlier one with the same name.
    fn note(&mut self, key: &RawString<'b>, start: usize) -> Option<Span> {
        let unescaped = if key.is_escaped { unescape(key.raw) } else { None };
        let key = unescaped.map_or(Cow::Borrowed(key.raw), |text| Cow::Owned(text.into_owned().into_bytes()));
        let earlier = self.places.insert(key, self.starts.len());
        self.starts.push(start);
        earlier.map(|place| Span { start: self.starts[place], end: self.starts[place + 1] })
    }
}

/// Finds the values of a trie's paths in an object.
///
/// # Errors
/// [`SyntaxError`] when the bytes are no JSON object.
pub(super) fn locate(trie: &Trie, bytes: &[u8]) -> Result<FoundSpans, SyntaxError> {
    let mut cursor = Cursor::new(bytes);
    let mut found = FoundSpans { slots: vec![Span::default(); trie.slots()], ..FoundSpans::default() };
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
                // Paths under different keys have nothing in common here, so all spans in this object were found under
                // the key.
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

/// A frame of the scan for a container that begins at `start`.
fn frame<'b>(trie: &Trie, node: TrieNodeId, start: usize, is_list: bool, found_before: usize) -> Frame<'b> {
    let members = (!is_list && trie.takes_any(node)).then(Box::default);
    Frame { node, start, is_list, met: 0, found_before, members }
}
