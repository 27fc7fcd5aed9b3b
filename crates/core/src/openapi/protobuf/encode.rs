//! Walks a document along its message and writes the wire format: varints and length-delimited fields, in the order of
//! field numbers.

use serde_json::{Map, Value};

use super::message::{NamedField, ValueType};
use crate::yaml::go_yaml;

/// A part of the JSON for which the message has no field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedValue {
    /// Its location: keys joined by `/`.
    pub path: String,
    /// Why: an unknown keyword, or a value of another type.
    pub reason: &'static str,
}

/// Encodes a document as the message `shape`. Returns its bytes, and the values that could not be encoded and are left
/// out. kube-apiserver rejects the whole document in that case; clients are better served with the rest.
pub fn encode(shape: &'static ValueType, document: &Value) -> (Vec<u8>, Vec<SkippedValue>) {
    encode_document(shape, document, Some(Vec::new()))
}

/// Encodes a document as the message `shape`. Returns its bytes, and the values that could not be encoded: none if
/// `skipped` is `None`, and otherwise they are added to it.
pub(super) fn encode_document(
    shape: &'static ValueType,
    document: &Value,
    skipped: Option<Vec<SkippedValue>>,
) -> (Vec<u8>, Vec<SkippedValue>) {
    let mut writer = Writer { path: Vec::new(), skipped, out: Backward::default() };
    writer.message(shape, document);
    let mut skipped = writer.skipped.unwrap_or_default();
    skipped.reverse();
    (writer.out.into_bytes(), skipped)
}

/// Writes a document from its end to its beginning. So the content of a message is already written when its length is,
/// and each byte is written once, however deep its message is.
struct Writer {
    /// The keys from the root to the current value.
    path: Vec<String>,
    /// The values that could not be encoded, the last one first; `None` when the caller does not need them.
    skipped: Option<Vec<SkippedValue>>,
    out: Backward,
}

/// A part of a record that has one field number.
enum Part<'v> {
    /// A known keyword, the type of its values, and its value.
    Field(&'static str, &'static ValueType, &'v Value),
    /// The members whose names are data: a test of the names, and the type of the values.
    Named(fn(&str) -> bool, &'static ValueType),
    /// The vendor extensions.
    Extensions,
}

impl Writer {
    /// Writes the content of a message, without its tag and length.
    fn message(&mut self, shape: &'static ValueType, value: &Value) {
        match shape {
            ValueType::Record { fields, named, extensions } => {
                if let Some(object) = self.object(value) {
                    self.record(fields, *named, *extensions, object);
                }
            }
            ValueType::Named(member) => {
                if let Some(object) = self.object(value) {
                    for (name, value) in object.iter().rev() {
                        self.named(1, name, member, value);
                    }
                }
            }
            ValueType::Wrapped(inner) => self.field(1, inner, value, Zero::Kept),
            ValueType::Texts => match value {
                Value::Array(_) => self.field(1, &ValueType::List(&ValueType::Text), value, Zero::Kept),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                    self.field(1, &ValueType::Text, value, Zero::Kept)
                }
            },
            ValueType::Yaml => self.out.put_bytes(2, go_yaml(value).as_bytes()),
            ValueType::Choice(choose) => {
                if let Some((number, shape)) = choose(value) {
                    self.field(number, shape, value, Zero::Kept);
                }
            }
            ValueType::Text | ValueType::Flag | ValueType::Integer | ValueType::Double | ValueType::List(_) => {
                self.field(1, shape, value, Zero::Kept);
            }
        }
    }

    /// Writes an object as a message: its fields, named members and extensions.
    fn record(
        &mut self,
        fields: &'static [(&'static str, u32, &'static ValueType)],
        named: Option<NamedField>,
        extensions: u32,
        object: &Map<String, Value>,
    ) {
        let is_extension = |key: &str| extensions > 0 && key.starts_with("x-");
        let is_named = |key: &str| named.is_some_and(|(_, matches, _)| matches(key));
        // Extensions and named members are ordered among the fields, by number.
        let known = fields
            .iter()
            .filter_map(|&(key, number, shape)| object.get(key).map(|value| (number, Part::Field(key, shape, value))));
        let named_members = named.map(|(number, matches, shape)| (number, Part::Named(matches, shape)));
        let mut parts: Vec<(u32, Part<'_>)> =
            known.chain(named_members).chain([(extensions, Part::Extensions)]).collect();
        parts.sort_by_key(|(number, _)| *number);
        for (number, part) in parts.into_iter().rev() {
            match part {
                Part::Field(key, shape, value) => {
                    self.path.push(key.to_owned());
                    self.field(number, shape, value, Zero::Omitted);
                    self.path.pop();
                }
                Part::Named(matches, shape) => {
                    for (name, value) in object.iter().rev().filter(|(name, _)| matches(name)) {
                        self.named(number, name, shape, value);
                    }
                }
                Part::Extensions => {
                    for (name, value) in object.iter().rev().filter(|(name, _)| is_extension(name)) {
                        self.named(number, name, &ValueType::Yaml, value);
                    }
                }
            }
        }
        for key in object.keys().rev() {
            if !is_extension(key) && !is_named(key) && !fields.iter().any(|(known, ..)| known == key) {
                self.path.push(key.clone());
                self.skip("the message has no field for this keyword");
                self.path.pop();
            }
        }
    }

    /// Writes a member of an object as the message `{name = 1, value = 2}` in field `number`. `shape` is the type of
    /// the value.
    fn named(&mut self, number: u32, name: &str, shape: &'static ValueType, value: &Value) {
        self.path.push(name.to_owned());
        let end = self.out.length();
        self.field(2, shape, value, Zero::Omitted);
        if !name.is_empty() {
            self.out.put_bytes(1, name.as_bytes());
        }
        self.out.begin_message(number, end);
        self.path.pop();
    }

    /// Writes one field of a message. A value of another type is skipped.
    fn field(&mut self, number: u32, shape: &'static ValueType, value: &Value, zero: Zero) {
        match shape {
            ValueType::Text => match value {
                Value::String(text) if text.is_empty() && zero == Zero::Omitted => {}
                Value::String(text) => self.out.put_bytes(number, text.as_bytes()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    self.skip("not a string")
                }
            },
            ValueType::Flag => match value {
                Value::Bool(false) if zero == Zero::Omitted => {}
                Value::Bool(flag) => self.out.put_varint(number, u64::from(*flag)),
                Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                    self.skip("not a boolean")
                }
            },
            ValueType::Integer => match value.as_i64() {
                Some(0) if zero == Zero::Omitted => {}
                Some(integer) => self.out.put_varint(number, integer.cast_unsigned()),
                None => self.skip("not a 64-bit integer"),
            },
            ValueType::Double => match value.as_f64() {
                // Protobuf does not omit minus zero.
                Some(float) if float.to_bits() == 0 && zero == Zero::Omitted => {}
                Some(float) => self.out.put_double(number, float),
                None => self.skip("not a number"),
            },
            ValueType::List(item) => match value {
                Value::Array(items) => {
                    for value in items.iter().rev() {
                        self.field(number, item, value, Zero::Kept);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                    self.skip("not a list")
                }
            },
            ValueType::Record { .. }
            | ValueType::Named(_)
            | ValueType::Wrapped(_)
            | ValueType::Texts
            | ValueType::Yaml
            | ValueType::Choice(_) => {
                let end = self.out.length();
                self.message(shape, value);
                self.out.begin_message(number, end);
            }
        }
    }

    /// The members of an object; `None` for another value, which is skipped.
    fn object<'a>(&mut self, value: &'a Value) -> Option<&'a Map<String, Value>> {
        if value.as_object().is_none() {
            self.skip("not an object");
        }
        value.as_object()
    }

    /// Records that the current value is left out.
    fn skip(&mut self, reason: &'static str) {
        if let Some(skipped) = &mut self.skipped {
            skipped.push(SkippedValue { path: self.path.join("/"), reason });
        }
    }
}

