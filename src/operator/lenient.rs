//! Reads objects that are partly invalid.
//!
//! A typed list fails as a whole if one object cannot be read, and authors choose the content of objects. Examples are
//! a time in metadata.managedFields after year 9999, and a field whose value only a newer release knows. Other
//! objects, and deletions, would not be seen then. So unused parts are removed before. An object that cannot be read is
//! replaced by one that is not served and has the reason.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::object_budget::ObjectLimits;
use crate::extract::prune::path::most_names;
use crate::kinds::view::ViewResource;
use crate::kinds::{Absence, FieldCache, FieldCacheSpec, SelectableResource, View, ViewSpec};

/// Longer reasons and names are cut, in characters: both can contain what an author wrote.
const MOST_CHARACTERS: usize = 256;

/// An object that can be stored without its spec.
pub trait Replaceable: Resource<DynamicType = ()> + DeserializeOwned + Default {
    /// Limits of the objects of the kind in memory.
    const LIMITS: ObjectLimits = ObjectLimits::NONE;

    /// Removes the spec and stores the reason. Such an object has no effect.
    fn drop_spec(&mut self, why: Absence);

    /// Bytes of the spec, as JSON.
    fn spec_length(&self) -> usize {
        0
    }

    /// Sets the status to `written`, or to none if that is invalid. Does nothing for kinds whose status is not read.
    fn read_status(&mut self, _written: &Value) {}

    /// Records the fields of `written`, the object as JSON, that this release does not know. Does nothing for kinds
    /// where these have no effect.
    fn note_unknown(&mut self, _written: &Value) {}
}

/// Bytes that are added to the length of a View's spec for each name in its paths of `prune`.
const NAME_BYTES: usize = 48;

/// The length of a spec as JSON, in bytes; `usize::MAX` if it cannot be encoded.
fn length<Spec: Serialize>(spec: &Spec) -> usize {
    serde_json::to_vec(spec).map_or(usize::MAX, |spec| spec.len())
}

impl Replaceable for View {
    const LIMITS: ObjectLimits = ObjectLimits::WRITTEN_BY_USERS;

    fn drop_spec(&mut self, why: Absence) {
        self.spec = ViewSpec { absent: Some(why), ..ViewSpec::default() };
    }

    fn spec_length(&self) -> usize {
        // A name of a path can have one byte here, and takes much more memory.
        let names =
            |shown: &ViewResource| shown.prune.iter().chain(&shown.keep).map(|path| most_names(path)).sum::<usize>();
        length(&self.spec).saturating_add(self.spec.resources.iter().map(names).sum::<usize>() * NAME_BYTES)
    }

    fn read_status(&mut self, written: &Value) {
        self.status = Deserialize::deserialize(written).ok();
    }

    fn note_unknown(&mut self, written: &Value) {
        let known = serde_json::to_value(&self.spec).unwrap_or_default();
        find_unknown("spec", &written["spec"], &known, &mut self.spec.unknown);
    }
}

/// Most unknown fields that are recorded.
const MOST_UNKNOWN: usize = 8;

/// Adds to `found` the paths of the fields of `written` that `known` does not have, up to [`MOST_UNKNOWN`]. `known` is
/// the same value as this release encodes it, and `place` is the path of both. Empty fields are ignored: they have no
/// effect.
///
/// It recurses once for each level, of which there are at most [`MOST_LEVELS`].
fn find_unknown(place: &str, written: &Value, known: &Value, found: &mut Vec<String>) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            for (name, value) in written {
                let place = format!("{place}.{name}");
                match known.get(name) {
                    Some(known) => find_unknown(&place, value, known, found),
                    None if is_empty(value) || found.len() == MOST_UNKNOWN => {}
                    None => found.push(place.chars().take(MOST_CHARACTERS).collect()),
                }
            }
        }
        (Value::Array(written), Value::Array(known)) => {
            for (index, (value, known)) in written.iter().zip(known).enumerate() {
                find_unknown(&format!("{place}[{index}]"), value, known, found);
            }
        }
        _ => {}
    }
}

impl Replaceable for FieldCache {
    const LIMITS: ObjectLimits = ObjectLimits::WRITTEN_BY_USERS;

    fn drop_spec(&mut self, why: Absence) {
        self.spec = FieldCacheSpec { absent: Some(why), ..FieldCacheSpec::default() };
    }

    fn spec_length(&self) -> usize {
        length(&self.spec)
    }

    fn read_status(&mut self, written: &Value) {
        self.status = Deserialize::deserialize(written).ok();
    }
}

/// A SelectableResource has an empty spec.
impl Replaceable for SelectableResource {
    fn drop_spec(&mut self, _: Absence) {}
}

/// A policy without a spec differs from the required one, so it counts as not in force.
impl Replaceable for ValidatingAdmissionPolicy {
    fn drop_spec(&mut self, _: Absence) {
        self.spec = None;
    }
}

/// A ConfigMap without data has no certificate authority, so no client certificate is valid.
impl Replaceable for ConfigMap {
    fn drop_spec(&mut self, _: Absence) {
        self.data = None;
    }
}

/// A binding with an empty spec differs from the required one, so it counts as not in force.
impl Replaceable for ValidatingAdmissionPolicyBinding {
    fn drop_spec(&mut self, _: Absence) {
        self.spec = Default::default();
    }
}

/// An object as far as it is valid: without metadata.managedFields, and without its status if that is invalid. If the
/// rest is invalid, it has only its name, its version, and a valid status.
#[derive(Clone, Debug)]
pub struct Lenient<K>(pub K);

