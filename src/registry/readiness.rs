//! Whether something that requests need is available, as health checks report it.

/// The result of one check of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The store is complete.
    Ready,
    /// The store is not complete, and waiting does not help, for this reason. `/readyz` as a whole does not fail:
    /// everything else is served.
    Unavailable(String),
    /// The store is not complete yet, and was added after this replica began to serve. `/readyz` as a whole does not
    /// fail. The text describes the progress.
    Loading(String),
    /// The store is not complete yet, or has failed, for this reason. `/readyz` fails.
    NotReady(String),
}

impl From<Result<(), String>> for Readiness {
    fn from(result: Result<(), String>) -> Readiness {
        result.map_or_else(Readiness::NotReady, |()| Readiness::Ready)
    }
}
