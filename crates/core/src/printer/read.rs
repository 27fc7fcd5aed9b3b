//! Members of an object as Go reads them into a struct. A value that is absent, null or of another type is the zero
//! value.

use std::borrow::Cow;

use serde_json::Value;

use crate::json::Json;

/// A string; empty if the value is not one.
pub(super) fn text(value: Json<'_>) -> Cow<'_, str> {
    value.as_str().unwrap_or_default()
}

/// A string, or `otherwise` if it is absent or empty.
pub(super) fn text_or<'a>(value: Json<'a>, otherwise: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or_else(|| otherwise.into())
}

/// A string, or `otherwise` if it is absent. For members that are pointers in Go, in which an empty string is a value.
pub(super) fn pointer_or<'a>(value: Json<'a>, otherwise: &'a str) -> Cow<'a, str> {
    value.as_str().unwrap_or(Cow::Borrowed(otherwise))
}

/// An integer; 0 if the value is not one.
pub(super) fn integer(value: Json<'_>) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// A number or a string as text (apimachinery `util/intstr`), or `otherwise` if the value is absent.
pub(super) fn integer_or_string(value: Json<'_>, otherwise: &str) -> String {
    match value.as_str() {
        Some(text) => text.into_owned(),
        None if value.is_null() => otherwise.to_owned(),
        None => integer(value).to_string(),
    }
}

/// A boolean; false if the value is not one.
pub(super) fn flag(value: Json<'_>) -> bool {
    value.as_bool().unwrap_or_default()
}

/// The items of a list; none if the value is not a list.
pub(super) fn items(value: Json<'_>) -> impl Iterator<Item = Json<'_>> + Clone {
    value.items()
}

/// Whether a list has no items, or is absent.
pub(super) fn is_empty(value: Json<'_>) -> bool {
    items(value).next().is_none()
}

/// The items of a list of strings.
pub(super) fn texts(value: Json<'_>) -> Vec<Cow<'_, str>> {
    let mut texts = Vec::with_capacity(value.count());
    texts.extend(items(value).map(text));
    texts
}

/// The members of a map in the order of their keys.
pub(super) fn members(value: Json<'_>) -> impl Iterator<Item = (Cow<'_, str>, Json<'_>)> + Clone {
    value.members()
}

/// The number of items of a list, or of members of a map.
pub(super) fn count(value: Json<'_>) -> i64 {
    i64::try_from(value.count()).unwrap_or(i64::MAX)
}

/// Whether a value is present and not null: in Go, the pointer is not nil.
pub(super) fn is_set(value: Json<'_>) -> bool {
    !value.is_null()
}

/// The cell of an object's name.
pub(super) fn name(object: Json<'_>) -> Value {
    Value::from(text(object.at("metadata").at("name")))
}

/// Whether deletion has begun.
pub(super) fn is_being_deleted(object: Json<'_>) -> bool {
    is_set(object.at("metadata").at("deletionTimestamp"))
}

/// The first condition of the type `kind` in the status; `None` if there is none.
pub(super) fn condition<'a>(object: Json<'a>, kind: &str) -> Option<Json<'a>> {
    items(object.at("status").at("conditions")).find(|condition| text(condition.at("type")) == kind)
}

/// Whether the first condition of the type `kind` in the status is true.
pub(super) fn has_condition(object: Json<'_>, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition.at("status")) == "True")
}
