//! What requests mean: fieldcache's `RequestInfo` beside kube-apiserver's own, on thousands of odd paths.
//!
//! The judge is `e2e/go/cmd/request-judge`: apiserver's RequestInfoFactory behind Go's reader of requests.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::components::{Component, locate};
use fieldcache::access::attributes::Attributes;
use fieldcache::request::{Query, RequestInfo, Route};
use http::Method;
use serde_json::{Value, json};

use crate::printers::dice::Dice;

const SEED: u64 = 0x6265_6c6c;

/// Requests made of random parts.
const RANDOM: usize = 6_000;

/// Parts that mean something somewhere.
const PARTS: [&str; 30] = [
    "api",
    "apis",
    "v1",
    "apps",
    "watch",
    "proxy",
    "namespaces",
    "pods",
    "status",
    "finalize",
    "n",
    "p",
    "",
    ".",
    "..",
    "log",
    "%2F",
    "%77atch",
    "n%2Fpods",
    "version",
    "healthz",
    "a%20b",
    "%zz",
    "%",
    "é",
    "a\\b",
    "redirect",
    "scale",
    "view.fieldcache.dev",
    "views",
];

const QUERIES: [&str; 22] = [
    "",
    "",
    "watch=true",
    "watch=1",
    "watch=0",
    "watch=False",
    "watch",
    "watch=",
    "watch=no&watch=false",
    "fieldSelector=metadata.name%3Dp",
    "fieldSelector=metadata.name%3D%3Dp,spec.nodeName%3Dn",
    "fieldSelector=metadata.name%3Da%2Fb",
    "fieldSelector=metadata.name%3D..",
    "fieldSelector=metadata.name!%3Dp",
    "fieldSelector=metadata.name",
    "fieldSelector=metadata.name%3Dp&limit=x",
    "fieldSelector=metadata.name%3Dp&timeoutSeconds=1.5&watch=true",
    "fieldSelector=metadata.name%3Dp&labelSelector=a,,b",
    "labelSelector=a%3Db,c+in+(d,e)",
    "labelSelector=a%3Db&labelSelector=c",
    "fieldSelector=a%3Db;c&labelSelector=%zz",
    "limit=5&continue=x&resourceVersion=0",
];

const METHODS: [&str; 8] = ["GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"];

/// Hand-made requests.
fn known() -> Vec<String> {
    let long = "x".repeat(50_000);
    let view = "/apis/view.fieldcache.dev/v1alpha1/views/a";
    let mut urls: Vec<String> = [
        "/",
        "//",
        "///",
        "/api",
        "/api/",
        "//api/v1/pods",
        "/api//v1/pods",
        "/api/v1",
        "/api/v1/",
        "/api/v1//",
        "/api/v1/pods/",
        "/api/v1/pods//",
        "/api/v1//pods",
        "/api/v1/namespaces",
        "/api/v1/namespaces/",
        "/api/v1/namespaces//",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces//pods/p",
        "/api/v1/namespaces/n/status",
        "/api/v1/namespaces/n/status/x",
        "/api/v1/namespaces/n/finalize",
        "/api/v1/namespaces/status/pods",
        "/api/v1/namespaces/n/pods/p/log",
        "/api/v1/namespaces/n/pods/p/proxy/a/b",
        "/api/v1/namespaces/n//p",
        "/api/v1/watch",
        "/api/v1/watch/",
        "/api/v1/watch/pods",
        "/api/v1/watch/pods/p",
        "/api/v1/watch/pods/p/status",
        "/api/v1/watch/namespaces/n/pods",
        "/api/v1/watch/watch",
        "/api/v1/proxy",
        "/api/v1/proxy/nodes/n",
        "/api/v1/proxy/namespaces/n/pods/p/x",
        "/api/v1/pods/watch",
        "/apis/apps/v1/watch/deployments",
        "/apis/apps/v1/namespaces/n/deployments/d/scale",
        "/apis/apps/v1/watch",
        "/apis/apps",
        "/apis/apps/",
        "/apis//v1/pods",
        "/apis/a/b/c/d/e/f/g/h",
        "/API/v1/pods",
        "/api/v1/Pods",
        "/api%2Fv1%2Fpods",
        "/%61pi/v1/pods",
        "/api/v1/namespaces/n%2Fpods",
        "/api/v1/pods/a%2Fb",
        "/api/v1/pods/a%252Fb",
        "/api/v1/pods/%2e%2e",
        "/api/v1/../v1/pods",
        "/api/v1/./pods",
        "/api/v1/pods/a+b",
        "/healthz",
        "/livez/ping",
        "/openapi/v3/apis/apps/v1?hash=A",
        "/logs/api/v1/pods",
        "/metrics",
        "/version/",
        "/?watch=1",
    ]
    .map(str::to_owned)
    .into();
    urls.push(format!("/api/v1/pods/{long}"));
    urls.push(format!("/api/v1/{}", "namespaces/".repeat(2_000)));
    urls.push(format!("/{long}"));
    urls.push(format!("{view}/proxy/api/v1/pods/{long}"));
    urls.push(format!("{view}/proxy{view}/proxy/api/v1/pods"));
    urls.iter().flat_map(|url| METHODS.map(|method| format!("{method} {url}"))).collect()
}

