//! Requests at random, the same to both clusters: every endpoint of a View, and what a curious client would try to learn from each.
//!
//! Half of what is requested is there, a quarter is hidden in one cluster or in the other, and the rest is in neither. A version in a request is
//! named by the change that made it.

use e2e::http::{Answer, Request};
use e2e::random::Random;
use http::Method;
use serde_json::Value;

use super::hidden::{ONE, OTHER};
use super::versions::Versions;
use super::visible::{GROUP, NAMESPACES, name};

/// A request to either cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ViewProbe {
    pub(crate) method: Method,
    /// Below the View. `{version:N}` is the version of change N, `{etag}` the entity tag of the document at the path.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl ViewProbe {
    /// As one cluster is queried through a View.
    pub(crate) fn request(&self, prefix: &str, versions: &Versions) -> Request {
        let mut path = self.path.clone();
        while let Some((before, rest)) = path.split_once("{version:") {
            let (number, after) = rest.split_once('}').unwrap_or((rest, ""));
            let version = number.parse().ok().and_then(|number| versions.number_at(number)).unwrap_or_default();
            path = format!("{before}{version}{after}");
        }
        let mut request = Request::new(self.method.clone(), format!("{prefix}{path}"));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
    }
}

/// The next page of a list, if there is one: the same with the token of an answer.
pub(crate) fn next_page(request: &Request, answer: &Answer) -> Option<Request> {
    let document: Value = serde_json::from_slice(&answer.body).ok()?;
    let token = document["metadata"]["continue"].as_str().filter(|token| !token.is_empty())?;
    let (path, query) = request.path.split_once('?')?;
    // A token has a version of its own.
    let left_out = ["continue=", "resourceVersion=", "resourceVersionMatch="];
    let kept = query.split('&').filter(|pair| !left_out.iter().any(|name| pair.starts_with(name)));
    let query: Vec<&str> = kept.collect();
    let mut next = request.clone();
    next.path = format!("{path}?{}&continue={token}", query.join("&"));
    Some(next)
}

/// Counts instead of a list.
pub(super) const FACETS: &str = "application/json;as=Facets;g=view.fieldcache.dev;v=v1alpha1";

const ACCEPT: [&str; 18] = [
    FACETS,
    FACETS,
    "application/json",
    "application/json",
    "application/yaml",
    "*/*",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Nothing;g=meta.k8s.io;v=v1",
    "text/html",
    "",
];

fn documents() -> Vec<String> {
    let mut all: Vec<String> = [
        "/api",
        "/apis",
        "/api/v1",
        "/version",
        "/",
        "",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openapi/v3/apis",
        "/healthz",
        "/livez",
        "/readyz",
        "/readyz?verbose",
        "/livez?verbose=1",
        "/readyz?exclude=nothing",
        "/readyz?verbose&exclude=ping",
        "/readyz/ping",
        "/metrics",
        "/logs",
        "/apis/apps/v1",
        "/apis/apiextensions.k8s.io/v1",
        "/apis/view.fieldcache.dev/v1alpha1",
        "/apis/fieldcache.dev/v1alpha1/views",
        "/openapi/v3/apis/apps/v1",
        "/openapi/v3/version",
        "/api/v2",
        "/swagger.json",
        "/.well-known/openid-configuration",
    ]
    .map(str::to_owned)
    .to_vec();
    all.extend(
        [
            "/apis/",
            "/apis/G/v1",
            "/apis/G/v1beta1",
            "/openapi/v3/apis/G/v1",
            "/openapi/v3/apis/G/v1?hash=0",
            "/readyz/store/shirts.v1.G",
            "/readyz/store/gloves.v1.G",
            "/readyz?exclude=store/gloves.v1.G",
        ]
        .map(|path| path.replace('G', GROUP)),
    );
    all
}

