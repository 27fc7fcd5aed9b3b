//! Tests of the room, by file. `upstream` holds upstream's own cases, `properties` the random ones.

mod bounds;
mod builtin;
mod copies;
mod extra;
mod extractor;
mod json_path;
mod kep;
mod owners;
mod path;
mod properties;
mod prune;
mod subjects;
mod upstream;
mod validation;
mod value;
