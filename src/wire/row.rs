//! One row of a table, written cell by cell.
//!
//! A CRD may have a thousand columns that all show the same megabyte, so a row can be gigabytes long. A row therefore
//! holds the JSON of its object, and the positions of the cells' values in it. It holds at most one long cell as
//! text. [`Columns`] finds the values when the row begins, in one pass over the object for all columns.

use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::column::{ColumnKind, write_cell};
use super::encode::{LONG, Shown, Unfinished, write_string, write_value};
use super::table::{Columns, Include};
use super::yaml::YamlWriter;
use crate::flow_control::long_work::WORK_OF_A_TURN;
use crate::model::Version;
use crate::printer::RowCondition;
use crate::store::Object;

/// A cell that is not written yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// The name of the object.
    Name,
    /// A value of the object.
    Found {
        /// The type of its column.
        kind: ColumnKind,
        /// The range of the value in the JSON.
        range: Range<usize>,
    },
    /// The value of the cell itself.
    Printed(Value),
}

/// A row, with the parts that are not written yet.
pub(crate) struct Row {
    columns: Arc<Columns>,
    object: Object,
    /// The version to show.
    version: Version,
    /// The time for ages.
    now: Timestamp,
    /// The JSON of the object.
    json: Vec<u8>,
    /// The cells that are not written yet.
    cells: std::vec::IntoIter<Cell>,
    /// Whether the next cell is the first one.
    is_first: bool,
    condition: Option<RowCondition>,
    /// Whether [`Part::Rest`] has been returned.
    is_done: bool,
}

/// A part of a row, which is one JSON document.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Cell(Cell),
    /// The fields after the cells, as a JSON object.
    Rest,
}

impl Row {
    /// The row of an object, with ages at the time `now`.
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

    /// The approximate length in bytes. `length_as` returns the length that a JSON document has in the format of the
    /// response.
    pub(crate) fn length_with(&self, length_as: impl Fn(&[u8]) -> u64) -> u64 {
        let cells = self.cells.as_slice().iter().map(|cell| self.cell_length(cell) as u64).sum::<u64>();
        let object = match self.columns.include() {
            Include::Metadata => length_as(&self.json[self.object.metadata_span()]),
            Include::Object => length_as(&self.json),
            Include::None => 0,
        };
        cells.saturating_add(object)
    }

    /// The next part of the row; `None` after the last one.
    fn next_part(&mut self) -> Option<Part> {
        match self.cells.next() {
            Some(cell) => Some(Part::Cell(cell)),
            None if std::mem::replace(&mut self.is_done, true) => None,
            None => Some(Part::Rest),
        }
    }

    /// The approximate length of a part in bytes.
    fn part_length(&self, part: &Part) -> usize {
        match part {
            Part::Cell(cell) => self.cell_length(cell),
            Part::Rest => self.rest_length(),
        }
    }

    /// The approximate length of a cell in bytes; 0 for values that are not strings, which are short.
    fn cell_length(&self, cell: &Cell) -> usize {
        match cell {
            Cell::Name => self.object.name().len(),
            Cell::Found { range, .. } => range.len(),
            Cell::Printed(Value::String(text)) => text.len(),
            Cell::Printed(_) => 0,
        }
    }

    /// The length in bytes of what the row shows of the object besides its cells.
    fn rest_length(&self) -> usize {
        match self.columns.include() {
            Include::Metadata => self.object.metadata_span().len(),
            Include::Object => self.json.len(),
            Include::None => 0,
        }
    }

    /// Writes a part as one JSON document.
    fn write_part(&self, part: &Part, out: &mut Vec<u8>) {
        match part {
            Part::Cell(Cell::Name) => write_string(self.object.name(), out),
            Part::Cell(Cell::Found { kind, range }) => write_cell(*kind, &self.json[range.clone()], self.now, out),
            Part::Cell(Cell::Printed(value)) => write_value(value, out),
            Part::Rest => self.write_rest(out),
        }
    }

    /// Writes the fields after the cells as a JSON object: `{"conditions":…,"object":…}`. [`JsonRow`] replaces the
    /// opening brace by a comma.
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

/// Writes a row as JSON.
pub(crate) struct JsonRow {
    row: Row,
    /// The bytes of the last long part.
    long: Vec<u8>,
    /// The number of bytes of `long` that are written.
    written: usize,
    /// The part in `long`. A column that shows the same value uses its bytes again.
    held: Option<Part>,
}

impl JsonRow {
    /// A writer at the beginning of the row.
    pub(crate) fn new(row: Row) -> JsonRow {
        JsonRow { row, long: Vec::new(), written: 0, held: None }
    }
}

impl Unfinished for JsonRow {
    /// Writes parts until `out` has `target` bytes, or [`WORK_OF_A_TURN`] bytes of the object were read for long parts. A
    /// part of more than [`LONG`] bytes is first written to `self.long`.
    fn fill(&mut self, target: usize, out: &mut Vec<u8>) -> bool {
        let mut read = 0;
        loop {
            if self.written < self.long.len() {
                let end = self.long.len().min(self.written + target.saturating_sub(out.len()));
                out.extend_from_slice(&self.long[self.written..end]);
                self.written = end;
            }
            if self.written < self.long.len() || out.len() >= target || read >= WORK_OF_A_TURN {
                return false;
            }
            let Some(part) = self.row.next_part() else { return true };
            let separator: &[u8] = match &part {
                Part::Cell(_) if std::mem::take(&mut self.row.is_first) => b"{\"cells\":[",
                Part::Cell(_) => b",",
                Part::Rest => b"],",
            };
            out.extend_from_slice(separator);
            // The fields after the cells continue the object of the cells, so their opening brace is skipped.
            let skipped = usize::from(part == Part::Rest);
            let length = self.row.part_length(&part);
            if length > LONG {
                // Columns often show the same value, whose bytes are then in `long` already.
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
                // The opening brace of the part replaces the comma, and then becomes one.
                let start = out.len() - 1;
                out.truncate(start);
                self.row.write_part(&part, out);
                out[start] = b',';
            }
        }
    }
}

/// Writes a row as YAML, as an item of a list.
pub(crate) struct YamlRow {
    row: Row,
    /// The part that is being written.
    part: Option<YamlWriter>,
}

impl YamlRow {
    /// A writer at the beginning of the row.
    pub(crate) fn new(row: Row) -> YamlRow {
        YamlRow { row, part: None }
    }
}

impl Unfinished for YamlRow {
    /// Writes parts until `out` has `target` bytes, or [`WORK_OF_A_TURN`] bytes of the object were read. Each part is
    /// converted from JSON.
    fn fill(&mut self, target: usize, out: &mut Vec<u8>) -> bool {
        let mut read = 0;
        loop {
            if let Some(part) = &mut self.part {
                if !part.fill(target, out) {
                    return false;
                }
                self.part = None;
            }
            if out.len() >= target || read >= WORK_OF_A_TURN {
                return false;
            }
            let Some(part) = self.row.next_part() else {
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
