//! The protobuf forms of the documents: gnostic's `openapi.v2.Document` and `openapi.v3.Document`, written from JSON.
//!
//! Go's discovery client requests Swagger 2 in this form only. The messages are data ([`v2`], [`v3`]: keyword, field
//! number, type). This module walks a document along them and writes the wire format. Varints and length-delimited
//! fields are in the order of field numbers, as Go writes them. Nothing is decoded here. The protobuf form has less
//! content than the JSON. In v3, a default that is an object or a list becomes an empty message, as in gnostic.

mod encode;
pub mod message;
pub mod v2;
pub mod v3;

use serde_json::Value;

pub use encode::{SkippedValue, encode};

use encode::encode_document;

/// The Swagger 2 document in protobuf. Values that cannot be encoded are left out without a report: see [`encode()`].
pub fn to_protobuf_v2(document: &Value) -> Vec<u8> {
    encode_document(&v2::DOCUMENT, document, None).0
}

/// An OpenAPI v3 document in protobuf. Values that cannot be encoded are left out without a report: see [`encode()`].
pub fn to_protobuf_v3(document: &Value) -> Vec<u8> {
    encode_document(&v3::DOCUMENT, document, None).0
}
