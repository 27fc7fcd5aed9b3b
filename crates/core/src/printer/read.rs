//! Members of an object as Go reads them into a struct: absent, null and other types are the zero value.

use std::borrow::Cow;

use serde_json::Value;

use crate::json::Json;

/// A text, or the empty one.
pub(super) fn text(value: Json<'_>) -> Cow<'_, str> {
    value.as_str().unwrap_or_default()
}

/// A text, or `otherwise` where it is absent or empty.
pub(super) fn text_or<'a>(value: Json<'a>, otherwise: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or_else(|| otherwise.into())
}

/// A text, or `otherwise` where it is absent: a pointer in Go, so that an empty text is one.
pub(super) fn pointer_or<'a>(value: Json<'a>, otherwise: &'a str) -> Cow<'a, str> {
    value.as_str().unwrap_or(Cow::Borrowed(otherwise))
}

/// A number, or 0.
pub(super) fn integer(value: Json<'_>) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// A number or a text as a text (apimachinery `util/intstr`).
pub(super) fn integer_or_string(value: Json<'_>, otherwise: &str) -> String {
    match value.as_str() {
        Some(text) => text.into_owned(),
        None if value.is_null() => otherwise.to_owned(),
        None => integer(value).to_string(),
    }
}

/// True where it is true.
pub(super) fn flag(value: Json<'_>) -> bool {
    value.as_bool().unwrap_or_default()
}

/// The items of a list; none where there is no list.
pub(super) fn items(value: Json<'_>) -> impl Iterator<Item = Json<'_>> + Clone {
    value.items()
}

/// Whether a list has no items.
pub(super) fn is_empty(value: Json<'_>) -> bool {
    items(value).next().is_none()
}

/// The texts of a list.
pub(super) fn texts(value: Json<'_>) -> Vec<Cow<'_, str>> {
    let mut texts = Vec::with_capacity(value.count());
    texts.extend(items(value).map(text));
    texts
}

/// The members of a map in the order of their keys.
pub(super) fn members(value: Json<'_>) -> impl Iterator<Item = (Cow<'_, str>, Json<'_>)> + Clone {
    value.members()
}

/// How many items or members there are.
pub(super) fn count(value: Json<'_>) -> i64 {
    i64::try_from(value.count()).unwrap_or(i64::MAX)
}

/// Whether a pointer in Go would point to something.
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

/// The first condition of that type.
pub(super) fn condition<'a>(object: Json<'a>, kind: &str) -> Option<Json<'a>> {
    items(object.at("status").at("conditions")).find(|condition| text(condition.at("type")) == kind)
}

/// Whether the first condition of that type is true.
pub(super) fn has_condition(object: Json<'_>, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition.at("status")) == "True")
}
