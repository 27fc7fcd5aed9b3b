//! Reading an object's JSON along the table, once: every value is found, and the length of every message is counted.
//!
//! The result is on the tape of [`super::tape`].
//!
//! Reading recurses once for each message in a message, at most [`MOST_NESTED`] times. Other values are skipped by the
//! cursor, which does not recurse.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::memo::{FieldPosition, Known, Memo};
use super::quantity;
use super::table::{FieldKind, JsonForm, MessageField, MessageId, MessageTable, MessageType, Mode, Value, opaque_zero};
use super::tape::{Buffers, Slot, TapeNode};
use super::wire::{delimited_length, push_field, push_varint};
use super::write::MessageWriter;
use crate::json::cursor::{Cursor, RawString};
use crate::json::{SyntaxError, unescape};
use crate::model::moment;

/// The maximum nesting of messages. Only schemas nest without a bound; usual ones have some twenty levels.
const MOST_NESTED: usize = 256;

/// The maximum number of slots of an object, which take 64 MiB. An object of 1.5 MiB, the maximum of etcd, has far
/// fewer.
const MOST_SLOTS: usize = 8 << 20;

/// The maximum length of an object's JSON, in bytes. Its encoding is at most four times as long, such as that of a
/// negative number.
const MOST_JSON: usize = 256 << 20;

/// Why an object has no protobuf form, or none in this table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be encoded as protobuf: {reason}", if path.is_empty() { "the object" } else { path })]
pub struct Unencodable {
    /// The field: names joined by dots, as in `spec.containers[0].image`. Empty for the whole object.
    pub path: String,
    /// The reason.
    pub reason: EncodeErrorReason,
}

/// Why something cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeErrorReason {
    /// The message has no such field in this version.
    #[error("unknown field in this Kubernetes version")]
    UnknownField,
    /// A value of another type than the field has. The text names that type with its article.
    #[error("it must be {0}")]
    NotA(&'static str),
    /// A member that occurs twice.
    #[error("the field occurs more than once")]
    Repeated,
    /// Nested too deep.
    #[error("it is nested deeper than {MOST_NESTED} messages")]
    TooDeep,
    /// Too large.
    #[error("it is too large")]
    TooLarge,
    /// The bytes are not JSON.
    #[error("expected {expected} at byte {offset}")]
    NotJson {
        /// The position in the JSON.
        offset: usize,
        /// What was expected there.
        expected: &'static str,
    },
}

/// Errors are rare. With the error in a box, the result fits two registers.
type Read<T> = Result<T, Box<Unencodable>>;

impl Unencodable {
    #[cold]
    fn new(reason: EncodeErrorReason) -> Box<Unencodable> {
        Box::new(Unencodable { path: String::new(), reason })
    }

    /// The error with the name of a parent, or `[index]`, before its path.
    #[cold]
    fn under(mut self: Box<Unencodable>, name: &str) -> Box<Unencodable> {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path.insert_str(0, separator);
        self.path.insert_str(0, name);
        self
    }
}

impl From<SyntaxError> for Box<Unencodable> {
    fn from(error: SyntaxError) -> Box<Unencodable> {
        Unencodable::new(EncodeErrorReason::NotJson { offset: error.offset, expected: error.expected })
    }
}

/// The text of a JSON string; an error if its escapes are invalid.
fn unescaped<'t>(text: &RawString<'t>) -> Read<Cow<'t, str>> {
    unescape(text.raw).ok_or_else(|| not_a("a string with valid escapes"))
}

/// The error for a value of another type.
fn not_a(expected: &'static str) -> Box<Unencodable> {
    Unencodable::new(EncodeErrorReason::NotA(expected))
}

/// Reads an object as a message of this kind into the buffers, and returns the root of the tape. Takes fields from the
/// memo, and stores them there.
///
/// # Errors
/// See [`super::Encoder::read`].
pub(super) fn read(
    buffers: &mut Buffers,
    memo: &mut Memo,
    kind: FieldKind<'_>,
    json: &[u8],
) -> Result<TapeNode, Unencodable> {
    read_boxed(buffers, memo, kind, json).map_err(|error| *error)
}

