//! An unmodified kubectl against `fieldcache serve`: a folder without any cluster, and a cluster.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::kubectl::Kubectl;
use e2e::run_directory::RunDirectory;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

fn definition(group: &str) -> Value {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "description": "A shirt one can order.", "properties": {
            "spec": { "type": "object", "properties": {
                "color": { "type": "string", "description": "Its color." },
                "size": { "type": "string", "enum": ["S", "M", "L"] },
            } },
        } } },
        "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }],
        "additionalPrinterColumns": [
            { "name": "Color", "type": "string", "jsonPath": ".spec.color" },
            { "name": "Size", "type": "string", "jsonPath": ".spec.size", "priority": 1 },
        ],
    });
    let names = ("shirts", "shirt", "Shirt");
    let mut definition = fixtures::definition(group, "Namespaced", names, &[version], &fixtures::no_conversion());
    definition["spec"]["names"]["shortNames"] = json!([short(group)]);
    definition
}

/// A short name that no other test's kind has.
fn short(group: &str) -> String {
    group.split('.').next().unwrap_or_default().replace('-', "")
}

fn shirt(group: &str, namespace: &str, name: &str, color: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Shirt",
        "metadata": { "name": name, "namespace": namespace, "labels": { "team": if color == "blue" { "sea" } else { "land" } } },
        "spec": { "color": color, "size": "M" },
    })
}

#[tokio::test]
async fn kubectl_reads_a_folder_and_follows_its_files() -> Result<()> {
    let directory = RunDirectory::create("samples")?;
    let folder = directory.path().join("served");
    std::fs::create_dir(&folder)?;
    let put = async |object: &Value| -> Result<()> {
        let name = format!("{}.json", object["metadata"]["name"].as_str().unwrap_or_default());
        std::fs::rename(directory.write("staged", object.to_string())?, folder.join(name))?;
        Ok(())
    };
    let group = unique::group("shop");
    put(&definition(&group)).await?;
    for (name, color) in [("a", "blue"), ("b", "green"), ("c", "blue"), ("d", "red"), ("e", "blue")] {
        put(&shirt(&group, "default", name, color)).await?;
    }
    let fieldcache = Box::pin(Fieldcache::serve_folder(&folder)).await?;
    let kubectl = Kubectl::with_server(fieldcache.address())?;
    let requested = questions(&kubectl, &group, "default", &put).await?;
    println!("kubectl: {requested} commands against a folder");
    Ok(())
}

#[tokio::test]
async fn kubectl_reads_a_cluster_through_fieldcache() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let group = unique::group("shop");
    objects::create_definition(&writer, &definition(&group)).await?;
    let namespace = objects::create_namespace(&writer).await?;
    let path = format!("/apis/{group}/v1/namespaces/{namespace}/shirts");
    let put = async |object: &Value| -> Result<()> {
        let one = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        if writer.get(&one).await?.status.is_success() {
            objects::merge(&writer, &one, object).await?;
        } else {
            objects::create(&writer, &path, object).await?;
        }
        Ok(())
    };
    for (name, color) in [("a", "blue"), ("b", "green"), ("c", "blue"), ("d", "red"), ("e", "blue")] {
        put(&shirt(&group, &namespace, name, color)).await?;
    }
    let resource = format!("shirts.v1.{group}");
    let fieldcache = Box::pin(Fieldcache::serve_cluster(control_plane.kubeconfig(), &[&resource])).await?;
    let kubectl = Kubectl::with_server(fieldcache.address())?;
    let requested = questions(&kubectl, &group, &namespace, &put).await?;

    // The same words as from the server itself, ages apart.
    let direct = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    let plural = format!("shirts.{group}");
    let commands: [&[&str]; 4] = [
        &["get", &plural, "-A", "-o", "yaml"],
        &["get", &plural, "-n", &namespace, "-o", "name", "-l", "team=sea"],
        &["explain", &plural, "--recursive"],
        &["get", &plural, "-n", &namespace, "-o", "custom-columns=N:.metadata.name,C:.spec.color"],
    ];
    for command in commands {
        let (theirs, ours) = (direct.succeed(command).await?, kubectl.succeed(command).await?);
        ensure!(theirs == ours, "{command:?}:\n{theirs}\n<>\n{ours}");
    }
    println!("kubectl: {} commands against a cluster", requested + commands.len());
    Ok(())
}

