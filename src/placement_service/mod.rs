//! PlacementReviews, from a document to a status: shared by the server and by `fieldcache place`, without HTTP.
//!
//! [`decode`] reads a review, with the strictness of [`field_validation`]. [`index`] follows the stores of nodes, Pods
//! and Namespaces, and [`answer`] makes the status of a spec. The rules of the scheduler are [`crate::placement`]'s.
//! Permissions are not checked here: the server does that in `server::placement_review`.

pub mod answer;
pub mod decode;
pub mod field_validation;
pub mod index;
