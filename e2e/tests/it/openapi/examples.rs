//! The examples in `docs/examples` beside a real kube-apiserver.
//!
//! All three print the same for the same arguments. The names that they print are those that kubectl gets from
//! kube-apiserver for the same selector.

use anyhow::{Context, Result, ensure};
use e2e::clients::{Toolkit, example};
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::kubectl::Kubectl;
use e2e::process::Invocation;
use e2e::run_directory::RunDirectory;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

use super::{SOON, run};

/// The fields of fixture S, in the order of its definition.
const SHIRT_FIELDS: &str = "spec.color, spec.quantity, spec.size, spec.branded";

/// The fields of Pods, from KEP-4358 and kube-apiserver's own conversion of field labels.
const POD_FIELDS: &str = "metadata.name, metadata.namespace, spec.nodeName, spec.restartPolicy, spec.schedulerName, \
                          spec.serviceAccountName, spec.hostNetwork, status.phase, status.podIP, \
                          status.nominatedNodeName";

/// A value with the characters that selectors escape.
const ODD: &str = r"a,b=c\d";

/// Arguments that an example accepts.
struct Accepted {
    group_version: String,
    kind: &'static str,
    terms: Vec<String>,
    fields: &'static str,
    selector: String,
    /// For kubectl.
    resource: String,
    /// How many objects are expected at least, so that no row compares nothing.
    fewest: usize,
}

/// Arguments that an example rejects.
struct Rejected {
    kind: &'static str,
    term: &'static str,
    stdout: String,
    /// What follows the group, version and kind.
    stderr: String,
}