/// Like [`read`], with the error in a box.
fn read_boxed(buffers: &mut Buffers, memo: &mut Memo, kind: FieldKind<'_>, json: &[u8]) -> Read<TapeNode> {
    if json.len() > MOST_JSON {
        return Err(Unencodable::new(EncodeErrorReason::TooLarge));
    }
    let mut reader = Reader {
        table: kind.table,
        json,
        cursor: Cursor::new(json),
        // Most objects are ASCII, which is seen several times as fast.
        is_utf8: json.is_ascii() || std::str::from_utf8(json).is_ok(),
        // Data that is used for each value is not behind a pointer.
        buffers: std::mem::take(buffers),
        memo,
        depth: 0,
        item: 0,
    };
    reader.memo.begin(kind.table.minor);
    let root = reader.root(kind);
    *buffers = reader.buffers;
    root.map(|root| TapeNode { message: kind.message, place: root.place, length: root.length })
}

/// Reads one object.
struct Reader<'r> {
    table: &'r MessageTable,
    json: &'r [u8],
    cursor: Cursor<'r>,
    /// Whether all of the JSON is UTF-8; otherwise each string is checked.
    is_utf8: bool,
    buffers: Buffers,
    memo: &'r mut Memo,
    /// The number of messages around the current position.
    depth: usize,
    /// The index of the innermost item of a list that is being read; 0 outside of lists.
    item: u32,
}

impl<'r> Reader<'r> {
    /// Reads the whole object; returns the slot of its message.
    fn root(&mut self, kind: FieldKind<'_>) -> Read<Slot> {
        self.cursor.space();
        let root = self.message(kind.message, kind.is_excerpt)?;
        self.cursor.space();
        if self.cursor.peek().is_some() {
            return Err(self.cursor.error("the end of the object").into());
        }
        Ok(root)
    }

    /// Reads a message in its JSON form; returns its slot. `is_excerpt`: skips unknown fields instead of returning an
    /// error.
    fn message(&mut self, id: MessageId, is_excerpt: bool) -> Read<Slot> {
        if self.depth >= MOST_NESTED {
            return Err(Unencodable::new(EncodeErrorReason::TooDeep));
        }
        self.depth += 1;
        let table = self.table;
        let message = &table.messages[id as usize];
        let found = match (message.form, self.cursor.peek()) {
            (JsonForm::Object, _) => self.object(id, message, is_excerpt),
            (JsonForm::List, _) | (JsonForm::SchemaOrList, Some(b'[')) => {
                self.only(message, if message.form == JsonForm::List { 0 } else { 1 }, None)
            }
            (JsonForm::SchemaOrList, Some(b'{')) => self.only(message, 0, None),
            (JsonForm::SchemaOrBool, Some(b'{')) => self.only(message, 1, Some(true)),
            (JsonForm::SchemaOrBool, Some(b't' | b'f')) => self.only(message, 0, None),
            (JsonForm::SchemaOrList, _) => Err(not_a("a schema or a list")),
            (JsonForm::SchemaOrBool, _) => Err(not_a("a schema or a boolean")),
            // These are no messages of their own for an encoder.
            (JsonForm::Raw | JsonForm::Time | JsonForm::MicroTime | JsonForm::Quantity | JsonForm::IntOrString, _) => {
                Err(not_a("an object"))
            }
        };
        self.depth -= 1;
        found
    }

    /// Adds the slots of a message to the tape, with all fields absent. Returns where they begin.
    fn open(&mut self, message: &MessageType) -> Read<usize> {
        let node = self.buffers.tape.len();
        if node + message.empty.len() > MOST_SLOTS {
            return Err(Unencodable::new(EncodeErrorReason::TooLarge));
        }
        self.buffers.tape.extend_from_slice(&message.empty);
        Ok(node)
    }

    /// Stores a field of the message whose slots begin at `node`. `place` is the index of the field, and `length` the
    /// length of its encoding with its tags.
    fn set(&mut self, message: &MessageType, node: usize, place: usize, slot: Slot, length: usize) -> Read<()> {
        let field = &message.fields[place];
        self.buffers.tape[node + message.parts.len() + place] = slot;
        let part = &mut self.buffers.tape[node + usize::from(field.part)];
        // The length of the part began with all fields absent.
        let sum = part.length as usize - field.absent.len() + length;
        part.length = u32::try_from(sum).map_err(|_| Unencodable::new(EncodeErrorReason::TooLarge))?;
        Ok(())
    }

    /// Adds the lengths of embedded messages to those around them, and returns the slot of the whole message.
    fn close(&mut self, message: &MessageType, node: usize) -> Read<Slot> {
        let lengths = &mut self.buffers.tape[node..node + message.parts.len()];
        // An inner part comes after the part around it, so its length is complete first.
        for place in (1..message.parts.len()).rev() {
            let part = message.parts[place];
            let inner = usize::from(part.tag_length) + delimited_length(lengths[place].length as usize);
            let sum = lengths[usize::from(part.around)].length as usize + inner;
            lengths[usize::from(part.around)].length =
                u32::try_from(sum).map_err(|_| Unencodable::new(EncodeErrorReason::TooLarge))?;
        }
        Ok(Slot { place: node as u32, length: lengths[0].length })
    }

