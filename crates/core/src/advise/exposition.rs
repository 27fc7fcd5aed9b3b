//! Parses the text format 0.0.4 of Prometheus, as far as kube-apiserver writes it: one sample in a line.
//!
//! Lines are parsed on demand: the document of a large cluster has tens of megabytes, of which few lines are used.
//! Types and help are comments here, and histograms are separate samples.

use std::borrow::Cow;

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample<'a> {
    /// The name of the metric, with `_sum`, `_count` or `_bucket` for a histogram.
    pub name: &'a str,
    /// Its labels, in the order of the text.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// Its value.
    pub value: f64,
}

impl MetricSample<'_> {
    /// A label's value; `None` if the sample has no such label, which Prometheus treats as an empty value.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| &**value)
    }
}

/// Why a line is not a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// Labels that do not end, or are not `name="value"`.
    #[error("its labels are not name=\"value\" in braces")]
    Labels,
    /// The value is not a number.
    #[error("its value is not a number")]
    Value,
}

/// The name of the metric at the start of a line; empty for blank lines and comments.
pub fn name(line: &str) -> &str {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == ':';
    let end = line.find(|character: char| !is_part(character)).unwrap_or(line.len());
    &line[..end]
}

/// Parses a line that begins with the name of a metric. Ignores a timestamp after the value.
///
/// # Errors
/// [`SampleError`].
pub fn sample(line: &str) -> Result<MetricSample<'_>, SampleError> {
    let name = name(line);
    let mut rest = line[name.len()..].trim_start();
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once('=').ok_or(SampleError::Labels)?;
            let (value, after) = parse_quoted(after.trim_start())?;
            labels.push((label.trim(), value));
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start(),
                None if rest.starts_with('}') => {}
                None => return Err(SampleError::Labels),
            }
        }
        rest = &rest[1..];
    }
    let value = rest.split_ascii_whitespace().next().ok_or(SampleError::Value)?;
    let value = value.parse().map_err(|_| SampleError::Value)?;
    Ok(MetricSample { name, labels, value })
}

/// Parses a string in double quotes at the start of `text`. Returns its value, and the text after it.
fn parse_quoted(text: &str) -> Result<(Cow<'_, str>, &str), SampleError> {
    let text = text.strip_prefix('"').ok_or(SampleError::Labels)?;
    let end = text.find(['"', '\\']).ok_or(SampleError::Labels)?;
    if text.as_bytes()[end] == b'"' {
        return Ok((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((position, character)) = characters.next() {
        match character {
            '"' => return Ok((Cow::Owned(value), &text[position + 1..])),
            '\\' => match characters.next().ok_or(SampleError::Labels)?.1 {
                'n' => value.push('\n'),
                // A backslash or a quote. Prometheus does not unescape others.
                escaped @ ('\\' | '"') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            character => value.push(character),
        }
    }
    Err(SampleError::Labels)
}
