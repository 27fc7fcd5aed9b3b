//! Tests of the table, of quantities, and of encodings.
//!
//! That the bytes are upstream's is tested beside upstream's serializers, in `e2e/tests/it/protobuf`.

mod encode;
mod memo;
mod quantity;
mod table;

use super::{EncodeErrorReason, Encoder, MessageTable, Unencodable};

/// The encoding of an object in the newest version but one.
fn written(api_version: &str, kind: &str, json: &str) -> Result<Vec<u8>, Unencodable> {
    written_in(36, api_version, kind, json)
}

fn written_in(minor: u32, api_version: &str, kind: &str, json: &str) -> Result<Vec<u8>, Unencodable> {
    let kind = MessageTable::for_minor(minor).unwrap().kind(api_version, kind).unwrap();
    let mut encoder = Encoder::default();
    let message = encoder.read(kind, json.as_bytes())?;
    let mut out = b"before".to_vec();
    message.write(&mut out);
    assert_eq!(out.len(), message.length() + 6, "the length that was announced");
    Ok(out.split_off(6))
}

/// Why an object cannot be written: where, and the reason.
fn refused(api_version: &str, kind: &str, json: &str) -> (String, EncodeErrorReason) {
    let Unencodable { path, reason } = written(api_version, kind, json).unwrap_err();
    (path, reason)
}
