//! Types of expressions, and the type of `self` out of a schema.
//!
//! [`CelType::of_resource`] reads the subset of OpenAPI that structural schemas have, as apiserver
//! `pkg/cel/common/schemas.go` (SchemaDeclType) does for validation rules. Values have the types that they are written
//! with, as in ValidatingAdmissionPolicies, so there are differences:
//!
//! - Strings with a format, such as `date-time`, are texts. Values of `number` are dynamic, because one can be written
//!   as an integer.
//! - Values without a type, or that can be null and are no object, are dynamic; upstream hides some of them.
//! - All of metadata is known here; upstream's rules see `name` and `generateName`.
//! - A member can be named as it is written, or with upstream's escapes, such as `__namespace__`.
//!
//! An expression of a few kilobytes can have types that share their parts, and that would be exponentially large if
//! they were written out. So the size of a type is bounded ([`MAX_SIZE`]), and objects are compared by a digest.
//! Comparing, joining and printing two types therefore takes a bounded number of steps.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use serde_json::Value as JsonValue;

/// The type of an expression. `PartialEq` also compares bounds of sizes; [`CelType::accepts`] does not.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum CelType {
    /// Any type: it is only known in the evaluation.
    Dyn,
    /// The type of `null`.
    Null,
    /// Booleans.
    Bool,
    /// Signed integers of 64 bits.
    Int,
    /// Unsigned integers of 64 bits.
    Uint,
    /// Floating-point numbers.
    Double,
    /// Strings, with bounds of their length in characters.
    Text {
        /// The maximum length: maxLength of the schema, or the length of the longest value of its enum. `None`: no
        /// bound.
        longest: Option<u64>,
        /// The minimum length: the larger one of minLength and the length of the shortest value of the enum.
        shortest: u64,
    },
    /// Bytes.
    Bytes,
    /// Points in time.
    Timestamp,
    /// Spans of time.
    Duration,
    /// Lists.
    List(Arc<ListType>),
    /// Maps.
    Map(Arc<MapType>),
    /// Objects with declared members.
    Object(Arc<ObjectType>),
    /// An optional value.
    Optional(Arc<OptionalType>),
    /// A type as a value.
    Type,
    /// A quantity of Kubernetes.
    Quantity,
    /// An IP address.
    Ip,
    /// A range of IP addresses.
    Cidr,
    /// A URL.
    Url,
    /// A semantic version.
    Semver,
    /// A named format.
    Format,
}

/// The type of a list. [`CelType::list`] makes it.
#[derive(Debug, PartialEq, Hash)]
pub struct ListType {
    /// The type of its elements.
    pub element: CelType,
    /// The maximum number of elements, such as maxItems of the schema; `None`: no bound.
    pub most: Option<u64>,
    /// See [`CelType::size`].
    size: usize,
}

/// The type of a map. [`CelType::map`] makes it.
#[derive(Debug, PartialEq, Hash)]
pub struct MapType {
    /// The type of its keys.
    pub key: CelType,
    /// The type of its values.
    pub value: CelType,
    /// The maximum number of entries, such as maxProperties of the schema; `None`: no bound.
    pub most: Option<u64>,
    /// See [`CelType::size`].
    size: usize,
}

/// The type of an optional value. [`CelType::optional`] makes it.
#[derive(Debug, PartialEq, Hash)]
pub struct OptionalType {
    /// The type of the content, if the optional value has one.
    pub of: CelType,
    /// See [`CelType::size`].
    size: usize,
}

/// The type of an object with declared members. Types with equal members are equal.
#[derive(Debug)]
pub struct ObjectType {
    /// The declared members by their JSON key.
    members: BTreeMap<String, Property>,
    /// Whether members that are not declared are dynamic. Otherwise naming one is an error.
    is_open: bool,
    /// A keyed hash of the other fields, for comparisons. Comparing the members themselves would take as long as
    /// reading the schema.
    digest: u64,
}

