//! `placementreviews` of view.fieldcache.dev: where a Pod may run, and why not elsewhere, asked over HTTP.
//!
//! A review is created and answered at once, as a SubjectAccessReview is, and never stored. [`index`] keeps what is answered
//! from, [`answering`] makes a status of a spec. The rules are [`crate::placement`]'s.

pub mod answering;
pub mod index;
