//! kubectl must print through fieldcache what it prints against kube-apiserver. Every command runs against both, and
//! standard output, standard error and exit code are compared. Only ages, which count on between the two, are left out.

#![expect(clippy::print_stdout, reason = "figures for the person who runs the suite")]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::kubectl::{Finished, Kubectl};
use e2e::{fixtures, objects};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);
pub(crate) const GROUP: &str = "beside.example.com";
pub(crate) const NAMESPACES: [&str; 3] = ["default", "east", "west"];

pub(crate) fn definition() -> Value {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "description": "A shirt one can order.", "properties": {
            "spec": { "type": "object", "description": "What is ordered.", "properties": {
                "color": { "type": "string", "description": "Its color." },
                "size": { "type": "string", "enum": ["S", "M", "L"] },
                "count": { "type": "integer" },
            } },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        } } },
        "subresources": { "status": {} },
        "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }],
        "additionalPrinterColumns": [
            { "name": "Color", "type": "string", "jsonPath": ".spec.color" },
            { "name": "Count", "type": "integer", "jsonPath": ".spec.count" },
            { "name": "Size", "type": "string", "jsonPath": ".spec.size", "priority": 1 },
            { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        ],
    });
    let names = ("shirts", "shirt", "Shirt");
    let mut definition = fixtures::definition(GROUP, "Namespaced", names, &[version], &fixtures::no_conversion());
    definition["spec"]["names"]["shortNames"] = json!(["sh"]);
    definition["spec"]["names"]["categories"] = json!(["all"]);
    definition
}

fn shirt(name: &str, color: &str, count: u64) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Shirt",
        "metadata": { "name": name, "labels": { "team": if color == "blue" { "sea" } else { "land" } } },
        "spec": { "color": color, "size": "M", "count": count },
    })
}

fn shirts(namespace: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/shirts")
}

/// What is in every namespace: all that `kubectl get all` shows and more, so that tables have rows.
pub(crate) async fn fill(writer: &Client) -> Result<()> {
    let template = json!({
        "metadata": { "labels": { "app": "shop" } },
        "spec": { "containers": [{ "name": "main", "image": "shop:1", "ports": [{ "containerPort": 80 }] }] },
    });
    let selector = json!({ "matchLabels": { "app": "shop" } });
    for namespace in NAMESPACES {
        let named = |name: &str| json!({ "name": name, "labels": { "app": "shop" } });
        let rows = [
            (
                "/api/v1",
                "pods",
                json!({ "kind": "Pod", "apiVersion": "v1", "metadata": named("pod"), "spec": template["spec"] }),
            ),
            (
                "/api/v1",
                "services",
                json!({
                    "kind": "Service", "apiVersion": "v1", "metadata": named("shop"),
                    "spec": { "selector": { "app": "shop" }, "ports": [{ "port": 80 }] },
                }),
            ),
            (
                "/api/v1",
                "configmaps",
                json!({
                    "kind": "ConfigMap", "apiVersion": "v1", "metadata": named("settings"), "data": { "a": "1", "b": "2" },
                }),
            ),
            (
                "/api/v1",
                "secrets",
                json!({
                    "kind": "Secret", "apiVersion": "v1", "metadata": named("key"), "stringData": { "key": "value" },
                }),
            ),
            (
                "/apis/apps/v1",
                "deployments",
                json!({
                    "kind": "Deployment", "apiVersion": "apps/v1", "metadata": named("web"),
                    "spec": { "selector": selector, "template": template, "replicas": 2 },
                }),
            ),
            (
                "/apis/apps/v1",
                "statefulsets",
                json!({
                    "kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": named("store"),
                    "spec": { "selector": selector, "template": template, "serviceName": "shop" },
                }),
            ),
        ];
        for (prefix, resource, object) in rows {
            objects::create(writer, &format!("{prefix}/namespaces/{namespace}/{resource}"), &object).await?;
        }
        for (name, color, count) in [("a", "blue", 1), ("b", "green", 20), ("c", "blue", 3), ("d", "red", 10)] {
            objects::create(writer, &shirts(namespace), &shirt(name, color, count)).await?;
        }
    }
    Ok(())
}

