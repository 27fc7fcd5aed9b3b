//! The permissions that a request needs: those for the request itself, or those for a request through a View.

use std::sync::Arc;

use super::attributes::{Attributes, PermissionNamespaces, RequiredPermissions, ResourceAttributes};
use super::identity::Identity;

/// Returns the namespaces in which a caller needs the permission for a request, whose resource is the last argument.
pub type PermissionNamespacesOf<'a> =
    dyn Fn(&Arc<Identity>, &Attributes, &ResourceAttributes) -> PermissionNamespaces + Send + Sync + 'a;

/// Whether a request goes through a View, and so which permissions it needs.
#[derive(Clone, Copy)]
pub enum AuthorizationScope<'a> {
    /// The permission for the request itself.
    Request,
    /// A request through a View.
    View(ViewScope<'a>),
}

/// A request through a View, which may be missing.
#[derive(Clone, Copy)]
pub struct ViewScope<'a> {
    /// The permission to use a View of this name.
    pub using: &'a Attributes,
    /// What permits the request.
    pub permitted_by: ViewPermission<'a>,
}

impl ViewScope<'_> {
    /// The permissions that a request with these attributes needs in order to go through the View.
    pub(super) fn required_permissions(
        &self,
        identity: &Arc<Identity>,
        attributes: &Arc<Attributes>,
    ) -> RequiredPermissions {
        match self.permitted_by {
            ViewPermission::Caller(namespaces) => {
                RequiredPermissions::within(attributes.clone(), |request, about| namespaces(identity, request, about))
            }
            ViewPermission::Use | ViewPermission::Missing => {
                RequiredPermissions::for_request(Arc::new(self.using.clone()))
            }
        }
    }
}

/// What permits a request through a View.
#[derive(Clone, Copy)]
pub enum ViewPermission<'a> {
    /// The caller's own permissions. They apply in the namespaces that the function returns for a request, unless the
    /// request names a namespace itself.
    Caller(&'a PermissionNamespacesOf<'a>),
    /// The permission to use the View.
    Use,
    /// The View is missing, or cannot be served. Only a caller that may use a View of this name learns that.
    Missing,
}