/// A declared member.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Property {
    /// Its type.
    pub kind: CelType,
    /// Whether the schema requires it.
    pub is_required: bool,
    /// Whether it can be null.
    pub is_nullable: bool,
}

/// The maximum depth of a schema that is read. Deeper values are dynamic.
const MAX_DEPTH: usize = 64;

/// The maximum number of types within a type, each counted as often as it occurs. A type with more is replaced by
/// [`CelType::Dyn`]. An object type counts as one, because comparing and printing do not walk through its members.
const MAX_SIZE: usize = 128;

static DYN: CelType = CelType::Dyn;

/// A list of any elements.
static DYN_LIST: LazyLock<CelType> = LazyLock::new(|| CelType::list(CelType::Dyn, None));

/// A map of strings to strings, as labels and annotations are.
static STRINGS: LazyLock<CelType> = LazyLock::new(|| CelType::map(CelType::TEXT, CelType::TEXT, None));

/// The key of the digests of object types.
static DIGESTS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl CelType {
    /// Any text.
    pub const TEXT: CelType = CelType::Text { longest: None, shortest: 0 };

    /// The type of the objects of a resource with this schema (openAPIV3Schema). `apiVersion`, `kind` and `metadata`
    /// have the types of Kubernetes, whatever the schema declares. Dynamic if the schema is not that of an object.
    /// Build the type once for each version of a resource: a schema may be a megabyte long.
    pub fn of_resource(schema: &JsonValue) -> CelType {
        match CelType::of_schema(schema, 0) {
            CelType::Object(object) => {
                let mut members = object.members.clone();
                let text = Property { kind: CelType::TEXT, is_required: true, is_nullable: false };
                members.insert("apiVersion".to_owned(), text.clone());
                members.insert("kind".to_owned(), text);
                members.insert("metadata".to_owned(), metadata());
                CelType::Object(Arc::new(ObjectType::new(members, object.is_open)))
            }
            _ => CelType::Dyn,
        }
    }

    /// The type of the values of a schema at a depth below the schema of the resource. Values that can be null are
    /// dynamic, except objects: the other types cannot be compared with null.
    fn of_schema(schema: &JsonValue, depth: usize) -> CelType {
        match CelType::of_values(schema, depth) {
            object @ CelType::Object(_) => object,
            kind if !schema["nullable"].as_bool().unwrap_or(false) => kind,
            _ => CelType::Dyn,
        }
    }

    /// Like [`CelType::of_schema`], without regard to null.
    fn of_values(schema: &JsonValue, depth: usize) -> CelType {
        let is = |keyword: &str| schema[keyword].as_bool().unwrap_or(false);
        let number = |keyword: &str| schema[keyword].as_u64();
        if depth >= MAX_DEPTH || is("x-kubernetes-int-or-string") {
            return CelType::Dyn;
        }
        if is("x-kubernetes-embedded-resource") {
            return CelType::Dyn;
        }
        match schema["type"].as_str().unwrap_or_default() {
            "boolean" => CelType::Bool,
            "integer" => CelType::Int,
            "string" => text_type(schema),
            "array" if schema["items"].is_object() => {
                CelType::list(CelType::of_schema(&schema["items"], depth + 1), number("maxItems"))
            }
            "array" => DYN_LIST.clone(),
            "object" if schema["additionalProperties"].is_object() => {
                let value = CelType::of_schema(&schema["additionalProperties"], depth + 1);
                CelType::map(CelType::TEXT, value, number("maxProperties"))
            }
            "object" => {
                let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty());
                let is_open = is("x-kubernetes-preserve-unknown-fields")
                    || schema["additionalProperties"].as_bool().unwrap_or(false);
                let Some(properties) = properties else {
                    // No member of an object without declared members could be named, so an open one is dynamic.
                    // Upstream hides some of these.
                    return if is_open {
                        CelType::Dyn
                    } else {
                        CelType::Object(Arc::new(ObjectType::new(BTreeMap::new(), false)))
                    };
                };
                let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
                let property = |(name, schema): (&String, &JsonValue)| {
                    let is_required = required.iter().any(|required| required.as_str() == Some(name));
                    let is_nullable = schema["nullable"].as_bool().unwrap_or(false);
                    let kind = CelType::of_schema(schema, depth + 1);
                    (name.clone(), Property { kind, is_required, is_nullable })
                };
                CelType::Object(Arc::new(ObjectType::new(properties.iter().map(property).collect(), is_open)))
            }
            _ => CelType::Dyn,
        }
    }

    /// Whether a value of one of the two types can be used where the other type is expected. The types must be equal
    /// except for bounds of sizes, and dynamic parts fit each type. Numbers are not converted. As in cel-go, null can
    /// be used as an object, an optional, a timestamp, a duration, or a type of Kubernetes' libraries such as a
    /// quantity.
    pub(super) fn accepts(&self, other: &CelType) -> bool {
        match (self, other) {
            (CelType::Dyn, _) | (_, CelType::Dyn) => true,
            (CelType::Text { .. }, CelType::Text { .. }) => true,
            (CelType::List(left), CelType::List(right)) => left.element.accepts(&right.element),
            (CelType::Map(left), CelType::Map(right)) => {
                left.key.accepts(&right.key) && left.value.accepts(&right.value)
            }
            (CelType::Map(map), CelType::Object(_)) | (CelType::Object(_), CelType::Map(map)) => {
                map.key.accepts(&CelType::TEXT)
            }
            (CelType::Optional(left), CelType::Optional(right)) => left.of.accepts(&right.of),
            (CelType::Null, other) | (other, CelType::Null) => matches!(
                other,
                CelType::Null
                    | CelType::Object(_)
                    | CelType::Optional(_)
                    | CelType::Timestamp
                    | CelType::Duration
                    | CelType::Quantity
                    | CelType::Ip
                    | CelType::Cidr
                    | CelType::Url
                    | CelType::Semver
                    | CelType::Format
            ),
            (left, right) => left == right,
        }
    }

    /// A type for the values of both types; `None` if neither accepts the other. Dynamic if one of them is, and the
    /// other type if one is null. Bounds of strings and lists suit both types; the bound of a map is that of the first
    /// one.
    pub(super) fn join(&self, other: &CelType) -> Option<CelType> {
        match (self, other) {
            (CelType::Dyn, _) | (_, CelType::Dyn) => Some(CelType::Dyn),
            (CelType::Text { longest: left, .. }, CelType::Text { longest: right, .. }) => {
                Some(CelType::Text { longest: left.zip(*right).map(|(left, right)| left.max(right)), shortest: 0 })
            }
            (CelType::List(left), CelType::List(right)) if Arc::ptr_eq(left, right) => Some(self.clone()),
            (CelType::List(left), CelType::List(right)) => {
                let element = left.element.join(&right.element)?;
                Some(CelType::list(element, left.most.zip(right.most).map(|(left, right)| left.max(right))))
            }
            _ if !self.accepts(other) => None,
            (CelType::Null, other) => Some(other.clone()),
            (left, _) => Some(left.clone()),
        }
    }

    /// A list of at most `most` elements of this type (`None`: no bound); dynamic if its size is above [`MAX_SIZE`].
    pub(super) fn list(element: CelType, most: Option<u64>) -> CelType {
        match 1 + element.size() {
            size if size > MAX_SIZE => CelType::Dyn,
            size => CelType::List(Arc::new(ListType { element, most, size })),
        }
    }

    /// A list of any number of elements of this type.
    pub(super) fn list_of(element: CelType) -> CelType {
        CelType::list(element, None)
    }

    /// A map of these types with at most `most` entries (`None`: no bound); dynamic if its size is above [`MAX_SIZE`].
    pub(super) fn map(key: CelType, value: CelType, most: Option<u64>) -> CelType {
        match 1 + key.size() + value.size() {
            size if size > MAX_SIZE => CelType::Dyn,
            size => CelType::Map(Arc::new(MapType { key, value, most, size })),
        }
    }

    /// An optional value of this type; dynamic if its size is above [`MAX_SIZE`].
    pub(super) fn optional(of: CelType) -> CelType {
        match 1 + of.size() {
            size if size > MAX_SIZE => CelType::Dyn,
            size => CelType::Optional(Arc::new(OptionalType { of, size })),
        }
    }

    /// The number of types within this type, including the type itself. At most [`MAX_SIZE`].
    fn size(&self) -> usize {
        match self {
            CelType::List(list) => list.size,
            CelType::Map(map) => map.size,
            CelType::Optional(optional) => optional.size,
            _ => 1,
        }
    }

    /// Whether it is one of the three types of numbers.
    pub(super) fn is_number(&self) -> bool {
        matches!(self, CelType::Int | CelType::Uint | CelType::Double)
    }

    /// Whether lists of elements of this type can be sorted. For dynamic elements and null, the evaluation decides.
    pub(super) fn is_ordered(&self) -> bool {
        use CelType as T;
        self.is_number()
            || matches!(self, T::Dyn | T::Null | T::Duration | T::Timestamp | T::Bool | T::Text { .. } | T::Bytes)
    }

    /// The type of the elements of a list; dynamic for other types.
    pub(super) fn element(&self) -> &CelType {
        match self {
            CelType::List(list) => &list.element,
            _ => &DYN,
        }
    }
}

