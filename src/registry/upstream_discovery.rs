//! Everything that the source cluster serves, as its discovery lists it: more than what is served here.
//!
//! A store needs a resource that can be listed and watched. Where requests are forwarded, clients reach the others too,
//! and discovery must list them. Rows remain text until they are needed: a cluster has hundreds, and they are rarely
//! read.

use serde_json::Value;

/// Everything that a cluster serves; empty for a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamDiscovery {
    /// Groups in the cluster's order; the core group has the empty name.
    pub groups: Vec<DiscoveredGroup>,
}

/// An API group of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredGroup {
    /// Its name.
    pub name: String,
    /// Its versions, preferred one first.
    pub versions: Vec<OfferedVersion>,
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedVersion {
    /// Its name.
    pub name: String,
    /// Whether the aggregated server that serves it does not answer now.
    pub is_stale: bool,
    /// Its resources in the cluster's order.
    pub resources: Vec<OfferedResource>,
}

/// A resource of a version, with its subresources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedResource {
    /// Plural name.
    pub name: String,
    /// The hash from the older discovery document; empty if the hash is missing there.
    pub storage_version_hash: String,
    /// Its APIResourceDiscovery as JSON.
    row: Box<str>,
}

impl OfferedVersion {
    /// Whether both versions list equal resources, apart from the hashes, and both or neither are stale.
    pub fn has_rows_of(&self, other: &OfferedVersion) -> bool {
        let rows = self.resources.iter().map(|resource| &resource.row);
        self.is_stale == other.is_stale && rows.eq(other.resources.iter().map(|resource| &resource.row))
    }
}

impl OfferedResource {
    /// A resource of upstream's discovery; `row` is its APIResourceDiscovery of apidiscovery.k8s.io/v2.
    pub fn new(name: impl Into<String>, row: &Value) -> OfferedResource {
        OfferedResource { name: name.into(), storage_version_hash: String::new(), row: row.to_string().into() }
    }

    /// The APIResourceDiscovery of the resource.
    pub fn row(&self) -> Value {
        serde_json::from_str(&self.row).expect("a row that was written from a value must be JSON")
    }
}

impl UpstreamDiscovery {
    /// A resource of a version of a group; `None` if the cluster does not serve it.
    pub fn resource(&self, group: &str, version: &str, name: &str) -> Option<&OfferedResource> {
        self.version(group, version)?.resources.iter().find(|resource| resource.name == name)
    }

    /// A version of a group; `None` if the cluster does not serve it.
    pub fn version(&self, group: &str, version: &str) -> Option<&OfferedVersion> {
        let group = self.groups.iter().find(|each| each.name == group)?;
        group.versions.iter().find(|each| each.name == version)
    }
}
