//! Parses a CEL expression as far as a shard selector needs: which function is called with which arguments.
//!
//! The grammar is the one of cel-go `parser/gen/CEL.g4`, without macros. Of an expression, only the parts are kept that
//! the messages of `super` name. Nothing is evaluated. A syntax error has the message of cel-go if both parsers find it
//! at the same token. The parser of cel-go continues after an error, and this one does not. `token` has the tokens.

use super::token::{self, Token, TokenKind};

/// The longest expression, in characters: cel-go's limit.
const MOST_CHARACTERS: usize = 100_000;

/// The maximum depth of nested brackets. cel-go counts rules of its grammar instead, of which it allows 250.
const MOST_DEPTH: usize = 64;

/// Words that CEL reserves: they are no identifiers, but can be names of fields.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// What an operand can begin with, as messages of cel-go list it. The first text is for any place. The second one is
/// for the place after the opening parenthesis of a call, where the closing parenthesis is possible too. The third one
/// is for the place after the opening bracket of an index, where a question mark is possible too.
const OPERANDS: [&str; 3] = [
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
    "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
     IDENTIFIER}",
    "{'[', '{', '(', '.', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
     IDENTIFIER}",
];

/// Binary operators, the function that CEL calls for each, and its precedence: operators with a higher number bind more
/// strongly. `||` is not in the list, and binds less strongly than all of them.
const OPERATORS: [(&str, &str, u8); 13] = [
    ("&&", "_&&_", 1),
    ("==", "_==_", 2),
    ("!=", "_!=_", 2),
    ("<", "_<_", 2),
    ("<=", "_<=_", 2),
    (">", "_>_", 2),
    (">=", "_>=_", 2),
    ("in", "@in", 2),
    ("+", "_+_", 3),
    ("-", "_-_", 3),
    ("*", "_*_", 4),
    ("/", "_/_", 4),
    ("%", "_%_", 4),
];

/// An expression, reduced to what the rules and messages of a shard selector need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// The operands of `||`, of which none is another `AnyOf`.
    AnyOf(Vec<Expression>),
    /// A call of a function, or an operator other than `||`, which CEL also represents as a call. The arguments of
    /// operators are not kept.
    Call {
        /// The name of the function, such as `shardRange` or `_==_`.
        function: String,
        arguments: Vec<Expression>,
    },
    /// An identifier and the names of fields after it, such as `object.metadata.uid`.
    Path {
        text: String,
        /// Whether the identifier is followed by names of fields.
        has_fields: bool,
    },
    /// A field of an expression that is not a path, such as `f().field`. The number is the kind of that expression: see
    /// [`Expression::kind`].
    Part(u8),
    Constant(Constant),
    /// A list such as `[1, 2]`.
    List,
    /// A map such as `{'a': 1}`.
    Map,
    /// A message of a protobuf type, such as `Type{field: 1}`.
    Message,
}

/// A constant. Only the value of a string is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Constant {
    /// A string, without quotes and escapes.
    Text(String),
    Bytes,
    Int,
    Uint,
    Float,
    Bool,
    Null,
}

impl Constant {
    /// The name of the Go type of the constant.
    pub(super) fn go_type(&self) -> &'static str {
        match self {
            Constant::Text(_) => "string",
            Constant::Bytes => "[]uint8",
            Constant::Int => "int64",
            Constant::Uint => "uint64",
            Constant::Float => "float64",
            Constant::Bool => "bool",
            Constant::Null => "structpb.NullValue",
        }
    }
}

impl Expression {
    /// The number of the kind of the expression in cel-go (`common/ast`, ExprKind), for messages.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Expression::AnyOf(_) | Expression::Call { .. } => 1,
            Expression::Path { has_fields: false, .. } => 3,
            Expression::List => 4,
            Expression::Constant(_) => 5,
            Expression::Map => 6,
            Expression::Path { has_fields: true, .. } | Expression::Part(_) => 7,
            Expression::Message => 8,
        }
    }

    /// The text of the expression, if it is a path.
    ///
    /// # Errors
    /// The kind of the innermost expression that is neither an identifier nor a field, as in [`Expression::kind`].
    pub(super) fn path(&self) -> Result<&str, u8> {
        if let Expression::Path { text, .. } = self {
            return Ok(text);
        }
        if let Expression::Part(kind) = self { Err(*kind) } else { Err(self.kind()) }
    }
}

