//! The test bed itself: what it starts is real, and what it promises about processes and waiting holds.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::components::{KUBERNETES_VERSION, go_is_new_enough, module_directory};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::conversion_webhook::ConversionWebhook;
use e2e::eventually::eventually;
use e2e::http::{Next, Protocol, Request};
use e2e::kubectl::Kubectl;
use e2e::process::{Invocation, Process};
use e2e::run_directory::RunDirectory;
use e2e::versions::{Kubernetes, versions_directory};
use e2e::{compare, fieldcache, fixtures, objects, openapi, unique};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn modules_of_other_versions_are_of_the_minor_they_are_named_for() -> Result<()> {
    for version in Kubernetes::OTHERS {
        version.version().with_context(|| version.name())?;
        let path = versions_directory().join(format!("v{}/go.mod", version.name()));
        let go_mod = std::fs::read_to_string(&path)?;
        let replaced: Vec<&str> = go_mod.lines().filter(|line| line.contains("=>")).collect();
        assert!(replaced.len() > 25, "{}: {} staging modules", path.display(), replaced.len());
        // A patch release of a few of them cannot be had; what they do is the same in every patch of a minor version.
        let minor = format!(" v0.{}.", version.minor());
        let strays: Vec<&&str> = replaced.iter().filter(|line| !line.contains(&minor)).collect();
        assert!(strays.is_empty(), "{}: staging modules of another version: {strays:?}", path.display());
    }
    Ok(())
}

#[tokio::test]
async fn the_control_plane_serves_the_version_that_go_mod_requires() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let version = client.get_json("/version").await?;
    assert_eq!(version["gitVersion"], KUBERNETES_VERSION);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));

    let go_mod = std::fs::read_to_string(module_directory().join("go.mod"))?;
    assert!(go_mod.contains(&format!("k8s.io/kubernetes {KUBERNETES_VERSION}")), "go.mod requires another version");
    let staging = KUBERNETES_VERSION.replacen("v1.", "v0.", 1);
    let replaced = go_mod.lines().filter(|line| line.contains("=>"));
    let strays: Vec<&str> = replaced.filter(|line| !line.ends_with(&staging)).collect();
    assert_eq!(strays, [""; 0], "staging modules of another version");
    Ok(())
}

#[tokio::test]
async fn a_selectable_field_selects_in_lists_and_watches() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let group = unique::group("selectable");
    objects::create_definition(&client, &fixtures::shirts(&group, &fixtures::no_conversion())).await?;
    let collection = format!("/apis/{group}/v1/shirts");
    let selected = format!("{collection}?fieldSelector=spec.color%3Dblue");
    let mut watch = client.watch(&format!("{selected}&watch=1&allowWatchBookmarks=true")).await?;

    for (name, color) in [("shirt1", "blue"), ("shirt2", "green")] {
        objects::create(&client, &collection, &shirt(&group, "v1", name, json!({ "color": color }))).await?;
    }
    let list = client.get_json(&selected).await?;
    assert_eq!(names(&list), ["shirt1"], "the list");

    let bookmark = watch.event(SOON).await?;
    assert_eq!(bookmark["type"], "BOOKMARK", "the end of the empty initial state");
    let added = watch.event(SOON).await?;
    assert_eq!((&added["type"], &added["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("shirt1")));
    assert_eq!(watch.next(Duration::from_millis(300)).await?, Next::Nothing, "shirt2 is green");

    let refused = client.get(&format!("{collection}?fieldSelector=spec.collar%3Dx")).await?;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()?["message"]),
        (400, &json!("field label not supported: spec.collar"))
    );
    Ok(())
}

