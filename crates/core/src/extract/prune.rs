//! Prunes parts of objects that a View does not show.
//!
//! A View names the paths to prune, the paths to keep, or both: then it shows what is kept and not pruned. A path
//! consists of member names. A path continues in every element of a list, so its rules do not depend on the position in
//! the list. The remaining bytes and their order do not change. Copies of the pruned data inside the object are pruned
//! too: see [`copies`]. [`super::Extractor::pruned`] decides which fields a pruned object still has. [`path`] is the
//! grammar of paths.

pub mod copies;
pub mod path;

use std::ops::Range;

use super::invalid_object::InvalidObject;
use super::trie::PathStep;
use crate::json::cursor::{Cursor, LIST_GOES_ON, MAX_DEPTH, OBJECT_GOES_ON, TOO_DEEP};
use crate::json::{SyntaxError, unescape};
use copies::DataCopy;
use path::InvalidPath;

/// The maximum number of names that the pruned and kept paths of one resource of a View have together. Each field of
/// its extractors is compared with all of them.
pub const MOST_NAMES: usize = 256;

/// The parts of an object that remain even if no path keeps them: clients identify objects by them.
const ALWAYS_KEPT: [&[&str]; 6] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
];

/// What is pruned of a value. This is a tree: each named member has its own rule, which can be a further [`Prune`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// The named members, sorted by name. Thousands of Views can have hundreds of names each, and a map takes half a
    /// kilobyte for one name.
    members: Vec<(Box<str>, MemberRule)>,
    /// Whether only the members in `members` are kept, because paths to keep lead into the value. Then other members
    /// are pruned, and a value that has no members, such as a text, is pruned as a whole.
    keeps_named_only: bool,
}

/// What is pruned of a named member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MemberRule {
    /// Nothing is pruned: the member is kept.
    Keep,
    /// This part of the member is pruned.
    Prune(PrunedPart),
}

/// How much of a member is pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrunedPart {
    /// The whole member.
    Whole,
    /// Parts of its content.
    Inside(Prune),
}

