//! A template as data.

/// The maximum number of filters within filters. Parsing and evaluating a template recurses as deep. More than two
/// levels are hard to write, because of their quotes.
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
    /// The value and all its descendants, without empty ones.
    Recursive,
    /// Elements of a list.
    Slice(Slice),
    /// The elements of a list that pass the filter.
    Filter(Box<Filter>),
    /// The results of each list of steps, one after another.
    Union(Vec<Steps>),
    /// A literal of the template.
    Literal(Literal),
    /// `range`: the results of an API server depend on the objects that it printed before.
    Range,
    /// `end` and words without meaning, which are errors when they are evaluated.
    Word(Word),
}

/// A literal of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// Bytes, because escapes can make any.
    Text(Vec<u8>),
    /// Go's int, which is not an integer in the cell of a table.
    Int(i64),
    /// Such as `1.5`.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
}

/// A word that is an error when it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extract) enum Word {
    /// `end`, without a `range` before it.
    End,
    /// Any other word.
    Unknown,
}

/// `[first:end:step]`. Negative numbers count from the end of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extract) struct Slice {
    pub(in crate::extract) first: Option<i64>,
    pub(in crate::extract) end: SliceEnd,
    pub(in crate::extract) step: Option<i64>,
}

/// The element before which a slice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extract) enum SliceEnd {
    /// The end of the list.
    Open,
    /// The element at this index.
    At(i64),
    /// The element after the first one: the slice is an index, such as `[0]`.
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
    /// The left side has results.
    Exists,
    /// The comparison of the only result of the left side with the only result of the right side is true.
    Compares(ComparisonOperator, Steps),
    /// The operator does not exist. This is only an error if both sides have a result.
    Unknown(Steps),
}

/// An operator of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The reason why a template is not valid.
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
    /// Digits, dots and a sign that are not a number.
    #[error("{0} is not a number")]
    Number(String),
    /// An invalid index in brackets.
    #[error("[{0}] is not an index, a slice or a name in single quotes")]
    Index(String),
    /// `..` follows another `..`.
    #[error("one .. follows another")]
    Recursive,
    /// Filters are nested too deep. This is not an error upstream.
    #[error("filters are nested deeper than {MAX_LEVELS} levels")]
    Levels,
}

impl JsonPath {
    pub(in crate::extract) fn actions(&self) -> &[Steps] {
        &self.actions
    }
}
