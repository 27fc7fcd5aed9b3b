//! A request as authorizers see it, made of its [`RequestInfo`] by the rules of apiserver
//! `endpoints/filters/authorization.go`.
//!
//! Does not read paths or queries; [`crate::request`] does.

use std::borrow::Cow;
use std::sync::Arc;

use super::namespace_permissions::NamespacePermissions;
use crate::model::Gvr;
use crate::request::RequestInfo;
use crate::request::info::{Incomplete, LONGEST_SELECTOR, MOST_REQUIREMENTS};
use crate::selector::{FieldRequirement, LabelRequirement};

/// A request as authorizers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Kubernetes' verb for a resource, such as `list`; else the method in lower case. Empty for a method on a resource
    /// that Kubernetes has no verb for.
    pub verb: String,
    /// The path, decoded.
    pub path: String,
    /// The resource of a path below `/api` or `/apis`; `None` for other paths.
    pub resource: Option<ResourceAttributes>,
}

/// The resource of a request. Absent parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub struct ResourceAttributes {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    /// The name in the path, or in a field selector on `metadata.name`.
    pub name: String,
    /// The requirements of the field selector, without those that depend on the fields of the resource: see
    /// `FieldSelector::certain`. Empty if the selector is invalid or too long: the request is then authorized for more,
    /// not for less.
    pub fields: Vec<FieldRequirement>,
    /// The requirements of the label selector; likewise.
    pub labels: Vec<LabelRequirement>,
}

/// Verbs with selectors.
const WITH_SELECTORS: [&str; 3] = ["list", "watch", "deletecollection"];

/// Bytes that are added to the length of each value of a label requirement: a list can have many empty values, and each
/// of them takes memory in a review.
const VALUE_BYTES: usize = 8;

impl Attributes {
    /// Reads the attributes of a request. Parses its selectors, if they are short.
    ///
    /// # Errors
    /// The path names no resource that could be authorized.
    pub fn from_request(request: &RequestInfo) -> Result<Attributes, Incomplete> {
        let resource = request.resource()?.map(|named| {
            // Watches by path (`/watch/`) have selectors in some forms only, so upstream authorizes them without
            // selectors.
            let has_selectors = !named.legacy_watch && WITH_SELECTORS.contains(&&*request.verb);
            let selectors = has_selectors.then(|| request.selectors());
            let fields = selectors.and_then(|selectors| selectors.fields.read());
            let labels = selectors.and_then(|selectors| selectors.labels.read());
            ResourceAttributes {
                group: named.gvr.group.to_string(),
                version: named.gvr.version.to_string(),
                resource: named.gvr.resource.to_string(),
                subresource: named.subresource_name().to_owned(),
                namespace: named.namespace.clone().unwrap_or_default(),
                name: request.name().to_owned(),
                fields: fields.map(|selector| selector.certain().cloned().collect()).unwrap_or_default(),
                labels: labels.map(|selector| selector.requirements.clone()).unwrap_or_default(),
            }
        });
        Ok(Attributes { verb: request.verb.to_string(), path: request.path.clone(), resource })
    }

    /// The permission to use an object by its name, with the verb `use`, which no request has. A request through a View
    /// can need this permission on the View.
    pub fn using(group: &str, version: &str, resource: &str, name: &str) -> Attributes {
        let text = str::to_owned;
        let about = ResourceAttributes {
            group: text(group),
            version: text(version),
            resource: text(resource),
            name: text(name),
            ..ResourceAttributes::default()
        };
        Attributes { verb: "use".to_owned(), path: String::new(), resource: Some(about) }
    }

    /// The permission to list a resource in all namespaces, without selectors.
    pub fn listing(gvr: &Gvr) -> Attributes {
        let about = ResourceAttributes {
            group: gvr.group.to_string(),
            version: gvr.version.to_string(),
            resource: gvr.resource.to_string(),
            ..ResourceAttributes::default()
        };
        Attributes { verb: "list".to_owned(), path: String::new(), resource: Some(about) }
    }

    /// The permission to get every single check below a health endpoint, such as `readyz`. A rule grants it by the
    /// nonResourceURL `/readyz/*`.
    pub fn every_check(endpoint: &str) -> Attributes {
        Attributes { verb: "get".to_owned(), path: format!("/{endpoint}/*"), resource: None }
    }

    /// Keeps only the requirements on fields that the API server knows. `is_known` returns whether it knows the field
    /// of a resource with this path. Others, and those without a key, are not valid in a review. The request is then
    /// authorized for more than its response contains, never for less.
    pub fn keep_fields(&mut self, is_known: impl Fn(&Gvr, &str) -> bool) {
        let Some(resource) = &mut self.resource else { return };
        if resource.fields.is_empty() {
            return;
        }
        let gvr = Gvr::new(&*resource.group, &*resource.version, &*resource.resource);
        resource.fields.retain(|field| !field.label.is_empty() && is_known(&gvr, &field.label));
    }

    /// Leaves out all requirements if there are too many. A review takes a hundred times the bytes of its requirements
    /// in memory, and is made before the caller is authorized for anything. The request is then authorized for more
    /// than its response contains, never for less.
    pub fn bound_requirements(&mut self) {
        if let Some(resource) = &mut self.resource
            && !are_few(&resource.fields, &resource.labels)
        {
            (resource.fields, resource.labels) = (Vec::new(), Vec::new());
        }
    }

    /// Whether the request is for all objects of a resource, in all namespaces: it has no name and no selectors.
    pub fn is_of_all_objects(&self) -> bool {
        self.resource.as_ref().is_some_and(|about| {
            about.namespace.is_empty() && about.name.is_empty() && about.fields.is_empty() && about.labels.is_empty()
        })
    }