/// A finished command without what may differ: ages, and which address was queried.
fn comparable(finished: &Finished, address: &str) -> (i32, String, String) {
    let text = |text: &str| {
        let text = text.replace(address, "SERVER");
        text.split('\n').map(without_ages).collect::<Vec<_>>().join("\n")
    };
    (finished.exit_code, text(&finished.stdout), text(&finished.stderr))
}

/// A line with every age such as `4m5s` as AGE, and the blanks after it as one. A column is as wide as its widest age.
fn without_ages(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let is_age = word.ends_with(['s', 'm', 'h'])
            && word.starts_with(|first: char| first.is_ascii_digit())
            && word.chars().all(|letter| letter.is_ascii_digit() || "smhd".contains(letter));
        if is_age {
            words.push("AGE".to_owned());
        } else if !(word.is_empty() && words.last().is_some_and(|last| last == "AGE")) {
            words.push(word.to_owned());
        }
    }
    words.join(" ").trim_end().to_owned()
}

/// Both sides, and the servers behind them.
struct Beside {
    control_plane: ControlPlane,
    fieldcache: Fieldcache,
    direct: Kubectl,
    through: Kubectl,
}

impl Beside {
    async fn start() -> Result<Beside> {
        let control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
        let writer = control_plane.client();
        for namespace in &NAMESPACES[1..] {
            let object = json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": namespace } });
            objects::create(&writer, "/api/v1/namespaces", &object).await?;
        }
        objects::create_definition(&writer, &definition()).await?;
        fill(&writer).await?;
        let arguments = ["--kubeconfig", &control_plane.kubeconfig().display().to_string(), "--pass-through", "all"];
        let fieldcache = Box::pin(Fieldcache::serve(arguments.map(str::to_owned))).await?;
        let direct = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
        let through = Kubectl::with_server(fieldcache.address())?;
        Ok(Beside { control_plane, fieldcache, direct, through })
    }

    /// Runs a command against both and compares.
    async fn same(&self, command: &[&str]) -> Result<()> {
        let (theirs, ours) = (self.direct.run(command).await?, self.through.run(command).await?);
        let theirs = comparable(&theirs, self.control_plane.endpoint().base());
        let mut ours = comparable(&ours, self.fieldcache.address());
        // The last group of discovery is our own.
        let is_others = |line: &&str| !line.contains("view.fieldcache.dev");
        if command[0].starts_with("api-") {
            ours.1 = ours.1.split_inclusive('\n').filter(is_others).collect();
        }
        let words = |side: &(i32, String, String)| format!("exit code {}\n{}{}", side.0, side.1, side.2);
        ensure!(theirs == ours, "kubectl {}:\n{}\n<>\n{}", command.join(" "), words(&theirs), words(&ours));
        Ok(())
    }
}

