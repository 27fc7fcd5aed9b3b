//! Dependents of an object beside a real kube-apiserver with RBAC: what users with different permissions see, cycles,
//! and an owner that is deleted. The objects are compared with lists of kube-apiserver.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::http::Client;
use e2e::kubectl::Kubectl;
use e2e::objects;
use e2e::shell::Shell;
use serde_json::{Value, json};

use super::access::stage::{GROUP, SOON, Stage};

const OWN: &str = "/apis/view.fieldcache.dev/v1alpha1";

/// The collections of the stage.
fn collections() -> [String; 3] {
    [format!("/apis/{GROUP}/v1/shirts"), format!("/apis/{GROUP}/v1/hostports"), "/api/v1/pods".to_owned()]
}

/// A reference to an object that kube-apiserver has returned.
fn reference(owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"],
        "controller": true,
    })
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Creates a HostPort with this owner.
async fn host_port(client: &Client, namespace: &str, name: &str, owner: Option<&Value>) -> Result<Value> {
    let references: Vec<Value> = owner.into_iter().map(reference).collect();
    let metadata = json!({ "name": name, "ownerReferences": references });
    let object =
        json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "HostPort", "metadata": metadata, "hostPort": "a:1" });
    objects::create(client, &format!("/apis/{GROUP}/v1/namespaces/{namespace}/hostports"), &object).await
}

/// Creates a Pod with this owner.
async fn pod(client: &Client, name: &str, owner: &Value) -> Result<Value> {
    let containers = json!([{ "name": "main", "image": "registry.example.com/main" }]);
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "ownerReferences": [reference(owner)] },
        "spec": { "serviceAccountName": "reader", "automountServiceAccountToken": false, "containers": containers },
    });
    objects::create(client, "/api/v1/namespaces/team/pods", &object).await
}

/// The names of the dependents, and the plural names of a member of the document.
fn names(document: &Value) -> BTreeSet<String> {
    let dependents = document["dependents"].as_array().into_iter().flatten();
    dependents.map(|dependent| format!("{}/{}", dependent["kind"], dependent["name"]).replace('"', "")).collect()
}

fn resources(document: &Value, member: &str) -> BTreeSet<String> {
    let listed = document[member].as_array().into_iter().flatten();
    listed.filter_map(|resource| resource["resource"].as_str()).map(str::to_owned).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The dependents of an object by lists of kube-apiserver.
async fn by_lists(client: &Client, owner: &str) -> Result<BTreeSet<String>> {
    let mut owners: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for path in collections() {
        let list = client.get_json(&path).await?;
        let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
        for object in list["items"].as_array().context("items")? {
            let name = format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
            for reference in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
                let owner = reference["uid"].as_str().unwrap_or_default().to_owned();
                owners.entry(owner).or_default().push((uid(object).to_owned(), name.clone()));
            }
        }
    }
    let (mut found, mut known, mut open) =
        (BTreeSet::new(), BTreeSet::from([owner.to_owned()]), vec![owner.to_owned()]);
    while let Some(owner) = open.pop() {
        for (uid, name) in owners.get(&owner).into_iter().flatten() {
            if known.insert(uid.clone()) {
                open.push(uid.clone());
                found.insert(name.clone());
            }
        }
    }
    Ok(found)
}

/// A client of the operator with the certificate of a user.
fn client(stage: &Stage, name: &str, group: Option<&str>) -> Result<Client> {
    let [_, own] = stage.sides(Some(&stage.user(name, group)?))?;
    Ok(own.client())
}

