//! YAML and JSON texts, parsed into values with their line numbers.
//!
//! [`yaml`] reads the documents of one text. It uses `json` for JSON and `scalar` for the meaning of plain scalars. Files of a folder,
//! arguments of commands and bodies of requests are read with it. [`budget`] bounds the memory that a text may take. [`document`] reads the
//! one document of a request, and [`shape`] describes its members. Schemas are not consulted here.

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
