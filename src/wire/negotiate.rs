//! Content negotiation: chooses the format and the representation of a response from the header Accept (apiserver
//! `endpoints/handlers/negotiation/negotiate.go`).
//!
//! Every response exists as JSON, all but watches as YAML, and some in protobuf ([`Protobuf`]). Tables exist as JSON
//! and YAML, PartialObjectMetadata in all three formats. Lists also exist as [`super::facets`], in JSON and YAML.

use std::fmt;

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};

use super::api_error::ApiError;
use super::facets;
use crate::extract::prune;
use crate::registry::RequestedParts;
use crate::request::Query;

/// The name of fieldcache's own representation of lists, in the parameter `as`.
const FACETS: &str = "Facets";

/// The maximum length of all paths of `keep` together, in bytes. A watch holds several times as much memory.
const LONGEST_KEEP: usize = 8 << 10;

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// application/json.
    Json,
    /// application/yaml.
    Yaml,
    /// application/vnd.kubernetes.protobuf.
    Protobuf,
}

/// Which representations have a protobuf message. Tables and Facets have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// None.
    None,
    /// PartialObjectMetadata only, as for custom resources.
    Metadata,
    /// Whole objects and documents, and PartialObjectMetadata.
    Everything,
}

impl Messages {
    /// Whether this representation has a protobuf message.
    fn has(self, form: &Representation) -> bool {
        match (self, form) {
            (Messages::None, _) | (_, Representation::Table(_) | Representation::Facets) => false,
            (Messages::Everything, _)
            | (Messages::Metadata, Representation::Partial(_) | Representation::PartialList(_)) => true,
            (Messages::Metadata, Representation::Whole | Representation::AggregatedDiscovery) => false,
        }
    }
}

/// Which representations of a resource or document can be sent in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protobuf {
    /// The representations that fieldcache can send. These can be fewer than `upstream`: fieldcache may not know the
    /// messages of the source's version, or an object may not fit its message.
    pub here: Messages,
    /// The representations that kube-apiserver can send.
    pub upstream: Messages,
}

impl Protobuf {
    /// For documents of fieldcache, and for built-in kinds whose messages are known.
    pub const EVERYTHING: Protobuf = Protobuf { here: Messages::Everything, upstream: Messages::Everything };
    /// For custom resources.
    pub const METADATA: Protobuf = Protobuf { here: Messages::Metadata, upstream: Messages::Metadata };

    /// The same offer for a response that fieldcache cannot send in protobuf.
    pub fn without(self) -> Protobuf {
        Protobuf { here: Messages::None, ..self }
    }
}

/// The representation of an object or a list in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Representation {
    /// The object or list itself.
    Whole,
    /// Table of meta.k8s.io, of this version, such as `v1`.
    Table(String),
    /// PartialObjectMetadata of meta.k8s.io, of this version.
    Partial(String),
    /// PartialObjectMetadataList of meta.k8s.io, of this version.
    PartialList(String),
    /// APIGroupDiscoveryList of apidiscovery.k8s.io/v2.
    AggregatedDiscovery,
    /// Facets of view.fieldcache.dev/v1alpha1, fieldcache's own: see [`super::facets`].
    Facets,
}

/// The result of content negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The format of the response.
    pub format: Format,
    /// The representation of the response.
    pub form: Representation,
    /// The parts of objects that are shown.
    pub parts: RequestedParts,
    /// Whether kube-apiserver would have sent protobuf to this client, but fieldcache cannot.
    pub misses_protobuf: bool,
}

/// The kind of a path, which decides the formats and representations that it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Objects.
    Resource,
    /// Lists: as objects, and as Facets.
    List,
    /// Watches: no YAML.
    Watch,
    /// `/api` and `/apis`, which have an aggregated form.
    Discovery,
    /// Everything else: whole documents only.
    Plain,
}

/// One media type of an Accept header, with its parameters.
struct Clause<'a> {
    /// The part before the slash, such as `application`.
    kind: &'a str,
    /// The part after the slash, such as `json`.
    subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// The parameter `q`: 1 if it is missing, 0 if it is invalid.
    quality: f32,
}

