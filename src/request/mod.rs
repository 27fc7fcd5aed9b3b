//! Parses the method, path and query of a request once, into a [`RequestInfo`].
//!
//! Routing, authorization, audit, limits, metrics and Views use the same [`RequestInfo`], so they cannot disagree
//! about a path. This is kube-apiserver's own principle (apiserver `endpoints/request/requestinfo.go`).
//!
//! This module does not check which resources and Views exist, which only the registry knows. It does not read
//! headers or bodies. Start at [`info`]. [`path`] splits the path, [`view_path`] finds the View in front of it, and
//! [`query`] decodes parameters.

pub mod info;
pub mod path;
pub mod query;
pub mod view_path;

pub use info::RequestInfo;
pub use path::{ResourcePath, Route};
pub use query::Query;
pub use view_path::ViewPath;
