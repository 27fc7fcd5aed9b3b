//! The messages of one minor version of Kubernetes, prepared for an encoder: names to fields, and the encoding of
//! absent fields.
//!
//! A struct that is inline in JSON is a message of its own in protobuf. Its fields are listed here among those around
//! it, in the order in which they are written. A [`MessageField`] with [`Mode::Opens`] precedes them. So each message
//! has *parts* whose lengths are counted separately: itself and all inner messages.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use super::tape::Slot;
use super::wire::{Tag, push_varint};

/// The oldest minor version that there is a table for.
pub const OLDEST: u32 = 32;

/// The newest minor version that there is a table for.
pub const NEWEST: u32 = 37;

const TEXT: &str = include_str!("messages.txt");

/// There is no table of this minor version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTable {
    /// This minor version of Kubernetes is older or newer than all tables.
    #[error(
        "the protobuf messages of Kubernetes 1.{0} are not known: fieldcache knows those of 1.{OLDEST} to 1.{NEWEST}"
    )]
    UnknownMinor(u32),
    /// A line of a table cannot be read.
    #[error("line {line} of the table of messages: {problem}")]
    Malformed {
        /// The number of the line, from 1.
        line: usize,
        /// The error.
        problem: String,
    },
}

/// The messages of one minor version of Kubernetes.
#[derive(Debug)]
pub struct MessageTable {
    pub(super) minor: u32,
    kinds: HashMap<String, HashMap<String, MessageId>>,
    pub(super) messages: Vec<MessageType>,
    partial: Option<MessageId>,
    list_meta: Option<MessageId>,
}

/// The index of a message in its table.
pub(super) type MessageId = u32;

/// A kind with its message in the table.
#[derive(Clone, Copy, Debug)]
pub struct FieldKind<'t> {
    pub(super) table: &'t MessageTable,
    pub(super) message: MessageId,
    /// Whether fields that the message does not have are skipped instead of an error: of the object only metadata is
    /// written.
    pub(super) is_excerpt: bool,
}

/// The JSON form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonForm {
    /// An object of its fields.
    Object,
    /// A list, which is the only field.
    List,
    /// A schema, which is the first field, or a list, which is the second.
    SchemaOrList,
    /// A boolean, which is the first field, or a schema, which is the second and means true.
    SchemaOrBool,
    /// Any JSON, which is the only field, unchanged.
    Raw,
    /// A time in RFC 3339, to the second.
    Time,
    /// A time in RFC 3339, to the microsecond.
    MicroTime,
    /// A quantity.
    Quantity,
    /// A number or a string.
    IntOrString,
}

/// The cardinality of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Always written, with the zero value if the JSON does not have the field.
    One,
    /// Written if the JSON has the field.
    Optional,
    /// Once for each item of a list.
    Many,
    /// Once for each member of an object, sorted by key.
    Map,
    /// Never written, although the JSON may have the field.
    Skipped,
    /// Begins an inner message, whose fields follow. The number is the index of its part.
    Opens(u16),
}

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text,
    Flag,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    /// A message that is read and written as a whole: [`JsonForm::Time`] and those after it.
    Opaque(JsonForm),
    /// [`JsonForm::Raw`].
    Raw,
    Message(MessageId),
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct MessageField {
    /// The name in JSON; empty if JSON has none.
    pub(super) name: Box<str>,
    /// The name with its quotes and a colon.
    pub(super) key: Box<[u8]>,
    pub(super) tag: Tag,
    pub(super) mode: Mode,
    pub(super) value: Value,
    /// The index of the part that the field belongs to.
    pub(super) part: u16,
    /// The bytes that are written when JSON does not have the field.
    pub(super) absent: Box<[u8]>,
}

/// A message as the encoder uses it.
#[derive(Debug)]
pub(super) struct MessageType {
    pub(super) form: JsonForm,
    /// In the order in which they are written.
    pub(super) fields: Vec<MessageField>,
    pub(super) parts: Vec<MessagePart>,
    /// The slots of the message without fields: those of the parts, with their lengths, and those of the fields.
    pub(super) empty: Box<[Slot]>,
    names: Names,
    /// For each position, the field that is expected there, or [`NO_FIELD`]: first at the beginning of an object, then
    /// after each field. It is the field that last came there. Objects have their fields in similar order, so most
    /// names are compared with one.
    followers: Box<[AtomicU16]>,
}

