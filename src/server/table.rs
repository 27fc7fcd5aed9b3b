//! meta.k8s.io Table: the columns that kubectl prints.
//!
//! Custom resources have the columns of their CRD, or name and age; what a built-in kind shows is `printer`'s. A cell is
//! the only thing for which an object's bytes are read again, once a row.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::crd::PrinterColumn;
use crate::extract::Prune;
use crate::extract::json_path::JsonPath;
use crate::extract::json_path::search::Search;
use crate::extract::tree::{self, OBJECT_LEVELS, Tree};
use crate::printer::time::Moment;
use crate::printer::{AGE, Column, FALLBACK, NAME, Printer};
use crate::registry::{Resource, ResourceOrigin};
use crate::store::Object;

use super::column::found_cell;
use super::encode::{Envelope, ListMeta, Shown, write_string, write_type, write_value};
use super::failure::Failure;
use super::negotiate::Form;
use super::params::Query;
use crate::model::quote;

/// What `object` of a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// PartialObjectMetadata.
    Metadata,
    /// The whole object.
    Object,
    /// Null.
    None,
}

impl Include {
    /// Reads `?includeObject=`, which means something for tables only.
    ///
    /// # Errors
    /// 400 for an unknown value.
    pub fn read(query: &Query, form: &Form) -> Result<Include, Failure> {
        match (form, query.get("includeObject").unwrap_or_default()) {
            (Form::Table(_), "" | "Metadata") => Ok(Include::Metadata),
            (Form::Table(_), "Object") => Ok(Include::Object),
            (Form::Table(_), "None") => Ok(Include::None),
            (Form::Table(_), unknown) => Err(Failure::BadRequest(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                 must be 'Metadata', 'Object', 'None', or empty",
                quote(unknown)
            ))),
            _ => Ok(Include::Metadata),
        }
    }
}

/// The columns of one resource.
#[derive(Clone, Debug)]
pub struct Columns {
    definitions: Value,
    cells: Cells,
    now: Timestamp,
}

#[derive(Clone, Debug)]
enum Cells {
    /// Type and path of each column after the name.
    Paths(Vec<(String, JsonPath)>),
    Printed(&'static Printer),
}

impl Columns {
    /// The columns of a resource, with ages counted up to `now`.
    pub fn of(resource: &Resource, now: Timestamp) -> Columns {
        match resource.origin {
            ResourceOrigin::Custom => {
                let prune = resource.seen_through.as_ref().map(|restriction| restriction.prune());
                Columns::of_paths(&resource.printer_columns, prune, now)
            }
            ResourceOrigin::BuiltIn => {
                let printer = Printer::of(&resource.gvr.group, &resource.gvr.resource).unwrap_or(FALLBACK);
                let definition = |column: &Column| {
                    json!({
                        "name": column.name, "type": column.kind, "format": column.format,
                        "description": column.description, "priority": column.priority,
                    })
                };
                let definitions = printer.columns.iter().map(definition).collect();
                Columns { definitions, cells: Cells::Printed(printer), now }
            }
        }
    }

    /// The columns of a definition up to the first one whose path is not valid, as kube-apiserver shows them; without those that look
    /// at what is left out.
    fn of_paths(columns: &[PrinterColumn], prune: Option<&Prune>, now: Timestamp) -> Columns {
        let age = PrinterColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: AGE.description.to_owned(),
            priority: 0,
            json_path: ".metadata.creationTimestamp".to_owned(),
        };
        let read = |column| {
            let column: &PrinterColumn = column;
            Some((column, JsonPath::parse(&column.json_path).ok()?))
        };
        let mut read_columns: Vec<(&PrinterColumn, JsonPath)> = columns.iter().map_while(read).collect();
        let is_hidden = |path: &JsonPath| prune.is_some_and(|prune| path.looks_at(prune));
        if columns.is_empty() || read_columns.iter().all(|(_, path)| is_hidden(path)) && !read_columns.is_empty() {
            read_columns = std::iter::once(&age).map_while(read).collect();
        } else {
            read_columns.retain(|(_, path)| !is_hidden(path));
        }
        let mut definitions = vec![json!({
            "name": NAME.name, "type": NAME.kind, "format": NAME.format, "description": NAME.description, "priority": 0,
        })];
        let mut cells = Vec::with_capacity(read_columns.len());
        for (column, path) in read_columns {
            let description = match &*column.description {
                "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
                own => own.to_owned(),
            };
            definitions.push(json!({
                "name": column.name, "type": column.kind, "format": column.format, "description": description,
                "priority": column.priority,
            }));
            cells.push((column.kind.clone(), path));
        }
        Columns { definitions: Value::Array(definitions), cells: Cells::Paths(cells), now }
    }

