//! The printer of a kind, and the row that it makes of an object.

use serde_json::Value;

use super::column::Column;
use super::time::Moment;
use crate::json::Json;
use crate::json::tree::Tree;

/// The columns of a kind, and how to fill them. The version does not matter: upstream prints its internal form.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// Column definitions. A row can have a cell more than there are columns: IPAddress has, upstream.
    pub columns: &'static [Column],
    pub(super) print: fn(Json<'_>, Moment) -> PrintedRow,
    /// Makes the sort key of an object; `None` if rows stay in the order of the store.
    pub(super) order: Option<fn(Json<'_>) -> SortKey>,
}

/// The key by which rows are sorted: a number, then a name.
pub type SortKey = (i64, String);

/// The cells of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrintedRow {
    /// Strings, integers, booleans.
    pub cells: Vec<Value>,
    /// Present for an object that has completed.
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
    /// The row of an object, from its JSON text, with ages counted up to `now`. Never fails: members that cannot be
    /// read count as missing.
    pub fn print(&self, json: &[u8], now: Moment) -> PrintedRow {
        read_object(json, |object| (self.print)(object, now))
    }

    /// A function that makes the sort key of an object from its JSON. `None` if rows stay in the order of the store, as
    /// for all kinds but FlowSchema.
    pub fn order(&self) -> Option<impl Fn(&[u8]) -> SortKey + use<>> {
        self.order.map(|order| move |json: &[u8]| read_object(json, order))
    }
}

/// Calls `reader` with the root of a JSON text, without copying its members: a copy would take many times its bytes.
/// Text that is not JSON is read as an object without members.
pub(super) fn read_object<T>(json: &[u8], reader: impl Fn(Json<'_>) -> T) -> T {
    let tree = Tree::read(json).ok();
    reader(Json::root(tree.as_ref()))
}

impl PrintedRow {
    pub(super) fn new(cells: Vec<Value>) -> PrintedRow {
        PrintedRow { cells, condition: None }
    }
}
