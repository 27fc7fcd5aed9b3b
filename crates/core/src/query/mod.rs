//! Evaluates selections with the indexes.
//!
//! [`selection`] is the selection of a request, with the reference implementation of its match; `simplify` combines its
//! requirements. [`resolve`] makes its field requirements from a field selector. [`compact`] is the same in little
//! memory, for watches. [`plan`] turns a selection into posting lists to intersect, smallest first; `operand` describes
//! them. [`cel_filter`] and `cel_hits` evaluate the CEL expression of a request. [`page`] walks the hits in list order, a
//! page at a time, at the newest or at an exact version. `remaining` counts the objects after a page. `held` bounds the
//! memory of a request that waits for a turn. [`facets`] counts the values of a field, and [`sort`] sorts by them, with
//! [`sort_token`]. [`token`] is the `continue` token. [`explain`] describes a plan, whose steps are in [`plan_steps`].
//! [`work`] counts steps and yields to other tasks. This module reads snapshots; only `cel_filter` reads JSON, and
//! nothing uses HTTP.

pub mod cel_filter;
mod cel_hits;
mod cel_type;
pub mod compact;
pub mod explain;
pub mod facets;
mod held;
mod operand;
pub mod page;
pub mod plan;
pub mod plan_steps;
mod remaining;
pub mod resolve;
pub mod selection;
mod simplify;
pub mod sort;
pub mod sort_token;
#[cfg(test)]
mod tests;
pub mod token;
pub mod work;

pub use crate::cel::TimeLimit;
pub use cel_filter::{BYTES_OF_LONG_EVALUATION, CelFilter, EventTest, FailedObjects, OverCost, UnusableExpression};
pub use compact::{CompactSelection, Requirements};
pub use explain::Explanation;
pub use facets::{Facet, FacetField, SelectedObjects};
pub use page::{Listing, State};
pub use plan::{Hits, QueryPlan};
pub use plan_steps::{PlanStep, StepEstimate};
pub use resolve::{ResolvedFields, UnsuitableSelector};
pub use selection::{AccessPath, FieldTerm, Selection};
pub use sort::{SortField, SortOrder, SortedListing};
pub use token::{ContinueToken, TokenError};
pub use work::Work;
