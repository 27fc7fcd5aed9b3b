//! Tests of the room, by file. `upstream` holds upstream's own cases, `properties` the random ones.

mod bounds;
mod builtin;
mod copies;
mod extra;
mod json_path;
mod judge;
mod kep;
mod path;
mod plan;
mod properties;
mod prune;
mod upstream;
mod value;
