//! The formats of the Kubernetes API: objects, lists, tables and Status in responses, headers and parameters of
//! requests.
//!
//! This module handles no requests and reads no stores: handlers in `server` decide what to write. Only [`api_error`]
//! chooses status codes.
//!
//! | Step | Files |
//! |---|---|
//! | reading a request | [`negotiate`] reads headers, [`params`] options; `request_body` reads bodies |
//! | objects | [`encode`] writes JSON, `protobuf` protobuf, [`yaml`] YAML, [`table`], `row` and [`mod@column`] Tables, [`facets`] their numbers |
//! | bytes | [`pieces`] are created on demand, [`indent`], [`gzip`] and `messages` convert them, [`body`] sends them |
//! | errors | [`api_error`] creates a Status, `past` is the error for a snapshot that was revoked |
//! | responses | `response` sets media types and lengths, `warnings` adds Warning headers, `request_log` logs requests |

pub mod api_error;
pub mod body;
pub mod column;
pub mod encode;
pub mod facets;
pub mod gzip;
pub mod indent;
pub(crate) mod messages;
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
