//! The metadata that folder mode adds to an object of a file, as a server would set it.
//!
//! Pure: the modification time is passed in as a number. [`super::folder`] validates objects and assigns versions.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The uid of an object: a UUID made of the SHA-256 of group, kind, namespace and name, so that it survives a restart.
/// Version 8 of RFC 9562 is the one for values made up by an application.
pub fn uid(group: &str, kind: &str, namespace: &str, name: &str) -> String {
    // None of the four can contain a slash, so different objects have different texts.
    let digest = Sha256::digest(format!("{group}/{kind}/{namespace}/{name}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts =
        [&hexadecimal[..8], &hexadecimal[8..12], &hexadecimal[12..16], &hexadecimal[16..20], &hexadecimal[20..]];
    parts.join("-")
}

/// Seconds since 1970 as Kubernetes writes times: `2006-01-02T15:04:05Z`. A time out of range is the year 1970.
pub fn timestamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// A time as Kubernetes writes it, from RFC 3339 text; `None` for anything else.
pub fn normal_timestamp(text: &str) -> Option<String> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(timestamp(time.as_second()))
}

/// `metadata` of an object, created if it is missing; `None` when it is not an object.
pub fn metadata_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let members = object.as_object_mut()?;
    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut()
}

/// A string of `metadata`; empty when it is missing or another type.
pub fn metadata_text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// Fills in what the API server would have written into a CustomResourceDefinition: missing names, the conversion, and
/// a status with the condition Established, for which clients wait. `singular` and `list_kind` are the defaults of
/// `spec.names`. `time` is the transition time of the conditions.
pub fn establish(crd: &mut Value, singular: &str, list_kind: &str, time: &str) {
    let stored: Vec<Value> = crd["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == Value::Bool(true))
        .map(|version| version["name"].clone())
        .collect();
    if let Some(names) = crd.pointer_mut("/spec/names").and_then(Value::as_object_mut) {
        names.entry("singular").or_insert_with(|| Value::from(singular));
        names.entry("listKind").or_insert_with(|| Value::from(list_kind));
    }
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    }
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": time});
    let accepted_names = crd["spec"]["names"].clone();
    if let Some(members) = crd.as_object_mut() {
        members.insert(
            "status".to_owned(),
            json!({
                "acceptedNames": accepted_names,
                "conditions": [
                    condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                    condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
                ],
                "storedVersions": stored,
            }),
        );
    }
}
