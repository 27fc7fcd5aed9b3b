//! Names of a resource type, and parsing of their form on the command line (`shirts.v1.stable.example.com`). Kinds,
//! verbs and short names, which discovery returns, are in `registry`.

use std::fmt;

/// Whether objects of a resource live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects have none.
    Cluster,
}

/// A group and a version: `v1` for the core group, else `GROUP/VERSION`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1beta1`.
    pub version: String,
}

impl GroupVersion {
    /// A group and a version.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> GroupVersion {
        GroupVersion { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`: `v1` or `apps/v1`. `None` when it has more than one slash or an empty part.
    pub fn parse(api_version: &str) -> Option<GroupVersion> {
        match api_version.split_once('/') {
            None if !api_version.is_empty() => Some(GroupVersion::new("", api_version)),
            Some((group, version)) if !group.is_empty() && !version.is_empty() && !version.contains('/') => {
                Some(GroupVersion::new(group, version))
            }
            _ => None,
        }
    }

    /// The path below the server root: `api/v1` or `apis/GROUP/VERSION`; also the key of OpenAPI v3 discovery.
    pub fn path(&self) -> String {
        if self.group.is_empty() { format!("api/{}", self.version) } else { format!("apis/{self}") }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            formatter.write_str(&self.version)
        } else {
            formatter.write_str(&self.group)?;
            formatter.write_str("/")?;
            formatter.write_str(&self.version)
        }
    }
}

/// A resource: group, version and plural name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvr {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name, such as `shirts`.
    pub resource: String,
}

impl Gvr {
    /// A group, a version and a plural name.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Gvr {
        Gvr { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// The `apiVersion` of its objects: `v1` or `GROUP/VERSION`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { [&*self.group, "/", &*self.version].concat() }
    }

    /// The group and the version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    /// `PLURAL.GROUP`, or `PLURAL` for the core group: how Kubernetes names a resource in messages.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// Whether the path `/apis/GROUP/VERSION/PLURAL` is the whole resource. For the names `watch` and `proxy` it is
    /// not: kube-apiserver reads them as the start of an old form of path (apiserver
    /// `endpoints/request/requestinfo.go`). Resources with such a name can be listed by namespace only.
    pub fn has_collection_path(&self) -> bool {
        !matches!(&*self.resource, "watch" | "proxy")
    }

    /// Parses `PLURAL.VERSION.GROUP` (core: `PLURAL.VERSION`), the form of `--resource` and of kubectl. `None` for
    /// other texts.
    pub fn parse(text: &str) -> Option<Gvr> {
        let (resource, rest) = text.split_once('.')?;
        let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
        // A name with a dot at its end is invalid, and not of the core group.
        let core_or_named = !rest.contains('.') || !group.is_empty();
        (!resource.is_empty() && !version.is_empty() && core_or_named).then(|| Gvr::new(group, version, resource))
    }
}

/// `PLURAL.VERSION.GROUP`, readable by [`Gvr::parse`].
impl fmt::Display for Gvr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.resource, self.version)?;
        if self.group.is_empty() { Ok(()) } else { write!(formatter, ".{}", self.group) }
    }
}
