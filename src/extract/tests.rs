//! Tests of the room, by file.

mod plan;
