//! Metrics of the program for Prometheus.
//!
//! | Metrics of | File |
//! |---|---|
//! | requests | [`requests`] |
//! | stores | [`stores`] |
//! | limits and contained internal errors | [`limits`] |
//! | authentication and authorization | [`access`] |
//! | the audit log | [`audit`] |
//! | the serving certificate | [`certificate`] |
//! | the Lease and conditions that the controllers wrote | [`conditions`] |
//! | the process | [`process`] |
//!
//! No request updates a metric here: collectors read counters and stores at each scrape. Labels name served resources
//! and their fields, verbs and codes, FieldCaches and Views. They never name an object that is served, a selector or a
//! user.
//!
//! [`Metrics`] serves `/metrics` on a listener of its own, so that scrapers and clients that read objects can have
//! different permissions. In the operator, it authenticates scrapers and authorizes them for the nonResourceURL
//! `/metrics`, as every component of Kubernetes does ([`Scrapers`]). [`mod@format`] chooses between OpenMetrics and the
//! plain text format.

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
