//! The protobuf forms of the documents: gnostic's `openapi.v2.Document` and `openapi.v3.Document`, written from JSON.
//!
//! Go's discovery client asks for Swagger 2 in this form only. The messages are data ([`v2`], [`v3`]: keyword, field
//! number, shape); this file walks a document along them and writes the wire format: varints and length-delimited
//! fields, in the order of field numbers as Go writes them. Nothing is decoded here. The protobuf form is poorer than the JSON:
//! in v3 a default that is an object or a list becomes an empty message, as gnostic has it.

pub mod v2;
pub mod v3;

use serde_json::{Map, Value};

use super::yaml;

/// The Swagger 2 document in protobuf.
pub fn to_protobuf_v2(document: &Value) -> Vec<u8> {
    encode(&v2::DOCUMENT, document).0
}

/// An OpenAPI v3 document in protobuf.
pub fn to_protobuf_v3(document: &Value) -> Vec<u8> {
    encode(&v3::DOCUMENT, document).0
}

/// Something of the JSON that the message has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it stands, keys joined by `/`.
    pub path: String,
    /// Why: an unknown keyword, or a value of another type.
    pub reason: &'static str,
}

/// Encodes a document as the message `shape`, and says what could not be encoded. kube-apiserver fails as a whole in
/// that case; a reader is better off with the rest.
pub fn encode(shape: &'static Shape, document: &Value) -> (Vec<u8>, Vec<Skipped>) {
    let mut writer = Writer { path: Vec::new(), skipped: Vec::new() };
    let bytes = writer.message(shape, document);
    (bytes, writer.skipped)
}

