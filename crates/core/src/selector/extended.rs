//! The syntax that fieldcache adds to field selectors: `k in (a,b)`, `k notin (a,b)`, `k`, `!k`, `k>5`, `k>=5`, `k<5`,
//! `k<=5` and `k^=abc`, together with `k=a` and `k!=a`.
//!
//! A text is read this way only if kube-apiserver would reject it: see [`super::field`]. A name has no spaces, commas,
//! parentheses or signs. Spaces around a name, an operator, a number, and a value within parentheses are ignored. A
//! value after `=`, `!=` or `^=` has spaces and escapes as in kube-apiserver. Within parentheses, a backslash is also
//! needed before `(`, `)` and a space at the beginning or end of a value.

use std::borrow::Cow;

use super::error::{SelectorError, too_many};
use super::field::{FieldRequirement, is_escaped, unescape_value};
use super::operator::Operator;

/// Why a text cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The text does not have the syntax of this module. The error of kube-apiserver applies.
    NotUnderstood,
    /// The text has the syntax, but the operand of an operator that only fieldcache has is invalid, or there are too
    /// many terms.
    Invalid(SelectorError),
}

/// Reads the terms of a text in this syntax, at most `most`. Empty terms are left out, as in kube-apiserver. The text
/// must have an operator that kube-apiserver does not have; otherwise the result is [`Unreadable::NotUnderstood`].
///
/// # Errors
/// See [`Unreadable`].
pub(super) fn parse(text: &str, most: usize) -> Result<Vec<FieldRequirement>, Unreadable> {
    let mut reader = Reader { text, offset: 0, has_own_operator: false };
    let mut requirements = Vec::new();
    loop {
        reader.skip_spaces();
        match reader.rest().chars().next() {
            None if reader.has_own_operator => return Ok(requirements),
            None => return Err(Unreadable::NotUnderstood),
            Some(',') => reader.offset += 1,
            Some(_) if requirements.len() == most => {
                let error = too_many("field selector", "terms", most, "send several requests", reader.offset);
                return Err(Unreadable::Invalid(error));
            }
            Some(_) => {
                requirements.push(reader.term()?);
                match reader.rest().chars().next() {
                    None | Some(',') => {}
                    Some(_) => return Err(Unreadable::NotUnderstood),
                }
            }
        }
    }
}

/// A value for the text within parentheses, with a backslash before each character that needs one.
pub(super) fn escape_in_list(value: &str) -> Cow<'_, str> {
    let needs_escape = |character| is_escaped(character) || is_escaped_in_list(character);
    if !value.contains(needs_escape) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 1);
    for character in value.chars() {
        if needs_escape(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    Cow::Owned(escaped)
}

/// Whether a value within parentheses needs a backslash before the character, in addition to the characters of
/// [`is_escaped`].
fn is_escaped_in_list(character: char) -> bool {
    character.is_whitespace() || matches!(character, '(' | ')')
}

/// Whether the name of a field can have the character.
pub(super) fn is_of_name(character: char) -> bool {
    !character.is_whitespace() && !matches!(character, '=' | '!' | '<' | '>' | '^' | '(' | ')' | ',' | '\\')
}

/// The text of a selector, which is read from `offset` on.
struct Reader<'t> {
    text: &'t str,
    /// The offset of the next character, in bytes.
    offset: usize,
    /// Whether a term with an operator that kube-apiserver does not have has been read.
    has_own_operator: bool,
}

