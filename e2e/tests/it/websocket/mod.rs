//! Handshakes of watches over WebSocket at kube-apiserver, at `serve` and through a View, and a client like a web page.
//!
//! [`super::parity`] compares the messages: it plays its scripts over WebSocket too.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::clients::{self, Toolkit};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint, Request};
use e2e::objects;
use e2e::process::Process;
use e2e::run_directory::{RunDirectory, cache_directory};
use e2e::unique;
use e2e::viewed::Viewed;
use e2e::websocket::{ACCEPT, Event, HANDSHAKE, frame};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// A header; `{own}` in its value is the server's own Origin.
type Header<'a> = (&'a str, &'a str);

fn origin(endpoint: &Endpoint) -> String {
    let (scheme, rest) = endpoint.base().split_once("://").unwrap_or_default();
    format!("{scheme}://{}", rest.split('/').next().unwrap_or_default())
}

/// Status, the headers of a handshake, and the body of an answer that is no upgrade.
async fn shake(endpoint: &Endpoint, mut request: Request) -> Result<(StatusCode, Vec<Option<String>>, String)> {
    for (_, value) in &mut request.headers {
        *value = value.replace("{own}", &origin(endpoint));
    }
    let client = endpoint.client();
    let (status, headers, messages) = client.upgrade(request.clone()).await?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_lowercase);
    let names = ["upgrade", "connection", "sec-websocket-accept", "sec-websocket-protocol", "sec-websocket-version"];
    let mut shown: Vec<Option<String>> = names.iter().map(|name| header(name)).collect();
    if messages.is_none() {
        // kube-apiserver closes the connection of an invalid handshake, and says so now and then.
        shown[1] = None;
        return Ok((status, shown, client.send(request).await?.text()));
    }
    Ok((status, shown, String::new()))
}

