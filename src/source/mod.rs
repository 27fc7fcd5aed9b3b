//! Where objects come from.
//!
//! Map: [`folder`] turns a folder of manifests into objects, versions and changes, [`scan`] reads and follows the
//! folder on disk, [`yaml`] reads the documents of one file, with [`json`] for JSON texts and [`scalar`] for the
//! meaning of plain YAML scalars.

pub mod folder;
pub mod json;
pub mod object;
pub mod scalar;
pub mod scan;
pub mod yaml;

#[cfg(test)]
mod tests;
