//! What fieldcache does not serve itself, forwarded to a real kube-apiserver. kubectl writes through it, its own writes
//! become visible, and requests that must not be forwarded are not.

#![expect(clippy::print_stdout, reason = "figures for the person who runs the suite")]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::compare;
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Answer, Client, Next, Protocol, Request};
use e2e::kubectl::Kubectl;
use e2e::run_directory::RunDirectory;
use e2e::versions::Kubernetes;
use e2e::{fixtures, objects, unique};
use http::Method;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(180);

async fn serve(kubeconfig: &std::path::Path, mode: &str) -> Result<Fieldcache> {
    let arguments = ["--kubeconfig", &kubeconfig.display().to_string(), "--pass-through", mode].map(str::to_owned);
    Box::pin(Fieldcache::serve(arguments)).await
}

/// Shirts of a group of the test's own, with status and scale.
fn definition(group: &str) -> Value {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": { "color": { "type": "string" }, "replicas": { "type": "integer" } } },
            "status": { "type": "object", "properties": {
                "worn": { "type": "string" }, "replicas": { "type": "integer" },
            } },
        } } },
        "subresources": { "status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        } },
        "selectableFields": [{ "jsonPath": ".spec.color" }],
    });
    fixtures::definition(group, "Namespaced", ("shirts", "shirt", "Shirt"), &[version], &fixtures::no_conversion())
}

fn shirt(group: &str, name: &str, color: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Shirt", "metadata": { "name": name },
        "spec": { "color": color, "replicas": 1 },
    })
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

/// Asserts that an answer was forwarded.
fn forwarded(answer: Answer) -> Result<Answer> {
    ensure!(answer.header("fieldcache-read") == Some("forwarded"), "{}: {}", answer.status, answer.text());
    Ok(answer)
}

