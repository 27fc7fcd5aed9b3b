//! Requests through a View: the View that a path names, and what is served inside of it.
//!
//! The path after `/apis/view.fieldcache.dev/v1alpha1/views/NAME/proxy` is read like any other, with the View's
//! catalog. Such a request is never forwarded, and `explain` is ignored, because plans count objects that the View does
//! not show. `registry::views` decides what a View shows, and `access` who may use it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::no_response::NoResponse;
use super::permitted_caller::PermittedCaller;
use super::permitted_callers::PermittedCallers;
use super::read;
use crate::access::attributes::{Attributes, PermissionNamespaces, ResourceAttributes};
use crate::access::{AccessControl, AccessError, AuthorizedRequest, Identity};
use crate::model::own_groups::{GROUP, VERSION};
use crate::model::{Gvr, user_name};
use crate::registry::binding_subjects::role_bindings;
use crate::registry::consumer::{ConsumerClaim, ConsumerContext, ConsumerTerms};
use crate::registry::followed_pod::FollowedPod;
use crate::registry::view_namespaces::{FollowedNamespaces, ViewNamespaces};
use crate::registry::views::ViewRights;
use crate::registry::{Catalog, LoadState, Registry, Resource, ResourceState, View, ViewState};
use crate::request::{RequestInfo, ViewPath};
use crate::wire::api_error::ApiError;

/// The maximum number of namespaces for which the permission of one request is checked one by one. With more, the
/// caller needs the permission in all namespaces.
const MOST_REVIEWED: usize = 256;

/// The resource `views` of the group fieldcache.dev, for authorization.
pub(super) fn views() -> Gvr {
    Gvr::new(GROUP, VERSION, "views")
}

/// The View of a request, and how the request uses it.
pub(super) struct ViewRequest {
    pub(super) view: Arc<View>,
    /// The part of the client's URL before the path inside of the View: `/apis/view.fieldcache.dev/.../proxy`.
    pub(super) prefix: String,
    /// The values of the caller that the View uses. `None` if the View uses none, and before
    /// [`ViewRequest::resolve_consumer`] sets them. Until then, a View that uses values of the caller shows no objects.
    pub(super) consumer: Option<ResolvedConsumer>,
    /// The catalog of the server when the request arrived.
    whole: Arc<Catalog>,
    /// The namespaces that the View shows of the requested resource, if it selects them by labels or permissions and they
    /// are known. Until then, the View shows no objects of such a resource. They are read once a permission depends on
    /// them, which is after authentication: reading them takes time and memory.
    namespaces: OnceLock<FollowedNamespaces>,
    /// The caller of a request for all namespaces, if the View shows those in which the caller has the permission. Set
    /// once the permission is checked.
    permitted: OnceLock<Arc<PermittedCaller>>,
    /// Whether the View shows the namespaces in which the caller has the permission, and this is known to be so for the
    /// request as it is.
    is_permitted_whole: bool,
    /// The callers whose permitted namespaces are known.
    callers: Arc<PermittedCallers>,
}

/// The View that a request names, or why it is missing or not served.
pub(super) type FoundView = Result<ViewRequest, ApiError>;

/// The caller of a View whose selection uses values of the caller.
pub(super) struct ResolvedConsumer {
    /// The values of the caller.
    pub(super) consumer: ConsumerContext,
    /// The caller's Pod, if the selection uses its labels or claims of its token, and a store has the Pod. Watches end
    /// when the Pod changes.
    pub(super) pod: Option<Arc<FollowedPod>>,
}

impl ViewRequest {
    /// A request for a View whose paths have this prefix. `whole` is the catalog of the server, and `callers` has the
    /// callers whose permitted namespaces are known.
    pub(super) fn new(
        view: Arc<View>,
        prefix: String,
        whole: Arc<Catalog>,
        callers: Arc<PermittedCallers>,
    ) -> ViewRequest {
        ViewRequest {
            view,
            prefix,
            consumer: None,
            whole,
            namespaces: OnceLock::new(),
            permitted: OnceLock::new(),
            is_permitted_whole: false,
            callers,
        }
    }

