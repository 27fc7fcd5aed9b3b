//! Objects without some of their parts: what a View leaves out.
//!
//! A path is member names; where a list stands on the way, each of its elements is meant, so that nothing stays visible because of
//! where it stands. What is left keeps its bytes and its order. Which fields a pruned object still has is
//! [`super::Plan::pruned`]'s; nothing is parsed to a value here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::plan::{Unreadable, each_member};
use super::scan::Cursor;
use super::trie::Step;
use super::value;

/// What is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune(BTreeMap<String, Part>);

/// What is left out of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// With all that is in it.
    Whole,
    /// Some of what is in it.
    Inside(Prune),
}

impl Prune {
    /// Of paths such as `.metadata.managedFields`: a dot before each member's name.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Prune {
        let mut prune = Prune::default();
        for path in paths {
            let names: Vec<&str> = path.trim_start_matches('.').split('.').collect();
            prune.insert(&names);
        }
        prune
    }

    fn insert(&mut self, names: &[&str]) {
        let Some((first, rest)) = names.split_first() else { return };
        if rest.is_empty() {
            self.0.insert((*first).to_owned(), Part::Whole);
            return;
        }
        match self.0.entry((*first).to_owned()).or_insert_with(|| Part::Inside(Prune::default())) {
            Part::Whole => {}
            Part::Inside(inside) => inside.insert(rest),
        }
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether what stands at a path, member by member, is left out.
    pub fn leaves_out<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> bool {
        let mut prune = self;
        for name in names {
            match prune.0.get(name) {
                None => return false,
                Some(Part::Whole) => return true,
                Some(Part::Inside(inside)) => prune = inside,
            }
        }
        false
    }

    /// By member.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &Part)> {
        self.0.iter().map(|(name, part)| (&**name, part))
    }

    /// An object without it.
    ///
    /// # Errors
    /// Bytes that are no JSON object.
    pub fn apply(&self, object: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let mut out = Vec::with_capacity(object.len());
        self.write(object, &mut out)?;
        Ok(out)
    }

    /// Objects and lists are no deeper in here than a path is long.
    fn write(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), Unreadable> {
        match value.first() {
            Some(b'{') => {
                out.push(b'{');
                let begin = out.len();
                each_member(value, |member| {
                    let key = value::unescape(member.key).unwrap_or(Cow::Borrowed(""));
                    let part = self.0.get(&*key);
                    if part == Some(&Part::Whole) {
                        return Ok(());
                    }
                    if out.len() > begin {
                        out.push(b',');
                    }
                    match part {
                        Some(Part::Inside(inside)) => {
                            out.extend_from_slice(&value[member.whole.start..member.value.start]);
                            inside.write(member.value.of(value), out)
                        }
                        _ => {
                            out.extend_from_slice(member.whole.of(value));
                            Ok(())
                        }
                    }
                })?;
                out.push(b'}');
            }
            Some(b'[') => {
                out.push(b'[');
                let mut cursor = Cursor::new(value);
                cursor.advance();
                let mut is_first = true;
                while !cursor.closes(b']') {
                    if !is_first {
                        cursor.expect(b',', "a comma or the end of a list")?;
                        cursor.space();
                        out.push(b',');
                    }
                    is_first = false;
                    let start = cursor.position();
                    cursor.skip_value(1)?;
                    self.write(&value[start..cursor.position()], out)?;
                }
                out.push(b']');
            }
            _ => out.extend_from_slice(value),
        }
        Ok(())
    }

    /// Whether what stands at a path is left out, or a part of it is.
    pub(super) fn touches(&self, steps: &[Step]) -> bool {
        let names: Vec<&str> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Key(name) => Some(&**name),
                Step::Element(_) => None,
                // Any member, which may be one of those.
                Step::Any => Some("*"),
            })
            .collect();
        self.touches_names(&names)
    }

    fn touches_names(&self, names: &[&str]) -> bool {
        let Some((first, rest)) = names.split_first() else { return !self.is_empty() };
        let inside = |part: &Part, rest: &[&str]| match part {
            Part::Whole => true,
            Part::Inside(inside) => inside.touches_names(rest),
        };
        match *first {
            // Elements of a list, which have no name here, or members of an object.
            "*" => self.touches_names(rest) || self.0.values().any(|part| inside(part, rest)),
            name => self.0.get(name).is_some_and(|part| inside(part, rest)),
        }
    }
}
