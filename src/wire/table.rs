//! meta.k8s.io Table: the columns that kubectl prints.
//!
//! Custom resources have the columns of their CRD, or name and age. [`crate::printer`] defines the columns of built-in
//! kinds. The bytes of an object are parsed once for each row, to find the values of its cells. `row` writes rows.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::builtin;
use crate::crd::PrinterColumn;
use crate::extract::Prune;
use crate::extract::json_path::search::{BYTES_OF_A_VISIT, FoundValue, Search};
use crate::extract::json_path::{JsonPath, MOST_WAYS};
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
use crate::flow_control::long_work::{ObjectWork, count_work};
use crate::flow_control::user::{User, UserShare};
use crate::flow_control::watches::Watches;
use crate::request::Query;

/// What the field `object` of a row contains.
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
    /// Parses the parameter `includeObject`. Representations other than tables ignore it: [`Include::Metadata`].
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
    /// The columnDefinitions of the table.
    definitions: Value,
    cells: Cells,
    /// The version of meta.k8s.io: `v1` or `v1beta1`.
    version: String,
    include: Include,
    /// Kind and apiVersion of objects in rows; `None` if the stored objects contain them.
    object_type: Option<(String, String)>,
    /// The memory of the strings and paths of a CRD, in bytes; 0 for built-in kinds.
    held: u64,
    /// The share of the first user with a watch that uses the columns.
    counted: OnceLock<UserShare>,
    /// See [`Columns::work`].
    work: ObjectWork,
    _sources: Sources,
}

/// The values from which columns were created. Columns keep them, because the addresses of these values identify
/// columns in [`SharedColumns`](super::shared_columns::SharedColumns).
#[derive(Debug)]
struct Sources {
    _printer_columns: Arc<[PrinterColumn]>,
    _prune: Option<Arc<Prune>>,
}

/// How the cells of a row are found.
#[derive(Debug)]
enum Cells {
    /// For a custom resource: the type and the path of each column after the name. The path is `None`, and the cell
    /// null, if all paths up to it exceed [`MOST_PATHS`].
    Paths(Vec<(ColumnKind, Option<JsonPath>)>),
    /// For a built-in kind.
    Printed(&'static Printer),
}

/// The maximum bytes of all paths of a table that are parsed, in the order of its columns. The cells of further
/// columns are null.
const MOST_PATHS: usize = 128 << 10;

/// The approximate memory of a parsed path for each byte of its text, in bytes.
const PATH_COST: usize = 128;

impl Columns {
    /// The columns of a resource. `version`: of meta.k8s.io; `include`: what rows show of the object. Columns can be
    /// as large as a CRD, so watches share them: see [`SharedColumns`](super::shared_columns::SharedColumns).
    pub fn new(resource: &Resource, version: &str, include: Include) -> Columns {
        let prune = resource.prune().cloned();
        let sources = Sources { _printer_columns: resource.printer_columns.clone(), _prune: prune.clone() };
        match resource.origin {
            ResourceOrigin::Custom => {
                // Only fields that a View hides remove columns. `prune` can have managedFields too.
                let hidden = resource.hidden().map(|hidden| &**hidden);
                Columns::of_paths(&resource.printer_columns, hidden, version, include, sources)
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
                    work: ObjectWork::Times(1),
                    _sources: sources,
                }
            }
        }
    }