impl Prune {
    /// Parses paths to prune, such as `.spec.secret`. If there is any path, the annotations with copies of the object
    /// are pruned too: see [`copies`].
    ///
    /// # Errors
    /// A path is not valid: the error of the first one.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Prune, InvalidPath> {
        Prune::with_kept(paths, [])
    }

    /// Like [`Prune::new`], with paths to keep. If `kept` has a path, everything outside of the paths in `kept` is
    /// pruned too, except the members that identify an object. A part that is in both lists is pruned.
    ///
    /// # Errors
    /// A path is not valid: the error of the first one.
    pub fn with_kept<'a>(
        paths: impl IntoIterator<Item = &'a str>,
        kept: impl IntoIterator<Item = &'a str>,
    ) -> Result<Prune, InvalidPath> {
        let mut prune = Prune::default();
        for path in kept {
            prune.keeps_named_only = true;
            prune.keep(&as_texts(&path::names(path)?));
        }
        if prune.keeps_named_only {
            for names in ALWAYS_KEPT {
                prune.keep(names);
            }
        }
        for path in paths {
            prune.insert(&as_texts(&path::prunable_names(path)?));
        }
        if !prune.is_empty() {
            for annotation in copies::ANNOTATIONS {
                prune.insert(&["metadata", "annotations", annotation]);
            }
        }
        Ok(prune)
    }

    /// Prunes everything except the parts at these paths and the members that identify an object. Unlike in a View,
    /// copies of pruned data in kept parts remain: the caller may read everything, and only chooses what to receive.
    ///
    /// # Errors
    /// A path is not valid: the error of the first one.
    pub fn kept<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Prune, InvalidPath> {
        let mut prune = Prune::identifying();
        for path in paths {
            prune.keep(&as_texts(&path::names(path)?));
        }
        Ok(prune)
    }

    /// Prunes everything except the members that identify an object, such as its name.
    pub fn identifying() -> Prune {
        let mut prune = Prune { members: Vec::new(), keeps_named_only: true };
        for names in ALWAYS_KEPT {
            prune.keep(names);
        }
        prune
    }

    /// Prunes what `self` or `other` prunes. The function recurses once for each name of a path, of which there are at
    /// most [`MOST_NAMES`].
    #[must_use]
    pub fn and(&self, other: &Prune) -> Prune {
        let keeps_named_only = self.keeps_named_only || other.keeps_named_only;
        let names = self.members.iter().chain(&other.members).map(|(name, _)| name);
        let mut both = Prune { members: Vec::new(), keeps_named_only };
        for name in names {
            let Err(place) = both.place(name) else { continue };
            let rule = match (self.rule(name), other.rule(name)) {
                (MemberRule::Keep, rule) | (rule, MemberRule::Keep) => rule,
                (MemberRule::Prune(PrunedPart::Inside(one)), MemberRule::Prune(PrunedPart::Inside(two))) => {
                    MemberRule::Prune(PrunedPart::Inside(one.and(&two)))
                }
                (MemberRule::Prune(_), MemberRule::Prune(_)) => MemberRule::Prune(PrunedPart::Whole),
            };
            both.insert_at(place, name, rule);
        }
        both
    }

    /// What is pruned of the member with this name.
    fn rule(&self, name: &str) -> MemberRule {
        match self.place(name) {
            Ok(place) => self.members[place].1.clone(),
            Err(_) if self.keeps_named_only => MemberRule::Prune(PrunedPart::Whole),
            Err(_) => MemberRule::Keep,
        }
    }

    /// Prunes the same, and `metadata.managedFields`.
    #[must_use]
    pub fn and_managed_fields(&self) -> Prune {
        let mut prune = self.clone();
        prune.insert(&["metadata", "managedFields"]);
        prune
    }

    /// Adds a path of member names to prune. A path replaces longer paths that begin with it.
    ///
    /// The function recurses once for each name, of which a path of a View has at most [`MOST_NAMES`].
    fn insert(&mut self, names: &[&str]) {
        let Some((first, rest)) = names.split_first() else { return };
        let place = match self.place(first) {
            // The member is not kept, so it is pruned already.
            Err(_) if self.keeps_named_only => return,
            Err(place) => self.insert_at(place, first, MemberRule::Keep),
            Ok(place) => place,
        };
        let rule = &mut self.members[place].1;
        if rest.is_empty() {
            *rule = MemberRule::Prune(PrunedPart::Whole);
            return;
        }
        if *rule == MemberRule::Keep {
            *rule = MemberRule::Prune(PrunedPart::Inside(Prune::default()));
        }
        if let MemberRule::Prune(PrunedPart::Inside(inside)) = rule {
            inside.insert(rest);
        }
    }

    /// Adds a path of member names to keep. All paths to keep must be added before any path to prune. A path replaces
    /// longer paths that begin with it. The function recurses as [`Self::insert`] does.
    fn keep(&mut self, names: &[&str]) {
        let Some((first, rest)) = names.split_first() else { return };
        let place = self.place(first).unwrap_or_else(|place| {
            let inside = Prune { members: Vec::new(), keeps_named_only: true };
            self.insert_at(place, first, MemberRule::Prune(PrunedPart::Inside(inside)))
        });
        match &mut self.members[place].1 {
            rule if rest.is_empty() => *rule = MemberRule::Keep,
            MemberRule::Prune(PrunedPart::Inside(inside)) => inside.keep(rest),
            MemberRule::Keep | MemberRule::Prune(PrunedPart::Whole) => {}
        }
    }

    /// Inserts a member at this index, and returns the index.
    fn insert_at(&mut self, place: usize, name: &str, rule: MemberRule) -> usize {
        self.members.reserve_exact(1);
        self.members.insert(place, (name.into(), rule));
        place
    }

    /// The index of a member by name; `Err` has the index at which it would be inserted.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.members.binary_search_by(|(member, _)| (**member).cmp(name))
    }

    /// Whether nothing is pruned.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && !self.keeps_named_only
    }

    /// Whether only named members are kept: other members are pruned, and values that have no members, such as texts.
    pub fn keeps_named_only(&self) -> bool {
        self.keeps_named_only
    }

    /// The part of the member with this name that is pruned; `None` if nothing of the member is pruned.
    pub fn part(&self, name: &str) -> Option<&PrunedPart> {
        match self.place(name).map(|place| &self.members[place].1) {
            Ok(MemberRule::Prune(part)) => Some(part),
            Ok(MemberRule::Keep) => None,
            Err(_) => self.keeps_named_only.then_some(&PrunedPart::Whole),
        }
    }

    /// The named members of which something is pruned. If [`Self::keeps_named_only`], all members without a name here
    /// are pruned too.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &PrunedPart)> {
        self.members.iter().filter_map(|(name, rule)| match rule {
            MemberRule::Keep => None,
            MemberRule::Prune(part) => Some((&**name, part)),
        })
    }

    /// Whether the label of this key is pruned.
    pub fn hides_label(&self, key: &str) -> bool {
        let labels = ["metadata", "labels", key].iter().try_fold(self, |prune, name| match prune.part(name) {
            // `Err` ends the search, with the result.
            Some(PrunedPart::Inside(inside)) => Ok(inside),
            Some(PrunedPart::Whole) => Err(true),
            None => Err(false),
        });
        // The value of a label is a text. It is pruned if only members of it are kept, because it has no members.
        labels.map_or_else(|is_hidden| is_hidden, Prune::keeps_named_only)
    }

    /// Prunes an object. `places` are offsets in its bytes at which a value begins or ends, or within a value of which
    /// nothing is pruned. Returns the pruned object, and the corresponding offsets in it; `None` for an offset in a
    /// pruned part.
    ///
    /// # Errors
    /// The bytes are not JSON, or nest deeper than an API server stores.
    pub fn apply<const COUNT: usize>(
        &self,
        object: &[u8],
        places: [usize; COUNT],
    ) -> Result<(Vec<u8>, [Option<usize>; COUNT]), InvalidObject> {
        let mut copy = PrunedCopy { bytes: Vec::with_capacity(object.len()), places, mapped: [None; COUNT] };
        self.write(object, &mut copy)?;
        Ok((copy.bytes, copy.mapped))
    }

    /// Writes the pruned object to `copy`. Reads each byte once. The function has a stack of open containers instead of
    /// recursion, because objects can be nested too deeply for recursion.
    fn write<const COUNT: usize>(&self, object: &[u8], copy: &mut PrunedCopy<COUNT>) -> Result<(), SyntaxError> {
        let mut cursor = Cursor::new(object);
        cursor.space();
        let mut open: Vec<Open<'_>> = Vec::with_capacity(8);
        // What is pruned of the next value.
        let mut loss =
            Loss { named: Some(self), copies: if self.is_empty() { DataCopy::None } else { DataCopy::Object(self) } };
        loop {
            // A value begins here.
            let start = cursor.position();
            match cursor.peek() {
                Some(bracket @ (b'{' | b'[')) if !loss.is_nothing() => {
                    if open.len() >= MAX_DEPTH {
                        return Err(cursor.error(TOO_DEEP));
                    }
                    copy.map_position(start);
                    cursor.advance();
                    copy.bytes.push(bracket);
                    open.push(Open { loss, is_list: bracket == b'[', read: 0, written: 0 });
                }
                _ => {
                    cursor.skip_value(open.len())?;
                    copy.append_part(object, start..cursor.position());
                }
            }
            // Reads to the next value that is written: closes containers, and skips members and elements of which
            // everything is pruned.
            loss = loop {
                let depth = open.len();
                let Some(container) = open.last_mut() else {
                    cursor.space();
                    return if cursor.peek().is_some() { Err(cursor.error("the end of the object")) } else { Ok(()) };
                };
                let (bracket, goes_on) = if container.is_list { (b']', LIST_GOES_ON) } else { (b'}', OBJECT_GOES_ON) };
                if cursor.skip_closing(bracket) {
                    copy.bytes.push(bracket);
                    copy.map_position(cursor.position());
                    open.pop();
                    continue;
                }
                if container.read > 0 {
                    cursor.expect(b',', goes_on)?;
                    cursor.space();
                }
                container.read += 1;
                if container.is_list {
                    let loss = container.loss.of_element();
                    if loss.is_of_all(cursor.peek()) {
                        cursor.skip_value(depth)?;
                        continue;
                    }
                    container.write_separator(&mut copy.bytes);
                    break loss;
                }
                let start = cursor.position();
                let key = cursor.string("a key")?.raw;
                let name = unescape(key).ok_or(SyntaxError { offset: start, expected: "a key" })?;
                cursor.space();
                cursor.expect(b':', "a colon")?;
                cursor.space();
                let Some(loss) = container.loss.of_member(&name).filter(|loss| !loss.is_of_all(cursor.peek())) else {
                    cursor.skip_value(depth)?;
                    continue;
                };
                container.write_separator(&mut copy.bytes);
                copy.bytes.extend_from_slice(&object[start..cursor.position()]);
                break loss;
            };
        }
    }

    /// Whether the value at a path, or a part of it, is pruned. This includes `metadata.managedFields`, of which a part
    /// is pruned if anything is: it has copies of names of members.
    pub(super) fn touches(&self, steps: &[PathStep]) -> bool {
        self.names_part_of(steps) || (!self.is_empty() && copies::FIELDS.names_part_of(steps))
    }

    /// Whether a pruned path leads to the value at these steps, to something that contains it, or into it.
    fn names_part_of(&self, steps: &[PathStep]) -> bool {
        // All nodes of the tree to which the steps so far can lead. Each occurs once, although wildcards can lead to a
        // node in several ways.
        let mut places: Vec<&Prune> = vec![self];
        for step in steps {
            // A step to an element of a list has no name in the tree, so it stays at the same nodes.
            let (PathStep::Key(_) | PathStep::Any) = step else { continue };
            let mut next: Vec<&Prune> = Vec::new();
            for &place in &places {
                // A wildcard leads to any member of an object, or to an element of a list, which stays at the same
                // node.
                let (named, is_any) = match step {
                    PathStep::Key(name) => (place.part(name), false),
                    PathStep::Any | PathStep::Element(_) => (None, true),
                };
                if is_any && place.keeps_named_only {
                    return true;
                }
                let all = is_any.then(|| place.parts().map(|(_, part)| part)).into_iter().flatten();
                next.extend(is_any.then_some(place));
                for part in named.into_iter().chain(all) {
                    match part {
                        PrunedPart::Whole => return true,
                        PrunedPart::Inside(inside) => next.push(inside),
                    }
                }
            }
            next.sort_unstable_by_key(|place| std::ptr::from_ref::<Prune>(place));
            next.dedup_by_key(|place| std::ptr::from_ref::<Prune>(place));
            places = next;
        }
        places.iter().any(|place| !place.is_empty())
    }
}