impl<'a> Clause<'a> {
    /// Parses a clause; `None` if it is not a media type.
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next()?;
        let (kind, subtype) = match media_type.split_once('/') {
            Some(types) => types,
            None if media_type == "*" => ("*", "*"),
            None => return None,
        };
        let parameters: Vec<(&str, &str)> = parts
            .take(MOST_PARAMETERS)
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(key, value)| (key.trim(), value.trim().trim_matches('"')))
            .collect();
        let quality =
            parameters.iter().find(|(key, _)| *key == "q").map_or(1.0, |(_, value)| value.parse().unwrap_or(0.0));
        Some(Clause { kind: kind.trim(), subtype: subtype.trim(), parameters, quality })
    }

    /// The number of wildcards in the media type, 0 to 2. Of clauses with equal quality, the clause with the lowest
    /// rank is preferred.
    fn rank(&self) -> u8 {
        u8::from(self.kind == "*") + u8::from(self.subtype == "*")
    }

    /// The value of a parameter; empty if missing.
    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// The format that the clause accepts, JSON before the others; `None` if `offer` has no format that it accepts.
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

    /// Whether the parameter `drop` leaves out `metadata.managedFields` (KEP-5958). The value is a list of names,
    /// joined by `+`; unknown names are ignored. `None`: a name occurs twice, so the clause is not valid.
    fn drops_managed_fields(&self) -> Option<bool> {
        let mut names: Vec<&str> = self.parameter("drop").split('+').filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        let is_repeated = names.windows(2).any(|pair| pair[0] == pair[1]);
        (!is_repeated).then(|| names.contains(&"metadata.managedFields"))
    }

    /// The paths of the parameter `keep`, which are joined by `+` or commas: sorted, each once, with a leading dot as
    /// in a View. Empty if the clause has no `keep`, so that all parts are wanted.
    ///
    /// # Errors
    /// 400 for an invalid path, for too many names, and for a representation other than whole objects.
    fn kept(&self, form: &Representation) -> Result<Vec<String>, ApiError> {
        let Some((_, paths)) = self.parameters.iter().find(|(key, _)| *key == "keep") else { return Ok(Vec::new()) };
        let invalid =
            |problem: &dyn fmt::Display| ApiError::BadRequest(format!("keep in the header Accept: {problem}"));
        if paths.len() > LONGEST_KEEP {
            return Err(invalid(&format_args!(
                "the paths have more than {LONGEST_KEEP} bytes: keep larger parts instead"
            )));
        }
        if *form != Representation::Whole {
            return Err(invalid(&"keep is only supported for whole objects, without the parameter as"));
        }
        let (mut kept, mut names) = (Vec::new(), 0);
        for path in paths.split(['+', ',']).map(str::trim).filter(|path| !path.is_empty()) {
            let path = if path.starts_with('.') { path.to_owned() } else { format!(".{path}") };
            names += prune::path::names(&path).map_err(|error| invalid(&format_args!("{path} {error}")))?.len();
            if names > prune::MOST_NAMES {
                let most = prune::MOST_NAMES;
                return Err(invalid(&format_args!(
                    "all paths together have more than {most} names: keep larger parts instead"
                )));
            }
            kept.push(path);
        }
        if kept.is_empty() {
            return Err(invalid(&"keep must have a path, such as keep=metadata.name+spec.color"));
        }
        kept.sort_unstable();
        kept.dedup();
        Ok(kept)
    }

    /// The representation that the parameters of the clause request; `None` if `offer` does not have it.
    fn form(&self, offer: Offer) -> Option<Representation> {
        let stream = self.parameter("stream");
        if !stream.is_empty() && stream != "watch" {
            return None;
        }
        let version = self.parameter("v");
        let convert = self.parameter("as");
        // A group or a version without a name also requests a representation, and no such representation exists.
        if ["as", "g", "v"].iter().all(|name| self.parameter(name).is_empty()) {
            return Some(Representation::Whole);
        }
        match (offer, self.parameter("g"), convert) {
            (Offer::Resource | Offer::List | Offer::Watch, "meta.k8s.io", _)
                if version != "v1" && version != "v1beta1" =>
            {
                None
            }
            (Offer::Resource | Offer::List | Offer::Watch, "meta.k8s.io", "Table") => {
                Some(Representation::Table(version.to_owned()))
            }
            (Offer::Resource | Offer::List | Offer::Watch, "meta.k8s.io", "PartialObjectMetadata") => {
                Some(Representation::Partial(version.to_owned()))
            }
            (Offer::Resource | Offer::List | Offer::Watch, "meta.k8s.io", "PartialObjectMetadataList") => {
                Some(Representation::PartialList(version.to_owned()))
            }
            (Offer::Discovery, "apidiscovery.k8s.io", "APIGroupDiscoveryList") if version == "v2" => {
                Some(Representation::AggregatedDiscovery)
            }
            (Offer::List, facets::GROUP, FACETS) if version == facets::VERSION => Some(Representation::Facets),
            _ => None,
        }
    }
}

