//! JSONPath templates as the API server reads those of printer columns: client-go `util/jsonpath`, which apiextensions
//! `registry/customresource/tableconvertor` puts in braces and follows with `AllowMissingKeys`.
//!
//! Map: `parse` reads a template (`parser.go`), with the escapes of `unquote`; `search` follows it in a [`super::tree::Tree`] within a
//! bound (`jsonpath.go`); `compare` is the comparisons of filters (`third_party/forked/golang/template`).
//!
//! What is the same is tested against that code with random templates and objects (`e2e/tests/it/printers/json_path.rs`). Differences:
//!
//! - Go visits the members of an object in random order. Here they are visited in the order of their names.
//! - The results of a template with `range` depend on the objects that the API server has shown before, and are an error from the
//!   second object on. Here they are always one.
//! - Letters outside of ASCII are those of Unicode's property Alphabetic, which has some more than Go's category L.
//! - Filters in filters are read to [`MAX_LEVELS`], and a search visits a bounded number of values: see [`search::Search`].
//!
//! How a result is shown in a cell is `server`'s. RFC 9535 paths are read in [`super::extra`].

pub(crate) mod compare;
mod parse;
pub(crate) mod search;
mod unquote;

use super::prune::{Part, Prune};
use crate::crd::Crd;
use crate::model::quote;

/// Filters in filters; reading and following a template recurses as deep. Quotes make more than two levels hard to write.
pub(crate) const MAX_LEVELS: usize = 8;

/// A template, such as `.spec.color` or `.status.conditions[?(@.type=="Ready")].status`.
///
/// Braces in the text end and begin actions. Only the results of the first action are shown, but an error in any of them is an error.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    actions: Vec<List>,
}

/// Steps from one set of values to the next.
pub(super) type List = Vec<Node>;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Members of this name.
    Field(String),
    /// All members, elements, or bytes of a text.
    Wildcard,
    /// The value and all in it that is not empty.
    Recursive,
    /// Elements of a list.
    Slice(Slice),
    /// Elements of a list that pass.
    Filter(Box<Filter>),
    /// The results of each, one after another.
    Union(Vec<List>),
    /// A value that stands in the template.
    Literal(Literal),
    /// `range`, with which an API server's results depend on the past.
    Range,
    /// `end` and words without meaning, which are errors when they are followed.
    Word(Word),
}

/// A value that stands in a template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    /// Bytes, because escapes can make any.
    Text(Vec<u8>),
    /// Go's int, which a cell does not take for an integer.
    Int(i64),
    /// Such as `1.5`.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
}

/// A word that cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// There is no range that it could end.
    End,
    /// Any other.
    Unknown,
}

/// `[first:end:step]`; counted from the end if negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) first: Option<i64>,
    pub(super) end: End,
    pub(super) step: Option<i64>,
}

/// Before which element a slice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The end of the list.
    Open,
    /// This one.
    At(i64),
    /// The one behind the first: the slice is an index.
    Next,
}

/// `[?(left operator right)]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub(super) left: List,
    pub(super) test: Test,
}

/// What a filter asks of its left side.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// That it has results.
    Exists,
    /// That its only result compares so with the only result of another list.
    Compares(Operator, List),
    /// An operator that does not exist, which is noticed when there is a result on both sides.
    Unknown(List),
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a template is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The text ends, or the line does.
    #[error("a brace is not closed")]
    Action,
    /// A character that begins nothing.
    #[error("{0:?} has no meaning where it stands")]
    Letter(char),
    /// No `]` on the line.
    #[error("a bracket is not closed")]
    Bracket,
    /// No `)]` on the line.
    #[error("a filter is not closed with )]")]
    Filter,
    /// No second quote on the line.
    #[error("a quote is not closed")]
    Quote,
    /// In quotes.
    #[error("an escape in quotes is not valid")]
    Escape,
    /// Digits, dots and a sign that are no number.
    #[error("{0} is no number")]
    Number(String),
    /// In a bracket.
    #[error("[{0}] is no index, no slice and no name in single quotes")]
    Index(String),
    /// `....`
    #[error("one .. follows another")]
    Recursive,
    /// Not an error upstream.
    #[error("filters are nested deeper than {MAX_LEVELS} levels")]
    Levels,
}

impl JsonPath {
    /// Reads a template without the braces around it, as a CustomResourceDefinition has it.
    ///
    /// # Errors
    /// Where client-go returns one. The API server then shows neither the column nor those behind it.
    pub fn parse(text: &str) -> Result<JsonPath, Malformed> {
        parse::actions(text, 0).map(|actions| JsonPath { actions })
    }

    /// Whether it looks at what is left out of objects, or may.
    pub fn looks_at(&self, prune: &Prune) -> bool {
        !prune.is_empty() && self.actions.iter().any(|action| looks(action, &mut vec![prune]))
    }

    pub(super) fn actions(&self) -> &[List] {
        &self.actions
    }
}

/// One sentence for each version of a definition that has a column whose path is not valid.
pub fn unreadable_columns(crd: &Crd) -> Vec<String> {
    let versions = crd.versions.iter().enumerate().filter_map(|(version, found)| {
        let mut columns = found.printer_columns.iter().enumerate();
        columns.find_map(|(column, found)| {
            let error = JsonPath::parse(&found.json_path).err()?;
            Some(format!(
                "spec.versions[{version}].additionalPrinterColumns[{column}].jsonPath: {}: {error}; as on the API server, neither this \
                 column is shown nor those behind it",
                quote(&found.json_path)
            ))
        })
    });
    versions.collect()
}

/// Whether a list looks at what is left out. `places` are those in the pruned paths to which the values may belong; elements of a list
/// belong to the place of the list.
fn looks<'p>(list: &List, places: &mut Vec<&'p Prune>) -> bool {
    for node in list {
        match node {
            Node::Field(name) => {
                let parts: Vec<&Part> = places.iter().filter_map(|place| place.part(name)).collect();
                let Some(inside) = insides(parts) else { return true };
                *places = inside;
            }
            Node::Wildcard => {
                let parts = places.iter().flat_map(|place| place.parts()).map(|(_, part)| part).collect();
                let Some(inside) = insides(parts) else { return true };
                places.extend(inside);
            }
            // Something left out is somewhere below.
            Node::Recursive if !places.is_empty() => return true,
            Node::Recursive | Node::Slice(_) | Node::Range | Node::Word(_) => {}
            Node::Filter(filter) => {
                let right = match &filter.test {
                    Test::Exists => None,
                    Test::Compares(_, right) | Test::Unknown(right) => Some(right),
                };
                if std::iter::once(&filter.left).chain(right).any(|side| looks(side, &mut places.clone())) {
                    return true;
                }
            }
            Node::Union(lists) => {
                let mut all = Vec::new();
                for list in lists {
                    let mut places = places.clone();
                    if looks(list, &mut places) {
                        return true;
                    }
                    all.extend(places);
                }
                *places = all;
            }
            Node::Literal(_) => places.clear(),
        }
        // Each once: many ways can lead to a place.
        places.sort_unstable_by_key(|place| std::ptr::from_ref::<Prune>(place));
        places.dedup_by_key(|place| std::ptr::from_ref::<Prune>(place));
    }
    false
}

/// What is left out inside of these; `None` when one of them is left out as a whole.
fn insides(parts: Vec<&Part>) -> Option<Vec<&Prune>> {
    let inside = parts.into_iter().map(|part| match part {
        Part::Whole => None,
        Part::Inside(inside) => Some(inside),
    });
    inside.collect()
}
