//! Field selectors (apimachinery `fields/selector.go`): parsing, and printing back.
//!
//! The text is first read as kube-apiserver reads it. `extended` reads texts that kube-apiserver rejects.
//! kube-apiserver rejects a text because a term has no `=`, or because the resource lacks a field. This module cannot
//! decide the second case, because it does not know the fields of the resource. So a text can have two readings: see
//! [`FieldSelector::extended`].
//!
//! Whether a resource has a field is not decided here. `extract::Extractor::resolve` checks term by term in the order
//! of the requirements, so that the first error is the one that kube-apiserver reports. The operators of Views are read
//! in [`super::wire`].

use std::fmt;

use super::error::{SelectorError, too_many};
use super::extended::{self, Unreadable, escape_in_list};
use super::operator::{Escapes, Operator};

/// One term of a field selector, such as `spec.nodeName=node1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The name of the field, such as `spec.nodeName`, as written: names have no escapes.
    pub label: String,
    /// The operator with its operand, whose values have no escapes.
    pub operator: Operator,
}

/// A conjunction of terms, sorted by their printed forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The terms. A selector without terms selects everything.
    pub requirements: Vec<FieldRequirement>,
    /// The terms of the second reading of a text that kube-apiserver can parse too. For example, kube-apiserver reads
    /// `k>=5` as the field `k>` with the value 5, and fieldcache as an operator `>=`. The second reading applies if the
    /// resource lacks a field of `requirements`: kube-apiserver then rejects the text. `None`: there is only one
    /// reading.
    pub extended: Option<Vec<FieldRequirement>>,
    /// Whether kube-apiserver rejects the text, whatever the fields of the resource are.
    pub is_extended: bool,
}

impl FieldSelector {
    /// Parses a selector text.
    ///
    /// # Errors
    /// kube-apiserver's message, or why an operator of fieldcache cannot have its operand.
    pub fn parse(text: &str) -> Result<FieldSelector, SelectorError> {
        FieldSelector::parse_at_most(text, usize::MAX)
    }

    /// Like [`FieldSelector::parse`] for a selector of at most `most` terms.
    ///
    /// # Errors
    /// Those of [`FieldSelector::parse`], and that there are more terms.
    pub fn parse_at_most(text: &str, most: usize) -> Result<FieldSelector, SelectorError> {
        match FieldSelector::parse_as_kubernetes(text, most) {
            // A label that is no name of a field can be the beginning of an operator of fieldcache.
            Ok(mut selector) => {
                let is_of_name = |requirement: &FieldRequirement| requirement.label.chars().all(extended::is_of_name);
                if !selector.requirements.iter().all(is_of_name) {
                    selector.extended = extended::parse(text, most).ok().map(sorted);
                }
                Ok(selector)
            }
            Err(error) => match extended::parse(text, most) {
                Ok(requirements) => {
                    Ok(FieldSelector { requirements: sorted(requirements), extended: None, is_extended: true })
                }
                Err(Unreadable::NotUnderstood) => Err(error),
                Err(Unreadable::Invalid(error)) => Err(error),
            },
        }
    }

    /// Parses a selector as kube-apiserver does. A selector of more than `most` terms is rejected before any of its
    /// terms is parsed.
    ///
    /// # Errors
    /// kube-apiserver's message, or that there are more terms.
    pub fn parse_as_kubernetes(text: &str, most: usize) -> Result<FieldSelector, SelectorError> {
        let mut terms: Vec<(usize, &str)> = terms(text).take(most.saturating_add(1)).collect();
        if let Some((offset, _)) = terms.get(most) {
            return Err(too_many("field selector", "terms", most, "send several requests", *offset));
        }
        // kube-apiserver sorts the terms before it parses them, so it reports the first invalid term in this order.
        terms.sort_by_key(|(_, term)| *term);
        let mut requirements = Vec::new();
        for (offset, term) in terms {
            let Some((label, operator, value)) = split_term(term) else {
                let message = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(SelectorError { message, offset });
            };
            let value_offset = offset + term.len() - value.len();
            let value = unescape_value(value)
                .map_err(|error| SelectorError { offset: value_offset + error.offset, ..error })?;
            // A term with an empty label and an empty value selects everything (apimachinery `hasTerm.Transform`).
            if !label.is_empty() || !value.is_empty() {
                requirements.push(FieldRequirement { label: label.to_owned(), operator: operator(value) });
            }
        }
        Ok(FieldSelector { requirements: sorted(requirements), ..FieldSelector::default() })
    }