/// A part of a message: the message itself, or one that is inline in its JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessagePart {
    /// The index of the part that contains it; 0 for the message itself.
    pub(super) around: u16,
    /// The length of its tag, in bytes; 0 for the message itself.
    pub(super) tag_length: u8,
    /// The length of its own fields when all are absent, in bytes.
    pub(super) base: u32,
}

impl MessageType {
    /// The index of the field with this name; `None` if the message has none.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        self.names.find(name, &self.fields)
    }

    /// The field that is expected after the field `previous`, or (`None`) at the beginning of an object, with its
    /// index. `None` if none is expected yet.
    pub(super) fn expected(&self, previous: Option<usize>) -> Option<(usize, &MessageField)> {
        let follower = self.followers.get(previous.map_or(0, |place| place + 1))?.load(Ordering::Relaxed);
        self.fields.get(usize::from(follower)).map(|field| (usize::from(follower), field))
    }

    /// Expects the field with index `place` after the field `previous`, or (`None`) at the beginning of an object, from
    /// now on.
    pub(super) fn expect(&self, previous: Option<usize>, place: usize) {
        if let Some(follower) = self.followers.get(previous.map_or(0, |place| place + 1)) {
            follower.store(place as u16, Ordering::Relaxed);
        }
    }
}

impl MessageTable {
    /// The table of a minor version of Kubernetes, parsed when it is first needed.
    ///
    /// # Errors
    /// [`NoTable`] when there is none.
    pub fn for_minor(minor: u32) -> Result<&'static MessageTable, NoTable> {
        static TABLES: [OnceLock<Result<MessageTable, NoTable>>; (NEWEST - OLDEST + 1) as usize] =
            [const { OnceLock::new() }; _];
        let place = minor.checked_sub(OLDEST).and_then(|place| TABLES.get(place as usize));
        let table = place.ok_or(NoTable::UnknownMinor(minor))?;
        table.get_or_init(|| MessageTable::read(TEXT, minor)).as_ref().map_err(NoTable::clone)
    }

    /// The text that tables are read from.
    pub fn text() -> &'static str {
        TEXT
    }

    /// Parses the lines of `text` that apply to a minor version.
    ///
    /// # Errors
    /// [`NoTable::UnknownMinor`] when the text does not cover the version, and [`NoTable::Malformed`] when a line
    /// cannot be read.
    pub fn read(text: &str, minor: u32) -> Result<MessageTable, NoTable> {
        let mut kinds: HashMap<String, HashMap<String, MessageId>> = HashMap::new();
        let lines = Lines::read(text, minor)?;
        let mut builder = Builder { defaults: vec![None; lines.messages.len()], lines: &lines };
        let mut messages = Vec::with_capacity(lines.messages.len());
        for id in 0..lines.messages.len() {
            messages.push(builder.message(id)?);
        }
        for (line, api_version, kind, name) in &lines.kinds {
            let message = lines.id(name, *line)?;
            kinds.entry((*api_version).to_owned()).or_default().insert((*kind).to_owned(), message);
        }
        let named = |name| lines.ids.get(name).copied();
        let (partial, list_meta) = (named("meta/v1.PartialObjectMetadata"), named("meta/v1.ListMeta"));
        Ok(MessageTable { minor, kinds, messages, partial, list_meta })
    }

    /// The message for a kind; `None` if the table does not have the kind.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<FieldKind<'_>> {
        let message = *self.kinds.get(api_version)?.get(kind)?;
        Some(FieldKind { table: self, message, is_excerpt: false })
    }

    /// All kinds: apiVersion and kind.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kinds.iter().flat_map(|(version, kinds)| kinds.keys().map(move |kind| (&**version, &**kind)))
    }

    /// The kind PartialObjectMetadata for any object: only the metadata is written. `None` if the table does not have
    /// it.
    pub fn partial(&self) -> Option<FieldKind<'_>> {
        self.partial.map(|message| FieldKind { table: self, message, is_excerpt: true })
    }

    /// The message of a list's metadata; `None` if the table does not have it.
    pub fn list_meta(&self) -> Option<FieldKind<'_>> {
        self.list_meta.map(|message| FieldKind { table: self, message, is_excerpt: false })
    }
}

/// Names of fields, found by their length and three of their bytes.
#[derive(Debug, Default)]
struct Names {
    /// The factor of the hash function.
    factor: u32,
    /// The number of low bits that the hash function drops.
    shift: u32,
    /// Indexes of fields, or [`NO_FIELD`]. A field is at the hash of its name, or at the next free place.
    places: Box<[u16]>,
}