/// What a field can be requested: there, hidden here or there, nowhere.
fn field_term(random: &mut Random) -> String {
    // Two of three are fields that shirts have.
    let known = [
        "spec.color",
        "spec.color",
        "spec.size",
        "spec.quantity",
        "tags",
        "tags",
        "metadata.name",
        "metadata.namespace",
    ];
    let others = [
        "spec.secret",
        "spec.nested.private",
        "alpha-field",
        "omega-field",
        "applied",
        "notes",
        "managers",
        "spec.nested.public",
        "status.phase",
        "status.note",
        "spec.hidden",
        "spec.nodeName",
        "spec.nodeName",
        "status.podIP",
        "spec.brim",
        "metadata.uid",
        "",
    ];
    let field = if random.below(3) > 0 { random.choose(&known) } else { random.choose(&others) };
    let word = random.choose(&[ONE.word, OTHER.word]);
    let value = match random.below(12) {
        0 => (*random.choose(&["blue", "cyan", "red", "green"])).to_owned(),
        1 => (*random.choose(&["S", "M", "XL"])).to_owned(),
        2 => random.below(50).to_string(),
        3 => format!("tag-{}", random.below(5)),
        4 => name(random.below(30)),
        5 => format!("{word}-{}", random.below(9)),
        6 => word.to_owned(),
        7 => (*random.choose(&["node-shown", "node-other"])).to_owned(),
        8 => (*random.choose(&["wide", "thin"])).to_owned(),
        9 => (*random.choose(&["team-a", "team-b", "team-alpha", "team-omega"])).to_owned(),
        10 => format!("10.0.{}.{}", random.choose(&["12", "57"]), random.below(8)),
        _ => String::new(),
    };
    let value = match (field, random.below(4)) {
        ("spec.color", 0..3) => (*random.choose(&["blue", "cyan", "red", "alpha", "omega"])).to_owned(),
        ("spec.size", 0..3) => (*random.choose(&["S", "M", "L", "XL"])).to_owned(),
        ("tags", 0..3) => format!("tag-{}", random.below(5)),
        ("metadata.name", 0..3) => name(random.below(30)),
        _ => value,
    };
    let operator = random.choose(&["%3D", "%3D", "%3D", "%3D", "%3D", "%3D%3D", "!%3D", "!%3D", "!%3D", "%3E"]);
    format!("{field}{operator}{value}")
}

fn label_term(random: &mut Random) -> String {
    let word = random.choose(&[ONE.word, OTHER.word]);
    match random.below(11) {
        0 => "app%3Dshop".to_owned(),
        1 => format!("app%3D{}", random.choose(&["other", word])),
        2 => format!("tier%3D{}", random.choose(&["web", "db", "batch"])),
        3 => "tier%20in%20(web,db)".to_owned(),
        4 => "tier!%3Dweb".to_owned(),
        5 => (*word).to_owned(),
        6 => format!("!{word}"),
        7 => format!("show%3D{}", random.choose(&["yes", word])),
        8 => format!("tone%3D{}", random.choose(&["dark", "pale", "loud"])),
        9 => format!("tier%20notin%20(web),!{word}"),
        _ => format!("{word}%20in%20("),
    }
}