/// What a person types first; a to e are there, a, c and e are blue.
async fn questions(
    kubectl: &Kubectl,
    group: &str,
    namespace: &str,
    put: &impl AsyncFn(&Value) -> Result<()>,
) -> Result<usize> {
    let plural = format!("shirts.{group}");
    let short = short(group);
    let says = async |command: &[&str], expected: &[&str]| -> Result<String> {
        let said = kubectl.succeed(command).await?;
        for text in expected {
            ensure!(said.contains(text), "{command:?} does not say {text:?}:\n{said}");
        }
        Ok(said)
    };
    let names = async |command: &[&str], expected: &[&str]| -> Result<()> {
        let said = kubectl.succeed(&[command, &["-o", "name"]].concat()).await?;
        let names: Vec<&str> = said.lines().filter_map(|line| line.rsplit_once('/')).map(|(_, name)| name).collect();
        ensure!(names == expected, "{command:?}: {names:?}");
        Ok(())
    };
    let table =
        says(&["get", &plural, "-A", "--field-selector", "spec.color=blue"], &["NAMESPACE", "NAME", "COLOR"]).await?;
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().take(3).collect()).collect();
    ensure!(rows == ["a", "c", "e"].map(|name| vec![namespace, name, "blue"]), "{table}");
    ensure!(!table.contains("SIZE"), "a column of priority 1: {table}");
    says(&["get", &plural, "-n", namespace, "-o", "wide"], &["SIZE", "green"]).await?;
    names(&["get", &plural, "-n", namespace], &["a", "b", "c", "d", "e"]).await?;
    names(&["get", &plural, "-n", namespace, "-l", "team=land"], &["b", "d"]).await?;
    names(
        &["get", &plural, "-n", namespace, "-l", "team in (sea)", "--field-selector", "metadata.name!=a"],
        &["c", "e"],
    )
    .await?;
    names(&["get", &plural, "-A", "--chunk-size=2"], &["a", "b", "c", "d", "e"]).await?;
    names(&["get", &plural, "-A", "--chunk-size=2", "--field-selector", "spec.color!=blue"], &["b", "d"]).await?;
    names(&["get", &short, "-n", namespace, "--field-selector", "spec.size=M"], &["a", "b", "c", "d", "e"]).await?;
    says(
        &["get", &plural, "a", "-n", namespace, "-o", "yaml"],
        &["kind: Shirt", "  color: blue", "resourceVersion: \""],
    )
    .await?;
    says(&["get", &plural, "-n", namespace, "-o", "yaml"], &["kind: List", "  color: red"]).await?;
    says(&["get", &plural, "-n", namespace, "--sort-by=.spec.color"], &["COLOR"]).await?;
    says(&["describe", &plural, "b", "-n", namespace], &["Kind:         Shirt", "Color:  green"]).await?;
    // kube-apiserver publishes a definition some time after it serves it.
    let explained = async || says(&["explain", &plural], &["A shirt one can order.", "KIND:       Shirt"]).await;
    eventually("the definition is published", SOON, explained).await?;
    says(&["explain", &format!("{plural}.spec.color")], &["Its color.", "<string>"]).await?;
    let resources = says(&["api-resources", "--api-group", group], &["shirts", "Shirt"]).await?;
    ensure!(resources.contains(&short) && resources.contains(&format!("{group}/v1")), "{resources}");
    says(&["api-versions"], &[&format!("{group}/v1"), "\nv1\n"]).await?;
    says(&["version"], &["Server Version: v1.36"]).await?;

    let refused = kubectl.run(&["get", &plural, "-A", "--field-selector", "spec.nosuch=x"]).await?;
    ensure!(refused.exit_code == 1, "{refused:?}");
    ensure!(refused.stderr.contains("field label not supported: spec.nosuch"), "{}", refused.stderr);
    let absent = kubectl.run(&["get", &plural, "zz", "-n", namespace]).await?;
    ensure!(absent.exit_code == 1 && absent.stderr.contains("(NotFound)"), "{}", absent.stderr);

    // A watch while objects change: b turns blue, a leaves, an unrelated change is not shown.
    let watched =
        ["get", &plural, "-n", namespace, "-w", "--field-selector", "spec.color=blue", "--output-watch-events"];
    let watch = kubectl.start(&watched)?;
    let sees = async |event: &str, name: &str| {
        let what = format!("{event} {name}");
        let found = watch.line(&what, SOON, |line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(event) && words.next() == Some(name)).then_some(())
        });
        found.await.with_context(|| what.clone())
    };
    for name in ["a", "c", "e"] {
        sees("ADDED", name).await?;
    }
    put(&shirt(group, namespace, "d", "pink")).await?;
    put(&shirt(group, namespace, "b", "blue")).await?;
    sees("ADDED", "b").await?;
    put(&shirt(group, namespace, "a", "black")).await?;
    sees("DELETED", "a").await?;
    ensure!(!watch.stdout()?.lines().any(|line| line.split_whitespace().nth(1) == Some("d")), "{}", watch.stdout()?);
    names(&["get", &plural, "-n", namespace, "--field-selector", "spec.color=blue"], &["b", "c", "e"]).await?;
    Ok(21)
}

