//! Whether something that requests need is there: what health checks report.

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is there.
    Ready,
    /// It is not, and waiting does not help: reported, but everything else is served. The text says why.
    Unavailable(String),
    /// It is not there yet, but was added after this replica began to serve: reported, but everything else is served. The text says how
    /// far it is.
    Loading(String),
    /// It is not there yet, or has failed; the text says why.
    NotReady(String),
}

impl From<Result<(), String>> for Readiness {
    fn from(result: Result<(), String>) -> Readiness {
        result.map_or_else(Readiness::NotReady, |()| Readiness::Ready)
    }
}
