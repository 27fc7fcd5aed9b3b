//! What a request is, for whoever decides whether it may be: method, path and query -> verb, resource, name, selectors.
//!
//! The rules are those of apiserver `endpoints/request/requestinfo.go` and `endpoints/filters/authorization.go`, so that
//! a rule that somebody wrote for kube-apiserver means the same here. What is answered to a path is decided elsewhere
//! (`server::route`); [`Attributes::names`] is how that is held against what was asked for.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;

use crate::model::{GroupVersion, Gvr};
use crate::selector::{FieldOperator, FieldRequirement, FieldSelector, LabelOperator, LabelRequirement, LabelSelector};

/// A request as authorizers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Kubernetes' verb for a resource, such as `list`; else the method in lower case. Empty for a method on a resource
    /// that Kubernetes has no verb for.
    pub verb: String,
    /// The path, decoded.
    pub path: String,
    /// What it names below `/api` and `/apis`; `None` for every other path.
    pub resource: Option<ResourceAttributes>,
}

/// The part of a request for resources. Empty texts stand for what is not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub struct ResourceAttributes {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    /// Of the path, or of a field selector on `metadata.name`.
    pub name: String,
    /// Of the field selector; none where it cannot be read or is too long, which asks for more, not for less.
    pub fields: Vec<FieldRequirement>,
    /// Of the label selector; likewise.
    pub labels: Vec<LabelRequirement>,
}

/// A path that says which special verb, but not on what; kube-apiserver answers 500.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to determine kind and namespace from url, {0}")]
pub struct Incomplete(pub String);

/// Verbs that a path can begin with.
const SPECIAL_VERBS: [&str; 2] = ["proxy", "watch"];

/// What may follow a namespace's name without being a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Verbs that come with selectors.
const WITH_SELECTORS: [&str; 3] = ["list", "watch", "deletecollection"];

const NAME_FIELD: &str = "metadata.name";

/// Requirements that are asked for, at most.
pub const MOST_REQUIREMENTS: usize = 256;

/// Bytes of selectors that are asked for, at most. A longer one is not even read here, but when it is known that the caller is permitted to
/// do what it asks for.
pub const LONGEST_SELECTOR: usize = 8 << 10;

/// What each value counts for, beside its length.
const VALUE_BYTES: usize = 8;

impl Attributes {
    /// Reads a request: its method, its path after percent-decoding, and how to look up the first value of a query
    /// parameter.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn read<'query>(
        method: &Method,
        path: &str,
        query: impl Fn(&str) -> Option<&'query str>,
    ) -> Result<Attributes, Incomplete> {
        Ok(PathAttributes::read(method, path)?.with_query(query))
    }

    /// The right to use something by its name: not a request that anybody can make, but one that stands behind others.
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

    /// A list of a resource in all namespaces, without any selector.
    pub fn listing(gvr: &Gvr) -> Attributes {
        let about = ResourceAttributes {
            group: gvr.group.to_string(),
            version: gvr.version.to_string(),
            resource: gvr.resource.to_string(),
            ..ResourceAttributes::default()
        };
        Attributes { verb: "list".to_owned(), path: String::new(), resource: Some(about) }
    }

    /// Getting every single check below a health endpoint, as the nonResourceURL `/readyz/*` of a rule allows it.
    pub fn every_check(endpoint: &str) -> Attributes {
        Attributes { verb: "get".to_owned(), path: format!("/{endpoint}/*"), resource: None }
    }

    /// Leaves out requirements on fields that the API server does not know. What is asked for then is more than what is
    /// answered, never less.
    pub fn keep_fields(&mut self, is_known: impl Fn(&Gvr, &str) -> bool) {
        let Some(resource) = &mut self.resource else { return };
        if resource.fields.is_empty() {
            return;
        }
        let gvr = Gvr::new(&*resource.group, &*resource.version, &*resource.resource);
        resource.fields.retain(|field| is_known(&gvr, &field.label));
    }

    /// Leaves out all requirements if there are too many to ask for: a review takes a hundred times the bytes of what it is made of, and it
    /// is made before it is known whether the caller may do anything. What is asked for then is more than what is answered, never less.
    pub fn bound_requirements(&mut self) {
        if let Some(resource) = &mut self.resource
            && !are_few(&resource.fields, &resource.labels)
        {
            (resource.fields, resource.labels) = (Vec::new(), Vec::new());
        }
    }

    /// Whether what is about to be answered is what permission was asked for. Two readings of one path may differ in
    /// corners (a resource called `watch`), and nothing may be shown in the gap.
    pub fn names(
        &self,
        gvr: &Gvr,
        namespace: Option<&str>,
        name: Option<&str>,
        subresource: Option<&str>,
        watches_by_path: bool,
    ) -> bool {
        let Some(asked) = &self.resource else { return false };
        let below = subresource.unwrap_or_default().split('/').next().unwrap_or_default();
        let is_name = match name {
            Some(name) => asked.name == name,
            // A name can have come of the selector, which then selects it here as well.
            None => {
                let is_selected = |field: &FieldRequirement| {
                    field.label == NAME_FIELD && field.operator == FieldOperator::Equals && field.value == asked.name
                };
                asked.name.is_empty() || asked.fields.iter().any(is_selected)
            }
        };
        let is_verb = self.verb != "proxy" && (!watches_by_path || self.verb == "watch");
        is_verb
            && is_name
            && *gvr.group == *asked.group
            && *gvr.version == *asked.version
            && *gvr.resource == *asked.resource
            && namespace.unwrap_or_default() == asked.namespace
            && below == asked.subresource
    }

    /// How much of it the requester can make as long as it likes; see `authorization`.
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

