//! Paths, operations and parameters of a resource, before they are written in one of the two document forms.
//! apiextensions-apiserver `pkg/controller/openapi/builder/builder.go` and apiserver
//! `pkg/endpoints/openapi/openapi.go`.
//!
//! Clients find a kind by the operations of its paths: a document with definitions alone is useless to kubectl explain.
//! [`v2`](super::v2) and [`v3`](super::v3) write a [`Path`] in different shapes with the same content.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{GROUP_VERSION_KIND, META_V1, definition_name};
use crate::crd::{Crd, CrdVersion};
use crate::model::Scope;

/// Definition of the body and the response of `/scale`.
pub const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// One path with its operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Such as `/apis/stable.example.com/v1/namespaces/{namespace}/shirts`.
    pub path: String,
    /// Parameters that every operation of the path has.
    pub parameters: Vec<Parameter>,
    /// The operations, without the parameters of the path.
    pub operations: Vec<Operation>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// HTTP method in lower case: the key in the path item.
    pub method: &'static str,
    /// `x-kubernetes-action`.
    pub action: &'static str,
    /// operationId, unique in a document.
    pub id: String,
    /// Tag, such as `apps_v1`.
    pub tag: String,
    /// The description for users.
    pub description: String,
    /// Parameters in the order of their names.
    pub parameters: Vec<Parameter>,
    /// The body, if it takes one.
    pub body: Option<RequestBody>,
    /// Media types of the body; Swagger 2 lists them even for an operation without a body.
    pub consumes: &'static [&'static str],
    /// Media types of the response.
    pub produces: &'static [&'static str],
    /// Status code, reason phrase, and the name of the definition of the response; `None` for a response without one.
    pub responses: Vec<(&'static str, &'static str, Option<String>)>,
    /// `x-kubernetes-group-version-kind`.
    pub kind: Value,
}

/// A request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestBody {
    /// Name of the definition.
    pub definition: String,
    /// Whether the server rejects a request without it.
    pub required: bool,
}

/// A query or path parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name.
    pub name: &'static str,
    /// `query` or `path`.
    pub place: &'static str,
    /// `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// Text; empty when there is none.
    pub description: String,
}

/// A resource to write paths for.
#[derive(Clone, Copy, Debug)]
pub struct PublishedResource<'a> {
    /// Group, empty for core.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Plural name.
    pub plural: &'a str,
    /// Scope.
    pub scope: Scope,
    /// Name of the definition of one object.
    pub definition: &'a str,
    /// Name of the definition of a list.
    pub list_definition: &'a str,
    /// Media types of responses.
    pub produces: &'static [&'static str],
}

const JSON_OR_YAML: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

// The query parameters of the verbs, with their types, without `pretty`.
const GET: &[(&str, &str)] = &[("resourceVersion", "string")];
const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: &[(&str, &str)] = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// An operation on a resource: HTTP method, `x-kubernetes-action`, the verb in its description and id, and the names
/// and types of its query parameters.
type Verb = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const LIST_OR_WATCH_VERB: Verb = ("get", "list", "list or watch", LIST);
const LIST_VERB: Verb = ("get", "list", "list", LIST);
const COLLECTION_VERBS: &[Verb] =
    &[LIST_VERB, ("post", "post", "create", WRITE), ("delete", "deletecollection", "delete collection of", LIST)];
const GET_VERB: Verb = ("get", "get", "read", GET);
const OBJECT_VERBS: &[Verb] = &[
    GET_VERB,
    ("put", "put", "replace", WRITE),
    ("patch", "patch", "patch", PATCH),
    ("delete", "delete", "delete", DELETE),
];
const SUBRESOURCE_VERBS: &[Verb] = &[GET_VERB, ("put", "put", "replace", WRITE), ("patch", "patch", "patch", PATCH)];

/// All paths of one version of a custom resource. `descriptions` are those of query parameters: see
/// [`Shared::parameters`](super::Shared::parameters).
pub fn of_version(crd: &Crd, version: &CrdVersion, descriptions: &Map<String, Value>) -> Vec<Path> {
    let definition = definition_name(&crd.group, &version.name, &crd.names.kind);
    let list_definition = definition_name(&crd.group, &version.name, &crd.names.list_kind);
    let resource = PublishedResource {
        group: &crd.group,
        version: &version.name,
        kind: &crd.names.kind,
        plural: &crd.names.plural,
        scope: crd.scope,
        definition: &definition,
        list_definition: &list_definition,
        produces: JSON_OR_YAML,
    };
    let writer = Writer { resource: &resource, descriptions };
    let mut paths = writer.collections(COLLECTION_VERBS, &[LIST_VERB]);
    paths.push(writer.path(Target::Object { subresource: "" }, OBJECT_VERBS));
    if version.has_status {
        paths.push(writer.path(Target::Object { subresource: "status" }, SUBRESOURCE_VERBS));
    }
    if version.scale.is_some() {
        paths.push(writer.path(Target::Object { subresource: "scale" }, SUBRESOURCE_VERBS));
    }
    paths
}

