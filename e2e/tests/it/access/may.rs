//! Rights: the same user asks kube-apiserver and fieldcache the same, and both decide alike, in the same words.

use anyhow::{Result, ensure};
use e2e::http::{Client, Request};
use http::Method;

use super::stage::{GROUP, Stage};

/// Asked of every user: the method, the path, and whether fieldcache serves what is there, so that the status can be compared when it may be.
const ASKED: &[(&str, &str, bool)] = &[
    ("GET", "/", false),
    ("GET", "/api", true),
    ("GET", "/apis", true),
    ("GET", "/api/v1", true),
    ("GET", "/apis/GROUP", true),
    ("GET", "/apis/GROUP/v1", true),
    ("GET", "/apis/nowhere.example.com/v1", false),
    ("GET", "/version", true),
    ("GET", "/openapi/v3", true),
    ("GET", "/metrics", false),
    ("GET", "/logs", false),
    ("GET", "/livez", true),
    ("GET", "/a%3Cb%3E%26c", false),
    ("GET", "/apis/GROUP/v1/shirts", true),
    ("HEAD", "/apis/GROUP/v1/shirts", true),
    ("GET", "/apis/GROUP/v1/shirts/one", true),
    ("GET", "/apis/GROUP/v1/shirts/two", true),
    ("GET", "/apis/GROUP/v1/shirts/three", true),
    ("GET", "/apis/GROUP/v1/shirts/one/status", false),
    ("GET", "/apis/GROUP/v1/shirts?fieldSelector=metadata.name%3Done", true),
    ("GET", "/apis/GROUP/v1/shirts?fieldSelector=metadata.name%3Dtwo", true),
    ("GET", "/apis/GROUP/v1/shirts?fieldSelector=metadata.name%3Done&limit=x", true),
    ("GET", "/apis/GROUP/v1/shirts?fieldSelector=spec.color%3Dblue&labelSelector=a", true),
    ("GET", "/apis/GROUP/v1/shirts?fieldSelector=banana", true),
    ("GET", "/apis/GROUP/v1/shirts?timeout=banana", true),
    ("GET", "/apis/GROUP/v1/shirts?watch=1&timeoutSeconds=1", true),
    ("GET", "/apis/GROUP/v1/shirts?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Done", true),
    ("GET", "/apis/GROUP/v1/watch/shirts?timeoutSeconds=1", true),
    ("GET", "/apis/GROUP/v1/watch/shirts/one?timeoutSeconds=1", true),
    ("GET", "/apis/GROUP/v1/namespaces/team/shirts", false),
    ("GET", "/apis/GROUP/v1/hostports", true),
    ("GET", "/apis/GROUP/v1/namespaces/team/hostports", true),
    ("GET", "/apis/GROUP/v1/namespaces/team/hostports/one", true),
    ("GET", "/apis/GROUP/v1/namespaces/other/hostports", true),
    ("GET", "/apis/GROUP/v1/namespaces/team/hostports?watch=1&timeoutSeconds=1", true),
    ("GET", "/apis/GROUP/v1/hostports?fieldSelector=metadata.namespace%3Dteam", true),
    ("GET", "/api/v1/pods", true),
    ("GET", "/api/v1/namespaces/team/pods/p", true),
    ("GET", "/api/v1/namespaces/team/pods/p/log", false),
    ("GET", "/api/v1/namespaces/team", false),
    ("GET", "/api/v1/namespaces/team/status", false),
    ("GET", "/api/v1/nodes", false),
    ("GET", "/apis/nowhere.example.com/v1/things", false),
];

