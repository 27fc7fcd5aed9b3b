//! [`RequestInfo`]: what a request is about, in Kubernetes' terms.
//!
//! The rules are those of apiserver `endpoints/request/requestinfo.go`, so a rule that an administrator wrote for kube-apiserver means the
//! same here. Authorizers see it through `access::attributes`; handlers use its route.
//!
//! Selectors are read when they are first needed: a client without credentials must not cause that work.

use std::borrow::Cow;
use std::sync::OnceLock;

use http::Method;

use super::path::{EndsAfterVerb, ReadPath, ResourcePath, Route, VerbPrefix};
use super::query::Query;
use super::view_path::ViewPath;
use crate::model::percent_decode;
use crate::selector::{FieldSelector, LabelSelector};

/// The maximum number of requirements of a request's selectors that are parsed.
pub const MOST_REQUIREMENTS: usize = 256;

/// The longest selector that is parsed, in bytes. A request for a list waits for its turn, and must not hold a longer
/// one twice.
pub const LONGEST_SELECTOR: usize = 8 << 10;

const NAME_FIELD: &str = "metadata.name";

/// What a request is about.
#[derive(Debug)]
pub struct RequestInfo {
    /// Its method.
    pub method: Method,
    /// The View that its path names. Everything else describes the request inside of the View.
    pub view: Option<ViewPath>,
    /// Its path after percent-decoding, or as it came if it cannot be decoded.
    pub path: String,
    /// Its query.
    pub query: Query,
    /// Kubernetes' verb for a resource, such as `list`; else the method in lower case. Empty for a method on a resource that Kubernetes has
    /// no verb for.
    pub verb: Cow<'static, str>,
    read: ReadPath,
    selectors: OnceLock<Selectors>,
}

/// A path that sets the verb, but names no resource. kube-apiserver rejects it with 500 before it authenticates the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to determine kind and namespace from url, {0}")]
pub struct Incomplete(pub String);

/// The selectors of a request, if they are short.
#[derive(Debug, Default)]
pub struct Selectors {
    /// The selector of the parameter `fieldSelector`.
    pub fields: Selector<FieldSelector>,
    /// The selector of the parameter `labelSelector`.
    pub labels: Selector<LabelSelector>,
}

/// One selector of a request.
#[derive(Debug, Default)]
pub enum Selector<S> {
    /// There is none, or it is too long to be parsed.
    #[default]
    NotRead,
    /// The selector is invalid.
    Invalid,
    /// The parsed selector.
    Read(S),
}

impl RequestInfo {
    /// Reads a request. `path` is still percent-encoded, and may name a View.
    pub fn read(method: &Method, path: &str, query: Query) -> RequestInfo {
        let (view, inside) = match ViewPath::split(path) {
            Some((view, inside)) => (Some(view), inside),
            None => (None, path),
        };
        let decoded = percent_decode(inside, false);
        let read = decoded.as_deref().map_or(ReadPath::UNREADABLE, ReadPath::parse);
        let path = decoded.unwrap_or_else(|| inside.to_owned());
        let verb = verb(method, &read, &query);
        RequestInfo { method: method.clone(), view, path, query, verb, read, selectors: OnceLock::new() }
    }

    /// The part of the API that answers the request.
    pub fn route(&self) -> &Route {
        &self.read.route
    }

