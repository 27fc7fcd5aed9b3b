//! OpenAPI documents and schemas of the built-in kinds, out of k8s-openapi's schemars support.
//!
//! Names, texts and types are Kubernetes' own; k8s-openapi drops list types, defaults and formats of quantities, so a
//! cluster's own document has more. Operations are those that a folder serves: list and get.
//! Selectable fields are added by `openapi::selectable`.

use std::sync::OnceLock;

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, ObjectMeta, Patch, Status};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::served::{self, ServedKind, served_kinds};
use crate::model::GroupVersion;
use crate::openapi::{GROUP_VERSION_KIND, META_V1, OpenApiVersion, Shared, definitions, operations, v2, v3};

type Object = Map<String, Value>;

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// Definitions of core/v1 whose `name` is optional, because Kubernetes defaults it to the empty string. k8s-openapi
/// requires it.
const NAME_IS_OPTIONAL: [&str; 8] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];
/// The media types of responses.
const PRODUCES: &[&str] = &["application/json"];

/// The minor version of Kubernetes whose schemas these are. Later versions have more fields.
pub const MINOR: u64 = 36;

/// The definitions and descriptions that the documents of custom resources share in folder mode.
pub fn shared() -> Shared<'static> {
    Shared { definitions: published(), parameters: parameters() }
}

/// Definitions by name as OpenAPI v3 publishes them: every kind, its list, and the definitions that they refer to.
pub fn published() -> &'static Object {
    static PUBLISHED: OnceLock<Object> = OnceLock::new();
    PUBLISHED.get_or_init(|| {
        let mut published: Object = generated()
            .iter()
            .map(|(name, definition)| {
                let mut definition = wrap_references(definition);
                if let (Some(either), Value::Object(definition)) = (int_or_string(name), &mut definition) {
                    definition.remove(INT_OR_STRING);
                    definition.extend(either);
                }
                (name.clone(), definition)
            })
            .collect();
        for kind in served_kinds() {
            let list = list_schema(kind, &published);
            published.insert(list_definition(kind), list);
            if let Some(Value::Object(definition)) = published.get_mut(&*kind.definition()) {
                definition.insert(GROUP_VERSION_KIND.to_owned(), json!([group_version_kind(kind, kind.row.kind)]));
            }
        }
        let delete_options = served::group_versions().into_iter().map(|group_version| {
            json!({"group": group_version.group, "version": group_version.version, "kind": "DeleteOptions"})
        });
        for (name, kinds) in [
            (format!("{META_V1}.DeleteOptions"), delete_options.collect()),
            (format!("{META_V1}.Status"), json!([{"group": "", "version": "v1", "kind": "Status"}])),
            (operations::SCALE.to_owned(), json!([{"group": "autoscaling", "version": "v1", "kind": "Scale"}])),
        ] {
            if let Some(Value::Object(definition)) = published.get_mut(&name) {
                definition.insert(GROUP_VERSION_KIND.to_owned(), kinds);
            }
        }
        published
    })
}

/// The OpenAPI v3 document of a built-in group-version; `None` if folder mode serves no kind of it.
pub fn v3_document(group_version: &GroupVersion) -> Option<Value> {
    let of_group = || served_kinds().iter().filter(|kind| kind.group_version() == *group_version);
    of_group().next()?;
    let mut own = Object::new();
    let mut paths = Object::new();
    for kind in of_group() {
        for name in [kind.definition().into_owned(), list_definition(kind)] {
            own.extend(published().get(&name).map(|definition| (name, definition.clone())));
        }
        paths.extend(operations_of(kind).into_iter().map(|path| (path.path.clone(), v3::path_item(&path))));
    }
    let mut document = v3::document(info(), paths, own, &shared());
    document["components"]["securitySchemes"] = json!({"BearerToken": bearer_token()});
    Some(document)
}

/// The Swagger 2 document of all built-in kinds: the base into which custom resources are merged.
pub fn v2_document() -> Value {
    let mut paths = Object::new();
    for kind in served_kinds() {
        paths.extend(operations_of(kind).into_iter().map(|path| (path.path.clone(), v2::path_item(&path))));
    }
    let definitions = published().iter().map(|(name, definition)| (name.clone(), v2::from_v3(definition))).collect();
    let mut document = json!({
        "swagger": "2.0",
        "info": info(),
        "paths": {},
        "security": [{"BearerToken": []}],
        "securityDefinitions": {"BearerToken": bearer_token()},
    });
    v2::merge_parts(&mut document, paths, definitions);
    document
}