#[tokio::test]
async fn kubectl_writes_through_fieldcache_and_reads_what_it_wrote() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let group = unique::group("shop");
    let fieldcache = serve(control_plane.kubeconfig(), "all").await?;
    let kubectl = Kubectl::with_server(fieldcache.address())?;
    let files = RunDirectory::create("pass-through")?;
    let put = |name: &str, object: &Value| -> Result<String> {
        Ok(files.write(&format!("{name}.json"), object.to_string())?.display().to_string())
    };
    let plural = format!("shirts.{group}");
    let says = async |command: &[&str], expected: &str| -> Result<()> {
        let said = kubectl.succeed(command).await?;
        ensure!(said.contains(expected), "{command:?} does not say {expected:?}:\n{said}");
        Ok(())
    };

    // The definition itself and a namespace, too.
    says(&["create", "-f", &put("definition", &definition(&group))?], "created").await?;
    says(&["wait", "--for=condition=established", &format!("crd/{plural}"), "--timeout=180s"], "condition met").await?;
    let namespace = unique::name("e2e");
    says(&["create", "namespace", &namespace], "created").await?;
    let in_namespace = ["-n", namespace.as_str()];
    let says_there = async |command: &[&str], expected: &str| says(&[command, &in_namespace].concat(), expected).await;

    for (name, color) in [("a", "blue"), ("b", "green"), ("c", "blue")] {
        let file = put(name, &shirt(&group, name, color))?;
        let command = ["create", "-f", &file];
        // Discovery of kube-apiserver itself may be a moment behind a new definition.
        eventually("a shirt is created", SOON, async || says_there(&command, "created").await).await?;
    }
    let blue = ["get", &plural, "--field-selector", "spec.color=blue", "-o", "name"];
    says_there(&blue, &format!("shirt.{group}/a\nshirt.{group}/c\n")).await?;
    says_there(&["patch", &plural, "b", "--type=merge", "-p", r#"{"spec":{"color":"blue"}}"#], "patched").await?;
    says_there(&blue, &format!("shirt.{group}/a\nshirt.{group}/b\nshirt.{group}/c\n")).await?;
    let changed = put("a", &shirt(&group, "a", "red"))?;
    says_there(&["apply", "--server-side", "--force-conflicts", "-f", &changed], "serverside-applied").await?;
    let applied = put("d", &shirt(&group, "d", "blue"))?;
    says_there(&["apply", "-f", &applied], "created").await?;
    says_there(&["apply", "-f", &put("d", &shirt(&group, "d", "grey"))?], "configured").await?;
    says_there(&["label", &plural, "d", "fit=loose"], "labeled").await?;
    says_there(&["get", &plural, "-l", "fit=loose", "-o", "name"], "/d").await?;
    says_there(&["scale", &plural, "a", "--replicas=3"], "scaled").await?;
    says_there(&["get", &plural, "a", "-o", "jsonpath={.spec.replicas}"], "3").await?;
    let worn = ["patch", &plural, "a", "--subresource=status", "--type=merge", "-p", r#"{"status":{"worn":"often"}}"#];
    says_there(&worn, "patched").await?;
    says_there(&["get", &plural, "a", "--subresource=status", "-o", "jsonpath={.status.worn}"], "often").await?;
    says_there(&["get", &plural, "-o", "jsonpath={.items[?(@.metadata.name=='a')].status.worn}"], "often").await?;

    let selected = ["delete", &plural, "--field-selector", "spec.color=blue"];
    says_there(&selected, "deleted").await?;
    says_there(&["get", &plural, "-o", "name"], &format!("shirt.{group}/a\nshirt.{group}/d\n")).await?;
    says_there(&["delete", &plural, "d"], "deleted").await?;
    let left = direct.get_json(&format!("/apis/{group}/v1/namespaces/{namespace}/shirts")).await?;
    ensure!(names(&left) == ["a"], "{left}");

    // Built-in ones, with protobuf where kubectl speaks it.
    says_there(&["create", "configmap", "settings", "--from-literal=a=b"], "created").await?;
    says_there(&["get", "configmap", "settings", "-o", "jsonpath={.data.a}"], "b").await?;
    says_there(&["create", "deployment", "web", "--image=none"], "created").await?;
    says_there(&["scale", "deployment", "web", "--replicas=2"], "scaled").await?;
    says_there(&["get", "deployments", "-o", "jsonpath={.items[0].spec.replicas}"], "2").await?;
    says_there(&["delete", "deployment", "web"], "deleted").await?;
    says_there(&["run", "web", "--image=none"], "created").await?;
    says(&["auth", "can-i", "delete", "pods"], "yes").await?;
    says(&["get", "--raw", "/metrics"], "apiserver_request_total").await?;
    says(&["auth", "whoami"], "admin").await?;
    says_there(&["create", "token", "default"], "")
        .await
        .map_or_else(|error| ensure_contains(&format!("{error:#}"), "serviceaccounts \"default\" not found"), Ok)?;

    // What has no kubelet behind it fails with the words of kube-apiserver itself.
    let bound = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "bound" },
        "spec": { "nodeName": "nowhere", "containers": [{ "name": "c", "image": "none" }] } });
    says_there(&["create", "-f", &put("bound", &bound)?], "created").await?;
    let own = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    for command in
        [&["logs", "bound"][..], &["logs", "nobody"], &["get", "pod", "nobody"], &["get", "--raw", "/nothing"]]
    {
        let command = [command, &in_namespace].concat();
        let (theirs, ours) = (own.run(&command).await?, kubectl.run(&command).await?);
        // Older servers have an empty log of a Pod that was never run.
        let fails = Kubernetes::under_test()?.is_usual() || command[0] != "logs";
        ensure!(theirs == ours && (!fails || theirs.exit_code == 1), "{command:?}: {theirs:?} <> {ours:?}");
    }
    let both = (
        own.run(&["logs", "web", in_namespace[0], in_namespace[1]]).await?,
        kubectl.run(&["logs", "web", in_namespace[0], in_namespace[1]]).await?,
    );
    ensure!(both.0 == both.1, "{both:?}");
    // kubectl itself sends no requests about a Pod that does not run.
    let running = r#"{"status":{"phase":"Running"}}"#;
    says_there(&["patch", "pod", "bound", "--subresource=status", "--type=merge", "-p", running], "patched").await?;
    for (command, reason) in [
        (&["attach", "bound"][..], "pods/attach is not forwarded"),
        (&["port-forward", "pod/bound", ":80"], "pods/portforward is not forwarded"),
        (&["get", "pods", "--as=jane"], "requests impersonation"),
    ] {
        let refused = kubectl.run(&[command, &in_namespace].concat()).await?;
        ensure!(refused.exit_code != 0 && refused.stderr.contains(reason), "{command:?}: {refused:?}");
    }
    let exec = format!("/api/v1/namespaces/{namespace}/pods/bound/exec?command=sh&stdin=true");
    for (method, protocol) in [(Method::POST, "SPDY/3.1"), (Method::GET, "websocket")] {
        let request = Request::new(method, &exec).header("connection", "Upgrade").header("upgrade", protocol);
        let refused = fieldcache.client().send(request).await?;
        ensure!(refused.status == 403, "{}: {}", refused.status, refused.text());
        ensure_contains(&refused.text(), "pods/exec is not forwarded")?;
    }
    says_there(&["delete", "pod", "web", "--now"], "deleted").await?;
    Ok(())
}