impl<'de, K: Replaceable> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lenient<K>, D::Error> {
        let is_deep = Cell::new(false);
        let mut value =
            Part { place: Place::Object, left: MOST_LEVELS, is_deep: &is_deep }.deserialize(deserializer)?;
        let read = |value: &Value| match is_deep.get() {
            true => Err(format!("it is nested more than {MOST_LEVELS} levels deep")),
            false => K::deserialize(value).map_err(|error| error.to_string()),
        };
        let whole = read(&value);
        // If the status alone is invalid, the object is valid without it. Otherwise the first reason is kept.
        let mut status = Value::Null;
        let read = whole.or_else(|reason| {
            if let Some(members) = value.as_object_mut() {
                status = members.remove("status").unwrap_or_default();
            }
            read(&value).map_err(|_| reason)
        });
        Ok(Lenient(match read {
            Ok(mut object) => {
                object.note_unknown(&value);
                object
            }
            Err(reason) => {
                let mut object = K::default();
                *object.meta_mut() = identifying_metadata(&value["metadata"]);
                object.read_status(&status);
                object.drop_spec(Absence::Unreadable(reason.chars().take(MOST_CHARACTERS).collect()));
                object
            }
        }))
    }
}

/// Levels of nesting that are read. serde_json fails at level 128 of the parts that are read; it skips the other parts
/// at any depth.
const MOST_LEVELS: usize = 64;

/// Where a part of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Object,
    Metadata,
    Elsewhere,
}

/// Reads a part of an object as JSON, without metadata.managedFields. Values that are nested too deep become null.
struct Part<'a> {
    place: Place,
    /// Levels that are still read, this one included.
    left: usize,
    /// Is set if a value was nested too deep.
    is_deep: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.left == 0 {
            self.is_deep.set(true);
            return IgnoredAny::deserialize(deserializer).map(|_| Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a part of an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let Part { place, left, is_deep } = self;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let place = match (place, &*name) {
                (Place::Metadata, "managedFields") => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Place::Object, "metadata") => Place::Metadata,
                _ => Place::Elsewhere,
            };
            map.insert(name, members.next_value_seed(Part { place, left: left - 1, is_deep })?);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Part { left, is_deep, .. } = self;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Part { place: Place::Elsewhere, left: left - 1, is_deep })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// The parts of metadata that identify an object: the API server chose or checked all of them.
fn identifying_metadata(metadata: &Value) -> ObjectMeta {
    let text = |name: &str| metadata[name].as_str().map(str::to_owned);
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        generation: metadata["generation"].as_i64(),
        creation_timestamp: Deserialize::deserialize(&metadata["creationTimestamp"]).ok(),
        ..ObjectMeta::default()
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Lenient<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(dynamic: &()) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &()) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &()) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &()) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Lenient, Replaceable};
    use crate::kinds::{Absence, FieldCache, View};

    fn read<K: Replaceable>(value: &serde_json::Value) -> K {
        serde_json::from_str::<Lenient<K>>(&value.to_string()).unwrap().0
    }

    #[test]
    fn an_object_that_cannot_be_read_is_there_and_says_why() {
        let view = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View",
            "metadata": {"name": "blue", "uid": "1", "resourceVersion": "7", "generation": 3},
            "spec": {"resources": [{"resource": "pods"}]},
        });
        let (mut time, mut status, mut value, mut shape) = (view.clone(), view.clone(), view.clone(), view.clone());
        time["metadata"]["managedFields"] =
            json!([{"manager": "a", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
        status["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "9999-12-31T23:59:59Z"}]});
        value["spec"]["consumer"] = json!({"fields": [{"key": "spec.nodeName", "value": "ClusterName"}]});
        shape["spec"] = json!("text");
        for (name, changed, reason) in [
            ("as it is", &view, None),
            ("a time of managedFields", &time, None),
            ("a time of a condition", &status, None),
            ("a value of a newer release", &value, Some("unknown variant `ClusterName`")),
            ("another shape", &shape, Some("invalid type")),
        ] {
            let read: View = read(changed);
            assert_eq!((read.metadata.name.as_deref(), read.metadata.generation), (Some("blue"), Some(3)), "{name}");
            assert_eq!(read.metadata.resource_version.as_deref(), Some("7"), "{name}");
            assert_eq!(read.spec.resources.is_empty(), reason.is_some(), "{name}");
            let said = match read.spec.absent {
                Some(Absence::Unreadable(reason)) => reason,
                _ => String::new(),
            };
            assert!(said.contains(reason.unwrap_or_default()) && said.is_empty() == reason.is_none(), "{name}: {said}");
        }
        // serde_json reads no such text as a value.
        let nested = |levels: usize| format!("{}{{}}{}", "{\"f:a\":".repeat(levels), "}".repeat(levels));
        for (text, is_read, name) in [
            (
                time.to_string().replace("\"Update\"", &format!("\"Update\",\"fieldsV1\":{}", nested(5_000))),
                true,
                "managedFields",
            ),
            (view.to_string().replace("\"pods\"", &format!("\"pods\",\"newer\":{}", nested(5_000))), false, "the spec"),
            (
                status.to_string().replace("\"pods\"", &format!("\"pods\",\"newer\":{}", nested(5_000))),
                false,
                "the spec, beside a status that cannot be read",
            ),
        ] {
            let read = serde_json::from_str::<Lenient<View>>(&text).unwrap().0;
            assert_eq!((read.metadata.name.as_deref(), read.spec.absent.is_none()), (Some("blue"), is_read), "{name}");
        }
        let mut cache = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
            "metadata": {"name": "pods"}, "spec": {"resource": "pods"},
        });
        assert_eq!(read::<FieldCache>(&cache).spec.absent, None);
        cache["spec"]["versions"] = json!(7);
        assert!(read::<FieldCache>(&cache).spec.absent.is_some());
    }
}