fn are_few(fields: &[FieldRequirement], labels: &[LabelRequirement]) -> bool {
    let of_field = |field: &FieldRequirement| field.label.len() + field.value.len();
    let of_label = |label: &LabelRequirement| {
        let values = match &label.operator {
            LabelOperator::In(values) | LabelOperator::NotIn(values) => values.as_slice(),
            _ => &[],
        };
        label.key.len() + values.iter().map(|value| value.len() + VALUE_BYTES).sum::<usize>()
    };
    let bytes = fields.iter().map(of_field).sum::<usize>() + labels.iter().map(of_label).sum::<usize>();
    fields.len() + labels.len() <= MOST_REQUIREMENTS && bytes <= LONGEST_SELECTOR
}

/// What has to be permitted: a request, or the same request in each of some namespaces.
///
/// The requests are made one at a time. A caller without any permission chooses how long they are, and a View how many.
#[derive(Clone, Debug)]
pub struct RequiredPermissions {
    request: Arc<Attributes>,
    namespaces: Vec<String>,
}

impl RequiredPermissions {
    /// The request itself.
    pub fn of(request: Arc<Attributes>) -> RequiredPermissions {
        RequiredPermissions { request, namespaces: Vec::new() }
    }

    /// What has to be permitted where a View shows a resource, by group and plural, in some namespaces: for a request that names none the
    /// same in each of them, else the request itself.
    pub fn within<'n>(
        request: Arc<Attributes>,
        namespaces: impl Fn(&str, &str) -> &'n [String],
    ) -> RequiredPermissions {
        let namespaces = match &request.resource {
            Some(about) if about.namespace.is_empty() => namespaces(&about.group, &about.resource).to_vec(),
            _ => Vec::new(),
        };
        RequiredPermissions { request, namespaces }
    }

    /// Each of the requests.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, Attributes>> {
        let itself = self.namespaces.is_empty().then(|| Cow::Borrowed(&*self.request));
        let within = |namespace: &String| {
            let mut request = (*self.request).clone();
            if let Some(about) = &mut request.resource {
                about.namespace.clone_from(namespace);
            }
            Cow::Owned(request)
        };
        itself.into_iter().chain(self.namespaces.iter().map(within))
    }
}