#[tokio::test]
async fn examples_list_what_kubectl_lists_at_kube_apiserver() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let writer = control_plane.client();
    let group = unique::group("examples");
    let group_version = format!("{group}/v1");
    let namespace = create_objects(&writer, &group).await?;
    let kubeconfig = control_plane.kubeconfig();
    let fieldcache = Fieldcache::serve_cluster(kubeconfig, &["pods"]).await?;
    all_is_served(&fieldcache.client(), &group, &namespace).await?;
    let kubectl = Kubectl::with_kubeconfig(kubeconfig)?;
    let folder = RunDirectory::create("examples")?;
    let examples = [("Rust", rust()?), ("Go", example(Toolkit::Go)?), ("Python", example(Toolkit::Python)?)];

    let in_namespace = format!("metadata.namespace={namespace}");
    let custom = |kind, terms: &[&str], fields, selector: &str, fewest| Accepted {
        group_version: group_version.clone(),
        kind,
        terms: terms.iter().map(|term| (*term).to_owned()).collect(),
        fields,
        selector: selector.to_owned(),
        resource: format!("{}s.{group}", kind.to_lowercase()),
        fewest,
    };
    let pod = |terms: &[&str], fewest| {
        let terms: Vec<String> = terms.iter().map(|term| (*term).to_owned()).chain([in_namespace.clone()]).collect();
        let selector = terms.join(",");
        let (group_version, resource) = ("v1".to_owned(), "pods".to_owned());
        Accepted { group_version, kind: "Pod", terms, fields: POD_FIELDS, selector, resource, fewest }
    };
    let odd = format!("spec.color={ODD}");
    let accepted = [
        custom("Shirt", &["spec.color=blue"], SHIRT_FIELDS, "spec.color=blue", 2),
        custom("Shirt", &["spec.color=blue", "spec.size=M"], SHIRT_FIELDS, "spec.color=blue,spec.size=M", 1),
        custom("Shirt", &[&odd], SHIRT_FIELDS, r"spec.color=a\,b\=c\\d", 1),
        custom("Shirt", &["spec.color=black"], SHIRT_FIELDS, "spec.color=black", 0),
        custom("Shirt", &[], SHIRT_FIELDS, "", 4),
        custom("Hat", &[], "none", "", 2),
        pod(&["spec.nodeName=node-1"], 2),
        pod(&["status.phase=Pending", "spec.nodeName=node-2"], 1),
    ];
    for row in &accepted {
        let all = ["get", &row.resource, "-A", "-o"];
        let names = r#"jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}"#;
        let listed = kubectl.succeed(&[&all[..], &[names, "--field-selector", &row.selector]].concat()).await?;
        let names: Vec<&str> = listed.lines().map(|line| line.trim_start_matches('/')).collect();
        ensure!(names.len() >= row.fewest, "{} {}: kubectl lists {names:?}", row.kind, row.selector);
        let lines = names.iter().map(|name| format!("{name}\n")).collect::<String>();
        let expected = format!("selectable: {}\nselector: {}\n{lines}", row.fields, row.selector);
        for (language, invocation) in &examples {
            let arguments = [fieldcache.address(), &row.group_version, row.kind].map(str::to_owned);
            let invocation = invocation.clone().arguments(arguments).arguments(row.terms.clone());
            let ended = run(language, invocation, &folder).await?;
            let what = format!("{language}: {} {:?}", row.kind, row.terms);
            ensure!(ended.code == 0 && ended.stderr.is_empty(), "{what}: {ended:?}");
            ensure!(ended.stdout == expected, "{what}: {:?}, not {expected:?}", ended.stdout);
        }
    }

    let remedy = |term: &str, fields: &str| {
        format!("argument \"{term}\": not FIELD=VALUE with a selectable field; these are selectable: {fields}")
    };
    let selectable = |fields: &str| format!("selectable: {fields}\n");
    let rejected =
        |kind, term, fields| Rejected { kind, term, stdout: selectable(fields), stderr: remedy(term, fields) };
    let no_schema = "its OpenAPI document has no schema of this kind".to_owned();
    let rejected = [
        rejected("Shirt", "spec.colour=blue", SHIRT_FIELDS),
        rejected("Shirt", "spec.color", SHIRT_FIELDS),
        rejected("Hat", "spec.color=blue", "none"),
        Rejected { kind: "Shrit", term: "spec.color=blue", stdout: String::new(), stderr: no_schema },
    ];
    for row in &rejected {
        for (language, invocation) in &examples {
            let arguments = [fieldcache.address(), &group_version, row.kind, row.term].map(str::to_owned);
            let ended = run(language, invocation.clone().arguments(arguments), &folder).await?;
            let what = format!("{language}: {} {}", row.kind, row.term);
            ensure!(ended.code == 1 && ended.stdout == row.stdout, "{what}: {ended:?}");
            let expected = format!("Error: {group_version} {}: {}\n", row.kind, row.stderr);
            ensure!(ended.stderr == expected, "{what}: {:?}, not {expected:?}", ended.stderr);
        }
    }
    // kube-apiserver rejects what the examples reject.
    for (kind, term) in [("shirts", "spec.colour=blue"), ("hats", "spec.color=blue")] {
        let finished = kubectl.run(&["get", &format!("{kind}.{group}"), "--field-selector", term]).await?;
        ensure!(finished.exit_code == 1 && finished.stderr.contains("field label not supported"), "{finished:?}");
    }
    println!("examples: {} accepted rows and {} rejected ones, each in 3 languages", accepted.len(), rejected.len());
    Ok(())
}