/// The options of a command or of kubectl that reads from the operator as this user.
fn options(stage: &Stage, name: &str, group: Option<&str>) -> Result<String> {
    let identity = stage.user(name, group)?;
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt")).context("the operator's authority")?;
    let document = e2e::control_plane::kubeconfig(stage.fieldcache.address(), Some(&authority), Some(&identity));
    let file = stage.folder.write(&format!("{name}-at-the-operator"), document.to_string())?;
    Ok(format!("--kubeconfig {}", file.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn users_see_the_dependents_that_they_may_list() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    let upstream = stage.control_plane.client();
    let shirt = upstream.get_json(&format!("/apis/{GROUP}/v1/shirts/one")).await?;
    let first = host_port(&upstream, "team", "first", Some(&shirt)).await?;
    host_port(&upstream, "other", "elsewhere", Some(&shirt)).await?;
    pod(&upstream, "main", &first).await?;
    let ring = host_port(&upstream, "team", "ring-a", None).await?;
    let other = host_port(&upstream, "team", "ring-b", Some(&ring)).await?;
    let closed = json!({ "metadata": { "ownerReferences": [reference(&other)] } });
    objects::merge(&upstream, &format!("/apis/{GROUP}/v1/namespaces/team/hostports/ring-a"), &closed).await?;

    let admin = client(&stage, "admin", Some("system:masters"))?;
    let (everywhere, in_team) =
        (format!("{OWN}/dependents/{}", uid(&shirt)), format!("{OWN}/namespaces/team/dependents/{}", uid(&shirt)));
    let all = set(&["HostPort/first", "HostPort/elsewhere", "Pod/main"]);
    let document = eventually("the operator has all objects", SOON, async || {
        let document = admin.get_json(&everywhere).await?;
        ensure!(names(&document) == all, "{document}");
        Ok(document)
    })
    .await
    .with_context(|| stage.fieldcache.process().tail())?;
    ensure!(by_lists(&upstream, uid(&shirt)).await? == all, "as lists of kube-apiserver have it");
    ensure!(resources(&document, "resources") == set(&["hostports", "pods", "shirts"]), "{document}");
    ensure!(
        document["dependents"].as_array().context("a list")?.iter().any(|dependent| {
            dependent["kind"] == "Pod"
                && dependent["status"]["phase"] == "Pending"
                && dependent["owners"] == json!([{ "uid": uid(&first), "controller": true }])
        }),
        "{document}"
    );
    let ring_of =
        async |object: &Value| admin.get_json(&format!("{OWN}/namespaces/team/dependents/{}", uid(object))).await;
    ensure!(names(&ring_of(&ring).await?) == set(&["HostPort/ring-b"]), "a cycle ends");
    ensure!(names(&ring_of(&other).await?) == set(&["HostPort/ring-a"]), "a cycle ends");

    // Nobody may get dependents before they are bound to the role.
    let (alice, erin) = (client(&stage, "alice", None)?, client(&stage, "erin", Some("team"))?);
    let refused = alice.get(&in_team).await?;
    let words = "User \\\"alice\\\" cannot get resource \\\"dependents\\\" in API group \\\"view.fieldcache.dev\\\"";
    ensure!(refused.status == 403 && refused.text().contains(words), "{refused:?}");
    let kubectl = Kubectl::with_kubeconfig(stage.control_plane.kubeconfig())?;
    let roles = super::commands::stage::repository("manifests/user-roles.yaml");
    kubectl.succeed(&["apply", "--server-side", "-f", &roles]).await?;
    let bind = "create clusterrolebinding dependents --clusterrole=fieldcache-dependents --user=alice --group=team";
    kubectl.succeed(&bind.split(' ').collect::<Vec<_>>()).await?;

    // Alice may list HostPorts in `team`, Erin may list shirts and Pods everywhere.
    for (who, client, path, found, refused) in [
        ("alice", &alice, &in_team, &["HostPort/first"][..], &["pods"][..]),
        ("alice", &alice, &everywhere, &[], &["hostports", "pods", "shirts"]),
        ("erin", &erin, &everywhere, &[], &["hostports"]),
        ("erin", &erin, &in_team, &[], &["hostports"]),
    ] {
        let document = eventually(who, SOON, async || client.get_json(path).await).await?;
        ensure!(names(&document) == set(found), "{who} {path}: {document}");
        ensure!(resources(&document, "notPermitted") == set(refused), "{who} {path}: {document}");
        ensure!(!document.to_string().contains("elsewhere"), "{who} {path}: {document}");
    }
    let of_first = format!("{OWN}/namespaces/team/dependents/{}", uid(&first));
    ensure!(names(&erin.get_json(&of_first).await?) == set(&["Pod/main"]), "a relation that Erin may follow");

    commands(&stage, &first, &shirt).await?;

    // No garbage collector runs, so that dependents stay.
    objects::delete(&upstream, &format!("/apis/{GROUP}/v1/shirts/one")).await?;
    eventually("the operator has seen the deletion", SOON, async || {
        let answer = admin.get(&format!("/apis/{GROUP}/v1/shirts/one")).await?;
        ensure!(answer.status == 404, "{answer:?}");
        Ok(())
    })
    .await?;
    ensure!(names(&admin.get_json(&everywhere).await?) == all, "the owner is deleted, its dependents are not");
    objects::delete(&upstream, &format!("/apis/{GROUP}/v1/namespaces/team/hostports/first")).await?;
    eventually("the relation through the deleted object is gone", SOON, async || {
        let document = admin.get_json(&everywhere).await?;
        ensure!(names(&document) == set(&["HostPort/elsewhere"]), "{document}");
        Ok(())
    })
    .await
}

/// `fieldcache tree` and an unmodified kubectl.
async fn commands(stage: &Stage, first: &Value, shirt: &Value) -> Result<()> {
    let shell = Shell::with_kubeconfig(&json!({ "apiVersion": "v1", "kind": "Config" }))?;
    let (admin, alice) = (options(stage, "admin", Some("system:masters"))?, options(stage, "alice", None)?);
    let tree = shell.succeed(&format!("fieldcache tree shirt/one {admin}")).await?;
    for part in
        ["\nother       ├─HostPort/elsewhere ", "\nteam        └─HostPort/first ", "\nteam          └─Pod/main "]
    {
        ensure!(tree.contains(part), "{part}: {tree}");
    }
    let named = shell.succeed(&format!("fieldcache tree hostports.{GROUP} first -n team -o name {admin}")).await?;
    ensure!(named == format!("hostport.{GROUP}/first\npod/main\n"), "{named}");
    let none = shell.run(&format!("fieldcache tree pod/main -n team {admin}")).await?;
    ensure!(none.exit_code == 1 && none.stderr.contains("note: no dependents were found"), "{none:?}");
    let few = shell.run(&format!("fieldcache tree hostport/first -n team {alice}")).await?;
    let note = "note: you may not list these resources in all of the searched namespaces, so dependents of these kinds can be missing: pods";
    ensure!(few.exit_code == 1 && few.stderr.contains(note), "{few:?}");
    // A kube-apiserver has no dependents.
    let upstream = format!("--kubeconfig {}", stage.control_plane.kubeconfig().display());
    shell.fail(&format!("fieldcache tree shirt/one {upstream}"), 2, &["is not a fieldcache server"]).await?;
    shell.fail(&format!("fieldcache tree shirt/three {admin}"), 2, &["has no shirts.", "\"three\""]).await?;
    let dave = options(stage, "dave", None)?;
    let remedy = "an administrator can bind the ClusterRole fieldcache-dependents to you";
    shell
        .fail(&format!("fieldcache tree shirt/one {dave}"), 2, &["does not permit you to get dependents", remedy])
        .await?;

    let yaml = shell.succeed(&format!("kubectl {admin} -n team get dependents {} -o yaml", uid(first))).await?;
    ensure!(yaml.contains("kind: Dependents") && yaml.contains("name: main"), "{yaml}");
    let raw =
        shell.succeed(&format!("kubectl {admin} get --raw {OWN}/dependents/{}?recursive=false", uid(shirt))).await?;
    ensure!(names(&serde_json::from_str(&raw)?) == set(&["HostPort/first", "HostPort/elsewhere"]), "{raw}");
    Ok(())
}