/// What method and path say of a request. It is cheap to read, so it is read before the request is authenticated; selectors are not.
#[derive(Debug)]
pub struct PathAttributes {
    /// Without what the query says.
    attributes: Attributes,
    /// The verb of a request for a resource, as far as method and path say it, and whether the path begins with it.
    verb: Option<(&'static str, bool)>,
}

impl PathAttributes {
    /// Reads a method, and a path after percent-decoding.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn read(method: &Method, path: &str) -> Result<PathAttributes, Incomplete> {
        let mut attributes =
            Attributes { verb: method.as_str().to_ascii_lowercase(), path: path.to_owned(), resource: None };
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (GroupVersion { group, version }, parts) = match parts[..] {
            ["api", version, ref rest @ ..] if !rest.is_empty() => (GroupVersion::new("", version), rest),
            ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (GroupVersion::new(group, version), rest),
            _ => return Ok(PathAttributes { attributes, verb: None }),
        };
        let special = SPECIAL_VERBS.into_iter().find(|verb| *verb == parts[0]);
        let parts = if special.is_some() { &parts[1..] } else { parts };
        let Some(first) = parts.first() else { return Err(Incomplete(path.to_owned())) };
        let verb = special.unwrap_or_else(|| method_verb(method));
        let (namespace, parts) = match parts {
            [_, namespace, after, ..] if *first == "namespaces" && !NAMESPACE_SUBRESOURCES.contains(after) => {
                (*namespace, &parts[2..])
            }
            [_, namespace, ..] if *first == "namespaces" => (*namespace, parts),
            _ => ("", parts),
        };
        let at = |index: usize| parts.get(index).copied().unwrap_or_default();
        let subresource = if verb == "proxy" { "" } else { at(2) };
        let resource = ResourceAttributes {
            group: group.to_string(),
            version: version.to_string(),
            resource: at(0).to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: at(1).to_owned(),
            fields: Vec::new(),
            labels: Vec::new(),
        };
        attributes.resource = Some(resource);
        Ok(PathAttributes { attributes, verb: Some((verb, special.is_some())) })
    }

    /// The path, decoded, if it names nothing below `/api` and `/apis`.
    pub fn other_path(&self) -> Option<&str> {
        self.verb.is_none().then_some(&self.attributes.path)
    }

    /// Reads what the query says: selectors, the name in them, and whether a list is a watch.
    pub fn with_query<'query>(self, query: impl Fn(&str) -> Option<&'query str>) -> Attributes {
        let PathAttributes { mut attributes, verb } = self;
        let (Some(resource), Some((verb, is_special))) = (&mut attributes.resource, verb) else { return attributes };
        let short = |key| query(key).filter(|text| text.len() <= LONGEST_SELECTOR);
        let fields = short("fieldSelector").map(FieldSelector::parse);
        let labels = short("labelSelector").map(LabelSelector::parse);
        let has_few = {
            let fields = fields.iter().flatten().flat_map(|selector| &selector.requirements).count();
            let labels = labels.iter().flatten().flat_map(|selector| &selector.requirements).count();
            fields + labels <= MOST_REQUIREMENTS
        };
        let (fields, labels) = if has_few { (fields, labels) } else { (None, None) };
        let is_nameless = resource.name.is_empty();
        let verb = match verb {
            "get" if is_nameless => {
                let is_readable = matches!(fields, None | Some(Ok(_)))
                    && matches!(labels, None | Some(Ok(_)))
                    && ["limit", "timeoutSeconds"]
                        .iter()
                        .all(|key| query(key).is_none_or(|text| text.parse::<i64>().is_ok()));
                // One option that cannot be read makes upstream forget them all, but for `watch`.
                if let (true, Some(Ok(fields))) = (is_readable, &fields)
                    && let Some(name) = exact_name(fields)
                {
                    name.clone_into(&mut resource.name);
                }
                let watches = query("watch").is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"));
                if watches { "watch" } else { "list" }
            }
            "delete" if is_nameless => "deletecollection",
            verb => verb,
        };
        // Watches by path take selectors in some forms only, so upstream asks for the whole there.
        if !is_special && WITH_SELECTORS.contains(&verb) {
            resource.fields = fields.and_then(Result::ok).map(|fields| fields.requirements).unwrap_or_default();
            resource.labels = labels.and_then(Result::ok).map(|labels| labels.requirements).unwrap_or_default();
        }
        verb.clone_into(&mut attributes.verb);
        attributes
    }
}

fn method_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// The name that a field selector asks for, if it can be a part of a path.
fn exact_name(fields: &FieldSelector) -> Option<&str> {
    let exact = fields
        .requirements
        .iter()
        .find(|requirement| requirement.label == NAME_FIELD && requirement.operator == FieldOperator::Equals)?;
    let value = &*exact.value;
    (value != "." && value != ".." && !value.contains(['/', '%'])).then_some(value)
}