fn ensure_contains(text: &str, expected: &str) -> Result<()> {
    ensure!(text.contains(expected), "{text:?} does not say {expected:?}");
    Ok(())
}

/// A written object of each round is there, as it was written, in the next list, whichever other clients write meanwhile.
#[tokio::test]
async fn reads_after_a_write_show_it() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let group = unique::group("shop");
    objects::create_definition(&direct, &definition(&group)).await?;
    let namespace = objects::create_namespace(&direct).await?;
    let fieldcache = serve(control_plane.kubeconfig(), "all").await?;
    let (client, other) = (fieldcache.client(), fieldcache.endpoint().clone().speaking(Protocol::Http2).client());
    let shirts = format!("/apis/{group}/v1/namespaces/{namespace}/shirts");
    client.get_json(&shirts).await?;
    // Other resources change all the time: the cluster's version runs ahead of that of the shirts.
    let noise = objects::create_namespace(&direct).await?;
    let churning = async {
        let maps = format!("/api/v1/namespaces/{noise}/configmaps");
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "noise-" } });
        loop {
            objects::create(&direct, &maps, &map).await?;
        }
    };
    tokio::select! {
        written = Box::pin(write_and_read(&client, &other, &group, &shirts)) => written,
        churned = churning => churned,
    }
}

async fn write_and_read(client: &Client, other: &Client, group: &str, shirts: &str) -> Result<()> {
    const ROUNDS: usize = 300;
    const DELETIONS: usize = 20;
    let mut waits = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("s{}", round % 100);
        let color = format!("c{round}");
        let one = format!("{shirts}/{name}");
        let written = if round < 100 {
            let created = Request::new(Method::POST, shirts).json(&shirt(group, &name, &color));
            forwarded(client.send(created).await?.success()?)?.json()?
        } else {
            objects::merge(client, &one, &json!({ "spec": { "color": color } })).await?
        };
        let began = Instant::now();
        let reader = if round % 2 == 0 { client } else { other };
        let list = reader.read(&format!("{shirts}?fieldSelector=spec.color%3D{color}")).await?.json()?;
        waits.push(began.elapsed());
        ensure!(names(&list) == [name.as_str()], "round {round}: {}", names(&list).join(" "));
        ensure!(list["items"][0] == written, "round {round}: {} <> {written}", list["items"][0]);
    }
    waits.sort();
    println!(
        "own writes: {ROUNDS} seen by the next list, which took {:?} in the middle, {:?} at most",
        waits[ROUNDS / 2],
        waits[ROUNDS - 1]
    );

    let mut waits = Vec::new();
    for round in 0..DELETIONS {
        let name = format!("s{round}");
        objects::delete(client, &format!("{shirts}/{name}")).await?;
        let began = Instant::now();
        let list = client.read(shirts).await?.json()?;
        waits.push(began.elapsed());
        ensure!(!names(&list).contains(&name.as_str()), "{name} is still there");
    }
    waits.sort();
    println!(
        "own deletions: {DELETIONS} seen, after {:?} in the middle, {:?} at most",
        waits[DELETIONS / 2],
        waits[DELETIONS - 1]
    );

    // A collection at once, selected by a field.
    let last = format!("c{}", ROUNDS - 1);
    let deleted = objects::delete(client, &format!("{shirts}?fieldSelector=spec.color%3D{last}")).await?;
    ensure!(names(&deleted).len() == 1 || deleted["status"] == "Success", "{deleted}");
    let left = client.read(shirts).await?.json()?;
    ensure!(names(&left).len() == 100 - DELETIONS - 1, "{} are left", names(&left).len());
    objects::delete(client, shirts).await?;
    ensure!(names(&client.read(shirts).await?.json()?).is_empty(), "all are gone");
    Ok(())
}

