//! manifests/ as a reviewer and as a cluster read them: labels, permissions, selectors and drain. Then they are applied
//! beside a kube-apiserver with RBAC, Pod Security and strict validation. [`super::operator`] tests that an operator
//! works with these permissions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache;
use e2e::http::{Client, Request};
use e2e::kubectl::Kubectl;
use e2e::objects;
use e2e::run_directory::RunDirectory;
use http::Method;
use serde_json::{Value, json};
use tokio::process::Command;

const SOON: Duration = Duration::from_secs(60);
pub(crate) const NAMESPACE: &str = "fieldcache-system";
const COMPONENTS: [&str; 4] = ["service-monitor", "dashboard", "apiservice", "placement"];

/// The image that manifests/ name until a user names one. References of images have no capital letters except in the
/// name of a registry. So kubelets reject it (InvalidImageName) instead of pulling another owner's image.
const PLACEHOLDER: &str = "SET-YOUR-IMAGE";

const IMAGE: &str = "registry.example.com/fieldcache";

/// What precedes the documents in install.yaml.
const HEAD: &str = "# Made by `make golden` out of manifests/ (kubectl kustomize manifests); do not edit.\n";

/// How long answers in progress may take after the end was requested: `GRACE` of src/transport/listen.rs.
const GRACE_SECONDS: i64 = 10;

/// The path of something in the repository, without links in it.
pub(crate) fn repository(path: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    path.canonicalize().with_context(|| path.display().to_string())
}

/// kubectl for what needs no server.
fn alone() -> Result<Kubectl> {
    Kubectl::with_server("http://127.0.0.1:1")
}

async fn kustomize(folder: &Path) -> Result<String> {
    alone()?.succeed(&["kustomize", &folder.display().to_string()]).await
}

fn documents(yaml: &str) -> Result<Vec<Value>> {
    yaml.split("\n---\n").map(|text| serde_saphyr::from_str(text).with_context(|| text.to_owned())).collect()
}

/// What `kubectl apply -k manifests` applies.
pub(crate) async fn base() -> Result<Vec<Value>> {
    documents(&kustomize(&repository("manifests")?).await?)
}

/// The one object of this kind and name.
pub(crate) fn object<'all>(all: &'all [Value], kind: &str, name: &str) -> Result<&'all Value> {
    let mut found = all.iter().filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    let object = found.next().with_context(|| format!("there is no {kind} {name}"))?;
    ensure!(found.next().is_none(), "there are several {kind} {name}");
    Ok(object)
}

fn title(object: &Value) -> String {
    format!(
        "{} {}",
        object["kind"].as_str().unwrap_or_default(),
        object["metadata"]["name"].as_str().unwrap_or_default()
    )
}

/// A kustomization as users write one: the base, these components of it, and where the image is.
async fn with_components(components: &[&str]) -> Result<String> {
    let folder = RunDirectory::create("kustomize")?;
    // Kustomize takes no absolute path of another folder.
    let up = folder.path().canonicalize()?.components().skip(1).map(|_| "..").collect::<Vec<_>>().join("/");
    let manifests = format!("{up}{}", repository("manifests")?.display());
    let components: Vec<String> = components.iter().map(|name| format!("{manifests}/components/{name}")).collect();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [manifests], "components": components,
        "images": [{"name": PLACEHOLDER, "newName": IMAGE}],
    });
    folder.write("kustomization.yaml", kustomization.to_string())?;
    kustomize(folder.path()).await
}

#[tokio::test]
async fn install_yaml_is_what_kustomize_makes() -> Result<()> {
    let made = format!("{HEAD}{}", kustomize(&repository("manifests")?).await?);
    let path = repository("manifests")?.join("install.yaml");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &made)?;
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    ensure!(
        text == made,
        "manifests/install.yaml is not what kustomize makes of manifests/; `make golden` rewrites it"
    );
    Ok(())
}