    /// The permission for the verb and the resource alone: in all namespaces, for all names, without selectors.
    pub fn of_resource(&self) -> Attributes {
        let resource = self.resource.as_ref().map(|about| ResourceAttributes {
            group: about.group.clone(),
            version: about.version.clone(),
            resource: about.resource.clone(),
            ..ResourceAttributes::default()
        });
        Attributes { verb: self.verb.clone(), path: String::new(), resource }
    }

    /// Bytes of the strings whose length the caller chooses, without selectors. Decisions about requests with long ones
    /// are not cached.
    pub(super) fn controlled_bytes(&self) -> usize {
        let resource = self.resource.iter().map(|resource| {
            [
                &resource.namespace,
                &resource.group,
                &resource.version,
                &resource.resource,
                &resource.subresource,
                &resource.name,
            ]
            .map(String::len)
            .iter()
            .sum::<usize>()
        });
        self.verb.len() + self.path.len() + resource.sum::<usize>()
    }
}

/// Whether there are so few requirements, with so short strings, that a review can contain them.
fn are_few(fields: &[FieldRequirement], labels: &[LabelRequirement]) -> bool {
    let of_field =
        |field: &FieldRequirement| field.label.len() + field.operator.listed().iter().map(String::len).sum::<usize>();
    let of_label = |label: &LabelRequirement| {
        label.key.len() + label.operator.listed().iter().map(|value| value.len() + VALUE_BYTES).sum::<usize>()
    };
    let bytes = fields.iter().map(of_field).sum::<usize>() + labels.iter().map(of_label).sum::<usize>();
    fields.len() + labels.len() <= MOST_REQUIREMENTS && bytes <= LONGEST_SELECTOR
}

/// The number of namespaces up to which the permission of a request in each of them includes its selectors.
const MOST_WITH_SELECTORS: usize = 8;

/// Where a request through a View needs its permission, if it names no namespace itself.
#[derive(Clone, Debug, Default)]
pub enum PermissionNamespaces {
    /// In all namespaces, as without the View.
    #[default]
    All,
    /// In each of these namespaces; not empty.
    Each(Vec<String>),
    /// In all namespaces, or else in each of these; not empty. For namespaces that can be many: one review is enough
    /// for a caller with the permission in all namespaces.
    AllOrEach(Vec<String>),
    /// In all namespaces, or else in at least one of these.
    AllOrSome(Arc<dyn NamespacePermissions>),
}

/// The permissions that a request needs: those of the request itself, or of the same request in each of some
/// namespaces.
///
/// The attributes of each namespace are made only when their turn comes, one at a time: a caller without any permission
/// chooses how long they are, and a View how many there are.
#[derive(Clone, Debug)]
pub struct RequiredPermissions {
    request: Arc<Attributes>,
    namespaces: PermissionNamespaces,
}

impl RequiredPermissions {
    /// The permission for the request itself.
    pub fn for_request(request: Arc<Attributes>) -> RequiredPermissions {
        RequiredPermissions { request, namespaces: PermissionNamespaces::All }
    }

    /// The permissions for a request through a View. `namespaces` returns where a request for a resource without a
    /// namespace needs them.
    pub fn within(
        request: Arc<Attributes>,
        namespaces: impl Fn(&Attributes, &ResourceAttributes) -> PermissionNamespaces,
    ) -> RequiredPermissions {
        let namespaces = match &request.resource {
            Some(about) if about.namespace.is_empty() => namespaces(&request, about),
            _ => PermissionNamespaces::All,
        };
        RequiredPermissions { request, namespaces }
    }

    /// The permission in all namespaces, if it is enough instead of those in each namespace.
    pub fn alternative(&self) -> Option<RequiredPermissions> {
        match self.namespaces {
            PermissionNamespaces::AllOrEach(_) | PermissionNamespaces::AllOrSome(_) => {
                Some(RequiredPermissions::for_request(self.request.clone()))
            }
            PermissionNamespaces::All | PermissionNamespaces::Each(_) => None,
        }
    }

    /// The namespaces of which one is enough, with the request itself.
    pub(super) fn some(&self) -> Option<(&Arc<dyn NamespacePermissions>, &Attributes)> {
        match &self.namespaces {
            PermissionNamespaces::AllOrSome(namespaces) => Some((namespaces, &self.request)),
            PermissionNamespaces::All | PermissionNamespaces::Each(_) | PermissionNamespaces::AllOrEach(_) => None,
        }
    }

    /// The attributes of all requests that must be permitted, unless [`RequiredPermissions::alternative`] is. There are
    /// none if one of several namespaces is enough: see [`NamespacePermissions`].
    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, Attributes>> {
        let namespaces: &[String] = match &self.namespaces {
            PermissionNamespaces::All | PermissionNamespaces::AllOrSome(_) => &[],
            PermissionNamespaces::Each(namespaces) | PermissionNamespaces::AllOrEach(namespaces) => namespaces,
        };
        let is_itself = namespaces.is_empty() && self.some().is_none();
        let itself = is_itself.then(|| Cow::Borrowed(&*self.request));
        // Each request could have another selector, and so another cached decision for each namespace. With many
        // namespaces, the permission without selectors is needed, so that requests share the decisions.
        let has_many = namespaces.len() > MOST_WITH_SELECTORS;
        let within = move |namespace: &String| {
            let mut request = (*self.request).clone();
            if let Some(about) = &mut request.resource {
                about.namespace.clone_from(namespace);
                if has_many {
                    (about.fields, about.labels) = (Vec::new(), Vec::new());
                    about.name.clear();
                }
            }
            Cow::Owned(request)
        };
        itself.into_iter().chain(namespaces.iter().map(within))
    }
}