const NO_FIELD: u16 = u16::MAX;

/// How many factors are tried to find one without collisions.
const FACTORS: u32 = 256;

impl Names {
    /// A hash table of the field names, with as few collisions as possible.
    fn from_fields(fields: &[MessageField]) -> Names {
        let named: Vec<usize> = (0..fields.len()).filter(|field| !fields[*field].name.is_empty()).collect();
        let size = (named.len() * 4).next_power_of_two().max(2);
        let mut best = (usize::MAX, Names::default());
        for step in 0..FACTORS {
            // Odd numbers whose bits differ from step to step.
            let factor = 0x9e37_79b1_u32.wrapping_add(step.wrapping_mul(0x85eb_ca76)) | 1;
            let mut names =
                Names { factor, shift: 32 - size.trailing_zeros(), places: vec![NO_FIELD; size].into_boxed_slice() };
            let mut collisions = 0;
            for &field in &named {
                let mut place = names.first_place(fields[field].name.as_bytes());
                while names.places[place] != NO_FIELD {
                    collisions += 1;
                    place = (place + 1) % size;
                }
                names.places[place] = field as u16;
            }
            if collisions < best.0 {
                best = (collisions, names);
            }
            if best.0 == 0 {
                break;
            }
        }
        best.1
    }

    /// The hash of a name: the place where the search for it begins.
    fn first_place(&self, name: &[u8]) -> usize {
        let (Some(first), Some(last)) = (name.first(), name.last()) else { return 0 };
        let middle = name[name.len() / 2];
        let mixed = (name.len() as u32) << 24 ^ u32::from(*first) << 16 ^ u32::from(middle) << 8 ^ u32::from(*last);
        (mixed.wrapping_mul(self.factor) >> self.shift) as usize
    }

    /// The index of the field with this name; `None` if there is none.
    fn find(&self, name: &[u8], fields: &[MessageField]) -> Option<usize> {
        let mut place = self.first_place(name);
        loop {
            // Some entries are always free.
            let field = *self.places.get(place)?;
            if field == NO_FIELD {
                return None;
            }
            if fields[usize::from(field)].name.as_bytes() == name {
                return Some(usize::from(field));
            }
            place = (place + 1) % self.places.len();
        }
    }
}

/// The lines that apply to one minor version. Each line has one of these forms:
///
/// - `minors RANGES`, the minor versions that the text covers, such as `32-37`
/// - `kind API-VERSION KIND MESSAGE`
/// - `message NAME FORM`, followed by its fields
/// - `NUMBER NAME MODE TYPE`, a field; `-` is the name of a field that JSON does not have, and `string` may be omitted
///
/// ` @RANGES` at the end of a line restricts it to these minor versions.
struct Lines<'x> {
    /// The number of the line, apiVersion, kind, and the name of the message.
    kinds: Vec<(usize, &'x str, &'x str, &'x str)>,
    messages: Vec<MessageLine<'x>>,
    /// The index in `messages` of each message, by name.
    ids: HashMap<&'x str, MessageId>,
}

/// A message in the text, with its fields.
struct MessageLine<'x> {
    /// The number of the line, from 1.
    line: usize,
    form: JsonForm,
    fields: Vec<FieldLine<'x>>,
}

/// A line of the text with a field.
struct FieldLine<'x> {
    /// The number of the line, from 1.
    line: usize,
    /// The number of the field.
    number: u32,
    /// The name in JSON, or `-`.
    name: &'x str,
    /// The text of its [`Mode`].
    mode: &'x str,
    /// The type of its values: a scalar or the name of a message. Empty for `string`.
    of: &'x str,
}

/// The error for the line with this number, from 1.
fn malformed(line: usize, problem: impl Into<String>) -> NoTable {
    NoTable::Malformed { line, problem: problem.into() }
}