#[tokio::test]
async fn every_object_says_what_it_belongs_to_and_which_version_it_is() -> Result<()> {
    let said = Command::new(fieldcache::program()?).arg("--version").output().await?;
    let version = String::from_utf8(said.stdout)?.trim().trim_start_matches("fieldcache ").to_owned();
    let all = documents(&with_components(&COMPONENTS).await?)?;
    let base = base().await?;
    ensure!(all.len() == base.len() + COMPONENTS.len(), "{} objects beside the base's {}", all.len(), base.len());
    let template = &object(&all, "Deployment", "fieldcache")?["spec"]["template"];
    for object in all.iter().chain([template]) {
        let labels = &object["metadata"]["labels"];
        let title = title(object);
        for (label, value) in
            [("name", "fieldcache"), ("instance", "fieldcache"), ("part-of", "fieldcache"), ("version", &*version)]
        {
            let label = format!("app.kubernetes.io/{label}");
            ensure!(labels[&label] == value, "{title}: {label} is not {value:?}: {labels}");
        }
        for label in ["component", "managed-by"] {
            ensure!(labels[format!("app.kubernetes.io/{label}")].is_string(), "{title} has no {label}: {labels}");
        }
        // A Component of kustomize could change what it is added to.
        ensure!(
            !labels.to_string().contains("grafana") || title == "ConfigMap fieldcache-dashboard",
            "{title}: {labels}"
        );
    }
    for (all, name) in [(&base, PLACEHOLDER), (&all, IMAGE)] {
        let image = &object(all, "Deployment", "fieldcache")?["spec"]["template"]["spec"]["containers"][0]["image"];
        ensure!(image == &json!(format!("{name}:{version}")), "{image} is not {name} of version {version}");
    }
    Ok(())
}

#[tokio::test]
async fn no_rule_grants_more_than_it_names() -> Result<()> {
    let mut all = base().await?;
    for folder in ["manifests/walk-through", "manifests/samples", "manifests/samples/objects"] {
        for entry in std::fs::read_dir(repository(folder)?)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                all.extend(documents(&std::fs::read_to_string(entry.path())?)?);
            }
        }
    }
    let mut rules = 0;
    for object in &all {
        for rule in object["rules"].as_array().into_iter().flatten() {
            rules += 1;
            let title = title(object);
            ensure!(!rule.to_string().contains('*'), "{title} grants whatever there is: {rule}");
            let has = |list: &str, word: &str| rule[list].as_array().is_some_and(|words| words.contains(&json!(word)));
            for verb in ["escalate", "bind", "impersonate", "deletecollection"] {
                ensure!(!has("verbs", verb), "{title} grants {verb}: {rule}");
            }
            // `create` cannot be bound to a name.
            let is_named = rule["resourceNames"].is_array() || rule["verbs"] == json!(["create"]);
            // The example for consumers of Secrets says what it grants, and nothing else applies it.
            let is_example = object["metadata"]["name"] == "fieldcache-reads-secrets";
            ensure!(
                !has("resources", "secrets") || is_named || is_example,
                "{title} grants Secrets that it does not name: {rule}"
            );
        }
    }
    ensure!(rules > 10, "only {rules} rules have been found");
    Ok(())
}