    /// The columns of a custom resource. As in kube-apiserver, the first column with an invalid path and all after it
    /// are omitted. Columns whose path can read a field in `prune`, which the View hides, are omitted too. A resource
    /// without columns, or of which only hidden columns would remain, has the column Age. Paths beyond [`MOST_PATHS`]
    /// are not parsed, so the cells of their columns are null.
    fn of_paths(
        columns: &[PrinterColumn],
        prune: Option<&Prune>,
        version: &str,
        include: Include,
        sources: Sources,
    ) -> Columns {
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
            // A path that is not parsed may read any field.
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
        // All columns together: many columns that are cheap alone are as much work as one that is not.
        let ways = shown.iter().try_fold(0, |sum: usize, (_, path)| {
            Some(sum.saturating_add(path.as_ref().map_or(Some(0), JsonPath::ways_if_cheap)?))
        });
        let work = ways.map_or(ObjectWork::Costly, |ways| ObjectWork::Times((ways / MOST_WAYS).max(1)));
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
            work,
            _sources: sources,
        }
    }

    /// The number of the form of these tables: see [`Columns::form_number_of`].
    pub fn form_number(&self) -> usize {
        Columns::form_number_of(&self.version, self.include)
    }

    /// A number from 0 to 5 that identifies the form of a resource's tables: the version of meta.k8s.io, and what
    /// rows show of the object. Tables of one form can share encoded events.
    pub fn form_number_of(version: &str, include: Include) -> usize {
        usize::from(version != "v1") * 3 + include as usize
    }

    /// What rows show of the object, besides the cells.
    pub fn include(&self) -> Include {
        self.include
    }

    /// Counts the memory of the columns for a user with a watch, until no watch uses them. Does nothing if they are
    /// counted for another user already.
    ///
    /// # Errors
    /// 429 when the watches of the user reach their limit.
    pub fn charge(&self, watches: &Watches, user: &User) -> Result<(), Limited> {
        if self.counted.get().is_none() {
            // The strings are stored as JSON values, which take about twice their length.
            let bytes = usize::try_from(self.held).unwrap_or(usize::MAX).saturating_mul(2);
            // If another watch has counted them meanwhile, this share is released.
            let _ = self.counted.set(watches.hold(user, bytes, "its columns take")?);
        }
        Ok(())
    }

    /// The most memory, in bytes, that a response with these columns holds: the columns, the object of the row that
    /// is being written, and a cell of it. `object`: the length of the longest object, in bytes.
    pub fn most_held(&self, object: u64) -> u64 {
        self.held + 2 * object
    }

    /// The most work of making a row. It decides whether a row needs a long turn: a path that reads parts of an object
    /// very often needs one for every object. The work that a row really takes is counted when it is made
    /// ([`count_work`]).
    pub fn work(&self) -> ObjectWork {
        self.work
    }

    /// The bytes around the rows of a list.
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

    /// The bytes around the row of a single object. `version`: the resourceVersion of the table.
    pub fn single_envelope(&self, version: Version) -> Envelope {
        let mut head = Vec::new();
        self.open_single(version, true, &mut head);
        Envelope { head, tail: b"]}\n".to_vec() }
    }

    /// Writes a table of one row, for an event. An event is one line in memory, so its length is bounded.
    /// `with_definitions`: the table has columnDefinitions, as in the first event of a watch.
    ///
    /// # Errors
    /// The row is too long. The caller must drop what was written to `out`.
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

    /// Writes the only row of a table and the end of the table, after [`Columns::open_single`].
    ///
    /// # Errors
    /// The row is too long, or reads too much of its object. The caller must drop what was written to `out`.
    pub fn write_only_row(
        self: &Arc<Columns>,
        shown: Shown<'_>,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), TooLongRow> {
        let mut row = JsonRow::new(Row::new(self, shown, now));
        let most = out.len() + MOST_IN_EVENT + if self.include == Include::Object { shown.object.length() } else { 0 };
        // Each call of `fill` reads a bounded part of the object, so the number of calls bounds what the row reads.
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

    /// Writes a table with the row of an empty object, for a bookmark. `bookmark`: the object as JSON.
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
            // The cells of an object without fields.
            Cells::Printed(printer) => printer.print(b"null", moment(now)).cells,
        };
        write_value(&Value::Array(cells), out);
        out.extend_from_slice(b",\"object\":");
        out.extend_from_slice(bookmark);
        out.extend_from_slice(b"}]}");
    }

    /// Writes a table up to its rows. `version`: the resourceVersion of the table. Without `with_definitions`, the
    /// columnDefinitions are null, as in all but the first event of a watch.
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

    /// Whether the rows have an order other than that of the objects' keys: see [`Columns::sorted`].
    pub fn are_sorted(&self) -> bool {
        matches!(&self.cells, Cells::Printed(printer) if printer.order().is_some())
    }

    /// The objects of a page in the order of the rows. `None` if this is the order of their keys, as for all kinds
    /// except FlowSchemas, of which a cluster has few.
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

    /// The cells of an object, and the condition of its row, if any. A cell without a value is null. `json`: the
    /// object; `now`: the time for ages.
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
                let cells = std::iter::once(Cell::Name).chain(paths.iter().map(cell)).collect();
                // A search can take longer than reading its object very often.
                count_work(search.map_or(0, |search| search.visits().saturating_mul(BYTES_OF_A_VISIT)));
                (cells, None)
            }
            Cells::Printed(printer) => {
                let row = printer.print(json, moment(now));
                (row.cells.into_iter().map(Cell::Printed).collect(), row.condition)
            }
        }
    }

    /// Writes the field `object` of a row. `json`: the JSON of `shown`.
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

/// The maximum length of all cells of one event, in bytes. An object has at most 1.5 MiB in etcd, and few columns
/// show all of it.
pub const MOST_IN_EVENT: usize = 8 << 20;

/// The maximum bytes of the object that the cells of one event may read, in units of [`WORK_OF_A_TURN`](crate::flow_control::long_work::WORK_OF_A_TURN).
/// Columns can read more than they show.
const MOST_FILLS: usize = 32;

/// The error for a row that is too long for an event, or reads too much of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLongRow;

/// Converts a timestamp for the printers.
fn moment(now: Timestamp) -> Moment {
    Moment::of_microseconds(now.as_microsecond())
}

/// The pieces of a table of all `objects`, as JSON or YAML. `envelope`: the bytes around the rows, as JSON; `show`:
/// converts each stored object to what the response shows; `now`: the time for ages.
pub fn pieces(
    columns: &Arc<Columns>,
    envelope: Envelope,
    objects: impl Iterator<Item = Object> + Send + 'static,
    show: Show,
    format: Format,
    now: Timestamp,
) -> Pieces {
    let work = columns.work();
    let columns = columns.clone();
    let row = move |object: &Object| Row::new(&columns, Shown::as_is(object), now);
    match format {
        // Tables have no protobuf message, so negotiation never chooses protobuf.
        Format::Json | Format::Protobuf => {
            let write = move |object, out: &mut Vec<u8>| begin(JsonRow::new(row(&object)), out);
            Box::new(Chunks::new(envelope, objects, show, b",", write).with_work(work))
        }
        Format::Yaml => {
            let mut objects = objects.peekable();
            let envelope = yaml::list_envelope(&envelope, objects.peek().is_none());
            let write = move |object, out: &mut Vec<u8>| begin(YamlRow::new(row(&object)), out);
            Box::new(Chunks::new(envelope, objects, show, b"", write).with_work(work))
        }
    }
}