fn parameters(random: &mut Random, changes: usize) -> Vec<String> {
    let mut query = Vec::new();
    let odds = |random: &mut Random, of: u64| random.below(of) == 0;
    if odds(random, 2) {
        let terms: Vec<String> = (0..=random.below(2)).map(|_| field_term(random)).collect();
        query.push(format!("fieldSelector={}", terms.join(",")));
    }
    if odds(random, 3) {
        let terms: Vec<String> = (0..=random.below(2)).map(|_| label_term(random)).collect();
        query.push(format!("labelSelector={}", terms.join(",")));
    }
    if odds(random, 3) {
        query.push(format!(
            "limit={}",
            random.choose(&["1", "2", "2", "3", "3", "5", "5", "7", "10", "100", "0", "-1", "x"])
        ));
    }
    if odds(random, 4) {
        let version = match random.below(6) {
            0 => "0".to_owned(),
            1 => "1".to_owned(),
            2 => (*random.choose(&["999999999", "x", "-1", "", "0"])).to_owned(),
            // The state of the stores when they began.
            _ => format!("{{version:{}}}", changes - 1),
        };
        query.push(format!("resourceVersion={version}"));
        if odds(random, 2) {
            query.push(format!(
                "resourceVersionMatch={}",
                random.choose(&["Exact", "Exact", "NotOlderThan", "NotOlderThan", "Nothing"])
            ));
        }
    } else if odds(random, 30) {
        query.push("resourceVersionMatch=Exact".to_owned());
    }
    if odds(random, 8) {
        query.push(format!("sortBy={}", sort_by(random)));
    }
    for (of, text) in [
        (12, "pretty=true"),
        (12, "explain=true"),
        (15, "includeObject=Object"),
        (15, "includeObject=None"),
        (40, "includeObject=All"),
        (40, "timeout=10s"),
        (40, "timeout=x"),
        (40, "sendInitialEvents=true"),
        (40, "celSelector=self.spec.secret%3D%3D'alpha-1'"),
        (60, "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoidGVhbS1hL2ZlbHRcdTAwMDAifQ"),
        (60, "continue=nonsense"),
    ] {
        if odds(random, of) {
            query.push(text.to_owned());
        }
    }
    query
}

/// A collection: shown, hidden, or nowhere.
fn collection(random: &mut Random) -> String {
    let namespace = match random.below(8) {
        0..=4 => NAMESPACES[usize::try_from(random.below(2)).unwrap_or_default()],
        5 => "team-alpha",
        6 => "team-omega",
        _ => "nowhere",
    };
    match random.below(16) {
        0..=4 => format!("/apis/{GROUP}/v1/shirts"),
        5..=8 => format!("/apis/{GROUP}/v1/namespaces/{namespace}/shirts"),
        9 | 10 => "/api/v1/pods".to_owned(),
        11 => format!("/api/v1/namespaces/{}/pods", random.choose(&["default", namespace])),
        12 => format!("/apis/{GROUP}/v1/hats"),
        13 => format!("/apis/{GROUP}/v1/{}", random.choose(&["gloves", "socks"])),
        14 => format!("/apis/{GROUP}/v1/namespaces/{namespace}/{}", random.choose(&["gloves", "hats"])),
        _ => (*random.choose(&[
            "/api/v1/secrets",
            "/api/v1/namespaces",
            "/apis/apps/v1/deployments",
            "/api/v1/namespaces/team-a/events",
        ]))
        .to_owned(),
    }
}

fn object(random: &mut Random) -> String {
    // Half of them by a name and a place that belong together.
    if random.below(2) == 0 {
        let number = random.below(28);
        let namespace = NAMESPACES[usize::try_from(number % 2).unwrap_or_default()];
        return match random.below(5) {
            0 => format!("/api/v1/namespaces/default/pods/pod-{}", random.below(8)),
            1 => format!("/apis/{GROUP}/v1/hats/{}", name(random.below(6))),
            2 => format!("/apis/{GROUP}/v1/namespaces/{namespace}/shirts/{}/status", name(number)),
            _ => format!("/apis/{GROUP}/v1/namespaces/{namespace}/shirts/{}", name(number)),
        };
    }
    let collection = collection(random);
    let word = random.choose(&[ONE.word, OTHER.word]);
    let name = match random.below(8) {
        0..=3 => name(random.below(30)),
        4 => format!("pod-{}", random.below(9)),
        5 | 6 => format!("{word}-{}", random.below(20)),
        _ => "none".to_owned(),
    };
    let below = random.choose(&["", "", "", "", "", "/status", "/scale", "/log", "/proxy/x"]);
    format!("{collection}/{name}{below}")
}

fn joined(path: &str, query: &[String]) -> String {
    match query {
        [] => path.to_owned(),
        query => format!("{path}?{}", query.join("&")),
    }
}

