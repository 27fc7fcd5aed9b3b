//! Answers Kubernetes API requests over HTTP: discovery, get, list, watch, health, version.
//!
//! Reads the [`Registry`](crate::registry::Registry). Knows neither the source nor a Kubernetes client. Requests that it does not answer itself, all writes among them,
//! are rejected, or forwarded to the API server if `--pass-through` permits it.
//!
//! | Step | Files |
//! |---|---|
//! | transport | [`listen`] accepts sockets, [`tls`] encrypts them, `heads` reads heads of requests before hyper does; [`connection`] decides when a connection ends; [`probes`] is the port for health checks; [`write_timeout`] and [`stream_timeout`] end connections and streams whose client stopped reading |
//! | pipeline | `pipeline` takes a request from its head to its response and calls the files below in their order; `context` is what handlers know of the request, `state` what they share, [`settings`] what the process decides, `no_response` why there is no response yet |
//! | limits | [`limits`]; [`guards`] keeps browsers out of a local server |
//! | reading a request | [`crate::request`] reads path and query, `methods` the method, [`params`] the options, [`negotiate`] the headers |
//! | authentication and authorization | `authorize`, through [`crate::access`] |
//! | handlers | [`list`], [`get`] and [`watch`], with [`read`] and [`consistency`] for what they share; `non_resource` for [`discovery`], with `discovery_rows` and `builtin_group_documents`, and [`health`]; `openapi` for [`documents`]; [`placement_review`] and [`self_review`], whose bodies [`sent`] reads and [`shape`] describes |
//! | forwarding | [`pass_through`] is the mode, `forward_policy` decides, [`forward`] sends, with `drain_on_drop` and `read_your_writes` |
//! | responses | [`encode`], [`indent`], [`body`], [`gzip`], [`yaml`], [`table`] and [`column`] make the bytes, `response` the heads; [`api_error`] is the only place that chooses status codes; `warnings` adds Warning headers |
//! | accounting | [`request_metrics`] counts, `auditing` decides what is audited and `audit_context` records it, `explain` reports how a selection was planned, `disclosure` decides what may be reported about objects that the caller cannot see |
//!
//! [`view_request`] is a View: its own catalog behind a path prefix.
//!
//! Files use each other in one direction: the pipeline uses handlers, handlers use context, state and what makes bytes, and these use limits
//! and errors. `cargo run -p e2e --bin modules -- server` prints which file uses which.

pub mod api_error;
mod audit_context;
mod audit_id;
mod auditing;
mod authorize;
pub mod body;
mod builtin_group;
mod builtin_group_documents;
pub mod clock;
pub mod column;
pub mod connection;
pub mod consistency;
mod context;
mod disclosure;
pub mod discovery;
mod discovery_rows;
pub mod documents;
mod drain_on_drop;
pub mod encode;
mod explain;
pub mod forward;
mod forward_policy;
pub mod get;
mod go_zero_values;
pub mod guards;
pub mod gzip;
mod heads;
pub mod health;
pub mod heartbeat;
pub mod indent;
pub mod limits;
pub mod list;
pub mod listen;
mod methods;
pub mod negotiate;
mod no_response;
mod non_resource;
mod openapi;
mod pace;
pub mod params;
pub mod pass_through;
pub mod pieces;
mod pipeline;
pub mod placement_review;
pub mod probes;
mod protobuf;
pub mod read;
mod read_your_writes;
mod request_log;
pub mod request_metrics;
mod response;
mod row;
mod self_review;
mod sent;
pub mod settings;
mod shape;
mod shared_columns;
mod state;
mod stream_timeout;
pub mod table;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod view_request;
mod warnings;
pub mod watch;
pub mod write_timeout;
pub mod yaml;

pub use pipeline::Server;
pub use settings::Settings;