fn random(dice: &mut Dice) -> String {
    let mut parts = match dice.below(4) {
        0 => vec!["api", "v1"],
        1 | 2 => vec!["apis", "apps", "v1"],
        _ => Vec::new(),
    };
    for _ in 0..dice.below(7) {
        parts.push(dice.pick(&PARTS));
    }
    let query = dice.pick(&QUERIES);
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{} /{}{mark}{query}", dice.pick(&METHODS), parts.join("/"))
}

/// What fieldcache reads, in the form of the judge's answers. `path` is that of a whole request.
fn ours(info: &RequestInfo) -> Value {
    let attributes = match Attributes::from_request(info) {
        Ok(attributes) => attributes,
        Err(incomplete) => return json!({ "error": incomplete.to_string() }),
    };
    let about = attributes.resource.clone().unwrap_or_default();
    json!({
        "isResource": attributes.resource.is_some(),
        "path": attributes.path,
        "verb": attributes.verb,
        "group": about.group,
        "version": about.version,
        "namespace": about.namespace,
        "resource": about.resource,
        "subresource": about.subresource,
        "name": about.name,
    })
}

/// Sends all requests to the judge at once.
fn judged(requests: &[String]) -> Result<Vec<Value>> {
    let mut command = Command::new(locate(Component::RequestJudge)?);
    // It logs each query that it cannot read.
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().context("starting request-judge")?;
    let mut questions = process.stdin.take().context("a piped standard input must be there")?;
    let text = requests.join("\n");
    let writer = std::thread::spawn(move || writeln!(questions, "{text}"));
    let output = process.wait_with_output().context("listening to request-judge")?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?.context("writing to request-judge")?;
    ensure!(output.status.success(), "request-judge failed");
    let lines = String::from_utf8(output.stdout).context("request-judge printed something else")?;
    lines.lines().map(|line| serde_json::from_str(line).context("request-judge printed something else")).collect()
}

#[test]
fn requests_use_parameters_that_kube_apiserver_reads() -> Result<()> {
    let mut dice = Dice::new(SEED);
    let mut requests = known();
    requests.extend((0..RANDOM).map(|_| random(&mut dice)));
    requests.sort();
    requests.dedup();
    let answers = judged(&requests)?;
    ensure!(answers.len() == requests.len(), "{} answers to {} requests", answers.len(), requests.len());
    let (mut compared, mut rejected, mut differences) = (0, 0, Vec::new());
    for (request, theirs) in requests.iter().zip(&answers) {
        let (method, url) = request.split_once(' ').context("a method and a URL")?;
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let info = RequestInfo::read(&method.parse::<Method>()?, path, Query::parse(query));
        if theirs["rejected"] == true {
            // Where Go's server rejects a path, fieldcache must not serve anything.
            rejected += 1;
            ensure!(
                *info.route() == Route::Unknown,
                "{request} is rejected by Go and has the route {:?}",
                info.route()
            );
            continue;
        }
        if info.view.is_some() {
            // Inside of a View the path is another.
            continue;
        }
        compared += 1;
        let ours = ours(&info);
        let is_same = match ours.get("error") {
            Some(_) => theirs["error"].is_string(),
            None => ours.as_object().into_iter().flatten().all(|(member, value)| theirs[member] == *value),
        };
        // A route leads to nothing but the resource that was requested.
        let routed = match info.route() {
            Route::Resource(resource) => theirs["resource"] == *resource.gvr.resource,
            _ => true,
        };
        // Authorizers see the selectors exactly where kube-apiserver's do, if they can be read.
        let attributes =
            Attributes::from_request(&info).ok().and_then(|attributes| attributes.resource).unwrap_or_default();
        let has = |parameter: &str| !theirs[parameter].as_str().unwrap_or_default().is_empty();
        let selectors = (attributes.fields.is_empty() || has("fieldSelector"))
            && (attributes.labels.is_empty() || has("labelSelector"));
        if !(is_same && routed && selectors) {
            differences.push(format!("{request}\n  fieldcache {ours}\n  kube-apiserver {theirs}"));
        }
    }
    println!("{compared} requests compared, {rejected} rejected by Go's server (seed {SEED:#x})");
    ensure!(compared > 2_000, "only {compared} requests were compared");
    ensure!(rejected > 100, "only {rejected} requests are rejected by Go");
    let shown = differences.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    ensure!(differences.is_empty(), "{} differences\n{shown}", differences.len());
    Ok(())
}