/// Asked of those who may write nothing.
const WRITES: &[(&str, &str)] = &[
    ("POST", "/apis/GROUP/v1/shirts"),
    ("PUT", "/apis/GROUP/v1/shirts/one"),
    ("PATCH", "/apis/GROUP/v1/shirts/one"),
    ("DELETE", "/apis/GROUP/v1/shirts/one"),
    ("DELETE", "/apis/GROUP/v1/shirts"),
    ("DELETE", "/apis/GROUP/v1/namespaces/team/hostports?fieldSelector=metadata.name%3Done"),
    ("OPTIONS", "/apis/GROUP/v1/shirts"),
    ("POST", "/api/v1/namespaces/team/pods/p/exec?command=sh"),
    ("POST", "/version"),
];

/// Asks both; what differs in words.
async fn compare(who: &str, sides: &[Client; 2], method: &str, path: &str, is_served: bool) -> Result<Option<String>> {
    let path = path.replace("GROUP", GROUP);
    let request = Request::new(method.parse::<Method>()?, &*path);
    let upstream = sides[0].send(request.clone()).await?;
    let own = sides[1].send(request).await?;
    let is_refusal = |status: u16| matches!(status, 401 | 403);
    let refuses = is_refusal(upstream.status.as_u16()) || is_refusal(own.status.as_u16());
    if !refuses && !is_served {
        return Ok(None);
    }
    // What a refusal says is compared word for word, as far as the order in an object says nothing; of an answer only that it is one.
    let says_otherwise = match (upstream.json(), own.json()) {
        (Ok(upstream), Ok(own)) => upstream != own,
        _ => upstream.text() != own.text(),
    };
    let differs = upstream.status != own.status || (upstream.status.is_client_error() && says_otherwise);
    let headers = ["content-type", "x-content-type-options"];
    let differs_in = headers.iter().find(|name| refuses && upstream.header(name) != own.header(name));
    Ok((differs || differs_in.is_some()).then(|| {
        format!(
            "{who}: {method} {path} ({differs_in:?})\n  kube-apiserver {}: {}\n  fieldcache     {}: {}",
            upstream.status,
            upstream.text().chars().take(400).collect::<String>(),
            own.status,
            own.text().chars().take(400).collect::<String>(),
        )
    }))
}

#[tokio::test]
async fn whoever_asks_is_told_the_same_as_by_kube_apiserver() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    let mut users: Vec<(String, [Client; 2], bool)> = Vec::new();
    let people = [
        ("admin", Some("system:masters"), false),
        ("alice", None, true),
        ("bob", None, true),
        ("carol", None, true),
        ("dave", None, true),
        ("erin", Some("team"), true),
        ("<frank & \"co\">", None, true),
    ];
    for (name, group, writes) in people {
        let sides = stage.sides(Some(&stage.user(name, group)?))?;
        users.push((name.to_owned(), sides.map(|side| side.client()), writes));
    }
    let [upstream, own] = stage.sides(None)?;
    let tokens = [stage.token(None).await?, stage.token(Some("fieldcache.dev")).await?];
    let sides = [upstream.with_token(&tokens[0])?, own.with_token(&tokens[1])?];
    users.push(("ServiceAccount reader".to_owned(), sides.map(|side| side.client()), true));
    let proxy = stage.front_proxy.client("front-proxy", None)?;
    let sides = stage.sides(Some(&proxy))?.map(|side| {
        let side = side.with_header("x-remote-user", "grace").with_header("x-remote-group", "team");
        side.with_header("x-remote-extra-scopes", "a").client()
    });
    users.push(("grace through a front proxy".to_owned(), sides, true));

    let (mut rows, mut differences) = (0, Vec::new());
    for (name, sides, writes) in &users {
        for (method, path, is_served) in ASKED {
            rows += 1;
            differences.extend(compare(name, sides, method, path, *is_served).await?);
        }
        for (method, path) in WRITES.iter().filter(|_| *writes) {
            rows += 1;
            differences.extend(compare(name, sides, method, path, false).await?);
        }
    }
    ensure!(rows >= 60, "{rows} rows");
    ensure!(differences.is_empty(), "{} of {rows} rows differ:\n{}", differences.len(), differences.join("\n"));
    stage.fieldcache.process().ensure_running()
}
