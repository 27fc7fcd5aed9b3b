//! Whether something that requests need is available, as health checks report it.

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The store is complete.
    Ready,
    /// The store is not complete, and waiting does not help: reported, but everything else is served. The text has
    /// the reason.
    Unavailable(String),
    /// Not available yet, but added after this replica began to serve: reported, while everything else is served. The
    /// text describes the progress.
    Loading(String),
    /// The store is not complete yet, or has failed; the text has the reason.
    NotReady(String),
}

impl From<Result<(), String>> for Readiness {
    fn from(result: Result<(), String>) -> Readiness {
        result.map_or_else(Readiness::NotReady, |()| Readiness::Ready)
    }
}
