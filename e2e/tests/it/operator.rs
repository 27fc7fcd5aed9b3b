//! `fieldcache operator` as manifests/ install it: with its ServiceAccount's token and these rights alone, beside a kube-apiserver with
//! RBAC on. A FieldCache, its status, its fields in selectors and in SelectableResources, and the life of a definition.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::kubectl::Kubectl;
use e2e::objects;
use e2e::run_directory::RunDirectory;
use serde_json::{Value, json};

/// What each step may take: CRDs and discovery settle in kube-apiserver first.
const SOON: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "fieldcache-system";
const SHIRTS: &str = "/apis/stable.example.com/v1/shirts";

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path).display().to_string()
}

async fn kubectl_does(kubectl: &Kubectl, arguments: &[&str]) -> Result<String> {
    let finished = kubectl.run(arguments).await?;
    ensure!(finished.exit_code == 0, "kubectl {}: {}{}", arguments.join(" "), finished.stdout, finished.stderr);
    Ok(finished.stdout)
}

/// A kubeconfig with the token of the ServiceAccount that the manifests make.
async fn token_kubeconfig(control_plane: &ControlPlane) -> Result<Value> {
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/fieldcache/token");
    let answer = objects::create(&control_plane.client(), &path, &request).await?;
    let token = answer["status"]["token"].as_str().context("a token")?;
    let mut kubeconfig = control_plane.kubeconfig_for(control_plane.endpoint().base());
    kubeconfig["users"][0]["user"] = json!({ "token": token });
    Ok(kubeconfig)
}

async fn names(client: &Client, query: &str) -> Result<Vec<String>> {
    let list = client.get_json(&format!("{SHIRTS}{query}")).await?;
    let items = list["items"].as_array().context("a list has items")?;
    Ok(items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_cache_is_kept_told_of_and_served_by_an_operator_with_the_rights_of_the_manifests() -> Result<()> {
    let control_plane = ControlPlane::start(Settings { controller_manager: true, ..Settings::default() }).await?;
    let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    let folder = RunDirectory::create("operator")?;
    let manifests = repository("manifests");
    // Server-side: every kind is known and every field is right. The definitions first, for the objects of their kinds.
    kubectl_does(&kubectl, &["apply", "--server-side", "-k", &manifests]).await?;
    for file in ["samples/shirts-crd.yaml", "walk-through/reader.yaml"] {
        kubectl_does(&kubectl, &["apply", "-f", &format!("{manifests}/{file}")]).await?;
    }
    for namespace in ["team-a", "team-b"] {
        kubectl_does(&kubectl, &["create", "namespace", namespace]).await?;
    }
    let crd = "crd/shirts.stable.example.com";
    kubectl_does(&kubectl, &["wait", "--for=condition=Established", "--timeout=60s", crd]).await?;
    kubectl_does(&kubectl, &["apply", "-f", &format!("{manifests}/samples/shirts.yaml")]).await?;

    let kubeconfig = folder.write("kubeconfig", token_kubeconfig(&control_plane).await?.to_string())?;
    let arguments = ["--namespace", NAMESPACE, "--identity", "one"].map(str::to_owned);
    let operator = Box::pin(Fieldcache::operator(&kubeconfig, folder.path(), arguments)).await?;
    let somebody = control_plane.authority().client("somebody", Some("system:masters"))?;
    let client = operator.as_client(folder.path(), &somebody)?.client();
    eventually("the operator is ready", SOON, async || {
        let answer = client.get("/readyz").await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    ensure!(client.get(SHIRTS).await?.status == 404, "nothing is served that no FieldCache names");

    // A FieldCache with a field of its own, many-valued.
    kubectl_does(&kubectl, &["apply", "-f", &format!("{manifests}/walk-through/shirts-cache.yaml")]).await?;
    let cache = "fieldcache/shirts.stable.example.com";
    let ready = kubectl_does(&kubectl, &["wait", "--for=condition=Ready", "--timeout=60s", cache]).await;
    ready.with_context(|| operator.process().tail())?;
    let all = names(&control_plane.client(), "").await?;
    ensure!(names(&client, "").await? == all && !all.is_empty(), "{all:?}");
    let fields = r#"{"spec":{"selectableFields":[{"name":"tag","jsonPath":"$.metadata.labels.*"},{"name":"odd","jsonPath":"$.spec.none"}]}}"#;
    kubectl_does(&kubectl, &["patch", "--type=merge", "-p", fields, cache]).await?;
    let objects = control_plane.client().get_json(SHIRTS).await?;
    let labelled: Vec<&Value> = objects["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|item| item["metadata"]["labels"].as_object().is_some_and(|labels| !labels.is_empty()))
        .collect();
    let tag = labelled.first().and_then(|item| item["metadata"]["labels"].as_object()?.values().next()?.as_str());
    let tag = tag.context("a shirt with a label")?;
    let tagged: Vec<&str> = labelled
        .iter()
        .filter(|item| {
            item["metadata"]["labels"].as_object().is_some_and(|labels| labels.values().any(|held| held == tag))
        })
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    eventually("the new field selects", SOON, async || {
        let found = names(&client, &format!("?fieldSelector=tag%3D{tag}")).await?;
        ensure!(found == tagged, "{found:?} instead of {tagged:?}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    eventually("what is wrong is told, where and why", SOON, async || {
        let held: Value = serde_json::from_str(&kubectl_does(&kubectl, &["get", cache, "-o", "json"]).await?)?;
        let conditions = held["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted").context("Accepted")?;
        let message = accepted["message"].as_str().unwrap_or_default();
        ensure!(accepted["status"] == "False" && accepted["reason"] == "PathNotFound", "{accepted}");
        ensure!(message.contains("spec.selectableFields[1]"), "{message}");
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").context("Ready")?;
        ensure!(ready["status"] == "True", "the rest is served: {ready}");
        Ok(())
    })
    .await?;

    // What people and documents are told.
    eventually("the SelectableResource has all fields", SOON, async || {
        let path = "/apis/fieldcache.dev/v1alpha1/selectableresources/shirts.stable.example.com";
        let held = control_plane.client().get_json(path).await?;
        let paths = json!(["spec.color", "spec.size", "spec.quantity", "spec.branded", "tag"]);
        ensure!(held["status"]["fieldPaths"] == paths && held["status"]["cached"] == true, "{held}");
        ensure!(held["metadata"]["ownerReferences"][0]["name"] == "shirts.stable.example.com", "{held}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    let document = client.get_json("/openapi/v3/apis/stable.example.com/v1").await?;
    let schemas = &document["components"]["schemas"];
    let published = &schemas["com.example.stable.v1.Shirt"]["x-kubernetes-selectable-fields"];
    let last = published.as_array().and_then(|fields| fields.last()).context("published fields")?;
    ensure!(last["fieldPath"] == "tag", "{published}");

    // A definition that goes takes everything with it.
    kubectl_does(&kubectl, &["delete", crd]).await?;
    eventually("nothing of the definition is left", SOON, async || {
        let path = "/apis/fieldcache.dev/v1alpha1/selectableresources/shirts.stable.example.com";
        let answer = control_plane.client().get(path).await?;
        ensure!(answer.status == 404, "{answer:?}");
        ensure!(client.get(SHIRTS).await?.status == 404, "it is served still");
        let held: Value = serde_json::from_str(&kubectl_does(&kubectl, &["get", cache, "-o", "json"]).await?)?;
        let conditions = held["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted").context("Accepted")?;
        ensure!(accepted["reason"] == "ResourceNotFound", "{accepted}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())
}
