//! Prunes parts of objects that a View does not show.
//!
//! A View names the paths to prune, the paths to keep, or both: then it shows what is kept and not pruned. A path
//! consists of member names. It continues in each element of a list, so the position in a list never makes a value
//! visible. The remaining bytes and their order do not change. Copies of the pruned data inside the object are pruned
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

/// What is pruned of a value: of the members that paths name, and of all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// The named members, sorted by name. Thousands of Views can have hundreds of names each, and a map takes half a
    /// kilobyte for one name.
    members: Vec<(Box<str>, MemberRule)>,
    /// Whether members without a name in `members` are pruned, and values that have no members, such as texts. `true`
    /// for a value that contains kept paths.
    keeps_named_only: bool,
}

/// What is pruned of a named member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MemberRule {
    /// Nothing: the member is kept.
    Keep,
    /// How much of it.
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

    /// The same, and `kept` has the paths of which everything else is pruned. Without any, nothing else is. Of a path
    /// in both lists, nothing remains.
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

    /// Keeps the parts at these paths, and what identifies an object. Unlike in a View, copies of other parts that are
    /// kept remain: the caller may read everything, and only chooses what to receive.
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

    /// Keeps only what identifies an object.
    pub fn identifying() -> Prune {
        let mut prune = Prune { members: Vec::new(), keeps_named_only: true };
        for names in ALWAYS_KEPT {
            prune.keep(names);
        }
        prune
    }

    /// What both prune. It recurses once for each name of a path, of which there are at most [`MOST_NAMES`].
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

    /// What is pruned of the member of this name.
    fn rule(&self, name: &str) -> MemberRule {
        match self.place(name) {
            Ok(place) => self.members[place].1.clone(),
            Err(_) if self.keeps_named_only => MemberRule::Prune(PrunedPart::Whole),
            Err(_) => MemberRule::Keep,
        }
    }

    /// The same paths, and `metadata.managedFields`.
    #[must_use]
    pub fn and_managed_fields(&self) -> Prune {
        let mut prune = self.clone();
        prune.insert(&["metadata", "managedFields"]);
        prune
    }

    /// Adds a path of member names to prune. A path to the whole of a part replaces longer ones.
    ///
    /// It recurses once for each name, of which a path of a View has at most [`MOST_NAMES`].
    fn insert(&mut self, names: &[&str]) {
        let Some((first, rest)) = names.split_first() else { return };
        let place = match self.place(first) {
            // Not kept, so it is pruned already.
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

    /// Adds a path of member names to keep, before any path to prune. A path to the whole of a part replaces longer
    /// ones. It recurses as [`Self::insert`] does.
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

    /// Whether members without a name here are pruned, and values that have no members, such as texts.
    pub fn keeps_named_only(&self) -> bool {
        self.keeps_named_only
    }

    /// The part of the member of this name that is pruned; `None` if the member remains whole.
    pub fn part(&self, name: &str) -> Option<&PrunedPart> {
        match self.place(name).map(|place| &self.members[place].1) {
            Ok(MemberRule::Prune(part)) => Some(part),
            Ok(MemberRule::Keep) => None,
            Err(_) => self.keeps_named_only.then_some(&PrunedPart::Whole),
        }
    }

    /// The members of which something is pruned, by name. If [`Self::keeps_named_only`], all members that it does not
    /// name are pruned too.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &PrunedPart)> {
        self.members.iter().filter_map(|(name, rule)| match rule {
            MemberRule::Keep => None,
            MemberRule::Prune(part) => Some((&**name, part)),
        })
    }

    /// Whether the label of this key is pruned.
    pub fn hides_label(&self, key: &str) -> bool {
        let labels = ["metadata", "labels", key].iter().try_fold(self, |prune, name| match prune.part(name) {
            // `Err` ends the search.
            Some(PrunedPart::Inside(inside)) => Ok(inside),
            Some(PrunedPart::Whole) => Err(true),
            None => Err(false),
        });
        // A label has no parts: it is pruned if only parts of it are kept.
        labels.map_or_else(|is_hidden| is_hidden, Prune::keeps_named_only)
    }

    /// Prunes an object. `places` are positions in its bytes where a value begins or ends, or within a value that
    /// stays. Returns the pruned object, and these positions in it; `None` for those in what is pruned.
    ///
    /// # Errors
    /// The bytes are not JSON, or nest deeper than an API server stores.
    pub fn apply<const COUNT: usize>(
        &self,
        object: &[u8],
        places: [usize; COUNT],
    ) -> Result<(Vec<u8>, [Option<usize>; COUNT]), InvalidObject> {
        let mut copy = PrunedCopy { bytes: Vec::with_capacity(object.len()), places, found: [None; COUNT] };
        self.write(object, &mut copy)?;
        Ok((copy.bytes, copy.found))
    }

    /// Writes the pruned object to `copy`. Reads each byte once, and has its own stack of open containers, because
    /// objects can be too deep for recursion.
    fn write<const COUNT: usize>(&self, object: &[u8], copy: &mut PrunedCopy<COUNT>) -> Result<(), SyntaxError> {
        let mut cursor = Cursor::new(object);
        cursor.space();
        let mut open: Vec<Open<'_>> = Vec::with_capacity(8);
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
            // Reads up to the next value that is written.
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

    /// Whether the value at a path, or a part of it, is pruned; also as a copy in metadata.managedFields.
    pub(super) fn touches(&self, steps: &[PathStep]) -> bool {
        self.names_part_of(steps) || (!self.is_empty() && copies::FIELDS.names_part_of(steps))
    }

    /// Whether a pruned path leads to the value at these steps, to something that contains it, or into it.
    fn names_part_of(&self, steps: &[PathStep]) -> bool {
        // All places in the pruned paths that the steps so far can lead to. Each occurs once, because wildcards can
        // lead to a place in many ways.
        let mut places: Vec<&Prune> = vec![self];
        for step in steps {
            // An element of a list has no name here.
            let (PathStep::Key(_) | PathStep::Any) = step else { continue };
            let mut next: Vec<&Prune> = Vec::new();
            for &place in &places {
                // A wildcard is an element of a list, which has no name either, or any member of an object.
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

/// A pruned object that is being written.
struct PrunedCopy<const COUNT: usize> {
    bytes: Vec<u8>,
    /// Positions in the original object.
    places: [usize; COUNT],
    /// The corresponding positions in `bytes`; `None` for those in pruned parts.
    found: [Option<usize>; COUNT],
}

impl<const COUNT: usize> PrunedCopy<COUNT> {
    /// Appends a part of the original object as it is, and maps the positions in it.
    fn append_part(&mut self, object: &[u8], part: Range<usize>) {
        for (place, found) in self.places.iter().zip(&mut self.found) {
            if (part.start..=part.end).contains(place) {
                *found = Some(self.bytes.len() + place - part.start);
            }
        }
        self.bytes.extend_from_slice(&object[part]);
    }

    /// Maps a position in the original object to the end of the written bytes.
    fn map_position(&mut self, position: usize) {
        for (place, found) in self.places.iter().zip(&mut self.found) {
            if *place == position {
                *found = Some(self.bytes.len());
            }
        }
    }
}

/// The parts of a value that are pruned.
#[derive(Clone, Copy)]
struct Loss<'p> {
    /// The pruned paths that continue in the value; `None` if none does.
    named: Option<&'p Prune>,
    /// The copies of pruned data that the value can hold.
    copies: DataCopy<'p>,
}

impl<'p> Loss<'p> {
    /// Whether the value remains as it is.
    fn is_nothing(self) -> bool {
        self.named.is_none() && matches!(self.copies, DataCopy::None)
    }

    /// Whether all of a value that begins with this byte is pruned: only members of the value are kept, and it has
    /// none.
    fn is_of_all(self, first: Option<u8>) -> bool {
        self.named.is_some_and(Prune::keeps_named_only) && !matches!(first, Some(b'{' | b'['))
    }

    /// The parts of the member of this name that are pruned; `None`: the whole member is pruned.
    fn of_member(self, name: &str) -> Option<Loss<'p>> {
        let named = match self.named.and_then(|prune| prune.part(name)) {
            Some(PrunedPart::Whole) => return None,
            Some(PrunedPart::Inside(prune)) => Some(prune),
            None => None,
        };
        Some(Loss { named, copies: self.copies.of_member(name)? })
    }

    /// The parts of an element of a list that are pruned.
    fn of_element(self) -> Loss<'p> {
        Loss { named: self.named, copies: self.copies.of_element() }
    }
}

/// A container that is being written without its pruned parts.
struct Open<'p> {
    loss: Loss<'p>,
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
