//! Groups, versions and resources: the data of discovery, and what requests for a resource need.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crd::PrinterColumn;
use crate::extract::Extractor;
use crate::model::{GroupVersion, Gvr, Scope};

use super::documents::DocumentSource;
use super::dropped::Dropped;
use super::readiness::Readiness;
use super::resource_state::{LoadState, ResourceState};
use super::upstream_discovery::UpstreamDiscovery;
use super::view_restriction::Restriction;

/// Everything that is served, at one point in time. Immutable; see `Registry::replace`.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Groups in the order of discovery; the core group, if there is one, has the empty name.
    pub groups: Vec<ApiGroup>,
    resources: BTreeMap<Gvr, Arc<Resource>>,
    /// The groups, including those that only have partial stores.
    all_groups: Vec<ApiGroup>,
    /// Stores that have only a part of the objects.
    partial_stores: BTreeMap<Gvr, Arc<Resource>>,
    /// The response to `/version`.
    pub version: VersionInfo,
    /// The OpenAPI documents; `None` if there are none, and requests get 404.
    pub documents: Option<Arc<dyn DocumentSource>>,
    /// Everything that the source cluster serves, including resources that are not served here.
    pub offers: Arc<UpstreamDiscovery>,
}

/// An API group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiGroup {
    /// Its name; empty for the core group.
    pub name: String,
    /// Its served versions, preferred one first.
    pub versions: Vec<String>,
}

/// The body of `/version`, from the source cluster or from folder mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionInfo {
    /// A JSON object.
    pub body: serde_json::Value,
}

impl VersionInfo {
    /// The minor version of Kubernetes; 0 when it is unknown. A provider may write `36+`.
    pub fn minor(&self) -> u64 {
        let minor = self.body["minor"].as_str().unwrap_or_default();
        let digits = minor.find(|letter: char| !letter.is_ascii_digit()).map_or(minor, |end| &minor[..end]);
        digits.parse().unwrap_or(0)
    }
}

/// One served resource of one version.
///
/// Every watch through a View that takes values from its caller stores a clone, so members without a small bound are
/// shared.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Group, version, plural.
    pub gvr: Gvr,
    /// Kind of an object.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Singular name; empty where discovery has none.
    pub singular: String,
    /// Whether objects have namespaces.
    pub scope: Scope,
    /// Short names.
    pub short_names: Arc<[String]>,
    /// Categories.
    pub categories: Arc<[String]>,
    /// Its subresources in discovery, such as `status`.
    pub subresources: Arc<[Subresource]>,
    /// `storageVersionHash` of discovery; empty where it is not known.
    pub storage_version_hash: String,
    /// Custom or built-in: decides the shape of lists and the form of stored bytes.
    pub origin: ResourceOrigin,
    /// additionalPrinterColumns of a custom resource.
    pub printer_columns: Arc<[PrinterColumn]>,
    /// The text of the Warning header; `None` if the version is not deprecated.
    pub deprecation_warning: Option<String>,
    /// The state of its CustomResourceDefinition, as uid and generation; empty for built-in resources. With each
    /// generation kube-apiserver reads stored objects again, with defaults and pruning, and ends all watches; so does
    /// fieldcache.
    pub definition: String,
    /// Its selectable fields and extractor.
    pub extractor: Extractor,
    /// Its data. A resource of a View shares it with the resource of the whole server.
    pub state: Arc<ResourceState>,
    /// The selectors of the stored objects, if not all are stored. Such a store is shown in Views only.
    pub partial_store: Option<Arc<PartialStore>>,
    /// The restriction of a resource of a View; `None` for one of the whole server.
    pub view_restriction: Option<Restriction>,
    /// What the request leaves out of objects. It leaves out nothing in the resources of a catalog; see
    /// [`Resource::for_request`].
    pub dropped: Dropped,
}

/// Which objects of a resource a store has, as selectors of a request: its source selects them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialStore {
    /// labelSelector; empty for no restriction.
    pub label_selector: String,
    /// fieldSelector; empty for no restriction.
    pub field_selector: String,
}

/// Custom resources and built-in ones differ on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceOrigin {
    /// Defined by a CustomResourceDefinition: list items carry kind and apiVersion, and list keys are in alphabetical
    /// order.
    Custom,
    /// Compiled into the API server, or aggregated: list items carry neither, single objects carry both.
    BuiltIn,
}

/// A subresource row of discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Such as `status`.
    pub name: String,
    /// Kind of its body.
    pub kind: String,
    /// Group and version of its kind where they differ from the resource's.
    pub group_version: Option<GroupVersion>,
}

impl Resource {
    /// The same resource with a new state, of which nothing is loaded.
    pub fn with_new_state(&self) -> Resource {
        Resource { state: Arc::default(), ..self.clone() }
    }

