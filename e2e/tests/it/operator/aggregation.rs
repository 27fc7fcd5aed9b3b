//! Views through kube-apiserver: the APIService, what the aggregator takes of us, and what users have of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::certificates::Authority;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Endpoint, Next, Request};
use e2e::kubectl::Kubectl;
use e2e::run_directory::RunDirectory;
use e2e::shell::Shell;
use serde_json::{Value, json};

use super::consumers::{bound_token_for, cache, let_it_read, node, pod, proxy};
use super::rights::{grant, user};
use super::{NAMESPACE, SHIRTS, SOON, Stage, names, ready};
use crate::access::stage::flags;

const SERVICE: &str = "v1alpha1.view.fieldcache.dev";
const GROUP_VERSION: &str = "apis/view.fieldcache.dev/v1alpha1";

/// kube-apiserver ends requests that are not long-running after a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster whose kube-apiserver is an aggregator, with our APIService at an operator of this host, and the authority
/// that signs for front proxies.
pub(super) async fn stage(folder: &RunDirectory) -> Result<(Stage, Fieldcache, Authority)> {
    let authority = Authority::create("front-proxy-ca")?;
    let proxy = authority.client("front-proxy", None)?;
    let file = |name: &str, text: String| -> Result<String> { Ok(folder.write(name, text)?.display().to_string()) };
    let mut arguments = flags(&file("front-proxy-ca.crt", authority.certificate())?);
    arguments.push(format!("--proxy-client-cert-file={}", file("front-proxy.crt", proxy.certificate)?));
    arguments.push(format!("--proxy-client-key-file={}", file("front-proxy.key", proxy.key)?));
    let stage = Stage::start_with(arguments).await?;
    let own = ["--namespace", NAMESPACE, "--identity", "one", "--tls-name", "fieldcache.fieldcache-system.svc"];
    let kubeconfig = stage.kubeconfig().await?;
    let operator = Fieldcache::operator(&kubeconfig, stage.folder.path(), own.map(str::to_owned));
    let operator = Box::pin(operator).await?;
    ready(&operator, &stage.administrator(&operator)?).await?;

    // The Service of manifests/ has no endpoint here, so it points to this host. The authority is filled in, as the
    // component says.
    stage.kubectl.succeed(&["delete", "service", "fieldcache", "-n", NAMESPACE]).await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "fieldcache", "namespace": NAMESPACE },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    stage.apply_this("service.json", &service).await?;
    let port: u16 = operator.address().rsplit(':').next().context("a port")?.parse()?;
    let bundle = BASE64_STANDARD.encode(std::fs::read(stage.folder.path().join("ca.crt"))?);
    let patch = json!({ "spec": { "caBundle": bundle, "service": { "port": port } } }).to_string();
    stage.apply("components/apiservice/apiservice.yaml").await?;
    stage.apply("components/placement/cluster-role-binding.yaml").await?;
    stage.kubectl.succeed(&["patch", "apiservice", SERVICE, "--type=merge", "-p", &patch]).await?;
    let wait = ["wait", "--for=condition=Available", "--timeout=180s", "apiservice", SERVICE];
    stage.kubectl.succeed(&wait).await.with_context(|| operator.process().tail())?;
    Ok((stage, operator, authority))
}

