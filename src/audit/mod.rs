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
#[cfg(test)]
mod tests;
mod writer;

pub use event::{Event, ObjectReference, Stage};
pub use log::{Counts, Log, Place, Rejected};

/// Which requests are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// None.
    None,
    /// Those through Views that are a right of their own, and those through any name of a View that are rejected.
    #[default]
    ViewRights,
    /// Those through any View.
    Views,
    /// All but those for health.
    All,
}

/// What a request is to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Through a View that is a right of its own.
    ViewRight,
    /// Through another View, or through one that is not served.
    View,
    /// Through the name of a View, by a caller that is rejected: the same whatever there is of that name, so that neither the work of
    /// a rejection nor its event depends on it.
    RejectedView,
    /// For health: probes come every few seconds and tell nothing.
    Health,
    /// For anything else.
    Other,
}

impl Policy {
    /// Whether such a request is told.
    pub fn takes(self, subject: Subject) -> bool {
        match self {
            Policy::None => false,
            Policy::ViewRights => matches!(subject, Subject::ViewRight | Subject::RejectedView),
            Policy::Views => matches!(subject, Subject::ViewRight | Subject::View | Subject::RejectedView),
            Policy::All => subject != Subject::Health,
        }
    }
}
