//! Views: parts of what is served, each a catalog of its own.
//!
//! `operator::views` validates a View before it is served here, so its selectors are valid. The catalog of a View is
//! built from the catalog of the whole server, again whenever that changes, and shares its data. A resource of a View
//! is the same [`super::ResourceState`] with a [`Restriction`]. `access` decides who may read it, and `server` treats a
//! View's catalog like any other.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;

use super::catalog::{ApiGroup, Catalog, Resource};
use super::consumer::ConsumerContext;
use super::view_documents::ViewDocuments;
use super::view_namespaces::{
    FollowedNamespaces, NamespaceSelector, SelectedNamespaces, SelectedSince, ViewNamespaces,
};
use crate::model::Version;
use crate::query::Selection;
use crate::selector::LabelSelector;
use crate::store::Object;

pub use super::view_definition::{ViewDefinition, ViewPart, ViewRights};
pub use super::view_restriction::Restriction;

/// A View that is served.
pub struct View {
    name: String,
    definition: Arc<ViewDefinition>,
    /// The state of each part of the definition, in its order.
    parts: Vec<PartState>,
    /// Becomes true when the View is replaced or deleted, which ends its watches.
    ended: watch::Sender<bool>,
    /// The last catalog of the View.
    made: Mutex<BuiltCatalog>,
    /// The OpenAPI documents of the last catalog. The next catalog takes over the Last-Modified times of documents that
    /// are the same.
    documents: Mutex<Option<Arc<ViewDocuments>>>,
}

/// The state of one part of a View.
struct PartState {
    /// The highest version of the stores of the resource when the View got this definition; zero if none was loaded.
    since: SelectedSince,
    /// The namespaces that the part selects by labels; `None` if it does not select namespaces by labels.
    selected: Option<Arc<SelectedNamespaces>>,
}

impl PartState {
    /// The state of a part that is served from now on. `whole` is the catalog of the whole server, and `selectors` has
    /// the selectors of all Views.
    fn new(part: &ViewPart, whole: &Catalog, selectors: &mut NamespaceSelectors) -> PartState {
        let stores = whole
            .stores()
            .filter(|resource| resource.gvr.group == part.group && resource.gvr.resource == part.resource);
        let versions = stores.filter_map(|resource| resource.state.load_state().version());
        let selected = match &part.namespaces {
            ViewNamespaces::Selected(labels) => Some(Arc::new(SelectedNamespaces::new(selectors.shared(labels)))),
            ViewNamespaces::All | ViewNamespaces::Named(_) | ViewNamespaces::Permitted => None,
        };
        PartState { since: SelectedSince::new(versions.max().unwrap_or_default()), selected }
    }
}

/// The last catalog of a View.
#[derive(Default)]
struct BuiltCatalog {
    /// The served catalog of the whole server; `None` before the View is notified of one.
    whole: Option<Weak<Catalog>>,
    /// The catalog of the whole server that it was built from, and the catalog of the View.
    made: Option<(Arc<Catalog>, Arc<Catalog>)>,
}

impl fmt::Debug for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("View").field("name", &self.name).field("definition", &self.definition).finish()
    }
}

/// The state of a View.
#[derive(Clone, Debug)]
pub enum ViewState {
    /// The View is served.
    Served(Arc<View>),
    /// The View is not served, for this reason.
    NotServed(String),
}

/// All Views, by name.
pub type Views = BTreeMap<String, ViewState>;

/// The definition of each View, or why it cannot be served; by name.
pub type ViewDefinitions = BTreeMap<String, Result<Arc<ViewDefinition>, String>>;

impl View {
    /// A View that is served from now on. `whole` is the catalog of the whole server.
    fn new(name: String, definition: Arc<ViewDefinition>, whole: &Catalog, selectors: &mut NamespaceSelectors) -> View {
        let parts = definition.parts.iter().map(|part| PartState::new(part, whole, selectors)).collect();
        let (made, documents) = Default::default();
        View { name, definition, parts, ended: watch::Sender::new(false), made, documents }
    }

    /// The name of the View.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The definition of the View.
    pub fn definition(&self) -> &ViewDefinition {
        &self.definition
    }

    /// The namespaces to which the definition restricts a resource; all if the View does not show the resource.
    pub fn namespaces(&self, group: &str, resource: &str) -> &ViewNamespaces {
        self.part(group, resource).map_or(&ViewNamespaces::All, |(part, _)| &part.namespaces)
    }

    /// The namespaces that the View selects by labels for a resource; `None` if it does not select namespaces by
    /// labels.
    pub fn selected_namespaces(&self, group: &str, resource: &str) -> Option<&Arc<SelectedNamespaces>> {
        self.part(group, resource)?.1.selected.as_ref()
    }

    /// The part for a resource, and its state; `None` if the View does not show the resource.
    fn part(&self, group: &str, resource: &str) -> Option<(&ViewPart, &PartState)> {
        let mut parts = self.definition.parts.iter().zip(&self.parts);
        parts.find(|(part, _)| part.group == group && part.resource == resource)
    }

