//! A body in the making: its pieces, one after the other.

use bytes::Bytes;

/// Chunks of a response, created one by one. An empty one is not sent: it ends a turn of work that has created
/// nothing to send yet.
pub type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;