    /// The resource that the path names, also if no route answers it; `None` for paths that name none.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn resource(&self) -> Result<Option<&ResourcePath>, Incomplete> {
        match self.read.unrouted {
            Err(EndsAfterVerb) => Err(Incomplete(self.path.clone())),
            Ok(_) => Ok(self.read.resource()),
        }
    }

    /// Name of the object: of the path, or of a field selector on `metadata.name`. Empty if there is none.
    pub fn name(&self) -> &str {
        let Some(resource) = self.read.resource() else { return "" };
        match &resource.name {
            Some(name) => name,
            None if self.takes_name_of_selector() => self.selected_name().unwrap_or_default(),
            None => "",
        }
    }

    /// The selectors of the request, which are read now if they have not been.
    pub fn selectors(&self) -> &Selectors {
        self.selectors.get_or_init(|| Selectors::parse(&self.query))
    }

    /// Whether the path, or a part of it between backslashes, leads up. A proxy on the way to the API server may clean such a path.
    pub fn climbs(&self) -> bool {
        self.path.split(['/', '\\']).any(|part| part == "..")
    }

    /// The resource that the path names after a proxy has cleaned it: without empty and `.` parts, and with backslashes as slashes.
    pub fn cleaned_resource(&self) -> Option<ResourcePath> {
        let parts: Vec<&str> = self.path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").collect();
        let route = ReadPath::parse(&format!("/{}", parts.join("/"))).route;
        if let Route::Resource(resource) = route { Some(resource) } else { None }
    }

    /// Whether the name comes from the field selector: only lists and watches by method do that.
    fn takes_name_of_selector(&self) -> bool {
        self.read.verb.is_none() && matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The name that the field selector selects, if it can be a part of a path.
    fn selected_name(&self) -> Option<&str> {
        let Selectors { fields, labels } = self.selectors();
        let is_number = |key| self.query.get(key).is_none_or(|text| text.parse::<i64>().is_ok());
        // One option that cannot be read makes upstream forget all of them.
        if matches!(labels, Selector::Invalid) || !is_number("limit") || !is_number("timeoutSeconds") {
            return None;
        }
        let Selector::Read(fields) = fields else { return None };
        let requirements = fields.requirements.iter().filter(|requirement| requirement.label == NAME_FIELD);
        let value = requirements.filter_map(|requirement| requirement.operator.demanded()).next()?;
        (value != "." && value != ".." && !value.contains(['/', '%'])).then_some(value)
    }
}

impl Selectors {
    /// Parses the selectors of a query. Long ones are not parsed.
    fn parse(query: &Query) -> Selectors {
        let short = |key| query.get(key).filter(|text| text.len() <= LONGEST_SELECTOR);
        let fields = Selector::from_result(short("fieldSelector").map(FieldSelector::parse));
        let labels = Selector::from_result(short("labelSelector").map(LabelSelector::parse));
        let count = fields.read().map_or(0, |selector| selector.requirements.len())
            + labels.read().map_or(0, |selector| selector.requirements.len());
        if count <= MOST_REQUIREMENTS { Selectors { fields, labels } } else { Selectors::default() }
    }
}

impl<S> Selector<S> {
    /// The state of a selector after parsing. `None`: the query has none, or it is too long to be parsed.
    fn from_result<E>(parsed: Option<Result<S, E>>) -> Selector<S> {
        match parsed {
            None => Selector::NotRead,
            Some(Err(_)) => Selector::Invalid,
            Some(Ok(selector)) => Selector::Read(selector),
        }
    }

    /// The selector, if it has been parsed.
    pub fn read(&self) -> Option<&S> {
        match self {
            Selector::Read(selector) => Some(selector),
            Selector::NotRead | Selector::Invalid => None,
        }
    }
}

/// The Kubernetes verb of a request, such as `list` or `deletecollection`.
fn verb(method: &Method, read: &ReadPath, query: &Query) -> Cow<'static, str> {
    let Some(resource) = read.resource() else { return Cow::Owned(method.as_str().to_ascii_lowercase()) };
    Cow::Borrowed(match (read.verb, method, &resource.name) {
        (Some(VerbPrefix::Watch), ..) => "watch",
        (Some(VerbPrefix::Proxy), ..) => "proxy",
        (None, &Method::GET | &Method::HEAD, Some(_)) => "get",
        (None, &Method::GET | &Method::HEAD, None) if query.flag("watch") => "watch",
        (None, &Method::GET | &Method::HEAD, None) => "list",
        (None, &Method::POST, _) => "create",
        (None, &Method::PUT, _) => "update",
        (None, &Method::PATCH, _) => "patch",
        (None, &Method::DELETE, Some(_)) => "delete",
        (None, &Method::DELETE, None) => "deletecollection",
        (None, ..) => "",
    })
}
