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

/// The maximum number of values of an object that all paths with wildcards find together. 32 fields of a FieldCache can
/// each lead to every element of a list. Without a bound, an object of 1.5 MiB could have 20 million values.
pub const MOST_VALUES: usize = 1 << 16;

/// The result of a scan. Paths are identified by their numbers in the trie.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FoundSpans {
    /// By path: its value; an absent span if there is none, or if the path can lead to several values.
    pub(super) spans: Vec<Span>,
    /// The values of paths that can lead to several, each with its path; sorted by path and position.
    pub(super) many: Vec<(usize, Span)>,
    /// Whether the object has more than [`MOST_VALUES`] such values. Then `many` is incomplete.
    pub(super) has_too_many: bool,
    /// The object itself, without the white space around it.
    pub(super) object: Span,
}

/// By path: the spans of values that were replaced, because their key occurred again. The values found there are
/// removed at the end, in one pass: an object can repeat its keys any number of times.
#[derive(Default)]
struct Replaced(BTreeMap<usize, Vec<Span>>);

impl Replaced {
    /// Records a span in which all values of this path were replaced.
    fn note(&mut self, path: usize, span: Span) {
        let spans = self.0.entry(path).or_default();
        match spans.last_mut() {
            // A span that begins at the same position belongs to the same object, and only grows.
            Some(last) if last.start == span.start => last.end = last.end.max(span.end),
            _ => spans.push(span),
        }
    }

    /// Removes the values that begin in a recorded span of their path. `many` is sorted by path and position.
    fn remove_from(self, many: &mut Vec<(usize, Span)>) {
        let mut sorted = self.0;
        sorted.values_mut().for_each(|spans| spans.sort_unstable_by_key(|span| span.start));
        // For the current path: the greatest end of its spans that begin at or before the current value. `waiting` is
        // the first span that begins after the value, and `later` has the spans after `waiting`.
        let (mut path, mut later, mut end) = (usize::MAX, [].iter(), 0);
        let mut waiting: Option<Span> = None;
        many.retain(|(of, span)| {
            if *of != path {
                (path, end) = (*of, 0);
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
    /// The values of a path that can lead to several, in the order of the object.
    pub(super) fn values(&self, path: usize) -> impl Iterator<Item = Span> {
        let start = self.many.partition_point(|(of_path, _)| *of_path < path);
        self.many[start..].iter().take_while(move |(of_path, _)| *of_path == path).map(|(_, span)| *span)
    }

    /// Stores the span of a value for each of these paths. Beyond [`MOST_VALUES`], paths with wildcards get no more
    /// values.
    fn set(&mut self, trie: &Trie, paths: &[usize], span: Span) {
        for &path in paths {
            if trie.is_many(path) {
                self.has_too_many |= self.many.len() >= MOST_VALUES;
                if !self.has_too_many {
                    self.many.push((path, span));
                }
            } else {
                self.spans[path] = span;
            }
        }
    }
}

/// An object or list that the scanner is in.
struct Frame<'b> {
    node: TrieNodeId,
    /// The position of its opening bracket.
    start: usize,
    is_list: bool,
    /// The number of members or elements so far.
    met: usize,
    /// The length of [`FoundSpans::many`] when the container began.
    found_before: usize,
    /// The members so far, if the container is an object and a path leads to every member.
    members: Option<Box<Members<'b>>>,
}

/// The members of an object so far. A member with the same key replaces the values that were found in the earlier one.
#[derive(Default)]
struct Members<'b> {
    /// The index of each key in `starts`.
    places: HashMap<Cow<'b, [u8]>, usize>,
    /// Where the value of each member begins.
    starts: Vec<usize>,
}

impl<'b> Members<'b> {
    /// Records a member whose value begins at `start`. Returns the span from the earlier value of the same key to the
    /// member after that; `None` if the key is new.
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
/// The bytes are not a JSON object, or it has more than [`MAX_DEPTH`] levels.
pub(super) fn locate(trie: &Trie, bytes: &[u8]) -> Result<FoundSpans, SyntaxError> {
    let mut cursor = Cursor::new(bytes);
    let mut found = FoundSpans { spans: vec![Span::default(); trie.path_count()], ..FoundSpans::default() };
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
        let closes = cursor.skip_closing(if frame.is_list { b']' } else { b'}' });
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
                // No path leads to an element from here on: skips all of them, and the closing bracket.
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
            let below = trie.paths_below(child);
            below.iter().for_each(|&path| found.spans[path] = Span::default());
            // If there are too many values, none of them is used.
            let may_count = found.many.len() > frame.found_before && !found.has_too_many;
            if let Some(span) = replaced.filter(|_| may_count) {
                below.iter().filter(|path| trie.is_many(**path)).for_each(|&path| replaced_spans.note(path, span));
            }
            Some(child)
        };
        let Some(child) = child else {
            // The container ended.
            found.set(trie, trie.paths_at(node), Span { start: frame.start, end: cursor.position() });
            stack.pop();
            continue;
        };
        let start = cursor.position();
        // Whether the value is a list, if it is a container in which a path continues.
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
            found.set(trie, trie.paths_at(child), Span { start, end: cursor.position() });
        }
    }
    found.object = Span { start: object_start, end: cursor.position() };
    cursor.space();
    if cursor.peek().is_some() {
        return Err(cursor.error("the end of the object"));
    }
    found.many.sort_unstable_by_key(|(path, span)| (*path, span.start));
    if !replaced_spans.0.is_empty() {
        replaced_spans.remove_from(&mut found.many);
    }
    Ok(found)
}

/// A frame for a container that begins at `start`. `found_before` is the number of values in [`FoundSpans::many`] so
/// far.
fn frame<'b>(trie: &Trie, node: TrieNodeId, start: usize, is_list: bool, found_before: usize) -> Frame<'b> {
    let members = (!is_list && trie.takes_any(node)).then(Box::default);
    Frame { node, start, is_list, met: 0, found_before, members }
}
