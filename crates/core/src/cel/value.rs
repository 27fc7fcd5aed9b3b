//! Values of an evaluation. Those of the object stay JSON until an expression needs them.
//!
//! A value of JSON has the type that it is written with, whatever the schema declares, as in the objects of
//! ValidatingAdmissionPolicies: a number without a fraction is an integer if it fits into 64 bits.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use super::failure::{EvalError, Failure};
use super::named_format::NamedFormat;
use super::quantity::Quantity;
use super::semver::Semver;
use super::time::Timestamp;
use super::url::Url;
use crate::json::Json;
use crate::json::tree::NodeKind;

/// A text of the object, of the expression, or a new one.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text::Shared(text.into())
    }
}

/// The result of evaluating a part of an expression.
pub(super) type Evaluated<'a> = Result<CelValue<'a>, Failure>;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum CelValue<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    List(ListValue<'a>),
    Map(Map<'a>),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    /// The name of a type.
    Type(&'static str),
    Optional(Option<Arc<CelValue<'a>>>),
    Quantity(Quantity),
    Ip(IpAddr),
    /// An address and the number of its leading bits that count.
    Cidr(IpAddr, u8),
    Url(Arc<Url>),
    Semver(Arc<Semver>),
    Format(NamedFormat),
}

/// A list: one of the object, or a new one.
#[derive(Clone, Debug)]
pub(super) enum ListValue<'a> {
    Json(Json<'a>),
    Built(Arc<[CelValue<'a>]>),
}

/// A map: an object within the object, or a new one.
#[derive(Clone, Debug)]
pub(super) enum Map<'a> {
    Json(Json<'a>),
    Built(Arc<BTreeMap<MapKey<'a>, (CelValue<'a>, CelValue<'a>)>>),
}

/// A key of a map. Integers of both types are equal when their values are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MapKey<'a> {
    Bool(bool),
    Int(i128),
    Text(Cow<'a, str>),
}

impl<'a> CelValue<'a> {
    /// A new text.
    pub(super) fn text(text: impl Into<String>) -> CelValue<'a> {
        CelValue::Text(text.into().into())
    }

    /// A new list.
    pub(super) fn list(elements: Vec<CelValue<'a>>) -> CelValue<'a> {
        CelValue::List(ListValue::Built(elements.into()))
    }

    /// A value of the object.
    ///
    /// # Errors
    /// The value is no valid JSON, which is possible only if the object was not checked before.
    pub(super) fn of_json(json: Json<'a>) -> Result<CelValue<'a>, Failure> {
        match json.kind() {
            NodeKind::List => Ok(CelValue::List(ListValue::Json(json))),
            NodeKind::Map => Ok(CelValue::Map(Map::Json(json))),
            NodeKind::Scalar => scalar(json),
        }
    }

    /// The name of the value's type, as `type()` and messages have it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            CelValue::Null => "null_type",
            CelValue::Bool(_) => "bool",
            CelValue::Int(_) => "int",
            CelValue::Uint(_) => "uint",
            CelValue::Double(_) => "double",
            CelValue::Text(_) => "string",
            CelValue::Bytes(_) => "bytes",
            CelValue::List(_) => "list",
            CelValue::Map(_) => "map",
            CelValue::Timestamp(_) => "google.protobuf.Timestamp",
            CelValue::Duration(_) => "google.protobuf.Duration",
            CelValue::Type(_) => "type",
            CelValue::Optional(_) => "optional_type",
            CelValue::Quantity(_) => "kubernetes.Quantity",
            CelValue::Ip(_) => "net.IP",
            CelValue::Cidr(..) => "net.CIDR",
            CelValue::Url(_) => "kubernetes.URL",
            CelValue::Semver(_) => "kubernetes.Semver",
            CelValue::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The value as the key of a map; `None` if it cannot be one. A double that is an integer is the key of that
    /// integer, as in cel-go.
    pub(super) fn as_key(&self) -> Option<MapKey<'a>> {
        match self {
            CelValue::Bool(bool) => Some(MapKey::Bool(*bool)),
            CelValue::Int(int) => Some(MapKey::Int(i128::from(*int))),
            CelValue::Uint(uint) => Some(MapKey::Int(i128::from(*uint))),
            CelValue::Double(double) if double.fract() == 0.0 && double.abs() < 1e19 => {
                // Within the range of i128, and without a fraction, so the conversion is exact.
                let int = *double as i128;
                Some(MapKey::Int(int))
            }
            CelValue::Text(Text::Borrowed(text)) => Some(MapKey::Text(Cow::Borrowed(text))),
            CelValue::Text(Text::Shared(text)) => Some(MapKey::Text(Cow::Owned(text.to_string()))),
            CelValue::Null
            | CelValue::Double(_)
            | CelValue::Bytes(_)
            | CelValue::List(_)
            | CelValue::Map(_)
            | CelValue::Timestamp(_)
            | CelValue::Duration(_)
            | CelValue::Type(_)
            | CelValue::Optional(_)
            | CelValue::Quantity(_)
            | CelValue::Ip(_)
            | CelValue::Cidr(..)
            | CelValue::Url(_)
            | CelValue::Semver(_)
            | CelValue::Format(_) => None,
        }
    }
}

/// A string, number, boolean or null of the object.
fn scalar<'a>(json: Json<'a>) -> Result<CelValue<'a>, Failure> {
    let invalid = || EvalError::Other("the object has a value that is not JSON".to_owned());
    Ok(match json.bytes().unwrap_or(b"null") {
        b"null" => CelValue::Null,
        b"true" => CelValue::Bool(true),
        b"false" => CelValue::Bool(false),
        [b'"', ..] => match json.as_str().ok_or_else(invalid)? {
            Cow::Borrowed(text) => CelValue::Text(Text::Borrowed(text)),
            Cow::Owned(text) => CelValue::text(text),
        },
        number => {
            let number = std::str::from_utf8(number).map_err(|_| invalid())?;
            match number.parse::<i64>() {
                Ok(int) => CelValue::Int(int),
                Err(_) => CelValue::Double(number.parse().map_err(|_| invalid())?),
            }
        }
    })
}

impl<'a> ListValue<'a> {
    /// The number of elements, and the work of counting them in elements.
    pub(super) fn count(&self) -> (usize, usize) {
        match self {
            ListValue::Json(json) => {
                let count = json.count();
                (count, count)
            }
            ListValue::Built(elements) => (elements.len(), 0),
        }
    }

    /// The element at an index; `None` if there is none. The second is the number of elements that were passed.
    pub(super) fn get(&self, index: i64) -> (Option<Result<CelValue<'a>, Failure>>, usize) {
        let Ok(index) = usize::try_from(index) else { return (None, 0) };
        match self {
            ListValue::Json(json) => {
                // Elements are linked: `nth` passes those before.
                let mut passed = 0;
                for item in json.items() {
                    if passed == index {
                        return (Some(CelValue::of_json(item)), passed);
                    }
                    passed += 1;
                }
                (None, passed)
            }
            ListValue::Built(elements) => (elements.get(index).cloned().map(Ok), 0),
        }
    }

    /// The elements in order.
    pub(super) fn elements(&self) -> Elements<'a> {
        match self {
            ListValue::Json(json) => Box::new(json.items().map(CelValue::of_json)),
            ListValue::Built(elements) => {
                let elements = elements.clone();
                Box::new((0..elements.len()).filter_map(move |index| elements.get(index).cloned().map(Ok)))
            }
        }
    }
}

/// The elements of a list.
pub(super) type Elements<'a> = Box<dyn Iterator<Item = Result<CelValue<'a>, Failure>> + 'a>;

/// The entries of a map: keys and values.
pub(super) type Entries<'a> = Box<dyn Iterator<Item = Result<(CelValue<'a>, CelValue<'a>), Failure>> + 'a>;

impl<'a> Map<'a> {
    /// The number of entries, and the work of counting them in entries.
    pub(super) fn count(&self) -> (usize, usize) {
        match self {
            Map::Json(json) => {
                let count = json.count();
                (count, count)
            }
            Map::Built(entries) => (entries.len(), 0),
        }
    }

    /// The value of a key; `None` if there is none. The second is the number of entries that were passed.
    pub(super) fn get(&self, key: &MapKey<'_>) -> (Option<Result<CelValue<'a>, Failure>>, usize) {
        match self {
            Map::Json(json) => {
                let MapKey::Text(key) = key else { return (None, 0) };
                let (found, passed) = json.find(key);
                (found.is_present().then(|| CelValue::of_json(found)), passed)
            }
            Map::Built(entries) => (entries.get(key).map(|(_, value)| Ok(value.clone())), 0),
        }
    }

    /// The entries, in the order of their keys.
    pub(super) fn entries(&self) -> Entries<'a> {
        match self {
            Map::Json(json) => Box::new(json.members().map(|(key, value)| {
                let value = CelValue::of_json(value)?;
                let key = match key {
                    Cow::Borrowed(key) => Text::Borrowed(key),
                    Cow::Owned(key) => key.into(),
                };
                Ok((CelValue::Text(key), value))
            })),
            Map::Built(entries) => {
                let entries: Vec<_> = entries.values().cloned().collect();
                Box::new(entries.into_iter().map(Ok))
            }
        }
    }

    /// The keys, in order.
    pub(super) fn keys(&self) -> Elements<'a> {
        match self {
            Map::Json(json) => Box::new(json.members().map(|(key, _)| {
                Ok(CelValue::Text(match key {
                    Cow::Borrowed(key) => Text::Borrowed(key),
                    Cow::Owned(key) => key.into(),
                }))
            })),
            Map::Built(entries) => {
                let keys: Vec<CelValue<'a>> = entries.values().map(|(key, _)| key.clone()).collect();
                Box::new(keys.into_iter().map(Ok))
            }
        }
    }
}
