//! The audit log: `audit.k8s.io/v1` events, one JSON object in a line.
//!
//! A View with `authorization: View` gives its users data that they may not read elsewhere. The cluster's own audit log
//! does not name these users, because kube-apiserver sees only the watch of this server. So requests through such Views
//! are logged by default ([`Policy`]), at level Metadata: without the bodies of requests and responses. [`event`] is
//! the document, [`log`] the queue, `writer` the thread that writes and `output` the file. `server` creates the events.
//!
//! Two of kube-apiserver's stages are logged: ResponseComplete for every request, however it ended, and for streams
//! also ResponseStarted. RequestReceived would add nothing to these.
//!
//! The first event of an admitted request is written before any byte of its response is sent. The time of a
//! ResponseComplete event is therefore that at which the response was ready.

pub mod event;
pub mod log;
mod output;
mod policy;
#[cfg(test)]
mod tests;
mod writer;

pub use event::{Event, ObjectReference, Stage};
pub use log::{AuditCounters, Log, QueuePermit, RejectionKey};
pub use policy::{Policy, RequestClass};