#[tokio::test]
async fn the_webhook_makes_both_fixtures_readable_in_both_versions() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let conversion = ConversionWebhook::shared().await?.conversion();
    let group = unique::group("converted");
    objects::create_definition(&client, &fixtures::shirts(&group, &conversion)).await?;
    objects::create_definition(&client, &fixtures::host_ports(&group, &conversion)).await?;

    let spec = json!({ "color": "blue", "quantity": 2 });
    objects::create(&client, &format!("/apis/{group}/v1/shirts"), &shirt(&group, "v1", "shirt1", spec)).await?;
    let spec = json!({ "hue": "green" });
    objects::create(&client, &format!("/apis/{group}/v1beta1/shirts"), &shirt(&group, "v1beta1", "shirt2", spec))
        .await?;
    let host_ports = |version: &str| format!("/apis/{group}/{version}/namespaces/default/hostports");
    let object = json!({
        "apiVersion": format!("{group}/v2"), "kind": "HostPort", "metadata": { "name": "a" },
        "host": "host1", "port": "80",
    });
    objects::create(&client, &host_ports("v2"), &object).await?;

    let rows = [
        (format!("/apis/{group}/v1/shirts?fieldSelector=spec.color%3Dblue"), vec!["shirt1"]),
        (format!("/apis/{group}/v1beta1/shirts?fieldSelector=spec.hue%3Dblue"), vec!["shirt1"]),
        (format!("/apis/{group}/v1/shirts?fieldSelector=spec.color%3Dgreen"), vec!["shirt2"]),
        (format!("/apis/{group}/v1beta1/shirts?fieldSelector=spec.hue%3Dgreen"), vec!["shirt2"]),
        (format!("{}?fieldSelector=hostPort%3Dhost1:80", host_ports("v1")), vec!["a"]),
        (format!("{}?fieldSelector=host%3Dhost1,port%3D80", host_ports("v2")), vec!["a"]),
        (format!("{}?fieldSelector=port%3D8080", host_ports("v2")), vec![]),
    ];
    for (path, expected) in rows {
        assert_eq!(names(&client.get_json(&path).await?), expected, "{path}");
    }
    let stored = client.get_json(&format!("{}/a", host_ports("v1"))).await?;
    assert_eq!((&stored["hostPort"], &stored["host"]), (&json!("host1:80"), &Value::Null));
    Ok(())
}

#[tokio::test]
async fn kubectl_lists_and_follows() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let client = control_plane.client();
    let namespace = objects::create_namespace(&client).await?;
    let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    assert!(kubectl.succeed(&["version"]).await?.contains(&format!("Server Version: {KUBERNETES_VERSION}")));
    assert!(
        kubectl.succeed(&["version", "--client"]).await?.contains(&format!("Client Version: {KUBERNETES_VERSION}"))
    );

    let follow = kubectl.start(&["get", "configmaps", "-n", &namespace, "-w", "-o", "name"])?;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "first" } });
    objects::create(&client, &format!("/api/v1/namespaces/{namespace}/configmaps"), &map).await?;
    follow.line("the created map", SOON, |line| (line == "configmap/first").then_some(())).await?;
    let listed = kubectl.succeed(&["get", "configmaps", "-n", &namespace, "-o", "name"]).await?;
    assert_eq!(listed, "configmap/first\n");

    let failed = kubectl.run(&["get", "configmaps", "-n", &namespace, "absent"]).await?;
    assert_eq!(failed.exit_code, 1);
    assert!(failed.stderr.contains("NotFound"), "{}", failed.stderr);
    Ok(())
}

#[tokio::test]
async fn the_controller_manager_aggregates_cluster_roles() -> Result<()> {
    let settings = Settings { controller_manager: true, all_apis: true, ..Settings::default() };
    let control_plane = ControlPlane::start(settings).await?;
    let client = control_plane.client();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "shirt-reader", "labels": { "rbac.authorization.k8s.io/aggregate-to-view": "true" } },
        "rules": [{ "apiGroups": ["example.com"], "resources": ["shirts"], "verbs": ["list"] }],
    });
    objects::create(&client, roles, &role).await?;
    eventually("view includes the new rule", SOON, async || {
        let view = client.get_json(&format!("{roles}/view")).await?;
        let rules = view["rules"].as_array().context("no rules")?;
        ensure!(rules.iter().any(|rule| rule["apiGroups"] == json!(["example.com"])), "not yet");
        Ok(())
    })
    .await?;
    let groups = client.get_json("/apis").await?;
    let resource = groups["groups"].as_array().context("no groups")?;
    assert!(resource.iter().any(|group| group["name"] == "internal.apiserver.k8s.io"), "all APIs include alpha ones");
    Ok(())
}

#[tokio::test]
async fn an_apiserver_comes_back_at_its_address_with_its_data() -> Result<()> {
    let mut control_plane = ControlPlane::start(Settings::default()).await?;
    let client = control_plane.client();
    let namespace = objects::create_namespace(&client).await?;
    control_plane.stop_apiserver();
    client.get("/readyz").await.expect_err("no server listens");
    control_plane.start_apiserver().await?;
    client.get_json(&format!("/api/v1/namespaces/{namespace}")).await?;
    Ok(())
}

#[tokio::test]
async fn a_user_without_permissions_is_forbidden() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let (endpoint, kubeconfig) = control_plane.as_user("jane", None)?;
    let answer = endpoint.client().get("/api/v1/pods").await?;
    assert_eq!(answer.status.as_u16(), 403);
    assert!(answer.text().contains("User \\\"jane\\\" cannot list"), "{}", answer.text());

    let directory = RunDirectory::create("jane")?;
    let kubectl = Kubectl::with_kubeconfig(&directory.write("kubeconfig", kubeconfig.to_string())?)?;
    let whoami = kubectl.succeed(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).await?;
    assert_eq!(whoami, "jane");
    Ok(())
}

