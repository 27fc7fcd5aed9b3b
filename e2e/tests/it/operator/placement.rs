//! `placementreviews` of the operator, queried with kubectl by people with different permissions, and
//! `fieldcache place` against the same cluster. The Pod that is reviewed is one that kube-apiserver has admitted.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Request};
use e2e::kubectl::{Finished, Kubectl};
use e2e::objects;
use e2e::shell::Shell;
use http::Method;
use serde_json::{Value, json};

use super::{SOON, Stage, manifests, ready};

const REVIEWS: &str = "/apis/view.fieldcache.dev/v1alpha1/placementreviews";
const MESSAGE: &str =
    "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s).";

fn review(spec: &Value) -> Value {
    json!({ "apiVersion": "view.fieldcache.dev/v1alpha1", "kind": "PlacementReview", "spec": spec })
}

/// Two nodes, the one that would do tainted, and a Pod that is pending.
async fn fill(stage: &Stage) -> Result<()> {
    let client = stage.control_plane.client();
    for (name, labels) in [("one", json!({ "disktype": "ssd" })), ("two", json!({ "disktype": "hdd" }))] {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels } });
        objects::create(&client, "/api/v1/nodes", &node).await?;
        // A new Node is born tainted, and nothing here says that it is ready.
        let taints = if name == "one" { json!([{ "key": "dedicated", "effect": "NoSchedule" }]) } else { json!(null) };
        let path = format!("/api/v1/nodes/{name}");
        objects::merge(&client, &path, &json!({ "spec": { "taints": taints } })).await?;
    }
    // No kubelet is there, and sooner or later a controller says so.
    let tolerated = ["unreachable", "not-ready"];
    let tolerations = tolerated.map(|key| json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists" }));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "pending" },
        "spec": {
            "nodeSelector": { "disktype": "ssd" }, "schedulerName": "nobody", "tolerations": tolerations,
            "containers": containers(),
        },
    });
    objects::create(&client, "/api/v1/namespaces/team-a/pods", &pod).await?;
    Ok(())
}

/// kubectl of a user with a certificate, against the operator.
fn user(stage: &Stage, operator: &Fieldcache, name: &str) -> Result<Kubectl> {
    let identity = stage.control_plane.authority().client(name, None)?;
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt")).context("the operator's authority")?;
    let document = e2e::control_plane::kubeconfig(operator.address(), Some(&authority), Some(&identity));
    Kubectl::with_kubeconfig(&stage.folder.write(&format!("{name}-at-the-operator"), document.to_string())?)
}

async fn create(stage: &Stage, kubectl: &Kubectl, spec: &Value) -> Result<Finished> {
    create_with(stage, kubectl, spec, &[]).await
}

async fn create_with(stage: &Stage, kubectl: &Kubectl, spec: &Value, options: &[&str]) -> Result<Finished> {
    let file = stage.folder.write("review.json", review(spec).to_string())?.display().to_string();
    kubectl.run(&[&["create", "-f", &file, "-o", "json"], options].concat()).await
}

fn containers() -> Value {
    json!([{ "name": "main", "image": "registry.example.com/main" }])
}