/// Borrows each text.
fn as_texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// A pruned object that is being written, and the positions that are mapped from the original object to it.
struct PrunedCopy<const COUNT: usize> {
    /// The bytes of the pruned object so far.
    bytes: Vec<u8>,
    /// Positions in the original object.
    places: [usize; COUNT],
    /// The corresponding positions in `bytes`; `None` for positions in pruned parts, and until they are written.
    mapped: [Option<usize>; COUNT],
}

impl<const COUNT: usize> PrunedCopy<COUNT> {
    /// Appends a part of the original object without changes, and maps the positions in it.
    fn append_part(&mut self, object: &[u8], part: Range<usize>) {
        for (place, mapped) in self.places.iter().zip(&mut self.mapped) {
            if (part.start..=part.end).contains(place) {
                *mapped = Some(self.bytes.len() + place - part.start);
            }
        }
        self.bytes.extend_from_slice(&object[part]);
    }

    /// Maps a position in the original object to the current end of `bytes`.
    fn map_position(&mut self, position: usize) {
        for (place, mapped) in self.places.iter().zip(&mut self.mapped) {
            if *place == position {
                *mapped = Some(self.bytes.len());
            }
        }
    }
}

/// What is pruned of one value while an object is written.
#[derive(Clone, Copy)]
struct Loss<'p> {
    /// The node of the tree for the value; `None` if no path prunes anything of the value.
    named: Option<&'p Prune>,
    /// The copies of pruned data that the value can hold.
    copies: DataCopy<'p>,
}