#[tokio::test]
async fn pods_can_be_created_without_a_controller_manager() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let namespace = objects::create_namespace(&client).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": { "nodeName": "node-1", "containers": [{ "name": "web", "image": "web:1" }] },
    });
    objects::create(&client, &format!("/api/v1/namespaces/{namespace}/pods"), &pod).await?;
    let selected = format!("/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1,metadata.namespace%3D{namespace}");
    assert_eq!(names(&client.get_json(&selected).await?), ["web"]);
    Ok(())
}

#[tokio::test]
async fn the_client_changes_nothing_on_the_way() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let plain = control_plane.client().get("/openapi/v2").await?;
    assert_eq!(plain.header("content-encoding"), None);
    let requested = Request::get("/openapi/v2").header("accept-encoding", "gzip");
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = control_plane.endpoint().clone().speaking(protocol).client();
        let compressed = client.send(requested.clone()).await?;
        assert_eq!(compressed.header("content-encoding"), Some("gzip"), "{protocol:?}");
        assert!(compressed.body.starts_with(&[0x1f, 0x8b]), "{protocol:?}: the body is not as it was sent");
        assert!(compressed.body.len() * 2 < plain.body.len(), "{protocol:?}");
    }
    Ok(())
}

#[tokio::test]
async fn openapi_protobuf_documents_are_read_as_go_clients_read_them() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let client = control_plane.client();
    let group = unique::group("documented");
    objects::create_definition(&client, &fixtures::shirts(&group, &fixtures::no_conversion())).await?;
    let path = format!("apis/{group}/v1");
    let paths = eventually("the document is announced", SOON, async || {
        let paths = client.get_json("/openapi/v3").await?;
        ensure!(paths["paths"][&path].is_object(), "not yet");
        Ok(paths)
    })
    .await?;
    let url = paths["paths"][&path]["serverRelativeURL"].as_str().context("no address")?.to_owned();
    let as_json = client.get_json(&url).await?;
    let accept = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    let protobuf = client.send(Request::get(&url).header("accept", accept)).await?.success()?;
    let decoded = openapi::decode(openapi::Form::V3, openapi::View::Document, &protobuf.body)?;
    let schema = |document: &Value| {
        let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
        schemas.into_iter().find_map(|(name, schema)| name.ends_with(".v1.Shirt").then_some(schema))
    };
    let (left, right) = (schema(&as_json).context("no schema")?, schema(&decoded).context("no decoded schema")?);
    compare::equal("JSON", &left, "protobuf", &right)?;
    assert_eq!(left["x-kubernetes-selectable-fields"][0], json!({ "fieldPath": "spec.color" }));

    let through_client_go = openapi::client_go_v3(control_plane.kubeconfig(), &path, openapi::View::Document)?;
    compare::equal("protobuf", &decoded, "client-go", &through_client_go)?;
    let message = openapi::client_go_v2(control_plane.kubeconfig(), openapi::View::Message)?;
    assert!(message["definitions"]["additionalProperties"].is_array(), "a message, not a document");
    let document = openapi::client_go_v2(control_plane.kubeconfig(), openapi::View::Document)?;
    assert_eq!(document["swagger"], "2.0");
    openapi::decode(openapi::Form::V2, openapi::View::Document, b"\xff\xff").expect_err("not protobuf");
    Ok(())
}