async fn wait_for_stores(stage: &Stage) -> Result<()> {
    let caches = ["fieldcache/nodes", "fieldcache/pods", "fieldcache/namespaces"];
    let wait = [&["wait", "--for=condition=Ready", "--timeout=180s"][..], &caches].concat();
    stage.kubectl.succeed(&wait).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn users_that_may_list_nodes_and_pods_get_a_placement_and_others_the_text_of_the_event() -> Result<()> {
    let stage = Stage::start().await?;
    fill(&stage).await?;
    let operator = stage.operator("one").await?;
    let administrator = stage.administrator(&operator)?;
    ready(&operator, &administrator).await?;

    // Before anything is kept: what is missing, and what to do.
    let requested = json!({ "podRef": { "namespace": "team-a", "name": "pending" } });
    let answer = administrator.send(Request::new(Method::POST, REVIEWS).json(&review(&requested))).await?;
    ensure!(
        answer.status == 503 && answer.text().contains("nodes are not cached here: create a FieldCache named nodes"),
        "{answer:?}"
    );
    let shell = Shell::with_kubeconfig(&json!({ "apiVersion": "v1", "kind": "Config" }))?;
    let root = place(&stage, &operator, "root", Some("system:masters"))?;
    let refused = "returned 503 for /apis/view.fieldcache.dev/v1alpha1/placementreviews: placement needs ";
    let missing = "nodes are not cached here: create a FieldCache named nodes";
    shell.fail(&format!("{root} pod/pending"), 2, &[refused, missing]).await?;
    stage.apply("placement/field-caches.yaml").await?;
    wait_for_stores(&stage).await?;

    let role = "create clusterrole lists --verb=list --resource=nodes,pods";
    let binding = "create clusterrolebinding lists --clusterrole=lists --user=alice";
    let get = "create role gets -n team-a --verb=get --resource=pods";
    let gets = "create rolebinding gets -n team-a --role=gets --user=bob";
    for command in [role, binding, get, gets] {
        stage.kubectl.succeed(&command.split(' ').collect::<Vec<_>>()).await?;
    }
    let alice = user(&stage, &operator, "alice")?;
    // No user may create reviews before one is bound to the role.
    let refused = create(&stage, &alice, &requested).await?;
    let words = "User \"alice\" cannot create resource \"placementreviews\" in API group \"view.fieldcache.dev\"";
    ensure!(refused.exit_code != 0 && refused.stderr.contains(words), "{refused:?}");
    stage.apply("components/placement/cluster-role-binding.yaml").await?;
    let reported = eventually("alice is answered", SOON, async || {
        let ran = create(&stage, &alice, &requested).await?;
        ensure!(ran.exit_code == 0, "{ran:?}");
        Ok(serde_json::from_str::<Value>(&ran.stdout)?)
    })
    .await
    .with_context(|| operator.process().tail())?;
    let status = &reported["status"];
    ensure!(status["message"] == MESSAGE && status["total"] == 2 && status["feasible"] == 0, "{status}");
    ensure!(status["nodes"][0]["rejections"][0]["taint"] == "dedicated:NoSchedule", "{status}");
    ensure!(status["ageSeconds"].as_u64().is_some_and(|age| age < 90), "{status}");
    let versions = &status["resourceVersions"];
    ensure!(versions["pods"].as_str().is_some_and(|version| version.parse::<u64>().is_ok()), "{versions}");

    // A manifest, as YAML, with a premise; and what an API server would refuse.
    let toleration = json!({ "operator": "Exists" });
    let pod = json!({ "metadata": { "name": "new" }, "spec": { "nodeSelector": { "disktype": "ssd" }, "tolerations": [toleration], "containers": containers() } });
    let spec = json!({ "pod": pod, "whatIf": { "labels": [{ "node": "two", "key": "disktype", "value": "ssd" }] } });
    let found: Value = serde_json::from_str(&create(&stage, &alice, &spec).await?.stdout)?;
    ensure!(found["status"]["feasible"] == 2, "{found}");
    let bad = json!({ "pod": { "spec": { "tolerations": [{ "operator": "Like", "key": "a" }], "containers": containers() } } });
    let ran = create(&stage, &alice, &bad).await?;
    ensure!(ran.stderr.contains("spec.pod.spec.tolerations[0].operator: Unsupported value: \"Like\""), "{ran:?}");
    let ran = create(&stage, &alice, &json!({ "pods": {} })).await?;
    ensure!(ran.stderr.contains("unknown field \"spec.pods\""), "{ran:?}");
    misspelt(&stage, &alice, &administrator).await?;
    // Without discovery too.
    let raw = stage.folder.write("raw.json", review(&requested).to_string())?.display().to_string();
    let ran = alice.run(&["create", "--raw", REVIEWS, "-f", &raw]).await?;
    ensure!(ran.exit_code == 0 && ran.stdout.contains(MESSAGE), "{ran:?}");

    // A user who may only get the Pod sees the event's words, and nothing else.
    let bob = user(&stage, &operator, "bob")?;
    let reported: Value = serde_json::from_str(&create(&stage, &bob, &requested).await?.stdout)?;
    let members: Vec<&String> = reported["status"].as_object().context("a status")?.keys().collect();
    ensure!(reported["status"]["message"] == MESSAGE && members == ["message", "notEvaluated"], "{reported}");
    let premised =
        json!({ "podRef": requested["podRef"], "whatIf": { "withoutPods": [{ "namespace": "a", "name": "b" }] } });
    let mine = json!({ "pod": pod });
    let elsewhere = json!({ "podRef": { "namespace": "team-b", "name": "pending" } });
    let nobody = user(&stage, &operator, "mallory")?;
    for (who, kubectl, spec) in
        [("bob", &bob, &premised), ("bob", &bob, &mine), ("bob", &bob, &elsewhere), ("mallory", &nobody, &requested)]
    {
        let ran = create(&stage, kubectl, spec).await?;
        let words = format!(
            "nodes is forbidden: User \"{who}\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
        );
        ensure!(ran.exit_code != 0 && ran.stderr.contains(&words), "{spec}: {ran:?}");
    }
    commands_of(&stage, &operator).await?;
    follows(&stage, &administrator, &requested).await?;
    commands(&stage).await
}

/// A command that reads from the operator as a user with a certificate.
fn place(stage: &Stage, operator: &Fieldcache, name: &str, group: Option<&str>) -> Result<String> {
    let identity = stage.control_plane.authority().client(name, group)?;
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt")).context("the operator's authority")?;
    let document = e2e::control_plane::kubeconfig(operator.address(), Some(&authority), Some(&identity));
    let file = stage.folder.write(&format!("{name}-who-places"), document.to_string())?;
    Ok(format!("fieldcache place -n team-a --server {} --kubeconfig {}", operator.address(), file.display()))
}

/// What the command prints for each of them when it reads from the operator.
async fn commands_of(stage: &Stage, operator: &Fieldcache) -> Result<()> {
    let shell = Shell::with_kubeconfig(&json!({ "apiVersion": "v1", "kind": "Config" }))?;
    let root = place(stage, operator, "root", Some("system:masters"))?;
    let [alice, bob, mallory] = ["alice", "bob", "mallory"].map(|name| place(stage, operator, name, None));
    let (alice, bob, mallory) = (alice?, bob?, mallory?);
    let whole = format!("Pod team-a/pending: {MESSAGE}\n\nNODE ");
    let event = format!("Pod team-a/pending: {MESSAGE}\n\nThis is the message of the Pod's FailedScheduling event.");
    let taint =
        "  dedicated:NoSchedule: not tolerated: the Pod cannot be placed here; if it runs here already, it stays";
    for (script, expected) in [
        (format!("{root} pod/pending"), &[&*whole, "taint dedicated:NoSchedule is not tolerated"][..]),
        (format!("{alice} pod/pending"), &[&*whole, "taint dedicated:NoSchedule is not tolerated"]),
        (format!("{root} pod/pending --node one"), &["Pod team-a/pending does not fit one.", "disktype=ssd", taint]),
        // She may list nodes and Pods, and get none of them.
        (
            format!("{alice} pod/pending --node one"),
            &[
                "Pod team-a/pending does not fit one.",
                "The labels and taints of the node are not known: ",
                "User \"alice\" cannot get",
            ],
        ),
        (format!("{bob} pod/pending"), &[&*event]),
        (format!("{bob} pod/pending -o wide"), &[&*event, "  NodePorts (host ports)\n"]),
    ] {
        let ran = shell.run(&script).await?;
        ensure!(ran.exit_code == 1 && ran.stderr.is_empty(), "{script}: {ran:?}");
        ensure!(expected.iter().all(|part| ran.stdout.contains(part)), "{script}: {}", ran.stdout);
    }
    let nodes = |who: &str| format!("nodes is forbidden: User \"{who}\" cannot list resource \"nodes\"");
    let (of_bob, of_mallory) = (nodes("bob"), nodes("mallory"));
    for (script, expected) in [
        (format!("{alice} pod/none"), &["pods \"none\" not found in namespace \"team-a\""][..]),
        (format!("{alice} pod/pending --node nine"), &["there is no node \"nine\": the nodes are one, two"]),
        (format!("{bob} pod/pending --node one"), &[&*of_bob, "omit --node, --taint, --label and --without-pod"]),
        (format!("{bob} pod/none"), &["pods \"none\" not found in namespace \"team-a\""]),
        (format!("{mallory} pod/pending"), &[&*of_mallory, "; grant list on nodes and pods, or get on the Pod"]),
    ] {
        shell.fail(&script, 2, expected).await?;
    }
    Ok(())
}

/// Fields that a Pod does not have: refused, warned of or ignored, as kubectl requests; and what kube-apiserver says itself.
async fn misspelt(stage: &Stage, alice: &Kubectl, administrator: &Client) -> Result<()> {
    let spec = json!({ "pod": { "spec": { "nodeSelectr": { "disktype": "ssd" }, "containers": containers() } } });
    let unknown = "unknown field \"spec.pod.spec.nodeSelectr\"";
    for (option, code, reported) in [
        ("--validate=true", 1, format!("strict decoding error: {unknown}")),
        ("--validate=strict", 1, format!("strict decoding error: {unknown}")),
        ("--validate=warn", 0, format!("Warning: {unknown}")),
        ("--validate=ignore", 0, String::new()),
    ] {
        let ran = create_with(stage, alice, &spec, &[option]).await?;
        ensure!(ran.exit_code == code && ran.stderr.contains(&reported), "{option}: {ran:?}");
        ensure!(ran.stderr.contains(unknown) != reported.is_empty(), "{option}: {ran:?}");
        if code == 0 {
            let answered: Value = serde_json::from_str(&ran.stdout)?;
            let is_warned = answered["status"]["warnings"] == json!(["unknown field \"spec.nodeSelectr\""]);
            ensure!(is_warned != reported.is_empty(), "{option}: {answered}");
        }
    }
    let ran = create(stage, alice, &spec).await?;
    ensure!(ran.exit_code == 1 && ran.stderr.contains(unknown), "kubectl requests strict validation: {ran:?}");
    let none = json!({ "pod": { "spec": { "contaners": containers() } } });
    let ran = create_with(stage, alice, &none, &["--validate=warn"]).await?;
    let reported = ["Warning: unknown field \"spec.pod.spec.contaners\"", "spec.pod.spec.containers: Required value"];
    ensure!(ran.exit_code == 1 && reported.iter().all(|reported| ran.stderr.contains(reported)), "{ran:?}");

    // The same Pods and directives at kube-apiserver, and the same responses except for the place of the Pod.
    let of_cluster = stage.control_plane.client();
    for spec in [&spec, &none] {
        for directive in ["", "Strict", "Warn", "Ignore", "strict"] {
            let mut pod = spec["pod"].clone();
            pod["metadata"] = json!({ "name": "misspelt" });
            let path = format!("/api/v1/namespaces/team-a/pods?dryRun=All&fieldValidation={directive}");
            let theirs = of_cluster.send(Request::new(Method::POST, path).json(&pod)).await?;
            let path = format!("{REVIEWS}?fieldValidation={directive}");
            let ours =
                administrator.send(Request::new(Method::POST, path).json(&review(&json!({ "pod": pod })))).await?;
            ensure!(ours.status == theirs.status, "{directive}: {ours:?} and {theirs:?}");
            let warnings = |answer: &e2e::http::Answer| {
                let values = answer.headers.get_all("warning").iter();
                values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>()
            };
            let within = |text: String| text.replace("\"spec.", "\"spec.pod.spec.");
            let expected: Vec<String> = warnings(&theirs).into_iter().map(within).collect();
            ensure!(warnings(&ours) == expected, "{directive}: {:?} and {expected:?}", warnings(&ours));
            let (ours, theirs) = (ours.json()?, theirs.json()?);
            if directive == "strict" {
                ensure!(ours == theirs, "{ours} and {theirs}");
            }
            let causes = |answer: &Value, start: &str| {
                let causes = answer["details"]["causes"].as_array().into_iter().flatten();
                let field = |cause: &Value| cause["field"].as_str().unwrap_or_default().replacen(start, "spec.", 1);
                causes.map(|cause| (field(cause), cause["message"].clone())).collect::<Vec<_>>()
            };
            ensure!(causes(&ours, "spec.pod.spec.") == causes(&theirs, "spec."), "{ours} and {theirs}");
            let words = |answer: &Value| {
                let message = answer["message"].as_str().unwrap_or_default();
                message.split_once("strict decoding error: ").map(|(_, words)| words.replace("spec.pod.", ""))
            };
            ensure!(words(&ours) == words(&theirs), "{ours} and {theirs}");
        }
    }
    Ok(())
}

/// What changes in the cluster changes the answer.
async fn follows(stage: &Stage, administrator: &Client, requested: &Value) -> Result<()> {
    let request = || Request::new(Method::POST, REVIEWS).json(&review(requested));
    stage.kubectl.succeed(&["taint", "nodes", "one", "dedicated-"]).await?;
    eventually("the taint is gone", SOON, async || {
        let status = administrator.send(request()).await?.json()?["status"].clone();
        ensure!(status["feasible"] == 1 && status["nodes"][0]["name"] == "one", "{status}");
        Ok(())
    })
    .await?;
    stage.kubectl.succeed(&["cordon", "one"]).await?;
    eventually("it is cordoned", SOON, async || {
        let status = administrator.send(request()).await?.json()?["status"].clone();
        let nodes = status["nodes"].as_array().context("nodes")?;
        let one = nodes.iter().find(|node| node["name"] == "one").context("the node")?;
        let rejections = one["rejections"].as_array().into_iter().flatten();
        let reasons: Vec<&str> = rejections.filter_map(|one| one["reason"].as_str()).collect();
        // Cordoning taints too, when a controller gets to it.
        ensure!(status["feasible"] == 0 && reasons.contains(&"NodeUnschedulable"), "{status}");
        Ok(())
    })
    .await
}

/// The command against the cluster itself, and a local server of it.
async fn commands(stage: &Stage) -> Result<()> {
    let shell = Shell::with_kubeconfig(&stage.control_plane.kubeconfig_for(stage.control_plane.endpoint().base()))?;
    let ran = shell.run("fieldcache place pod/pending -n team-a").await?;
    ensure!(
        ran.exit_code == 1 && ran.stdout.contains("one    no") && ran.stdout.contains("the node is cordoned"),
        "{ran:?}"
    );
    let ran = shell.run("kubectl fieldcache place pod/pending -n team-a --label two:disktype=ssd -o json").await?;
    let found: Value = serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))?;
    ensure!(ran.exit_code == 0 && found["status"]["nodes"][0]["name"] == "two", "{found}");
    shell.fail("fieldcache place pod/none -n team-a", 2, &["pods \"none\" not found in namespace \"team-a\""]).await?;

    let local = Fieldcache::serve_cluster(stage.control_plane.kubeconfig(), &[]).await?;
    let kubectl = Kubectl::with_server(local.address())?;
    let requested = json!({ "podRef": { "namespace": "team-a", "name": "pending" } });
    let ran = create(stage, &kubectl, &requested).await?;
    let found: Value = serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))?;
    ensure!(found["status"]["total"] == 2, "{found}");
    let server = local.address();
    let ran = shell.run(&format!("fieldcache place pod/pending -n team-a --server {server}")).await?;
    ensure!(ran.exit_code == 1 && ran.stdout.contains("0/2 nodes are available"), "{ran:?}");

    let folder = std::path::Path::new(&manifests()).join("placement");
    let served = Box::pin(Fieldcache::serve_folder(&folder.join("disktype"))).await?;
    let kubectl = Kubectl::with_server(served.address())?;
    let file = folder.join("review.yaml").display().to_string();
    let found: Value = serde_json::from_str(&kubectl.succeed(&["create", "-f", &file, "-o", "json"]).await?)?;
    ensure!(found["status"]["feasible"] == 1, "{found}");
    Ok(())
}
