//! Selections answered from the indexes.
//!
//! Map: [`selection`] is what a request asks for, and the obviously right test of one object; [`compact`] is the same in little memory, for
//! watches; [`plan`] turns it into
//! posting lists to intersect, smallest first; [`page`] walks the hits in list order, a page at a time, at the present
//! or at an exact version; `remaining` counts what a page leaves; [`token`] is the `continue` token; [`work`] says when others have their turn. This room reads snapshots and knows no JSON and no HTTP.

pub mod compact;
pub mod explain;
mod operand;
pub mod page;
pub mod plan;
mod remaining;
pub mod selection;
#[cfg(test)]
mod tests;
pub mod token;
pub mod work;

pub use compact::{CompactSelection, Selects};
pub use explain::Explanation;
pub use page::{Listing, State};
pub use plan::{Hits, Plan};
pub use selection::{Access, FieldTerm, Selection};
pub use token::{ContinueToken, TokenError};
pub use work::Work;
