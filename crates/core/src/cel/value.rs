//! Values of an evaluation. Values of the object stay JSON until an expression needs them.
//!
//! The JSON decides the type of such a value, whatever the schema declares, as in the objects of
//! ValidatingAdmissionPolicies: a number without a fraction is an integer if it fits into 64 bits.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use super::failure::{EvalError, Failure};
use super::meter::CostMeter;
use super::named_format::NamedFormat;
use super::quantity::Quantity;
use super::semver::Semver;
use super::time::Timestamp;
use super::url::Url;
use crate::json::tree::NodeKind;
use crate::json::{Json, unescape};

/// A text.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    /// A text within the JSON of the object, or within the expression.
    Borrowed(&'a str),
    /// A new text: the result of a function, or a text of the object with escapes.
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

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Text<'_>) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Text<'_>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    /// The order of UTF-8 bytes, which is that of code points.
    fn cmp(&self, other: &Text<'_>) -> Ordering {
        (**self).cmp(&**other)
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
    /// A map, or an object within the object.
    Map(Map<'a>),
    Timestamp(Timestamp),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A type, by its name.
    Type(&'static str),
    /// An optional value; `None` if it is empty.
    Optional(Option<Arc<CelValue<'a>>>),
    Quantity(Quantity),
    Ip(IpAddr),
    /// A range of addresses: an address, and the number of leading bits that all addresses of the range share.
    Cidr(IpAddr, u8),
    Url(Arc<Url>),
    Semver(Arc<Semver>),
    Format(NamedFormat),
}

/// A list.
#[derive(Clone, Debug)]
pub(super) enum ListValue<'a> {
    /// A list of the object.
    Json(Json<'a>),
    /// A list that the expression has made.
    Built(Arc<[CelValue<'a>]>),
}

/// A map.
#[derive(Clone, Debug)]
pub(super) enum Map<'a> {
    /// The object, or an object within it.
    Json(Json<'a>),
    /// A map that the expression has made: its entries, in the order of their keys, which are unique.
    Built(Arc<[BuiltEntry<'a>]>),
}

/// An entry of a map that the expression has made.
#[derive(Clone, Debug)]
pub(super) struct BuiltEntry<'a> {
    /// The key by which entries are sorted and found: the one of `key`.
    pub(super) sorted: MapKey<'a>,
    /// The key as a value, with its type.
    pub(super) key: CelValue<'a>,
    pub(super) value: CelValue<'a>,
}

/// A key of a map, for comparisons. Signed and unsigned integers of the same value are one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MapKey<'a> {
    Bool(bool),
    Int(i128),
    Text(Text<'a>),
}

impl MapKey<'_> {
    /// The maximum number of bytes that a comparison with this key reads.
    fn length(&self) -> usize {
        match self {
            MapKey::Text(text) => text.len(),
            MapKey::Bool(_) | MapKey::Int(_) => 0,
        }
    }
}

impl<'a> CelValue<'a> {
    /// A new text.
    pub(super) fn text(text: impl Into<Arc<str>>) -> CelValue<'a> {
        CelValue::Text(Text::Shared(text.into()))
    }

    /// A new list.
    pub(super) fn list(elements: Vec<CelValue<'a>>) -> CelValue<'a> {
        CelValue::List(ListValue::Built(elements.into()))
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

    /// The value as a key to find in a map; `None` if no map has such a key. A double without a fraction is the key of
    /// the integer, as in cel-go.
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
            CelValue::Text(text) => Some(MapKey::Text(text.clone())),
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

/// The error for a value of the object that is not valid JSON. It does not occur: the object was checked when it was
/// stored.
fn invalid() -> Failure {
    EvalError::Other("the object has a value that is not JSON".to_owned()).into()
}

/// Reads a value of the object. The elements and members of a list or map are not read.
fn of_json<'a>(json: Json<'a>, meter: &mut CostMeter) -> Evaluated<'a> {
    match json.kind() {
        NodeKind::List => Ok(CelValue::List(ListValue::Json(json))),
        NodeKind::Map => Ok(CelValue::Map(Map::Json(json))),
        NodeKind::Scalar => scalar(json, meter),
    }
}

/// Reads a string of the object, or the key of a member; `None` if an escape is not valid. `raw`: the bytes between the
/// quotes.
fn read_text<'a>(raw: &'a [u8], meter: &mut CostMeter) -> Result<Option<Text<'a>>, Failure> {
    if let Some(text) = meter.known_text(raw) {
        meter.charge(1)?;
        return Ok(Some(Text::Shared(text)));
    }
    meter.scan(raw.len())?;
    Ok(match unescape(raw) {
        Some(Cow::Borrowed(text)) => Some(Text::Borrowed(text)),
        Some(Cow::Owned(text)) => {
            meter.make_text(raw.len().max(text.len()))?;
            let text: Arc<str> = text.into();
            meter.keep_text(raw, &text);
            Some(Text::Shared(text))
        }
        None => None,
    })
}

/// Reads a string, number, boolean or null of the object.
fn scalar<'a>(json: Json<'a>, meter: &mut CostMeter) -> Evaluated<'a> {
    let bytes = json.bytes().unwrap_or(b"null");
    Ok(match bytes {
        b"null" => CelValue::Null,
        b"true" => CelValue::Bool(true),
        b"false" => CelValue::Bool(false),
        [b'"', inside @ .., b'"'] => CelValue::Text(read_text(inside, meter)?.ok_or_else(invalid)?),
        _ => {
            meter.parse_number(bytes.len())?;
            let number = std::str::from_utf8(bytes).map_err(|_| invalid())?;
            match number.parse::<i64>() {
                Ok(int) => CelValue::Int(int),
                Err(_) => CelValue::Double(number.parse().map_err(|_| invalid())?),
            }
        }
    })
}

/// A value, or the key of a member, that may not have been read. Reading takes time in proportion to the length, so it
/// needs the meter. Each value of the object is read through this type.
#[derive(Clone, Debug)]
pub(super) struct UnreadValue<'a>(Content<'a>);

/// See [`UnreadValue`].
#[derive(Clone, Debug)]
enum Content<'a> {
    /// A value of the object.
    Json(Json<'a>),
    /// The raw key of a member, with its escapes.
    Key(&'a [u8]),
    /// A value that the expression has made, which needs no reading.
    Made(CelValue<'a>),
}

impl<'a> UnreadValue<'a> {
    /// A value of the object.
    pub(super) fn of_json(json: Json<'a>) -> UnreadValue<'a> {
        UnreadValue(Content::Json(json))
    }

    /// Reads the value.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(super) fn read(self, meter: &mut CostMeter) -> Evaluated<'a> {
        match self.0 {
            Content::Made(value) => Ok(value),
            // The escapes of keys are valid: the object was checked when it was stored.
            Content::Key(raw) => Ok(CelValue::Text(read_text(raw, meter)?.unwrap_or(Text::Borrowed("")))),
            Content::Json(json) => of_json(json, meter),
        }
    }
}

/// An entry of a map that may not have been read.
#[derive(Clone, Debug)]
pub(super) enum MapEntry<'a> {
    /// A member of the object: its raw key, with its escapes, and its value.
    Json(&'a [u8], Json<'a>),
    /// A key and a value that the expression has made.
    Made(CelValue<'a>, CelValue<'a>),
}

impl<'a> MapEntry<'a> {
    /// Reads the key and the value.
    ///
    /// # Errors
    /// As for [`UnreadValue::read`].
    pub(super) fn read(self, meter: &mut CostMeter) -> Result<(CelValue<'a>, CelValue<'a>), Failure> {
        match self {
            MapEntry::Made(key, value) => Ok((key, value)),
            MapEntry::Json(raw, json) => {
                let key = read_text(raw, meter)?.unwrap_or(Text::Borrowed(""));
                let value = of_json(json, meter)?;
                Ok((CelValue::Text(key), value))
            }
        }
    }
}

impl<'a> ListValue<'a> {
    /// The number of elements. The elements of a JSON list are counted one by one.
    pub(super) fn count(&self, meter: &mut CostMeter) -> Result<usize, Failure> {
        match self {
            ListValue::Json(json) => counted(*json, meter),
            ListValue::Built(elements) => Ok(elements.len()),
        }
    }

    /// The element at an index from 0; `None` if the index is negative or too large.
    pub(super) fn get(&self, index: i64, meter: &mut CostMeter) -> Result<Option<UnreadValue<'a>>, Failure> {
        let Ok(index) = usize::try_from(index) else { return Ok(None) };
        match self {
            ListValue::Json(json) => {
                // The tree of JSON links each element to the next one, so the search passes all elements before.
                let mut passed = 0;
                let mut found = None;
                for item in json.items() {
                    if passed == index {
                        found = Some(UnreadValue::of_json(item));
                        break;
                    }
                    passed += 1;
                }
                meter.pass(passed)?;
                Ok(found)
            }
            ListValue::Built(elements) => Ok(elements.get(index).cloned().map(made)),
        }
    }

    /// The elements in order.
    pub(super) fn elements(&self) -> Elements<'a> {
        match self {
            ListValue::Json(json) => Box::new(json.items().map(UnreadValue::of_json)),
            ListValue::Built(elements) => {
                let elements = elements.clone();
                Box::new((0..elements.len()).filter_map(move |index| elements.get(index).cloned().map(made)))
            }
        }
    }
}

