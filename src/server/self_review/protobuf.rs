//! Decodes a body in protobuf to JSON. client-go sends these kinds in protobuf by default.
//!
//! The envelope is that of apimachinery `runtime/serializer/protobuf`; the numbers are those of `generated.proto` of
//! the groups authentication.k8s.io and authorization.k8s.io. Fields with other numbers are skipped, as protobuf
//! requires.

use serde_json::{Map, Value, json};

/// The media type of protobuf.
pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The bytes with which a body in protobuf begins.
const MAGIC: &[u8] = b"k8s\0";

/// The fields of a message: number, name and type of each.
pub(super) type MessageFields = &'static [(u64, &'static str, FieldType)];

/// The type of a field.
#[derive(Clone, Copy)]
pub(super) enum FieldType {
    /// A string.
    Text,
    /// A list of strings.
    Texts,
    /// A message.
    One(MessageFields),
    /// A list of messages.
    Several(MessageFields),
}

const OBJECT_META: MessageFields = &[
    (1, "name", FieldType::Text),
    (2, "generateName", FieldType::Text),
    (3, "namespace", FieldType::Text),
    (5, "uid", FieldType::Text),
    (6, "resourceVersion", FieldType::Text),
];
const REQUIREMENT: MessageFields =
    &[(1, "key", FieldType::Text), (2, "operator", FieldType::Text), (3, "values", FieldType::Texts)];
const SELECTOR: MessageFields =
    &[(1, "rawSelector", FieldType::Text), (2, "requirements", FieldType::Several(REQUIREMENT))];
const RESOURCE: MessageFields = &[
    (1, "namespace", FieldType::Text),
    (2, "verb", FieldType::Text),
    (3, "group", FieldType::Text),
    (4, "version", FieldType::Text),
    (5, "resource", FieldType::Text),
    (6, "subresource", FieldType::Text),
    (7, "name", FieldType::Text),
    (8, "fieldSelector", FieldType::One(SELECTOR)),
    (9, "labelSelector", FieldType::One(SELECTOR)),
];
const PATH: MessageFields = &[(1, "path", FieldType::Text), (2, "verb", FieldType::Text)];
const ACCESS_SPEC: MessageFields =
    &[(1, "resourceAttributes", FieldType::One(RESOURCE)), (2, "nonResourceAttributes", FieldType::One(PATH))];
const RULES_SPEC: MessageFields = &[(1, "namespace", FieldType::Text)];

/// SelfSubjectReview.
pub(super) const USER: MessageFields = &[(1, "metadata", FieldType::One(OBJECT_META))];
/// SelfSubjectAccessReview.
pub(super) const ACCESS: MessageFields =
    &[(1, "metadata", FieldType::One(OBJECT_META)), (2, "spec", FieldType::One(ACCESS_SPEC))];
/// SelfSubjectRulesReview.
pub(super) const RULES: MessageFields =
    &[(1, "metadata", FieldType::One(OBJECT_META)), (2, "spec", FieldType::One(RULES_SPEC))];

/// Decodes a body to a JSON object. `message` describes the object in the envelope.
///
/// # Errors
/// What is wrong with the body.
pub(super) fn document(bytes: &[u8], message: MessageFields) -> Result<Value, String> {
    let envelope =
        bytes.strip_prefix(MAGIC).ok_or("the body does not begin with \"k8s\\0\", as protobuf of Kubernetes does")?;
    let (mut head, mut raw) = (Map::new(), &[][..]);
    for field in Fields(envelope) {
        match field? {
            (1, Content::Bytes(bytes)) => {
                head = read(bytes, &[(1, "apiVersion", FieldType::Text), (2, "kind", FieldType::Text)])?;
            }
            (2, Content::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let mut document = read(raw, message)?;
    document.extend(head);
    Ok(Value::Object(document))
}

/// Decodes a message to a JSON object. `message` describes it, and bounds the depth of the recursion.
fn read(bytes: &[u8], message: MessageFields) -> Result<Map<String, Value>, String> {
    let mut members = Map::new();
    for field in Fields(bytes) {
        let (number, content) = field?;
        let Some((_, name, kind)) = message.iter().find(|(known, _, _)| *known == number) else { continue };
        let Content::Bytes(bytes) = content else { return Err(format!("{name}: expected bytes")) };
        let text = || std::str::from_utf8(bytes).map_err(|_| format!("{name}: it is not UTF-8"));
        match kind {
            // An empty string is left out, as in the JSON of these kinds.
            FieldType::Text if bytes.is_empty() => {}
            FieldType::Text => {
                members.insert((*name).to_owned(), json!(text()?));
            }
            FieldType::One(message) => {
                members.insert((*name).to_owned(), Value::Object(read(bytes, message)?));
            }
            FieldType::Texts => push(&mut members, name, json!(text()?)),
            FieldType::Several(message) => push(&mut members, name, Value::Object(read(bytes, message)?)),
        }
    }
    Ok(members)
}

/// Appends a value to the list in the field `name`, which is created if it is missing.
fn push(members: &mut Map<String, Value>, name: &str, value: Value) {
    if let Value::Array(values) = members.entry(name).or_insert_with(|| json!([])) {
        values.push(value);
    }
}

/// The content of a field.
enum Content<'b> {
    /// A number. Its value is not decoded, because no known field is one.
    Number,
    /// A string or a message.
    Bytes(&'b [u8]),
}

/// The fields of a message, in their order.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    /// Reads a varint; `None` if the bytes end in it, or it is too long.
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads this number of bytes; `None` if there are fewer.
    fn take(&mut self, length: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads the number and the content of a field; `None` if it is invalid.
    fn field(&mut self) -> Option<(u64, Content<'b>)> {
        let tag = self.varint()?;
        let content = match tag & 7 {
            0 => self.varint().map(|_| Content::Number)?,
            1 => self.take(8).map(|_| Content::Number)?,
            2 => {
                let length = self.varint()?;
                Content::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Content::Number)?,
            _ => return None,
        };
        Some((tag >> 3, content))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Content<'b>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field =
            self.field().ok_or_else(|| "the protobuf message ends early or has an unknown wire type".to_owned());
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}
