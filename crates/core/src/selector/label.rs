//! Label selectors (apimachinery `labels/selector.go`): parsing, matching, and printing back.
//!
//! The grammar and every error are kube-apiserver's, including their oddities. A NUL byte at the start of a token ends
//! the text. `in ()` is the set of the empty value. `in` and `notin` may be keys and values. The path of an invalid key
//! is printed as `<nil>`. `=` and `==` are parsed as sets of one value, because they match the same objects. The JSON
//! form is read in [`super::wire`], the syntax of keys and values is in [`super::syntax`].

use std::fmt;

use super::error::{SelectorError, too_many};
use super::operator::{Escapes, Operator};
use super::syntax::{label_key_errors, label_value_errors};
use crate::model::quote;

/// The maximum number of errors about one set of values in a message. A message can be hundreds of times as long as the
/// value that it is about.
const MOST_ERRORS: usize = 10;

/// A requirement on the value of one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    /// The label key.
    pub key: String,
    /// The comparison; lists of values are not empty.
    pub operator: Operator,
}

/// A conjunction of requirements, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// The requirements; none selects everything.
    pub requirements: Vec<LabelRequirement>,
}

impl LabelRequirement {
    /// Whether an object satisfies the requirement. `value` is the object's label of this key; `None`: it has no such
    /// label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        self.operator.matches_label(value)
    }
}

impl LabelSelector {
    /// Parses a selector text.
    ///
    /// # Errors
    /// kube-apiserver's message.
    pub fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
        LabelSelector::parse_at_most(text, usize::MAX)
    }

    /// Like [`LabelSelector::parse`] for a selector of at most `most` requirements. Parsing stops at the first excess
    /// one.
    ///
    /// # Errors
    /// kube-apiserver's message, or that there are more requirements.
    pub fn parse_at_most(text: &str, most: usize) -> Result<LabelSelector, SelectorError> {
        Parser::new(text).selector(most)
    }

    /// A selector of requirements in any order.
    pub fn new(mut requirements: Vec<LabelRequirement>) -> LabelSelector {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        LabelSelector { requirements }
    }

    /// Whether an object with these labels, sorted by key, satisfies every requirement.
    pub fn matches(&self, labels: &[(String, String)]) -> bool {
        self.requirements.iter().all(|requirement| {
            let position = labels.binary_search_by(|(key, _)| key.as_str().cmp(&requirement.key));
            requirement.matches(position.ok().map(|position| labels[position].1.as_str()))
        })
    }
}

/// A text from which [`LabelSelector::parse`] returns the same requirement. Sets of one value print as `=` and `!=`.
impl fmt::Display for LabelRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operator.text(&self.key, Escapes::NONE).fmt(formatter)
    }
}

/// The requirements joined by commas; empty when everything is selected.
impl fmt::Display for LabelSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(formatter, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    Word,
    Symbol,
    End,
}

/// A word, a symbol (one of `= == != ! > < ( ) ,`), or the end of the text. The token after the end is the end again.
#[derive(Clone, Copy, Debug)]
struct Token<'text> {
    kind: TokenKind,
    text: &'text str,
    /// Where the token begins in the text of the selector, in bytes.
    offset: usize,
}

