//! Tests of expressions: a table of results, types of schemas, estimates, plans, and hostile input.

mod estimate;
mod hostile;
mod plan;
mod table;
mod typed;
mod work;
