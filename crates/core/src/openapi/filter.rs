//! Reduces a document to the resources and fields that a View shows.
//!
//! The result has only the paths of the View's resources, with reading methods, and only the parameters and definitions
//! that these refer to. The schemas of these resources have no pruned field. Definitions that they refer to stay whole,
//! because those are public. Nothing is rebuilt: the remaining parts are as in the whole document.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{GROUP_VERSION_KIND, SELECTABLE_FIELDS, reachable};
use crate::extract::prune::PrunedPart;
use crate::extract::{Extractor, Prune};

/// A resource of a View, with the parts of its schema that the View does not show.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub struct FilteredResource {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub kind: String,
    pub list_kind: String,
    /// The paths that are pruned from its objects.
    pub prune: Arc<Prune>,
    /// The selectable fields that the View shows. All Views of a resource share its large parts.
    pub extractor: Extractor,
}

/// The resources of a View.
#[derive(Clone, Debug, Default)]
pub struct DocumentFilter(Vec<FilteredResource>);

impl DocumentFilter {
    /// A filter that keeps only these resources.
    pub fn new(resources: impl IntoIterator<Item = FilteredResource>) -> DocumentFilter {
        DocumentFilter(resources.into_iter().collect())
    }

    /// Whether the v3 document with this key, such as `apis/apps/v1`, has one of the resources.
    pub fn has_document(&self, key: &str) -> bool {
        self.0.iter().any(|resource| resource.document_key() == key)
    }

    /// Reduces a document, Swagger 2 or OpenAPI v3, to the resources of the View.
    pub fn apply(&self, mut document: Value) -> Value {
        if let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) {
            paths.retain(|path, _| self.0.iter().any(|resource| resource.has_path(path)));
            for item in paths.values_mut().filter_map(Value::as_object_mut) {
                item.retain(|member, _| matches!(member.as_str(), "get" | "parameters"));
            }
        }
        let paths = document.get("paths").cloned().unwrap_or_default();
        if let Some(shared) = document.get_mut("parameters").and_then(Value::as_object_mut) {
            // The bodies of writing methods are among them. They refer to definitions that the result does not have.
            let used = used_parameters(&paths);
            shared.retain(|name, _| used.contains(&**name));
        }
        for place in ["/definitions", "/components/schemas"] {
            let Some(Value::Object(definitions)) = document.pointer_mut(place) else { continue };
            let mut own = Map::new();
            for (name, definition) in definitions.iter() {
                let Some((resource, is_list)) = self.of_definition(definition) else { continue };
                let mut definition = definition.clone();
                resource.keep_shown_fields(&mut definition);
                if !is_list {
                    leave_out(&mut definition, &resource.prune);
                }
                own.insert(name.clone(), definition);
            }
            let roots = Value::Object(own.clone());
            let mut all = std::mem::take(definitions);
            all.extend(own);
            // A kind that no path or other definition refers to is not in the result of `reachable`.
            *definitions = reachable(&[&paths, &roots], &all);
            definitions.extend(roots.as_object().cloned().unwrap_or_default());
        }
        document
    }

    /// The resource whose kind or list kind a definition describes, and whether it is the list kind. `None` for other
    /// definitions, and for those of several kinds.
    fn of_definition(&self, definition: &Value) -> Option<(&FilteredResource, bool)> {
        let [kind] = &definition.get(GROUP_VERSION_KIND)?.as_array()?[..] else { return None };
        let is = |member: &str, text: &str| kind.get(member).and_then(Value::as_str) == Some(text);
        self.0.iter().find_map(|resource| {
            let is_version = is("group", &resource.group) && is("version", &resource.version);
            let is_list = is("kind", &resource.list_kind);
            (is_version && (is_list || is("kind", &resource.kind))).then_some((resource, is_list))
        })
    }
}

