//! Serves Kubernetes API requests: discovery, get, list, watch, OpenAPI, health, version, reviews.
//!
//! Reads the [`Registry`](crate::registry::Registry), and uses neither the source nor a Kubernetes client. Requests
//! that it does not serve itself, such as all writes, are rejected, or forwarded to the API server if `--pass-through`
//! permits that. [`crate::transport`] has the sockets, [`crate::flow_control`] the limits, and [`crate::wire`] the
//! encoding of responses.
//!
//! | Step | Files |
//! |---|---|
//! | pipeline | `pipeline` takes a request from its head to its response and calls the files below in their order. `context` is what handlers know of the request, `state` what they share, and [`settings`] what the process sets. `no_response` has the reasons why a handler returns no response |
//! | checks | [`guards`] rejects requests of web pages at a local server, `methods` rejects writes, `authorize` authenticates and authorizes through [`crate::access`] |
//! | handlers | [`list`], [`get`] and [`watch`], with [`read`] and [`consistency`] for what they share. `facets` counts the objects of a list, and `sorting` reads its order. `non_resource` for [`discovery`], with `discovery_rows` and `builtin_group_documents`, and [`health`]. `openapi` for [`documents`]. [`placement_review`], over [`crate::placement_service`], and `self_review`, with `field_validation` for both. `dependents`, over [`crate::dependents`] |
//! | watches over WebSocket | `websocket` makes the handshake, and converts the response of a watch |
//! | forwarding | [`pass_through`] is the mode, `forward_policy` decides, [`forward`] sends, with `drain_on_drop` and `read_your_writes`. `delete_collection` deletes what selectors of fieldcache select |
//! | responses | `response` makes one of a document |
//! | accounting | [`request_metrics`] counts, `auditing` decides what is audited and `audit_context` records it. `explain` reports how a selection was planned, and `disclosure` decides what may be reported about objects that the caller cannot see |
//!
//! [`view_request`] resolves the View of a request, which has its own catalog below a path prefix. `permitted_caller` finds
//! the namespaces in which a caller has a permission, and `permitted_callers` keeps them. [`probes`] serves
//! health checks on their own port.
//!
//! Files use each other in one direction: the pipeline uses handlers, and handlers use context and state.
//! `cargo run -p e2e --bin modules -- server` prints which file uses which.

mod audit_context;
mod audit_id;
mod auditing;
mod authorize;
mod builtin_group;
mod builtin_group_documents;
pub mod clock;
pub mod consistency;
mod context;
mod delete_collection;
mod dependents;
mod disclosure;
pub mod discovery;
mod discovery_rows;
pub mod documents;
mod drain_on_drop;
mod explain;
mod facets;
mod field_validation;
pub mod forward;
mod forward_policy;
pub mod get;
pub mod guards;
pub mod health;
pub mod heartbeat;
pub mod list;
mod list_page;
mod methods;
mod no_response;
mod non_resource;
mod openapi;
pub mod pass_through;
mod permitted_caller;
mod permitted_callers;
mod pipeline;
pub mod placement_review;
pub mod probes;
pub mod read;
mod read_your_writes;
pub mod request_metrics;
mod response;
mod self_review;
pub mod settings;
mod sorting;
mod state;
#[cfg(test)]
mod tests;
pub mod view_request;
pub mod watch;
mod websocket;

pub use pipeline::Server;
pub use settings::Settings;