/// The project's own samples, as a newcomer meets them.
#[tokio::test]
async fn the_samples_are_served_as_their_first_lines_say() -> Result<()> {
    let directory = RunDirectory::create("samples")?;
    let folder = directory.path().join("served");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/samples");
    for name in ["", "objects"] {
        std::fs::create_dir(folder.join(name))?;
        for entry in std::fs::read_dir(samples.join(name)).with_context(|| samples.display().to_string())? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), folder.join(name).join(entry.file_name()))?;
            }
        }
    }
    let fieldcache = Box::pin(Fieldcache::serve_folder(&folder)).await?;
    let process = fieldcache.process();

    // What it prints to be pasted works.
    let address = fieldcache.address();
    let start = format!("  kubectl --server {address} get ");
    let pasted = process.line("a kubectl line", SOON, |line| line.strip_prefix(&start).map(str::to_owned)).await?;
    let curl = process.line("a curl line", SOON, |line| line.strip_prefix("  curl '").map(str::to_owned)).await?;
    ensure!(process.stderr()?.is_empty(), "the samples are not right: {}", process.stderr()?);
    let kubectl = Kubectl::with_server(address)?;
    let pasted: Vec<&str> = std::iter::once("get").chain(pasted.split_whitespace()).collect();
    let table = kubectl.succeed(&pasted).await?;
    ensure!(pasted.contains(&"--field-selector") && table.lines().count() > 1, "{pasted:?}: {table}");
    let path = curl.trim_end_matches('\'').strip_prefix(address).with_context(|| curl.clone())?;
    let list = fieldcache.client().get_json(path).await?;
    ensure!(list["items"].as_array().is_some_and(|items| items.len() == table.lines().count() - 1), "{list}");

    let blue = ["get", "shirts", "-A", "--field-selector", "spec.color=blue", "-o", "name"];
    let names = |said: &str| said.lines().map(|line| line.rsplit('/').next().unwrap_or_default().to_owned()).collect();
    let listed: Vec<String> = names(&kubectl.succeed(&blue).await?);
    ensure!(listed == ["example1", "example2", "example4"], "{listed:?}");
    ensure!(kubectl.succeed(&["get", "sh", "-A"]).await?.lines().count() == 7, "by short name");
    ensure!(kubectl.succeed(&["explain", "shirts"]).await?.contains("Shirt is one shirt in the shop."), "explain");
    ensure!(kubectl.succeed(&["api-resources"]).await?.contains("stable.example.com/v1"), "api-resources");

    // A file changes while kubectl looks.
    let watch = kubectl.start(&["get", "shirts", "-A", "-w", "--field-selector", "spec.color=blue", "-o", "name"])?;
    let sees = async |name: &str, times: usize| {
        let line = format!("shirt.stable.example.com/{name}");
        eventually(&format!("{line}, {times} times"), SOON, async || {
            let seen = watch.stdout()?.lines().filter(|seen| *seen == line).count();
            ensure!(seen == times, "seen {seen} times: {}", watch.tail());
            Ok(())
        })
        .await
    };
    sees("example4", 1).await?;
    let file = folder.join("objects/shirts.yaml");
    let text = std::fs::read_to_string(&file)?;
    let changed = text.replace("spec: {color: red, size: L}", "spec: {color: blue, size: L}");
    ensure!(changed != text, "the sample has no red shirt");
    std::fs::write(&file, changed)?;
    sees("example5", 1).await?;
    let listed: Vec<String> = names(&kubectl.succeed(&blue).await?);
    ensure!(listed == ["example1", "example2", "example4", "example5"], "{listed:?}");
    println!("kubectl: the samples, and both lines that are printed for them");
    Ok(())
}

