//! Parses JSON texts with line numbers.
//!
//! serde_json does not parse whole values here: it silently takes the last of two equal keys, and reports no lines of
//! values. Nesting is bounded. Several documents may follow each other with or without a line break, as kubectl allows.

use serde_json::{Map, Number, Value};

use super::budget::MemoryBudget;
use super::parsed::{InvalidDocument, MAX_DEPTH, ParsedDocument};

/// Parses the documents of a JSON text, up to the first invalid one. `first_line` is the number of the text's first
/// line in its file.
pub(super) fn parse_documents(
    text: &str,
    first_line: usize,
    budget: &mut MemoryBudget,
) -> (Vec<ParsedDocument>, Option<InvalidDocument>) {
    let mut reader =
        Reader { bytes: text.as_bytes(), text, offset: 0, line: first_line, item_lines: Vec::new(), budget };
    let mut documents = Vec::new();
    loop {
        reader.skip_blanks();
        if reader.peek().is_none() {
            return (documents, None);
        }
        let line = reader.line;
        reader.item_lines.clear();
        match reader.budget.charge_document().and_then(|()| reader.parse_value(0, Position::Root)) {
            Ok(value) => documents.push(ParsedDocument { value, line, item_lines: reader.item_lines.clone() }),
            Err(cause) => return (documents, Some(InvalidDocument { line: reader.line, cause })),
        }
    }
}

/// Where a value is in its document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    /// The value of `items` at the root: the lines of its items are recorded.
    Items,
    Below,
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    /// Bytes that are consumed.
    offset: usize,
    /// The number of the current line in the file.
    line: usize,
    /// The lines of the items of the current document.
    item_lines: Vec<usize>,
    budget: &'a mut MemoryBudget,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.offset).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek().filter(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            self.line += usize::from(byte == b'\n');
            self.offset += 1;
        }
    }

    /// Skips whitespace, and consumes this byte if it is next. Returns whether it was.
    fn consume_if_next(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        self.offset += usize::from(found);
        found
    }

    /// The error for a character, or the end of the text, where something else is expected.
    fn unexpected(&self, expected: &str) -> String {
        match self.text.get(self.offset..).and_then(|rest| rest.chars().next()) {
            Some(found) => format!("invalid JSON: expected {expected}, found {found:?}"),
            None => format!("invalid JSON: expected {expected}, found the end"),
        }
    }

    /// Parses a value that is inside of `depth` lists and objects. `position`: where it is in its document.
    fn parse_value(&mut self, depth: usize, position: Position) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.skip_blanks();
        match self.peek() {
            Some(b'{') => self.parse_object(depth, position),
            Some(b'[') => self.parse_list(depth, position),
            Some(b'"') => {
                let text = self.parse_string()?;
                self.budget.charge_text(&text)?;
                Ok(Value::String(text))
            }
            Some(b'-' | b'0'..=b'9') => self.parse_number(),
            _ => {
                for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
                {
                    if self.text[self.offset..].starts_with(word) {
                        self.offset += word.len();
                        return Ok(value);
                    }
                }
                Err(self.unexpected("a value"))
            }
        }
    }

    /// Parses an object; the next byte is its brace. `position`: where the object is in its document. The list `items`
    /// of the root is parsed as [`Position::Items`], which records the line of each of its items.
    fn parse_object(&mut self, depth: usize, position: Position) -> Result<Value, String> {
        self.offset += 1;
        let mut members = Map::new();
        if self.consume_if_next(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key"));
            }
            let key = self.parse_string()?;
            if !self.consume_if_next(b':') {
                return Err(self.unexpected("':'"));
            }
            self.budget.charge_member(members.len(), &key)?;
            let is_items = position == Position::Root && key == "items";
            let value = self.parse_value(depth + 1, if is_items { Position::Items } else { Position::Below })?;
            if members.contains_key(&key) {
                return Err(format!("duplicate key {key:?}"));
            }
            members.insert(key, value);
            if self.consume_if_next(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.consume_if_next(b',') {
                return Err(self.unexpected("',' or '}'"));
            }
        }
    }

    /// Parses a list; the next byte is its bracket. `position`: where the list is in its document. For
    /// [`Position::Items`], the line of each element is recorded.
    fn parse_list(&mut self, depth: usize, position: Position) -> Result<Value, String> {
        self.offset += 1;
        let mut items = Vec::new();
        if self.consume_if_next(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_blanks();
            if position == Position::Items {
                self.item_lines.push(self.line);
            }
            self.budget.charge_element(items.len())?;
            items.push(self.parse_value(depth + 1, Position::Below)?);
            if self.consume_if_next(b']') {
                return Ok(Value::Array(items));
            }
            if !self.consume_if_next(b',') {
                return Err(self.unexpected("',' or ']'"));
            }
        }
    }

    /// Parses a string; the next byte is its quote. serde_json resolves the escapes; this only finds the end.
    fn parse_string(&mut self) -> Result<String, String> {
        let start = self.offset;
        self.offset += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.offset += 2,
                Some(b'\n') | None => return Err("invalid JSON: a string does not end".to_owned()),
                Some(_) => self.offset += 1,
            }
        }
        self.offset += 1;
        serde_json::from_slice(&self.bytes[start..self.offset]).map_err(|error| format!("invalid JSON string: {error}"))
    }

    /// Parses a number.
    fn parse_number(&mut self) -> Result<Value, String> {
        let start = self.offset;
        while self.peek().is_some_and(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.offset += 1;
        }
        let text = &self.text[start..self.offset];
        // serde_json checks the grammar; the standard library parses the value, because it rounds correctly.
        let number: Number = serde_json::from_str(text).map_err(|_| format!("invalid JSON number {text}"))?;
        let exact = text.parse::<f64>().ok().filter(|_| number.is_f64()).and_then(Number::from_f64);
        Ok(Value::Number(exact.unwrap_or(number)))
    }
}