    /// Finds the View that a path names. `callers` has the callers whose permitted namespaces are known.
    ///
    /// # Errors
    /// 404 if there is no View of this name, 503 if it cannot be served.
    pub(super) fn find(path: &ViewPath, registry: &Registry, callers: &Arc<PermittedCallers>) -> FoundView {
        let name = &path.name;
        match registry.view(name) {
            Some(ViewState::Served(view)) => {
                Ok(ViewRequest::new(view, path.prefix.clone(), registry.catalog(), callers.clone()))
            }
            // Only callers that may read the View itself learn the reason.
            Some(ViewState::NotServed(_)) => Err(ApiError::Unavailable(format!(
                "the View {name} is not served: kubectl get view {name} -o wide shows the reason"
            ))),
            None => Err(ApiError::NotFound { gvr: views(), name: name.clone() }),
        }
    }

    /// The catalog of the View, which is a part of the catalog `whole`.
    pub(super) fn catalog(&self, whole: &Arc<Catalog>) -> Arc<Catalog> {
        self.view.catalog(whole)
    }

    /// A resource of the View's catalog, restricted to what this caller sees: by the values of the caller, and by the
    /// namespaces.
    pub(super) fn as_seen(&self, mut resource: Arc<Resource>) -> Arc<Resource> {
        if let Some(resolved) = &self.consumer {
            resource = Arc::new(resource.of_consumer(&resolved.consumer));
        }
        match self.namespaces.get() {
            Some(namespaces) => Arc::new(resource.within(namespaces)),
            None if self.is_permitted_whole => Arc::new(resource.within_permitted()),
            None => resource,
        }
    }

    /// The permissions of the caller, if the namespaces of the request depend on them.
    pub(super) fn permitted_caller(&self) -> Option<&Arc<PermittedCaller>> {
        let depends = self.namespaces.get().is_some_and(FollowedNamespaces::are_permitted);
        self.permitted.get().filter(|_| depends)
    }

    /// Reads the namespaces again after they changed during the request. Returns whether the request may continue with
    /// them: if the permission to use the View suffices, or if the permissions of the caller were checked for the new
    /// namespaces. They are if they are among the earlier ones.
    pub(super) fn follow_changed_namespaces(&mut self) -> bool {
        let Some(earlier) = self.namespaces.take() else { return false };
        let current = self.namespaces.get_or_init(|| earlier.renewed());
        match (self.view.definition().rights, &current.set().names, &earlier.set().names) {
            (ViewRights::View, ..) => true,
            // The caller has the permission in each of them, or in all namespaces.
            (ViewRights::Caller, names, _) if current.are_permitted() => {
                names.as_ref().is_none_or(|names| !names.is_empty())
            }
            (ViewRights::Caller, Some(names), Some(earlier)) => {
                names.iter().all(|name| earlier.binary_search(name).is_ok())
            }
            (ViewRights::Caller, _, None) => true,
            (ViewRights::Caller, None, Some(_)) => false,
        }
    }

    /// The namespaces in which the caller needs the permission for a request, unless the request names a namespace
    /// itself. `about` is the resource of the request. See the function [`permission_namespaces`].
    pub(super) fn permission_namespaces(
        &self,
        access: &AccessControl,
        identity: &Arc<Identity>,
        (request, about): (&Attributes, &ResourceAttributes),
    ) -> PermissionNamespaces {
        if shows_permitted(&self.view, &self.whole, (request, about)) {
            let Some(caller) = self.callers.get(access, identity, request) else { return PermissionNamespaces::All };
            return PermissionNamespaces::AllOrSome(self.permitted.get_or_init(|| caller).clone());
        }
        let (group, resource) = (&*about.group, &*about.resource);
        if self.namespaces.get().is_none()
            && let Some(followed) = followed_namespaces(&self.view, &self.whole, group, resource)
        {
            let _is_first = self.namespaces.set(followed);
        }
        permission_namespaces(&self.view, self.namespaces.get(), group, resource)
    }

