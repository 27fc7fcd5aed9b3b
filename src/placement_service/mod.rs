//! PlacementReviews, from a document to a status: shared by the server and by `fieldcache place`, without HTTP.
//!
//! [`decode`] reads a review, and [`field_validation`] decides how it handles unknown fields. [`index`] follows the
//! stores of nodes, Pods and Namespaces, and [`answer`] evaluates a review. The rules of the scheduler are in
//! [`crate::placement`]. Permissions are not checked here: the server does that in `server::placement_review`.

pub mod answer;
pub mod decode;
pub mod field_validation;
pub mod index;
