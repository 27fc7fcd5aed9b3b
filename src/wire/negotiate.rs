//! Accept -> media type and form (apiserver `endpoints/handlers/negotiation/negotiate.go`).
//!
//! JSON everywhere, YAML for what is no watch, protobuf for what has messages ([`Protobuf`]). Table is a form of JSON and YAML,
//! PartialObjectMetadata of all three; discovery has its own.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};

use super::api_error::ApiError;
use crate::request::Query;

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// application/json.
    Json,
    /// application/yaml.
    Yaml,
    /// application/vnd.kubernetes.protobuf.
    Protobuf,
}

/// What has messages of protobuf. No Table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// Nothing.
    None,
    /// Metadata: custom resources have no messages of their own.
    Metadata,
    /// Documents and objects as they are, and metadata.
    Everything,
}

impl Messages {
    /// Whether this representation has a protobuf form.
    fn has(self, form: &Representation) -> bool {
        match (self, form) {
            (Messages::None, _) | (_, Representation::Table(_)) => false,
            (Messages::Everything, _)
            | (Messages::Metadata, Representation::Partial(_) | Representation::PartialList(_)) => true,
            (Messages::Metadata, Representation::Whole | Representation::AggregatedDiscovery) => false,
        }
    }
}

/// What can be sent in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protobuf {
    /// Here. Messages of the source's version may not be known, or an object may not fit its message.
    pub here: Messages,
    /// What kube-apiserver sends in protobuf.
    pub upstream: Messages,
}

impl Protobuf {
    /// Documents, and objects of kinds that are known.
    pub const EVERYTHING: Protobuf = Protobuf { here: Messages::Everything, upstream: Messages::Everything };
    /// Custom resources.
    pub const METADATA: Protobuf = Protobuf { here: Messages::Metadata, upstream: Messages::Metadata };

    /// Like negotiating without protobuf, for a response that has no such form.
    pub fn without(self) -> Protobuf {
        Protobuf { here: Messages::None, ..self }
    }
}

/// What an object or a list is turned into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Representation {
    /// Itself.
    Whole,
    /// meta.k8s.io Table of this version.
    Table(String),
    /// meta.k8s.io PartialObjectMetadata of this version.
    Partial(String),
    /// meta.k8s.io PartialObjectMetadataList of this version.
    PartialList(String),
    /// apidiscovery.k8s.io/v2 APIGroupDiscoveryList.
    AggregatedDiscovery,
}

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// JSON, YAML or protobuf.
    pub format: Format,
    /// Itself, a Table, metadata only.
    pub form: Representation,
    /// Whether `metadata.managedFields` is left out.
    pub drops_managed_fields: bool,
    /// Whether the client would have had protobuf of kube-apiserver instead.
    pub misses_protobuf: bool,
}

/// The kind of a path, which decides the forms on offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Objects and lists.
    Resource,
    /// Events.
    Watch,
    /// `/api` and `/apis`, which have an aggregated form.
    Discovery,
    /// Everything else: no forms.
    Plain,
}