    /// The resource with the same state, restricted to what a View shows.
    pub(super) fn through(&self, restriction: Restriction) -> Resource {
        Resource {
            // A selector on a pruned field would disclose its value.
            extractor: self.extractor.pruned(restriction.prune()),
            view_restriction: Some(restriction),
            ..self.clone()
        }
    }

    /// Whether both resources are served in the same way, so that one can use the store of the other. Neither the
    /// stores nor the restrictions of Views are compared.
    pub fn same_definition(&self, other: &Resource) -> bool {
        self.gvr == other.gvr
            && self.kind == other.kind
            && self.list_kind == other.list_kind
            && self.singular == other.singular
            && self.scope == other.scope
            && self.short_names == other.short_names
            && self.categories == other.categories
            && self.subresources == other.subresources
            && self.storage_version_hash == other.storage_version_hash
            && self.origin == other.origin
            && self.printer_columns == other.printer_columns
            && self.deprecation_warning == other.deprecation_warning
            && self.definition == other.definition
            && self.partial_store == other.partial_store
            && self.extractor == other.extractor
    }
}

impl Catalog {
    /// A catalog of these groups and resources. Only [`Catalog::store`] and [`Catalog::stores`] return those with a
    /// partial store. `Catalog::groups` lacks the versions that have no other resources. In the catalog of a View, a
    /// resource with a partial store is like any other, since a View shows a part anyway.
    pub fn new(
        groups: Vec<ApiGroup>,
        resources: impl IntoIterator<Item = Arc<Resource>>,
        version: VersionInfo,
    ) -> Catalog {
        let named = |resource: Arc<Resource>| (resource.gvr.clone(), resource);
        let (partial_stores, resources): (BTreeMap<_, _>, BTreeMap<_, _>) = resources
            .into_iter()
            .map(named)
            .partition(|(_, resource)| resource.partial_store.is_some() && resource.view_restriction.is_none());
        let all_groups = groups.clone();
        let mut groups = groups;
        for gvr in partial_stores.keys() {
            let is_left = |found: &Gvr| found.group == gvr.group && found.version == gvr.version;
            if !resources.keys().any(is_left) {
                let groups = groups.iter_mut().filter(|group| group.name == gvr.group);
                groups.for_each(|group| group.versions.retain(|version| *version != gvr.version));
            }
        }
        // A group that had no versions from the beginning stays.
        groups.retain(|group| !group.versions.is_empty() || all_groups.contains(group));
        Catalog { groups, resources, all_groups, partial_stores, version, documents: None, offers: Arc::default() }
    }

    /// The same catalog with the OpenAPI documents of this source.
    #[must_use]
    pub fn with_documents(mut self, documents: Arc<dyn DocumentSource>) -> Catalog {
        self.documents = Some(documents);
        self
    }

    /// The same catalog with everything that the source cluster serves.
    #[must_use]
    pub fn with_offers(mut self, offers: UpstreamDiscovery) -> Catalog {
        self.offers = Arc::new(offers);
        self
    }

    /// The resource of that name. `None` if there is none, or its store has only a part of the objects.
    pub fn resource(&self, gvr: &Gvr) -> Option<&Arc<Resource>> {
        self.resources.get(gvr)
    }

    /// The resource of that name, including one with a partial store; `None` if there is none.
    pub fn store(&self, gvr: &Gvr) -> Option<&Arc<Resource>> {
        self.resource(gvr).or_else(|| self.partial_stores.get(gvr))
    }

    /// All resources, including those with a partial store.
    pub fn stores(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().chain(self.partial_stores.values())
    }

    /// The readiness of the store of a resource. A store that was not requested yet, has ended, or is not in the
    /// catalog is not ready.
    pub fn readiness(&self, gvr: &Gvr) -> Readiness {
        match self.store(gvr).map(|resource| resource.state.load_state()) {
            Some(LoadState::Ready(_)) => Readiness::Ready,
            Some(LoadState::SourceError { message, .. }) => Readiness::Unavailable(message),
            Some(LoadState::OverMemory(over)) => Readiness::Unavailable(over.to_string()),
            Some(LoadState::Loading(progress)) => Readiness::NotReady(progress),
            Some(LoadState::Idle | LoadState::Gone(_)) | None => {
                Readiness::NotReady("about to be read, or no longer served".to_owned())
            }
        }
    }

    /// The groups of all resources, including those with a partial store.
    pub(super) fn groups_of_stores(&self) -> &[ApiGroup] {
        &self.all_groups
    }

    /// All resources, by group, version and plural.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The group of that name; `None` if there is none.
    pub fn group(&self, name: &str) -> Option<&ApiGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The resources of one group and version, by plural.
    pub fn resources_of(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().filter(move |resource| resource.gvr.group == group && resource.gvr.version == version)
    }
}
