//! Texts that people write: YAML and JSON documents, read into values with the lines where they stand.
//!
//! [`yaml`] reads the documents of one text, with [`json`] for JSON and [`scalar`] for the meaning of plain scalars. Files of a
//! folder are read with it, what is given to a command, and bodies of requests. [`budget`] bounds what a text may cost. [`document`] reads the one document of a request, and
//! [`shape`] describes its members. Schemas are not consulted here.

pub mod budget;
mod builder;
pub mod document;
mod json;
mod parsed;
mod scalar;
pub mod shape;
#[cfg(test)]
mod tests;
pub mod yaml;