    /// Sets `namespaces` if the View selects the namespaces of the requested resource by labels or permissions, and they
    /// are not known yet. `authorized` is the authorized request, and `whole` is the current catalog, which may be
    /// newer than `self.whole`.
    ///
    /// # Errors
    /// 429 or 503 if the store of Namespaces or RoleBindings is not ready, missing, or a partial store.
    pub(super) async fn require_namespaces(
        &mut self,
        info: &RequestInfo,
        authorized: Option<&AuthorizedRequest>,
        whole: &Catalog,
    ) -> Result<(), ApiError> {
        let Ok(Some(named)) = info.resource() else { return Ok(()) };
        if *self.view.namespaces(&named.gvr.group, &named.gvr.resource) == ViewNamespaces::Permitted {
            return self.require_permitted(authorized, whole);
        }
        let Some(selected) = self.view.selected_namespaces(&named.gvr.group, &named.gvr.resource) else {
            return Ok(());
        };
        if self.namespaces.get().is_none() {
            let namespaces = whole.resource(&namespaces()).ok_or_else(|| {
                ApiError::Unavailable(format!(
                    "the View {} selects namespaces by labels, and the whole of namespaces is not cached: create the \
                     FieldCache namespaces, without a scope",
                    self.view.name()
                ))
            })?;
            let snapshot = read::snapshot(&namespaces.state, Duration::ZERO).await.map_err(NoResponse::into_error)?;
            // The stores of all versions, whose lists show the selection.
            let shown = states(whole, &named.gvr.group, &named.gvr.resource);
            let followed = FollowedNamespaces::new(selected, (&namespaces.state, &snapshot), shown);
            let _is_first = self.namespaces.set(followed);
        }
        Ok(())
    }

    /// Sets `namespaces` to those in which the caller has the permission, or `is_permitted_whole` if the request needs no
    /// restriction: if the caller has the permission for the request as it is.
    ///
    /// # Errors
    /// 503 if the store of RoleBindings is missing or a partial store. 429 if the permissions changed meanwhile.
    fn require_permitted(&mut self, authorized: Option<&AuthorizedRequest>, whole: &Catalog) -> Result<(), ApiError> {
        if whole.resource(&role_bindings()).is_none() {
            return Err(ApiError::Unavailable(format!(
                "the View {} shows the namespaces that the caller may read, and the whole of rolebindings is not cached: \
                 create the FieldCache rolebindings.rbac.authorization.k8s.io, without a scope",
                self.view.name()
            )));
        }
        // The permission to use the View is not one for any namespace. `kinds::accept` rejects such a View.
        if self.view.definition().rights == ViewRights::View {
            return Ok(());
        }
        let is_of_some = authorized.is_some_and(AuthorizedRequest::is_of_some_namespaces);
        let followed = self.permitted.get().and_then(|caller| FollowedNamespaces::permitted(caller.permitted()));
        match followed {
            Some(followed) if is_of_some == followed.set().names.is_some() => {
                let _is_first = self.namespaces.set(followed);
            }
            _ if is_of_some => return Err(NoResponse::NamespacesChanged.into_error()),
            Some(_) | None => self.is_permitted_whole = true,
        }
        Ok(())
    }