impl<'x> Lines<'x> {
    /// Parses the lines that apply to this minor version. An error for a line that cannot be read, and for a version
    /// that the text does not cover.
    fn read(text: &'x str, minor: u32) -> Result<Lines<'x>, NoTable> {
        let mut lines = Lines { kinds: Vec::new(), messages: Vec::new(), ids: HashMap::new() };
        let mut is_message_known = false;
        for (place, line) in text.lines().enumerate() {
            let place = place + 1;
            let (rest, known) = match line.rsplit_once(" @") {
                Some((rest, minors)) => {
                    (rest, has(minors, minor).ok_or_else(|| malformed(place, "a bad minor version"))?)
                }
                None => (line, true),
            };
            let words: Vec<&str> = rest.split(' ').collect();
            match *words {
                ["minors", minors] => {
                    if has(minors, minor) != Some(true) {
                        return Err(NoTable::UnknownMinor(minor));
                    }
                }
                ["kind", api_version, kind, message] if known => lines.kinds.push((place, api_version, kind, message)),
                ["kind", _, _, _] => {}
                ["message", name, form] => {
                    is_message_known = known;
                    if known {
                        let form = form_of(form).ok_or_else(|| malformed(place, "an unknown form"))?;
                        lines.ids.insert(name, lines.messages.len() as MessageId);
                        lines.messages.push(MessageLine { line: place, form, fields: Vec::new() });
                    }
                }
                [number, name, mode, ref of @ ..] if known && is_message_known => {
                    let number = number.parse().map_err(|_| malformed(place, "a bad number of a field"))?;
                    let of = of.first().copied().unwrap_or_default();
                    let message = lines.messages.last_mut().ok_or_else(|| malformed(place, "a field of no message"))?;
                    message.fields.push(FieldLine { line: place, number, name, mode, of });
                }
                [_, _, _, ..] => {}
                _ => return Err(malformed(place, "too few words")),
            }
        }
        Ok(lines)
    }

    /// The id of a message that the line with the number `line` names; an error if the text has no such message.
    fn id(&self, name: &str, line: usize) -> Result<MessageId, NoTable> {
        self.ids.get(name).copied().ok_or_else(|| malformed(line, format!("there is no message {name}")))
    }
}

/// Whether ranges such as `32-34,36` contain a minor version; `None` when they are invalid.
fn has(ranges: &str, minor: u32) -> Option<bool> {
    let mut found = false;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        found |= (first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?).contains(&minor);
    }
    Some(found)
}

/// The JSON form that the text calls so; `None` for an unknown name.
fn form_of(name: &str) -> Option<JsonForm> {
    Some(match name {
        "object" => JsonForm::Object,
        "list" => JsonForm::List,
        "schemaorlist" => JsonForm::SchemaOrList,
        "schemaorbool" => JsonForm::SchemaOrBool,
        "raw" => JsonForm::Raw,
        "time" => JsonForm::Time,
        "microtime" => JsonForm::MicroTime,
        "quantity" => JsonForm::Quantity,
        "intorstring" => JsonForm::IntOrString,
        _ => return None,
    })
}

/// The maximum nesting of messages that are always written. A message that always contains itself would have no end.
const MOST_ALWAYS: usize = 32;

/// Compiles the lines of a table into messages.
struct Builder<'l, 'x> {
    lines: &'l Lines<'x>,
    /// For each message, its encoding when it is empty, once that was computed.
    defaults: Vec<Option<Vec<u8>>>,
}

impl Builder<'_, '_> {
    /// Compiles a message.
    fn message(&mut self, id: usize) -> Result<MessageType, NoTable> {
        let form = self.lines.messages[id].form;
        let mut message = MessageType {
            form,
            fields: Vec::new(),
            parts: vec![MessagePart { around: 0, tag_length: 0, base: 0 }],
            empty: Box::default(),
            names: Names::default(),
            followers: Box::default(),
        };
        self.fields(id, 0, &mut message, 0)?;
        for field in &message.fields {
            if !matches!(field.mode, Mode::Opens(_)) {
                message.parts[usize::from(field.part)].base += field.absent.len() as u32;
            }
        }
        let parts = message.parts.iter().map(|part| Slot { place: 0, length: part.base });
        message.empty = parts.chain(message.fields.iter().map(|_| Slot::ABSENT)).collect();
        message.names = Names::from_fields(&message.fields);
        message.followers = (0..=message.fields.len()).map(|_| AtomicU16::new(NO_FIELD)).collect();
        Ok(message)
    }