impl<'p> Loss<'p> {
    /// Whether the value remains as it is.
    fn is_nothing(self) -> bool {
        self.named.is_none() && matches!(self.copies, DataCopy::None)
    }

    /// Whether a value that begins with the byte `first` is pruned as a whole. This is the case if only members of the
    /// value are kept, and the value is not an object or a list.
    fn is_of_all(self, first: Option<u8>) -> bool {
        self.named.is_some_and(Prune::keeps_named_only) && !matches!(first, Some(b'{' | b'['))
    }

    /// What is pruned of the member with this name; `None` if the whole member is pruned.
    fn of_member(self, name: &str) -> Option<Loss<'p>> {
        let named = match self.named.and_then(|prune| prune.part(name)) {
            Some(PrunedPart::Whole) => return None,
            Some(PrunedPart::Inside(prune)) => Some(prune),
            None => None,
        };
        Some(Loss { named, copies: self.copies.of_member(name)? })
    }

    /// What is pruned of each element of the list.
    fn of_element(self) -> Loss<'p> {
        Loss { named: self.named, copies: self.copies.of_element() }
    }
}

/// An object or a list that is being written without its pruned parts.
struct Open<'p> {
    /// What is pruned of the object or list.
    loss: Loss<'p>,
    /// Whether this is a list; otherwise it is an object.
    is_list: bool,
    /// The number of members or elements that were read.
    read: usize,
    /// The number of members or elements that were written.
    written: usize,
}

impl Open<'_> {
    /// Writes a comma if a member or element was written before, and counts the next one.
    fn write_separator(&mut self, out: &mut Vec<u8>) {
        if self.written > 0 {
            out.push(b',');
        }
        self.written += 1;
    }
}
