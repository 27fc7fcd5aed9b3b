//! Parses the documents of one file, which is YAML or JSON. Lists are split into their items. Each object has its line.
//!
//! An invalid document is reported with line and cause, and the others of the file are returned. The text is split at
//! lines of `---` before it is parsed, because no block scalar can contain such a line. Scalars have the values that
//! kubectl reads ([`super::scalar`]). Unlike in kubectl, a key that occurs twice in one mapping is rejected. Anchors,
//! aliases and merge keys are followed ([`super::builder`]). A [`MemoryBudget`] limits the memory of a text's values.
//! Objects are validated in `source::folder`.

use saphyr_parser::{Event, Parser};
use serde_json::Value;

use super::budget::MemoryBudget;
use super::builder::Builder;
use super::json;
use super::parsed::ParsedDocument;
pub use super::parsed::{Document, InvalidDocument};

/// The maximum number of characters with a meaning in YAML in one request body. The scanner stores all tokens of a list
/// or mapping in brackets until it ends, because the whole could be a key. That is about 300 bytes for each of these
/// characters.
pub const MAX_INDICATORS: usize = 65_536;

/// The syntax that the name of a file or a media type states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `.yaml` or `.yml`; the text may still be JSON.
    Yaml,
    /// `.json`.
    Json,
}

/// Why a text is not one document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SingleDocumentError {
    /// The document cannot be read.
    #[error(transparent)]
    Invalid(#[from] InvalidDocument),
    /// The text has no document.
    #[error("one document is expected, not 0")]
    None,
    /// The text has two or more documents.
    #[error("one document is expected, not several")]
    Several,
}

/// Parses a file, and returns its objects and its errors. Empty documents are left out. A `List`, and every other kind
/// that ends in `List`, is split into its `items`; without any, it is left out too. Parsing ends when the budget of
/// memory is exceeded.
pub fn documents(bytes: &[u8], form: Syntax) -> (Vec<Document>, Vec<InvalidDocument>) {
    let mut documents = Vec::new();
    let mut invalid = Vec::new();
    let mut budget = MemoryBudget::of_file(bytes.len());
    for (chunk, first_line) in Chunks::new(bytes, form) {
        parse_chunk(chunk, first_line, form, &mut budget, &mut documents, &mut invalid);
        if budget.is_exceeded() {
            break;
        }
    }
    (documents, invalid)
}

/// Parses the single document of an untrusted text, within the memory of the budget.
///
/// # Errors
/// [`SingleDocumentError`]. Parsing ends at the first error, or after the second document.
pub fn single(bytes: &[u8], form: Syntax, budget: &mut MemoryBudget) -> Result<Value, SingleDocumentError> {
    if form == Syntax::Yaml && bytes.iter().filter(|byte| is_indicator(**byte)).nth(MAX_INDICATORS).is_some() {
        let cause =
            format!("the document has more than {MAX_INDICATORS} of the characters []{{}},:?&*!\"'#%; send it as JSON");
        return Err(SingleDocumentError::Invalid(InvalidDocument { line: 1, cause }));
    }
    let mut documents = Vec::new();
    let mut invalid = Vec::new();
    for (chunk, first_line) in Chunks::new(bytes, form) {
        parse_chunk(chunk, first_line, form, budget, &mut documents, &mut invalid);
        if let Some(invalid) = invalid.pop() {
            return Err(SingleDocumentError::Invalid(invalid));
        }
        if documents.len() > 1 {
            return Err(SingleDocumentError::Several);
        }
    }
    documents.pop().map(|document| document.value).ok_or(SingleDocumentError::None)
}

/// Whether a byte can start, end or separate a token in brackets, or declares a tag.
fn is_indicator(byte: u8) -> bool {
    b"[]{},:?&*!\"'#%".contains(&byte)
}

/// Parses the documents of one chunk ([`Chunks`]) of a file, which begins at line `first_line`. Adds its objects to
/// `documents`, and errors to `invalid`.
fn parse_chunk(
    chunk: &[u8],
    first_line: usize,
    form: Syntax,
    budget: &mut MemoryBudget,
    documents: &mut Vec<Document>,
    invalid: &mut Vec<InvalidDocument>,
) {
    if let Err(cause) = budget.charge_document() {
        invalid.push(InvalidDocument { line: first_line, cause });
        return;
    }
    match std::str::from_utf8(chunk) {
        Ok(text) => {
            let (parsed, error) = parse_text(text, first_line, form, budget);
            for document in parsed {
                flatten(document, documents, invalid);
            }
            invalid.extend(error);
        }
        Err(error) => {
            let line = first_line + chunk[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            invalid.push(InvalidDocument { line, cause: "not UTF-8".to_owned() });
        }
    }
}

/// Parses the documents of a text, which begins at line `first_line` of its file, up to the first invalid one. A text
/// that is stated to be YAML is parsed as JSON if it begins with a brace and is valid JSON.
fn parse_text(
    text: &str,
    first_line: usize,
    form: Syntax,
    budget: &mut MemoryBudget,
) -> (Vec<ParsedDocument>, Option<InvalidDocument>) {
    if form == Syntax::Json {
        return json::parse_documents(text, first_line, budget);
    }
    let content = text.trim_start_matches("---").trim_start();
    if content.starts_with('{') {
        let skipped = &text[..text.len() - content.len()];
        let line = first_line + skipped.matches('\n').count();
        let used = budget.used();
        let (documents, error) = json::parse_documents(content, line, budget);
        if error.is_none() || budget.is_exceeded() {
            return (documents, error);
        }
        // The text is not JSON but a YAML mapping in flow style.
        budget.reset_to(used);
    }
    parse_yaml(text, first_line, budget)
}

/// Splits a file at lines that are `---`, or start with `---` and whitespace, and returns each part with the number of
/// its first line. Such a line is in the part after it. Parts without content are left out.
struct Chunks<'a> {
    rest: &'a [u8],
    /// The number of the first line of `rest`.
    line: usize,
    form: Syntax,
}