    /// The requirements that are in every reading of the text.
    pub fn certain(&self) -> impl Iterator<Item = &FieldRequirement> {
        let is_certain = |requirement: &&FieldRequirement| {
            self.extended.as_ref().is_none_or(|extended| extended.contains(requirement))
        };
        self.requirements.iter().filter(is_certain)
    }
}

/// Requirements in the order of their printed forms, so that parsing the printed selector returns the same selector.
/// kube-apiserver sorts the terms as they are written. `a==b` and `a=b` have the same printed form, so the two orders
/// differ only among terms of one label.
fn sorted(mut requirements: Vec<FieldRequirement>) -> Vec<FieldRequirement> {
    if requirements.len() > 1 {
        requirements.sort_by_cached_key(FieldRequirement::to_string);
    }
    requirements
}

/// `LABEL=VALUE`, `LABEL!=VALUE`, or the form of another operator. Values are escaped.
impl fmt::Display for FieldRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escapes = Escapes { alone: |value| escape_value(value).into(), in_list: escape_in_list };
        self.operator.text(&self.label, escapes).fmt(formatter)
    }
}

/// The terms joined by commas; empty when everything is selected.
impl fmt::Display for FieldSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(formatter, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

/// A value for the text of a selector, with a backslash before each `\`, `,` and `=`.
pub fn escape_value(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        if is_escaped(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// The value of an escaped text.
///
/// # Errors
/// kube-apiserver's message for an unescaped `,` or `=` and for an unknown escape; the offset counts within `text`.
pub fn unescape_value(text: &str) -> Result<String, SelectorError> {
    if !text.contains(is_escaped) {
        return Ok(text.to_owned());
    }
    let mut value = String::with_capacity(text.len());
    let mut characters = text.char_indices();
    while let Some((offset, character)) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some((_, escaped)) if is_escaped(escaped) => value.push(escaped),
                unknown => {
                    let unknown = unknown.map(|(_, character)| character.to_string()).unwrap_or_default();
                    let message = format!("invalid field selector: invalid escape sequence: \\{unknown}");
                    return Err(SelectorError { message, offset });
                }
            },
            ',' | '=' => {
                let number = u32::from(character);
                let message = format!("invalid field selector: unescaped character in value: {number}");
                return Err(SelectorError { message, offset });
            }
            _ => value.push(character),
        }
    }
    Ok(value)
}

/// Whether a value in the text of a selector needs a backslash before the character.
pub(super) fn is_escaped(character: char) -> bool {
    matches!(character, '\\' | ',' | '=')
}

/// Splits the text of a selector at the commas without a backslash before them. Returns the terms with their offsets in
/// bytes, without empty terms.
fn terms(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = Some(0);
    let all = std::iter::from_fn(move || {
        let begin = start?;
        let mut after_backslash = false;
        let end = text[begin..].bytes().position(|byte| {
            let is_end = byte == b',' && !after_backslash;
            after_backslash = byte == b'\\' && !after_backslash;
            is_end
        });
        start = end.map(|end| begin + end + 1);
        Some((begin, &text[begin..end.map_or(text.len(), |end| begin + end)]))
    });
    all.filter(|(_, term)| !term.is_empty())
}

/// Creates an operator from its value.
type OperatorOfValue = fn(String) -> Operator;

/// Splits a term at its first operator, into the name of the field, the operator, and the value with its escapes.
/// `None` if the term has no operator.
fn split_term(term: &str) -> Option<(&str, OperatorOfValue, &str)> {
    let (label, value) = term.split_once('=')?;
    Some(match label.strip_suffix('!') {
        Some(label) => (label, Operator::not_equal_to, value),
        None => (label, Operator::equal_to, value.strip_prefix('=').unwrap_or(value)),
    })
}
