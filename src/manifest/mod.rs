//! Texts that people write: YAML and JSON documents, read into values with the lines where they stand.
//!
//! [`yaml`] reads the documents of one text, with [`json`] for JSON and [`scalar`] for the meaning of plain scalars. Files of a
//! folder are read with it, what is given to a command, and bodies of requests. [`budget`] bounds what a text may cost. What an object
//! must look like is not looked at.

pub mod budget;
mod builder;
pub mod json;
pub mod scalar;
#[cfg(test)]
mod tests;
pub mod yaml;