#[tokio::test]
async fn reads_alone_go_on_unless_writes_are_let_through() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let namespace = objects::create_namespace(&direct).await?;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": { "a": "b" } });
    let stored = objects::create(&direct, &maps, &map).await?;
    let one = format!("{maps}/m");
    // `read` is what happens without the option.
    let arguments = ["--kubeconfig".to_owned(), control_plane.kubeconfig().display().to_string()];
    let reads = Box::pin(Fieldcache::serve(arguments)).await?;
    let off = serve(control_plane.kubeconfig(), "off").await?;
    let (reads, off) = (reads.client(), off.client());
    ensure!(forwarded(reads.get(&one).await?.success()?)?.json()? == stored, "one object is requested");
    let copy = off.get(&one).await?.success()?;
    ensure!(copy.header("fieldcache-read").is_none() && copy.json()? == stored, "the store's: {}", copy.text());

    let review = |kind: &str, user: Option<&str>| {
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": kind,
            "spec": { "user": user, "resourceAttributes": { "verb": "list", "resource": "pods" } },
        })
    };
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    for (method, path, body, with_reads, with_off) in [
        (Method::POST, maps.as_str(), &map, 405, 405),
        (Method::PUT, one.as_str(), &map, 405, 405),
        (Method::DELETE, one.as_str(), &json!({}), 405, 405),
        (Method::DELETE, maps.as_str(), &json!({}), 405, 405),
        (Method::POST, reviews, &review("SubjectAccessReview", Some("somebody")), 405, 404),
    ] {
        let request = Request::new(method.clone(), path).json(body);
        let answer = reads.send(request.clone()).await?;
        ensure!(answer.status == with_reads, "{method} {path}: {}", answer.text());
        ensure_contains(&answer.text(), "--pass-through=all")?;
        ensure!(off.send(request).await?.status == with_off, "{method} {path}");
    }
    ensure!(direct.get_json(&one).await? == stored, "nothing was written");

    // A client's requests about itself write nothing.
    let own_reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let own_review = Request::new(Method::POST, own_reviews).json(&review("SelfSubjectAccessReview", None));
    let answer = forwarded(reads.send(own_review.clone()).await?)?;
    ensure!(answer.status == 201 && answer.json()?["status"]["allowed"] == true, "{}", answer.text());
    ensure!(off.send(own_review).await?.status == 404, "without pass-through");

    for path in
        ["/metrics", "/logs/", "/.well-known/openid-configuration", "/openid/v1/jwks", "/", "/api/v1/componentstatuses"]
    {
        let (theirs, ours) = (direct.get(path).await?, forwarded(reads.get(path).await?)?);
        ensure!(theirs.status == ours.status, "{path}: {} <> {}", theirs.status, ours.status);
        ensure!(theirs.header("content-type") == ours.header("content-type"), "{path}");
        if !["/metrics", "/", "/api/v1/componentstatuses"].contains(&path) {
            ensure!(theirs.body == ours.body, "{path}: {} <> {}", theirs.text(), ours.text());
        }
        let refused = off.get(path).await?.status;
        ensure!(refused == 404 || path == "/", "{path}: {refused} without pass-through");
    }
    let head = forwarded(reads.send(Request::new(Method::HEAD, "/metrics")).await?)?;
    ensure!(head.status == 200 && head.body.is_empty(), "{}", head.status);

    // Without pass-through there is no reason to name what cannot be reached, and with it no reason to hide it.
    for (client, expected) in [(&reads, true), (&off, false)] {
        let rows = client.get_json("/api/v1").await?["resources"].clone();
        let shows = |name: &str| rows.as_array().is_some_and(|rows| rows.iter().any(|row| row["name"] == name));
        ensure!(shows("componentstatuses") == expected && shows("pods/log") == expected, "{rows}");
        ensure!(!shows("pods/exec") && !shows("bindings") && shows("pods/status"), "{rows}");
    }
    Ok(())
}

