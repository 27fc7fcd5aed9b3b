//! The path prefix of a View: `/apis/view.fieldcache.dev/v1alpha1/views/NAME/proxy`.
//!
//! The rest of the path is read like any other, over the View's catalog. Does not know whether the View exists.

use crate::selector::syntax;

/// Path in front of the name of a View.
pub const VIEWS: &str = "/apis/view.fieldcache.dev/v1alpha1/views/";

const PROXY: &str = "/proxy";

/// The View that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPath {
    /// Name of the View.
    pub name: String,
    /// The part before the path inside of the View, as the client sent it. Addresses in responses begin with it.
    pub prefix: String,
}

impl ViewPath {
    /// Reads a path before percent-decoding, and returns the View and the path inside of it. An encoded prefix names no View.
    pub fn split(path: &str) -> Option<(ViewPath, &str)> {
        let rest = path.strip_prefix(VIEWS)?;
        let (name, below) = rest.split_at(rest.find('/')?);
        let inside = below.strip_prefix(PROXY)?;
        let is_whole = inside.is_empty() || inside.starts_with('/');
        if !is_whole || !syntax::dns_subdomain_errors(name).is_empty() {
            return None;
        }
        let prefix = path[..path.len() - inside.len()].to_owned();
        Some((ViewPath { name: name.to_owned(), prefix }, if inside.is_empty() { "/" } else { inside }))
    }
}