    /// Reads a message whose JSON is an object; returns its slot. `is_excerpt`: skips unknown fields.
    fn object(&mut self, id: MessageId, message: &MessageType, is_excerpt: bool) -> Read<Slot> {
        if self.cursor.peek() != Some(b'{') {
            return Err(not_a("an object"));
        }
        self.cursor.advance();
        let node = self.open(message)?;
        let (mut is_first, mut previous) = (true, None);
        while !self.cursor.skip_closing(b'}') {
            if !std::mem::take(&mut is_first) {
                self.cursor.expect(b',', "a comma or the end of an object")?;
                self.cursor.space();
            }
            // Compares with the key of the field that usually comes here, before it is looked up.
            let expected = message.expected(previous).filter(|(_, field)| self.cursor.skip_if_next(&field.key));
            let place = if let Some((place, _)) = expected {
                self.cursor.space();
                place
            } else {
                let key = self.key()?;
                let found = if key.is_escaped || !self.is_utf8 {
                    unescape(key.raw).and_then(|key| message.find(key.as_bytes()))
                } else {
                    message.find(key.raw)
                };
                let Some(place) = found else {
                    if !is_excerpt {
                        return Err(
                            Unencodable::new(EncodeErrorReason::UnknownField).under(&String::from_utf8_lossy(key.raw))
                        );
                    }
                    self.cursor.skip_value(self.depth)?;
                    continue;
                };
                message.expect(previous, place);
                place
            };
            previous = Some(place);
            let field = &message.fields[place];
            if field.mode == Mode::Skipped || self.is_null() {
                self.cursor.skip_value(self.depth)?;
                continue;
            }
            if !self.buffers.tape[node + message.parts.len() + place].is_absent() {
                return Err(Unencodable::new(EncodeErrorReason::Repeated).under(&field.name));
            }
            let position = FieldPosition { message: id, field: place as u32, item: self.item };
            let (slot, length) = self.known_or_read(position, field).map_err(|error| error.under(&field.name))?;
            if !slot.is_absent() {
                self.set(message, node, place, slot, length)?;
            }
        }
        self.close(message, node)
    }

    /// Reads a message whose JSON is the value of only one of its fields; `place` is the index of that field.
    /// `Some(true)` as `flag` also sets the first field, a boolean, to true.
    fn only(&mut self, message: &MessageType, place: usize, flag: Option<bool>) -> Read<Slot> {
        let node = self.open(message)?;
        if flag == Some(true) {
            let slot = self.number(1)?;
            let length = message.fields[0].tag.len() + slot.length as usize;
            self.set(message, node, 0, slot, length)?;
        }
        let Some(field) = message.fields.get(place) else { return Err(not_a("a value of a known type")) };
        let (slot, length) = self.field(field)?;
        if !slot.is_absent() {
            self.set(message, node, place, slot, length)?;
        }
        self.close(message, node)
    }