    /// Appends the fields of the message `id` to `message`, with those of inline messages. They belong to the part
    /// `part`. `depth` is the number of inline messages around them.
    fn fields(&mut self, id: usize, part: u16, message: &mut MessageType, depth: usize) -> Result<(), NoTable> {
        let lines = self.lines;
        let source = &lines.messages[id];
        if depth > MOST_ALWAYS {
            return Err(malformed(source.line, "a message that holds itself"));
        }
        for line in &source.fields {
            let name = if line.name == "-" { "" } else { line.name };
            // An outer member takes precedence over an inner one of the same name, as in Go.
            let name = if message.fields.iter().any(|field| &*field.name == name) { "" } else { name };
            let (value, tag) = self.value(line)?;
            let mut absent = Vec::new();
            let mode = match line.mode {
                "one" => {
                    self.absent(line, depth, &mut absent)?;
                    Mode::One
                }
                "opt" => Mode::Optional,
                "many" => Mode::Many,
                "map" => Mode::Map,
                "skip" => Mode::Skipped,
                "inline" => {
                    let inner = message.parts.len() as u16;
                    message.parts.push(MessagePart { around: part, tag_length: tag.len() as u8, base: 0 });
                    Mode::Opens(inner)
                }
                _ => return Err(malformed(line.line, "an unknown mode")),
            };
            // Each member of a map is a message, whatever the type of its value.
            let tag = if mode == Mode::Map { Tag::bytes(line.number) } else { tag };
            let key = format!("\"{name}\":").into_bytes().into_boxed_slice();
            let absent = absent.into_boxed_slice();
            message.fields.push(MessageField { name: name.into(), key, tag, mode, value, part, absent });
            if let (Mode::Opens(inner), Value::Message(inner_id)) = (mode, value) {
                self.fields(inner_id as usize, inner, message, depth + 1)?;
            }
        }
        Ok(())
    }

    /// The type of a field, and its tag.
    fn value(&self, line: &FieldLine<'_>) -> Result<(Value, Tag), NoTable> {
        let number = line.number;
        Ok(match line.of {
            "string" | "" => (Value::Text, Tag::bytes(number)),
            "bytes" => (Value::Bytes, Tag::bytes(number)),
            "bool" => (Value::Flag, Tag::varint(number)),
            "int32" => (Value::Int32, Tag::varint(number)),
            "int64" => (Value::Int64, Tag::varint(number)),
            "double" => (Value::Double, Tag::fixed64(number)),
            name => {
                let id = self.lines.id(name, line.line)?;
                let value = match self.lines.messages[id as usize].form {
                    JsonForm::Raw => Value::Raw,
                    form @ (JsonForm::Time | JsonForm::MicroTime | JsonForm::Quantity | JsonForm::IntOrString) => {
                        Value::Opaque(form)
                    }
                    JsonForm::Object | JsonForm::List | JsonForm::SchemaOrList | JsonForm::SchemaOrBool => {
                        Value::Message(id)
                    }
                };
                (value, Tag::bytes(number))
            }
        })
    }

    /// Appends the encoding of a field that is always written, for JSON that does not have it. `depth` is the number of
    /// messages around it.
    fn absent(&mut self, line: &FieldLine<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), NoTable> {
        let (_, tag) = self.value(line)?;
        tag.push(out);
        match line.of {
            "double" => out.extend_from_slice(&[0; 8]),
            "string" | "bytes" | "bool" | "int32" | "int64" => out.push(0),
            name => {
                let id = self.lines.id(name, line.line)?;
                let inside = self.default(id as usize, depth + 1)?;
                push_varint(inside.len() as u64, out);
                out.extend_from_slice(&inside);
            }
        }
        Ok(())
    }

    /// The encoding of a message without fields, which Go writes for a field that is not a pointer. `depth` is the
    /// number of messages around it.
    fn default(&mut self, id: usize, depth: usize) -> Result<Vec<u8>, NoTable> {
        if let Some(known) = &self.defaults[id] {
            return Ok(known.clone());
        }
        let lines = self.lines;
        let source = &lines.messages[id];
        if depth > MOST_ALWAYS {
            return Err(malformed(source.line, "a message that holds itself"));
        }
        let mut out = opaque_zero(source.form).to_vec();
        for line in &source.fields {
            if line.mode == "one" || line.mode == "inline" {
                self.absent(line, depth, &mut out)?;
            }
        }
        self.defaults[id] = Some(out.clone());
        Ok(out)
    }
}

/// The bytes that upstream writes for the zero value of a message with this JSON form, without tag and length.
pub(super) fn opaque_zero(form: JsonForm) -> &'static [u8] {
    match form {
        // Field 1, a text of one byte: "0".
        JsonForm::Quantity => b"\x0a\x010",
        // Field 1, the type: 0 for a number. Field 2, the number: 0. Field 3, the text: empty.
        JsonForm::IntOrString => b"\x08\0\x10\0\x1a\0",
        JsonForm::Time | JsonForm::MicroTime | JsonForm::Raw => b"",
        JsonForm::Object | JsonForm::List | JsonForm::SchemaOrList | JsonForm::SchemaOrBool => b"",
    }
}
