//! The request cases, by subject. Each module is a table; the whole table is [`all`].
//!
//! Names are `subject/what`, unique, and what [`super::allowed`] points to.

mod builtin;
mod discovery;
mod fields;
mod labels;
mod list;
mod negotiation;
mod objects;
mod openapi;
mod paging;
mod table;

use super::case::Case;

/// Every request case.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(discovery::cases());
    cases.extend(list::cases());
    cases.extend(paging::cases());
    cases.extend(objects::cases());
    cases.extend(labels::cases());
    cases.extend(fields::cases());
    cases.extend(builtin::cases());
    cases.extend(table::cases());
    cases.extend(negotiation::cases());
    cases.extend(openapi::cases());
    cases
}
