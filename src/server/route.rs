//! Path -> what is asked for, by the rules of apiserver `endpoints/request/requestinfo.go`.
//!
//! Nothing is looked up here: whether a resource exists, and in which scope, is decided by the caller against the
//! catalog. The path is decoded before it is split, as Go's server does, so `%2F` separates like `/`.

use crate::model::{GroupVersion, Gvr};

use super::params::percent_decode;

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `/`: the list of paths.
    Root,
    /// `/livez`, `/readyz`, `/healthz`, and a single check below.
    Health {
        /// Which of the three.
        endpoint: &'static str,
        /// One check.
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
    Resource(Address),
    /// Anything else.
    Unknown,
    /// Nothing below a path that kube-apiserver's router has to itself.
    UnknownBuiltIn,
}

/// Where a resource request points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The resource.
    pub gvr: Gvr,
    /// The namespace of the path.
    pub namespace: Option<String>,
    /// Whether the path has a namespace without a name, which stands for all of them.
    pub is_nameless: bool,
    /// The object.
    pub name: Option<String>,
    /// What is below the object: `status`, or several parts joined by `/`.
    pub subresource: Option<String>,
    /// Whether the path has the old `/watch/` part.
    pub legacy_watch: bool,
}

impl Target {
    /// Reads a path, still percent-encoded.
    pub fn of(path: &str) -> Target {
        let Some(decoded) = percent_decode(path, false) else { return Target::Unknown };
        // Only the last slash is one too many at most; a doubled one in front is another path.
        if decoded.starts_with("//") {
            return Target::Unknown;
        }
        let trimmed = decoded.trim_matches('/');
        if trimmed.is_empty() {
            return Target::Root;
        }
        let parts: Vec<&str> = trimmed.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) && !names_every_namespace(&parts) {
            return if parts[0] == "api" { Target::UnknownBuiltIn } else { Target::Unknown };
        }
        let is_closed = decoded.ends_with('/');
        match parts[..] {
            ["livez" | "readyz" | "healthz", ..] if is_closed => Target::Unknown,
            ["version", _, ..] => Target::UnknownBuiltIn,
            ["version"] => Target::Version,
            ["openapi", "v3", ..] => Target::OpenApi,
            ["openapi", "v2"] if !is_closed => Target::OpenApi,
            ["livez", ref rest @ ..] => health("livez", rest),
            ["readyz", ref rest @ ..] => health("readyz", rest),
            ["healthz", ref rest @ ..] => health("healthz", rest),
            ["api"] => Target::CoreVersions,
            ["api", version] => Target::GroupVersion(GroupVersion::new("", version)),
            ["api", version, ref rest @ ..] => resource(GroupVersion::new("", version), rest),
            ["apis"] => Target::Groups,
            ["apis", group] => Target::Group(group.to_owned()),
            ["apis", group, version] => Target::GroupVersion(GroupVersion::new(group, version)),
            ["apis", group, version, ref rest @ ..] => resource(GroupVersion::new(group, version), rest),
            _ => Target::Unknown,
        }
    }
}

/// Whether the only empty part of a path is the name of a namespace in front of a resource. kube-apiserver's routes take it for no
/// namespace: all of them.
fn names_every_namespace(parts: &[&str]) -> bool {
    let below = match parts {
        ["api", version, below @ ..] if !version.is_empty() => below,
        ["apis", group, version, below @ ..] if !group.is_empty() && !version.is_empty() => below,
        _ => return false,
    };
    let below = below.strip_prefix(&["watch"]).unwrap_or(below);
    matches!(below, ["namespaces", "", resource] if !matches!(*resource, "" | "status" | "finalize"))
}

fn health(endpoint: &'static str, rest: &[&str]) -> Target {
    let check = (!rest.is_empty()).then(|| rest.join("/"));
    Target::Health { endpoint, check }
}

fn resource(group_version: GroupVersion, parts: &[&str]) -> Target {
    let (legacy_watch, parts) = match parts {
        ["watch", rest @ ..] => (true, rest),
        other => (false, other),
    };
    let is_nameless = matches!(parts, ["namespaces", "", ..]);
    // `namespaces/NS` is the Namespace itself, also when only its own subresources follow.
    let (namespace, parts) = match parts {
        ["namespaces", namespace, "status" | "finalize", ..] | ["namespaces", namespace] => (Some(*namespace), parts),
        ["namespaces", namespace, rest @ ..] => (Some(*namespace).filter(|namespace| !namespace.is_empty()), rest),
        other => (None, other),
    };
    let [resource, rest @ ..] = parts else { return Target::Unknown };
    let (name, subresource) = match rest {
        [] => (None, None),
        [name] => (Some((*name).to_owned()), None),
        [_, _, ..] if legacy_watch => return Target::Unknown,
        [name, below @ ..] => (Some((*name).to_owned()), Some(below.join("/"))),
    };
    let GroupVersion { group, version } = group_version;
    Target::Resource(Address {
        gvr: Gvr::new(group, version, *resource),
        namespace: namespace.map(str::to_owned),
        is_nameless,
        name,
        subresource,
        legacy_watch,
    })
}
