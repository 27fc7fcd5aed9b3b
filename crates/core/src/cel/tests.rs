//! Tests of expressions: a table of results, types of schemas, plans, and hostile input.

mod hostile;
mod plan;
mod table;
mod typed;