impl<'a> Chunks<'a> {
    /// The chunks of a text: documents of YAML, or the whole of JSON. A byte order mark is skipped.
    fn new(bytes: &'a [u8], form: Syntax) -> Chunks<'a> {
        let rest = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        Chunks { rest, line: 1, form }
    }

    /// The length of the next chunk, and its number of lines.
    fn next_length(&self) -> (usize, usize) {
        let (mut length, mut lines) = (0, 0);
        for line in self.rest.split_inclusive(|byte| *byte == b'\n') {
            // A marker in the first line begins this chunk.
            let marked = line.strip_prefix(b"---").filter(|_| self.form == Syntax::Yaml && length > 0);
            if marked.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace)) {
                break;
            }
            length += line.len();
            lines += 1;
        }
        (length, lines)
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (&'a [u8], usize);

    /// The next chunk with content, and the number of its first line in the file.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let (length, lines) = self.next_length();
            let (chunk, rest) = self.rest.split_at(length);
            let line = self.line;
            (self.rest, self.line) = (rest, line + lines);
            // JSON has no comments: the parser rejects what `is_empty` would skip.
            if self.form == Syntax::Json || !is_empty(chunk) {
                return Some((chunk, line));
            }
        }
        None
    }
}

/// Whether a chunk has only whitespace, comments, directives and markers.
fn is_empty(chunk: &[u8]) -> bool {
    chunk.split(|byte| *byte == b'\n').all(|line| {
        let line = line.trim_ascii();
        let rest = line.strip_prefix(b"---").unwrap_or(line).trim_ascii();
        rest.is_empty() || rest == b"..." || matches!(rest.first(), Some(b'#' | b'%'))
    })
}

/// Adds an object to `documents`, or the items of a List one by one. Adds an error to `invalid` for a value that is not
/// an object, except null.
fn flatten(document: ParsedDocument, documents: &mut Vec<Document>, invalid: &mut Vec<InvalidDocument>) {
    let ParsedDocument { value, line, item_lines } = document;
    let Value::Object(mut members) = value else {
        if !value.is_null() {
            invalid.push(InvalidDocument {
                line,
                cause: "not an object: expected a mapping with apiVersion and kind".to_owned(),
            });
        }
        return;
    };
    let is_list = members.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match members.remove("items") {
        Some(Value::Array(items)) if is_list => {
            for (index, value) in items.into_iter().enumerate() {
                let line = item_lines.get(index).copied().unwrap_or(line);
                flatten(ParsedDocument { value, line, item_lines: Vec::new() }, documents, invalid);
            }
        }
        // A list without items.
        Some(Value::Null) | None if is_list => {}
        // One object, of which `items` is an ordinary field.
        other => {
            members.extend(other.map(|items| ("items".to_owned(), items)));
            documents.push(Document { value: Value::Object(members), line });
        }
    }
}

/// Parses the YAML documents of a text, which begins at line `first_line` of its file, up to the first invalid one.
fn parse_yaml(
    text: &str,
    first_line: usize,
    budget: &mut MemoryBudget,
) -> (Vec<ParsedDocument>, Option<InvalidDocument>) {
    let mut documents = Vec::new();
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                let line = first_line + error.marker().line().saturating_sub(1);
                let cause = format!("invalid YAML: {}", error.info().replace('\n', " "));
                return (documents, Some(InvalidDocument { line, cause }));
            }
        };
        let line = first_line + span.start.line().saturating_sub(1);
        let taken = if let Event::DocumentStart(_) = event {
            builder = Builder::new(line);
            Ok(())
        } else if let Event::DocumentEnd = event {
            let builder = std::mem::take(&mut builder);
            if let Some(value) = builder.root {
                documents.push(ParsedDocument { value, line: builder.line, item_lines: builder.item_lines });
            }
            budget.charge_document()
        } else {
            builder.take(event, line, budget)
        };
        if let Err(cause) = taken {
            return (documents, Some(InvalidDocument { line, cause }));
        }
    }
    (documents, None)
}