/// The paths of a built-in resource that can only be read: list and get. Upstream describes them in other words than
/// those of a custom resource, and takes no resourceVersion when one object is requested.
pub fn read_only(resource: &PublishedResource<'_>, descriptions: &Map<String, Value>) -> Vec<Path> {
    let writer = Writer { resource, descriptions };
    let mut paths = writer.collections(&[LIST_OR_WATCH_VERB], &[LIST_OR_WATCH_VERB]);
    paths.push(writer.path(Target::Object { subresource: "" }, &[("get", "get", "read", &[])]));
    paths
}

/// The objects that a path is about.
#[derive(Clone, Copy)]
enum Target {
    /// All objects of a namespaced resource, in all namespaces.
    Everywhere,
    /// The objects of one namespace, or all objects of a cluster-scoped resource.
    Collection,
    /// One object, or a subresource of it if that is not empty.
    Object { subresource: &'static str },
}

/// Makes the paths of one resource.
struct Writer<'a> {
    resource: &'a PublishedResource<'a>,
    descriptions: &'a Map<String, Value>,
}

impl Writer<'_> {
    /// The paths of a collection. A namespaced resource has one for a namespace, with the operations `verbs`, and one
    /// for all namespaces, with the operations `everywhere`. A cluster-scoped resource has one path, with `verbs`.
    fn collections(&self, verbs: &[Verb], everywhere: &[Verb]) -> Vec<Path> {
        let mut paths = vec![self.path(Target::Collection, verbs)];
        if self.resource.scope == Scope::Namespaced {
            paths.push(self.path(Target::Everywhere, everywhere));
        }
        paths
    }

    /// A path with these operations. Parameters that all of them have are parameters of the path, as upstream.
    fn path(&self, target: Target, verbs: &[Verb]) -> Path {
        let PublishedResource { group, version, plural, .. } = *self.resource;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let in_namespace = self.resource.scope == Scope::Namespaced && !matches!(target, Target::Everywhere);
        let namespace = if in_namespace { "/namespaces/{namespace}" } else { "" };
        let rest = match target {
            Target::Everywhere | Target::Collection => String::new(),
            Target::Object { subresource: "" } => "/{name}".to_owned(),
            Target::Object { subresource } => format!("/{{name}}/{subresource}"),
        };
        let mut operations: Vec<Operation> = verbs.iter().map(|verb| self.operation(target, verb)).collect();
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for parameter in operations.iter().flat_map(|operation| &operation.parameters) {
            *uses.entry(parameter.name).or_default() += 1;
        }
        let n_operations = operations.len();
        let is_common = |parameter: &Parameter| uses.get(parameter.name) == Some(&n_operations);
        let parameters =
            operations.first().map(|first| first.parameters.iter().filter(|one| is_common(one)).cloned().collect());
        let parameters = parameters.unwrap_or_default();
        for operation in &mut operations {
            operation.parameters.retain(|parameter| uses.get(parameter.name) != Some(&n_operations));
        }
        Path { path: format!("{root}{namespace}/{plural}{rest}"), parameters, operations }
    }

    /// One operation of a path.
    fn operation(&self, target: Target, verb: &Verb) -> Operation {
        let PublishedResource { group, version, kind, definition, list_definition, .. } = *self.resource;
        let (method, action, word, parameters) = *verb;
        let subresource = if let Target::Object { subresource } = target { subresource } else { "" };
        let object = if subresource == "scale" { SCALE } else { definition };
        let status = format!("{META_V1}.Status");
        let answer = match action {
            "list" => list_definition,
            "delete" | "deletecollection" => &status,
            _ => object,
        };
        let codes: &[(&str, &str)] = match action {
            "post" => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            "put" => &[("200", "OK"), ("201", "Created")],
            "delete" => &[("200", "OK"), ("202", "Accepted")],
            _ => &[("200", "OK")],
        };
        let mut responses: Vec<_> = codes.iter().map(|(code, text)| (*code, *text, Some(answer.to_owned()))).collect();
        responses.push(("401", "Unauthorized", None));
        let body = |definition: &str, required| Some(RequestBody { definition: definition.to_owned(), required });
        Operation {
            method,
            action,
            id: self.id(target, word, subresource),
            tag: tag(group, version),
            description: describe(action, word, subresource, kind),
            parameters: self.parameters(target, action, parameters),
            body: match action {
                "post" | "put" => body(object, true),
                "patch" => body(&format!("{META_V1}.Patch"), true),
                "delete" => body(&format!("{META_V1}.DeleteOptions"), false),
                _ => None,
            },
            consumes: if action == "patch" { PATCHES } else { JSON_OR_YAML },
            produces: self.resource.produces,
            responses,
            kind: json!({"group": group, "version": version, "kind": kind}),
        }
    }

    /// The operationId that kube-apiserver gives an operation. `word` is its verb, such as `list or watch`;
    /// `subresource` may be empty.
    fn id(&self, target: Target, word: &str, subresource: &str) -> String {
        let PublishedResource { group, version, kind, scope, .. } = *self.resource;
        let verb = word.split_once(' ').map_or(word, |(verb, _)| verb);
        let collection = if word.ends_with("collection of") { "Collection" } else { "" };
        let trimmed = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
        let (group, version) = (camel_case(trimmed, true), camel_case(version, true));
        let all = matches!(target, Target::Everywhere);
        let namespaced = if scope == Scope::Namespaced && !all { "Namespaced" } else { "" };
        let everywhere = if all { "ForAllNamespaces" } else { "" };
        let subresource = camel_case(subresource, true);
        camel_case(&format!("{verb}{group}{version}{collection}{namespaced}{kind}{subresource}{everywhere}"), false)
    }

    /// The parameters of an operation, by name. `own` has the names and types of its query parameters; `pretty` and
    /// those of the path are added.
    fn parameters(&self, target: Target, action: &str, own: &[(&'static str, &'static str)]) -> Vec<Parameter> {
        let mut parameters: Vec<Parameter> =
            own.iter().map(|(name, kind)| self.query_parameter(action, name, kind)).collect();
        parameters.push(self.query_parameter("", "pretty", "string"));
        if self.resource.scope == Scope::Namespaced && !matches!(target, Target::Everywhere) {
            let description = "object name and auth scope, such as for teams and projects".to_owned();
            parameters.push(Parameter { name: "namespace", place: "path", kind: "string", description });
        }
        if let Target::Object { .. } = target {
            let description = format!("name of the {}", self.resource.kind);
            parameters.push(Parameter { name: "name", place: "path", kind: "string", description });
        }
        parameters.sort_by_key(|parameter| parameter.name);
        parameters
    }

    /// A query parameter with upstream's description: that for PATCH, if there is one and `action` is `patch`.
    fn query_parameter(&self, action: &str, name: &'static str, kind: &'static str) -> Parameter {
        let own = if action == "patch" { self.descriptions.get(&format!("patch/{name}")) } else { None };
        let description = own.or_else(|| self.descriptions.get(name)).and_then(Value::as_str).unwrap_or_default();
        Parameter { name, place: "query", kind, description: description.to_owned() }
    }
}

