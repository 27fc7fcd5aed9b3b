//! What one fieldcache says to another that it reads, beyond the ordinary wire.
//!
//! All of it is what an API server ignores, so that nobody has to know what stands behind a URL: a query parameter, a
//! request header, and an annotation that is sent only to those who asked with the parameter.

/// Query parameter of a watch: "send a bookmark whenever your copy is proven to reach farther"; its value is the version
/// that is waited for, 0 for none in particular. Answered with [`LAG_ANNOTATION`].
pub const PROOFS_PARAMETER: &str = "fieldcacheProofs";

/// Annotation of such a bookmark: how old the proof is that it hands on, in milliseconds, as decimal text.
pub const LAG_ANNOTATION: &str = "fieldcache.dev/lag-milliseconds";

/// Request header that overrides how fresh an answer with an unset resourceVersion must be: `Strong` or `Eventual`.
pub const CONSISTENCY_HEADER: &str = "fieldcache-consistency";
