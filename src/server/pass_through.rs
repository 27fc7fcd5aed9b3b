//! What is not served here, answered by the API server behind.

/// Which requests that are not answered here go on to the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassThrough {
    /// None.
    #[default]
    Off,
    /// Reads.
    Read,
    /// Reads and writes.
    All,
}
