//! Requests byte by byte, to kube-apiserver, to the operator and to `serve` beside it: what Go's server accepts is accepted, and answered
//! alike.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use e2e::compare;
use e2e::fieldcache::Fieldcache;
use e2e::hostile::wire::Dialer;
use e2e::http::Endpoint;
use e2e::kubectl::Kubectl;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::timeout;

use super::{SHIRTS, SOON, Stage, ready};

/// A response: its code, media type and body.
struct Response {
    code: u16,
    media_type: String,
    body: Vec<u8>,
}

impl Response {
    fn json(&self) -> Result<Value> {
        let text = || String::from_utf8_lossy(&self.body[..self.body.len().min(500)]).into_owned();
        serde_json::from_slice(&self.body).with_context(|| format!("{}: {}", self.code, text()))
    }
}

/// Sends bytes on a connection of their own, and reads the response up to the end of the connection.
async fn exchange(dialer: &Dialer, is_secure: bool, bytes: &[u8]) -> Result<Response> {
    let answered = async {
        if is_secure {
            converse(dialer.tls(1, "http/1.1").await?, bytes).await
        } else {
            converse(dialer.tcp(1).await?, bytes).await
        }
    };
    parse(&timeout(SOON, answered).await.context("no response in time")??)
}

async fn converse(stream: impl AsyncRead + AsyncWrite, bytes: &[u8]) -> Result<Vec<u8>> {
    let (mut read, mut write) = split(stream);
    let mut all = Vec::new();
    let reading = async {
        // A connection that is cut after the response is no matter here.
        let _ = read.read_to_end(&mut all).await;
    };
    let writing = async {
        // A server that has rejected a request may read no more of it.
        let _ = write.write_all(bytes).await;
        let _ = write.flush().await;
    };
    tokio::join!(reading, writing);
    Ok(all)
}

fn parse(all: &[u8]) -> Result<Response> {
    let end = all.windows(4).position(|part| part == b"\r\n\r\n").context("no response at all")?;
    let head = std::str::from_utf8(&all[..end])?;
    let header = |name: &str| {
        let lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let mut rest = &all[end + 4..];
    let body = if header("transfer-encoding").is_some() {
        let mut body = Vec::new();
        loop {
            let end = rest.windows(2).position(|part| part == b"\r\n").context("a chunk has a length")?;
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..end])?, 16)?;
            if length == 0 {
                break body;
            }
            body.extend_from_slice(rest.get(end + 2..end + 2 + length).context("a chunk that is cut off")?);
            rest = &rest[end + 4 + length..];
        }
    } else {
        rest.to_vec()
    };
    let media_type = header("content-type").unwrap_or_default();
    Ok(Response { code: head.get(9..12).context("a code")?.parse()?, media_type, body })
}

fn head(method: &str, target: &str, headers: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n").into_bytes()
}

/// Values of a label, so many bytes of them.
fn values(length: usize) -> String {
    let mut values = "blue".to_owned();
    let mut number = 0;
    while values.len() < length {
        let _ = write!(values, ",v{number}");
        number += 1;
    }
    values
}

/// What is compared of a response.
fn compared(response: &Response) -> Result<Value> {
    if !response.media_type.starts_with("application/json") {
        return Ok(
            json!({ "code": response.code, "type": response.media_type, "text": String::from_utf8_lossy(&response.body) }),
        );
    }
    let mut body = response.json()?;
    if let Some(items) = body.get_mut("items") {
        return Ok(json!({ "code": response.code, "items": items.take() }));
    }
    Ok(json!({ "code": response.code, "body": body }))
}