/// Reading commands, a line each.
const COMMANDS: &str = "
get shirts
get shirts -A
get shirts -n east -o wide
get sh -n east --show-labels
get shirts -n east -L team
get shirts -A -o name
get shirts -n east -o json
get shirts -n east -o yaml
get shirts a -n east
get shirts a -n east -o yaml
get shirts a d -n east
get shirts a nosuch -n east
get shirts nosuch -n east
get shirts nosuch -n east --ignore-not-found
get shirts/a shirts/b -n west
get shirts -n nosuch
get shirts -A -l team=sea
get shirts -A -l team!=sea --field-selector spec.color=green
get shirts -A --field-selector spec.color=blue
get shirts -A --field-selector spec.color=blue,metadata.namespace!=default
get shirts -A --field-selector metadata.namespace=east
get shirts -A --field-selector spec.nosuch=x
get shirts -A -l team=(
get shirts -A --chunk-size=2
get shirts -A --chunk-size=5 -o name
get shirts -n east --sort-by=.spec.count
get shirts -n east --sort-by=.metadata.name -o name
get shirts -n east --no-headers
get shirts -n east --show-kind
get shirts -n east -o jsonpath={.items[*].spec.color}
get shirts -n east -o custom-columns=N:.metadata.name,C:.spec.color
get shirts -n east -o go-template={{len .items}}
get shirts -n east --server-print=false
get shirts a -n east --subresource=status
get statefulsets,services -A --field-selector metadata.namespace!=default
get statefulsets,services,shirts -n east
get all -A
get all -n west -o wide
get all -n west -o name
get pods -A -o wide
get pods -A --field-selector status.phase=Pending
get pods -A --field-selector spec.nosuch=x
get deployments -A
get configmaps,secrets -n east
get namespaces
get nodes
get crd
get events -A
get roles,rolebindings,serviceaccounts -A
get clusterroles cluster-admin -o yaml
get nosuch
get shirts.v2.beside.example.com
get --raw /apis/beside.example.com/v1/namespaces/east/shirts/a
get --raw /healthz
get --raw /readyz/ping
describe shirts -n east
describe shirts a -n east
describe pod pod -n east
describe deployment web -n east
describe statefulset store -n west
describe service shop -n east
describe configmap settings -n east
describe secret key -n east
describe namespace east
describe crd shirts.beside.example.com
describe shirts nosuch -n east
explain shirts
explain shirts.spec
explain shirts.spec.color
explain shirts.spec.nosuch
explain shirts --recursive
explain shirts --output=plaintext-openapiv2
explain shirts.spec --output=plaintext-openapiv2 --recursive
explain pods.spec.containers
explain pods.spec.affinity --recursive
explain pods.spec.containers --output=plaintext-openapiv2
explain deployments --api-version=apps/v1
explain nosuch
api-resources
api-resources -o wide
api-resources -o name
api-resources --namespaced=false
api-resources --api-group=beside.example.com
api-resources --verbs=list,get -o name
api-resources --categories=all
api-versions
version
cluster-info
auth can-i list shirts -A
auth can-i --list -n east
auth whoami
wait shirts/a -n east --for=jsonpath={.spec.color}=blue --timeout=20s
wait shirts/a -n east --for=jsonpath={.spec.color}=red --timeout=4s
wait shirts --all -n east --for=create --timeout=20s
wait shirts/nosuch -n east --for=delete --timeout=20s
wait shirts/nosuch -n east --for=condition=Ready --timeout=4s
wait pods -n east -l app=shop --for=condition=Ready --timeout=4s
logs pod -n east
top pods
rollout history deployment/web -n east
rollout status deployment/web -n east --watch=false
events -n east
diff --server-side -f /nonexistent
delete shirts --field-selector spec.color=blue -n east --dry-run=server
delete shirts -A --field-selector spec.color=blue --dry-run=server
delete shirts --field-selector spec.nosuch=blue -n east
scale deployment web -n east --replicas=3 --dry-run=server
annotate shirts a -n east note=1 --dry-run=server
label shirts a -n east team=sky --dry-run=server -o yaml
patch shirts a -n east --type=merge -p {\"spec\":{\"size\":\"XXL\"}}
create configmap settings -n east
";

#[tokio::test]
async fn kubectl_prints_the_same_through_fieldcache_as_against_kube_apiserver() -> Result<()> {
    let beside = Box::pin(Beside::start()).await?;
    let mut differing = Vec::new();
    let mut count = 0;
    for line in COMMANDS.lines().filter(|line| !line.is_empty()) {
        let command: Vec<&str> = line.split(' ').collect();
        count += 1;
        if let Err(error) = beside.same(&command).await {
            differing.push(format!("{error:#}"));
        }
    }
    ensure!(differing.is_empty(), "{} of {count} commands differ:\n{}", differing.len(), differing.join("\n\n"));
    println!("kubectl: {count} commands print the same through fieldcache as against kube-apiserver");

    watches(&beside).await?;
    deletes(&beside).await
}

/// Watches of both sides over the same changes.
async fn watches(beside: &Beside) -> Result<()> {
    let writer = beside.control_plane.client();
    let forms: [&[&str]; 6] = [
        &["get", "shirts", "-n", "east", "-w", "--field-selector", "spec.color=blue", "--output-watch-events"],
        &["get", "shirts", "-n", "east", "-w"],
        &["get", "shirts", "-A", "-w", "-o", "wide", "-l", "team=sea"],
        &["get", "shirts", "-n", "east", "--watch-only", "-o", "name"],
        &["get", "shirts", "a", "-n", "east", "-w", "-o", "jsonpath={.spec.color}{\"\\n\"}"],
        &["get", "shirts", "-n", "east", "-w", "-o", "json", "--output-watch-events"],
    ];
    let mut running = Vec::new();
    for form in forms {
        running.push((form, beside.direct.start(form)?, beside.through.start(form)?));
    }
    // All have begun when a change that each of them shows has come to each.
    let mut marks = 0;
    eventually("all watches have begun", SOON, async || {
        marks += 1;
        let patch = json!({ "metadata": { "annotations": { "mark": marks.to_string() } } });
        objects::merge(&writer, &format!("{}/a", shirts("east")), &patch).await?;
        for (form, direct, through) in &running {
            let least = if form.contains(&"--watch-only") { 1 } else { 5 };
            for side in [direct, through] {
                ensure!(side.stdout()?.lines().count() >= least, "{form:?}\n{}", side.tail());
            }
        }
        Ok(())
    })
    .await?;
    let before: Vec<(usize, usize)> = running
        .iter()
        .map(|(_, direct, through)| Ok((direct.stdout()?.len(), through.stdout()?.len())))
        .collect::<Result<_>>()?;
    for (name, color) in [("b", "blue"), ("c", "red"), ("c", "blue"), ("d", "green")] {
        objects::merge(&writer, &format!("{}/{name}", shirts("east")), &shirt(name, color, 5)).await?;
    }
    objects::delete(&writer, &format!("{}/b", shirts("east"))).await?;
    objects::create(&writer, &shirts("east"), &shirt("b", "blue", 6)).await?;
    let last = json!({ "spec": { "color": "blue", "count": 77 } });
    objects::merge(&writer, &format!("{}/a", shirts("east")), &last).await?;
    for ((form, direct, through), (theirs_before, ours_before)) in running.iter().zip(before) {
        let news = |text: String, from: usize| text[from..].lines().map(without_ages).collect::<Vec<_>>();
        eventually(&format!("kubectl {} prints the same", form.join(" ")), SOON, async || {
            let (theirs, ours) = (news(direct.stdout()?, theirs_before), news(through.stdout()?, ours_before));
            // A late mark may have come to one side before the count began; what follows it may not differ.
            let shortest = theirs.len().min(ours.len());
            ensure!(shortest > 0, "nothing yet");
            let tail = |lines: &[String]| lines[lines.len() - shortest..].to_vec();
            ensure!(tail(&theirs) == tail(&ours), "{}\n<>\n{}", theirs.join("\n"), ours.join("\n"));
            let is_single = form.contains(&"a");
            ensure!(is_single || shortest >= 3, "{shortest} lines: {}", ours.join("\n"));
            Ok(())
        })
        .await?;
    }
    println!("kubectl: {} watches print the same", running.len());
    Ok(())
}

/// Deletions by field, each side in a namespace of its own, of what is there alike.
async fn deletes(beside: &Beside) -> Result<()> {
    let writer = beside.control_plane.client();
    let mut said = Vec::new();
    for (namespace, kubectl) in [("default", &beside.direct), ("west", &beside.through)] {
        let mut lines = Vec::new();
        for command in [
            &["delete", "shirts", "--field-selector", "spec.color=blue"][..],
            &["delete", "pods,services", "--field-selector", "metadata.name=pod"],
            &["delete", "shirts", "d"],
            &["delete", "shirts", "d"],
            &["apply", "--server-side", "-f", "-"],
        ] {
            let finished = kubectl.run(&[command, &["-n", namespace]].concat()).await?;
            let text = format!("{} {}{}", finished.exit_code, finished.stdout, finished.stderr);
            lines.push(text.replace(namespace, "NAMESPACE"));
        }
        // Own writes are seen at once.
        let left = kubectl.succeed(&["get", "shirts", "-n", namespace, "-o", "name"]).await?;
        ensure!(left == format!("shirt.{GROUP}/b\n"), "{namespace}: {left}");
        lines.push(left);
        said.push(lines.join("\n"));
    }
    ensure!(said[0] == said[1], "{}\n<>\n{}", said[0], said[1]);
    let truth = writer.get_json(&shirts("west")).await?;
    let left = truth["items"].as_array().context("no items")?.len();
    ensure!(left == 1, "kube-apiserver has {left}");
    println!("kubectl: deletions by field print and do the same");
    Ok(())
}