/// Chooses the format and the representation of a response from the header Accept. `offer` is the kind of the path,
/// which decides what can be chosen. `protobuf` states which representations can be sent in protobuf. Without the
/// header, the response is a whole object as JSON.
///
/// # Errors
/// 406 with the offered media types, if the client accepts none of them. 406 that states where Facets are offered, if
/// the client accepts them. 400 for an invalid `keep`.
pub fn negotiate(headers: &HeaderMap, offer: Offer, protobuf: Protobuf) -> Result<Agreed, ApiError> {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header.trim().is_empty() {
        let (format, form) = (Format::Json, Representation::Whole);
        return Ok(Agreed { format, form, parts: RequestedParts::default(), misses_protobuf: false });
    }
    // The clauses in the order of the client's preference; the sort is stable. The first one that is possible is
    // chosen.
    let mut clauses: Vec<Clause<'_>> = clauses(header).take(MOST_CLAUSES).filter_map(Clause::parse).collect();
    clauses.sort_by(|left, right| right.quality.total_cmp(&left.quality).then_with(|| left.rank().cmp(&right.rank())));
    let mut misses_protobuf = false;
    for clause in &clauses {
        let (Some(format), Some(form), Some(drops_managed_fields)) =
            (clause.format(offer), clause.form(offer), clause.drops_managed_fields())
        else {
            continue;
        };
        if format != Format::Protobuf || protobuf.here.has(&form) {
            let kept = match offer {
                Offer::Resource | Offer::List | Offer::Watch => clause.kept(&form)?,
                Offer::Discovery | Offer::Plain => Vec::new(),
            };
            let parts = RequestedParts { drops_managed_fields, kept };
            return Ok(Agreed { format, form, parts, misses_protobuf });
        }
        misses_protobuf |= protobuf.upstream.has(&form);
    }
    if clauses.iter().any(|clause| clause.parameter("as") == FACETS) {
        let (group, version) = (facets::GROUP, facets::VERSION);
        return Err(ApiError::NotAcceptable(format!(
            "as={FACETS} is only accepted in lists, as application/json or application/yaml with g={group};v={version}"
        )));
    }
    let offered = match offer {
        Offer::Watch => "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
        Offer::Resource | Offer::List | Offer::Discovery | Offer::Plain => {
            "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        }
    };
    Err(ApiError::NotAcceptable(format!("only the following media types are accepted: {offered}")))
}

/// The clauses of a header Accept, which commas separate. The paths of `keep` can be separated by commas too: after a
/// clause with `keep`, a part that is no media type belongs to that clause.
fn clauses(header: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(header);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut end = text.find(',').unwrap_or(text.len());
        let has_paths = text[..end].contains("keep=");
        while has_paths && end < text.len() {
            let after = &text[end + 1..];
            let next_length = after.find(',').unwrap_or(after.len());
            let media_type = after[..next_length].split(';').next().unwrap_or_default();
            if media_type.contains('/') || media_type.trim() == "*" {
                break;
            }
            end += 1 + next_length;
        }
        rest = text.get(end + 1..);
        Some(&text[..end])
    })
}

/// Whether the header Accept names Facets. Then a list must be negotiated as [`Offer::List`], which may choose another
/// representation.
pub fn names_facets(headers: &HeaderMap) -> bool {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.contains(FACETS)
}

/// The media types of the routes of single built-in objects.
pub const OBJECTS: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];

/// The media types of the routes of built-in lists, which also serve watches.
pub const LISTS: [&str; 5] = [
    "application/json",
    "application/yaml",
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// The media types of the route `/version`.
pub const VERSION: [&str; 1] = ["application/json"];

/// Checks the header Accept as kube-apiserver's router (go-restful) does for built-in paths, before content
/// negotiation. The header must be missing, or contain `*/*` or one of the `offered` types. The router ignores
/// parameters, also `q`, and knows no other wildcards.
///
/// # Errors
/// 406 with the `offered` types, with the message of the router.
pub fn check_route_accept(headers: &HeaderMap, offered: &'static [&'static str]) -> Result<(), ApiError> {
    let header = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_offered = |clause: &str| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        media_type == "*/*" || offered.contains(&media_type)
    };
    if header.is_empty() || header.split(',').any(is_offered) { Ok(()) } else { Err(ApiError::NotRouted(offered)) }
}

/// The maximum number of media types that are read. Clients send a handful, and a header has room for 400,000.
const MOST_CLAUSES: usize = 256;

/// The maximum number of parameters of a media type that are read.
const MOST_PARAMETERS: usize = 64;

/// The media type of protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Whether the response is indented: because a media type or the query has the parameter `pretty`, or because the
/// client is a browser, curl or wget (apiserver `handlers/negotiation`).
pub fn is_pretty(headers: &HeaderMap, query: &Query) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.split(',').take(MOST_CLAUSES).filter_map(Clause::parse).any(|clause| clause.parameter("pretty") == "1")
    {
        return true;
    }
    if let Some(text) = query.get("pretty").filter(|text| !text.is_empty()) {
        return matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|start| agent.starts_with(start))
}

/// Whether the client accepts gzip: Accept-Encoding has a token that is exactly `gzip`. kube-apiserver ignores
/// parameters and wildcards too.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|token| token.trim() == "gzip"))
}