/// An order: by fields that are shown, hidden here or there, or nowhere.
fn sort_by(random: &mut Random) -> String {
    let known = ["spec.color", "spec.size", "spec.quantity", "metadata.name", "metadata.namespace", "spec.nodeName"];
    let others = ["spec.secret", "spec.nested.private", "tags", "alpha-field", "spec.hidden", ""];
    let fields: Vec<String> = (0..=random.below(2))
        .map(|_| {
            let field = if random.below(6) > 0 { random.choose(&known) } else { random.choose(&others) };
            format!("{}{field}", random.choose(&["", "", "-"]))
        })
        .collect();
    fields.join(",")
}

/// The path with fields to count: shown, hidden here or there, nowhere.
fn with_facets(random: &mut Random, path: &str) -> String {
    let shown = ["spec.color", "spec.size", "spec.quantity", "tags", "metadata.namespace", "spec.nodeName"];
    let others = ["spec.secret", "spec.nested.private", "alpha-field", "notes", "spec.hidden", "metadata.name", ""];
    let field = if random.below(4) > 0 { random.choose(&shown) } else { random.choose(&others) };
    let limit = random.choose(&["", "", "&facetLimit=1", "&facetLimit=2", "&facetLimit=0"]);
    format!("{path}{}facets={field}{limit}", if path.contains('?') { '&' } else { '?' })
}

/// So many requests; `changes` is how many changes there have been.
pub(crate) fn requests(seed: u64, count: usize, changes: usize) -> Vec<ViewProbe> {
    let documents = documents();
    let mut random = Random::from_seed(seed, 6);
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let mut headers = Vec::new();
        let random = &mut random;
        let (method, path) = match random.below(20) {
            0..=9 => {
                let path = collection(random);
                (Method::GET, joined(&path, &parameters(random, changes)))
            }
            10..=13 => {
                let path = object(random);
                let query = if random.below(4) == 0 { parameters(random, changes) } else { Vec::new() };
                (Method::GET, joined(&path, &query))
            }
            14..=16 => {
                let index = usize::try_from(random.below(documents.len() as u64)).unwrap_or_default();
                (Method::GET, documents[index].clone())
            }
            17 => {
                let method = [Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS]
                    [usize::try_from(random.below(6)).unwrap_or_default()]
                .clone();
                headers.push(("content-type", "application/json".to_owned()));
                let path = if random.below(2) == 0 { collection(random) } else { object(random) };
                (method, path)
            }
            18 => {
                let path = collection(random);
                (Method::HEAD, joined(&path, &parameters(random, changes)))
            }
            // Watches that end at once, or are refused.
            _ => {
                let mut query = parameters(random, changes);
                query.retain(|pair| {
                    !pair.starts_with("resourceVersion=")
                        && !pair.starts_with("limit=")
                        && !pair.starts_with("sendInitialEvents")
                });
                query.push((*random.choose(&["watch=true", "watch=1"])).to_owned());
                query.push(
                    (*random.choose(&[
                        "resourceVersion=x",
                        "resourceVersion=1",
                        "resourceVersion=999999999",
                        "sendInitialEvents=true",
                        "resourceVersion=-1",
                        "limit=x",
                    ]))
                    .to_owned(),
                );
                query.push("timeoutSeconds=2".to_owned());
                let path = collection(random);
                (Method::GET, joined(&path, &query))
            }
        };
        let accept = random.choose(&ACCEPT);
        // In other lists, the parameters are an error.
        let odds = if accept == FACETS { 1 } else { 40 };
        let path = if random.below(odds) == 0 { with_facets(random, &path) } else { path };
        if !accept.is_empty() && random.below(3) > 0 {
            headers.push(("accept", accept.to_owned()));
        }
        if random.below(10) == 0 {
            headers.push(("accept-encoding", "gzip".to_owned()));
        }
        all.push(ViewProbe { method, path, headers });
    }
    all
}