#[tokio::test]
async fn a_foreign_page_or_another_name_reaches_nothing() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let fieldcache = serve(control_plane.kubeconfig(), "all").await?;
    let direct = control_plane.client();
    let namespace = objects::create_namespace(&direct).await?;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "m-" } });
    let created = |request: Request| Request { body: map.to_string().into(), ..request };
    let post = || Request::new(Method::POST, &maps);
    let own = fieldcache.address().to_owned();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = fieldcache.endpoint().clone().speaking(protocol).client();
        let json = ("content-type", "application/json");
        for (headers, code) in [
            (vec![json, ("origin", "http://evil.example")], 403),
            (vec![json, ("origin", "null")], 403),
            (vec![json, ("sec-fetch-site", "cross-site")], 403),
            (vec![json, ("impersonate-user", "admin")], 403),
            (vec![json, ("upgrade", "websocket")], 403),
            (vec![("content-type", "text/plain")], 415),
            (vec![("cookie", "a=b")], 415),
            (vec![("referer", &own)], 415),
            (vec![], 201),
            (vec![json, ("origin", &own), ("authorization", "Bearer wrong"), ("x-remote-user", "nobody")], 201),
        ] {
            if protocol == Protocol::Http2 && headers.iter().any(|(name, _)| *name == "upgrade") {
                continue;
            }
            let request = headers.iter().fold(post(), |request, (name, value)| request.header(name, value));
            let answer = client.send(created(request)).await?;
            ensure!(answer.status == code, "{protocol:?} {headers:?}: {} {}", answer.status, answer.text());
        }
    }
    let rebound = fieldcache
        .client()
        .send(created(post().header("host", "rebound.example").header("content-type", "application/json")))
        .await?;
    ensure!(rebound.status == 403, "{}", rebound.text());
    let list = direct.get_json(&maps).await?;
    ensure!(names(&list).len() == 4, "only the four that were let through: {:?}", names(&list));
    Ok(())
}

#[tokio::test]
async fn large_bodies_go_through_in_both_directions() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let namespace = objects::create_namespace(&direct).await?;
    let fieldcache = serve(control_plane.kubeconfig(), "all").await?;
    let client = fieldcache.client();
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = |name: &str, size: usize| {
        let data = json!({ "a": "x".repeat(size) });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
    };
    for size in [100_000, 1_000_000] {
        let name = format!("m{size}");
        let stored = objects::create(&client, &maps, &map(&name, size)).await?;
        ensure!(direct.get_json(&format!("{maps}/{name}")).await? == stored, "{size} bytes arrive");
        let one = Request::get(format!("{maps}/{name}")).header("accept-encoding", "gzip");
        let (theirs, ours) = (direct.send(one.clone()).await?, forwarded(client.send(one).await?)?);
        ensure!(theirs.body == ours.body, "{} <> {} bytes", theirs.body.len(), ours.body.len());
        ensure!(theirs.header("content-encoding") == ours.header("content-encoding"), "{:?}", ours.headers);
        ensure!(ours.header("content-encoding").is_some() == (size > 128 * 1024), "{:?}", ours.headers);
    }
    // More than an object may have, than a request may have, and much more.
    for size in [2_000_000, 4_000_000, 20_000_000] {
        let request = Request::new(Method::POST, &maps).json(&map("large", size));
        // A server that has read enough closes; a client that is still sending then may see that before the response.
        let theirs = eventually("kube-apiserver answers", SOON, async || direct.send(request.clone()).await).await?;
        let ours = eventually("fieldcache answers", SOON, async || client.send(request.clone()).await).await?;
        let is_alike = theirs.status == ours.status && theirs.status.is_client_error();
        ensure!(is_alike, "{size}: {} <> {}: {}", theirs.status, ours.status, ours.text());
    }
    Ok(())
}

