//! One row of a table, written cell by cell.
//!
//! A definition may have a thousand columns that all show the same megabyte, so a row can be gigabytes long. A row
//! therefore holds the text of its object and the positions of its cells' values in it. It holds no more than one long
//! cell as text. Which values these are is [`Columns`]' decision, made when the row begins. It is one pass over the
//! object, whatever the number of columns.

use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::column::{ColumnKind, write_cell};
use super::encode::{LONG, MOST_READ, Shown, Unfinished, write_string, write_value};
use super::table::{Columns, Include};
use super::yaml::YamlWriter;
use crate::model::Version;
use crate::printer::RowCondition;
use crate::store::Object;

/// One cell that has not been written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// The name of the object.
    Name,
    /// A value of the object: where its text is.
    Found {
        /// The type of its column.
        kind: ColumnKind,
        /// The range of the value in the JSON.
        range: Range<usize>,
    },
    /// The cell itself.
    Printed(Value),
}

/// What is left of a row.
pub(crate) struct Row {
    columns: Arc<Columns>,
    object: Object,
    version: Version,
    now: Timestamp,
    json: Vec<u8>,
    cells: std::vec::IntoIter<Cell>,
    is_first: bool,
    condition: Option<RowCondition>,
    /// The rest after the cells has been taken.
    is_done: bool,
}

/// A part of a row: one JSON document.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Cell(Cell),
    /// An object with the members behind the cells.
    Rest,
}

impl Row {
    /// The row of an object, with ages counted up to `now`.
    pub(crate) fn new(columns: &Arc<Columns>, shown: Shown<'_>, now: Timestamp) -> Row {
        let json = shown.object.json();
        let (cells, condition) = columns.cells(&json, now);
        Row {
            columns: columns.clone(),
            object: shown.object.clone(),
            version: shown.version,
            now,
            json,
            cells: cells.into_iter(),
            is_first: true,
            condition,
            is_done: false,
        }
    }

    /// The approximate length in bytes. `length_as` is the length of a JSON document in the format of the response.
    pub(crate) fn length_with(&self, length_as: impl Fn(&[u8]) -> u64) -> u64 {
        let cells = self.cells.as_slice().iter().map(|cell| self.length_of(cell) as u64).sum::<u64>();
        let object = match self.columns.include() {
            Include::Metadata => length_as(&self.json[self.object.metadata_span()]),
            Include::Object => length_as(&self.json),
            Include::None => 0,
        };
        cells.saturating_add(object)
    }

    /// The next part of the row.
    fn next(&mut self) -> Option<Part> {
        match self.cells.next() {
            Some(cell) => Some(Part::Cell(cell)),
            None if std::mem::replace(&mut self.is_done, true) => None,
            None => Some(Part::Rest),
        }
    }

    /// The approximate length of a part.
    fn part_length(&self, part: &Part) -> usize {
        match part {
            Part::Cell(cell) => self.length_of(cell),
            Part::Rest => self.rest_length(),
        }
    }

    /// The length of a cell in bytes.
    fn length_of(&self, cell: &Cell) -> usize {
        match cell {
            Cell::Name => self.object.name().len(),
            Cell::Found { range, .. } => range.len(),
            Cell::Printed(Value::String(text)) => text.len(),
            Cell::Printed(_) => 0,
        }
    }

    /// The length of the object in the row.
    fn rest_length(&self) -> usize {
        match self.columns.include() {
            Include::Metadata => self.object.metadata_span().len(),
            Include::Object => self.json.len(),
            Include::None => 0,
        }
    }

    /// Writes one cell, or everything after the cells.
    fn write_part(&self, part: &Part, out: &mut Vec<u8>) {
        match part {
            Part::Cell(Cell::Name) => write_string(self.object.name(), out),
            Part::Cell(Cell::Found { kind, range }) => write_cell(*kind, &self.json[range.clone()], self.now, out),
            Part::Cell(Cell::Printed(value)) => write_value(value, out),
            Part::Rest => self.write_rest(out),
        }
    }

