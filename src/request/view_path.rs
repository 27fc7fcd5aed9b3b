//! The path prefix of a View: `/apis/view.fieldcache.dev/v1alpha1/views/NAME/proxy`.
//!
//! The rest of the path is parsed like any other path, for the resources of the View. Callers check whether the View
//! exists.

use crate::selector::syntax;

/// The path in front of the name of a View.
pub const VIEWS: &str = "/apis/view.fieldcache.dev/v1alpha1/views/";

const PROXY: &str = "/proxy";

/// The View that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPath {
    /// The name of the View.
    pub name: String,
    /// The part of the path in front of the path within the View, as the client sent it. URLs in responses begin with
    /// it.
    pub prefix: String,
}

impl ViewPath {
    /// Splits a path into the View and the path within it, which is `/` if nothing follows. `None` if the path does
    /// not begin with a valid prefix of a View. `path` is not percent-decoded, so a prefix with encoded characters is
    /// not valid.
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