#[tokio::test]
async fn requests_that_gos_server_accepts_are_answered_alike() -> Result<()> {
    let stage = Stage::start().await?;
    let operator = stage.operator("a").await?;
    let administrator = stage.control_plane.authority().client("somebody", Some("system:masters"))?;
    let endpoint: Endpoint = operator.as_client(stage.folder.path(), &administrator)?;
    ready(&operator, &endpoint.client()).await?;
    stage.apply("walk-through/shirts-cache.yaml").await?;
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "read-configmaps", "labels": { "fieldcache.dev/aggregate-to-reader": "true" } },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] }],
    });
    stage.apply_this("reader.json", &reader).await?;
    let cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
        "metadata": { "name": "configmaps" }, "spec": { "group": "", "resource": "configmaps" },
    });
    stage.apply_this("cache.json", &cache).await?;
    stage
        .kubectl
        .succeed(&["wait", "--for=condition=Ready", "--timeout=60s", "fieldcaches.fieldcache.dev", "--all"])
        .await?;
    let kubeconfig = ["--kubeconfig".to_owned(), stage.control_plane.kubeconfig().display().to_string()];
    let serve = Box::pin(Fieldcache::serve(kubeconfig)).await?;
    let servers = [
        ("kube-apiserver", Dialer::for_endpoint(stage.control_plane.endpoint())?, true),
        ("operator", Dialer::for_endpoint(&endpoint)?, true),
        ("serve", Dialer::for_endpoint(serve.endpoint())?, false),
    ];

    let many: String = (0..500).map(|number| format!("x-{number}: {number}\r\n")).collect();
    let tokens = "Connection: x\r\nUpgrade: x\r\n".repeat(100);
    let long = format!("x-long: {}\r\n", "v".repeat(1_000_000));
    let in_all = SHIRTS.replace("/shirts", "/namespaces//shirts");
    let in_one = SHIRTS.replace("/shirts", "/namespaces/team-a/shirts");
    let mut rows: Vec<(String, Vec<u8>)> = [
        "labelSelector=tier>1",
        "labelSelector=tier<1",
        "labelSelector=team=\"a\"",
        "labelSelector={a}",
        "labelSelector=a|b",
        "labelSelector=a^b`c\\d",
        "labelSelector=a#b",
        "labelSelector=ü",
        "fieldSelector=spec.color=<blue>",
        "fieldSelector=spec.color=blue&x=\"{|}<>\"",
    ]
    .iter()
    .map(|query| ((*query).to_owned(), head("GET", &format!("{in_one}?{query}"), "")))
    .collect();
    for length in [60_000, 100 << 10, 900 << 10] {
        let target = format!("{SHIRTS}?labelSelector=app+in+({})", values(length));
        rows.push((format!("a selector of {length} bytes"), head("GET", &target, "")));
        let target = format!("{SHIRTS}?labelSelector=app+notin+({})&fieldSelector=spec.color%3Dblue", values(length));
        rows.push((format!("another selector of {length} bytes"), head("GET", &target, "")));
    }
    for (what, method, target, headers) in [
        ("500 headers", "GET", SHIRTS, &*many),
        ("200 headers about the connection", "GET", SHIRTS, &*tokens),
        ("a header of a megabyte", "GET", SHIRTS, &*long),
        ("no namespace", "GET", &*in_all, ""),
        ("no namespace, with a selector", "GET", &*format!("{in_all}?fieldSelector=spec.color=blue"), ""),
        ("no namespace, a name", "GET", &*format!("{in_all}/example1"), ""),
        ("no namespace, built-in", "GET", "/api/v1/namespaces//configmaps", ""),
        ("no namespace, built-in and cluster-scoped", "GET", "/api/v1/namespaces//nodes", ""),
        ("an empty part elsewhere", "GET", "/apis/stable.example.com//v1/shirts", ""),
        ("a path with raw characters", "GET", "/nowhere/<a>`\"{b}|^", ""),
        ("a fragment", "GET", "/nowhere#a", ""),
    ] {
        rows.push((what.to_owned(), head(method, target, headers)));
    }
    let mut wrong = Vec::new();
    for (what, bytes) in &rows {
        let mut expected: Option<Value> = None;
        for (name, dialer, is_secure) in &servers {
            let compared = match exchange(dialer, *is_secure, bytes).await {
                Ok(response) => compared(&response)?,
                Err(error) => json!({ "no answer": format!("{error:#}") }),
            };
            match &expected {
                None => expected = Some(compared),
                Some(expected) => {
                    if let Err(error) = compare::equal("kube-apiserver", expected, name, &compared) {
                        wrong.push(format!("{what}: {error:#}"));
                    }
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    println!("requests: {} byte by byte, answered alike by kube-apiserver, the operator and serve", rows.len());

    // What kube-apiserver rejects before it is routed, with the same code; here with a sentence.
    let too_long = format!("x-long: {}\r\n", "v".repeat(1_100_000));
    for (bytes, what) in [
        (head("GET", "/a b", ""), "a space"),
        (head("GET", "/api", &too_long), "a head that is too long"),
        (head("GET", "/api", "a b\r\n"), "a header without a colon"),
        (head("GET", "/api", "Host: 127.0.0.1\r\n"), "two hosts"),
        (b"GET /api HTTP/3.0\r\nHost: x\r\n\r\n".to_vec(), "another version"),
        (head("POST", "/api", "Transfer-Encoding: gzip\r\n"), "another coding"),
    ] {
        let mut codes = Vec::new();
        for (name, dialer, is_secure) in &servers {
            let response = exchange(dialer, *is_secure, &bytes).await.with_context(|| format!("{what}: {name}"))?;
            codes.push(response.code);
            if *name != "kube-apiserver" {
                let status = response.json().with_context(|| format!("{what}: {name}"))?;
                ensure!(status["kind"] == "Status" && status["code"] == response.code, "{what}: {name}: {status}");
                ensure!(status["message"].as_str().is_some_and(|said| said.len() > 20), "{what}: {name}: {status}");
            }
        }
        ensure!(codes.windows(2).all(|pair| pair[0] == pair[1]), "{what}: {codes:?}");
    }

    // The method is not looked at.
    for (name, dialer, is_secure) in &servers {
        for headers in ["", "Content-Length: 0\r\n", "Content-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"] {
            let response = exchange(dialer, *is_secure, &head("POST", "/openapi/v2", headers)).await;
            let response = response.with_context(|| format!("{name}: POST of /openapi/v2 with {headers:?}"))?;
            ensure!(response.code == 200, "{name}: {headers:?}: {}", response.code);
            ensure!(response.json()?["swagger"] == "2.0", "{name}: {headers:?}: another document");
        }
    }

    // A Go client, over HTTP/2.
    let selector = format!("app notin ({})", values(100_000));
    let operators = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "operator",
        "clusters": [{ "name": "operator", "cluster": {
            "server": operator.address(), "certificate-authority": stage.folder.path().join("ca.crt").display().to_string() } }],
        "users": [{ "name": "somebody", "user": {
            "client-certificate": stage.folder.write("somebody.crt", &administrator.certificate)?.display().to_string(),
            "client-key": stage.folder.write("somebody.key", &administrator.key)?.display().to_string() } }],
        "contexts": [{ "name": "operator", "context": { "cluster": "operator", "user": "somebody" } }],
    });
    let kubectl = Kubectl::with_kubeconfig(&stage.folder.write("operator-kubeconfig", operators.to_string())?)?;
    let mut printed = Vec::new();
    for kubectl in [&stage.kubectl, &kubectl] {
        printed.push(kubectl.succeed(&["get", "shirts", "-A", "-o", "name", "-l", &selector]).await?);
    }
    if printed[0] != printed[1] || printed[0].is_empty() {
        bail!("kubectl prints other shirts: {printed:?}");
    }
    operator.process().ensure_running()?;
    serve.process().ensure_running()
}
