//! Kubernetes protobuf, written from an object's JSON bytes.
//!
//! Map: `messages.txt` describes upstream's types in each minor version; `e2e/go/cmd/protobuf-table` prints it, and
//! [`table`] reads it for one minor version. [`encode`] reads JSON once, which gives the length, and writes the
//! message. In it, `read` fills the `tape`, `write` follows it, and `memo` caches fields that neighbours share.
//! [`envelope`] has the envelopes of messages: `runtime.Unknown`, lists, frames of watches. `quantity` brings
//! quantities into upstream's canonical form, and `wire` is varints and tags.
//!
//! A field that the table does not have is an error and is never left out: a client must get the whole object. An
//! object that cannot be encoded can still be sent as JSON. Bytes are those that upstream writes for the same JSON.

pub mod encode;
pub mod envelope;
mod memo;
mod quantity;
mod read;
pub mod table;
mod tape;
mod wire;
mod write;

#[cfg(test)]
mod tests;

pub use encode::{Encoder, Message};
pub use read::{EncodeErrorReason, Unencodable};
pub use table::{FieldKind, MessageTable, NoTable};
