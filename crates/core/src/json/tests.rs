//! Reading JSON, against serde_json and against bounds.

mod tree;
mod view;
mod weight;
mod write;
