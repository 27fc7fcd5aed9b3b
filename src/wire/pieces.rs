//! A response body that is created while it is sent, piece by piece.

use bytes::Bytes;

/// The chunks of a response, created one by one. An empty chunk is not sent: it ends a turn of work (see
/// [`crate::flow_control::seats`]) that has created nothing to send yet.
pub type Pieces = Box<dyn Iterator<Item = Bytes> + Send>;
