//! Files, documents, folders.

mod folder;
mod scan;
mod yaml;
