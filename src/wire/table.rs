//! meta.k8s.io Table: the columns that kubectl prints.
//!
//! Custom resources have the columns of their CRD, or name and age; what a built-in kind shows is `printer`'s. A cell is
//! the only thing for which an object's bytes are read again, once a row. How a row is written is in `row`.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::builtin;
use crate::crd::PrinterColumn;
use crate::extract::Prune;
use crate::extract::json_path::JsonPath;
use crate::extract::json_path::search::{FoundValue, Search};
use crate::json::tree::Tree;
use crate::model::{Version, quote};
use crate::printer::time::Moment;
use crate::printer::{AGE, Column, NAME, Printer, RowCondition};
use crate::registry::{Resource, ResourceOrigin};
use crate::store::Object;

use super::api_error::ApiError;
use super::column::{ColumnKind, MOST_VALUES, literal_cell, untyped_integer_cell};
use super::encode::{
    Chunks, Envelope, ListMeta, Show, Shown, Unfinished as _, begin, write_string, write_type, write_value,
};
use super::negotiate::{Format, Representation};
use super::pieces::Pieces;
use super::row::{Cell, JsonRow, Row, YamlRow};
use super::yaml;
use crate::flow_control::limit::Limited;
use crate::flow_control::user::{User, UserShare};
use crate::flow_control::watches::Watches;
use crate::request::Query;

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
    pub fn read(query: &Query, form: &Representation) -> Result<Include, ApiError> {
        match (form, query.get("includeObject").unwrap_or_default()) {
            (Representation::Table(_), "" | "Metadata") => Ok(Include::Metadata),
            (Representation::Table(_), "Object") => Ok(Include::Object),
            (Representation::Table(_), "None") => Ok(Include::None),
            (Representation::Table(_), unknown) => Err(ApiError::BadRequest(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                 must be 'Metadata', 'Object', 'None', or empty",
                quote(unknown)
            ))),
            _ => Ok(Include::Metadata),
        }
    }
}

/// The columns of one resource, and how its rows are written.
#[derive(Debug)]
pub struct Columns {
    definitions: Value,
    cells: Cells,
    version: String,
    include: Include,
    /// Kind and apiVersion, where a single object has them and the stored one has not.
    object_type: Option<(String, String)>,
    held: u64,
    /// The share of the user whose watch was the first to hold them.
    counted: OnceLock<UserShare>,
    _of: Of,
}

/// What columns were made of: its addresses name nothing else while they are in use.
#[derive(Debug)]
struct Of {
    _printer_columns: Arc<[PrinterColumn]>,
    _prune: Option<Arc<Prune>>,
}

#[derive(Debug)]
enum Cells {
    /// Type and path of each column after the name; no path beyond [`MOST_PATHS`].
    Paths(Vec<(ColumnKind, Option<JsonPath>)>),
    Printed(&'static Printer),
}

/// Bytes of paths that are read for one table, in the order of its columns. Columns beyond are empty.
const MOST_PATHS: usize = 128 << 10;

/// Memory for each byte of a path.
const PATH_COST: usize = 128;

impl Columns {
    /// The columns of a resource, for tables of a version. They can be as large as a definition, so watches share them: see
    /// [`SharedColumns`](super::shared_columns::SharedColumns).
    pub fn new(resource: &Resource, version: &str, include: Include) -> Columns {
        let prune = resource.prune().cloned();
        let of = Of { _printer_columns: resource.printer_columns.clone(), _prune: prune.clone() };
        match resource.origin {
            ResourceOrigin::Custom => {
                let hidden = resource.hidden().map(|hidden| &**hidden);
                Columns::of_paths(&resource.printer_columns, hidden, version, include, of)
            }
            ResourceOrigin::BuiltIn => {
                let printer = builtin::printer(&resource.gvr.group, &resource.gvr.resource);
                let definition = |column: &Column| {
                    json!({
                        "name": column.name, "type": column.kind, "format": column.format,
                        "description": column.description, "priority": column.priority,
                    })
                };
                let definitions = printer.columns.iter().map(definition).collect();
                let object_type = Some((resource.kind.clone(), resource.gvr.api_version()));
                let (cells, version) = (Cells::Printed(printer), version.to_owned());
                Columns {
                    definitions,
                    cells,
                    version,
                    include,
                    object_type,
                    held: 0,
                    counted: OnceLock::new(),
                    _of: of,
                }
            }
        }
    }

