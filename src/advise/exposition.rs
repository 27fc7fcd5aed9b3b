//! The text format of Prometheus, as far as kube-apiserver writes it: one sample a line, version 0.0.4.
//!
//! Line by line and on demand: a large cluster's document has tens of megabytes, and few of its lines are looked at. Types and
//! help are comments here; histograms are their single samples.

use std::borrow::Cow;

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The metric's name, with `_sum`, `_count` or `_bucket` where it is of a histogram.
    pub name: &'a str,
    /// Its labels, in the order of the text.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// Its value.
    pub value: f64,
}

impl Sample<'_> {
    /// A label's value; `None` when the sample has no such label, which Prometheus takes for the empty text.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| &**value)
    }
}

/// Why a line is no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSample {
    /// Labels that do not end, or are not `name="value"`.
    #[error("its labels are not name=\"value\" in braces")]
    Labels,
    /// What follows the labels is no number.
    #[error("its value is no number")]
    Value,
}

/// The name at the start of a line; empty for blank lines and comments.
pub fn name(line: &str) -> &str {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let end = line.find(|letter: char| !is_part(letter)).unwrap_or(line.len());
    &line[..end]
}

/// Reads a line that has a [`name`]. A timestamp behind the value is not looked at.
///
/// # Errors
/// [`NoSample`].
pub fn sample(line: &str) -> Result<Sample<'_>, NoSample> {
    let name = name(line);
    let mut rest = line[name.len()..].trim_start();
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once('=').ok_or(NoSample::Labels)?;
            let (value, after) = quoted(after.trim_start())?;
            labels.push((label.trim(), value));
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start(),
                None if rest.starts_with('}') => {}
                None => return Err(NoSample::Labels),
            }
        }
        rest = &rest[1..];
    }
    let value = rest.split_ascii_whitespace().next().ok_or(NoSample::Value)?;
    let value = value.parse().map_err(|_| NoSample::Value)?;
    Ok(Sample { name, labels, value })
}

/// A text in double quotes, and what follows it.
fn quoted(text: &str) -> Result<(Cow<'_, str>, &str), NoSample> {
    let text = text.strip_prefix('"').ok_or(NoSample::Labels)?;
    let end = text.find(['"', '\\']).ok_or(NoSample::Labels)?;
    if text.as_bytes()[end] == b'"' {
        return Ok((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((position, letter)) = letters.next() {
        match letter {
            '"' => return Ok((Cow::Owned(value), &text[position + 1..])),
            '\\' => match letters.next().ok_or(NoSample::Labels)?.1 {
                'n' => value.push('\n'),
                // A backslash, a quote; Prometheus keeps any other as it is written.
                escaped @ ('\\' | '"') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            letter => value.push(letter),
        }
    }
    Err(NoSample::Labels)
}
