//! The kind Dependents of view.fieldcache.dev, which is not stored.

use serde::{Deserialize, Serialize};

use crate::model::Gvr;

/// Group and version of the kind.
pub const API_VERSION: &str = "view.fieldcache.dev/v1alpha1";

/// The name of the kind.
pub const KIND: &str = "Dependents";

/// The plural name of the resource.
pub const RESOURCE: &str = "dependents";

/// The dependents of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependentsDocument {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// The owner.
    pub metadata: OwnerMetadata,
    /// The dependents in levels: first the dependents of the owner itself, then the dependents of these, and so on.
    /// Each object occurs once.
    #[serde(default)]
    pub dependents: Vec<Dependent>,
    /// Why dependents may be missing, if a limit was reached; absent if the result has all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<String>,
    /// The resources whose objects were searched.
    #[serde(default)]
    pub resources: Vec<SearchedResource>,
    /// The resources that the caller may not list in all of the searched namespaces. They were not searched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_permitted: Vec<SearchedResource>,
    /// The resources that were not searched, because they are not loaded, or too old.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ready: Vec<SearchedResource>,
}

/// The metadata of a [`DependentsDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerMetadata {
    /// The uid of the owner.
    pub name: String,
    /// The namespace that was searched; absent for all namespaces.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// A resource by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SearchedResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name.
    pub resource: String,
}

impl From<&Gvr> for SearchedResource {
    fn from(gvr: &Gvr) -> SearchedResource {
        let Gvr { group, version, resource } = gvr;
        SearchedResource { group: group.to_string(), version: version.to_string(), resource: resource.to_string() }
    }
}

/// An object that is owned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependent {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its owners within the result, at most [`MOST_OWNERS_SHOWN`]. The first one is nearer to the root.
    pub owners: Vec<Owner>,
    /// metadata.creationTimestamp; absent without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub creation_timestamp: String,
    /// Its state in short.
    #[serde(default, skip_serializing_if = "ObjectStatus::is_empty")]
    pub status: ObjectStatus,
}

impl Dependent {
    /// Memory that the dependent takes, in bytes, with its texts.
    pub fn held_bytes(&self) -> usize {
        let Dependent { api_version, kind, namespace, name, uid, owners, creation_timestamp, status } = self;
        let ObjectStatus { ready, reason, phase } = status;
        let texts = [api_version, kind, namespace, name, uid, creation_timestamp, ready, reason, phase];
        let owners = owners.iter().map(|owner| size_of::<Owner>() + owner.uid.len()).sum::<usize>();
        size_of::<Dependent>() + texts.map(String::len).iter().sum::<usize>() + owners
    }
}

/// The maximum number of owners that a [`Dependent`] has.
pub const MOST_OWNERS_SHOWN: usize = 16;

/// An owner of a [`Dependent`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// The uid of the owner.
    pub uid: String,
    /// Whether the owner controls the object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
}

/// The state of an object in short. Empty texts are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectStatus {
    /// The status of the condition Ready: `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ready: String,
    /// The reason of the condition Ready.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `Terminating` if the object is being deleted; otherwise status.phase; otherwise `InProgress` if
    /// status.observedGeneration is before metadata.generation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl ObjectStatus {
    /// Whether all texts are empty.
    pub fn is_empty(&self) -> bool {
        *self == ObjectStatus::default()
    }
}
