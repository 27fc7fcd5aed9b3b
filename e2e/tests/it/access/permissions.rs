//! Permissions: the same user sends kube-apiserver and fieldcache the same request. Both must decide alike, in the same
//! words.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::http::{Client, Request};
use e2e::kubectl::Kubectl;
use http::Method;
use serde_json::json;

use super::stage::{GROUP, Stage};

const SOON: Duration = Duration::from_secs(60);

/// Requests of every user: the method, the path, and whether fieldcache serves that path. If so, the status can be
/// compared.
const REQUESTS: &[(&str, &str, bool)] = &[
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
    ("GET", "/apis/GROUP/v1/shirts?fieldSelector=ba+nana", true),
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

/// Requests of users without write permissions.
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

/// Sends the request to both and returns the difference in words.
async fn compare(who: &str, sides: &[Client; 2], method: &str, path: &str, is_served: bool) -> Result<Option<String>> {
    let path = path.replace("GROUP", GROUP);
    let request = Request::new(method.parse::<Method>()?, &*path);
    // kube-apiserver says that it is not well when its etcd stalls for a moment; fieldcache has no such excuse.
    let upstream = eventually(&path, SOON, async || {
        let answer = sides[0].send(request.clone()).await?;
        ensure!(!answer.status.is_server_error(), "{answer:?}");
        Ok(answer)
    })
    .await?;
    let own = sides[1].send(request).await?;
    let is_refusal = |status: u16| matches!(status, 401 | 403);
    let refuses = is_refusal(upstream.status.as_u16()) || is_refusal(own.status.as_u16());
    if !refuses && !is_served {
        return Ok(None);
    }
    // The message of a rejection is compared word for word, as far as the order in an object has no meaning. Of another
    // response the comparison only covers that it is one.
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
async fn every_caller_gets_the_same_response_as_from_kube_apiserver() -> Result<()> {
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
        for (method, path, is_served) in REQUESTS {
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

/// A View of everything, with the caller's own permissions.
const PROXY: &str = "/apis/view.fieldcache.dev/v1alpha1/views/all/proxy";

#[tokio::test]
async fn through_a_view_with_the_callers_permissions_decisions_are_the_same() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    let kubectl = Kubectl::with_kubeconfig(stage.control_plane.kubeconfig())?;
    let kept = [(GROUP, "shirts"), (GROUP, "hostports"), ("", "pods")];
    let view = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": "all" },
        "spec": { "resources": kept.map(|(group, resource)| json!({ "group": group, "resource": resource })) },
    });
    let caches = kept.map(|(group, resource)| {
        let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": name },
            "spec": { "group": group, "resource": resource },
        })
    });
    for (index, document) in caches.iter().chain([&view]).enumerate() {
        let file = stage.folder.write(&format!("document-{index}.json"), document.to_string())?;
        kubectl.apply_known(&file.display().to_string()).await?;
    }
    let [_, administrator] =
        stage.sides(Some(&stage.user("admin", Some("system:masters"))?))?.map(|side| side.client());
    eventually("the View is served", SOON, async || {
        for path in ["/apis/GROUP/v1/shirts", "/apis/GROUP/v1/hostports", "/api/v1/pods"] {
            let answer = administrator.get(&format!("{PROXY}{}", path.replace("GROUP", GROUP))).await?;
            ensure!(answer.status == 200, "{answer:?}");
        }
        Ok(())
    })
    .await
    .with_context(|| stage.fieldcache.process().tail())?;
    let mut users: Vec<(&str, [Client; 2])> = Vec::new();
    for (name, group) in [
        ("alice", None),
        ("bob", None),
        ("carol", None),
        ("dave", None),
        ("erin", Some("team")),
        ("admin", Some("system:masters")),
    ] {
        users.push((name, stage.sides(Some(&stage.user(name, group)?))?.map(|side| side.client())));
    }
    let tokens = [stage.token(None).await?, stage.token(Some("fieldcache.dev")).await?];
    let [upstream, own] = stage.sides(None)?;
    users.push(("reader", [upstream.with_token(&tokens[0])?.client(), own.with_token(&tokens[1])?.client()]));
    let (mut refused, mut allowed, mut differences) = (0, 0, Vec::new());
    for (name, [upstream, own]) in &users {
        // For a user who sees nothing at all every request has the same result. What a View has no part in is 404 for
        // users with permission.
        for (method, path, _) in REQUESTS.iter().filter(|(method, ..)| *method == "GET") {
            let path = path.replace("GROUP", GROUP);
            let upstream = upstream.send(Request::get(&*path)).await?;
            let own = own.send(Request::get(format!("{PROXY}{path}"))).await?;
            let is_refused = upstream.status == 403;
            // The response of a View that is missing has the same addition.
            let reported = own.text().replace(r#": and cannot use the View \"all\""#, "");
            let reported: Option<serde_json::Value> = serde_json::from_str(&reported).ok();
            if is_refused {
                refused += 1
            } else {
                allowed += 1
            }
            if is_refused != (own.status == 403) || (is_refused && upstream.json().ok() != reported) {
                differences.push(format!("{name}: {method} {path}\n  {upstream:?}\n  {own:?}"));
            }
        }
    }
    ensure!(refused >= 60 && allowed >= 60, "{refused} refused, {allowed} allowed");
    ensure!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    println!("{refused} refused alike, {allowed} allowed alike");
    Ok(())
}