/// A field of members whose names are data: its number, which names they are, and their shape.
pub type NamedField = (u32, fn(&str) -> bool, &'static Shape);

/// How a JSON value is written.
#[derive(Debug)]
pub enum Shape {
    /// `string`.
    Text,
    /// `bool`.
    Flag,
    /// `int64`.
    Integer,
    /// `double`.
    Double,
    /// A message with one field for each known keyword.
    Record {
        /// Keyword, field number, shape; in the order of field numbers.
        fields: &'static [(&'static str, u32, &'static Shape)],
        /// The field of members whose names are data.
        named: Option<NamedField>,
        /// The field of vendor extensions; 0 when the message has none.
        extensions: u32,
    },
    /// A repeated field: one for each item of a list.
    List(&'static Shape),
    /// A message whose field 1 repeats `{name = 1, value = 2}`, one for each member of an object.
    Named(&'static Shape),
    /// A message whose field 1 holds the value.
    Wrapped(&'static Shape),
    /// A message whose field 1 repeats the texts of a list, or holds one text.
    Texts,
    /// A message `Any`: field 2 is YAML text.
    Yaml,
    /// A message with one field out of several, chosen by the value; `None` leaves it empty.
    Choice(fn(&Value) -> Option<(u32, &'static Shape)>),
}

struct Writer {
    path: Vec<String>,
    skipped: Vec<Skipped>,
}

impl Writer {
    /// The content of a message.
    fn message(&mut self, shape: &'static Shape, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        match shape {
            Shape::Record { fields, named, extensions } => {
                if let Some(object) = self.object(value) {
                    self.record(fields, *named, *extensions, object, &mut out);
                }
            }
            Shape::Named(member) => {
                if let Some(object) = self.object(value) {
                    for (name, value) in object {
                        self.named(1, name, member, value, &mut out);
                    }
                }
            }
            Shape::Wrapped(inner) => self.field(1, inner, value, Zero::Kept, &mut out),
            Shape::Texts => match value {
                Value::Array(_) => self.field(1, &Shape::List(&Shape::Text), value, Zero::Kept, &mut out),
                _ => self.field(1, &Shape::Text, value, Zero::Kept, &mut out),
            },
            Shape::Yaml => put_bytes(2, yaml::text(value).as_bytes(), &mut out),
            Shape::Choice(choose) => {
                if let Some((number, shape)) = choose(value) {
                    self.field(number, shape, value, Zero::Kept, &mut out);
                }
            }
            Shape::Text | Shape::Flag | Shape::Integer | Shape::Double | Shape::List(_) => {
                self.field(1, shape, value, Zero::Kept, &mut out);
            }
        }
        out
    }

    fn record(
        &mut self,
        fields: &'static [(&'static str, u32, &'static Shape)],
        named: Option<NamedField>,
        extensions: u32,
        object: &Map<String, Value>,
        out: &mut Vec<u8>,
    ) {
        let is_extension = |key: &str| extensions > 0 && key.starts_with("x-");
        let is_named = |key: &str| named.is_some_and(|(_, matches, _)| matches(key));
        for key in object.keys() {
            if !is_extension(key) && !is_named(key) && !fields.iter().any(|(known, ..)| known == key) {
                self.path.push(key.clone());
                self.skip("the message has no field for this keyword");
                self.path.pop();
            }
        }
        // Extensions and named members stand among the fields, by number.
        let mut written = Vec::new();
        for &(key, number, shape) in fields {
            if let Some(value) = object.get(key) {
                self.path.push(key.to_owned());
                let mut field = Vec::new();
                self.field(number, shape, value, Zero::Omitted, &mut field);
                written.push((number, field));
                self.path.pop();
            }
        }
        if let Some((number, matches, shape)) = named {
            let mut field = Vec::new();
            for (name, value) in object.iter().filter(|(name, _)| matches(name)) {
                self.named(number, name, shape, value, &mut field);
            }
            written.push((number, field));
        }
        let mut field = Vec::new();
        for (name, value) in object.iter().filter(|(name, _)| is_extension(name)) {
            self.named(extensions, name, &Shape::Yaml, value, &mut field);
        }
        written.push((extensions, field));
        written.sort_by_key(|(number, _)| *number);
        out.extend(written.into_iter().flat_map(|(_, field)| field));
    }

    /// `{name = 1, value = 2}` in field `number`.
    fn named(&mut self, number: u32, name: &str, shape: &'static Shape, value: &Value, out: &mut Vec<u8>) {
        self.path.push(name.to_owned());
        let mut pair = Vec::new();
        if !name.is_empty() {
            put_bytes(1, name.as_bytes(), &mut pair);
        }
        self.field(2, shape, value, Zero::Omitted, &mut pair);
        put_bytes(number, &pair, out);
        self.path.pop();
    }

    fn field(&mut self, number: u32, shape: &'static Shape, value: &Value, zero: Zero, out: &mut Vec<u8>) {
        match shape {
            Shape::Text => match value {
                Value::String(text) if text.is_empty() && zero == Zero::Omitted => {}
                Value::String(text) => put_bytes(number, text.as_bytes(), out),
                _ => self.skip("not a text"),
            },
            Shape::Flag => match value {
                Value::Bool(false) if zero == Zero::Omitted => {}
                Value::Bool(flag) => put_varint(number, u64::from(*flag), out),
                _ => self.skip("not a boolean"),
            },
            Shape::Integer => match value.as_i64() {
                Some(0) if zero == Zero::Omitted => {}
                Some(integer) => put_varint(number, integer.cast_unsigned(), out),
                None => self.skip("not a 64-bit integer"),
            },
            Shape::Double => match value.as_f64() {
                // Minus zero is no zero to protobuf.
                Some(float) if float.to_bits() == 0 && zero == Zero::Omitted => {}
                Some(float) => put_double(number, float, out),
                None => self.skip("not a number"),
            },
            Shape::List(item) => match value {
                Value::Array(items) => {
                    for value in items {
                        self.field(number, item, value, Zero::Kept, out);
                    }
                }
                _ => self.skip("not a list"),
            },
            Shape::Record { .. }
            | Shape::Named(_)
            | Shape::Wrapped(_)
            | Shape::Texts
            | Shape::Yaml
            | Shape::Choice(_) => {
                let content = self.message(shape, value);
                put_bytes(number, &content, out);
            }
        }
    }

    fn object<'a>(&mut self, value: &'a Value) -> Option<&'a Map<String, Value>> {
        if value.as_object().is_none() {
            self.skip("not an object");
        }
        value.as_object()
    }

    fn skip(&mut self, reason: &'static str) {
        self.skipped.push(Skipped { path: self.path.join("/"), reason });
    }
}

/// Whether a zero value is written: proto3 omits it in a plain field and keeps it in a list or a choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    Kept,
    Omitted,
}

const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn put_tag(number: u32, wire_type: u64, out: &mut Vec<u8>) {
    put_number(u64::from(number) << 3 | wire_type, out);
}

fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    put_tag(number, VARINT, out);
    put_number(value, out);
}

fn put_double(number: u32, value: f64, out: &mut Vec<u8>) {
    put_tag(number, EIGHT_BYTES, out);
    out.extend(value.to_le_bytes());
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(number, LENGTH_DELIMITED, out);
    put_number(u64::try_from(bytes.len()).expect("a length must fit 64 bits"), out);
    out.extend(bytes);
}