/// Whether a zero value is written: proto3 omits it in a plain field, and writes it in a list or a choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    Kept,
    Omitted,
}

// The wire types.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// Bytes of the wire format, the last one first.
#[derive(Default)]
struct Backward(Vec<u8>);

impl Backward {
    fn length(&self) -> usize {
        self.0.len()
    }

    /// The bytes in their final order, the first one first.
    fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.0;
        bytes.reverse();
        bytes
    }

    /// Prepends bytes.
    fn put(&mut self, bytes: &[u8]) {
        self.0.extend(bytes.iter().rev());
    }

    /// Prepends a varint.
    fn put_number(&mut self, mut number: u64) {
        // 64 bits are at most ten groups of seven.
        let mut groups = [0; 10];
        let mut length = 0;
        for group in &mut groups {
            length += 1;
            *group = number.to_le_bytes()[0] & 0x7f;
            number >>= 7;
            if number == 0 {
                break;
            }
            *group |= 0x80;
        }
        self.put(&groups[..length]);
    }

    /// Prepends the tag of a field.
    fn put_tag(&mut self, number: u32, wire_type: u64) {
        self.put_number(u64::from(number) << 3 | wire_type);
    }

    /// Prepends a varint field.
    fn put_varint(&mut self, number: u32, value: u64) {
        self.put_number(value);
        self.put_tag(number, VARINT);
    }

    /// Prepends a double field.
    fn put_double(&mut self, number: u32, value: f64) {
        self.put(&value.to_le_bytes());
        self.put_tag(number, EIGHT_BYTES);
    }

    /// Prepends a field of bytes.
    fn put_bytes(&mut self, number: u32, bytes: &[u8]) {
        let end = self.length();
        self.put(bytes);
        self.begin_message(number, end);
    }

    /// Prepends the length and the tag of a field whose content was just written. `end` is [`Backward::length`] before
    /// that.
    fn begin_message(&mut self, number: u32, end: usize) {
        let length = self.length() - end;
        self.put_number(u64::try_from(length).expect("a length must fit 64 bits"));
        self.put_tag(number, LENGTH_DELIMITED);
    }
}
