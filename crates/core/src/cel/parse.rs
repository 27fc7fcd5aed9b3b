//! Parses the text of an expression into its tree (the grammar of CEL's language definition).
//!
//! Length and nesting are bounded here, so that every later walk over the tree may be recursive. Chains of `&&` and
//! `||` are one node each, so that they may be long. Other chains of operators count as nesting. Names and types are
//! checked in [`super::check`].

use std::sync::Arc;

use super::ast::{Ast, AstNode, BinaryOperator, CelLiteral, Expr, ExprId, FoldKind};
use super::error::CelError;
use super::lex::{CelToken, CelTokenKind, excerpt, is_reserved, next_token};

/// The maximum length of an expression in bytes. It is the limit of Kubernetes for a CEL selector of devices
/// (resource.k8s.io, CELSelectorExpressionMaxLength). Checking and planning an expression take time in proportion to
/// its length times its levels.
pub const MAX_LENGTH: usize = 10 << 10;

/// The maximum height of a syntax tree. Nested brackets add levels, and so does each operand of a chain such as `a.b.c`
/// or `1+2+3`. The operands of one chain of `&&` or of `||` are on one level.
pub const MAX_LEVELS: usize = 100;

/// The maximum number of nested brackets and conditionals. The parser recurses for each. One recursion takes 12 KiB of
/// stack in a build without optimization.
pub const MAX_NESTING: usize = 50;

/// Parses an expression, whose tree has at most [`MAX_LEVELS`] levels.
///
/// # Errors
/// A syntax error, or an expression above [`MAX_LENGTH`], [`MAX_LEVELS`] or [`MAX_NESTING`].
pub(super) fn parse(text: &str) -> Result<Ast, CelError> {
    if text.len() > MAX_LENGTH {
        let message = format!("the expression has {} bytes, more than the limit of {MAX_LENGTH}", text.len());
        return Err(CelError::at("", 0, message));
    }
    let token = next_token(text, 0)?;
    let mut parser = Parser { text, token, end: 0, ast: Ast::new(text), nesting: 0 };
    let root = parser.expression()?;
    match parser.token.kind {
        CelTokenKind::End => {
            parser.ast.root = root;
            Ok(parser.ast)
        }
        _ => Err(parser.unexpected("an operator or the end of the expression")),
    }
}

/// A parser at a token.
struct Parser<'t> {
    text: &'t str,
    /// The next token, not consumed yet.
    token: CelToken,
    /// The byte offset of the end of the last consumed token.
    end: usize,
    ast: Ast,
    /// The number of calls of [`Parser::expression`] in progress. It is not reset after an error, which ends the
    /// parsing.
    nesting: usize,
}

/// How tightly an operator with two operands binds, from 1 for `||`.
type Precedence = u8;

/// An operator with two operands, by the node that it makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Infix {
    Or,
    And,
    Operator(BinaryOperator),
}

/// The operator with two operands that a token is, with its precedence; `None` for other tokens.
fn infix(kind: &CelTokenKind) -> Option<(Precedence, Infix)> {
    use BinaryOperator as B;
    let operator = |precedence, operator| Some((precedence, Infix::Operator(operator)));
    match kind {
        CelTokenKind::In => operator(3, B::In),
        CelTokenKind::Sign(sign) => match *sign {
            "||" => Some((1, Infix::Or)),
            "&&" => Some((2, Infix::And)),
            "==" => operator(3, B::Equal),
            "!=" => operator(3, B::NotEqual),
            "<" => operator(3, B::Less),
            "<=" => operator(3, B::LessOrEqual),
            ">" => operator(3, B::Greater),
            ">=" => operator(3, B::GreaterOrEqual),
            "+" => operator(4, B::Add),
            "-" => operator(4, B::Subtract),
            "*" => operator(5, B::Multiply),
            "/" => operator(5, B::Divide),
            "%" => operator(5, B::Remainder),
            _ => None,
        },
        CelTokenKind::Name(_)
        | CelTokenKind::Int(_)
        | CelTokenKind::Uint(_)
        | CelTokenKind::Double(_)
        | CelTokenKind::Text(_)
        | CelTokenKind::Bytes(_)
        | CelTokenKind::True
        | CelTokenKind::False
        | CelTokenKind::Null
        | CelTokenKind::End => None,
    }
}