    /// Sets `consumer` to the values of the caller that the View uses; leaves it at `None` if the View uses none.
    /// `whole` is the catalog of the server.
    ///
    /// # Errors
    /// 403 that names what the token lacks, 401 for the token of a Pod that no longer exists. 429 or 503 while the
    /// store of Pods is not ready.
    pub(super) async fn resolve_consumer(
        &mut self,
        authorized: Option<&AuthorizedRequest>,
        whole: &Catalog,
    ) -> Result<(), ApiError> {
        let identity = authorized.map(|authorized| &*authorized.identity);
        let terms = &self.view.definition().consumer;
        if terms.is_empty() {
            return Ok(());
        }
        let missing = |value: &dyn fmt::Display, remedy: &str| {
            ApiError::Forbidden(format!("the View {} requires {value} of the caller: {remedy}", self.view.name()))
        };
        let mut values = Vec::new();
        for wanted in terms.values() {
            let value = identity.and_then(|identity| claimed(identity, wanted));
            let Some(value) = value else {
                let remedy = match wanted {
                    ConsumerClaim::Namespace | ConsumerClaim::ServiceAccountName => "use a ServiceAccount's token",
                    ConsumerClaim::NodeName | ConsumerClaim::PodName | ConsumerClaim::PodUid => {
                        "use a ServiceAccount's token that is bound to a Pod, such as the one that is mounted into it"
                    }
                };
                return Err(missing(&wanted, remedy));
            };
            values.push((wanted, value.to_owned()));
        }
        let mut consumer = ConsumerContext { values, ..ConsumerContext::default() };
        let mut pod = None;
        if terms.needs_pod() {
            let pods = whole.store(&Gvr::new("", "v1", "pods"));
            let pods =
                pods.ok_or_else(|| missing(&"the labels of a Pod", "pods are not cached: create the FieldCache pods"))?;
            let snapshot = read::snapshot(&pods.state, Duration::ZERO).await.map_err(NoResponse::into_error)?;
            let claim = |wanted| consumer.value(wanted).unwrap_or_default();
            let names = (claim(ConsumerClaim::Namespace), claim(ConsumerClaim::PodName), claim(ConsumerClaim::PodUid));
            let terms = Arc::new(terms.clone());
            let followed = FollowedPod::new(&pods.state, &snapshot, names, &terms);
            let followed =
                followed.ok_or_else(|| missing(&"the labels of a Pod", "the Pod of this token does not exist"))?;
            consumer.labels = followed.labels().clone();
            pod = Some(Arc::new(followed));
        } else if terms.needs_claims_of_pod() {
            pod = followed_pod(authorized, terms, whole).await?;
        }
        self.consumer = Some(ResolvedConsumer { consumer, pod });
        Ok(())
    }
}

/// The resource of Namespaces.
fn namespaces() -> Gvr {
    Gvr::new("", "v1", "namespaces")
}

/// The namespaces of which a View shows a resource now, if the View selects namespaces by labels. `None` if it does
/// not, and also while the store of Namespaces is not ready. `whole` is the catalog of the server.
pub(super) fn followed_namespaces(
    view: &View,
    whole: &Catalog,
    group: &str,
    resource: &str,
) -> Option<FollowedNamespaces> {
    let selected = view.selected_namespaces(group, resource)?;
    // `Catalog::resource` returns no partial store, which would lack Namespaces that the selector selects.
    let state = &whole.resource(&namespaces())?.state;
    let LoadState::Ready(snapshot) = state.load_state() else { return None };
    Some(FollowedNamespaces::new(selected, (state, &snapshot), states(whole, group, resource)))
}

/// The states of the stores of all versions of a resource. `group` and `resource` are its group and plural name.
fn states(whole: &Catalog, group: &str, resource: &str) -> Arc<[Arc<ResourceState>]> {
    let is_version = |other: &&Arc<Resource>| other.gvr.group == group && other.gvr.resource == resource;
    whole.stores().filter(is_version).map(|version| version.state.clone()).collect()
}

/// Whether the View shows the namespaces in which the caller has the permission for a request. This is so for lists and
/// watches of a served version: a caller can name any other version, and each would need reviews of its own. `about` is
/// the resource of the request, which names no namespace. `whole` is the catalog of the server.
pub(super) fn shows_permitted(
    view: &View,
    whole: &Catalog,
    (request, about): (&Attributes, &ResourceAttributes),
) -> bool {
    *view.namespaces(&about.group, &about.resource) == ViewNamespaces::Permitted
        && matches!(&*request.verb, "list" | "watch")
        && about.subresource.is_empty()
        && whole.store(&Gvr::new(&*about.group, &*about.version, &*about.resource)).is_some()
}

