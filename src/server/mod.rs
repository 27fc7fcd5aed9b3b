//! To come.

pub mod documents;
