//! meta.k8s.io Table: the columns that kubectl prints.
//!
//! Custom resources have the columns of their CRD, or name and age. Built-in kinds have name and age here: the
//! printers of the API server are code, not data, and are not repeated. A cell is the only thing for which an object's
//! bytes are read again.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::crd::PrinterColumn;
use crate::registry::Resource;

use super::column::{ColumnPath, cell};
use super::encode::{Envelope, ListMeta, Shown, write_string, write_type, write_value};
use super::failure::Failure;
use super::negotiate::Form;
use super::params::Query;
use crate::model::quote;

/// Upstream's description of metadata.name, shown with the first column.
const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although \
    some resources may allow a client to request the generation of an appropriate name automatically. Name is \
    primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was \
    created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set \
    this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for \
    lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

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
    /// Type and path of each column after the name.
    cells: Vec<(String, ColumnPath)>,
    now: Timestamp,
}

impl Columns {
    /// The columns of a resource, with ages counted up to `now`.
    pub fn of(resource: &Resource, now: Timestamp) -> Columns {
        let age = PrinterColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: AGE_DESCRIPTION.to_owned(),
            priority: 0,
            json_path: ".metadata.creationTimestamp".to_owned(),
        };
        let columns = match &resource.printer_columns[..] {
            [] => std::slice::from_ref(&age),
            columns => columns,
        };
        let mut definitions = vec![json!({
            "name": "Name", "type": "string", "format": "name", "description": NAME_DESCRIPTION, "priority": 0,
        })];
        let mut cells = Vec::with_capacity(columns.len());
        for column in columns {
            let description = match &*column.description {
                "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
                own => own.to_owned(),
            };
            definitions.push(json!({
                "name": column.name, "type": column.kind, "format": column.format, "description": description,
                "priority": column.priority,
            }));
            cells.push((column.kind.clone(), ColumnPath::parse(&column.json_path)));
        }
        Columns { definitions: Value::Array(definitions), cells, now }
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

    /// A table whose row has no cells' values: how a bookmark looks to a client that watches tables.
    pub fn write_bookmark(
        &self,
        resource_version: &str,
        bookmark: &[u8],
        version: &str,
        with_definitions: bool,
        out: &mut Vec<u8>,
    ) {
        self.open_single(resource_version, version, with_definitions, out);
        out.extend_from_slice(b"{\"cells\":[\"\"");
        for _ in &self.cells {
            out.extend_from_slice(b",null");
        }
        out.extend_from_slice(b"],\"object\":");
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

    /// One row.
    pub fn write_row(&self, shown: Shown<'_>, resource: &Resource, version: &str, include: Include, out: &mut Vec<u8>) {
        let root: Value = serde_json::from_slice(&shown.object.json()).unwrap_or_default();
        out.extend_from_slice(b"{\"cells\":[");
        write_string(shown.object.name(), out);
        for (kind, path) in &self.cells {
            out.push(b',');
            write_value(&cell(kind, path.first(&root), self.now), out);
        }
        out.extend_from_slice(b"],\"object\":");
        match include {
            Include::Metadata => shown.write_partial(&format!("meta.k8s.io/{version}"), out),
            Include::Object => shown.write_single(resource, out),
            Include::None => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }
}