/// A value that the expression has made, as an [`UnreadValue`]. It needs no reading.
fn made(value: CelValue<'_>) -> UnreadValue<'_> {
    UnreadValue(Content::Made(value))
}

/// Counts the elements or members of a JSON list or object.
fn counted(json: Json<'_>, meter: &mut CostMeter) -> Result<usize, Failure> {
    let count = json.count();
    meter.pass(count)?;
    Ok(count)
}

/// The elements of a list, or the keys of a map.
pub(super) type Elements<'a> = Box<dyn Iterator<Item = UnreadValue<'a>> + 'a>;

/// The entries of a map.
pub(super) type Entries<'a> = Box<dyn Iterator<Item = MapEntry<'a>> + 'a>;

impl<'a> Map<'a> {
    /// A new map of these entries. Of entries with equal keys the last one counts, as in cel-go.
    pub(super) fn build(mut entries: Vec<BuiltEntry<'a>>, meter: &mut CostMeter) -> Result<Map<'a>, Failure> {
        let mut work: u64 = 0;
        for BuiltEntry { sorted, .. } in &entries {
            work = work.saturating_add(1 + sorted.length() as u64 / 10);
        }
        // A merge sort has log2(n) levels, and each of them compares each key once.
        meter.charge(work.saturating_mul(u64::from(entries.len().max(1).ilog2())))?;
        // The sort is stable, and `dedup_by` keeps the first one of equal keys. So the last one is kept in reverse
        // order.
        entries.sort_by(|left, right| left.sorted.cmp(&right.sorted));
        entries.reverse();
        entries.dedup_by(|earlier, later| earlier.sorted == later.sorted);
        entries.reverse();
        Ok(Map::Built(entries.into()))
    }

    /// The number of entries. The members of a JSON object are counted one by one.
    pub(super) fn count(&self, meter: &mut CostMeter) -> Result<usize, Failure> {
        match self {
            Map::Json(json) => counted(*json, meter),
            Map::Built(entries) => Ok(entries.len()),
        }
    }

    /// The value of a key; `None` if the map does not have the key.
    pub(super) fn get(&self, key: &MapKey<'_>, meter: &mut CostMeter) -> Result<Option<UnreadValue<'a>>, Failure> {
        match self {
            Map::Json(json) => {
                let MapKey::Text(key) = key else { return Ok(None) };
                let (found, passed, compared) = json.find(key);
                meter.pass(passed)?;
                meter.compare(compared)?;
                Ok(found.is_present().then(|| UnreadValue::of_json(found)))
            }
            Map::Built(entries) => {
                // A binary search, written out to count each comparison before it is made.
                let (mut start, mut end) = (0, entries.len());
                while let Some(entry) = entries.get(start..end).and_then(|rest| rest.get(rest.len() / 2)) {
                    let middle = start + (end - start) / 2;
                    meter.compare(key.length().min(entry.sorted.length()))?;
                    match entry.sorted.cmp(key) {
                        Ordering::Equal => return Ok(Some(made(entry.value.clone()))),
                        Ordering::Less => start = middle + 1,
                        Ordering::Greater => end = middle,
                    }
                }
                Ok(None)
            }
        }
    }

    /// The entries: of a JSON object in the order of the JSON, and of a new map in the order of the keys.
    pub(super) fn entries(&self) -> Entries<'a> {
        match self {
            Map::Json(json) => Box::new(json.raw_members().map(|(key, value)| MapEntry::Json(key, value))),
            Map::Built(entries) => {
                let entries = entries.clone();
                let entry = move |index: usize| {
                    entries.get(index).map(|entry| MapEntry::Made(entry.key.clone(), entry.value.clone()))
                };
                Box::new((0..).map_while(entry))
            }
        }
    }

    /// The keys, in the order of [`Map::entries`].
    pub(super) fn keys(&self) -> Elements<'a> {
        match self {
            Map::Json(json) => Box::new(json.raw_members().map(|(key, _)| UnreadValue(Content::Key(key)))),
            Map::Built(entries) => {
                let entries = entries.clone();
                Box::new((0..).map_while(move |index: usize| entries.get(index).map(|entry| made(entry.key.clone()))))
            }
        }
    }
}
