//! What kube-apiserver's printers say of the built-in kinds: the columns of their tables, and the cells of an object.
//!
//! Upstream prints Go structs after defaulting and conversion (kubernetes `pkg/printers/internalversion/printers.go`, called with
//! `Wide` always on); here the same is read from an object's JSON, in which a missing member means Go's zero value. An object that
//! an API server sent is defaulted already; one from a folder is printed as it stands. Names, types and descriptions of columns
//! are wire facts of 1.36, byte by byte; later and older servers word some descriptions otherwise. Pure functions: the clock is an
//! argument, and so are the bytes of an object. Columns of custom resources are data of their definitions and are
//! printed in `wire::column`; kinds without an entry here show what [`FALLBACK`] shows.
//!
//! Tables of kinds: one file for what belongs together. [`mod@read`] reads members, [`text`] holds the texts that several kinds share,
//! [`time`] counts ages.

use serde_json::Value;

use crate::extract::json::Json;
use crate::extract::tree::Tree;

mod access;
mod autoscaling;
mod cluster;
mod devices;
mod events;
mod network;
mod pods;
mod policy;
mod read;
mod storage;
#[cfg(test)]
mod tests;
mod text;
pub mod time;
mod workloads;

use time::Moment;

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Header, such as `Ready`.
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`. Some columns are not what they say: upstream calls a count a string.
    pub kind: &'static str,
    /// `name` or empty.
    pub format: &'static str,
    /// Description.
    pub description: &'static str,
    /// 0 is shown always, 1 with `-o wide`.
    pub priority: u8,
}

/// One built-in kind. The version does not matter: upstream prints its internal form.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// Group, empty for core.
    pub group: &'static str,
    /// Plural name.
    pub resource: &'static str,
    /// Column definitions. A row can have a cell more than there are columns: IPAddress has, upstream.
    pub columns: &'static [Column],
    print: fn(Json<'_>, Moment) -> Row,
}

/// Where a row stands in a sorted list: a number, then a name.
pub type Order = (i64, String);

/// What is told of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Strings, integers, booleans.
    pub cells: Vec<Value>,
    /// Present for what has run to its end.
    pub condition: Option<RowCondition>,
}

/// A condition of type `Completed`, status `True`: clients may leave such rows out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCondition {
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: &'static str,
}

impl Printer {
    /// The printer of a resource, in whatever version; `None` for kinds without one.
    pub fn of(group: &str, resource: &str) -> Option<&'static Printer> {
        Printer::all().find(|printer| printer.group == group && printer.resource == resource)
    }

    /// All printers.
    pub fn all() -> impl Iterator<Item = &'static Printer> {
        [
            access::PRINTERS,
            autoscaling::PRINTERS,
            cluster::PRINTERS,
            devices::PRINTERS,
            events::PRINTERS,
            network::PRINTERS,
            pods::PRINTERS,
            policy::PRINTERS,
            storage::PRINTERS,
            workloads::PRINTERS,
        ]
        .into_iter()
        .flatten()
    }

    /// What the rows of a list of this kind are sorted by; `None` when they stand in the order of their keys, as those of all kinds
    /// but FlowSchema do.
    pub fn order(&self) -> Option<fn(&[u8]) -> Order> {
        (self.group == "flowcontrol.apiserver.k8s.io" && self.resource == "flowschemas")
            .then_some(|json| read(json, policy::flow_schema_order))
    }

    /// The row of an object, from its JSON text, with ages counted up to `now`. Never fails: what cannot be read is as if it were not
    /// there.
    pub fn print(&self, json: &[u8], now: Moment) -> Row {
        read(json, |object| (self.print)(object, now))
    }
}

/// Reads an object where it is: a copy of its members would take many times its bytes.
fn read<T>(json: &[u8], reader: impl Fn(Json<'_>) -> T) -> T {
    let tree = Tree::read(json).ok();
    reader(Json::of(tree.as_ref()))
}

/// Name and age: kinds that are not in the table, such as those of aggregated API servers.
pub const FALLBACK: &Printer = &Printer {
    group: "",
    resource: "",
    columns: &[NAME, AGE],
    print: |object, now| Row::of(vec![read::name(object), time::age(object, now)]),
};

impl Row {
    fn of(cells: Vec<Value>) -> Row {
        Row { cells, condition: None }
    }
}

impl Column {
    const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }

    const fn of_names(self) -> Column {
        Column { format: "name", ..self }
    }
}

const fn column(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, kind, format: "", description, priority: 0 }
}

const fn string(name: &'static str, description: &'static str) -> Column {
    column(name, "string", description)
}

const fn integer(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", description)
}

const fn boolean(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", description)
}

/// metadata.name. Its description is the documentation of ObjectMeta, as that of [`AGE`] is.
pub const NAME: Column = string(
    "Name",
    "Name must be unique within a namespace. Is required when creating resources, although some resources may \
         allow a client to request the generation of an appropriate name automatically. Name is primarily intended \
         for creation idempotence and configuration definition. Cannot be updated. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
.of_names();

const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
     guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
     represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The time since metadata.creationTimestamp.
pub const AGE: Column = string("Age", AGE_DESCRIPTION);

/// metadata.creationTimestamp itself.
const CREATED_AT: Column = column("Created At", "date", AGE_DESCRIPTION);

const CONTAINERS: Column = string("Containers", "Names of each container in the template.").wide();

const IMAGES: Column = string("Images", "Images referenced by each container in the template.").wide();