fn get(path: &str, headers: &[Header<'_>]) -> Request {
    headers.iter().fold(Request::get(path), |request, (name, value)| request.header(name, value))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_are_answered_as_by_kube_apiserver() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let serve = serve(control_plane.kubeconfig()).await?;
    let watch = &*format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
    let own = ("origin", "{own}");
    let whole = |more: &[Header<'static>]| [&HANDSHAKE[..], more].concat();
    let without =
        |name: &str| [own].into_iter().chain(HANDSHAKE.into_iter().filter(|header| header.0 != name)).collect();
    let rows: [(&str, Vec<Header<'static>>, u16, u16, &str); 22] = [
        (watch, whole(&[own]), 101, 101, "as a client should"),
        (watch, whole(&[own, ("sec-websocket-protocol", "base64.binary.k8s.io")]), 101, 101, "a subprotocol"),
        (watch, whole(&[own, ("sec-websocket-protocol", "anything")]), 101, 101, "any subprotocol"),
        (watch, whole(&[own, ("sec-websocket-protocol", "a, b")]), 400, 400, "two subprotocols"),
        (
            watch,
            whole(&[own, ("sec-websocket-protocol", "a"), ("sec-websocket-protocol", "b")]),
            101,
            101,
            "two headers",
        ),
        (watch, whole(&[own, ("sec-websocket-extensions", "permessage-deflate")]), 101, 101, "an extension"),
        (watch, whole(&[]), 403, 403, "no Origin"),
        (watch, whole(&[("origin", "null")]), 403, 403, "a page without Origin"),
        (watch, whole(&[("origin", "https://evil.example.com")]), 101, 403, "a foreign page, which is served upstream"),
        (watch, without("sec-websocket-key"), 400, 400, "no key"),
        (watch, without("sec-websocket-version"), 400, 400, "no version"),
        (watch, [&HANDSHAKE[..3], &[own, ("sec-websocket-version", "8")]].concat(), 400, 400, "an old version"),
        (watch, without("connection"), 200, 200, "no option of the connection"),
        (watch, without("upgrade"), 200, 200, "no protocol"),
        (CONFIG_MAPS, whole(&[own]), 200, 200, "not a watch"),
        ("/api/v1/namespaces/default/nothings?watch=1", whole(&[own]), 404, 404, "not served"),
        ("/api/v1/configmaps?watch=1&fieldSelector=banana", whole(&[own]), 400, 400, "a bad selector"),
        ("/api/v1/configmaps?watch=1", whole(&[own, ("accept", "application/yaml")]), 406, 406, "a bad media type"),
        ("/api/v1/watch/configmaps?timeoutSeconds=1", whole(&[own]), 101, 101, "the old path"),
        ("/api/v1/leases?watch=1", whole(&[own]), 404, 404, "forwarded, and not there"),
        ("/api/v1/secrets?watch=1&timeoutSeconds=1", whole(&[own]), 101, 101, "not loaded yet"),
        ("/apis/events.k8s.io/v1/events?watch=1&timeoutSeconds=1", whole(&[own]), 101, 101, "another group"),
    ];
    for (path, headers, upstream, here, what) in rows {
        let expected = shake(control_plane.endpoint(), get(path, &headers)).await.context(what)?;
        let found = shake(serve.endpoint(), get(path, &headers)).await.context(what)?;
        ensure!((expected.0.as_u16(), found.0.as_u16()) == (upstream, here), "{what}: {expected:?}, {found:?}");
        if upstream == here {
            ensure!(expected.1 == found.1, "{what}: {expected:?}, {found:?}");
            // Of an invalid handshake.
            ensure!(
                upstream != 400 || expected.2.is_empty() || expected.2.contains("Status") || expected.2 == found.2,
                "{what}: {expected:?}, {found:?}"
            );
        }
        if here == 101 {
            ensure!(found.1[2].as_deref() == Some(&*ACCEPT.to_lowercase()), "{what}: {found:?}");
        }
    }
    let post = get(watch, &whole(&[own]));
    let post = Request { method: Method::POST, ..post };
    for endpoint in [control_plane.endpoint(), serve.endpoint()] {
        let (status, ..) = shake(endpoint, post.clone()).await?;
        ensure!(status.is_client_error(), "POST: {status}");
    }
    for named in ["exec?command=sh&stdout=true", "attach?stdout=true", "portforward?ports=80"] {
        let path = format!("/api/v1/namespaces/default/pods/p/{named}");
        let (status, ..) = shake(serve.endpoint(), get(&path, &whole(&[own]))).await?;
        ensure!(status == 403, "{named}: {status}");
    }
    Ok(())
}

/// `serve`, which forwards reads.
async fn serve(kubeconfig: &Path) -> Result<Fieldcache> {
    Fieldcache::serve(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]).await
}

/// A user who may read one namespace only, so that fieldcache has no store and forwards every watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_forwarded_is_a_websocket_too() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let client = control_plane.client();
    let namespace = objects::create_namespace(&client).await?;
    let user = unique::name("limited");
    let rights = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get", "list", "watch"] }],
    });
    objects::create(&client, &format!("{rights}/roles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    objects::create(&client, &format!("{rights}/rolebindings"), &binding).await?;
    let (_, document) = control_plane.as_user(&user, None)?;
    let directory = RunDirectory::create("websocket")?;
    let serve = serve(&directory.write("limited.kubeconfig", document.to_string())?).await?;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let own = origin(serve.endpoint());
    for (accept, is_line) in [("application/json", true), ("application/vnd.kubernetes.protobuf", false)] {
        let mut headers = HANDSHAKE.to_vec();
        headers.extend([("origin", &*own), ("accept", accept), ("accept-encoding", "gzip")]);
        let request = get(&format!("{maps}?watch=1"), &headers);
        let (status, headers, messages) = serve.client().upgrade(request).await?;
        ensure!(status == 101 && headers["fieldcache-read"] == "forwarded", "{accept}: {status} {headers:?}");
        let mut messages = messages.context("no messages")?;
        // Longer than a piece of the body that is forwarded.
        let long = unique::name("long");
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": long }, "data": { "text": "x".repeat(300_000) },
        });
        objects::create(&client, &maps, &map).await?;
        let found = loop {
            let event = messages.event().await?.context("the watch ended")?;
            let (bytes, is_text) = match event {
                Event::Line(line) => (line, true),
                Event::Framed(event) => (event, false),
            };
            ensure!(is_text == is_line, "{accept}: {bytes:?}");
            if bytes.windows(long.len()).any(|part| part == long.as_bytes()) {
                break bytes;
            }
        };
        ensure!(found.len() > 300_000, "{accept}: {} bytes", found.len());
        messages.send(&frame(0x88, &[])).await?;
        ensure!(messages.event().await?.is_none(), "{accept}: an event after Close");
    }
    let mut headers = HANDSHAKE.to_vec();
    headers.push(("origin", &*own));
    let (status, ..) =
        serve.client().upgrade(get("/api/v1/namespaces/kube-system/configmaps?watch=1", &headers)).await?;
    ensure!(status == 403, "another namespace: {status}");
    Ok(())
}

