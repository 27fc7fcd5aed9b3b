//! The protocol between two fieldcaches of which one reads the other, beyond the Kubernetes API.
//!
//! It consists of a query parameter, a request header, and an annotation that is only sent to clients that use the
//! parameter. An API server ignores all of it, so the server behind a URL needs no configuration.

/// Query parameter of a watch that requests a bookmark whenever the store has advanced. Its value is the version that
/// the client waits for, or 0. The bookmarks have [`LAG_ANNOTATION`].
pub const PROGRESS_PARAMETER: &str = "fieldcacheProofs";

/// Annotation of such a bookmark: the age of the progress that it reports, in milliseconds, as decimal text.
pub const LAG_ANNOTATION: &str = "fieldcache.dev/lag-milliseconds";

/// Request header that overrides the consistency of a read without a resourceVersion: `Strong` or `Eventual`.
pub const CONSISTENCY_HEADER: &str = "fieldcache-consistency";