    /// The catalog of the View, built from the catalog of the whole server and cached.
    pub fn catalog(&self, whole: &Arc<Catalog>) -> Arc<Catalog> {
        let mut built = self.lock_catalog();
        match &built.made {
            Some((built_from, catalog)) if Arc::ptr_eq(built_from, whole) => catalog.clone(),
            _ => {
                let catalog = Arc::new(self.build(whole));
                // A request may still use an earlier catalog of the server. What is built from it is not cached.
                if built.whole.as_ref().is_none_or(|served| std::ptr::eq(served.as_ptr(), Arc::as_ptr(whole))) {
                    built.made = Some((whole.clone(), catalog.clone()));
                }
                catalog
            }
        }
    }

    /// Records which catalog the whole server serves, and releases a catalog that was built from another one. It would
    /// keep all definitions of the other catalog in memory until the next request for the View.
    fn serve(&self, whole: &Arc<Catalog>) {
        let mut built = self.lock_catalog();
        built.whole = Some(Arc::downgrade(whole));
        let outdated = built.made.take_if(|(built_from, _)| !Arc::ptr_eq(built_from, whole));
        // The lock is released first, because dropping a catalog can take long.
        drop(built);
        drop(outdated);
    }

    /// Locks the last catalog.
    fn lock_catalog(&self) -> MutexGuard<'_, BuiltCatalog> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Builds the catalog of the View from the catalog of the whole server. The catalog of the View has no resource,
    /// version or group that the View does not show.
    fn build(&self, whole: &Catalog) -> Catalog {
        let mut resources = Vec::new();
        for resource in whole.stores() {
            let Some((part, state)) = self.part(&resource.gvr.group, &resource.gvr.resource) else { continue };
            // A version that lacks a field by which the View selects is left out. Without the requirement, it would
            // show everything.
            let restriction = Restriction::new(part, &resource.extractor, state.since.clone(), self.ended.subscribe())
                .and_then(|restriction| {
                    restriction.with_consumer_fields(&self.definition.consumer, &resource.extractor)
                });
            let Ok(restriction) = restriction else { continue };
            resources.push(Arc::new(resource.through(restriction)));
        }
        let groups = whole.groups_of_stores().iter().filter_map(|group| {
            let is_shown = |version: &&String| {
                resources.iter().any(|shown| shown.gvr.group == group.name && shown.gvr.version == **version)
            };
            let versions: Vec<String> = group.versions.iter().filter(is_shown).cloned().collect();
            (!versions.is_empty()).then(|| ApiGroup { name: group.name.clone(), versions })
        });
        let groups = groups.collect();
        let mut cached = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        let documents = whole
            .documents
            .clone()
            .map(|documents| Arc::new(ViewDocuments::new(documents, &resources, cached.as_deref())));
        cached.clone_from(&documents);
        // `offers` is used only for the order of resources and their hashes. Nothing in it is shown of resources that
        // the View does not serve.
        let mut catalog = Catalog::new(groups, resources, whole.version.clone());
        catalog.offers = whole.offers.clone();
        match documents {
            Some(documents) => catalog.with_documents(documents),
            None => catalog,
        }
    }
}

/// The maximum number of different selectors of namespaces of all Views. The names that each selects are kept, and all of
/// them are evaluated again when Namespaces change.
pub const MOST_NAMESPACE_SELECTORS: usize = 1_000;

/// The names of the Views that would have more than [`MOST_NAMESPACE_SELECTORS`] different selectors of namespaces,
/// together with those before them in the order of `views`.
pub fn views_beyond_selector_limit<'d>(views: impl Iterator<Item = (&'d String, &'d ViewDefinition)>) -> Vec<String> {
    let mut selectors = HashSet::new();
    let mut beyond = Vec::new();
    for (name, definition) in views {
        let further: HashSet<String> = definition
            .parts
            .iter()
            .filter_map(|part| match &part.namespaces {
                ViewNamespaces::Selected(labels) => Some(NamespaceSelectors::key(labels)),
                ViewNamespaces::All | ViewNamespaces::Named(_) | ViewNamespaces::Permitted => None,
            })
            .filter(|key| !selectors.contains(key))
            .collect();
        if selectors.len() + further.len() <= MOST_NAMESPACE_SELECTORS || further.is_empty() {
            selectors.extend(further);
        } else {
            beyond.push(name.clone());
        }
    }
    beyond
}

/// The selectors of namespaces of the Views, by their text.
struct NamespaceSelectors(BTreeMap<String, Arc<NamespaceSelector>>);

impl NamespaceSelectors {
    /// The selectors of these Views.
    fn in_use(views: &Views) -> NamespaceSelectors {
        let mut selectors = BTreeMap::new();
        for state in views.values() {
            let ViewState::Served(view) = state else { continue };
            for (part, state) in view.definition.parts.iter().zip(&view.parts) {
                if let (ViewNamespaces::Selected(labels), Some(selected)) = (&part.namespaces, &state.selected) {
                    selectors.insert(Self::key(labels), selected.selector().clone());
                }
            }
        }
        NamespaceSelectors(selectors)
    }

