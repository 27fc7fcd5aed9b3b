//! Discovery, plain and aggregated (apiserver `endpoints/discovery`).
//!
//! Discovery lists only what this server serves or forwards; see `discovery_rows`. The unaggregated documents are made
//! from the rows of the aggregated form. The JSON of that form is stable, so its hash is the ETag.

use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use crate::model::GroupVersion;
use crate::openapi::hash;
use crate::registry::Catalog;

use super::context::RequestContext;
use super::discovery_rows::{self, DiscoveryGroup, Offered};
use super::pass_through::PassThrough;
use super::read;
use super::response::document;
use crate::request::Route;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::negotiate::{Format, OBJECTS, Offer, Protobuf, Representation, negotiate};
use crate::wire::response::with_type;
use crate::wire::{encode, protobuf};

/// Responds to a request for discovery. `target` is the route of the request; for all other routes, the response is the
/// list of paths at `/`.
///
/// # Errors
/// 404 for an unknown group or version, 405 or 406 for what a built-in path does not accept.
pub(super) fn answer(
    catalog: &Catalog,
    pass_through: PassThrough,
    target: &Route,
    context: &RequestContext<'_>,
) -> Result<Response<Body>, ApiError> {
    let offer = Offered { catalog, pass_through, own: context.own_group_visibility() };
    let groups = offer.groups();
    let body = match target {
        Route::CoreVersions | Route::Groups => {
            if *target == Route::CoreVersions {
                context.check_route(&OBJECTS)?;
            }
            let agreed = negotiate(context.headers, Offer::Discovery, Protobuf::EVERYTHING)?;
            let is_core = *target == Route::CoreVersions;
            if agreed.form == Representation::AggregatedDiscovery {
                return Ok(aggregated(&offer, &groups, is_core, agreed.format, context));
            }
            if is_core { core_versions(&groups, context) } else { group_list(&groups) }
        }
        Route::Group(name) => {
            let group = groups.iter().find(|group| group.name == *name && !name.is_empty());
            let mut body = json!({"kind": "APIGroup", "apiVersion": "v1"});
            merge(&mut body, group_members(group.ok_or(ApiError::PageNotFound)?));
            body
        }
        Route::GroupVersion(group_version) => {
            let resources = resources(&offer, &groups, group_version)?;
            if read::is_built_in(catalog, &group_version.group) {
                context.check_route(&OBJECTS)?;
            }
            resources
        }
        Route::Root
        | Route::Health { .. }
        | Route::Version
        | Route::OpenApi
        | Route::Resource(_)
        | Route::Unknown
        | Route::UnknownBuiltIn => json!({ "paths": path_list(&groups) }),
    };
    // The list of paths is not an object, so it has no protobuf form. It is sent in another format that the client
    // accepts.
    let agreed = negotiate(context.headers, Offer::Plain, Protobuf::EVERYTHING)?;
    if agreed.format == Format::Protobuf {
        if let Some(encoded) = protobuf::discovery(&body) {
            return Ok(document(encoded, Format::Protobuf, context));
        }
        let agreed = negotiate(context.headers, Offer::Plain, Protobuf::METADATA)?;
        return Ok(document(encode::json_bytes(&body), agreed.format, context));
    }
    Ok(document(encode::json_bytes(&body), agreed.format, context))
}

/// The paths that `/` lists without pass-through: groups, versions, OpenAPI documents and health.
pub(super) fn paths(catalog: &Catalog, context: &RequestContext<'_>) -> Vec<String> {
    path_list(&Offered { catalog, pass_through: PassThrough::Off, own: context.own_group_visibility() }.groups())
}

/// The paths that `/` lists, for these groups.
fn path_list(groups: &[DiscoveryGroup]) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for group in groups {
        if !group.name.is_empty() {
            paths.push(format!("/apis/{}", group.name));
        }
        let versions = group.versions.iter().map(|version| GroupVersion::new(&*group.name, &*version.name));
        paths.extend(versions.map(|group_version| format!("/{}", group_version.path())));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths.sort();
    paths
}

/// The body of `/api`: APIVersions.
fn core_versions(groups: &[DiscoveryGroup], context: &RequestContext<'_>) -> Value {
    let core = groups.iter().find(|group| group.name.is_empty());
    let versions: Vec<&str> =
        core.map_or_else(Vec::new, |core| core.versions.iter().map(|version| &*version.name).collect());
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": context.authority}],
    })
}

