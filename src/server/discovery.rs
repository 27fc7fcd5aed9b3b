//! Discovery, plain and aggregated (apiserver `endpoints/discovery`).
//!
//! What is listed is what is really answered: verbs get, list and watch, and of the subresources only status. The
//! aggregated form is stable text, so its hash serves as ETag.

use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::model::{GroupVersion, Scope};
use crate::openapi::hash;
use crate::registry::{Catalog, Group, Resource, ResourceOrigin, Subresource};

use super::body::Body;
use super::failure::Failure;
use super::negotiate::{Form, Format, OBJECTS, Offer, negotiate};
use super::route::Target;
use super::{Asked, document, encode, read, with_type};

const VERBS: [&str; 3] = ["get", "list", "watch"];
const SUBRESOURCE_VERBS: [&str; 1] = ["get"];

pub(super) fn answer(catalog: &Catalog, target: &Target, asked: &Asked<'_>) -> Result<Response<Body>, Failure> {
    let body = match target {
        Target::CoreVersions | Target::Groups => {
            if *target == Target::CoreVersions {
                asked.is_routed(&OBJECTS)?;
            }
            let agreed = negotiate(asked.headers, Offer::Discovery)?;
            let is_core = *target == Target::CoreVersions;
            if agreed.form == Form::AggregatedDiscovery {
                return Ok(aggregated(catalog, is_core, asked));
            }
            if is_core { core_versions(catalog, asked) } else { groups(catalog) }
        }
        Target::Group(name) => {
            let group = catalog.group(name).filter(|group| !group.name.is_empty()).ok_or(Failure::PageNotFound)?;
            let mut body = json!({"kind": "APIGroup", "apiVersion": "v1"});
            merge(&mut body, group_members(group));
            body
        }
        Target::GroupVersion(group_version) => {
            let resources = resources(catalog, group_version)?;
            if read::is_built_in(catalog, &group_version.group) {
                asked.is_routed(&OBJECTS)?;
            }
            resources
        }
        _ => paths(catalog),
    };
    let agreed = negotiate(asked.headers, Offer::Plain)?;
    Ok(document(encode::json_bytes(&body), agreed.format, asked))
}

/// `/`: where to go.
fn paths(catalog: &Catalog) -> Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for group in &catalog.groups {
        if !group.name.is_empty() {
            paths.push(format!("/apis/{}", group.name));
        }
        let versions = group.versions.iter().map(|version| GroupVersion::new(&*group.name, &**version));
        paths.extend(versions.map(|group_version| format!("/{}", group_version.path())));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths.sort();
    json!({ "paths": paths })
}

fn core_versions(catalog: &Catalog, asked: &Asked<'_>) -> Value {
    let versions = catalog.group("").map_or_else(Vec::new, |core| core.versions.clone());
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": asked.authority}],
    })
}

fn groups(catalog: &Catalog) -> Value {
    let groups: Vec<Value> = catalog.groups.iter().filter(|group| !group.name.is_empty()).map(group_members).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group_members(group: &Group) -> Value {
    let version = |name: &String| {
        let group_version = GroupVersion::new(&*group.name, &**name).to_string();
        json!({"groupVersion": group_version, "version": name})
    };
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

fn resources(catalog: &Catalog, group_version: &GroupVersion) -> Result<Value, Failure> {
    let is_served =
        catalog.group(&group_version.group).is_some_and(|held| held.versions.contains(&group_version.version));
    if !is_served {
        let is_built_in = read::is_built_in(catalog, &group_version.group);
        return Err(if is_built_in { Failure::UnknownResource } else { Failure::PageNotFound });
    }
    let mut rows = Vec::new();
    for resource in catalog.resources_of(&group_version.group, &group_version.version) {
        let mut row = json!({
            "name": resource.gvr.resource,
            "singularName": resource.singular,
            "namespaced": resource.scope == Scope::Namespaced,
            "kind": resource.kind,
            "verbs": VERBS,
        });
        merge(&mut row, optional_names(resource));
        if !resource.storage_version_hash.is_empty() {
            merge(&mut row, json!({"storageVersionHash": resource.storage_version_hash}));
        }
        rows.push(row);
        for subresource in served_subresources(resource) {
            rows.push(json!({
                "name": format!("{}/{}", resource.gvr.resource, subresource.name),
                "singularName": "",
                "namespaced": resource.scope == Scope::Namespaced,
                "kind": subresource.kind,
                "verbs": SUBRESOURCE_VERBS,
            }));
        }
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version.to_string(),
        "resources": rows,
    });
    // The core group's list is older than the rule that every object has one.
    if !group_version.group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Ok(list)
}

fn served_subresources(resource: &Resource) -> impl Iterator<Item = &Subresource> {
    resource.subresources.iter().filter(|subresource| subresource.name == "status")
}

fn optional_names(resource: &Resource) -> Value {
    let mut names = Map::new();
    for (key, values) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !values.is_empty() {
            names.insert(key.to_owned(), json!(values));
        }
    }
    Value::Object(names)
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// `/api` and `/apis` as one document each.
fn aggregated(catalog: &Catalog, is_core: bool, asked: &Asked<'_>) -> Response<Body> {
    let items: Vec<Value> = catalog
        .groups
        .iter()
        .filter(|group| group.name.is_empty() == is_core)
        .map(|group| aggregated_group(catalog, group))
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let json = encode::json_bytes(&body);
    let tag = format!("\"{}\"", hash::of(&json));
    let known = asked.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    // As a text: upstream knows neither lists of tags nor the asterisk here.
    let is_known = known == Some(&*tag);
    let mut response = if is_known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let response = document(json, Format::Json, asked);
        with_type(response, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    headers.append(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn aggregated_group(catalog: &Catalog, group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = catalog.resources_of(&group.name, version).map(aggregated_resource).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &std::sync::Arc<Resource>) -> Value {
    let response_kind = |kind: &str, other: Option<&GroupVersion>| {
        // Built-in kinds leave the group and version of their own group version out.
        let own = resource.gvr.group_version();
        let group_version = match (other, resource.origin) {
            (Some(other), _) => other.clone(),
            (None, ResourceOrigin::Custom) => own,
            (None, ResourceOrigin::BuiltIn) => GroupVersion::new("", ""),
        };
        json!({"group": group_version.group, "version": group_version.version, "kind": kind})
    };
    let mut row = json!({
        "resource": resource.gvr.resource,
        "responseKind": response_kind(&resource.kind, None),
        "scope": match resource.scope { Scope::Namespaced => "Namespaced", Scope::Cluster => "Cluster" },
        "singularResource": resource.singular,
        "verbs": VERBS,
    });
    merge(&mut row, optional_names(resource));
    let subresources: Vec<Value> = served_subresources(resource)
        .map(|subresource| {
            json!({
                "subresource": subresource.name,
                "responseKind": response_kind(&subresource.kind, subresource.group_version.as_ref()),
                "verbs": SUBRESOURCE_VERBS,
            })
        })
        .collect();
    if !subresources.is_empty() {
        merge(&mut row, json!({ "subresources": subresources }));
    }
    row
}