#[tokio::test]
async fn what_selects_pods_selects_those_of_the_deployment() -> Result<()> {
    let all = base().await?;
    let deployment = &object(&all, "Deployment", "fieldcache")?["spec"];
    let (template, pod) = (&deployment["template"], &deployment["template"]["spec"]);
    let container = &pod["containers"][0];
    let spreads = pod["topologySpreadConstraints"].as_array().context("a spread")?;
    let mut selectors = vec![
        ("Deployment", &deployment["selector"]["matchLabels"]),
        ("Service", &object(&all, "Service", "fieldcache")?["spec"]["selector"]),
        ("PDB", &object(&all, "PodDisruptionBudget", "fieldcache")?["spec"]["selector"]["matchLabels"]),
        ("NetworkPolicy", &object(&all, "NetworkPolicy", "fieldcache")?["spec"]["podSelector"]["matchLabels"]),
    ];
    selectors.extend(spreads.iter().map(|spread| ("spread", &spread["labelSelector"]["matchLabels"])));
    for (title, selector) in selectors {
        let selector = selector.as_object().with_context(|| format!("{title} selects nothing"))?;
        ensure!(!selector.is_empty(), "{title} selects everything");
        for (label, value) in selector {
            ensure!(&template["metadata"]["labels"][label] == value, "{title}: {label} is not {value}");
            ensure!(!label.ends_with("/version"), "{title} selects a version, which changes");
        }
    }
    let ports: BTreeMap<&str, &Value> = container["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|port| Some((port["name"].as_str()?, &port["containerPort"])))
        .collect();
    let mut named: Vec<&Value> = ["startupProbe", "livenessProbe", "readinessProbe"]
        .iter()
        .map(|probe| &container[probe]["httpGet"]["port"])
        .collect();
    let service = &object(&all, "Service", "fieldcache")?["spec"]["ports"];
    named.extend(service.as_array().into_iter().flatten().map(|port| &port["targetPort"]));
    let policy = &object(&all, "NetworkPolicy", "fieldcache")?["spec"]["ingress"];
    named.extend(
        policy
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|rule| rule["ports"].as_array().into_iter().flatten().map(|port| &port["port"])),
    );
    ensure!(named.len() == 7, "{named:?}");
    // Clients cannot take the places of probes, and reach their port neither through the Service nor from other Pods.
    ensure!(named[..3].iter().all(|port| *port == "health"), "probes use the port of clients: {named:?}");
    ensure!(named[3..].iter().all(|port| *port != "health"), "the port of probes is open to others: {named:?}");
    for name in named {
        ensure!(name.as_str().is_some_and(|name| ports.contains_key(name)), "no container port is called {name}");
    }
    for (name, flag) in [("https", "--address"), ("metrics", "--metrics-address"), ("health", "--health-address")] {
        let expected = json!(format!("{flag}=0.0.0.0:{}", ports[name]));
        let arguments = container["args"].as_array().context("arguments")?;
        ensure!(arguments.contains(&expected), "{expected} is not among {arguments:?}");
    }

    // A replica that is stopped has the time that it takes.
    let grace = pod["terminationGracePeriodSeconds"].as_i64().context("a grace period")?;
    let pause = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_i64().context("a pause")?;
    ensure!(grace > pause + GRACE_SECONDS, "{grace} s are too few after {pause} s of pause");
    let replicas = deployment["replicas"].as_i64().context("replicas")?;
    let unavailable = &object(&all, "PodDisruptionBudget", "fieldcache")?["spec"]["maxUnavailable"];
    ensure!(replicas == 2 && unavailable == &json!(1), "one of two replicas may go");
    ensure!(container["securityContext"]["readOnlyRootFilesystem"] == true, "the root can be written to");
    ensure!(container["resources"]["limits"]["cpu"].is_null(), "a limit of CPU");
    Ok(())
}