/// The body of `/apis`: APIGroupList.
fn group_list(groups: &[DiscoveryGroup]) -> Value {
    let groups: Vec<Value> = groups.iter().filter(|group| !group.name.is_empty()).map(group_members).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// The fields of an APIGroup, as an APIGroupList has them.
fn group_members(group: &DiscoveryGroup) -> Value {
    let version = |version: &discovery_rows::DiscoveryVersion| {
        let group_version = GroupVersion::new(&*group.name, &*version.name).to_string();
        json!({"groupVersion": group_version, "version": version.name})
    };
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

/// The body of `/api/v1` or `/apis/GROUP/VERSION`: APIResourceList.
///
/// # Errors
/// 404 if discovery does not show this group and version.
fn resources(offer: &Offered<'_>, groups: &[DiscoveryGroup], group_version: &GroupVersion) -> Result<Value, ApiError> {
    let is_shown = groups.iter().any(|group| {
        group.name == group_version.group && group.versions.iter().any(|version| version.name == group_version.version)
    });
    if !is_shown {
        let is_built_in = read::is_built_in(offer.catalog, &group_version.group);
        return Err(if is_built_in { ApiError::UnknownResource } else { ApiError::PageNotFound });
    }
    let mut rows = Vec::new();
    for row in offer.rows(&group_version.group, &group_version.version) {
        let name = row["resource"].as_str().unwrap_or_default();
        let namespaced = row["scope"] == "Namespaced";
        let verbs = |row: &Value| row["verbs"].as_array().cloned().unwrap_or_default();
        let hash = offer.storage_version_hash(group_version, name);
        // A row without verbs exists for its subresources only; APIResourceList has no such entries.
        if !verbs(&row).is_empty() {
            let mut older = json!({
                "name": name,
                "singularName": row["singularResource"].as_str().unwrap_or_default(),
                "namespaced": namespaced,
                "verbs": verbs(&row),
            });
            merge(&mut older, kind_members(&row, group_version));
            for member in ["shortNames", "categories"] {
                if let Some(names) = row.get(member) {
                    merge(&mut older, json!({ member: names }));
                }
            }
            if !hash.is_empty() {
                merge(&mut older, json!({"storageVersionHash": hash}));
            }
            rows.push(older);
        }
        for subresource in row["subresources"].as_array().into_iter().flatten() {
            let mut older = json!({
                "name": format!("{name}/{}", subresource["subresource"].as_str().unwrap_or_default()),
                "singularName": "",
                "namespaced": namespaced,
                "verbs": verbs(subresource),
            });
            merge(&mut older, kind_members(subresource, group_version));
            rows.push(older);
        }
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version.to_string(),
        "resources": rows,
    });
    // The list of the core group has no apiVersion: it is older than the rule that every object has one.
    if !group_version.group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Ok(list)
}

/// The kind of a row, as fields of an APIResource. Group and version are left out if they are those of the list
/// (`own`).
fn kind_members(row: &Value, own: &GroupVersion) -> Value {
    let text = |member: &str| row["responseKind"][member].as_str().unwrap_or_default();
    let group_version = GroupVersion::new(text("group"), text("version"));
    if group_version.version.is_empty() || group_version == *own {
        return json!({"kind": text("kind")});
    }
    let mut members = json!({"kind": text("kind"), "version": group_version.version});
    if !group_version.group.is_empty() {
        merge(&mut members, json!({"group": group_version.group}));
    }
    members
}

/// Adds the fields of the object `from` to the object `into`.
fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// The response with the aggregated discovery of `/api` (`is_core`) or `/apis`: 304 if the client has it already. It is
/// JSON unless `format` is protobuf and the document can be encoded.
fn aggregated(
    offer: &Offered<'_>,
    groups: &[DiscoveryGroup],
    is_core: bool,
    format: Format,
    context: &RequestContext<'_>,
) -> Response<Body> {
    let items: Vec<Value> = groups
        .iter()
        .filter(|group| group.name.is_empty() == is_core)
        .map(|group| aggregated_group(offer, group))
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let json = encode::json_bytes(&body);
    let tag = format!("\"{}\"", hash::sha512(&json));
    let known = context.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    // Compared as a whole: kube-apiserver accepts neither lists of tags nor an asterisk here.
    let is_known = known == Some(&*tag);
    let mut response = if is_known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let kind = "APIGroupDiscoveryList";
        let encoded = (format == Format::Protobuf).then(|| protobuf::document("apidiscovery.k8s.io/v2", kind, &json));
        match encoded.flatten() {
            Some(encoded) => with_type(
                document(encoded, Format::Protobuf, context),
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            ),
            None => with_type(
                document(json, Format::Json, context),
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            ),
        }
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    headers.append(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// An APIGroupDiscovery.
fn aggregated_group(offer: &Offered<'_>, group: &DiscoveryGroup) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let mut members = json!({
                "version": version.name,
                "freshness": if version.is_stale { "Stale" } else { "Current" },
            });
            let rows = offer.rows(&group.name, &version.name);
            if !rows.is_empty() {
                merge(&mut members, json!({ "resources": rows }));
            }
            members
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}