    /// The columns of a definition up to the first one whose path is not valid, as kube-apiserver shows them. Columns
    /// that look at what is left out are missing.
    fn of_paths(columns: &[PrinterColumn], prune: Option<&Prune>, version: &str, include: Include, of: Of) -> Columns {
        let age = PrinterColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: AGE.description.to_owned(),
            priority: 0,
            json_path: ".metadata.creationTimestamp".to_owned(),
        };
        let mut paths = 0;
        let mut shown: Vec<(&PrinterColumn, Option<JsonPath>)> = Vec::with_capacity(columns.len());
        let mut is_any_hidden = false;
        for column in columns {
            paths += column.json_path.len();
            let path = match (paths <= MOST_PATHS).then(|| JsonPath::parse(&column.json_path)).transpose() {
                Ok(path) => path,
                Err(_) => break,
            };
            // What is not read may look anywhere.
            if prune.is_some_and(|prune| path.as_ref().map_or(!prune.is_empty(), |path| path.reads_pruned(prune))) {
                is_any_hidden = true;
            } else {
                shown.push((column, path));
            }
        }
        if columns.is_empty() || shown.is_empty() && is_any_hidden {
            shown.push((&age, JsonPath::parse(&age.json_path).ok()));
        }
        let mut definitions = vec![json!({
            "name": NAME.name, "type": NAME.kind, "format": NAME.format, "description": NAME.description, "priority": 0,
        })];
        let mut cells = Vec::with_capacity(shown.len());
        let mut texts = 0;
        for (column, path) in shown {
            let description = match &*column.description {
                "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
                own => own.to_owned(),
            };
            texts += column.name.len() + description.len();
            definitions.push(json!({
                "name": column.name, "type": column.kind, "format": column.format, "description": description,
                "priority": column.priority,
            }));
            cells.push((ColumnKind::from_name(&column.kind), path));
        }
        Columns {
            definitions: Value::Array(definitions),
            cells: Cells::Paths(cells),
            version: version.to_owned(),
            include,
            object_type: None,
            held: (texts + paths.min(MOST_PATHS) * PATH_COST) as u64,
            counted: OnceLock::new(),
            _of: of,
        }
    }

    /// The number of this form of tables of a resource: they differ in version, and in what rows show besides cells.
    pub fn number(&self) -> usize {
        Columns::number_of(&self.version, self.include)
    }

    /// The number of the form with this version and these rows.
    pub fn number_of(version: &str, include: Include) -> usize {
        usize::from(version != "v1") * 3 + include as usize
    }

    /// What rows contain besides their cells.
    pub fn include(&self) -> Include {
        self.include
    }

    /// Counts them for a user, for as long as any watch holds them. Only the first user is charged.
    ///
    /// # Errors
    /// 429 when the user holds the most already.
    pub fn count(&self, watches: &Watches, user: &User) -> Result<(), Limited> {
        if self.counted.get().is_none() {
            // Texts are held as values of JSON, which take about twice their length.
            let bytes = usize::try_from(self.held).unwrap_or(usize::MAX).saturating_mul(2);
            // Another watch may have counted them meanwhile; then this share is free again.
            let _ = self.counted.set(watches.hold(user, bytes, "its columns take")?);
        }
        Ok(())
    }

    /// Memory of a large definition, and of a row of this many bytes that is being written: the object, and a cell of it. In bytes.
    pub fn most_held(&self, object: u64) -> u64 {
        self.held + 2 * object
    }

    /// What surrounds the rows of a list.
    pub fn envelope(&self, meta: &ListMeta) -> Envelope {
        let mut head = Vec::new();
        write_type("Table", &self.api_version(), &mut head);
        head.extend_from_slice(b",\"metadata\":");
        meta.write_typed(&mut head);
        head.extend_from_slice(b",\"columnDefinitions\":");
        self.write_definitions(&mut head);
        head.extend_from_slice(b",\"rows\":[");
        Envelope { head, tail: b"]}\n".to_vec() }
    }

    /// What surrounds the row of a single object.
    pub fn single_envelope(&self, version: Version) -> Envelope {
        let mut head = Vec::new();
        self.open_single(version, true, &mut head);
        Envelope { head, tail: b"]}\n".to_vec() }
    }