/// A token of an account that may read everything.
async fn token(client: &Client, audience: Option<&str>) -> Result<String> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "audiences": audience.into_iter().collect::<Vec<_>>() },
    });
    let path = "/api/v1/namespaces/default/serviceaccounts/page/token";
    let answer = objects::create(client, path, &request).await?;
    Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_watches_with_its_token() -> Result<()> {
    let control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
    let client = control_plane.client();
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "page" } });
    objects::create(&client, "/api/v1/namespaces/default/serviceaccounts", &account).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "page" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": "page" }],
    });
    objects::create(&client, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
    let viewed = Box::pin(Viewed::start(&control_plane, "", "configmaps")).await?;
    let directory = RunDirectory::create("websocket")?;
    let document = viewed.kubeconfig()?;
    let view = Endpoint::from_kubeconfig(&directory.write("view.kubeconfig", document.to_string())?)?;
    let upstream = Endpoint::secure(control_plane.endpoint().base(), &control_plane.authority().certificate(), None)?;
    let cluster = &document["clusters"][0]["cluster"];
    let authority = cluster["certificate-authority-data"].as_str().context("no authority")?;
    let certificate = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, authority)?;
    let sides = [
        ("kube-apiserver", upstream, token(&client, None).await?, control_plane.authority().certificate()),
        ("view", view, token(&client, Some("fieldcache.dev")).await?, String::from_utf8(certificate)?),
    ];
    for (name, endpoint, token, certificate) in sides {
        subprotocols(&endpoint, &token).await.context(name)?;
        let file = directory.write(&format!("{name}.crt"), certificate)?;
        let url = format!("{}{CONFIG_MAPS}?watch=1", endpoint.base().replacen("http", "ws", 1));
        let packages = cache_directory().join("clients/javascript");
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/websocket/page.mjs");
        let of_page = |origin: &str, token: &str| {
            let [packages, file] = [&packages, &file].map(|path| path.display().to_string());
            clients::interpreter(Toolkit::JavaScript)
                .map(|node| node.arguments([page, &packages, &url, origin, &file, token]))
        };
        let started =
            Process::start(&format!("page-{name}"), &of_page("https://page.example.com", &token)?, directory.path())?;
        says(&started, &json!({ "protocol": "base64.binary.k8s.io" })).await.context(name)?;
        says(&started, &json!({ "pong": "alive" })).await.context(name)?;
        let object = format!("of-{name}");
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": object } });
        objects::create(&client, CONFIG_MAPS, &map).await?;
        says(&started, &json!({ "event": "ADDED", "name": object, "isBinary": false })).await.context(name)?;
        let refused = Process::start(
            &format!("refused-{name}"),
            &of_page("https://page.example.com", "wrong")?,
            directory.path(),
        )?;
        says(&refused, &json!({ "status": 401 })).await.context(name)?;
        let log = viewed.operator.process().stderr()?;
        ensure!(!log.contains(&token[token.len() - 40..]), "the token is logged");
    }
    Ok(())
}

/// Waits until a page has written this line.
async fn says(page: &Process, expected: &Value) -> Result<()> {
    eventually(&expected.to_string(), SOON, async || {
        let text = page.stdout()?;
        ensure!(
            text.lines().any(|line| serde_json::from_str::<Value>(line).is_ok_and(|said| said == *expected)),
            "{text}"
        );
        Ok(())
    })
    .await
    .with_context(|| page.tail())
}

/// What a server makes of a token in the subprotocols.
async fn subprotocols(endpoint: &Endpoint, token: &str) -> Result<()> {
    let encoded = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, token);
    let (valid, wrong) = (format!("{TOKEN}{encoded}"), format!("{TOKEN}d3Jvbmc"));
    let path = format!("{CONFIG_MAPS}?watch=1");
    for (protocols, code, what) in [
        (format!("x, {valid}"), 101, "a token"),
        (format!("{valid},x"), 101, "before the other"),
        (format!("x, {wrong}"), 401, "a wrong one"),
        (valid.clone(), 401, "without another one"),
        (format!("x, {valid}, {valid}"), 401, "twice"),
        (format!("x, {valid}="), 401, "with padding"),
        (format!("x, y, {valid}"), 400, "with two others"),
    ] {
        let mut headers = HANDSHAKE.to_vec();
        headers.extend([("origin", "https://page.example.com"), ("sec-websocket-protocol", &*protocols)]);
        let (status, found, messages) = endpoint.client().upgrade(get(&path, &headers)).await?;
        ensure!(status.as_u16() == code, "{what}: {status}");
        let echoed = HeaderMap::get(&found, "sec-websocket-protocol").map(|value| value.as_bytes());
        ensure!(echoed == (code == 101).then_some(&b"x"[..]), "{what}: {echoed:?}");
        if let Some(mut messages) = messages {
            messages.send(&frame(0x88, &[])).await?;
            while messages.event().await?.is_some() {}
        }
    }
    // Only of a request for a WebSocket.
    let answer = endpoint.client().send(get(&path, &[("sec-websocket-protocol", &*format!("x, {valid}"))])).await?;
    ensure!(matches!(answer.status.as_u16(), 401 | 403), "not a WebSocket: {}", answer.status);
    Ok(())
}