#[tokio::test(flavor = "multi_thread")]
async fn people_reach_views_through_kube_apiserver() -> Result<()> {
    let folder = RunDirectory::create("aggregation")?;
    let (stage, operator, _) = stage(&folder).await?;
    let_it_read(&stage, &["pods"]).await?;
    stage.apply("walk-through/shirts-cache.yaml").await?;
    stage.apply_this("pods.json", &cache("pods")).await?;
    let view = |name: &str, spec: Value| json!({ "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": name }, "spec": spec });
    let blue = json!({ "key": "spec.color", "operator": "In", "values": ["blue"] });
    let shirts =
        json!({ "group": "stable.example.com", "resource": "shirts", "fieldSelector": { "matchExpressions": [blue] } });
    let own_node = json!({ "fields": [{ "key": "spec.nodeName", "value": "NodeName" }] });
    let pods =
        json!({ "resources": [{ "group": "", "resource": "pods" }], "authorization": "View", "consumer": own_node });
    stage.apply_this("blue.json", &view("blue", json!({ "resources": [shirts], "authorization": "View" }))).await?;
    stage.apply_this("node.json", &view("node", pods)).await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view", "--all"]).await;
    done.with_context(|| operator.process().tail())?;

    // What the aggregator has taken from us: our own group and version, and nothing of others.
    let kube = stage.control_plane.client();
    let list = kube.get_json("/apis/view.fieldcache.dev/v1alpha1").await?;
    ensure!(list["resources"][0]["name"] == "views/proxy", "{list}");
    // The aggregator requests a document that it did not get again after a minute.
    eventually("the documents of both", 3 * SOON, async || {
        let index = kube.get_json("/openapi/v3").await?;
        for key in [GROUP_VERSION, "apis/stable.example.com/v1", "apis/apps/v1", "api/v1"] {
            ensure!(index["paths"][key].is_object(), "{key}: {index}");
        }
        let own = kube.get_json(&format!("/openapi/v3/{GROUP_VERSION}")).await?;
        ensure!(own["paths"]["/apis/view.fieldcache.dev/v1alpha1/views/{name}/proxy"].is_object(), "{own}");
        let theirs = kube.get_json("/openapi/v3/apis/stable.example.com/v1").await?;
        let path = "/apis/stable.example.com/v1/namespaces/{namespace}/shirts";
        ensure!(theirs["paths"][path]["post"].is_object(), "kube-apiserver's own, with its writes");
        Ok(())
    })
    .await?;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    eventually("discovery says so", SOON, async || {
        let all = kube.send(Request::get("/apis").header("accept", accept)).await?.success()?.json()?;
        let groups = all["items"].as_array().context("groups")?;
        let own: Vec<&Value> =
            groups.iter().filter(|group| group["metadata"]["name"] == "view.fieldcache.dev").collect();
        ensure!(own.len() == 1 && own[0]["versions"][0]["freshness"] == "Current", "{own:?}");
        ensure!(own[0]["versions"][0]["resources"][0]["subresources"][0]["subresource"] == "proxy", "{own:?}");
        Ok(())
    })
    .await?;

    // A person, with the usual kubeconfig except for its server's path.
    let (endpoint, document) = stage.control_plane.as_user("alice", None)?;
    let mut document = document;
    document["clusters"][0]["cluster"]["server"] = format!("{}{}", endpoint.base(), proxy("blue")).into();
    let kubectl = Kubectl::with_kubeconfig(&folder.write("alice-kubeconfig", document.to_string())?)?;
    let get = ["get", "shirts", "-A", "-o", "name"];
    let outer = json!({ "apiGroups": ["view.fieldcache.dev"], "resources": ["views/proxy"], "resourceNames": ["blue"], "verbs": ["get"] });
    let inner =
        json!({ "apiGroups": ["fieldcache.dev"], "resources": ["views"], "resourceNames": ["blue"], "verbs": ["use"] });
    let alice = endpoint.client();
    let refused = alice.get(&format!("{}{SHIRTS}", proxy("blue"))).await?;
    ensure!(
        refused.status == 403 && refused.text().contains("views/proxy"),
        "kube-apiserver's own question: {refused:?}"
    );
    grant(&stage, "alice-outer", json!([outer]), user("alice")).await?;
    eventually("then ours", SOON, async || {
        let refused = alice.get(&format!("{}{SHIRTS}", proxy("blue"))).await?;
        ensure!(refused.status == 403 && refused.text().contains("cannot use the View"), "{refused:?}");
        Ok(())
    })
    .await?;
    grant(&stage, "alice-inner", json!([inner]), user("alice")).await?;
    let blue =
        "shirt.stable.example.com/example1\nshirt.stable.example.com/example2\nshirt.stable.example.com/example4\n";
    eventually("both rights", SOON, async || {
        let ran = kubectl.run(&get).await?;
        ensure!(ran.exit_code == 0 && ran.stdout == blue, "{}{}", ran.stdout, ran.stderr);
        Ok(())
    })
    .await?;
    let own = kubectl.succeed(&["api-resources", "-o", "name"]).await?;
    let mut own: Vec<&str> = own.lines().collect();
    own.sort_unstable();
    let expected = [
        "selfsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
        "shirts.stable.example.com",
    ];
    ensure!(own == expected, "a root of its own: {own:?}");
    let explained = kubectl.succeed(&["explain", "shirts.spec.color"]).await?;
    ensure!(explained.contains("FIELD: color"), "{explained}");
    let table = kubectl.succeed(&["get", "shirts", "-n", "team-a"]).await?;
    ensure!(table.starts_with("NAME") && table.contains("example1"), "{table}");

    // The command sends its request through kube-apiserver too, and receives what fieldcache says.
    let shell = Shell::with_kubeconfig(&document)?;
    let theirs = stage.control_plane.kubeconfig().display().to_string();
    let own = folder.path().join("alice-kubeconfig").display().to_string();
    let place = |kubeconfig: &str| {
        format!(
            "fieldcache place pod/none --server {} --kubeconfig {kubeconfig}",
            stage.control_plane.endpoint().base()
        )
    };
    shell
        .fail(&place(&theirs), 2, &["returned 503", "nodes are not cached here: create a FieldCache named nodes"])
        .await?;
    let refused = "User \"alice\" cannot list resource \"nodes\"";
    shell.fail(&place(&own), 2, &[refused, "; grant list on nodes and pods"]).await?;
    let view = format!("fieldcache place pod/none --server {}{} --kubeconfig {own}", endpoint.base(), proxy("blue"));
    shell.fail(&view, 2, &["is the URL of a View, which has no placement reviews"]).await?;

    // Impersonation is kube-apiserver's: any user who may is then alice.
    let whole = Kubectl::with_kubeconfig(stage.control_plane.kubeconfig())?;
    let raw = format!("{}{SHIRTS}", proxy("blue"));
    let seen: Value = serde_json::from_str(&whole.succeed(&["get", "--raw", &raw, "--as", "alice"]).await?)?;
    ensure!(names(&seen)?.len() == 3, "{seen}");
    let ran = whole.run(&["get", "--raw", &raw, "--as", "bob"]).await?;
    ensure!(ran.exit_code != 0 && ran.stderr.contains("bob"), "{}{}", ran.stdout, ran.stderr);

    // A percent-encoded name, a compressed answer, and a page.
    let encoded = format!("{}/apis/stable.example.com/v1/namespaces/team-a/shirts/example%31", proxy("blue"));
    ensure!(alice.get_json(&encoded).await?["metadata"]["name"] == "example1", "decoded once");
    let page = alice.get_json(&format!("{raw}?limit=1")).await?;
    let token = page["metadata"]["continue"].as_str().context("a token")?;
    let next = alice.get_json(&format!("{raw}?limit=1&continue={token}")).await?;
    ensure!(names(&next)? == ["team-a/example2"], "{next}");

    // A token's claims reach us through kube-apiserver as well.
    for name in ["n1", "n2"] {
        node(&stage, name).await?;
    }
    stage.kubectl.succeed(&["create", "serviceaccount", "agent", "-n", "team-a"]).await?;
    let uid = pod(&stage, "team-a", "a1", "n1", json!({})).await?;
    pod(&stage, "team-a", "a2", "n2", json!({})).await?;
    let token = bound_token_for(&stage, "team-a", "a1", &uid, None).await?;
    let group =
        json!({ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:team-a" });
    let rules = json!([
        { "apiGroups": ["view.fieldcache.dev"], "resources": ["views/proxy"], "verbs": ["get"] },
        { "apiGroups": ["fieldcache.dev"], "resources": ["views"], "verbs": ["use"] },
    ]);
    grant(&stage, "agents", rules, group).await?;
    let (nobody, _) = stage.control_plane.as_user("nobody", None)?;
    let agent = Endpoint::secure(nobody.base(), &stage.control_plane.authority().certificate(), None)?;
    let agent = agent.with_token(&token)?.client();
    eventually("the Pods of its node", SOON, async || {
        let list = agent.get_json(&format!("{}/api/v1/pods", proxy("node"))).await?;
        ensure!(names(&list)? == ["team-a/a1"], "{list}");
        Ok(())
    })
    .await?;

    // A watch lives longer than what kube-apiserver gives other requests.
    let version = alice.get_json(&raw).await?["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let mut watch = alice.watch(&format!("{raw}?watch=true&resourceVersion={version}")).await?;
    let longer = REQUEST_TIMEOUT + Duration::from_secs(8);
    ensure!(matches!(watch.next(longer).await?, Next::Nothing), "open, without events");
    let patch = r#"{"spec":{"color":"blue"}}"#;
    stage.kubectl.succeed(&["patch", "shirt", "example3", "-n", "team-a", "--type=merge", "-p", patch]).await?;
    let event = watch.event(SOON).await?;
    ensure!(event["type"] == "ADDED" && event["object"]["metadata"]["name"] == "example3", "{event}");

    // Other groups are as they were, and namespaces go.
    stage.kubectl.succeed(&["create", "namespace", "short-lived"]).await?;
    stage.kubectl.succeed(&["delete", "namespace", "short-lived", "--timeout=180s"]).await?;
    Ok(())
}