/// One right: verb, group, resource (with a subresource), namespace, name.
type Right = (&'static str, &'static str, &'static str, &'static str, &'static str);

const CERTIFICATE: &str = "fieldcache-serving-certificate";

const MAY: [Right; 28] = [
    ("list", "apiextensions.k8s.io", "customresourcedefinitions", "", ""),
    ("watch", "apiextensions.k8s.io", "customresourcedefinitions", "", ""),
    ("create", "authentication.k8s.io", "tokenreviews", "", ""),
    ("create", "authorization.k8s.io", "subjectaccessreviews", "", ""),
    ("list", "fieldcache.dev", "fieldcaches", "", ""),
    ("watch", "fieldcache.dev", "fieldcaches", "", ""),
    ("get", "fieldcache.dev", "views", "", ""),
    ("list", "fieldcache.dev", "views", "", ""),
    ("watch", "fieldcache.dev", "views", "", ""),
    ("create", "fieldcache.dev", "selectableresources", "", ""),
    ("patch", "fieldcache.dev", "selectableresources", "", ""),
    ("delete", "fieldcache.dev", "selectableresources", "", ""),
    ("watch", "fieldcache.dev", "selectableresources", "", ""),
    ("patch", "fieldcache.dev", "fieldcaches/status", "", ""),
    ("patch", "fieldcache.dev", "views/status", "", ""),
    ("patch", "fieldcache.dev", "selectableresources/status", "", ""),
    ("create", "events.k8s.io", "events", "default", ""),
    ("patch", "events.k8s.io", "events", "default", ""),
    ("create", "coordination.k8s.io", "leases", NAMESPACE, ""),
    ("get", "coordination.k8s.io", "leases", NAMESPACE, "fieldcache"),
    ("update", "coordination.k8s.io", "leases", NAMESPACE, "fieldcache"),
    ("create", "", "secrets", NAMESPACE, ""),
    ("get", "", "secrets", NAMESPACE, CERTIFICATE),
    ("update", "", "secrets", NAMESPACE, CERTIFICATE),
    ("get", "", "configmaps", "kube-system", "extension-apiserver-authentication"),
    // What walk-through/reader.yaml adds.
    ("get", "stable.example.com", "shirts", "", ""),
    ("list", "stable.example.com", "shirts", "", ""),
    ("watch", "stable.example.com", "shirts", "", ""),
];

const MAY_NOT: [Right; 33] = [
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions", "", ""),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions", "", ""),
    ("create", "fieldcache.dev", "fieldcaches", "", ""),
    ("patch", "fieldcache.dev", "fieldcaches", "", ""),
    ("patch", "fieldcache.dev", "views", "", ""),
    ("create", "fieldcache.dev", "views", "", ""),
    ("delete", "fieldcache.dev", "views", "", ""),
    ("use", "fieldcache.dev", "views", "", "blue-shirts"),
    ("get", "view.fieldcache.dev", "views/proxy", "", "blue-shirts"),
    ("create", "events.k8s.io", "events", NAMESPACE, ""),
    ("create", "events.k8s.io", "events", "kube-system", ""),
    ("delete", "events.k8s.io", "events", "default", ""),
    ("delete", "coordination.k8s.io", "leases", NAMESPACE, "fieldcache"),
    ("update", "coordination.k8s.io", "leases", NAMESPACE, "another"),
    ("get", "coordination.k8s.io", "leases", "kube-system", "fieldcache"),
    ("list", "", "secrets", NAMESPACE, ""),
    ("watch", "", "secrets", NAMESPACE, ""),
    ("get", "", "secrets", NAMESPACE, "another"),
    ("update", "", "secrets", NAMESPACE, "another"),
    ("patch", "", "secrets", NAMESPACE, CERTIFICATE),
    ("delete", "", "secrets", NAMESPACE, CERTIFICATE),
    ("get", "", "secrets", "default", CERTIFICATE),
    ("create", "", "secrets", "default", ""),
    ("list", "", "secrets", "", ""),
    ("get", "", "configmaps", "kube-system", "another"),
    ("list", "", "configmaps", "", ""),
    ("list", "", "pods", "", ""),
    ("create", "", "pods", NAMESPACE, ""),
    ("get", "", "nodes", "", ""),
    ("impersonate", "", "users", "", ""),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", ""),
    ("update", "stable.example.com", "shirts", "", ""),
    ("create", "", "serviceaccounts/token", NAMESPACE, "fieldcache"),
];

/// Whether RBAC lets the operator's ServiceAccount do this.
async fn may(client: &Client, (verb, group, resource, namespace, name): Right) -> Result<bool> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:{NAMESPACE}:fieldcache"),
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{NAMESPACE}"), "system:authenticated"],
            "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace, "name": name,
            },
        },
    });
    let answer = objects::create(client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
    answer["status"]["allowed"].as_bool().context("a decision")
}

