//! fieldcache's own API group in discovery and OpenAPI.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::builtin_group::{GROUP, KEY, VERSION};
use super::dependents::kind as dependents;
use super::placement_review::kind as placement_reviews;
use crate::model::own_groups;
use crate::registry::documents::StaticDocuments;

/// The resources of the group, as APIResourceDiscovery of apidiscovery.k8s.io/v2.
pub(super) fn rows() -> Vec<Value> {
    vec![views(), placement_reviews::row(), dependents::row()]
}

/// The row of the resource `views` and its subresource `proxy`.
fn views() -> Value {
    let nothing = json!({ "group": "", "version": "", "kind": "" });
    let view = json!({ "group": own_groups::GROUP, "version": own_groups::VERSION, "kind": "View" });
    json!({
        "resource": "views",
        // A row for its subresource only: upstream leaves its kind empty.
        "responseKind": nothing,
        "scope": "Cluster",
        "singularResource": "",
        "verbs": [],
        "subresources": [{ "subresource": "proxy", "responseKind": view, "verbs": ["get"] }],
    })
}

/// The OpenAPI documents of the group.
pub(super) fn documents() -> &'static Arc<StaticDocuments> {
    static DOCUMENTS: LazyLock<Arc<StaticDocuments>> =
        LazyLock::new(|| Arc::new(StaticDocuments::new(Box::new(v2), [(KEY.to_owned(), Box::new(v3) as _)])));
    &DOCUMENTS
}

/// The `info` field of the OpenAPI documents.
fn info() -> Value {
    json!({ "title": "fieldcache", "version": env!("CARGO_PKG_VERSION") })
}

/// The description of `views/NAME/proxy` in OpenAPI.
const PROXY: &str =
    "the root of a read-only API server for the objects of the View: discovery, OpenAPI, get, list and watch";

/// The OpenAPI v3 document of the group.
fn v3() -> Value {
    let text = json!({ "type": "string" });
    let parameter = |name: &str, description: &str| {
        json!({
            "name": name, "in": "path", "required": true, "description": description,
            "schema": { "type": "string", "uniqueItems": true },
        })
    };
    let answer = json!({ "200": { "description": "OK", "content": { "*/*": { "schema": text } } } });
    let connect = |id: &str| {
        json!({
            "tags": ["view_v1alpha1"], "description": PROXY, "operationId": id, "responses": answer,
            "x-kubernetes-action": "connect",
            "x-kubernetes-group-version-kind": { "group": own_groups::GROUP, "version": own_groups::VERSION, "kind": "View" },
        })
    };
    let name = parameter("name", "name of the View");
    let root = format!("/apis/{GROUP}/{VERSION}/");
    let proxy = format!("{root}views/{{name}}/proxy");
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": {
            root: { "get": {
                "tags": ["view_v1alpha1"], "description": "get available resources", "operationId": "getViewV1alpha1APIResources",
                "responses": answer,
            } },
            &*proxy: { "get": connect("connectViewProxy"), "parameters": [name] },
            format!("{proxy}/{{path}}"): {
                "get": connect("connectViewProxyWithPath"),
                "parameters": [name, parameter("path", "path in the View")],
            },
        },
        "components": { "schemas": {} },
    })
}

/// The OpenAPI v2 paths of the group.
fn v2() -> Value {
    let parameter = |name: &str, description: &str| {
        json!({
            "name": name, "in": "path", "required": true, "description": description, "type": "string",
            "uniqueItems": true,
        })
    };
    let connect = |id: &str| {
        json!({
            "tags": ["view_v1alpha1"], "description": PROXY, "operationId": id, "consumes": ["*/*"], "produces": ["*/*"],
            "schemes": ["https"], "responses": { "200": { "description": "OK", "schema": { "type": "string" } } },
            "x-kubernetes-action": "connect",
            "x-kubernetes-group-version-kind": { "group": own_groups::GROUP, "version": own_groups::VERSION, "kind": "View" },
        })
    };
    let name = parameter("name", "name of the View");
    let proxy = format!("/apis/{GROUP}/{VERSION}/views/{{name}}/proxy");
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": {
            &*proxy: { "get": connect("connectViewProxy"), "parameters": [name] },
            format!("{proxy}/{{path}}"): {
                "get": connect("connectViewProxyWithPath"),
                "parameters": [name, parameter("path", "path in the View")],
            },
        },
        "definitions": {},
    })
}
