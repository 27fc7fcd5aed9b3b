//! JSONPath templates as the API server reads those of printer columns: client-go `util/jsonpath`, which apiextensions
//! `registry/customresource/tableconvertor` puts in braces and follows with `AllowMissingKeys`.
//!
//! Map: `parse` reads a template (`parser.go`), with the escapes of `unquote`. `search` follows it in a
//! [`crate::json::tree::Tree`] within a bound (`jsonpath.go`). `compare` has the comparisons of filters
//! (`third_party/forked/golang/template`).
//!
//! Tests compare results with that code on random templates and objects (`e2e/tests/it/printers/json_path.rs`).
//! Differences:
//!
//! - Go visits the members of an object in random order. Here they are visited in the order of their names.
//! - In the API server, the results of a template with `range` depend on the objects that it printed before. From the
//!   second object on they are an error. Here they are always an error.
//! - Letters outside of ASCII are those of Unicode's property Alphabetic, which has some more than Go's category L.
//! - Filters in filters are read to [`template::MAX_LEVELS`], and a search visits a bounded number of values: see
//!   [`search::Search`].
//!
//! `cost` estimates how long a template takes. `server` prints a result in a cell. [`super::extra`] reads RFC 9535 paths.

mod columns;
pub mod compare;
mod cost;
mod parse;
mod pruned;
pub mod search;
mod template;
mod unquote;

pub use columns::unreadable_columns;
pub use cost::MOST_WAYS;
pub use template::Literal;
pub use template::{InvalidTemplate, JsonPath};
pub(in crate::extract) use template::{PathNode, Slice, SliceEnd};
