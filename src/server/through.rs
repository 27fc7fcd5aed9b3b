//! Requests through a View: which View a path names, and what is answered there.
//!
//! Behind `/apis/view.fieldcache.dev/v1alpha1/views/NAME/proxy` stands a whole server of its own: the rest of the path is read like
//! any other, over the View's catalog. Nothing is handed on from there, and whoever asks for how it is answered (`explain`) is not
//! told: plans count what the View does not show. What a View shows is `registry::views`', who may ask is `access`'s.

use std::sync::Arc;

use http::Uri;
use http::uri::PathAndQuery;

use super::failure::Failure;
use crate::registry::views::PATH;
use crate::registry::{Catalog, Registry, View, ViewState};
use crate::selector::syntax;

const PROXY: &str = "/proxy";

/// A View that a request names.
pub(super) struct Named<'p> {
    /// Its name.
    pub(super) name: &'p str,
    /// What stands before the path inside, for addresses in answers.
    pub(super) prefix: &'p str,
    /// The path inside, from its slash on; still percent-encoded.
    inside: &'p str,
}

impl<'p> Named<'p> {
    /// Reads a path, still percent-encoded: what is encoded in front of the path inside names nothing.
    pub(super) fn of(path: &'p str) -> Option<Named<'p>> {
        let rest = path.strip_prefix(PATH)?;
        let (name, below) = rest.split_at(rest.find('/')?);
        let inside = below.strip_prefix(PROXY)?;
        let is_whole = inside.is_empty() || inside.starts_with('/');
        (is_whole && syntax::dns_subdomain_faults(name).is_empty()).then(|| Named {
            name,
            prefix: &path[..path.len() - inside.len()],
            inside,
        })
    }

    /// The address inside, with the query.
    pub(super) fn uri(&self, outside: &Uri) -> Option<Uri> {
        let path = if self.inside.is_empty() { "/" } else { self.inside };
        let text = match outside.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        let mut parts = outside.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
        Uri::from_parts(parts).ok()
    }

    /// The View, if it is served.
    ///
    /// # Errors
    /// 404 where there is none, 503 where it cannot be served.
    pub(super) fn view(&self, registry: &Registry) -> Result<Arc<View>, Failure> {
        match registry.view(self.name) {
            Some(ViewState::Served(view)) => Ok(view),
            // Why is for those who may read the View itself.
            Some(ViewState::Refused(_)) => {
                let name = self.name;
                Err(Failure::Unavailable(format!(
                    "the View {name} is not served: kubectl get view {name} -o wide says why"
                )))
            }
            None => Err(Failure::NotFound {
                gvr: crate::model::Gvr::new("fieldcache.dev", "v1alpha1", "views"),
                name: self.name.to_owned(),
            }),
        }
    }
}

/// The View of a request, and its path in it.
pub(super) struct Through {
    pub(super) view: Arc<View>,
    /// What clients have before the path inside.
    pub(super) prefix: String,
}

impl Through {
    pub(super) fn catalog(&self, whole: &Arc<Catalog>) -> Arc<Catalog> {
        self.view.catalog(whole)
    }
}