    /// Reads the name of a member and the colon after it, up to the value.
    fn key(&mut self) -> Read<RawString<'r>> {
        let key = self.cursor.string("a key")?;
        self.cursor.space();
        self.cursor.expect(b':', "a colon")?;
        self.cursor.space();
        Ok(key)
    }

    /// Whether the value at the cursor is null: no other value begins with `n`.
    fn is_null(&self) -> bool {
        self.cursor.peek() == Some(b'n')
    }

    /// Takes a field from the memo, or reads it. Returns its slot and the length of its encoding with its tags.
    fn known_or_read(&mut self, position: FieldPosition, field: &MessageField) -> Read<(Slot, usize)> {
        // The memo only has objects and lists: their brackets show where they end.
        if !matches!(self.cursor.peek(), Some(b'{' | b'[')) {
            return self.field(field);
        }
        let start = self.cursor.position();
        let known = match self.memo.find(position, &self.json[start..]) {
            Known::Encoded { entry, json, length } => {
                self.cursor.step(json);
                return Ok((Slot::in_memo(entry, length), length));
            }
            known @ (Known::Seen(_) | Known::New(_) | Known::Nothing) => known,
        };
        let found = self.field(field)?;
        let json = &self.json[start..self.cursor.position()];
        match known {
            Known::New(entry) => self.memo.insert(entry, position, json),
            Known::Seen(entry) => {
                let (table, json_of_object, buffers) = (self.table, self.json, &self.buffers);
                self.memo.encode(entry, position, json, |memo, out| {
                    MessageWriter { table, json: json_of_object, buffers, memo }.field(field, found.0, out);
                });
            }
            Known::Encoded { .. } | Known::Nothing => {}
        }
        Ok(found)
    }

    /// Reads a field; returns its slot and the length of its encoding with its tags.
    fn field(&mut self, field: &MessageField) -> Read<(Slot, usize)> {
        match field.mode {
            Mode::One | Mode::Optional => {
                let slot = self.value(field.value)?;
                Ok((slot, field.tag.len() + written_length(field.value, slot)))
            }
            Mode::Many => self.list(field),
            Mode::Map => self.map(field),
            Mode::Skipped | Mode::Opens(_) => Ok((Slot::ABSENT, 0)),
        }
    }

    /// Reads the list of `field`. Each item has two slots on the tape: a link, with the place of the next item; and the
    /// value. Returns a slot with the place of the first link, and the length of the field's encoding with its tags.
    /// The place is 0 if the list is empty.
    fn list(&mut self, field: &MessageField) -> Read<(Slot, usize)> {
        if self.cursor.peek() != Some(b'[') {
            return Err(not_a("a list"));
        }
        self.cursor.advance();
        let (mut first, mut last, mut sum, mut count) = (0, 0, 0, 0);
        while !self.cursor.skip_closing(b']') {
            if count > 0 {
                self.cursor.expect(b',', "a comma or the end of a list")?;
                self.cursor.space();
            }
            let link = self.link(2)?;
            let around = std::mem::replace(&mut self.item, count);
            let item = self.value_or_zero(field.value).map_err(|error| error.under(&format!("[{count}]")))?;
            self.item = around;
            self.buffers.tape[link + 1] = item;
            if count == 0 {
                first = link as u32;
            } else {
                self.buffers.tape[last].place = link as u32;
            }
            last = link;
            sum += field.tag.len() + written_length(field.value, item);
            count += 1;
        }
        Ok((Slot { place: first, length: 0 }, sum))
    }

    /// Reads the map of `field`, and sorts its members by key. Each member has three slots on the tape: a link, with
    /// the place of the next member and the length of this one's encoding; the key; and the value. Returns a slot with
    /// the place of the first link (0 if the map is empty), and the length of the field's encoding with its tags.
    fn map(&mut self, field: &MessageField) -> Read<(Slot, usize)> {
        if self.cursor.peek() != Some(b'{') {
            return Err(not_a("an object"));
        }
        self.cursor.advance();
        let start = self.buffers.members.len();
        let (mut sum, mut is_sorted, mut last) = (0, true, Slot::ABSENT);
        while !self.cursor.skip_closing(b'}') {
            if self.buffers.members.len() > start {
                self.cursor.expect(b',', "a comma or the end of an object")?;
                self.cursor.space();
            }
            let key = self.key()?;
            let name = self.string_slot(&key)?;
            let link = self.link(3)?;
            // Upstream writes such a member without a value, because null is a nil slice. Other nulls are zero values.
            let is_bytes_null = field.value == Value::Bytes && self.is_null();
            let value = if is_bytes_null {
                self.cursor.skip_value(self.depth)?;
                Slot::ABSENT
            } else {
                self.value_or_zero(field.value)
                    .map_err(|error| error.under(&format!("[{}]", String::from_utf8_lossy(key.raw))))?
            };
            let mut length = 1 + written_length(Value::Text, name);
            if !value.is_absent() {
                length += 1 + written_length(field.value, value);
            }
            let entry = u32::try_from(length).map_err(|_| Unencodable::new(EncodeErrorReason::TooLarge))?;
            self.buffers.tape[link] = Slot { place: 0, length: entry };
            self.buffers.tape[link + 1] = name;
            self.buffers.tape[link + 2] = value;
            if self.buffers.members.len() > start {
                is_sorted &= self.buffers.bytes(last, self.json) < self.buffers.bytes(name, self.json);
            }
            last = name;
            self.buffers.members.push(link as u32);
            sum += field.tag.len() + delimited_length(length);
        }
        let mut members = std::mem::take(&mut self.buffers.members);
        let of_map = &mut members[start..];
        if !is_sorted {
            let name = |link: &u32| self.buffers.bytes(self.buffers.slots(*link, 2)[1], self.json);
            // Keys that are not UTF-8 differ in kube-apiserver, and can be equal in its JSON. All are written, in their
            // order: readers take the last one, as those of JSON do.
            of_map.sort_by(|left, right| name(left).cmp(name(right)));
        }
        for pair in of_map.windows(2) {
            self.buffers.tape[pair[0] as usize].place = pair[1];
        }
        let first = of_map.first().copied().unwrap_or_default();
        members.truncate(start);
        self.buffers.members = members;
        Ok((Slot { place: first, length: 0 }, sum))
    }

    /// Adds `count` absent slots for an item or a member to the tape, and returns where they begin.
    fn link(&mut self, count: usize) -> Read<usize> {
        let link = self.buffers.tape.len();
        if link + count > MOST_SLOTS {
            return Err(Unencodable::new(EncodeErrorReason::TooLarge));
        }
        self.buffers.tape.resize(link + count, Slot::ABSENT);
        Ok(link)
    }

    /// Reads an item of a list or a member of a map; null is the zero value. Returns the slot of the value.
    fn value_or_zero(&mut self, value: Value) -> Read<Slot> {
        if !self.is_null() {
            return self.value(value);
        }
        self.cursor.skip_value(self.depth)?;
        match value {
            Value::Flag | Value::Int32 | Value::Int64 => self.number(0),
            Value::Double => self.texts(&[0; 8]),
            Value::Text | Value::Bytes | Value::Raw => self.texts(b""),
            Value::Opaque(form) => self.texts(opaque_zero(form)),
            Value::Message(id) => {
                let table = self.table;
                let message = &table.messages[id as usize];
                let node = self.open(message)?;
                self.close(message, node)
            }
        }
    }

    /// Reads a value of this type, which is not null. Returns its slot.
    fn value(&mut self, value: Value) -> Read<Slot> {
        match value {
            Value::Message(id) => self.message(id, false),
            Value::Text => {
                let text = self.string("a string")?;
                self.string_slot(&text)
            }
            Value::Flag => match self.token()? {
                b"true" => self.number(1),
                b"false" => self.number(0),
                _ => Err(not_a("a boolean")),
            },
            Value::Int32 => self.integer::<i32>("a 32-bit integer"),
            Value::Int64 => self.integer::<i64>("a 64-bit integer"),
            Value::Double => {
                let token = std::str::from_utf8(self.token()?).unwrap_or_default();
                let is_number = token.starts_with(|first: char| first == '-' || first.is_ascii_digit());
                let number: Option<f64> = token.parse().ok();
                let number =
                    number.filter(|number| is_number && number.is_finite()).ok_or_else(|| not_a("a number"))?;
                self.texts(&number.to_le_bytes())
            }
            Value::Bytes => {
                let text = self.string("a base64 string")?;
                let text = unescaped(&text)?;
                let start = self.buffers.texts.len();
                STANDARD.decode_vec(text.as_bytes(), &mut self.buffers.texts).map_err(|_| not_a("base64"))?;
                self.texts_from(start)
            }
            Value::Raw => {
                let start = self.cursor.position();
                self.cursor.skip_value(self.depth)?;
                Ok(Slot { place: start as u32, length: (self.cursor.position() - start) as u32 })
            }
            Value::Opaque(form) => self.opaque(form),
        }
    }

    /// Reads a value that has a JSON form of its own, such as a quantity or a time.
    fn opaque(&mut self, form: JsonForm) -> Read<Slot> {
        let start = self.buffers.texts.len();
        match form {
            JsonForm::Quantity => {
                // Upstream reads numbers too.
                let text = if self.cursor.peek() == Some(b'"') {
                    let text = self.string("a quantity")?;
                    unescaped(&text)?
                } else {
                    Cow::Borrowed(std::str::from_utf8(self.token()?).unwrap_or_default())
                };
                let text = quantity::canonical(&text).ok_or_else(|| not_a("a quantity"))?;
                push_field(1, text.as_bytes(), &mut self.buffers.texts);
            }
            JsonForm::IntOrString if self.cursor.peek() == Some(b'"') => {
                let text = self.string("a string")?;
                let text = unescaped(&text)?;
                // Type 1 (a string), and the number 0, which upstream writes too. The string follows.
                self.buffers.texts.extend_from_slice(b"\x08\x01\x10\0");
                push_field(3, text.as_bytes(), &mut self.buffers.texts);
            }
            JsonForm::IntOrString => {
                let number: i32 = self.parsed("a string or a 32-bit integer")?;
                // Type 0 (a number). The number follows, and then the empty string.
                self.buffers.texts.extend_from_slice(b"\x08\0\x10");
                push_varint(i64::from(number) as u64, &mut self.buffers.texts);
                self.buffers.texts.extend_from_slice(b"\x1a\0");
            }
            JsonForm::Time | JsonForm::MicroTime => {
                let text = self.string("a time")?;
                let text = unescaped(&text)?;
                // Falling back to JSON would not help: clients cannot read a year there that is not in the form of RFC
                // 3339.
                let moment = moment::seconds_of_any_year(&text);
                let moment = moment.ok_or_else(|| not_a("a time such as 2006-01-02T15:04:05Z"))?;
                // Go's zero time is an empty message. Others have seconds (field 1) and nanoseconds (field 2).
                if moment != (moment::SECONDS_OF_ZERO, 0) {
                    let (seconds, microseconds) = moment;
                    let nanoseconds = if form == JsonForm::MicroTime { u64::from(microseconds) * 1000 } else { 0 };
                    self.buffers.texts.push(0x08);
                    push_varint(seconds as u64, &mut self.buffers.texts);
                    self.buffers.texts.push(0x10);
                    push_varint(nanoseconds, &mut self.buffers.texts);
                }
            }
            // `table` makes no opaque values of these.
            JsonForm::Object | JsonForm::List | JsonForm::SchemaOrList | JsonForm::SchemaOrBool | JsonForm::Raw => {
                return Err(not_a("an object"));
            }
        }
        self.texts_from(start)
    }

    /// Reads a string, without unescaping it.
    fn string(&mut self, expected: &'static str) -> Read<RawString<'r>> {
        if self.cursor.peek() != Some(b'"') {
            return Err(not_a(expected));
        }
        Ok(self.cursor.string(expected)?)
    }

    /// The slot of the string that was just read: in the JSON if it is UTF-8 without escapes, otherwise unescaped in
    /// the buffer of texts.
    fn string_slot(&mut self, text: &RawString<'r>) -> Read<Slot> {
        if text.is_escaped || !self.is_utf8 {
            let text = unescaped(text)?;
            return self.texts(text.as_bytes());
        }
        Ok(Slot { place: text.start as u32, length: text.raw.len() as u32 })
    }

    /// Reads any JSON value and returns its bytes; used for numbers, `true` and `false`.
    fn token(&mut self) -> Read<&'r [u8]> {
        let start = self.cursor.position();
        self.cursor.skip_value(self.depth)?;
        Ok(&self.json[start..self.cursor.position()])
    }

    /// Reads a number. `expected` names the type in the error.
    fn parsed<N: std::str::FromStr>(&mut self, expected: &'static str) -> Read<N> {
        let token = std::str::from_utf8(self.token()?).unwrap_or_default();
        token.parse().map_err(|_| not_a(expected))
    }

    /// Reads an integer and stores it as a varint. `expected` names the type in the error.
    fn integer<N: std::str::FromStr + Into<i64>>(&mut self, expected: &'static str) -> Read<Slot> {
        let number: N = self.parsed(expected)?;
        let number: i64 = number.into();
        self.number(number as u64)
    }

    /// Stores a number as a varint in the buffer of texts.
    fn number(&mut self, number: u64) -> Read<Slot> {
        let start = self.buffers.texts.len();
        push_varint(number, &mut self.buffers.texts);
        self.texts_from(start)
    }

    /// Stores bytes in the buffer of texts.
    fn texts(&mut self, text: &[u8]) -> Read<Slot> {
        let start = self.buffers.texts.len();
        self.buffers.texts.extend_from_slice(text);
        self.texts_from(start)
    }

    /// The slot of the bytes that were stored in the buffer of texts from `start` on.
    fn texts_from(&self, start: usize) -> Read<Slot> {
        self.buffers.text_from(start).ok_or_else(|| Unencodable::new(EncodeErrorReason::TooLarge))
    }
}

/// The length of an encoded value, with its length prefix but without its tag.
fn written_length(value: Value, slot: Slot) -> usize {
    let length = slot.length as usize;
    match value {
        Value::Flag | Value::Int32 | Value::Int64 | Value::Double => length,
        Value::Text | Value::Bytes | Value::Opaque(_) | Value::Message(_) => delimited_length(length),
        // A message around the JSON in its field 1; without JSON, an empty message.
        Value::Raw if length == 0 => 1,
        Value::Raw => delimited_length(1 + delimited_length(length)),
    }
}