/// The names of the shared parameters of a Swagger 2 document that its paths refer to.
fn used_parameters(paths: &Value) -> BTreeSet<&str> {
    let items = paths.as_object().into_iter().flat_map(Map::values);
    let lists = items.flat_map(|item| [item.get("parameters"), item.pointer("/get/parameters")]).flatten();
    let parameters = lists.filter_map(Value::as_array).flatten();
    parameters.filter_map(|parameter| parameter.get("$ref")?.as_str()?.strip_prefix("#/parameters/")).collect()
}

impl FilteredResource {
    /// The key of the v3 document that publishes the resource, such as `apis/apps/v1`.
    fn document_key(&self) -> String {
        match &*self.group {
            "" => format!("api/{}", self.version),
            group => format!("apis/{group}/{}", self.version),
        }
    }

    /// Whether a path of a document is one that a View serves for the resource: the collection, an object or its
    /// status. Each may also be a path of the older watch API, with `/watch` before the resource.
    fn has_path(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix('/').and_then(|path| path.strip_prefix(&*self.document_key())) else {
            return false;
        };
        let rest = rest.strip_prefix("/watch").unwrap_or(rest);
        let rest = rest.strip_prefix("/namespaces/{namespace}").filter(|rest| !rest.is_empty()).unwrap_or(rest);
        let Some(rest) = rest.strip_prefix('/').and_then(|rest| rest.strip_prefix(&*self.resource)) else {
            return false;
        };
        matches!(rest, "" | "/{name}" | "/{name}/status")
    }

    /// Removes the selectable fields that the View does not show from a definition, and the extension if none remains.
    fn keep_shown_fields(&self, definition: &mut Value) {
        let Some(Value::Array(entries)) = definition.get_mut(SELECTABLE_FIELDS) else { return };
        entries.retain(|entry| {
            let path = entry.get("fieldPath").and_then(Value::as_str).unwrap_or_default();
            matches!(path, "metadata.name" | "metadata.namespace")
                || self.extractor.offered().any(|field| field.label == path)
        });
        if entries.is_empty()
            && let Some(members) = definition.as_object_mut()
        {
            members.remove(SELECTABLE_FIELDS);
        }
    }
}

/// The keywords that may contain names or values of an object's fields.
const RULES: [&str; 7] = ["anyOf", "default", "enum", "example", "not", "oneOf", "x-kubernetes-validations"];

/// The keyword for the fields by which the elements of a list are merged.
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";

/// Removes the fields that are pruned from objects from their schema. Keywords that may name such a field are removed
/// too. References are not followed: they lead to public definitions, such as that of metadata.
fn leave_out(schema: &mut Value, prune: &Prune) {
    let Value::Object(schema) = schema else { return };
    if prune.is_empty() {
        return;
    }
    schema.retain(|member, _| !RULES.contains(&member.as_str()));
    if let Some(Value::Array(branches)) = schema.get_mut("allOf") {
        branches.retain(|branch| branch.get("$ref").is_some());
        if branches.is_empty() {
            schema.remove("allOf");
        }
    }
    let is_pruned = |key: &Value| key.as_str().is_none_or(|name| prune.part(name).is_some());
    // Without one of its keys, elements of a list cannot be merged.
    if schema.get(LIST_KEYS).and_then(Value::as_array).is_some_and(|keys| keys.iter().any(is_pruned)) {
        schema.remove(LIST_KEYS);
        schema.remove("x-kubernetes-list-type");
    }
    for place in ["items", "additionalProperties"] {
        if let Some(inside) = schema.get_mut(place) {
            leave_out(inside, prune);
        }
    }
    let is_shown = |name: &str| !matches!(prune.part(name), Some(PrunedPart::Whole));
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|key| key.as_str().is_none_or(is_shown));
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    properties.retain(|name, _| is_shown(name));
    for (name, part) in prune.parts() {
        if let (PrunedPart::Inside(inside), Some(property)) = (part, properties.get_mut(name)) {
            leave_out(property, inside);
        }
    }
}
