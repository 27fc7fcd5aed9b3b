//! What was asked, by whom, and what was decided: `audit.k8s.io/v1` events, one JSON object a line.
//!
//! A View that is a right of its own shows what the cluster's own audit log knows nothing of: kube-apiserver sees one watch of ours,
//! not who reads through it. So requests through such Views are told here by default ([`Policy`]), at level Metadata: no body,
//! neither of a request nor of an answer. [`event`] is the document, [`log`] the queue, `writer` the
//! thread that writes and `output` the file.
//!
//! Of kube-apiserver's stages there are two: ResponseComplete for every request, however it ended, and before it ResponseStarted for
//! what streams. RequestReceived would say nothing that these do not. Who fills events in is `server`.
//!
//! The first event of an admitted request is written before any byte of its response is sent. The time of a ResponseComplete event is
//! therefore that at which the response was ready.

pub mod event;
pub mod log;
mod output;
mod policy;
#[cfg(test)]
mod tests;
mod writer;

pub use event::{Event, ObjectReference, Stage};
pub use log::{Counts, Log, Place, Rejected};
pub use policy::{Policy, Subject};
