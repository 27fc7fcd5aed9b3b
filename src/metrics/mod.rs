//! What an operator of this program watches, in the formats of Prometheus: requests, stores, the process.
//!
//! Map: [`requests`] shows what the server has counted, [`limits`] how far its limits are used; [`stores`] asks every loaded store for its
//! sizes; [`access`] shows what has been decided about who may what, [`conditions`] what the controllers wrote, [`certificate`] when the serving
//! certificate expires; [`process`] reads `/proc`; [`format`] chooses between OpenMetrics and
//! the plain text format.
//! Nothing here is on the way of a request: figures are read when somebody asks for them. Labels name served resources and
//! their fields, verbs and codes, FieldCaches and Views, never an object that is served, a selector or a user.
//!
//! [`Metrics`] answers `/metrics` on a listener of its own, so that what may scrape and what may read objects can differ. In the operator
//! it asks whoever comes who they are, and the API server whether they may get the nonResourceURL `/metrics`, as every component of Kubernetes does ([`Scrapers`]).

pub mod access;
pub mod audit;
mod build;
pub mod certificate;
pub mod conditions;
pub mod endpoint;
pub mod format;
mod labels;
pub mod limits;
pub mod process;
pub mod requests;
pub mod stores;
#[cfg(test)]
mod tests;

pub use endpoint::{Metrics, Scrapers};
