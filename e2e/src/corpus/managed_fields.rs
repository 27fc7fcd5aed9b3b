//! The managedFields kube-apiserver would record for an object, so that a stored form has its real size and shape.
//!
//! It walks a document as structured-merge-diff does when an object is created. A member is `f:NAME`; an item of a list
//! that is a map is `k:KEYS`; other lists, and scalars, are leaves. The object that did not exist before still has its
//! Go structs, so those parts have no `.` of their own; [`Shape`] says which.

use serde_json::{Map, Value, json};

/// What the schema of a kind says about its lists and structs.
pub(super) struct Shape {
    /// Paths (`spec.containers.env`) of lists that are maps, with the names of their keys.
    pub(super) keyed_lists: &'static [(&'static str, &'static [&'static str])],
    /// Those of them whose items belong to one manager as a whole.
    pub(super) atomic_items: &'static [&'static str],
    /// Paths that exist in an empty object, so that creating it does not add them.
    pub(super) always_there: &'static [&'static str],
}

/// One entry of managedFields for `fields`, the parts of an object that `manager` wrote.
pub(super) fn entry(manager: &str, api_version: &str, time: &str, shape: &Shape, fields: &Value) -> Value {
    json!({
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": members("", fields, shape),
        "manager": manager,
        "operation": "Update",
        "time": time,
    })
}

fn members(path: &str, value: &Value, shape: &Shape) -> Value {
    let mut owned = Map::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        owned.insert(format!("f:{name}"), node(&path, value, shape));
    }
    Value::Object(owned)
}

fn node(path: &str, value: &Value, shape: &Shape) -> Value {
    let keys = shape.keyed_lists.iter().find(|(list, _)| *list == path).map(|(_, keys)| *keys);
    let mut owned = match (value, keys) {
        (Value::Object(fields), _) if !fields.is_empty() => members(path, value, shape),
        (Value::Array(items), Some(keys)) => {
            let mut owned = Map::new();
            for item in items {
                let chosen: Map<String, Value> = keys.iter().map(|&key| (key.to_owned(), item[key].clone())).collect();
                let mut inner = json!({});
                if !shape.atomic_items.contains(&path) {
                    inner = members(path, item, shape);
                    inner["."] = json!({});
                }
                owned.insert(format!("k:{}", Value::Object(chosen)), inner);
            }
            Value::Object(owned)
        }
        _ => return json!({}),
    };
    if !shape.always_there.contains(&path) {
        owned["."] = json!({});
    }
    owned
}
