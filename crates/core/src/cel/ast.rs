//! The syntax tree of an expression: nodes in one list that refer to each other by number.
//!
//! Macros are nodes, not expansions: errors, costs and plans can then name what the author wrote.

use std::ops::Range;
use std::sync::Arc;

/// The number of a node in its [`Ast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExprId(u32);

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CelLiteral {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// An operator with two operands, except `&&` and `||`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BinaryOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl BinaryOperator {
    /// The name of the operator as a function, as error messages have it.
    pub(super) fn function(self) -> &'static str {
        match self {
            BinaryOperator::Equal => "_==_",
            BinaryOperator::NotEqual => "_!=_",
            BinaryOperator::Less => "_<_",
            BinaryOperator::LessOrEqual => "_<=_",
            BinaryOperator::Greater => "_>_",
            BinaryOperator::GreaterOrEqual => "_>=_",
            BinaryOperator::In => "@in",
            BinaryOperator::Add => "_+_",
            BinaryOperator::Subtract => "_-_",
            BinaryOperator::Multiply => "_*_",
            BinaryOperator::Divide => "_/_",
            BinaryOperator::Remainder => "_%_",
        }
    }
}

/// A macro over the elements of a list or the keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `map`, `transformList`.
    Map,
    Filter,
    /// `transformMap`.
    TransformMap,
    /// `transformMapEntry`.
    TransformMapEntry,
    /// `sortBy`.
    SortBy,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Literal(CelLiteral),
    Name(Arc<str>),
    /// `of.field`, or `of.?field` if it is optional.
    Select {
        of: ExprId,
        field: Arc<str>,
        is_optional: bool,
    },
    /// `has(of.field)`.
    Has {
        of: ExprId,
        field: Arc<str>,
    },
    /// `of[key]`, or `of[?key]` if it is optional.
    Index {
        of: ExprId,
        key: ExprId,
        is_optional: bool,
    },
    /// `function(arguments)` or `target.function(arguments)`.
    Call {
        function: Arc<str>,
        target: Option<ExprId>,
        arguments: Vec<ExprId>,
    },
    /// Elements, and whether each is optional.
    List(Vec<(ExprId, bool)>),
    /// Keys, values, and whether each entry is optional.
    Map(Vec<(ExprId, ExprId, bool)>),
    Not(ExprId),
    Negate(ExprId),
    /// Two or more operands.
    And(Vec<ExprId>),
    /// Two or more operands.
    Or(Vec<ExprId>),
    Binary(BinaryOperator, ExprId, ExprId),
    Conditional(ExprId, ExprId, ExprId),
    Fold {
        kind: FoldKind,
        range: ExprId,
        /// One or two variables: the element or key; or the index or key, and the value.
        variables: Vec<Arc<str>>,
        /// The condition of each kind except `map` and the transformations with two arguments.
        filter: Option<ExprId>,
        /// The result for an element, of `map` and the transformations.
        result: Option<ExprId>,
    },
    /// `target.optMap(variable, body)`, or optFlatMap if the body is optional itself.
    OptionalMap {
        target: ExprId,
        variable: Arc<str>,
        body: ExprId,
        is_flat: bool,
    },
}

/// A node: an expression and its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AstNode {
    pub(super) expr: Expr,
    /// The byte offset that errors name: that of the operator, the point or the bracket.
    pub(super) position: usize,
    /// The part of the text that the expression takes.
    pub(super) range: Range<usize>,
    /// The number of nodes on the longest way down, this one included.
    pub(super) levels: usize,
}

/// A syntax tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ast {
    nodes: Vec<AstNode>,
    pub(super) root: ExprId,
    pub(super) text: Arc<str>,
}

impl Ast {
    /// No nodes yet; the root is set when the text has been parsed.
    pub(super) fn new(text: &str) -> Ast {
        Ast { nodes: Vec::new(), root: ExprId(0), text: text.into() }
    }

    /// Appends a node and returns its number. A text has fewer nodes than bytes, and [`super::parse`] bounds its
    /// length.
    pub(super) fn push(&mut self, node: AstNode) -> ExprId {
        self.nodes.push(node);
        ExprId(u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX))
    }

    pub(super) fn node(&self, id: ExprId) -> &AstNode {
        &self.nodes[id.index()]
    }

    pub(super) fn node_mut(&mut self, id: ExprId) -> &mut AstNode {
        &mut self.nodes[id.index()]
    }

    pub(super) fn expr(&self, id: ExprId) -> &Expr {
        &self.node(id).expr
    }

    /// The numbers of all nodes. A node has a larger number than those below it.
    pub(super) fn ids(&self) -> impl Iterator<Item = ExprId> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(ExprId)
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The text of a sub-expression.
    pub(super) fn text_of(&self, id: ExprId) -> &str {
        self.text.get(self.node(id).range.clone()).unwrap_or_default()
    }
}

impl ExprId {
    /// The number as an index of a list with an element for each node.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}
