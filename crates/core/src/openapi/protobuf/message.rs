//! Messages as data: how each JSON value of a document is written.

use serde_json::Value;

/// A field for the members of an object whose names are data. It has the number of the field, a test whether a name
/// belongs to it, and the type of the values.
pub type NamedField = (u32, fn(&str) -> bool, &'static ValueType);

/// How a JSON value is written.
#[derive(Debug)]
pub enum ValueType {
    /// `string`.
    Text,
    /// `bool`.
    Flag,
    /// `int64`.
    Integer,
    /// `double`.
    Double,
    /// A message with one field for each known keyword.
    Record {
        /// Keyword, field number, type; in the order of field numbers.
        fields: &'static [(&'static str, u32, &'static ValueType)],
        /// The field of members whose names are data.
        named: Option<NamedField>,
        /// The field of vendor extensions; 0 when the message has none.
        extensions: u32,
    },
    /// A repeated field: one for each item of a list.
    List(&'static ValueType),
    /// A message whose field 1 repeats `{name = 1, value = 2}`, one for each member of an object.
    Named(&'static ValueType),
    /// A message whose field 1 holds the value.
    Wrapped(&'static ValueType),
    /// A message whose field 1 repeats the texts of a list, or holds one text.
    Texts,
    /// A message `Any`: field 2 is YAML text.
    Yaml,
    /// A message with one field out of several, chosen by the value; `None` leaves it empty.
    Choice(fn(&Value) -> Option<(u32, &'static ValueType)>),
}
