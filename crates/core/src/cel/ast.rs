//! The syntax tree of an expression: nodes in one list that refer to each other by number.
//!
//! A macro, such as `list.all(x, condition)`, is one node ([`Expr::Fold`]). cel-go expands it into a loop instead. With
//! one node, errors, costs and plans can name what the author wrote.

use std::ops::Range;
use std::sync::Arc;

/// The number of a node in its [`Ast`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExprId(u32);

/// The value of a literal.
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
    /// The name of the operator as a function, which the error messages of cel-go use.
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

/// A macro over the elements of a list or the entries of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoldKind {
    /// `all`: whether the condition holds for each element.
    All,
    /// `exists`: whether it holds for some element.
    Exists,
    /// `exists_one`, `existsOne`: whether it holds for exactly one element.
    ExistsOne,
    /// `map`, `transformList`: the list of the results.
    Map,
    /// `filter`: the list of the elements for which the condition holds.
    Filter,
    /// `transformMap`: the map with the same keys, or indexes of a list as keys, and the results as values.
    TransformMap,
    /// `transformMapEntry`: the map of all entries of the results, which are maps.
    TransformMapEntry,
    /// `sortBy`: the list in the order of the results.
    SortBy,
}

/// An expression. Its parts are other nodes of the same [`Ast`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Literal(CelLiteral),
    /// The name of a variable or a type. A name with a point in front is not that of a macro's variable.
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
    /// `[a, ?b]`: the elements, and whether each is optional. An optional element without a value is left out.
    List(Vec<(ExprId, bool)>),
    /// `{key: value, ?key: value}`: keys, values, and whether each entry is optional.
    Map(Vec<(ExprId, ExprId, bool)>),
    /// `!a`.
    Not(ExprId),
    /// `-a`, where `a` is not a number literal.
    Negate(ExprId),
    /// A chain `a && b && c`: two or more operands.
    And(Vec<ExprId>),
    /// A chain `a || b || c`: two or more operands.
    Or(Vec<ExprId>),
    /// The operator, the left operand and the right operand.
    Binary(BinaryOperator, ExprId, ExprId),
    /// `condition ? then : otherwise`.
    Conditional(ExprId, ExprId, ExprId),
    /// A macro: `range.name(variables, filter, result)`, where the filter or the result can be missing.
    Fold {
        kind: FoldKind,
        /// The list or map.
        range: ExprId,
        /// One or two variables. One is the element of a list or the key of a map. Two are the index and the element,
        /// or the key and the value.
        variables: Vec<Arc<str>>,
        /// The condition, which selects elements. `None` for `sortBy`, and for `map` and the transformations if they
        /// are written without one.
        filter: Option<ExprId>,
        /// The result for an element, of `map` and the transformations, or the key by which `sortBy` sorts the element.
        result: Option<ExprId>,
    },
    /// `target.optMap(variable, body)`, or `optFlatMap` (`is_flat`), whose body is an optional value itself.
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
    /// The byte offset that errors report: that of the operator, the point or the bracket; otherwise that of the start.
    pub(super) position: usize,
    /// The bytes of the text that the expression takes.
    pub(super) range: Range<usize>,
    /// The height of the tree below the node: the number of nodes on the longest way down, including this node.
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
    /// A tree without nodes. The parser adds them, and sets the root at the end.
    pub(super) fn new(text: &str) -> Ast {
        Ast { nodes: Vec::new(), root: ExprId(0), text: text.into() }
    }

    /// Appends a node and returns its number. The number fits into 32 bits: a text has at most as many nodes as bytes,
    /// and [`super::parse`] bounds its length.
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

    /// The expression of a node.
    pub(super) fn expr(&self, id: ExprId) -> &Expr {
        &self.node(id).expr
    }

    /// The numbers of all nodes, in ascending order. A node has a larger number than the nodes below it. The only
    /// exception is a chain of `&&` or `||`: its third and later operands have larger numbers.
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
