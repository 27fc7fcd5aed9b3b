//! fieldcache's own API group `view.fieldcache.dev/v1alpha1` in discovery and OpenAPI.
//!
//! It contains no objects: [`super::view_request`] serves `views/NAME/proxy`, and [`super::placement_review`] answers `placementreviews` without
//! storing them. Clients see the group beside all others that are served, without a document. kube-apiserver's aggregator sees it alone: it would
//! take every other group, and every document of the index of OpenAPI, for one of ours (kube-aggregator `pkg/controllers/openapiv3`). A View does
//! not contain it.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::placement_review;
use crate::registry::documents::Fixed;

/// The group.
pub(super) const GROUP: &str = "view.fieldcache.dev";
/// Its only version.
pub(super) const VERSION: &str = "v1alpha1";
/// The key of its OpenAPI v3 document.
pub(super) const KEY: &str = "apis/view.fieldcache.dev/v1alpha1";

/// As whom kube-apiserver's aggregator asks for discovery and for OpenAPI (kube-aggregator `pkg/apiserver`,
/// `pkg/controllers/openapi/aggregator`).
const AGGREGATORS: [&str; 2] = ["system:kube-aggregator", "system:aggregator"];

/// How a request is shown our own group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltinGroupVisibility {
    /// Not at all.
    Hidden,
    /// With everything else, but for Views, which there are none of; without documents.
    WithoutViews,
    /// With everything else.
    Beside,
    /// And nothing else.
    Alone,
}

impl BuiltinGroupVisibility {
    /// At the root of a server that has Views, for a user.
    pub(super) fn of(user: &str) -> BuiltinGroupVisibility {
        if AGGREGATORS.contains(&user) { BuiltinGroupVisibility::Alone } else { BuiltinGroupVisibility::Beside }
    }
}

/// Its rows, as APIResourceDiscovery of apidiscovery.k8s.io/v2.
pub(super) fn rows() -> Vec<Value> {
    vec![views(), placement_review::row()]
}

fn views() -> Value {
    let nothing = json!({ "group": "", "version": "", "kind": "" });
    let view = json!({ "group": "fieldcache.dev", "version": "v1alpha1", "kind": "View" });
    json!({
        "resource": "views",
        // A row that stands there for what is below it: upstream leaves its kind empty.
        "responseKind": nothing,
        "scope": "Cluster",
        "singularResource": "",
        "verbs": [],
        "subresources": [{ "subresource": "proxy", "responseKind": view, "verbs": ["get"] }],
    })
}

/// Its documents.
pub(super) fn documents() -> &'static Arc<Fixed> {
    static DOCUMENTS: LazyLock<Arc<Fixed>> =
        LazyLock::new(|| Arc::new(Fixed::new(Box::new(v2), [(KEY.to_owned(), Box::new(v3) as _)])));
    &DOCUMENTS
}

fn info() -> Value {
    json!({ "title": "fieldcache", "version": env!("CARGO_PKG_VERSION") })
}

const PROXY: &str =
    "the root of a read-only API server that has what the View shows: discovery, OpenAPI, get, list and watch";

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
            "x-kubernetes-group-version-kind": { "group": "fieldcache.dev", "version": "v1alpha1", "kind": "View" },
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
            "x-kubernetes-group-version-kind": { "group": "fieldcache.dev", "version": "v1alpha1", "kind": "View" },
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