    /// From now on ages are counted up to `now`.
    pub fn count_ages_to(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// What stands around the rows of a list.
    pub fn envelope(&self, meta: &ListMeta, version: &str) -> Envelope {
        let mut head = Vec::new();
        write_type("Table", &format!("meta.k8s.io/{version}"), &mut head);
        head.extend_from_slice(b",\"metadata\":");
        meta.write_typed(&mut head);
        head.extend_from_slice(b",\"columnDefinitions\":");
        self.write_definitions(&mut head);
        head.extend_from_slice(b",\"rows\":[");
        Envelope { head, tail: b"]}\n".to_vec() }
    }

    /// A table of one row: a single object, or one in an event.
    pub fn write_single(
        &self,
        shown: Shown<'_>,
        resource: &Resource,
        version: &str,
        include: Include,
        with_definitions: bool,
        out: &mut Vec<u8>,
    ) {
        self.open_single(&shown.version.to_string(), version, with_definitions, out);
        self.write_row(shown, resource, version, include, out);
        out.extend_from_slice(b"]}");
    }

    /// A table with the row of an empty object: how a bookmark looks to a client that watches tables.
    pub fn write_bookmark(
        &self,
        resource_version: &str,
        bookmark: &[u8],
        version: &str,
        with_definitions: bool,
        out: &mut Vec<u8>,
    ) {
        self.open_single(resource_version, version, with_definitions, out);
        out.extend_from_slice(b"{\"cells\":");
        let cells = match &self.cells {
            Cells::Paths(cells) => std::iter::once(json!("")).chain(cells.iter().map(|_| Value::Null)).collect(),
            Cells::Printed(printer) => printer.print(&Value::Null, self.moment()).cells,
        };
        write_value(&Value::Array(cells), out);
        out.extend_from_slice(b",\"object\":");
        out.extend_from_slice(bookmark);
        out.extend_from_slice(b"}]}");
    }

    fn open_single(&self, resource_version: &str, version: &str, with_definitions: bool, out: &mut Vec<u8>) {
        write_type("Table", &format!("meta.k8s.io/{version}"), out);
        out.extend_from_slice(b",\"metadata\":{\"resourceVersion\":");
        write_string(resource_version, out);
        out.extend_from_slice(b"},\"columnDefinitions\":");
        if with_definitions {
            self.write_definitions(out);
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(b",\"rows\":[");
    }

    fn write_definitions(&self, out: &mut Vec<u8>) {
        write_value(&self.definitions, out);
    }

    /// The objects of a page in the order of its rows; `None` when they stand in the order of their keys, as they do for all
    /// kinds but one, which is never large.
    pub fn sorted(&self, objects: &mut dyn Iterator<Item = Object>) -> Option<Vec<Object>> {
        let Cells::Printed(printer) = &self.cells else { return None };
        let order = printer.order()?;
        let mut objects: Vec<Object> = objects.collect();
        objects.sort_by_cached_key(|object| order(&document(&object.json())));
        Some(objects)
    }

    fn moment(&self) -> Moment {
        Moment::of_microseconds(self.now.as_microsecond())
    }

    /// One row.
    pub fn write_row(&self, shown: Shown<'_>, resource: &Resource, version: &str, include: Include, out: &mut Vec<u8>) {
        // Read and parsed once; metadata is cut from the same bytes.
        let json = shown.object.json();
        out.extend_from_slice(b"{\"cells\":[");
        match &self.cells {
            Cells::Paths(cells) => {
                write_string(shown.object.name(), out);
                let tree = Tree::read(&json).ok();
                let mut search = tree.as_ref().map(|tree| (tree, Search::new(tree)));
                for (kind, path) in cells {
                    out.push(b',');
                    let cell =
                        search.as_mut().map(|(tree, search)| found_cell(kind, tree, search.first(path), self.now));
                    write_value(&cell.unwrap_or_default(), out);
                }
                out.push(b']');
            }
            Cells::Printed(printer) => {
                let row = printer.print(&document(&json), self.moment());
                for (index, cell) in row.cells.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_value(cell, out);
                }
                out.push(b']');
                if let Some(condition) = row.condition {
                    out.extend_from_slice(b",\"conditions\":[{\"type\":\"Completed\",\"status\":\"True\",\"reason\":");
                    write_string(condition.reason, out);
                    out.extend_from_slice(b",\"message\":");
                    write_string(condition.message, out);
                    out.extend_from_slice(b"}]");
                }
            }
        }
        out.extend_from_slice(b",\"object\":");
        match include {
            Include::Metadata => shown.write_partial_of(&json, &format!("meta.k8s.io/{version}"), out),
            Include::Object => shown.write_single(resource, out),
            Include::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }
}

/// What the cells of a built-in kind are read from. A cell that prints an object or list shows no more than these levels.
fn document(json: &[u8]) -> Value {
    tree::shallow(json, OBJECT_LEVELS).unwrap_or_default()
}