/// One clause of an Accept header.
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next()?;
        let (kind, subtype) = match media_type.split_once('/') {
            Some(types) => types,
            None if media_type == "*" => ("*", "*"),
            None => return None,
        };
        let parameters: Vec<(&str, &str)> = parts
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(key, value)| (key.trim(), value.trim().trim_matches('"')))
            .collect();
        let quality =
            parameters.iter().find(|(key, _)| *key == "q").map_or(1.0, |(_, value)| value.parse().unwrap_or(0.0));
        Some(Clause { kind: kind.trim(), subtype: subtype.trim(), parameters, quality })
    }

    /// How specific the clause is: wildcards come last among equals.
    fn rank(&self) -> u8 {
        u8::from(self.kind == "*") + u8::from(self.subtype == "*")
    }

    /// The value of a parameter; empty if missing.
    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// The format that the clause accepts.
    fn format(&self, offer: Offer) -> Option<Format> {
        let takes = |subtype: &str| {
            (self.kind == "*" || self.kind == "application") && (self.subtype == "*" || self.subtype == subtype)
        };
        if takes("json") {
            Some(Format::Json)
        } else if takes("yaml") && offer != Offer::Watch {
            Some(Format::Yaml)
        } else if takes("vnd.kubernetes.protobuf") {
            Some(Format::Protobuf)
        } else {
            None
        }
    }

    /// Whether the clause leaves out `metadata.managedFields` (KEP-5958). Names are joined by `+`, and unknown ones are
    /// ignored. `None`: a name occurs twice, so the clause is not valid.
    fn drops_managed_fields(&self) -> Option<bool> {
        let mut names: Vec<&str> = self.parameter("drop").split('+').filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        let is_repeated = names.windows(2).any(|pair| pair[0] == pair[1]);
        (!is_repeated).then(|| names.contains(&"metadata.managedFields"))
    }

    /// The representation that the clause accepts.
    fn form(&self, offer: Offer) -> Option<Representation> {
        let stream = self.parameter("stream");
        if !stream.is_empty() && stream != "watch" {
            return None;
        }
        let version = self.parameter("v");
        let convert = self.parameter("as");
        // A group or a version without a form requests a form too, one without a name.
        if ["as", "g", "v"].iter().all(|name| self.parameter(name).is_empty()) {
            return Some(Representation::Whole);
        }
        match (offer, self.parameter("g"), convert) {
            (Offer::Resource | Offer::Watch, "meta.k8s.io", _) if version != "v1" && version != "v1beta1" => None,
            (Offer::Resource | Offer::Watch, "meta.k8s.io", "Table") => Some(Representation::Table(version.to_owned())),
            (Offer::Resource | Offer::Watch, "meta.k8s.io", "PartialObjectMetadata") => {
                Some(Representation::Partial(version.to_owned()))
            }
            (Offer::Resource | Offer::Watch, "meta.k8s.io", "PartialObjectMetadataList") => {
                Some(Representation::PartialList(version.to_owned()))
            }
            (Offer::Discovery, "apidiscovery.k8s.io", "APIGroupDiscoveryList") if version == "v2" => {
                Some(Representation::AggregatedDiscovery)
            }
            _ => None,
        }
    }
}

/// Agrees on a media type and a form.
///
/// # Errors
/// 406 with the types on offer.
pub fn negotiate(headers: &HeaderMap, offer: Offer, protobuf: Protobuf) -> Result<Agreed, ApiError> {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header.trim().is_empty() {
        let (format, form) = (Format::Json, Representation::Whole);
        return Ok(Agreed { format, form, drops_managed_fields: false, misses_protobuf: false });
    }
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|left, right| right.quality.total_cmp(&left.quality).then_with(|| left.rank().cmp(&right.rank())));
    let mut misses_protobuf = false;
    for clause in &clauses {
        let (Some(format), Some(form), Some(drops_managed_fields)) =
            (clause.format(offer), clause.form(offer), clause.drops_managed_fields())
        else {
            continue;
        };
        if format != Format::Protobuf || protobuf.here.has(&form) {
            return Ok(Agreed { format, form, drops_managed_fields, misses_protobuf });
        }
        misses_protobuf |= protobuf.upstream.has(&form);
    }
    let offered = match offer {
        Offer::Watch => "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
        Offer::Resource | Offer::Discovery | Offer::Plain => {
            "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        }
    };
    Err(ApiError::NotAcceptable(format!("only the following media types are accepted: {offered}")))
}

/// What routes of built-in objects can send.
pub const OBJECTS: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];

/// What routes of built-in lists, which are those of watches too, can send.
pub const LISTS: [&str; 5] = [
    "application/json",
    "application/yaml",
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// What the route of the version can send.
pub const VERSION: [&str; 1] = ["application/json"];

/// What kube-apiserver's router requires of an Accept header for a built-in path (go-restful). That is any of the types
/// by its name without parameters, or the wildcard of everything. It knows neither qualities nor other wildcards.
///
/// # Errors
/// 406 with the types on offer, in the router's words.
pub fn routed(headers: &HeaderMap, offered: &'static [&'static str]) -> Result<(), ApiError> {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_taken = |clause: &str| {
        let named = clause.split(';').next().unwrap_or_default().trim();
        named == "*/*" || offered.contains(&named)
    };
    if header.is_empty() || header.split(',').any(is_taken) { Ok(()) } else { Err(ApiError::NotRouted(offered)) }
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Whether the response is indented: requested by the media type or by a parameter, or the client looks like a
/// person's (`handlers/negotiation`).
pub fn is_pretty(headers: &HeaderMap, query: &Query) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.split(',').filter_map(Clause::parse).any(|clause| clause.parameter("pretty") == "1") {
        return true;
    }
    if let Some(text) = query.get("pretty").filter(|text| !text.is_empty()) {
        return matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|start| agent.starts_with(start))
}

/// Whether the client takes gzip: a token that is exactly that, as the API server looks for it.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|token| token.trim() == "gzip"))
}