/// A user who may see one namespace only has no store of anything, and sees what it may see.
#[tokio::test]
async fn permissions_in_one_namespace_are_enough() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let group = unique::group("shop");
    objects::create_definition(&direct, &definition(&group)).await?;
    let (namespace, foreign) = (objects::create_namespace(&direct).await?, objects::create_namespace(&direct).await?);
    let user = unique::name("jane");
    let rights = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": ["", group], "resources": ["configmaps", "shirts"], "verbs": ["get", "list", "watch", "create"] }],
    });
    objects::create(&direct, &format!("{rights}/roles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    objects::create(&direct, &format!("{rights}/rolebindings"), &binding).await?;
    let (endpoint, kubeconfig) = control_plane.as_user(&user, None)?;
    let files = RunDirectory::create("pass-through")?;
    let fieldcache = serve(&files.write("kubeconfig", kubeconfig.to_string())?, "all").await?;
    let (client, theirs) = (fieldcache.client(), endpoint.client());
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    let kinds = [("/api/v1", "configmaps", map), (&format!("/apis/{group}/v1"), "shirts", shirt(&group, "m", "blue"))];
    for (version, plural, object) in kinds {
        let path = format!("{version}/namespaces/{namespace}/{plural}");
        // The role is noticed by kube-apiserver a moment later.
        eventually("the permissions are granted", SOON, async || theirs.get_json(&path).await).await?;
        objects::create(&client, &path, &object).await?;
        let list = forwarded(client.get(&path).await?.success()?)?.json()?;
        ensure!(names(&list).contains(&"m"), "{list}");
        let version = list["metadata"]["resourceVersion"].as_str().context("a list has a version")?.to_owned();
        let watch = format!("{path}?watch=1&resourceVersion={version}");
        let mut watched = client.watch(&watch).await?;
        ensure!(
            watched.headers.get("fieldcache-read").is_some_and(|value| value == "forwarded"),
            "{:?}",
            watched.headers
        );
        objects::merge(&direct, &format!("{path}/m"), &json!({ "metadata": { "labels": { "a": "b" } } })).await?;
        let event = watched.event(SOON).await?;
        ensure!(event["type"] == "MODIFIED" && event["object"]["metadata"]["name"] == "m", "{event}");
        for path in [
            format!("/{}", &path[1..].replace(&namespace, &foreign)),
            path.replace(&format!("/namespaces/{namespace}"), ""),
        ] {
            let (theirs, ours) = (theirs.get(&path).await?, client.get(&path).await?);
            ensure!(theirs.status == 403 && ours.status == 403, "{path}: {} <> {}", theirs.text(), ours.text());
            compare::equal("kube-apiserver", &theirs.json()?, "fieldcache", &ours.json()?)?;
        }
    }
    Ok(())
}

/// kubectl requests these, and programs that show a cluster request them before anything else.
#[tokio::test]
async fn reviews_of_a_client_about_itself_are_answered_unless_nothing_is_forwarded() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    for mode in ["read", "all", "off"] {
        let fieldcache = serve(control_plane.kubeconfig(), mode).await?;
        let kubectl = Kubectl::with_server(fieldcache.address())?;
        for (command, expected) in [
            (&["auth", "can-i", "delete", "pods"][..], "yes"),
            (&["auth", "can-i", "--list", "-n", "default"][..], "selfsubjectaccessreviews.authorization.k8s.io"),
            (&["auth", "whoami"][..], "admin"),
        ] {
            match (mode, kubectl.succeed(command).await) {
                ("off", answered) => ensure!(answered.is_err(), "{mode}: {command:?}: {answered:?}"),
                (_, said) => ensure_contains(&said.with_context(|| format!("{mode}: {command:?}"))?, expected)?,
            }
        }
    }
    Ok(())
}

/// Takes out of a discovery document what is not forwarded.
fn without_refused(document: &mut Value) {
    const REFUSED: [&str; 4] = ["attach", "exec", "portforward", "proxy"];
    match document {
        Value::Array(items) => {
            items.retain(|item| {
                let below = item["subresource"]
                    .as_str()
                    .or(item["name"].as_str().and_then(|name| Some(name.split_once('/')?.1)));
                !below.is_some_and(|name| REFUSED.contains(&name))
            });
            items.iter_mut().for_each(without_refused);
        }
        Value::Object(members) => members.values_mut().for_each(without_refused),
        _ => {}
    }
}

