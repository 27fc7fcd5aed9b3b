//! Printers that several kinds share.

use serde_json::json;

use super::column::{AGE, CREATED_AT, NAME};
use super::kind::{PrintedRow, Printer};
use super::read::{name, text_or};
use super::time::{Moment, age};
use crate::json::Json;

/// Name and age: kinds without columns of their own, and those that are not in the table, such as those of aggregated
/// API servers.
pub const NAME_AND_AGE: &Printer = &Printer { columns: &[NAME, AGE], print: name_and_age, order: None };

/// Name and time of creation.
pub const NAME_AND_CREATION: &Printer = &Printer { columns: &[NAME, CREATED_AT], print: created_at, order: None };

fn name_and_age(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), age(object, now)])
}

fn created_at(object: Json<'_>, _now: Moment) -> PrintedRow {
    let created = object.at("metadata").at("creationTimestamp");
    // The zero time of Go, as a bookmark has it.
    PrintedRow::new(vec![name(object), json!(text_or(created, "0001-01-01T00:00:00Z"))])
}