    /// Writes what follows the cells: conditions and the object.
    fn write_rest(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(condition) = self.condition {
            out.extend_from_slice(b"\"conditions\":[{\"type\":\"Completed\",\"status\":\"True\",\"reason\":");
            write_string(condition.reason, out);
            out.extend_from_slice(b",\"message\":");
            write_string(condition.message, out);
            out.extend_from_slice(b"}],");
        }
        out.extend_from_slice(b"\"object\":");
        self.columns.write_object(Shown { object: &self.object, version: self.version }, &self.json, out);
        out.push(b'}');
    }
}

/// A row on its way to JSON.
pub(crate) struct JsonRow {
    row: Row,
    /// A long part, how much of it is written, and which it is: columns that show the same value share it.
    long: Vec<u8>,
    written: usize,
    held: Option<Part>,
}

impl JsonRow {
    /// A row of which nothing is written.
    pub(crate) fn new(row: Row) -> JsonRow {
        JsonRow { row, long: Vec::new(), written: 0, held: None }
    }
}

impl Unfinished for JsonRow {
    fn fill(&mut self, most: usize, out: &mut Vec<u8>) -> bool {
        let mut read = 0;
        loop {
            if self.written < self.long.len() {
                let end = self.long.len().min(self.written + most.saturating_sub(out.len()));
                out.extend_from_slice(&self.long[self.written..end]);
                self.written = end;
            }
            if self.written < self.long.len() || out.len() >= most || read >= MOST_READ {
                return false;
            }
            let Some(part) = self.row.next() else { return true };
            let separator: &[u8] = match &part {
                Part::Cell(_) if std::mem::take(&mut self.row.is_first) => b"{\"cells\":[",
                Part::Cell(_) => b",",
                Part::Rest => b"],",
            };
            out.extend_from_slice(separator);
            // The members after the cells continue where these end.
            let skipped = usize::from(part == Part::Rest);
            let length = self.row.part_length(&part);
            if length > LONG {
                if self.held.as_ref() != Some(&part) {
                    read += length;
                    self.long.clear();
                    self.row.write_part(&part, &mut self.long);
                    self.held = Some(part);
                }
                self.written = skipped;
            } else if skipped == 0 {
                self.row.write_part(&part, out);
            } else {
                // Its brace takes the place of the comma.
                let start = out.len() - 1;
                out.truncate(start);
                self.row.write_part(&part, out);
                out[start] = b',';
            }
        }
    }
}

/// A row on its way to YAML, as an item of a list.
pub(crate) struct YamlRow {
    row: Row,
    part: Option<YamlWriter>,
}

impl YamlRow {
    /// A row of which nothing is written.
    pub(crate) fn new(row: Row) -> YamlRow {
        YamlRow { row, part: None }
    }
}

impl Unfinished for YamlRow {
    fn fill(&mut self, most: usize, out: &mut Vec<u8>) -> bool {
        let mut read = 0;
        loop {
            if let Some(part) = &mut self.part {
                if !part.fill(most, out) {
                    return false;
                }
                self.part = None;
            }
            if out.len() >= most || read >= MOST_READ {
                return false;
            }
            let Some(part) = self.row.next() else {
                out.push(b'\n');
                return true;
            };
            let (before, indent): (&[u8], usize) = match &part {
                Part::Cell(_) if std::mem::take(&mut self.row.is_first) => (b"- cells:\n  - ", 4),
                Part::Cell(_) => (b"\n  - ", 4),
                Part::Rest => (b"\n  ", 2),
            };
            out.extend_from_slice(before);
            let length = self.row.part_length(&part);
            read += length;
            let mut json = Vec::with_capacity(length);
            self.row.write_part(&part, &mut json);
            self.part = Some(YamlWriter::new(json, indent));
        }
    }
}
