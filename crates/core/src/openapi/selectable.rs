//! Adds `x-kubernetes-selectable-fields` to documents of a cluster and to schemas of built-in kinds, and the fields of
//! FieldCaches to any document. KEP-4358, "OpenAPI": kube-apiserver publishes the extension for custom resources only.
//!
//! Published entries stay, and those of a FieldCache follow them. A definition of several kinds (DeleteOptions) gets no
//! entries, because the fields of one kind would be wrong for another.

use serde_json::{Map, Value, json};

use super::{GROUP_VERSION_KIND, SELECTABLE_FIELDS, SelectableEntry};

/// Returns the entries of a kind, by group, version and kind; `None` for an unknown kind.
pub type Lookup<'a> = dyn Fn(&str, &str, &str) -> Option<Vec<SelectableEntry>> + 'a;

/// The value of the extension.
pub fn extension(entries: &[SelectableEntry]) -> Value {
    let list = entries.iter().map(|entry| {
        let mut object = Map::from_iter([("fieldPath".to_owned(), Value::from(&*entry.field_path))]);
        object.extend(entry.default.as_deref().map(|text| ("default".to_owned(), Value::from(text))));
        object.extend(entry.description.as_deref().map(|text| ("description".to_owned(), Value::from(text))));
        Value::Object(object)
    });
    Value::Array(list.collect())
}

/// The value of the extension for a custom resource: each path without its leading dot, in the CRD's order. `None` when
/// there is no field: the extension is then absent, never empty (apiextensions-apiserver `buildSelectableFields`).
pub fn of_custom_resource(json_paths: &[String]) -> Option<Value> {
    let entries = json_paths.iter().map(|path| json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)}));
    (!json_paths.is_empty()).then(|| Value::Array(entries.collect()))
}

/// Adds the extension to the definitions of a document, v2 or v3, that have exactly one kind, and do not have the
/// extension yet. `lookup` has the entries of a kind; a list kind gets those of its items. Returns how many definitions
/// were changed.
pub fn annotate(document: &mut Value, lookup: &Lookup<'_>) -> usize {
    let mut changed = 0;
    for place in ["/definitions", "/components/schemas"] {
        let Some(Value::Object(definitions)) = document.pointer_mut(place) else { continue };
        for definition in definitions.values_mut() {
            let Value::Object(definition) = definition else { continue };
            if definition.contains_key(SELECTABLE_FIELDS) {
                continue;
            }
            if let Some(entries) = entries_of(definition, lookup) {
                definition.insert(SELECTABLE_FIELDS.to_owned(), extension(&entries));
                changed += 1;
            }
        }
    }
    changed
}

/// Like [`annotate`], but appends the entries to those that definitions already have. Used for the fields that a
/// FieldCache makes selectable. Returns how many definitions were changed.
pub fn append(document: &mut Value, lookup: &Lookup<'_>) -> usize {
    let mut changed = 0;
    for place in ["/definitions", "/components/schemas"] {
        let Some(Value::Object(definitions)) = document.pointer_mut(place) else { continue };
        for definition in definitions.values_mut() {
            let Value::Object(definition) = definition else { continue };
            let Some(entries) = entries_of(definition, lookup) else { continue };
            let published = definition.entry(SELECTABLE_FIELDS).or_insert_with(|| json!([]));
            if let (Value::Array(published), Value::Array(added)) = (published, extension(&entries)) {
                published.extend(added);
                changed += 1;
            }
        }
    }
    changed
}

/// The entries for a definition, those of the item kind for a list kind. `None` if it does not have exactly one kind,
/// or if `lookup` has no entries.
fn entries_of(definition: &Map<String, Value>, lookup: &Lookup<'_>) -> Option<Vec<SelectableEntry>> {
    let Some([kinds]) = definition.get(GROUP_VERSION_KIND).and_then(Value::as_array).map(Vec::as_slice) else {
        return None;
    };
    let text = |key: &str| kinds.get(key).and_then(Value::as_str);
    let (group, version, kind) = (text("group")?, text("version")?, text("kind")?);
    lookup(group, version, kind)
        .or_else(|| kind.strip_suffix("List").and_then(|item_kind| lookup(group, version, item_kind)))
        .filter(|entries| !entries.is_empty())
}
