//! [`RequestInfo`]: the View, resource, verb and selectors of a request.
//!
//! The rules are those of apiserver `endpoints/request/requestinfo.go`, so an RBAC rule that is written for
//! kube-apiserver means the same here. `access::attributes` converts it for authorizers; handlers use its route.
//!
//! Selectors are parsed when they are first needed, because a client without credentials must not cause this work.

use std::borrow::Cow;
use std::sync::OnceLock;

use http::Method;

use super::path::{EndsAfterVerb, ReadPath, ResourcePath, Route, VerbPrefix};
use super::query::Query;
use super::view_path::ViewPath;
use crate::model::percent_decode;
use crate::selector::{FieldSelector, LabelSelector};

/// The maximum number of requirements in both selectors of a request. Selectors with more count as not parsed.
pub const MOST_REQUIREMENTS: usize = 256;

/// The longest selector that is parsed, in bytes. A waiting request holds the selector as text and parsed, so this
/// bounds its memory.
pub const LONGEST_SELECTOR: usize = 8 << 10;

const NAME_FIELD: &str = "metadata.name";

/// The parts of a request that decide who may send it and which handler responds.
#[derive(Debug)]
pub struct RequestInfo {
    /// The HTTP method.
    pub method: Method,
    /// The View that the path begins with; `None` for a path outside of Views. All other fields describe the request
    /// within the View.
    pub view: Option<ViewPath>,
    /// The path after percent-decoding, without the prefix of the View. A path that cannot be decoded is unchanged.
    pub path: String,
    /// The query.
    pub query: Query,
    /// Kubernetes' verb, such as `list`, if the path names a resource; else the method in lower case. Empty for a
    /// method on a resource for which Kubernetes has no verb.
    pub verb: Cow<'static, str>,
    read: ReadPath,
    /// Set when the selectors are first needed.
    selectors: OnceLock<Selectors>,
}

/// A path that sets the verb, but names no resource. kube-apiserver rejects it with 500 before it authenticates the
/// caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to determine kind and namespace from url, {0}")]
pub struct Incomplete(pub String);

/// The selectors of a request.
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
    /// The query has none, it is too long to be parsed, or the two selectors have too many requirements.
    #[default]
    NotRead,
    /// The selector is invalid.
    Invalid,
    /// The parsed selector.
    Read(S),
}

impl RequestInfo {
    /// Parses a request. `path`: percent-encoded, with the prefix of a View if it has one.
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

    /// The part of the API that serves the path.
    pub fn route(&self) -> &Route {
        &self.read.route
    }

    /// The resource that the path names, also if no route matches the path. `None` for paths that name none.
    ///
    /// # Errors
    /// [`Incomplete`] for a path that ends after a verb, such as `/api/v1/watch`.
    pub fn resource(&self) -> Result<Option<&ResourcePath>, Incomplete> {
        match self.read.unrouted {
            Err(EndsAfterVerb) => Err(Incomplete(self.path.clone())),
            Ok(_) => Ok(self.read.resource()),
        }
    }

    /// The name of the object, from the path, or from a field selector on `metadata.name`. Empty if there is none.
    pub fn name(&self) -> &str {
        let Some(resource) = self.read.resource() else { return "" };
        match &resource.name {
            Some(name) => name,
            None if self.can_select_name() => self.selected_name().unwrap_or_default(),
            None => "",
        }
    }

    /// The selectors of the request. The first call parses them.
    pub fn selectors(&self) -> &Selectors {
        self.selectors.get_or_init(|| Selectors::parse(&self.query))
    }

    /// Whether the path has a `..` between slashes or backslashes. A proxy in front of the API server may resolve
    /// such a path to another one.
    pub fn has_parent_segment(&self) -> bool {
        self.path.split(['/', '\\']).any(|part| part == "..")
    }

    /// The resource that the path names after a proxy has normalized it: without empty and `.` segments, and with
    /// backslashes as slashes. `None` if the normalized path names none.
    pub fn cleaned_resource(&self) -> Option<ResourcePath> {
        let parts: Vec<&str> = self.path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").collect();
        let route = ReadPath::parse(&format!("/{}", parts.join("/"))).route;
        if let Route::Resource(resource) = route { Some(resource) } else { None }
    }

    /// Whether a field selector can set the name: only for GET and HEAD without a verb in the path.
    fn can_select_name(&self) -> bool {
        self.read.verb.is_none() && matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The name that the field selector requires. `None` if it requires none, the name cannot be a path segment, or
    /// another option is invalid.
    fn selected_name(&self) -> Option<&str> {
        let Selectors { fields, labels } = self.selectors();
        let is_number = |key| self.query.get(key).is_none_or(|text| text.parse::<i64>().is_ok());
        // If one option is invalid, upstream ignores all of them.
        if matches!(labels, Selector::Invalid) || !is_number("limit") || !is_number("timeoutSeconds") {
            return None;
        }
        let Selector::Read(fields) = fields else { return None };
        let requirements = fields.certain().filter(|requirement| requirement.label == NAME_FIELD);
        let value = requirements.filter_map(|requirement| requirement.operator.demanded()).next()?;
        (value != "." && value != ".." && !value.contains(['/', '%'])).then_some(value)
    }
}

impl Selectors {
    /// Parses the selectors of a query. Does not parse long ones, and discards both if they have too many requirements.
    fn parse(query: &Query) -> Selectors {
        let short = |key| query.get(key).filter(|text| text.len() <= LONGEST_SELECTOR);
        let fields = Selector::from_parsed(short("fieldSelector").map(FieldSelector::parse));
        let labels = Selector::from_parsed(short("labelSelector").map(LabelSelector::parse));
        let count = fields.read().map_or(0, |selector| selector.requirements.len())
            + labels.read().map_or(0, |selector| selector.requirements.len());
        if count <= MOST_REQUIREMENTS { Selectors { fields, labels } } else { Selectors::default() }
    }
}

impl<S> Selector<S> {
    /// The state of a selector after parsing. `None`: the query has none, or it is too long to be parsed.
    fn from_parsed<E>(parsed: Option<Result<S, E>>) -> Selector<S> {
        match parsed {
            None => Selector::NotRead,
            Some(Err(_)) => Selector::Invalid,
            Some(Ok(selector)) => Selector::Read(selector),
        }
    }

    /// The selector; `None` if it is invalid or was not parsed.
    pub fn read(&self) -> Option<&S> {
        match self {
            Selector::Read(selector) => Some(selector),
            Selector::NotRead | Selector::Invalid => None,
        }
    }
}

/// The verb of a request: see [`RequestInfo::verb`].
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
