//! What a request is about: its method, path and query, read once into a [`RequestInfo`].
//!
//! Routing, authorization, audit, limits, metrics and Views use the same [`RequestInfo`], so they cannot disagree about a path. This is
//! kube-apiserver's own principle (apiserver `endpoints/request/requestinfo.go`).
//!
//! Does not look anything up: the registry knows which resources and Views exist. Does not read headers or bodies.
//! Start at [`info`]; [`path`] splits the path, [`view_path`] finds the View in front of it, [`query`] decodes parameters.

pub mod info;
pub mod path;
pub mod query;
pub mod view_path;

pub use info::RequestInfo;
pub use path::{ResourcePath, Route};
pub use query::Query;
pub use view_path::ViewPath;
