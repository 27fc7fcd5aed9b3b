//! Whether something that requests need is available, as health checks report it.

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The store is complete.
    Ready,
    /// It is not, and waiting does not help: reported, but everything else is served. The text says why.
    Unavailable(String),
    /// Not available yet, but added after this replica began to serve: reported, while everything else is served. The
    /// text describes the progress.
    Loading(String),
    /// It is not there yet, or has failed; the text says why.
    NotReady(String),
}

impl From<Result<(), String>> for Readiness {
    fn from(result: Result<(), String>) -> Readiness {
        result.map_or_else(Readiness::NotReady, |()| Readiness::Ready)
    }
}
