//! Tests of expressions: a table of results, types of schemas, and hostile input.

mod hostile;
mod table;
mod typed;