/// Without our own group, of which kube-apiserver knows nothing: fieldcache serves it itself.
fn without_own(mut discovery: Value) -> Value {
    let name = |group: &Value| group["metadata"]["name"].as_str().or(group["name"].as_str()).map(str::to_owned);
    for list in ["items", "groups"] {
        if let Some(groups) = discovery.get_mut(list).and_then(Value::as_array_mut) {
            groups.retain(|group| name(group).as_deref() != Some("view.fieldcache.dev"));
        }
    }
    discovery
}

#[tokio::test]
async fn with_all_let_through_discovery_is_the_clusters() -> Result<()> {
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let direct = control_plane.client();
    let group = unique::group("shop");
    objects::create_definition(&direct, &definition(&group)).await?;
    let fieldcache = serve(control_plane.kubeconfig(), "all").await?;
    let client = fieldcache.client();
    let mut compared = 0;
    for path in ["/api", "/apis"] {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let read =
            async |client: &Client| client.send(Request::get(path).header("accept", accept)).await?.success()?.json();
        let mut theirs = read(&direct).await?;
        without_refused(&mut theirs);
        for item in theirs["items"].as_array_mut().into_iter().flatten() {
            // Servers before 1.34 say with null that a group has no time of creation.
            if let Some(metadata) = item["metadata"].as_object_mut() {
                metadata.retain(|name, value| name != "creationTimestamp" || !value.is_null());
            }
        }
        compare::equal("kube-apiserver", &theirs, "fieldcache", &without_own(read(&client).await?)).context(path)?;
        compared += 1;
        for item in theirs["items"].as_array().into_iter().flatten() {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            let mut paths = if name.is_empty() { vec![] } else { vec![format!("{path}/{name}")] };
            for version in item["versions"].as_array().into_iter().flatten() {
                let version = version["version"].as_str().unwrap_or_default();
                paths.push(if name.is_empty() {
                    format!("{path}/{version}")
                } else {
                    format!("{path}/{name}/{version}")
                });
            }
            for path in paths {
                let (mut theirs, ours) = (direct.get_json(&path).await?, client.get_json(&path).await?);
                without_refused(&mut theirs);
                compare::equal("kube-apiserver", &theirs, "fieldcache", &ours).context(path)?;
                compared += 1;
            }
        }
    }
    ensure!(compared > 30, "only {compared} documents");
    let (theirs, ours) = (direct.get_json("/apis").await?, client.get_json("/apis").await?);
    compare::equal("kube-apiserver", &theirs, "fieldcache", &without_own(ours))?;
    println!("discovery: {compared} documents as kube-apiserver's");

    // What is described is listed: a client that waits for the one expects to find the other.
    for round in 0..8 {
        let new = unique::group("later");
        objects::create(&direct, objects::DEFINITIONS, &definition(&new)).await?;
        eventually("the new version is described", SOON, async || {
            client.get_json(&format!("/apis/{new}/v1")).await.map(drop)
        })
        .await?;
        let listed = client.get_json("/apis").await?.to_string();
        ensure!(listed.contains(&new), "round {round}: /apis/{new}/v1 is described, /apis does not list {new}");
        client.get_json(&format!("/apis/{new}")).await?;
        objects::delete(&direct, &format!("{}/shirts.{new}", objects::DEFINITIONS)).await?;
    }

    // A definition that goes is gone from discovery too.
    objects::delete(&direct, &format!("{}/shirts.{group}", objects::DEFINITIONS)).await?;
    eventually("the group is gone", SOON, async || {
        let groups = client.get_json("/apis").await?.to_string();
        ensure!(!groups.contains(&group), "still there");
        Ok(())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_dies_breaks_what_it_was_answering() -> Result<()> {
    let mut control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
    let direct = control_plane.client();
    let group = unique::group("shop");
    // A user who may not read definitions: to this fieldcache shirts are unknown, and their watches are forwarded.
    let user = unique::name("jane");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": user },
        "rules": [{ "apiGroups": ["", group], "resources": ["configmaps", "shirts"], "verbs": ["*"] }],
    });
    objects::create(&direct, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": user },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    objects::create(&direct, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
    objects::create_definition(&direct, &definition(&group)).await?;
    let (_, kubeconfig) = control_plane.as_user(&user, None)?;
    let files = RunDirectory::create("pass-through")?;
    let fieldcache = serve(&files.write("kubeconfig", kubeconfig.to_string())?, "all").await?;
    let client = fieldcache.client();
    let shirts = format!("/apis/{group}/v1/namespaces/default/shirts");
    let maps = "/api/v1/namespaces/default/configmaps";
    objects::create(&client, &shirts, &shirt(&group, "a", "blue")).await?;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" } });
    objects::create(&client, maps, &map).await?;
    client.get_json(maps).await?;
    let mut watches = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let other = fieldcache.endpoint().clone().speaking(protocol).client();
        let mut watched = other.watch(&format!("{shirts}?watch=1")).await?;
        ensure!(
            watched.headers.get("fieldcache-read").is_some_and(|value| value == "forwarded"),
            "{:?}",
            watched.headers
        );
        ensure!(watched.event(SOON).await?["type"] == "ADDED", "the shirt that is there");
        watches.push((protocol, watched));
    }
    // The own watch of what is served lives on: its source is queried again.
    let mut own = client.watch(&format!("{maps}?watch=1")).await?;
    ensure!(own.event(SOON).await?["type"] == "ADDED", "the map that is there");
    control_plane.stop_apiserver();
    for (protocol, watched) in &mut watches {
        let broken = watched.next(SOON).await;
        ensure!(broken.is_err(), "{protocol:?}: a clean end or nothing: {broken:?}");
    }
    let one = client.get(&format!("{maps}/m")).await?;
    ensure!(one.status == 503, "{}: {}", one.status, one.text());
    ensure_contains(&one.text(), control_plane.endpoint().base())?;
    ensure!(names(&client.get_json(maps).await?).contains(&"m"), "the store is ready");
    let refused = client.send(Request::new(Method::POST, maps).json(&map)).await?;
    ensure!(refused.status == 503, "{}", refused.text());
    ensure!(own.next(Duration::from_millis(200)).await? == Next::Nothing, "our own watch goes on");

    control_plane.start_apiserver().await?;
    eventually("the API server answers through fieldcache again", SOON, async || {
        client.get(&format!("{maps}/m")).await?.success().and_then(forwarded)
    })
    .await?;
    Ok(())
}

/// The API server reads `/apis/G/V/watch` and `/apis/G/V/proxy` as other paths, so resources of these names cannot be followed.
#[tokio::test]
async fn resources_whose_name_is_part_of_a_path_are_not_followed() -> Result<()> {
    // One of its own: tests that look at every resource need not know these.
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let direct = control_plane.client();
    let group = unique::group("paths");
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object" } },
    });
    let mut paths = Vec::new();
    for (plural, kind) in [("watch", "Watch"), ("proxy", "Proxy")] {
        let names = (plural, plural, kind);
        let definition = fixtures::definition(
            &group,
            "Namespaced",
            names,
            std::slice::from_ref(&version),
            &fixtures::no_conversion(),
        );
        objects::create(&direct, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        let all = format!("/apis/{group}/v1/{plural}");
        let here = format!("/apis/{group}/v1/namespaces/default/{plural}");
        eventually(&here, SOON, async || direct.get_json(&here).await).await?;
        let object = json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": { "name": "one" } });
        objects::create(&direct, &here, &object).await?;
        paths.extend([all, format!("{here}/one"), here]);
    }
    let open = serve(control_plane.kubeconfig(), "read").await?;
    let closed = serve(control_plane.kubeconfig(), "off").await?;
    for path in &paths {
        let (upstream, own) = (direct.get(path).await?, open.client().get(path).await?);
        let (upstream, own) = ((upstream.status, upstream.text()), (own.status, own.text()));
        ensure!(upstream == own, "{path}: {upstream:?} and not {own:?}");
        println!("{path}: {}", own.0);
        // Where nothing is forwarded, the request does not wait for a store that cannot be.
        let refused = closed.client().get(path).await?;
        ensure!(refused.status == 404, "{path}: {refused:?}");
    }
    ensure!(open.process().stderr()?.contains("not served"), "{}", open.process().tail());
    Ok(())
}