/// The two extensions of an operation, with their keys: its action and its kind.
pub(super) fn operation_extensions(operation: &Operation) -> [(String, Value); 2] {
    [
        ("x-kubernetes-action".to_owned(), Value::from(operation.action)),
        (GROUP_VERSION_KIND.to_owned(), operation.kind.clone()),
    ]
}

/// The description of an operation, in upstream's words. `word` is its verb; `subresource` may be empty.
fn describe(action: &str, word: &str, subresource: &str, kind: &str) -> String {
    let of = if subresource.is_empty() { String::new() } else { format!(" {subresource} of") };
    match action {
        "list" => format!("{word}{of} objects of kind {kind}"),
        "get" | "put" => format!("{word}{of} the specified {kind}"),
        "patch" => format!("partially update{of} the specified {kind}"),
        "deletecollection" => format!("{word} {kind}"),
        _ => format!("{word}{of} {}{kind}", article(kind)),
    }
}

/// The indefinite article for a noun, with a space. Empty for a noun that ends in one `s`, which upstream takes for a
/// plural (apiserver `GetArticleForNoun`).
fn article(noun: &str) -> &'static str {
    let is_plural = noun.ends_with('s') && !noun.ends_with("ss");
    let first = noun.chars().next().map(|character| character.to_ascii_lowercase());
    match first {
        _ if is_plural => "",
        Some('a' | 'e' | 'i' | 'o' | 'u') => "an ",
        _ => "a ",
    }
}

/// The tag of a group version, such as `apps_v1`.
fn tag(group: &str, version: &str) -> String {
    let trimmed = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
    format!("{}_{}", camel_case(trimmed, false), camel_case(version, false))
}

/// The text in camel case. A character that is not a letter, digit or underscore is left out and makes the next letter
/// a capital. A digit at the beginning is left out in the same way. `first_is_capital`: whether the first letter is a
/// capital.
fn camel_case(text: &str, first_is_capital: bool) -> String {
    let mut capital = first_is_capital;
    let mut joined = String::with_capacity(text.len());
    for (offset, character) in text.char_indices() {
        if character.is_alphabetic() || character == '_' || (offset != 0 && character.is_numeric()) {
            if capital {
                joined.extend(character.to_uppercase());
            } else {
                joined.push(character);
            }
            capital = false;
        } else {
            capital = true;
        }
    }
    joined
}