/// Parses an expression.
///
/// # Errors
/// The message of cel-go, or one with the same beginning.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let length = text.chars().count();
    if length > MOST_CHARACTERS {
        return Err(format!("expression code point size exceeds limit: size: {length}, limit {MOST_CHARACTERS}"));
    }
    let tokens = token::tokens(text).map_err(|at| format!("Syntax error: token recognition error at: '{at}'"))?;
    let mut parser = Parser { tokens: &tokens, depth: 0, deferred_error: None };
    let expression = parser.expression(0)?;
    if parser.peek().kind != TokenKind::End {
        let is_last = parser.peek_second().kind == TokenKind::End;
        return Err(parser.unexpected(is_last, "<EOF>"));
    }
    parser.deferred_error.map_or(Ok(expression), Err)
}

/// A position in the tokens of an expression.
struct Parser<'t> {
    /// The tokens from the next one on; the last one is the end.
    tokens: &'t [Token<'t>],
    /// The number of brackets around the position.
    depth: usize,
    /// The first error that cel-go reports only if the whole expression has no syntax error.
    deferred_error: Option<String>,
}

impl<'t> Parser<'t> {
    /// The next token; the end if there is none.
    fn peek(&self) -> Token<'t> {
        self.tokens.first().copied().unwrap_or(Token { kind: TokenKind::End, text: "" })
    }

    /// The token after the next one; the end if there is none.
    fn peek_second(&self) -> Token<'t> {
        self.tokens.get(1).copied().unwrap_or(Token { kind: TokenKind::End, text: "" })
    }

    /// Takes the next token.
    fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.tokens = self.tokens.get(1..).unwrap_or_default();
        token
    }

    /// Takes the next token if it is this symbol. Returns whether it is.
    fn take_if(&mut self, symbol: &str) -> bool {
        let is_next = self.peek().is(symbol);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes the next token, which must be this symbol.
    ///
    /// # Errors
    /// The message if it is another token.
    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.take_if(symbol) {
            return Ok(());
        }
        if symbol == ")" && self.peek().kind == TokenKind::End {
            return Err("Syntax error: missing ')' at '<EOF>'".to_owned());
        }
        let is_extra = self.peek_second().is(symbol);
        Err(self.unexpected(is_extra, &format!("'{symbol}'")))
    }

    /// The message for a next token that cannot be here. `expected` is what could be here. `is_extra`: the token after
    /// it is an expected one, so the expression would be valid without the next token.
    fn unexpected(&self, is_extra: bool, expected: &str) -> String {
        let word = if is_extra { "extraneous" } else { "mismatched" };
        format!("Syntax error: {word} input {} expecting {expected}", self.peek().shown())
    }

    /// Reads an expression up to the end of the brackets around it. `at` is the index in [`OPERANDS`] of what the
    /// expression can begin with.
    ///
    /// # Errors
    /// The message for a syntax error, or for brackets that are nested too deeply.
    fn expression(&mut self, at: usize) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(format!("expression recursion limit exceeded: {MOST_DEPTH}"));
        }
        if !self.peek().begins_operand() {
            let is_extra = self.peek_second().begins_operand() || at == 1 && self.peek_second().is(")");
            return Err(self.unexpected(is_extra, OPERANDS[at]));
        }
        let first = self.any_of()?;
        // `condition ? first : second`.
        if !self.take_if("?") {
            self.depth -= 1;
            return Ok(first);
        }
        self.any_of()?;
        self.expect(":")?;
        self.expression(0)?;
        self.depth -= 1;
        Ok(call("_?_:_"))
    }

    /// Reads operands joined by `||`. A single operand is returned as it is.
    fn any_of(&mut self) -> Result<Expression, String> {
        let first = self.binary()?;
        if !self.peek().is("||") {
            return Ok(first);
        }
        let mut parts = Vec::new();
        // Nested operands of `||`, in parentheses, become operands of the outer one.
        let mut add = |part: Expression| {
            if let Expression::AnyOf(inner) = part { parts.extend(inner) } else { parts.push(part) }
        };
        add(first);
        while self.take_if("||") {
            add(self.binary()?);
        }
        Ok(Expression::AnyOf(parts))
    }

    /// Reads operands joined by the operators in [`OPERATORS`]. A shard selector may have none of these operators, and
    /// the message names the outermost one. So only this operator is returned: the last one of the lowest precedence.
    fn binary(&mut self) -> Result<Expression, String> {
        let mut expression = self.unary()?;
        let mut lowest = u8::MAX;
        loop {
            let next = self.peek();
            let Some((_, function, precedence)) = OPERATORS.iter().find(|(symbol, ..)| next.is(symbol)) else {
                return Ok(expression);
            };
            self.take();
            self.unary()?;
            if *precedence <= lowest {
                lowest = *precedence;
                expression = call(function);
            }
        }
    }

    /// Reads an operand with the signs `!` or `-` before it. As in cel-go, pairs of equal signs cancel each other.
    fn unary(&mut self) -> Result<Expression, String> {
        let next = self.peek();
        if !next.begins_operand() {
            let is_extra = self.peek_second().begins_operand();
            return Err(self.unexpected(is_extra, OPERANDS[0]));
        }
        if !next.is("!") && !next.is("-") {
            return self.member();
        }
        let is_number = matches!(self.peek_second().kind, TokenKind::Int | TokenKind::Float);
        if next.is("-") && is_number {
            // The sign belongs to the number.
            self.take();
            return self.member();
        }
        let mut is_odd = false;
        while self.take_if(next.text) {
            is_odd = !is_odd;
        }
        let operand = self.member()?;
        Ok(match (is_odd, next.text) {
            (false, _) => operand,
            (true, "!") => call("!_"),
            (true, _) => call("-_"),
        })
    }

    /// Reads an operand with the fields, calls and indexes after it.
    fn member(&mut self) -> Result<Expression, String> {
        let mut expression = self.primary()?;
        loop {
            if self.take_if(".") {
                let name = self.field_name()?;
                if self.take_if("(") {
                    expression = Expression::Call { function: name.to_owned(), arguments: self.arguments()? };
                    continue;
                }
                expression = if let Expression::Path { mut text, .. } = expression {
                    text.push('.');
                    text.push_str(name);
                    Expression::Path { text, has_fields: true }
                } else {
                    Expression::Part(expression.path().err().unwrap_or_default())
                };
            } else if self.take_if("[") {
                if self.take_if("?") {
                    self.deferred_error.get_or_insert("unsupported syntax '[?'".to_owned());
                }
                self.expression(2)?;
                self.expect("]")?;
                expression = call("_[_]");
            } else if self.peek().is("{") && matches!(expression, Expression::Path { .. }) {
                self.take();
                self.entries("}", true)?;
                expression = Expression::Message;
            } else {
                return Ok(expression);
            }
        }
    }

    /// Reads the name of a field, after a dot.
    fn field_name(&mut self) -> Result<&'t str, String> {
        let Token { kind, text } = self.take();
        match kind {
            TokenKind::Identifier => Ok(text),
            TokenKind::EscapedIdentifier => {
                self.deferred_error.get_or_insert("unsupported syntax: '`'".to_owned());
                Ok(text)
            }
            TokenKind::Int
            | TokenKind::Uint
            | TokenKind::Float
            | TokenKind::Text
            | TokenKind::Bytes
            | TokenKind::Symbol
            | TokenKind::End => Err(format!("Syntax error: no viable alternative at input '.{text}'")),
        }
    }

    /// Reads the arguments of a call and the closing parenthesis, after the opening parenthesis.
    fn arguments(&mut self) -> Result<Vec<Expression>, String> {
        let mut arguments = Vec::new();
        if self.take_if(")") {
            return Ok(arguments);
        }
        arguments.push(self.expression(1)?);
        while self.take_if(",") {
            arguments.push(self.expression(0)?);
        }
        self.expect(")")?;
        Ok(arguments)
    }

    /// Reads the entries of a list, map or message and the bracket `closing`, after the opening bracket. `has_values`:
    /// each entry is a key and a value, as in a map or message.
    fn entries(&mut self, closing: &str, has_values: bool) -> Result<(), String> {
        while !self.take_if(closing) {
            // A comma is allowed after the last entry.
            if self.peek().is(",") && self.peek_second().is(closing) {
                self.take();
                continue;
            }
            self.expression(0)?;
            if has_values {
                self.expect(":")?;
                self.expression(0)?;
            }
            if !self.peek().is(closing) && !self.take_if(",") {
                return Err(self.unexpected(false, &format!("{{'{closing}', ','}}")));
            }
        }
        Ok(())
    }

    /// Reads an operand without the fields, calls and indexes after it.
    fn primary(&mut self) -> Result<Expression, String> {
        let token = self.take();
        match token.kind {
            TokenKind::Identifier => {
                if self.peek().is("(") {
                    self.take();
                    return Ok(Expression::Call { function: token.text.to_owned(), arguments: self.arguments()? });
                }
                if RESERVED.contains(&token.text) {
                    self.deferred_error.get_or_insert(format!("reserved identifier: {}", token.text));
                }
                Ok(Expression::Path { text: token.text.to_owned(), has_fields: false })
            }
            TokenKind::Int | TokenKind::Uint | TokenKind::Float | TokenKind::Text | TokenKind::Bytes => {
                Ok(Expression::Constant(self.constant(token)))
            }
            TokenKind::Symbol => self.symbol(token),
            TokenKind::EscapedIdentifier | TokenKind::End => {
                Err(format!("Syntax error: no viable alternative at input {}", token.shown()))
            }
        }
    }

    /// Reads an operand that begins with a symbol. `token` is the symbol, which is taken already.
    fn symbol(&mut self, token: Token<'t>) -> Result<Expression, String> {
        match token.text {
            "(" => {
                let inner = self.expression(0)?;
                self.expect(")")?;
                Ok(inner)
            }
            "[" => self.entries("]", false).map(|()| Expression::List),
            "{" => self.entries("}", true).map(|()| Expression::Map),
            "." => {
                let name = format!(".{}", self.field_name()?);
                if self.take_if("(") {
                    return Ok(Expression::Call { function: name, arguments: self.arguments()? });
                }
                Ok(Expression::Path { text: name, has_fields: false })
            }
            "true" | "false" => Ok(Expression::Constant(Constant::Bool)),
            "null" => Ok(Expression::Constant(Constant::Null)),
            _ => Err(format!("Syntax error: no viable alternative at input {}", token.shown())),
        }
    }

    /// The constant of a token. Records an error if the number is too large for its type.
    fn constant(&mut self, token: Token<'_>) -> Constant {
        let digits = token.text.trim_end_matches(['u', 'U']);
        let is_64_bits = |signed: bool| {
            let number = match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => digits.parse::<u64>(),
            };
            number.is_ok_and(|number| !signed || number <= i64::MAX as u64)
        };
        match token.kind {
            TokenKind::Text => Constant::Text(token::unquoted(token.text)),
            TokenKind::Bytes => Constant::Bytes,
            TokenKind::Float => Constant::Float,
            TokenKind::Uint => {
                if !is_64_bits(false) {
                    self.deferred_error.get_or_insert("invalid uint literal".to_owned());
                }
                Constant::Uint
            }
            TokenKind::Int
            | TokenKind::Identifier
            | TokenKind::EscapedIdentifier
            | TokenKind::Symbol
            | TokenKind::End => {
                if !is_64_bits(true) {
                    self.deferred_error.get_or_insert("invalid int literal".to_owned());
                }
                Constant::Int
            }
        }
    }
}

/// A call of a function whose arguments do not matter.
fn call(function: &str) -> Expression {
    Expression::Call { function: function.to_owned(), arguments: Vec::new() }
}