#[tokio::test]
async fn a_folder_is_selected_by_the_fields_of_a_field_cache() -> Result<()> {
    let directory = RunDirectory::create("extra-fields")?;
    let folder = directory.path().join("served");
    std::fs::create_dir(&folder)?;
    let put = |name: &str, object: &Value| -> Result<()> {
        std::fs::rename(directory.write("staged", object.to_string())?, folder.join(name))?;
        Ok(())
    };
    let group = unique::group("shop");
    let mut definition = definition(&group);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["steps"] = json!({
        "type": "array", "items": { "type": "object", "properties": { "image": { "type": "string" } } },
    });
    put("definition.json", &definition)?;
    for (name, images) in [("a", &["nginx", "redis"][..]), ("b", &["redis"]), ("c", &[])] {
        let mut shirt = shirt(&group, "default", name, "blue");
        shirt["spec"]["steps"] = images.iter().map(|image| json!({ "image": image })).collect();
        put(&format!("{name}.json"), &shirt)?;
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "p", "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u-1" }] },
        "spec": { "containers": [{ "name": "c", "image": "nginx" }] },
    });
    put("pod.json", &pod)?;
    let cache = |name: &str, group: &str, resource: &str, fields: Value| {
        json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": name },
            "spec": { "group": group, "resource": resource, "selectableFields": fields },
        })
    };
    let images = json!([
        { "name": "images", "jsonPath": "$.spec.steps[*].image" },
        { "name": "size", "printerColumn": "Size" },
    ]);
    put("cache.json", &cache(&format!("shirts.{group}"), &group, "shirts", images))?;
    put(
        "pods.json",
        &cache("pods", "", "pods", json!([{ "name": "owner", "jsonPath": "$.metadata.ownerReferences[*].uid" }])),
    )?;

    let fieldcache = Box::pin(Fieldcache::serve_folder(&folder)).await?;
    let kubectl = Kubectl::with_server(fieldcache.address())?;
    for (resource, selector, expected) in [
        ("shirts", "images=nginx", &["a"][..]),
        ("shirts", "images=redis", &["a", "b"]),
        ("shirts", "images!=nginx", &["b", "c"]),
        ("shirts", "images!=nginx,images!=redis,spec.color=blue", &["c"]),
        ("shirts", "size=M,images=redis,metadata.name=b", &["b"]),
        ("pods", "owner=u-1,status.phase=", &["p"]),
        ("pods", "owner=u-2", &[]),
    ] {
        let names = kubectl.succeed(&["get", resource, "--field-selector", selector, "-o", "name"]).await?;
        let names: Vec<&str> = names.lines().filter_map(|line| line.split('/').nth(1)).collect();
        ensure!(names == expected, "{resource} {selector}: {names:?}");
    }
    let refused = kubectl.run(&["get", "shirts", "--field-selector", "image=nginx"]).await?;
    ensure!(refused.stderr.contains("field label not supported: image"), "{}", refused.stderr);

    // Published behind the definition's own, on Kind and KindList, in both forms; what has no extra fields is as it was.
    let client = fieldcache.client();
    let added = |name: &str, path: &str, words: &str| (name.to_owned(), path.to_owned(), words.to_owned());
    for (document, place, own) in [
        (
            format!("/openapi/v3/apis/{group}/v1"),
            "/components/schemas",
            json!([{ "fieldPath": "spec.color" }, { "fieldPath": "spec.size" }]),
        ),
        (
            "/openapi/v2".to_owned(),
            "/definitions",
            json!([{ "fieldPath": "spec.color" }, { "fieldPath": "spec.size" }]),
        ),
    ] {
        let document = client.get_json(&document).await?;
        let prefix: Vec<&str> = group.split('.').rev().collect();
        for kind in ["Shirt", "ShirtList"] {
            let definition = document.pointer(place).map(|all| all[format!("{}.v1.{kind}", prefix.join("."))].clone());
            let definition = definition.context("definitions")?;
            let fields = definition["x-kubernetes-selectable-fields"].as_array().cloned().unwrap_or_default();
            ensure!(fields[..2] == own.as_array().cloned().unwrap_or_default(), "{kind}: {fields:?}");
            let expected =
                [added("images", "$.spec.steps[*].image", "several"), added("size", ".spec.size", "The value at")];
            ensure!(fields.len() == 4, "{kind}: {fields:?}");
            for (field, (name, path, words)) in fields[2..].iter().zip(expected) {
                let description = field["description"].as_str().unwrap_or_default();
                ensure!(
                    field["fieldPath"] == name && description.contains(&path) && description.contains(&words),
                    "{field}"
                );
            }
        }
    }

    // A change of the FieldCache is followed, and one that is wrong is reported with its place.
    put(
        "cache.json",
        &cache(
            &format!("shirts.{group}"),
            &group,
            "shirts",
            json!([{ "name": "steps", "jsonPath": "$.spec.steps[0].image" }]),
        ),
    )?;
    let followed = async || {
        let names = kubectl.run(&["get", "shirts", "--field-selector", "steps=redis", "-o", "name"]).await?;
        ensure!(names.stdout.lines().count() == 1, "{names:?}");
        Ok(())
    };
    eventually("the new field is served", SOON, followed).await?;
    put(
        "pods.json",
        &cache("pods", "", "pods", json!([{ "name": "owner", "jsonPath": "$.metadata.ownerReference[*].uid" }])),
    )?;
    let reported = async || {
        let log = fieldcache.process().stderr()?;
        ensure!(log.contains("pods.json:1: FieldCache pods: spec.selectableFields[0].jsonPath: the schema has no \"ownerReference\" in $.metadata; the nearest is $.metadata.ownerReferences"), "{log}");
        Ok(())
    };
    eventually("the problem is reported", SOON, reported).await?;
    println!("kubectl: extra fields of a folder");
    Ok(())
}
