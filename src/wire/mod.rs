//! How Kubernetes writes: the bytes of objects, lists, tables and Status, and how it reads headers and parameters.
//!
//! Serves nothing and looks nothing up: handlers in `server` say what to write. [`api_error`] is the only place that chooses status codes.
//!
//! | Step | Files |
//! |---|---|
//! | reading a request | [`negotiate`] reads headers, [`params`] options; `request_body` reads bodies |
//! | objects | [`encode`] writes JSON, `protobuf` protobuf, [`yaml`] YAML, [`table`], `row` and [`mod@column`] Tables |
//! | bytes | [`pieces`] is a response in the making, [`indent`] and [`gzip`] change it, [`body`] sends it |
//! | errors | [`api_error`] makes a Status, `past` is the error of a state that was revoked |
//! | responses | `response` has media types, lengths and errors, `warnings` adds Warning headers, `request_log` logs a line for each |

pub mod api_error;
pub mod body;
pub mod column;
pub mod encode;
pub mod gzip;
pub mod indent;
pub mod negotiate;
pub mod params;
pub(crate) mod past;
pub mod pieces;
pub(crate) mod protobuf;
pub(crate) mod request_body;
pub(crate) mod request_log;
pub(crate) mod response;
pub(crate) mod row;
pub(crate) mod shared_columns;
pub mod table;
pub(crate) mod warnings;
pub mod yaml;