impl Parser<'_> {
    /// Consumes the next token and returns it. Reads the token after it.
    fn advance(&mut self) -> Result<CelToken, CelError> {
        let next = next_token(self.text, self.token.end)?;
        let token = std::mem::replace(&mut self.token, next);
        self.end = token.end;
        Ok(token)
    }

    /// Whether the next token is this sign.
    fn is_at(&self, sign: &str) -> bool {
        matches!(&self.token.kind, CelTokenKind::Sign(found) if *found == sign)
    }

    /// Consumes the sign if it is next; returns whether it was.
    fn accept(&mut self, sign: &str) -> Result<bool, CelError> {
        let is_next = self.is_at(sign);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    /// Consumes the sign, which must be next.
    fn expect(&mut self, sign: &str) -> Result<(), CelError> {
        if self.accept(sign)? { Ok(()) } else { Err(self.unexpected(&format!("'{sign}'"))) }
    }

    /// The error for the next token, which cannot stand here. `expected` describes what could.
    fn unexpected(&self, expected: &str) -> CelError {
        let found = match self.token.kind {
            CelTokenKind::End => "<EOF>".to_owned(),
            _ => excerpt(&self.text[self.token.start..self.token.end]),
        };
        CelError::syntax(self.text, self.token.start, format_args!("mismatched input '{found}' expecting {expected}"))
    }

    /// The error for an expression that exceeds [`MAX_LEVELS`] or [`MAX_NESTING`].
    fn too_deep(&self, offset: usize, limit: usize) -> CelError {
        CelError::at(self.text, offset, format!("expression recursion limit exceeded: {limit}"))
    }

    /// Adds a node that takes the text from `start` up to the last consumed token. `children` are the nodes directly
    /// below the new one, and errors report the byte offset `position`.
    ///
    /// # Errors
    /// The tree has more than [`MAX_LEVELS`] levels.
    fn push(&mut self, expr: Expr, position: usize, start: usize, children: &[ExprId]) -> Result<ExprId, CelError> {
        let levels = 1 + children.iter().map(|child| self.ast.node(*child).levels).max().unwrap_or(0);
        if levels > MAX_LEVELS {
            return Err(self.too_deep(position, MAX_LEVELS));
        }
        Ok(self.ast.push(AstNode { expr, position, range: start..self.end, levels }))
    }

    /// Parses an expression: `a`, or `a ? b : c`, where `a` and `b` are not conditionals without brackets.
    fn expression(&mut self) -> Result<ExprId, CelError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.too_deep(self.token.start, MAX_NESTING));
        }
        let start = self.token.start;
        let mut id = self.operators(1)?;
        if self.is_at("?") {
            let position = self.advance()?.start;
            let then = self.operators(1)?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            id = self.push(Expr::Conditional(id, then, otherwise), position, start, &[id, then, otherwise])?;
        }
        self.nesting -= 1;
        Ok(id)
    }

    /// Parses operands and the operators with two operands between them whose precedence is at least `least`.
    fn operators(&mut self, least: Precedence) -> Result<ExprId, CelError> {
        let start = self.token.start;
        let mut left = self.unary()?;
        while let Some((precedence, operator)) = infix(&self.token.kind).filter(|(found, _)| *found >= least) {
            let position = self.advance()?.start;
            // All operators associate to the left, so the right operand has only operators that bind more tightly. This
            // recursion is at most five calls deep, because each has a higher precedence.
            let right = self.operators(precedence + 1)?;
            left = self.join(operator, left, right, position, start)?;
        }
        Ok(left)
    }

    /// The node of an operator with two operands. If `left` is already a chain of the same `&&` or `||`, the right
    /// operand is added to the chain. `position` is that of the operator, and `start` that of the left operand.
    fn join(
        &mut self,
        operator: Infix,
        left: ExprId,
        right: ExprId,
        position: usize,
        start: usize,
    ) -> Result<ExprId, CelError> {
        let levels = self.ast.node(right).levels + 1;
        let end = self.end;
        let chain = self.ast.node_mut(left);
        match (operator, &mut chain.expr) {
            (Infix::Or, Expr::Or(operands)) | (Infix::And, Expr::And(operands)) if levels <= MAX_LEVELS => {
                operands.push(right);
                chain.levels = chain.levels.max(levels);
                chain.range = start..end;
                return Ok(left);
            }
            // A new node. If it has too many levels, `push` returns the error.
            _ => {}
        }
        let expr = match operator {
            Infix::Or => Expr::Or(vec![left, right]),
            Infix::And => Expr::And(vec![left, right]),
            Infix::Operator(operator) => Expr::Binary(operator, left, right),
        };
        self.push(expr, position, start, &[left, right])
    }

    /// Parses an operand with the signs `!` or `-` before it. Two equal signs cancel each other, as in cel-go.
    fn unary(&mut self) -> Result<ExprId, CelError> {
        let start = self.token.start;
        let sign = match self.token.kind {
            CelTokenKind::Sign(sign @ ("!" | "-")) => sign,
            _ => return self.member(),
        };
        let mut count = 0;
        while self.is_at(sign) {
            self.advance()?;
            count += 1;
        }
        let is_odd = count % 2 == 1;
        // `-1` is a literal, so that the least integer can be written.
        if sign == "-"
            && is_odd
            && let Some(literal) = self.negative_literal()?
        {
            return self.push(Expr::Literal(literal), start, start, &[]);
        }
        let of = self.member()?;
        match (sign, is_odd) {
            (_, false) => Ok(of),
            ("!", true) => self.push(Expr::Not(of), start, start, &[of]),
            (_, true) => self.push(Expr::Negate(of), start, start, &[of]),
        }
    }

    /// Consumes a number after a minus, and returns the negative literal; `None` if the next token is no signed number.
    fn negative_literal(&mut self) -> Result<Option<CelLiteral>, CelError> {
        let literal = match self.token.kind {
            CelTokenKind::Int(value) => 0i64.checked_sub_unsigned(value).map(CelLiteral::Int),
            CelTokenKind::Double(value) => Some(CelLiteral::Double(-value)),
            _ => return Ok(None),
        };
        let Some(literal) = literal else {
            return Err(CelError::syntax(self.text, self.token.start, "invalid int literal"));
        };
        self.advance()?;
        Ok(Some(literal))
    }

    /// Parses an operand with its selections, indexes and calls.
    fn member(&mut self) -> Result<ExprId, CelError> {
        let start = self.token.start;
        let mut of = self.primary()?;
        loop {
            let position = self.token.start;
            if self.accept(".")? {
                let is_optional = self.accept("?")?;
                let CelTokenKind::Name(field) = self.token.kind.clone() else {
                    return Err(self.unexpected("the name of a field or function"));
                };
                self.advance()?;
                of = if self.is_at("(") && !is_optional {
                    self.method(of, field, start)?
                } else {
                    self.push(Expr::Select { of, field, is_optional }, position, start, &[of])?
                };
            } else if self.accept("[")? {
                let is_optional = self.accept("?")?;
                let key = self.expression()?;
                self.expect("]")?;
                of = self.push(Expr::Index { of, key, is_optional }, position, start, &[of, key])?;
            } else {
                return Ok(of);
            }
        }
    }

    /// Parses a literal, a name, a call of a global function, a list, a map or an expression in brackets.
    fn primary(&mut self) -> Result<ExprId, CelError> {
        let start = self.token.start;
        if self.is_at("(") {
            self.advance()?;
            let id = self.expression()?;
            self.expect(")")?;
            return Ok(id);
        }
        if self.is_at("[") {
            return self.list();
        }
        if self.is_at("{") {
            return self.map();
        }
        // `.name` is the global name even where a macro has a variable `name`. The tree keeps the point.
        let is_rooted = self.accept(".")?;
        if let CelTokenKind::Name(name) = self.token.kind.clone() {
            self.advance()?;
            if is_reserved(&name) {
                return Err(CelError::syntax(self.text, start, format_args!("reserved identifier: {name}")));
            }
            let name: Arc<str> = if is_rooted { format!(".{name}").into() } else { name };
            return match self.is_at("(") {
                true => self.global_call(name, start),
                false => self.push(Expr::Name(name), start, start, &[]),
            };
        }
        // The token of an integer can be 2^63, which is only valid after a minus.
        let int = |value| {
            let int = i64::try_from(value).map(CelLiteral::Int);
            int.map_err(|_| CelError::syntax(self.text, start, "invalid int literal"))
        };
        let literal = match &self.token.kind {
            _ if is_rooted => return Err(self.unexpected("a name")),
            CelTokenKind::Int(value) => int(*value)?,
            CelTokenKind::Uint(value) => CelLiteral::Uint(*value),
            CelTokenKind::Double(value) => CelLiteral::Double(*value),
            CelTokenKind::Text(text) => CelLiteral::Text(text.clone()),
            CelTokenKind::Bytes(bytes) => CelLiteral::Bytes(bytes.clone()),
            CelTokenKind::True => CelLiteral::Bool(true),
            CelTokenKind::False => CelLiteral::Bool(false),
            CelTokenKind::Null => CelLiteral::Null,
            CelTokenKind::Name(_) | CelTokenKind::In | CelTokenKind::Sign(_) | CelTokenKind::End => {
                return Err(self.unexpected("an expression"));
            }
        };
        self.advance()?;
        self.push(Expr::Literal(literal), start, start, &[])
    }

    /// Parses `[a, ?b]`. A comma may follow the last element.
    fn list(&mut self) -> Result<ExprId, CelError> {
        let start = self.advance()?.start;
        let mut elements = Vec::new();
        while !self.is_at("]") {
            let is_optional = self.accept("?")?;
            elements.push((self.expression()?, is_optional));
            if !self.accept(",")? {
                break;
            }
        }
        self.expect("]")?;
        let children: Vec<ExprId> = elements.iter().map(|(element, _)| *element).collect();
        self.push(Expr::List(elements), start, start, &children)
    }

    /// Parses `{key: value, ?key: value}`. A comma may follow the last entry.
    fn map(&mut self) -> Result<ExprId, CelError> {
        let start = self.advance()?.start;
        let mut entries = Vec::new();
        while !self.is_at("}") {
            let is_optional = self.accept("?")?;
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, is_optional));
            if !self.accept(",")? {
                break;
            }
        }
        self.expect("}")?;
        let children: Vec<ExprId> = entries.iter().flat_map(|(key, value, _)| [*key, *value]).collect();
        self.push(Expr::Map(entries), start, start, &children)
    }

    /// Parses the arguments of a call with the brackets around them. Unlike in a list, no comma may follow the last
    /// argument.
    fn arguments(&mut self) -> Result<Vec<ExprId>, CelError> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        if !self.is_at(")") {
            arguments.push(self.expression()?);
            while self.accept(",")? {
                arguments.push(self.expression()?);
            }
        }
        self.expect(")")?;
        Ok(arguments)
    }

    /// Parses the arguments of a global function, or of the macro `has`, and adds its node. The name was consumed, and
    /// is at `start`.
    fn global_call(&mut self, function: Arc<str>, start: usize) -> Result<ExprId, CelError> {
        let position = self.token.start;
        let arguments = self.arguments()?;
        if let ("has", [argument]) = (&*function, &arguments[..]) {
            let Expr::Select { of, field, is_optional: false } = self.ast.expr(*argument).clone() else {
                let at = self.ast.node(*argument).position;
                return Err(CelError::at(self.text, at, "invalid argument to has() macro"));
            };
            return self.push(Expr::Has { of, field }, position, start, &[of]);
        }
        let children = arguments.clone();
        self.push(Expr::Call { function, target: None, arguments }, position, start, &children)
    }

    /// Parses the arguments of `target.function`, a call or a macro, and adds its node. The name was consumed; the
    /// target is at `start`.
    fn method(&mut self, target: ExprId, function: Arc<str>, start: usize) -> Result<ExprId, CelError> {
        let position = self.token.start;
        let arguments = self.arguments()?;
        let mut children = arguments.clone();
        children.push(target);
        let expr = match self.macro_of(target, &function, &arguments)? {
            Some(expr) => expr,
            None => Expr::Call { function, target: Some(target), arguments },
        };
        self.push(expr, position, start, &children)
    }

    /// The macro that the call `range.name(arguments)` is; `None` if it is an ordinary call. The name and the number of
    /// arguments decide.
    ///
    /// # Errors
    /// An argument that must be a variable is not a simple name, or two variables have the same name.
    fn macro_of(&self, range: ExprId, name: &str, arguments: &[ExprId]) -> Result<Option<Expr>, CelError> {
        // The arguments are the variables, then a filter if the macro has one, then a result if it has one.
        let (kind, variables, has_filter, has_result) = match (name, arguments.len()) {
            ("all", count @ (2 | 3)) => (FoldKind::All, count - 1, true, false),
            ("exists", count @ (2 | 3)) => (FoldKind::Exists, count - 1, true, false),
            ("exists_one", count @ (2 | 3)) => (FoldKind::ExistsOne, count - 1, true, false),
            ("existsOne", 3) => (FoldKind::ExistsOne, 2, true, false),
            ("filter", 2) => (FoldKind::Filter, 1, true, false),
            ("map", count @ (2 | 3)) => (FoldKind::Map, 1, count == 3, true),
            ("transformList", count @ (3 | 4)) => (FoldKind::Map, 2, count == 4, true),
            ("transformMap", count @ (3 | 4)) => (FoldKind::TransformMap, 2, count == 4, true),
            ("transformMapEntry", count @ (3 | 4)) => (FoldKind::TransformMapEntry, 2, count == 4, true),
            ("sortBy", 2) => (FoldKind::SortBy, 1, false, true),
            ("optMap" | "optFlatMap", 2) => {
                let is_flat = name == "optFlatMap";
                let variable = self.variable(arguments[0])?;
                return Ok(Some(Expr::OptionalMap { target: range, variable, body: arguments[1], is_flat }));
            }
            _ => return Ok(None),
        };
        let names: Result<Vec<Arc<str>>, CelError> =
            arguments.iter().take(variables).map(|argument| self.variable(*argument)).collect();
        let names = names?;
        if let [first, second] = &names[..]
            && first == second
        {
            let at = self.ast.node(arguments[1]).position;
            return Err(CelError::at(self.text, at, format!("duplicate variable name: {first}")));
        }
        let mut rest = arguments.iter().skip(variables).copied();
        let filter = if has_filter { rest.next() } else { None };
        let result = if has_result { rest.next() } else { None };
        Ok(Some(Expr::Fold { kind, range, variables: names, filter, result }))
    }

    /// The name of the variable that an argument of a macro declares.
    ///
    /// # Errors
    /// The argument is not a simple name.
    fn variable(&self, argument: ExprId) -> Result<Arc<str>, CelError> {
        match self.ast.expr(argument) {
            Expr::Name(name) if !name.starts_with('.') => Ok(name.clone()),
            _ => {
                let at = self.ast.node(argument).position;
                Err(CelError::at(self.text, at, "argument must be a simple name"))
            }
        }
    }
}
