//! YAML and JSON texts, parsed into values with their line numbers.
//!
//! [`yaml`] parses the documents of one text. It uses `json` for JSON, and `scalar` for the meaning of plain scalars.
//! Files of a folder, arguments of commands and bodies of requests are parsed with it. [`budget`] limits the memory of
//! a text's values. [`document`] reads the single document of a request, and [`shape`] checks its fields. Schemas are
//! not used here.

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
