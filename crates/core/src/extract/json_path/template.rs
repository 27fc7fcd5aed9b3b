//! A template as data.

/// Filters in filters; reading and following a template recurses as deep. Quotes make more than two levels hard to
/// write.
pub(super) const MAX_LEVELS: usize = 8;

/// A template, such as `.spec.color` or `.status.conditions[?(@.type=="Ready")].status`.
///
/// Braces in the text end and begin actions. Only the results of the first action are shown, but an error in any of
/// them is an error.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    pub(super) actions: Vec<Steps>,
}

/// Steps from one set of values to the next.
pub(in crate::extract) type Steps = Vec<PathNode>;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::extract) enum PathNode {
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
    Union(Vec<Steps>),
    /// A literal of the template.
    Literal(Literal),
    /// `range`, with which an API server's results depend on the past.
    Range,
    /// `end` and words without meaning, which are errors when they are followed.
    Word(Word),
}

/// A literal of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
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
pub(in crate::extract) enum Word {
    /// There is no range that it could end.
    End,
    /// Any other.
    Unknown,
}

/// `[first:end:step]`; counted from the end if negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extract) struct Slice {
    pub(in crate::extract) first: Option<i64>,
    pub(in crate::extract) end: SliceEnd,
    pub(in crate::extract) step: Option<i64>,
}

/// Before which element a slice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extract) enum SliceEnd {
    /// The end of the list.
    Open,
    /// The element at this index.
    At(i64),
    /// The one behind the first: the slice is an index.
    Next,
}

/// `[?(left operator right)]`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::extract) struct Filter {
    pub(in crate::extract) left: Steps,
    pub(in crate::extract) test: Test,
}

/// The condition of a filter on its left side.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::extract) enum Test {
    /// Tests that the path has results.
    Exists,
    /// That its only result compares so with the only result of another list.
    Compares(ComparisonOperator, Steps),
    /// An operator that does not exist, which is noticed when there is a result on both sides.
    Unknown(Steps),
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Why a template is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// The text ends, or the line does.
    #[error("a brace is not closed")]
    Action,
    /// A character that begins nothing.
    #[error("{0:?} has no meaning at this position")]
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
    /// An invalid escape in quotes.
    #[error("an escape in quotes is not valid")]
    Escape,
    /// Digits, dots and a sign that are no number.
    #[error("{0} is not a number")]
    Number(String),
    /// An invalid index in brackets.
    #[error("[{0}] is not an index, a slice or a name in single quotes")]
    Index(String),
    /// `....`
    #[error("one .. follows another")]
    Recursive,
    /// Not an error upstream.
    #[error("filters are nested deeper than {MAX_LEVELS} levels")]
    Levels,
}

impl JsonPath {
    pub(in crate::extract) fn actions(&self) -> &[Steps] {
        &self.actions
    }
}