    fn key(labels: &LabelSelector) -> String {
        format!("{labels:?}")
    }

    /// The selector with these labels, which all Views share.
    fn shared(&mut self, labels: &LabelSelector) -> Arc<NamespaceSelector> {
        let selector = self.0.entry(Self::key(labels)).or_insert_with(|| Arc::new(NamespaceSelector::new(labels)));
        selector.clone()
    }
}

/// Notifies all Views of the catalog that the whole server serves: see [`View::serve`].
pub(super) fn serve(views: &Views, whole: &Arc<Catalog>) {
    for state in views.values() {
        if let ViewState::Served(view) = state {
            view.serve(whole);
        }
    }
}

/// Returns the Views for the definitions `wanted`. Views of `current` with the same definition continue; the others
/// end, and so their watches. `whole` is the catalog of the whole server.
pub(super) fn replaced(current: &Views, wanted: ViewDefinitions, whole: &Catalog) -> Views {
    let mut selectors = NamespaceSelectors::in_use(current);
    let next: Views = wanted
        .into_iter()
        .map(|(name, verdict)| {
            let state = match (verdict, current.get(&name)) {
                (Ok(definition), Some(ViewState::Served(view))) if view.definition == definition => {
                    ViewState::Served(view.clone())
                }
                (Ok(definition), _) => {
                    ViewState::Served(Arc::new(View::new(name.clone(), definition, whole, &mut selectors)))
                }
                (Err(problem), _) => ViewState::NotServed(problem),
            };
            (name, state)
        })
        .collect();
    for (name, state) in current {
        let ViewState::Served(view) = state else { continue };
        let is_kept = matches!(next.get(name), Some(ViewState::Served(kept)) if Arc::ptr_eq(kept, view));
        if !is_kept {
            view.ended.send_replace(true);
        }
    }
    next
}

impl Resource {
    /// The resource of a View, restricted to what one consumer sees. A resource of the whole server stays as it is.
    #[must_use]
    pub fn of_consumer(&self, consumer: &ConsumerContext) -> Resource {
        let view_restriction = self.view_restriction.as_ref().map(|restriction| restriction.of_consumer(consumer));
        Resource { view_restriction, ..self.clone() }
    }

    /// The resource of a View, restricted to the namespaces of one request. A resource of the whole server stays as it
    /// is.
    #[must_use]
    pub fn within(&self, namespaces: &FollowedNamespaces) -> Resource {
        let view_restriction = self.view_restriction.as_ref().map(|restriction| restriction.within(namespaces.clone()));
        Resource { view_restriction, ..self.clone() }
    }

    /// The resource of a View for a request that the permissions of its caller permit as it is; see
    /// [`Restriction::within_permitted`]. A resource of the whole server stays as it is.
    #[must_use]
    pub fn within_permitted(&self) -> Resource {
        let view_restriction = self.view_restriction.as_ref().map(Restriction::within_permitted);
        Resource { view_restriction, ..self.clone() }
    }

    /// The version since which the View selects the same objects; zero without a View. A client whose state is older
    /// must list again.
    pub fn selected_since(&self) -> Version {
        self.view_restriction.as_ref().map(Restriction::since).unwrap_or_default()
    }

    /// Permits clients to continue from `version` on. Called if the source has no newer version, after a wait for
    /// `awaited`.
    pub fn lower_selected_since(&self, awaited: Version, version: Version) {
        if let Some(restriction) = &self.view_restriction {
            restriction.lower_since(awaited, version);
        }
    }

    /// Whether the View shows other namespaces at this version than it did when the request began.
    pub fn has_other_namespaces_at(&self, version: Version) -> bool {
        let namespaces = self.view_restriction.as_ref().and_then(Restriction::namespaces);
        namespaces.is_some_and(|namespaces| namespaces.is_changed_by(version))
    }

    /// The object without the fields that the View or the request leaves out. `None` after an internal error, which is
    /// logged: then the object must not be shown.
    pub fn show(&self, object: Object) -> Option<Object> {
        let Some(prune) = self.prune() else { return Some(object) };
        // `apply` returns where these positions are in the pruned JSON.
        let metadata = object.metadata_span();
        let places = [metadata.start, metadata.end, object.version_span().start];
        match prune.apply(&object.json(), places) {
            Ok((json, [Some(start), Some(end), Some(version)])) => Some(object.shown(&json, start..end, version)),
            // A View never prunes the metadata as a whole, nor the version.
            Ok(_) => {
                tracing::error!(resource = %self.gvr, "cannot find the version of a pruned object of a View, so it is not shown");
                None
            }
            Err(error) => {
                tracing::error!(resource = %self.gvr, %error, "cannot prune an object of a View, so it is not shown");
                None
            }
        }
    }

    /// Restricts the selection of a request to the objects that this resource shows.
    #[must_use]
    pub fn restrict(&self, selection: Selection) -> Selection {
        match &self.view_restriction {
            Some(restriction) => restriction.restrict(selection),
            None => selection,
        }
    }
}
