//! Parses a path: the resource that it names, and the route that serves it.
//!
//! The rules for the resource are those of kube-apiserver (apiserver `endpoints/request/requestinfo.go`). Routes are
//! stricter: for example, a path with a doubled slash names a resource for authorization, but no route serves it.
//!
//! Whether a resource exists, and whether it is namespaced, is checked by callers.

use crate::model::{GroupVersion, Gvr};

/// The part of the API that serves a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/`: the list of paths.
    Root,
    /// `/livez`, `/readyz`, `/healthz`, and a single check below.
    Health {
        /// `healthz`, `livez` or `readyz`.
        endpoint: &'static str,
        /// The name of a single check; `None` for all checks.
        check: Option<String>,
    },
    /// `/version`.
    Version,
    /// `/openapi/...`.
    OpenApi,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/apis/GROUP/VERSION` or `/api/VERSION`.
    GroupVersion(GroupVersion),
    /// A resource.
    Resource(ResourcePath),
    /// Anything else.
    Unknown,
    /// An unknown path below one that kube-apiserver's router for built-in paths handles, such as `/version/x`. Its
    /// error differs from that of [`Route::Unknown`].
    UnknownBuiltIn,
}

/// The resource that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    /// The resource.
    pub gvr: Gvr,
    /// The namespace; `None` if the path has none, or an empty one.
    pub namespace: Option<String>,
    /// Whether the path has `namespaces/` with an empty name, which means all namespaces.
    pub is_nameless: bool,
    /// The name of the object; `None` for a path of all objects.
    pub name: Option<String>,
    /// The path below the object, such as `status`, or several segments joined by `/`.
    pub subresource: Option<String>,
    /// Whether the path has the deprecated verb prefix `/watch/`.
    pub legacy_watch: bool,
}

/// A verb in the path, in front of the resource. It replaces the verb of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbPrefix {
    /// `/api/v1/watch/...`
    Watch,
    /// `/api/v1/proxy/...`, which old releases of kube-apiserver served. Such a path has no subresources.
    Proxy,
}

/// The error for a path that ends after a [`VerbPrefix`]. kube-apiserver rejects it with 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndsAfterVerb;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPath {
    /// The part of the API that serves the path.
    pub route: Route,
    /// The verb that the path sets, if any.
    pub verb: Option<VerbPrefix>,
    /// The resource that the path names, if no route serves the path. Otherwise `route` has the resource, and this is
    /// `Ok(None)`.
    pub unrouted: Result<Option<ResourcePath>, EndsAfterVerb>,
}

/// The subresources of Namespaces. After the name of a namespace, they are not resources within it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl ReadPath {
    /// A path that cannot be percent-decoded: it names no resource, and no route serves it.
    pub const UNREADABLE: ReadPath = ReadPath { route: Route::Unknown, verb: None, unrouted: Ok(None) };

    /// Parses a path after percent-decoding. Go's server decodes before it splits, so `%2F` separates segments like
    /// `/`. A resource that is named but not routed is kept in `unrouted`, for authorization.
    pub fn parse(path: &str) -> ReadPath {
        let trimmed = path.trim_matches('/');
        let parts: Vec<&str> = trimmed.split('/').collect();
        let named = named_resource(&parts);
        // Slashes at the end are ignored here, but a path with two slashes at the beginning has no route.
        let is_doubled = path.starts_with("//");
        let has_gap = parts.iter().any(|part| part.is_empty()) && !names_every_namespace(&parts);
        let named = match named {
            Ok(Some((verb, resource))) if !is_doubled && !has_gap && has_route(verb, &resource) => {
                return ReadPath { route: Route::Resource(resource), verb, unrouted: Ok(None) };
            }
            named => named,
        };
        let route = match &named {
            _ if is_doubled => Route::Unknown,
            _ if trimmed.is_empty() => Route::Root,
            // kube-apiserver's router for built-in paths handles everything below `/api`.
            _ if has_gap && parts[0] == "api" => Route::UnknownBuiltIn,
            Ok(None) if !has_gap => plain_route(&parts, path.ends_with('/')),
            _ => Route::Unknown,
        };
        match named {
            Ok(Some((verb, resource))) => ReadPath { route, verb, unrouted: Ok(Some(resource)) },
            Ok(None) => ReadPath { route, verb: None, unrouted: Ok(None) },
            Err(ends) => ReadPath { route, verb: None, unrouted: Err(ends) },
        }
    }

    /// The resource that the path names; `None` if it names none, or ends after a [`VerbPrefix`].
    pub fn resource(&self) -> Option<&ResourcePath> {
        match (&self.route, &self.unrouted) {
            (Route::Resource(resource), _) | (_, Ok(Some(resource))) => Some(resource),
            _ => None,
        }
    }
}

impl ResourcePath {
    /// The subresource for authorizers: the first segment below the object. Empty if there is none.
    pub fn subresource_name(&self) -> &str {
        self.subresource.as_deref().unwrap_or_default().split('/').next().unwrap_or_default()
    }
}

/// The resource that a path below `/api` or `/apis` names, by kube-apiserver's rules, and its verb prefix. `None` for
/// a path without a resource. `parts`: the segments of the path.
///
/// # Errors
/// The path ends after its verb prefix.
fn named_resource(parts: &[&str]) -> Result<Option<(Option<VerbPrefix>, ResourcePath)>, EndsAfterVerb> {
    let (group_version, parts) = match parts {
        ["api", version, rest @ ..] if !rest.is_empty() => (GroupVersion::new("", *version), rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (GroupVersion::new(*group, *version), rest),
        _ => return Ok(None),
    };
    let (verb, parts) = match parts {
        ["watch", rest @ ..] => (Some(VerbPrefix::Watch), rest),
        ["proxy", rest @ ..] => (Some(VerbPrefix::Proxy), rest),
        _ => (None, parts),
    };
    let is_nameless = matches!(parts, ["namespaces", "", ..]);
    // `namespaces/NS` is the Namespace itself, also when only its own subresources follow.
    let (namespace, parts) = match parts {
        ["namespaces", namespace, after, ..] if !NAMESPACE_SUBRESOURCES.contains(after) => (*namespace, &parts[2..]),
        ["namespaces", namespace, ..] => (*namespace, parts),
        _ => ("", parts),
    };
    let [resource, rest @ ..] = parts else { return Err(EndsAfterVerb) };
    let below = match (verb, rest) {
        (Some(VerbPrefix::Proxy), _) => &[],
        (_, [_, below @ ..]) => below,
        (_, []) => &[],
    };
    let filled = |part: &str| (!part.is_empty()).then(|| part.to_owned());
    let GroupVersion { group, version } = group_version;
    let resource = ResourcePath {
        gvr: Gvr::new(group, version, *resource),
        namespace: filled(namespace),
        is_nameless,
        name: rest.first().and_then(|name| filled(name)),
        subresource: (!below.is_empty()).then(|| below.join("/")),
        legacy_watch: verb == Some(VerbPrefix::Watch),
    };
    Ok(Some((verb, resource)))
}

/// Whether kube-apiserver has a route for such a resource path, if it has no empty segments.
fn has_route(verb: Option<VerbPrefix>, resource: &ResourcePath) -> bool {
    match verb {
        None => true,
        Some(VerbPrefix::Watch) => resource.subresource.is_none(),
        Some(VerbPrefix::Proxy) => false,
    }
}

/// The route of a path that names no resource. `has_end_slash`: the path ends with a slash, which kube-apiserver
/// accepts after some of these paths, but not after health endpoints and `/openapi/v2`.
fn plain_route(parts: &[&str], has_end_slash: bool) -> Route {
    match *parts {
        ["livez" | "readyz" | "healthz", ..] if has_end_slash => Route::Unknown,
        ["version", _, ..] => Route::UnknownBuiltIn,
        ["version"] => Route::Version,
        ["openapi", "v3", ..] => Route::OpenApi,
        ["openapi", "v2"] if !has_end_slash => Route::OpenApi,
        ["livez", ref rest @ ..] => health("livez", rest),
        ["readyz", ref rest @ ..] => health("readyz", rest),
        ["healthz", ref rest @ ..] => health("healthz", rest),
        ["api"] => Route::CoreVersions,
        ["api", version] => Route::GroupVersion(GroupVersion::new("", version)),
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group(group.to_owned()),
        ["apis", group, version] => Route::GroupVersion(GroupVersion::new(group, version)),
        _ => Route::Unknown,
    }
}

/// Whether the only empty segment of a path is the name of a namespace in front of a resource. kube-apiserver's
/// routes treat such a path as one for all namespaces.
fn names_every_namespace(parts: &[&str]) -> bool {
    let below = match parts {
        ["api", version, below @ ..] if !version.is_empty() => below,
        ["apis", group, version, below @ ..] if !group.is_empty() && !version.is_empty() => below,
        _ => return false,
    };
    let below = below.strip_prefix(&["watch"]).unwrap_or(below);
    // `namespaces//status` is not a resource in all namespaces, but a subresource of a Namespace without a name.
    matches!(below, ["namespaces", "", resource] if !matches!(*resource, "" | "status" | "finalize"))
}

/// The route of a health endpoint. `rest`: the segments after it, which name a single check; empty for all checks.
fn health(endpoint: &'static str, rest: &[&str]) -> Route {
    let check = (!rest.is_empty()).then(|| rest.join("/"));
    Route::Health { endpoint, check }
}