/// The schema of a built-in kind with every reference resolved, without descriptions: for checking, pruning and
/// defaulting objects of a folder. Where a schema contains itself (JSONSchemaProps) the inner one preserves unknown
/// fields. `None` if folder mode does not serve the kind.
pub fn structural_schema(group: &str, version: &str, kind: &str) -> Option<Value> {
    let name = served::find(group, version, kind)?.definition();
    Some(resolve(generated().get(&*name)?, &mut vec![name.into_owned()]))
}

/// Descriptions of query parameters, written for fieldcache.
pub fn parameters() -> &'static Object {
    static PARAMETERS: OnceLock<Object> = OnceLock::new();
    PARAMETERS.get_or_init(|| {
        let texts = [
            ("allowWatchBookmarks", "Requests BOOKMARK events in a watch. A server may send none."),
            (
                "continue",
                "The continue token of the previous page. The other parameters must be the same as in that request.",
            ),
            ("dryRun", "With the value All, the request is processed and nothing is stored."),
            ("fieldManager", "The name of the actor that makes the change."),
            ("fieldSelector", "Selects objects by the values of their fields. Defaults to everything."),
            ("fieldValidation", "How the server handles unknown or duplicate fields: Ignore, Warn or Strict."),
            ("force", "Takes over fields that other field managers own. Only for apply patches."),
            ("gracePeriodSeconds", "Seconds until the object is deleted; zero deletes it at once."),
            (
                "ignoreStoreReadErrorWithClusterBreakingPotential",
                "Deletes an object that cannot be decoded and ignores its finalizers. Unsafe.",
            ),
            ("labelSelector", "Selects objects by their labels. Defaults to everything."),
            ("limit", "The maximum number of items in one response. To get the next items, use continue."),
            (
                "orphanDependents",
                "Deprecated: use propagationPolicy. Whether dependents remain when the object is deleted.",
            ),
            ("pretty", "If true, the response is indented."),
            ("propagationPolicy", "What happens to dependents: Orphan, Background or Foreground."),
            ("resourceVersion", "The minimum version of the response, or its exact version."),
            ("resourceVersionMatch", "How the server uses resourceVersion: Exact or NotOlderThan."),
            ("sendInitialEvents", "Starts a watch with an event for each existing object, and then a BOOKMARK event."),
            ("shardSelector", "Selects a shard of the objects by a hash of their identity."),
            ("timeoutSeconds", "The timeout of a list or watch, in seconds."),
            ("watch", "Returns a stream of events instead of a list."),
        ];
        texts.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text))).collect()
    })
}

/// Definitions as k8s-openapi writes them, with references of OpenAPI v3 and with the `required` lists of Kubernetes.
fn generated() -> &'static Object {
    static GENERATED: OnceLock<Object> = OnceLock::new();
    GENERATED.get_or_init(|| {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        let mut generator = settings.into_generator();
        for kind in served_kinds() {
            (kind.served.add_schema)(&mut generator);
        }
        generator.subschema_for::<ObjectMeta>();
        generator.subschema_for::<ListMeta>();
        generator.subschema_for::<DeleteOptions>();
        generator.subschema_for::<Patch>();
        generator.subschema_for::<Status>();
        generator.subschema_for::<Scale>();
        let mut generated = generator.take_definitions(false);
        for kind in served_kinds() {
            change_required(&mut generated, &kind.definition(), |required| required.retain(|name| name != "metadata"));
        }
        for name in NAME_IS_OPTIONAL {
            change_required(&mut generated, &format!("io.k8s.api.core.v1.{name}"), |required| {
                required.retain(|property| property != "name");
            });
        }
        change_required(&mut generated, "io.k8s.api.core.v1.Event", |required| {
            required.insert(0, Value::from("metadata"));
        });
        change_required(&mut generated, "io.k8s.api.events.v1.Event", |required| {
            required.push(Value::from("eventTime"));
        });
        generated
    })
}

/// Applies `change` to the `required` list of the definition `name`, and removes the list if it is empty then. Does
/// nothing if there is no such definition.
fn change_required(definitions: &mut Object, name: &str, change: impl FnOnce(&mut Vec<Value>)) {
    let Some(Value::Object(definition)) = definitions.get_mut(name) else { return };
    let Value::Array(required) = definition.entry("required").or_insert_with(|| json!([])) else { return };
    change(required);
    if required.is_empty() {
        definition.remove("required");
    }
}