/// The namespaces in which a caller needs the permission for a resource of a View, unless the request names a namespace
/// itself. `followed` are the namespaces that the View selects by labels, if they are known. If they are not known, or
/// there are none or more than [`MOST_REVIEWED`], the caller needs the permission in all namespaces.
pub(super) fn permission_namespaces(
    view: &View,
    followed: Option<&FollowedNamespaces>,
    group: &str,
    resource: &str,
) -> PermissionNamespaces {
    match view.namespaces(group, resource) {
        ViewNamespaces::All => PermissionNamespaces::All,
        ViewNamespaces::Named(names) => PermissionNamespaces::Each(names.clone()),
        // Requests for which `shows_permitted` returns false.
        ViewNamespaces::Permitted => PermissionNamespaces::All,
        ViewNamespaces::Selected(_) => match followed.and_then(|followed| followed.set().names.as_ref()) {
            Some(names) if (1..=MOST_REVIEWED).contains(&names.len()) => {
                PermissionNamespaces::AllOrEach(names.to_vec())
            }
            Some(_) | None => PermissionNamespaces::All,
        },
    }
}

/// The Pod of the caller's token, for a selection that uses the claims of the token. Watches end when this Pod is
/// deleted. `None` if the token has no Pod, or if no complete store of Pods has it. `terms` states which values of the
/// caller the selection uses. `whole` is the catalog of the server.
///
/// A Pod that is missing in a complete store can be newer than the store, or deleted. Then the API server reviews the
/// token again, without any cache.
///
/// # Errors
/// 401 if the token is no longer valid, 503 if the API server gives no decision.
async fn followed_pod(
    authorized: Option<&AuthorizedRequest>,
    terms: &ConsumerTerms,
    whole: &Catalog,
) -> Result<Option<Arc<FollowedPod>>, ApiError> {
    let Some(authorized) = authorized else { return Ok(None) };
    let claim = |wanted| claimed(&authorized.identity, wanted);
    let claims = [ConsumerClaim::Namespace, ConsumerClaim::PodName, ConsumerClaim::PodUid].map(claim);
    let [Some(namespace), Some(name), Some(uid)] = claims else { return Ok(None) };
    // A Pod can leave a partial store without being deleted.
    let Some(pods) = whole.resource(&Gvr::new("", "v1", "pods")) else { return Ok(None) };
    let LoadState::Ready(snapshot) = pods.state.load_state() else { return Ok(None) };
    let terms = Arc::new(terms.clone());
    if let Some(followed) = FollowedPod::new(&pods.state, &snapshot, (namespace, name, uid), &terms) {
        return Ok(Some(Arc::new(followed)));
    }
    match authorized.confirm().await {
        Some(true) => Ok(None),
        Some(false) => Err(ApiError::Access(authorized.unauthorized())),
        None => Err(ApiError::Access(AccessError::AuthenticatorUnavailable)),
    }
}

// Keys of the extra values that kube-apiserver adds to the user of a ServiceAccount token that is bound to a Pod
// (apiserver `authentication/serviceaccount/util.go`).

/// The key of the name of the node on which the Pod runs.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The key of the name of the Pod.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
/// The key of the uid of the Pod.
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// The value of a claim; `None` if the caller is not a ServiceAccount, or its token has no or several values for the
/// claim.
fn claimed(identity: &Identity, wanted: ConsumerClaim) -> Option<&str> {
    let (namespace, name) = user_name::service_account(&identity.user)?;
    let extra = |key: &str| match identity.extra.get(key).map(Vec::as_slice) {
        Some([value]) => Some(&**value),
        _ => None,
    };
    // These claims count only in a token that is bound to a Pod, whose node the scheduler chose. The node of a token
    // that is bound to a Node alone is the choice of the token's creator.
    let bound_to_pod = |key: &str| extra(POD_NAME).and(extra(POD_UID)).and(extra(key));
    let value = match wanted {
        ConsumerClaim::NodeName => bound_to_pod(NODE_NAME),
        ConsumerClaim::PodName => bound_to_pod(POD_NAME),
        ConsumerClaim::PodUid => bound_to_pod(POD_UID),
        ConsumerClaim::Namespace => Some(namespace),
        ConsumerClaim::ServiceAccountName => Some(name),
    };
    value.filter(|value| !value.is_empty())
}
