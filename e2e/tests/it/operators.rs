//! Operators that fieldcache adds to field selectors, through an unmodified kubectl. Other clients use them in
//! `clients`, and `access::reviews` checks the reviews about them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Request};
use e2e::kubectl::Kubectl;
use e2e::{fixtures, objects, unique};
use http::Method;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

fn definition(group: &str) -> Value {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "color": { "type": "string" }, "size": { "type": "integer" },
        } } } } },
        "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }],
    });
    fixtures::definition(group, "Namespaced", ("shirts", "shirt", "Shirt"), &[version], &fixtures::no_conversion())
}

/// A shirt. An empty color and no size are left out.
fn shirt(group: &str, name: &str, color: &str, size: Option<i64>) -> Value {
    let mut spec = json!({});
    if !color.is_empty() {
        spec["color"] = color.into();
    }
    if let Some(size) = size {
        spec["size"] = size.into();
    }
    json!({ "apiVersion": format!("{group}/v1"), "kind": "Shirt", "metadata": { "name": name }, "spec": spec })
}

/// Selectors with the names that they select. kube-apiserver rejects each of them.
const SELECTED: [(&str, &[&str]); 20] = [
    ("spec.color in (blue,red)", &["a", "b", "d"]),
    ("spec.color notin (blue,red)", &["c", "e", "f"]),
    ("spec.color in (blue)", &["a", "b"]),
    (r"spec.color in (x\,y)", &["f"]),
    ("spec.color", &["a", "b", "c", "d", "f"]),
    ("!spec.color", &["e"]),
    ("spec.color^=b", &["a", "b", "c"]),
    ("spec.color^=blue,spec.size", &["a"]),
    ("spec.size>9", &["a", "f"]),
    ("spec.size>=9", &["a", "c", "f"]),
    ("spec.size<9", &["d"]),
    ("spec.size<=9", &["c", "d"]),
    ("spec.size > -4 , spec.size < 10", &["c", "d"]),
    ("!spec.size", &["b", "e"]),
    ("metadata.name in (a,f,nope)", &["a", "f"]),
    ("metadata.name notin (a,f,nope)", &["b", "c", "d", "e"]),
    ("metadata.name^=a", &["a"]),
    ("metadata.namespace", &["a", "b", "c", "d", "e", "f"]),
    ("!metadata.namespace", &[]),
    ("spec.color!=blue,metadata.name in (a,b,c)", &["c"]),
];

#[tokio::test]
async fn kubectl_selects_by_every_operator() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let group = unique::group("operators");
    objects::create_definition(&writer, &definition(&group)).await?;
    let namespace = objects::create_namespace(&writer).await?;
    let path = format!("/apis/{group}/v1/namespaces/{namespace}/shirts");
    for (name, color, size) in [
        ("a", "blue", Some(10)),
        ("b", "blue", None),
        ("c", "black", Some(9)),
        ("d", "red", Some(-3)),
        ("e", "", None),
        ("f", "x,y", Some(200)),
    ] {
        objects::create(&writer, &path, &shirt(&group, name, color, size)).await?;
    }
    let fieldcache =
        Box::pin(Fieldcache::serve_cluster(control_plane.kubeconfig(), &[&format!("shirts.v1.{group}")])).await?;
    let kubectl = Kubectl::with_server(fieldcache.address())?;
    let direct = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    let plural = format!("shirts.{group}");
    for (selector, expected) in SELECTED {
        let command = ["get", &plural, "-n", &namespace, "-o", "name", "--field-selector", selector];
        let names = kubectl.succeed(&command).await?;
        let names: Vec<&str> = names.lines().filter_map(|line| line.rsplit_once('/')).map(|(_, name)| name).collect();
        ensure!(names == expected, "{selector}: {names:?}");
        let rejected = direct.run(&command).await?;
        ensure!(
            rejected.exit_code == 1,
            "kube-apiserver accepts {selector}, so it must keep its meaning: {rejected:?}"
        );
    }
    watches(&kubectl, &writer, &group, &namespace).await?;
    deletion(&fieldcache.client(), &path).await
}

/// `kubectl get -w` sees objects enter and leave a selection by each operator.
async fn watches(kubectl: &Kubectl, writer: &Client, group: &str, namespace: &str) -> Result<()> {
    let path = format!("/apis/{group}/v1/namespaces/{namespace}/shirts");
    let plural = format!("shirts.{group}");
    // By selector: the events of one new object that is green at first, then brown and of size 50, then deleted. Each
    // selector also selects an object that exists before, whose line shows that the watch begins.
    let rows: [(&str, &[&str]); 9] = [
        ("spec.color in (green,blue)", &["ADDED", "DELETED"]),
        ("spec.color notin (green,blue)", &["ADDED", "DELETED"]),
        ("spec.color^=b", &["ADDED", "DELETED"]),
        ("spec.size", &["ADDED", "DELETED"]),
        ("!spec.size", &["ADDED", "DELETED"]),
        ("spec.size>49", &["ADDED", "DELETED"]),
        ("spec.size>=50,spec.size<=200", &["ADDED", "DELETED"]),
        ("spec.size<50", &[]),
        ("metadata.name in (new,a)", &["ADDED", "MODIFIED", "DELETED"]),
    ];
    let mut started = Vec::new();
    for (selector, expected) in rows {
        let command = ["get", &plural, "-n", namespace, "-w", "--output-watch-events", "--field-selector", selector];
        started.push((selector, expected, kubectl.start(&command)?));
    }
    for (selector, _, watch) in &started {
        watch.line(selector, SOON, |line| line.starts_with("ADDED").then_some(())).await?;
    }
    objects::create(writer, &path, &shirt(group, "new", "green", None)).await?;
    objects::merge(writer, &format!("{path}/new"), &json!({ "spec": { "color": "brown", "size": 50 } })).await?;
    writer.send(Request::new(Method::DELETE, format!("{path}/new"))).await?.success()?;
    for (selector, expected, watch) in &started {
        for event in *expected {
            let what = format!("{event} of {selector}");
            let found = watch.line(&what, SOON, |line| {
                let mut words = line.split_whitespace();
                (words.next() == Some(*event) && words.next() == Some("new")).then_some(())
            });
            found.await.with_context(|| what.clone())?;
        }
        // The others have all events of the object, so this one has them soon too.
        let events = watch.stdout()?;
        let of_new = events.lines().filter(|line| line.split_whitespace().nth(1) == Some("new"));
        let of_new: Vec<&str> = of_new.filter_map(|line| line.split_whitespace().next()).collect();
        ensure!(of_new == *expected, "{selector}: {of_new:?}");
    }
    Ok(())
}

/// kube-apiserver deletes, and it does not have the operators, so nothing is deleted.
async fn deletion(client: &Client, path: &str) -> Result<()> {
    let count = async || -> Result<usize> { Ok(client.get_json(path).await?["items"].as_array().map_or(0, Vec::len)) };
    let before = count().await?;
    let answer = client.send(Request::new(Method::DELETE, format!("{path}?fieldSelector=spec.color^%3Db"))).await?;
    ensure!(!answer.status.is_success(), "{answer:?}");
    ensure!(count().await? == before, "objects were deleted");
    Ok(())
}
