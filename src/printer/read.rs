//! Members of an object as Go reads them into a struct: what is absent, null or of another type is the zero value.

use serde_json::Value;

/// A text, or the empty one.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text, or `otherwise` where it is absent or empty.
pub(super) fn text_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    Some(text(value)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

/// A text, or `otherwise` where it is absent: a pointer in Go, so that an empty text is one.
pub(super) fn pointer_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    value.as_str().unwrap_or(otherwise)
}

/// A number, or 0.
pub(super) fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// A number or a text as a text (apimachinery `util/intstr`).
pub(super) fn integer_or_string(value: &Value, otherwise: &str) -> String {
    match value {
        Value::Null => otherwise.to_owned(),
        Value::String(text) => text.clone(),
        _ => integer(value).to_string(),
    }
}

/// True where it is true.
pub(super) fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

/// The items of a list; none where there is no list.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The texts of a list.
pub(super) fn texts(value: &Value) -> Vec<&str> {
    items(value).iter().map(text).collect()
}

/// The members of a map, in no order that matters.
pub(super) fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, member)| (key.as_str(), member))
}

/// How many items or members there are.
pub(super) fn count(value: &Value) -> i64 {
    let count = match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    };
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Whether a pointer in Go would point to something.
pub(super) fn is_set(value: &Value) -> bool {
    !value.is_null()
}

/// The cell of an object's name.
pub(super) fn name(object: &Value) -> Value {
    Value::from(text(&object["metadata"]["name"]))
}

/// Whether deletion has begun.
pub(super) fn is_going(object: &Value) -> bool {
    is_set(&object["metadata"]["deletionTimestamp"])
}

/// The first condition of that type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(&object["status"]["conditions"]).iter().find(|condition| text(&condition["type"]) == kind)
}

/// Whether the first condition of that type is true.
pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(&condition["status"]) == "True")
}