impl ObjectType {
    /// The type of objects with these declared members, by JSON key. `is_open`: other members are dynamic.
    fn new(members: BTreeMap<String, Property>, is_open: bool) -> ObjectType {
        let digest = DIGESTS.hash_one((&members, is_open));
        ObjectType { members, is_open, digest }
    }

    /// The JSON key and the declaration of the member that an expression names; `None` if no such member is declared.
    /// The name can be the key, or the key with the escapes of apiserver `pkg/cel/escaping.go`.
    pub(super) fn member<'n>(&'n self, name: &'n str) -> Option<(&'n str, &'n Property)> {
        if let Some((key, property)) = self.members.get_key_value(name) {
            return Some((key, property));
        }
        let unescaped = unescape(name)?;
        self.members.get_key_value(unescaped.as_str()).map(|(key, property)| (key.as_str(), property))
    }

    /// The type of the member of this JSON key; `None` if it is not declared and the object is not open.
    pub(super) fn type_at(&self, key: &str) -> Option<CelType> {
        match self.members.get(key) {
            Some(property) => Some(property.kind.clone()),
            None => self.is_open.then_some(CelType::Dyn),
        }
    }

    /// The declared member whose name is most similar to a name that is not declared, to suggest it in an error. The
    /// case of letters does not count. `None` if all names differ by more than two fifths of the characters.
    pub(super) fn nearest(&self, name: &str) -> Option<&str> {
        // Longer names are no fields of Kubernetes, and their distance is the product of both lengths.
        if name.len() > LONGEST_NAME {
            return None;
        }
        let distance = |member: &str| distance(&name.to_lowercase(), &member.to_lowercase());
        let near = self.members.keys().filter(|member| member.len() <= LONGEST_NAME).take(MOST_NAMES);
        let nearest = near.map(|member| (distance(member), member)).min()?;
        // Two exchanged characters are a distance of 2, and the most in a name of five characters.
        (nearest.0 * 5 <= name.len().max(3) * 2).then_some(nearest.1)
    }

    /// Whether members that are not declared are dynamic.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }
}

