//! Printers that several kinds share.

use serde_json::json;

use super::column::{AGE, CREATED_AT, NAME};
use super::kind::{PrintedRow, Printer};
use super::read::{name, text_or};
use super::time::{Moment, age};
use crate::json::Json;

/// Name and age. For kinds without columns of their own, and for kinds without a printer here, such as those of
/// aggregated API servers.
pub const NAME_AND_AGE: &Printer = &Printer { columns: &[NAME, AGE], print: name_and_age, order: None };

/// Name and time of creation: for kinds without a printer upstream (apiserver `registry/rest/table.go`).
pub const NAME_AND_CREATION: &Printer =
    &Printer { columns: &[NAME, CREATED_AT], print: name_and_creation, order: None };

fn name_and_age(object: Json<'_>, now: Moment) -> PrintedRow {
    PrintedRow::new(vec![name(object), age(object, now)])
}

fn name_and_creation(object: Json<'_>, _now: Moment) -> PrintedRow {
    let created = object.at("metadata").at("creationTimestamp");
    // Without a time it prints the zero time of Go. A bookmark has none.
    PrintedRow::new(vec![name(object), json!(text_or(created, "0001-01-01T00:00:00Z"))])
}