async fn permissions_are_those_of_the_tables(client: &Client) -> Result<()> {
    eventually("kube-apiserver goes by the rules that were gathered", SOON, async || {
        for right in MAY {
            ensure!(may(client, right).await?, "{right:?}");
        }
        Ok(())
    })
    .await?;
    let mut differences = Vec::new();
    for (rights, expected) in [(&MAY[..], true), (&MAY_NOT[..], false)] {
        for right in rights {
            if may(client, *right).await? != expected {
                differences.push(format!("{right:?} should be {expected}"));
            }
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

/// What is done to a Pod, and the words it is then refused with.
type Harm = (&'static str, fn(&mut Value), &'static str);

const HARMS: [Harm; 6] = [
    ("no word of root", |pod| remove(&mut pod["securityContext"], "runAsNonRoot"), "runAsNonRoot != true"),
    ("root by its number", |pod| pod["securityContext"]["runAsUser"] = json!(0), "runAsUser=0"),
    ("no seccomp profile", |pod| remove(&mut pod["securityContext"], "seccompProfile"), "seccompProfile"),
    (
        "more rights than its parent",
        |pod| remove(&mut pod["containers"][0]["securityContext"], "allowPrivilegeEscalation"),
        "allowPrivilegeEscalation != false",
    ),
    (
        "capabilities",
        |pod| remove(&mut pod["containers"][0]["securityContext"], "capabilities"),
        "unrestricted capabilities",
    ),
    ("the node's network", |pod| pod["hostNetwork"] = json!(true), "host namespaces"),
];

fn remove(object: &mut Value, field: &str) {
    object.as_object_mut().and_then(|object| object.remove(field));
}

/// The Pods that the Deployment makes may be in its namespace; less careful ones may not.
async fn pods_are_restricted(client: &Client) -> Result<()> {
    let all = base().await?;
    let template = &object(&all, "Deployment", "fieldcache")?["spec"]["template"];
    let labels = &object(&all, "Namespace", NAMESPACE)?["metadata"]["labels"];
    for mode in ["enforce", "audit", "warn"] {
        ensure!(labels[format!("pod-security.kubernetes.io/{mode}")] == "restricted", "{mode}: {labels}");
    }
    let send = async |spec: Value| {
        let metadata = json!({ "name": "fieldcache-0", "labels": template["metadata"]["labels"] });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All&fieldValidation=Strict");
        client.send(Request::new(Method::POST, path).json(&pod)).await
    };
    let answer = send(template["spec"].clone()).await?;
    ensure!(answer.status == 201, "{}", answer.text());
    let warning = answer.header("warning");
    ensure!(warning.is_none(), "{warning:?}");
    for (what, harm, words) in HARMS {
        let mut spec = template["spec"].clone();
        harm(&mut spec);
        ensure!(spec != template["spec"], "{what}: nothing has changed");
        let answer = send(spec).await?;
        let text = answer.text();
        let is_refused =
            answer.status == 403 && text.contains("violates PodSecurity \\\"restricted") && text.contains(words);
        ensure!(is_refused, "{what}: {}: {text}", answer.status);
    }
    Ok(())
}

/// Waits until the controller manager has gathered what fieldcache may read, and returns the role. Its version shows whether it has
/// been written since, also when what a write took away has been gathered again.
async fn gathered(client: &Client) -> Result<Value> {
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/fieldcache-reader";
    eventually("rules are gathered", SOON, async || {
        let role = client.get_json(path).await?;
        ensure!(role["rules"].as_array().is_some_and(|rules| !rules.is_empty()), "{role}");
        Ok(json!([role["rules"], role["metadata"]["resourceVersion"]]))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_takes_the_manifests_whole() -> Result<()> {
    let settings = Settings { controller_manager: true, ..Settings::default() };
    let control_plane = Box::pin(ControlPlane::start(settings)).await?;
    let (client, kubectl) = (control_plane.client(), Kubectl::with_kubeconfig(control_plane.kubeconfig())?);
    let manifests = repository("manifests")?.display().to_string();
    let apply = ["apply", "--server-side", "--validate=strict", "-k", &manifests];
    let said = kubectl.succeed(&apply).await?;
    let applied: BTreeSet<&str> = said.lines().filter_map(|line| line.strip_suffix(" serverside-applied")).collect();
    ensure!(applied.len() == base().await?.len(), "{said}");
    // Of kinds that every cluster has: none of our own, and nothing that the definitions would have to be there for.
    for object in base().await? {
        let group = object["apiVersion"].as_str().unwrap_or_default();
        ensure!(!group.contains("fieldcache.dev"), "{} would need its definition first", title(&object));
    }

    // Applied again, also as one file, by hand and without a write, it neither fails nor takes away what has been granted since.
    kubectl.succeed(&["apply", "-f", &format!("{manifests}/walk-through/reader.yaml")]).await?;
    let before = gathered(&client).await?;
    kubectl.succeed(&[&apply[..], &["--dry-run=server"]].concat()).await?;
    kubectl.succeed(&apply).await?;
    ensure!(gathered(&client).await? == before, "applying again has written what is not its own");
    permissions_are_those_of_the_tables(&client).await?;
    pods_are_restricted(&client).await?;
    eventually("a user who may view the cluster may view our kinds", SOON, async || {
        let view = client.get_json("/apis/rbac.authorization.k8s.io/v1/clusterroles/view").await?;
        ensure!(view["rules"].to_string().contains("selectableresources"), "{view}");
        Ok(())
    })
    .await?;

    // The samples, as README applies them.
    let samples = format!("{manifests}/samples");
    kubectl.succeed(&["apply", "--validate=strict", "-f", &samples]).await?;
    kubectl.succeed(&["wait", "--for=condition=Established", "crd/shirts.stable.example.com"]).await?;
    kubectl.apply_known(&format!("{samples}/objects")).await?;

    // Components: all render together with the base; what needs no other definition is applied.
    let folder = RunDirectory::create("components")?;
    for component in COMPONENTS {
        let alone = kustomize(&repository(&format!("manifests/components/{component}"))?).await?;
        let [object] = &documents(&alone)?[..] else { anyhow::bail!("{component} is one object: {alone}") };
        if object["kind"] == "ServiceMonitor" {
            continue;
        }
        let file = folder.write("object.yaml", &alone)?.display().to_string();
        kubectl.succeed(&["apply", "--server-side", "--validate=strict", "-f", &file]).await?;
        kubectl.succeed(&["apply", "--validate=strict", "-f", &file]).await?;
    }
    let dashboard = client.get_json(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/fieldcache-dashboard")).await?;
    let document: Value = serde_json::from_str(dashboard["data"]["fieldcache.json"].as_str().context("a dashboard")?)?;
    ensure!(document["title"] == "fieldcache", "{document}");
    // The cluster's administrators choose the authority of fieldcache; until then it is not trusted blindly.
    let service = client.get_json("/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.view.fieldcache.dev").await?;
    let spec = &service["spec"];
    ensure!(spec["insecureSkipTLSVerify"].is_null() && spec["service"]["name"] == "fieldcache", "{service}");
    Ok(())
}

/// How long the removal of a definition may take. kube-apiserver's finalizer checks every 5 s, for up to a minute,
/// whether objects remain. It begins again when that failed, as for a definition that was removed just after it was
/// served.
const GONE: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread")]
async fn install_yaml_is_taken_by_a_plain_apply_and_taken_away_again() -> Result<()> {
    let settings = Settings { controller_manager: true, ..Settings::default() };
    let control_plane = Box::pin(ControlPlane::start(settings)).await?;
    let (client, kubectl) = (control_plane.client(), Kubectl::with_kubeconfig(control_plane.kubeconfig())?);
    let install = repository("manifests/install.yaml")?.display().to_string();
    let reader = repository("manifests/walk-through/reader.yaml")?.display().to_string();
    kubectl.succeed(&["apply", "--validate=strict", "-f", &install]).await?;
    kubectl.succeed(&["apply", "-f", &reader]).await?;
    let before = gathered(&client).await?;
    kubectl.succeed(&["apply", "--validate=strict", "-f", &install]).await?;
    ensure!(gathered(&client).await? == before, "applying again has written what is not its own");
    // Its namespace goes first, and takes with it what is in it.
    kubectl.succeed(&["delete", "--wait=false", "--ignore-not-found", "-f", &install, "-f", &reader]).await?;
    for path in [
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/rbac.authorization.k8s.io/v1/roles",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apps/v1/deployments",
        "/api/v1/services",
    ] {
        eventually(path, GONE, async || {
            let list = client.get_json(&format!("{path}?labelSelector=app.kubernetes.io/name%3Dfieldcache")).await?;
            ensure!(list["items"] == json!([]), "this is left: {list}");
            Ok(())
        })
        .await?;
    }
    // When it is gone is the control plane's affair.
    let namespace = client.get(&format!("/api/v1/namespaces/{NAMESPACE}")).await?;
    let is_going = namespace.status == 404 || namespace.json()?["metadata"]["deletionTimestamp"].is_string();
    ensure!(is_going, "{}", namespace.text());
    Ok(())
}