/// The maximum length of the names that [`ObjectType::nearest`] compares, in bytes.
const LONGEST_NAME: usize = 64;

/// The maximum number of declared members that [`ObjectType::nearest`] compares.
const MOST_NAMES: usize = 500;

/// The number of characters to insert, delete or replace to make one text out of another one (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, character) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The type of a string by its schema, with the bounds of [`CelType::Text`].
fn text_type(schema: &JsonValue) -> CelType {
    let values = schema["enum"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lengths = || values.iter().filter_map(JsonValue::as_str).map(|value| value.chars().count() as u64);
    let longest = schema["maxLength"].as_u64().or_else(|| lengths().max());
    let shortest = schema["minLength"].as_u64().unwrap_or(0).max(lengths().min().unwrap_or(0));
    CelType::Text { longest, shortest }
}

/// The declaration of `metadata`: the members of ObjectMeta. Elements of `ownerReferences` and `managedFields` are
/// dynamic.
fn metadata() -> Property {
    let property = |kind: CelType, is_required| Property { kind, is_required, is_nullable: false };
    let name = CelType::Text { longest: Some(253), shortest: 1 };
    let text = |longest| property(CelType::Text { longest: Some(longest), shortest: 1 }, false);
    let strings = || property(STRINGS.clone(), false);
    let list = || property(DYN_LIST.clone(), false);
    let members = [
        ("name", property(name, true)),
        ("generateName", text(253)),
        ("namespace", text(63)),
        ("uid", text(128)),
        ("resourceVersion", text(128)),
        ("generation", property(CelType::Int, false)),
        ("creationTimestamp", text(32)),
        ("deletionTimestamp", text(32)),
        ("deletionGracePeriodSeconds", property(CelType::Int, false)),
        ("labels", strings()),
        ("annotations", strings()),
        ("ownerReferences", list()),
        ("finalizers", property(CelType::list_of(CelType::TEXT), false)),
        ("managedFields", list()),
        ("selfLink", text(1024)),
    ];
    let members = members.into_iter().map(|(name, property)| (name.to_owned(), property)).collect();
    property(CelType::Object(Arc::new(ObjectType::new(members, false))), true)
}

/// The JSON key of an escaped name (apiserver `pkg/cel/escaping.go`); `None` if the name has no `__`.
/// Reserved names have the escape `__name__`, and four characters or pairs have escapes such as `__dash__`.
fn unescape(name: &str) -> Option<String> {
    const ESCAPES: [(&str, &str); 4] =
        [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
    if !name.contains("__") {
        return None;
    }
    let inside = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"));
    let is_keyword = |name: &&str| super::lex::is_reserved(name) || ["true", "false", "null", "in"].contains(name);
    if let Some(reserved) = inside.filter(is_keyword) {
        return Some(reserved.to_owned());
    }
    let mut unescaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        match ESCAPES.iter().find(|(escape, _)| rest.starts_with(escape)) {
            Some((escape, plain)) => {
                unescaped.push_str(plain);
                rest = &rest[escape.len()..];
            }
            None => {
                unescaped.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    Some(unescaped)
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &ObjectType) -> bool {
        self.digest == other.digest
    }
}

impl Hash for ObjectType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// The type as cel-go's error messages name it.
impl fmt::Display for CelType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CelType::Dyn => formatter.write_str("dyn"),
            CelType::Null => formatter.write_str("null"),
            CelType::Bool => formatter.write_str("bool"),
            CelType::Int => formatter.write_str("int"),
            CelType::Uint => formatter.write_str("uint"),
            CelType::Double => formatter.write_str("double"),
            CelType::Text { .. } => formatter.write_str("string"),
            CelType::Bytes => formatter.write_str("bytes"),
            CelType::Timestamp => formatter.write_str("timestamp"),
            CelType::Duration => formatter.write_str("duration"),
            CelType::List(list) => write!(formatter, "list({})", list.element),
            CelType::Map(map) => write!(formatter, "map({}, {})", map.key, map.value),
            CelType::Object(_) => formatter.write_str("object"),
            CelType::Optional(optional) => write!(formatter, "optional_type({})", optional.of),
            CelType::Type => formatter.write_str("type"),
            CelType::Quantity => formatter.write_str("kubernetes.Quantity"),
            CelType::Ip => formatter.write_str("net.IP"),
            CelType::Cidr => formatter.write_str("net.CIDR"),
            CelType::Url => formatter.write_str("kubernetes.URL"),
            CelType::Semver => formatter.write_str("kubernetes.Semver"),
            CelType::Format => formatter.write_str("kubernetes.NamedFormat"),
        }
    }
}