    /// Writes a table of one row, in an event. An event is one line in memory, so its length is bounded.
    ///
    /// # Errors
    /// The row is longer; what was written of it is to be dropped.
    pub fn write_single(
        self: &Arc<Columns>,
        shown: Shown<'_>,
        now: Timestamp,
        with_definitions: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLongRow> {
        self.open_single(shown.version, with_definitions, out);
        self.write_only_row(shown, now, out)
    }

    /// Writes the only row of a table, after [`Columns::open_single`].
    ///
    /// # Errors
    /// The row is longer; what was written of it is to be dropped.
    pub fn write_only_row(
        self: &Arc<Columns>,
        shown: Shown<'_>,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLongRow> {
        let mut row = JsonRow::new(Row::new(self, shown, now));
        let most = out.len() + MOST_IN_EVENT + if self.include == Include::Object { shown.object.length() } else { 0 };
        for _ in 0..MOST_FILLS {
            if row.fill(most, out) {
                out.extend_from_slice(b"]}");
                return Ok(());
            }
            if out.len() >= most {
                break;
            }
        }
        Err(TooLongRow)
    }

    /// Writes a bookmark: a table with the row of an empty object.
    pub fn write_bookmark(
        &self,
        resource_version: Version,
        bookmark: &[u8],
        now: Timestamp,
        with_definitions: bool,
        out: &mut Vec<u8>,
    ) {
        self.open_single(resource_version, with_definitions, out);
        out.extend_from_slice(b"{\"cells\":");
        let cells = match &self.cells {
            Cells::Paths(cells) => std::iter::once(json!("")).chain(cells.iter().map(|_| Value::Null)).collect(),
            Cells::Printed(printer) => printer.print(b"null", moment(now)).cells,
        };
        write_value(&Value::Array(cells), out);
        out.extend_from_slice(b",\"object\":");
        out.extend_from_slice(bookmark);
        out.extend_from_slice(b"}]}");
    }

    /// Begins a table of one row.
    pub fn open_single(&self, version: Version, with_definitions: bool, out: &mut Vec<u8>) {
        write_type("Table", &self.api_version(), out);
        out.extend_from_slice(b",\"metadata\":{\"resourceVersion\":");
        write_string(&version.to_string(), out);
        out.extend_from_slice(b"},\"columnDefinitions\":");
        if with_definitions {
            self.write_definitions(out);
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(b",\"rows\":[");
    }

    /// Writes the columnDefinitions.
    fn write_definitions(&self, out: &mut Vec<u8>) {
        write_value(&self.definitions, out);
    }

    /// Whether rows have another order than objects: see [`Columns::sorted`].
    pub fn are_sorted(&self) -> bool {
        matches!(&self.cells, Cells::Printed(printer) if printer.order().is_some())
    }

    /// The objects of a page in the order of its rows. `None` when that is the order of their keys, as for all kinds
    /// but one, which is never large.
    pub fn sorted(&self, objects: &mut dyn Iterator<Item = Object>) -> Option<Vec<Object>> {
        let Cells::Printed(printer) = &self.cells else { return None };
        let order = printer.order()?;
        let mut objects: Vec<Object> = objects.collect();
        objects.sort_by_cached_key(|object| order(&object.json()));
        Some(objects)
    }

    /// The apiVersion of the Table.
    pub fn api_version(&self) -> String {
        format!("meta.k8s.io/{}", self.version)
    }

    /// The cells of an object, from its JSON text.
    pub(crate) fn cells(&self, json: &[u8], now: Timestamp) -> (Vec<Cell>, Option<RowCondition>) {
        match &self.cells {
            Cells::Paths(paths) => {
                let tree = Tree::read_at_most(json, MOST_VALUES).ok();
                let mut search = tree.as_ref().map(Search::new);
                let cell = |(kind, path): &(ColumnKind, Option<JsonPath>)| {
                    let found = search.as_mut().zip(path.as_ref()).and_then(|(search, path)| search.first(path));
                    match (found, &tree) {
                        (Some(FoundValue::Node(id)), Some(tree)) => Cell::Found { kind: *kind, range: tree.range(id) },
                        (Some(FoundValue::Literal(literal)), _) => Cell::Printed(literal_cell(*kind, literal, now)),
                        (Some(FoundValue::Byte(byte)), _) => {
                            Cell::Printed(untyped_integer_cell(*kind, i64::from(byte)))
                        }
                        _ => Cell::Printed(Value::Null),
                    }
                };
                (std::iter::once(Cell::Name).chain(paths.iter().map(cell)).collect(), None)
            }
            Cells::Printed(printer) => {
                let row = printer.print(json, moment(now));
                (row.cells.into_iter().map(Cell::Printed).collect(), row.condition)
            }
        }
    }

    /// Writes what rows show of an object, from its JSON text.
    pub(crate) fn write_object(&self, shown: Shown<'_>, json: &[u8], out: &mut Vec<u8>) {
        match self.include {
            Include::Metadata => shown.write_partial_of(json, &self.api_version(), out),
            Include::Object => {
                shown.write_typed(self.object_type.as_ref().map(|(kind, version)| (&**kind, &**version)), out);
            }
            Include::None => out.extend_from_slice(b"null"),
        }
    }
}

/// The cells of one event may be this long together, in bytes. An object has at most 1.5 MiB in etcd, and few columns
/// show all of it.
pub const MOST_IN_EVENT: usize = 8 << 20;

/// How much of its object may be read for one event, in units of [`super::encode::MOST_READ`]: columns can read more than they show.
const MOST_FILLS: usize = 32;

/// A row is longer than an event may be, or takes longer to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLongRow;

/// A timestamp as the printers take it.
fn moment(now: Timestamp) -> Moment {
    Moment::of_microseconds(now.as_microsecond())
}

/// A table in pieces, as JSON or YAML.
pub fn pieces(
    columns: &Arc<Columns>,
    envelope: Envelope,
    objects: impl Iterator<Item = Object> + Send + 'static,
    show: Show,
    format: Format,
    now: Timestamp,
) -> Pieces {
    let columns = columns.clone();
    let row = move |object: &Object| Row::new(&columns, Shown::as_is(object), now);
    match format {
        // Tables have no messages.
        Format::Json | Format::Protobuf => {
            Box::new(Chunks::new(envelope, objects, show, b",", move |object, out: &mut Vec<u8>| {
                begin(JsonRow::new(row(&object)), out)
            }))
        }
        Format::Yaml => {
            let mut objects = objects.peekable();
            let envelope = yaml::list_envelope(&envelope, objects.peek().is_none());
            Box::new(Chunks::new(envelope, objects, show, b"", move |object, out: &mut Vec<u8>| {
                begin(YamlRow::new(row(&object)), out)
            }))
        }
    }
}