/// The paths of a kind in an OpenAPI document, with the operations that a folder serves.
fn operations_of(kind: &ServedKind) -> Vec<operations::Path> {
    let resource = operations::PublishedResource {
        group: kind.row.group,
        version: kind.version,
        kind: kind.row.kind,
        plural: kind.row.plural,
        scope: kind.row.scope,
        definition: &kind.definition(),
        list_definition: &list_definition(kind),
        produces: PRODUCES,
    };
    operations::read_only(&resource, parameters())
}

/// The definition of a list of a kind. `published` has the definition of its items.
fn list_schema(kind: &ServedKind, published: &Object) -> Value {
    let shared = Shared { definitions: published, parameters: parameters() };
    let items = format!("List of {}.", kind.row.plural);
    let mut list =
        definitions::list_of(kind.row.kind, kind.list_kind(), &kind.definition(), &items, OpenApiVersion::V3, &shared);
    list.insert(GROUP_VERSION_KIND.to_owned(), json!([group_version_kind(kind, kind.list_kind())]));
    Value::Object(list)
}

/// The name of the definition of a list of a kind, such as `io.k8s.api.core.v1.PodList`.
fn list_definition(kind: &ServedKind) -> String {
    let definition = kind.definition();
    let package = definition.strip_suffix(kind.row.kind).unwrap_or(&definition);
    format!("{package}{}", kind.list_kind())
}

/// An entry of `x-kubernetes-group-version-kind`. `name` is the kind of the objects, or of their list.
fn group_version_kind(kind: &ServedKind, name: &str) -> Value {
    json!({"group": kind.row.group, "version": kind.version, "kind": name})
}

/// The `info` of a document, with the version of Kubernetes whose types k8s-openapi has.
fn info() -> Value {
    json!({"title": "Kubernetes", "version": "1.36"})
}

/// The security scheme `BearerToken`.
fn bearer_token() -> Value {
    json!({"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"})
}

/// A copy of a schema in which each `$ref` with other keywords beside it is in an `allOf`, as OpenAPI 3.0 requires.
fn wrap_references(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut wrapped: Object =
                object.iter().map(|(key, member)| (key.clone(), wrap_references(member))).collect();
            if wrapped.len() > 1
                && let Some(reference) = wrapped.get("$ref").filter(|reference| reference.is_string()).cloned()
            {
                wrapped.remove("$ref");
                wrapped.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            Value::Object(wrapped)
        }
        Value::Array(items) => items.iter().map(wrap_references).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other.clone(),
    }
}

/// The keywords of the two definitions whose values are a string or a number, as Kubernetes publishes them. `None` for
/// the name of any other definition.
fn int_or_string(name: &str) -> Option<Object> {
    let published = match name {
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        QUANTITY => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        _ => return None,
    };
    published.as_object().cloned()
}

/// A copy of a schema without descriptions, and with definitions in the place of references. `open` has the names of
/// the definitions that contain this value. A reference to one of them, or to an unknown definition, becomes a schema
/// that preserves unknown fields.
fn resolve(value: &Value, open: &mut Vec<String>) -> Value {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get("$ref") {
                let name = reference.strip_prefix(OpenApiVersion::V3.reference_prefix()).unwrap_or(reference);
                let Some(definition) = generated().get(name).filter(|_| !open.iter().any(|above| above == name)) else {
                    return json!({"x-kubernetes-preserve-unknown-fields": true});
                };
                open.push(name.to_owned());
                let resolved = resolve(definition, open);
                open.pop();
                return resolved;
            }
            let mut resolved = Object::new();
            for (key, member) in object {
                match (key.as_str(), member) {
                    // The names of properties are not keywords: one can be `description` or `$ref`.
                    ("properties", Value::Object(properties)) => {
                        let properties: Object =
                            properties.iter().map(|(name, property)| (name.clone(), resolve(property, open))).collect();
                        resolved.insert(key.clone(), Value::Object(properties));
                    }
                    ("description", _) => {}
                    _ => {
                        resolved.insert(key.clone(), resolve(member, open));
                    }
                }
            }
            Value::Object(resolved)
        }
        Value::Array(items) => items.iter().map(|item| resolve(item, open)).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other.clone(),
    }
}