impl Token<'_> {
    fn is_symbol(self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && self.text == symbol
    }

    fn is_word(self) -> bool {
        self.kind == TokenKind::Word
    }

    /// Whether a requirement is complete if this token follows: it is the end of the text, or a comma.
    fn ends_requirement(self) -> bool {
        self.kind == TokenKind::End || self.is_symbol(",")
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_symbol(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

/// Reads the first token at or after an offset, in bytes. Returns the token, and the offset after it.
fn read_token(text: &str, mut offset: usize) -> (Token<'_>, usize) {
    let bytes = text.as_bytes();
    while bytes.get(offset).is_some_and(|byte| is_blank(*byte)) {
        offset += 1;
    }
    let Some(first) = bytes.get(offset).copied().filter(|byte| *byte != 0) else {
        return (Token { kind: TokenKind::End, text: "", offset }, offset);
    };
    let length = if is_symbol(first) {
        if matches!(&bytes[offset..], [b'=', b'=', ..] | [b'!', b'=', ..]) { 2 } else { 1 }
    } else {
        let is_word_end = |byte: &u8| *byte == 0 || is_symbol(*byte) || is_blank(*byte);
        bytes[offset..].iter().position(is_word_end).unwrap_or(bytes.len() - offset)
    };
    let kind = if is_symbol(first) { TokenKind::Symbol } else { TokenKind::Word };
    let end = offset + length;
    // Tokens end before ASCII bytes only, so these are character boundaries.
    let token = Token { kind, text: &text[offset..end], offset };
    // In the upstream lexer, a NUL byte ends a token and is consumed with it.
    (token, end + usize::from(bytes.get(end) == Some(&0)))
}

/// A parser that reads one token ahead. A list of all tokens would take many times the memory of the text.
struct Parser<'text> {
    text: &'text str,
    /// The next token.
    ahead: Token<'text>,
    /// The offset after that token, in bytes.
    offset: usize,
}

impl<'text> Parser<'text> {
    fn new(text: &'text str) -> Parser<'text> {
        let (ahead, offset) = read_token(text, 0);
        Parser { text, ahead, offset }
    }

    /// The next token, which is not consumed.
    fn peek(&self) -> Token<'text> {
        self.ahead
    }

    /// Consumes the next token and returns it.
    fn next(&mut self) -> Token<'text> {
        let (following, offset) = read_token(self.text, self.offset);
        self.offset = offset;
        std::mem::replace(&mut self.ahead, following)
    }

    /// Parses at most `most` requirements, up to the end of the text.
    fn selector(mut self, most: usize) -> Result<LabelSelector, SelectorError> {
        let mut requirements = Vec::new();
        let first = self.peek();
        if first.kind == TokenKind::End {
            return Ok(LabelSelector::default());
        }
        if !starts_requirement(first) {
            return Err(unexpected_token(first, ", expected: !, identifier, or 'end of string'"));
        }
        loop {
            if requirements.len() == most {
                let remedy = "put all values of one key into one set, such as 'key in (a,b)', or send several requests";
                return Err(too_many("label selector", "requirements", most, remedy, self.peek().offset));
            }
            requirements.push(self.requirement().map_err(|error| SelectorError {
                message: format!("unable to parse requirement: {}", error.message),
                offset: error.offset,
            })?);
            let token = self.next();
            if token.kind == TokenKind::End {
                return Ok(LabelSelector::new(requirements));
            }
            if !token.is_symbol(",") {
                return Err(unexpected_token(token, ", expected: ',' or 'end of string'"));
            }
            if !starts_requirement(self.peek()) {
                return Err(unexpected_token(self.peek(), ", expected: identifier after ','"));
            }
        }
    }

    /// Parses one requirement.
    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let negated = self.peek().is_symbol("!");
        if negated {
            self.next();
        }
        let key = self.next();
        if !key.is_word() {
            return Err(unexpected_token(key, ", expected: identifier"));
        }
        let errors = label_key_errors(key.text);
        if !errors.is_empty() {
            let message = format!("<nil>: Invalid value: {}: {}", quote(key.text), errors.join("; "));
            return Err(SelectorError { message, offset: key.offset });
        }
        let operator = if negated {
            Operator::DoesNotExist
        } else if self.peek().ends_requirement() {
            Operator::Exists
        } else {
            self.comparison(key.text)?
        };
        Ok(LabelRequirement { key: key.text.to_owned(), operator })
    }

    /// Parses an operator and its operand. `key` is the key of the requirement, for messages.
    fn comparison(&mut self, key: &str) -> Result<Operator, SelectorError> {
        let operator = self.next();
        match operator.text {
            "in" => Ok(Operator::In(self.set(key)?)),
            "notin" => Ok(Operator::NotIn(self.set(key)?)),
            "=" | "==" => Ok(Operator::In(self.single(key)?)),
            "!=" => Ok(Operator::NotIn(self.single(key)?)),
            ">" => Ok(Operator::GreaterThan(self.bound(key)?)),
            "<" => Ok(Operator::LessThan(self.bound(key)?)),
            _ => Err(unexpected_token(operator, ", expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    /// Parses `(VALUE, ...)`. Returns the values sorted and without repetition; `()` has the empty value.
    fn set(&mut self, key: &str) -> Result<Vec<String>, SelectorError> {
        let open = self.next();
        if !open.is_symbol("(") {
            return Err(unexpected_token(open, " expected: '('"));
        }
        let first = self.peek();
        if first.is_symbol(")") {
            self.next();
            return Ok(vec![String::new()]);
        }
        if !first.is_word() && !first.is_symbol(",") {
            return Err(unexpected_token(first, ", expected: ',', ')' or identifier"));
        }
        let mut values = Vec::new();
        loop {
            let token = self.next();
            let following = self.peek();
            if token.is_word() {
                values.push(token.text);
                if !following.is_symbol(",") && !following.is_symbol(")") {
                    return Err(unexpected_token(following, ", expected: ',' or ')'"));
                }
            } else if token.is_symbol(",") {
                if values.is_empty() || following.is_symbol(",") || following.is_symbol(")") {
                    values.push("");
                }
            } else {
                return Err(unexpected_token(token, ", expected: ',', or identifier"));
            }
            if following.is_symbol(")") {
                self.next();
                values.sort_unstable();
                values.dedup();
                let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
                return check_values(key, &values, &[], first.offset).map(|()| values);
            }
        }
    }

    /// Parses the value after `=`, `==`, `!=`, `>` or `<`. A missing value is the empty one.
    fn value(&mut self) -> Result<Token<'text>, SelectorError> {
        if self.peek().ends_requirement() {
            return Ok(Token { kind: TokenKind::Word, text: "", offset: self.peek().offset });
        }
        let token = self.next();
        if token.is_word() { Ok(token) } else { Err(unexpected_token(token, ", expected: identifier")) }
    }

    /// Parses the value after `=`, `==` or `!=` as a set of one value.
    fn single(&mut self, key: &str) -> Result<Vec<String>, SelectorError> {
        let token = self.value()?;
        let values = vec![token.text.to_owned()];
        check_values(key, &values, &[], token.offset).map(|()| values)
    }

    /// Parses the number of `>` or `<`.
    fn bound(&mut self, key: &str) -> Result<i64, SelectorError> {
        let token = self.value()?;
        let number = token.text.parse::<i64>();
        let error = number.is_err().then(|| {
            let value = quote(token.text);
            format!("values[0]: Invalid value: {value}: for 'Gt', 'Lt' operators, the value must be an integer")
        });
        check_values(key, &[token.text.to_owned()], error.as_slice(), token.offset)?;
        number.map_err(|_| SelectorError { message: error.unwrap_or_default(), offset: token.offset })
    }
}

fn starts_requirement(token: Token<'_>) -> bool {
    token.is_word() || token.is_symbol("!")
}

/// The error for an unexpected token. `rest` follows the token in the message.
fn unexpected_token(token: Token<'_>, rest: &str) -> SelectorError {
    SelectorError { message: format!("found '{}'{rest}", token.text), offset: token.offset }
}

/// Checks the syntax of the values of label `key`. The error, at `offset`, has the messages of `earlier` first. Several
/// messages are written as upstream's aggregate: `[a, b]`. Messages beyond [`MOST_ERRORS`] are left out.
fn check_values(key: &str, values: &[String], earlier: &[String], offset: usize) -> Result<(), SelectorError> {
    let mut errors = earlier.to_vec();
    let invalid = values.iter().enumerate().filter_map(|(index, value)| {
        let errors = label_value_errors(value);
        (!errors.is_empty()).then_some((index, value, errors))
    });
    for (index, value, value_errors) in invalid {
        if errors.len() == MOST_ERRORS {
            errors.push("further values are invalid".to_owned());
            break;
        }
        let quoted = quote(value);
        errors.push(format!("values[{index}][{key}]: Invalid value: {quoted}: {}", value_errors.join("; ")));
    }
    let message = match &errors[..] {
        [] => return Ok(()),
        [error] => error.clone(),
        errors => format!("[{}]", errors.join(", ")),
    };
    Err(SelectorError { message, offset })
}
