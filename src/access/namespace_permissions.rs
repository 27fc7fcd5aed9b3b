//! The namespaces in which a caller has a permission, for Views that show these namespaces.
//!
//! Which namespaces a caller may have a permission in depends on what is served, so `server` finds them. This file has
//! what authorization needs of them. It reviews nothing: [`super::authorization`] does, for `server`.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::backend::ReviewError;

/// The namespaces in which one caller has one permission.
pub trait NamespacePermissions: fmt::Debug + Send + Sync {
    /// Reviews the permissions whose reviews are due. Those in single namespaces are always among them. `with_whole`:
    /// the permission in all namespaces is too, because no request has just asked for it.
    ///
    /// # Errors
    /// The caller has the permission in no namespace, or the API server does not decide.
    fn review(self: Arc<Self>, with_whole: bool) -> BoxFuture<'static, Result<(), NoPermittedNamespace>>;

    /// Records whether the caller has the permission in all namespaces, as a request has just found. The first time,
    /// this completes the reviews of the request.
    fn record_whole(&self, is_permitted: bool);
}

/// Why a caller has a permission in no namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPermittedNamespace {
    /// No namespace of the caller permits it.
    Nowhere,
    /// There are too many namespaces to review. The text names the limit and the remedy.
    TooMany(String),
    /// The API server does not decide.
    Undecided(ReviewError),
}