/// What `docs/examples/README.md` shows is what the examples print.
#[tokio::test]
async fn the_page_shows_what_the_examples_print() -> Result<()> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let page = std::fs::read_to_string(format!("{root}/docs/examples/README.md")).context("reading the page")?;
    let fieldcache = Fieldcache::serve_folder(format!("{root}/manifests/samples").as_ref()).await?;
    let folder = RunDirectory::create("examples")?;
    let shown = [("$ (cd docs/examples/go", 0), ("$ python3 docs", 0), ("$ cargo run", 0), ("$ python3 docs", 1)];
    let examples = [example(Toolkit::Go)?, example(Toolkit::Python)?, rust()?, example(Toolkit::Python)?];
    let blocks: Vec<&str> = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    ensure!(blocks.len() == 2, "{} blocks", blocks.len());
    for ((command, code), example) in shown.into_iter().zip(examples) {
        let block = blocks[usize::try_from(code)?];
        let line = block.lines().find(|line| line.starts_with(command)).with_context(|| command.to_owned())?;
        let (_, arguments) = line.split_once("http://127.0.0.1:8181 ").with_context(|| line.to_owned())?;
        let arguments = arguments.trim_end_matches(')').split(' ');
        let ended = run("page", example.arguments([fieldcache.address()]).arguments(arguments), &folder).await?;
        let output: Vec<&str> = block.lines().filter(|line| !line.starts_with("$ ")).collect();
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        ensure!(ended.code == code && printed.lines().eq(output), "{line}: {printed}");
    }
    Ok(())
}

/// Shirts, hats (a kind without selectable fields), and Pods in a namespace of their own.
async fn create_objects(writer: &Client, group: &str) -> Result<String> {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "color": { "type": "string" },
        } } } } },
    });
    let conversion = fixtures::no_conversion();
    let hats = fixtures::definition(group, "Namespaced", ("hats", "hat", "Hat"), &[version], &conversion);
    objects::create_definition(writer, &fixtures::shirts(group, &conversion)).await?;
    objects::create_definition(writer, &hats).await?;
    let namespace = objects::create_namespace(writer).await?;
    let custom = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": { "name": name }, "spec": spec });
    let shirts = format!("/apis/{group}/v1/shirts");
    for (name, color, size) in [("one", "blue", "S"), ("two", "blue", "M"), ("three", "green", "M"), ("odd", ODD, "L")]
    {
        objects::create(writer, &shirts, &custom("Shirt", name, json!({ "color": color, "size": size }))).await?;
    }
    for name in ["one", "two"] {
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/hats");
        objects::create(writer, &path, &custom("Hat", name, json!({ "color": "blue" }))).await?;
    }
    for (name, node) in [("one", "node-1"), ("two", "node-2"), ("three", "node-1")] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "registry.example.com/main" }] },
        });
        objects::create(writer, &format!("/api/v1/namespaces/{namespace}/pods"), &pod).await?;
    }
    Ok(namespace)
}

/// Waits until fieldcache has all objects and publishes both kinds.
async fn all_is_served(client: &Client, group: &str, namespace: &str) -> Result<()> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let lists = [(format!("/apis/{group}/v1/shirts"), 4), (format!("/apis/{group}/v1/hats"), 2), (pods, 3)];
    eventually("fieldcache serves all objects and publishes their kinds", SOON, async || {
        for (path, count) in &lists {
            let list = client.get_json(path).await?;
            let items = list["items"].as_array().context("no items")?.len();
            ensure!(items == *count, "{path}: {items} of {count}");
        }
        let document = client.get_json(&format!("/openapi/v3/apis/{group}/v1")).await?;
        let schemas = document["components"]["schemas"].as_object().context("no schemas")?;
        for kind in [".v1.Shirt", ".v1.Hat"] {
            ensure!(schemas.keys().any(|name| name.ends_with(kind)), "no schema {kind}");
        }
        Ok(())
    })
    .await
}

/// The example in Rust is an example of this package: the program is beside the `deps` directory that holds this test.
fn rust() -> Result<Invocation> {
    let this = std::env::current_exe().context("finding this test")?;
    let profile = this.parent().and_then(|deps| deps.parent()).context("a test must be in PROFILE/deps")?;
    let program = profile.join("examples/selectable-fields");
    ensure!(
        program.exists(),
        "there is no {}: run `cargo build -p e2e --example selectable-fields` first",
        program.display()
    );
    Ok(Invocation::new(program))
}