impl<'t> Reader<'t> {
    /// The text that is left.
    fn rest(&self) -> &'t str {
        &self.text[self.offset..]
    }

    /// Skips white space.
    fn skip_spaces(&mut self) {
        self.take_while(char::is_whitespace);
    }

    /// Reads as many characters as satisfy `accepts`.
    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|character| !accepts(character)).unwrap_or(rest.len())];
        self.offset += taken.len();
        taken
    }

    /// Reads `expected`, if the text continues with it. Returns whether it does.
    fn take(&mut self, expected: &str) -> bool {
        let is_next = self.rest().starts_with(expected);
        self.offset += if is_next { expected.len() } else { 0 };
        is_next
    }

    /// Reads the text up to the next comma without a backslash before it.
    fn take_term(&mut self) -> &'t str {
        let mut after_backslash = false;
        let rest = self.rest();
        let end = rest.bytes().position(|byte| {
            let is_end = byte == b',' && !after_backslash;
            after_backslash = byte == b'\\' && !after_backslash;
            is_end
        });
        let taken = &rest[..end.unwrap_or(rest.len())];
        self.offset += taken.len();
        taken
    }

    /// Reads a term, and the spaces after it. The value of `=`, `!=` and `^=` includes the spaces up to the comma.
    ///
    /// # Errors
    /// See [`Unreadable`].
    fn term(&mut self) -> Result<FieldRequirement, Unreadable> {
        if self.take("!") {
            let label = self.name()?;
            self.has_own_operator = true;
            return Ok(FieldRequirement { label, operator: Operator::DoesNotExist });
        }
        let label = self.name()?;
        let operator = match self.rest().chars().next() {
            None | Some(',') => Operator::Exists,
            _ if self.take(">=") => Operator::GreaterOrEqual(self.integer(">=")?),
            _ if self.take("<=") => Operator::LessOrEqual(self.integer("<=")?),
            _ if self.take(">") => Operator::GreaterThan(self.integer(">")?),
            _ if self.take("<") => Operator::LessThan(self.integer("<")?),
            _ if self.take("^=") => Operator::StartsWith(self.prefix()?),
            _ if self.take("!=") => {
                let operator = Operator::not_equal_to(self.value()?);
                return Ok(FieldRequirement { label, operator });
            }
            _ if self.take("==") || self.take("=") => {
                let operator = Operator::equal_to(self.value()?);
                return Ok(FieldRequirement { label, operator });
            }
            _ => {
                let is_negative = match self.take_while(char::is_alphabetic) {
                    "in" => false,
                    "notin" => true,
                    _ => return Err(Unreadable::NotUnderstood),
                };
                self.skip_spaces();
                if !self.take("(") {
                    return Err(Unreadable::NotUnderstood);
                }
                let values = self.list()?;
                if is_negative { Operator::NotIn(values) } else { Operator::In(values) }
            }
        };
        self.has_own_operator = true;
        Ok(FieldRequirement { label, operator })
    }

    /// Reads the name of a field, and the spaces after it.
    fn name(&mut self) -> Result<String, Unreadable> {
        self.skip_spaces();
        let name = self.take_while(is_of_name);
        if name.is_empty() {
            return Err(Unreadable::NotUnderstood);
        }
        self.skip_spaces();
        Ok(name.to_owned())
    }

    /// Reads the operand of `operator`, an integer.
    fn integer(&mut self, operator: &str) -> Result<i64, Unreadable> {
        let offset = self.offset;
        let text = self.take_term().trim();
        text.parse().map_err(|_| {
            let message = format!("invalid field selector: the operator {operator} needs an integer, not {text:?}");
            Unreadable::Invalid(SelectorError { message, offset })
        })
    }

    /// Reads the value of `=` or `!=`.
    fn value(&mut self) -> Result<String, Unreadable> {
        unescape_value(self.take_term()).map_err(|_| Unreadable::NotUnderstood)
    }

    /// Reads the operand of `^=`.
    fn prefix(&mut self) -> Result<String, Unreadable> {
        let offset = self.offset;
        let prefix = unescape_value(self.take_term())
            .map_err(|error| Unreadable::Invalid(SelectorError { offset: offset + error.offset, ..error }))?;
        if prefix.is_empty() {
            let message = "invalid field selector: the operator ^= needs a prefix: use only the name of the field to \
                           select objects that have a value"
                .to_owned();
            return Err(Unreadable::Invalid(SelectorError { message, offset }));
        }
        Ok(prefix)
    }

    /// Reads the values of a list up to its closing parenthesis, and the spaces after it. The values are sorted and
    /// without repetition. Empty parentheses have one empty value, as in label selectors.
    fn list(&mut self) -> Result<Vec<String>, Unreadable> {
        let begin = self.offset;
        let mut values = Vec::new();
        loop {
            self.skip_spaces();
            let mut value = String::new();
            // The length of the value without the spaces at its end that have no backslash.
            let mut length = 0;
            let is_last = loop {
                let offset = self.offset;
                let invalid = |message: String| Unreadable::Invalid(SelectorError { message, offset });
                let mut characters = self.rest().chars();
                let Some(character) = characters.next() else {
                    let message = "invalid field selector: a list of values has no closing parenthesis".to_owned();
                    return Err(Unreadable::Invalid(SelectorError { message, offset: begin }));
                };
                self.offset += character.len_utf8();
                match character {
                    ',' => break false,
                    ')' => break true,
                    '=' | '(' => {
                        let message = format!("invalid field selector: write \\{character} in a list of values");
                        return Err(invalid(message));
                    }
                    '\\' => match characters.next() {
                        Some(escaped) if is_escaped(escaped) || is_escaped_in_list(escaped) => {
                            self.offset += escaped.len_utf8();
                            value.push(escaped);
                            length = value.len();
                        }
                        unknown => {
                            let unknown = unknown.map(String::from).unwrap_or_default();
                            let message = format!("invalid field selector: invalid escape sequence: \\{unknown}");
                            return Err(invalid(message));
                        }
                    },
                    other => {
                        value.push(other);
                        length = if other.is_whitespace() { length } else { value.len() };
                    }
                }
            };
            value.truncate(length);
            values.push(value);
            if is_last {
                self.skip_spaces();
                values.sort_unstable();
                values.dedup();
                return Ok(values);
            }
        }
    }
}