#[tokio::test]
async fn a_process_says_how_it_ended_and_shows_its_last_words() -> Result<()> {
    let directory = RunDirectory::create("process")?;
    let shell = |script: &str| Invocation::new("/bin/sh".into()).arguments(["-c", script]);
    let failing = Process::start("failing", &shell("echo out; echo words >&2; exit 3"), directory.path())?;
    assert_eq!(failing.ended(SOON).await?, 3);
    let message = failing.ensure_running().expect_err("it has ended").to_string();
    assert!(message.contains("exit code 3") && message.contains("words"), "{message}");
    let never = failing.line("a line that never comes", SOON, |line| (line == "never").then_some(())).await;
    assert!(never.expect_err("it has ended").to_string().contains("exit code 3"));

    let polite = shell("tail -f /dev/null & trap 'kill $!; echo bye; exit 7' TERM; echo ready; wait");
    let polite = Process::start("polite", &polite, directory.path())?;
    polite.line("it is ready", SOON, |line| (line == "ready").then_some(())).await?;
    polite.ensure_running()?;
    polite.signal("TERM")?;
    assert_eq!(polite.ended(SOON).await?, 7);
    assert_eq!(polite.stdout()?, "ready\nbye\n");

    let absent = Invocation::new("/nowhere/program".into());
    let error = Process::start("absent", &absent, directory.path()).expect_err("there is no such program");
    assert!(error.to_string().contains("/nowhere/program"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_process_ends_when_its_owner_is_gone() -> Result<()> {
    let directory = RunDirectory::create("orphan")?;
    let script = Invocation::new("/bin/sh".into()).arguments(["-c", "echo alive; exec tail -f /dev/null"]);
    let process = Process::start("orphan", &script, directory.path())?;
    process.line("it runs", SOON, |line| (line == "alive").then_some(())).await?;
    let id = process.id();
    process.abandon();
    eventually("the watcher kills it", SOON, async || {
        // A killed child of ours stays as a zombie (state Z) until its parent waits for it.
        let output = std::process::Command::new("ps").args(["-o", "stat=", "-p", &id.to_string()]).output()?;
        let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(state.is_empty() || state.starts_with('Z'), "its state is {state}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_run_directory_goes_with_its_owner() -> Result<()> {
    let directory = RunDirectory::create("gone")?;
    let file = directory.write("file", "content")?;
    let other = RunDirectory::create("other")?;
    assert!(file.exists(), "creating another directory must not sweep one in use");
    drop(directory);
    assert!(!file.exists());
    assert!(other.path().exists());
    Ok(())
}

#[tokio::test]
async fn a_missed_deadline_says_what_was_awaited_and_why() {
    let start = Instant::now();
    let outcome: Result<()> =
        eventually("the moon is full", Duration::from_millis(100), async || Err(anyhow::anyhow!("it is half"))).await;
    let text = format!("{:#}", outcome.expect_err("it never is"));
    assert!(text.contains("the moon is full: not within 100ms") && text.contains("it is half"), "{text}");
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[test]
fn differences_name_their_place() {
    let rows = [
        (json!({ "a": [1, { "b": "x" }] }), json!({ "a": [1, { "b": "x" }] }), vec![]),
        (json!({ "a": 1, "b": 2 }), json!({ "b": 2, "a": 1 }), vec![]),
        (json!({ "a": [1, { "b": "x" }] }), json!({ "a": [1, { "b": "y" }] }), vec![r#".a[1].b: "x" <> "y""#]),
        (json!({ "a": [1] }), json!({ "a": [1, 2] }), vec![".a[1]: (absent) <> 2"]),
        (json!({ "a/b.c": 1 }), json!({}), vec![r#"["a/b.c"]: 1 <> (absent)"#]),
        (json!({}), json!({ "a": null }), vec![".a: (absent) <> null"]),
        (json!(1), json!(1.0), vec![".: 1 <> 1.0"]),
        (json!([2, 1]), json!([1, 2]), vec!["[0]: 2 <> 1", "[1]: 1 <> 2"]),
    ];
    for (left, right, expected) in rows {
        let found: Vec<String> = compare::differences(&left, &right).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{left} and {right}");
    }
}

#[test]
fn the_address_is_read_from_the_line_that_fieldcache_prints() {
    let rows = [
        ("serving manifests/samples (2 resources) at http://127.0.0.1:8181", Some("http://127.0.0.1:8181")),
        ("serving 3 resources at http://127.0.0.1:41233/", Some("http://127.0.0.1:41233")),
        ("fieldcache 0.1.0 serving https://127.0.0.1:6443 at http://127.0.0.1:81", Some("http://127.0.0.1:81")),
        ("fieldcache 0.1.0 serving http://127.0.0.1:6443 at http://127.0.0.1:82", Some("http://127.0.0.1:82")),
        ("fieldcache 0.1.0 serving http://127.0.0.1:6443 at https://127.0.0.1:83 (x)", Some("https://127.0.0.1:83")),
        ("try curl http://127.0.0.1:8181/apis", None),
        ("serving nothing", None),
    ];
    for (line, expected) in rows {
        assert_eq!(fieldcache::address(line).as_deref(), expected, "{line}");
    }
}

#[test]
fn an_old_go_is_refused() {
    let rows = [
        ("go1.26.8", true),
        ("go1.26", true),
        ("go1.27rc1", true),
        ("go2.0", true),
        ("go1.25.9", false),
        ("go1.4", false),
        ("", false),
        ("devel", false),
    ];
    for (version, expected) in rows {
        assert_eq!(go_is_new_enough(version), expected, "{version}");
    }
}

fn shirt(group: &str, version: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("{group}/{version}"), "kind": "Shirt", "metadata": { "name": name }, "spec": spec })
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}
