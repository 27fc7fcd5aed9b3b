//! Our own kinds on a real kube-apiserver: the definitions are taken and established, and every bound, default and rule holds.

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::http::{Client, Request};
use e2e::kubectl::Kubectl;
use e2e::run_directory::RunDirectory;
use e2e::{compare, fieldcache};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

const PLURALS: [&str; 3] = ["fieldcaches", "selectableresources", "views"];
const SOON: Duration = Duration::from_secs(60);

fn definitions_folder() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds").display().to_string()
}

/// What the object is refused with, in its parts; nothing for one that is taken.
struct Row {
    title: &'static str,
    plural: &'static str,
    object: Value,
    refusal: &'static [&'static str],
}

fn field_cache(title: &'static str, name: &str, spec: Value, refusal: &'static [&'static str]) -> Row {
    Row { title, plural: "fieldcaches", object: object("FieldCache", name, spec), refusal }
}

fn view(title: &'static str, spec: Value, refusal: &'static [&'static str]) -> Row {
    Row { title, plural: "views", object: object("View", "v", spec), refusal }
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "fieldcache.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn fields(list: Value) -> Value {
    json!({"group": "stable.example.com", "resource": "shirts", "selectableFields": list})
}

fn resource(more: Value) -> Value {
    let mut resource = json!({"group": "stable.example.com", "resource": "shirts"});
    if let (Value::Object(resource), Value::Object(more)) = (&mut resource, more) {
        resource.extend(more);
    }
    json!({"resources": [resource]})
}

/// `count` of these, numbered.
fn many(count: usize, make: impl Fn(usize) -> Value) -> Value {
    (0..count).map(make).collect()
}

const SHIRTS: &str = "shirts.stable.example.com";

fn field_caches() -> Vec<Row> {
    let a = || "a".repeat(64);
    vec![
        field_cache("a custom resource", SHIRTS, json!({"group": "stable.example.com", "resource": "shirts"}), &[]),
        field_cache("a core resource", "pods", json!({"resource": "pods"}), &[]),
        field_cache("the empty group", "pods", json!({"group": "", "resource": "pods"}), &[]),
        field_cache(
            "another name",
            "hats",
            json!({"group": "stable.example.com", "resource": "shirts"}),
            &["the name must be shirts.stable.example.com, so that there is one FieldCache for each resource"],
        ),
        field_cache("another name in core", "po", json!({"resource": "pods"}), &["the name must be pods,"]),
        field_cache("no resource", "x", json!({"group": "g"}), &["spec.resource: Required value"]),
        field_cache("an empty resource", "x", json!({"resource": ""}), &["spec.resource", "at least 1 chars long"]),
        field_cache(
            "a subresource",
            "pods",
            json!({"resource": "pods/log"}),
            &["spec.resource", "must be the plural name of a resource such as shirts"],
        ),
        field_cache("a resource in capitals", "Pods", json!({"resource": "Pods"}), &["spec.resource", "in lower case"]),
        field_cache(
            "a long resource",
            "x",
            json!({"resource": a()}),
            &["spec.resource: Too long: may not be more than 63 bytes"],
        ),
        field_cache(
            "a group with a version",
            "shirts.g",
            json!({"group": "g/v1", "resource": "shirts"}),
            &["spec.group", "must be an API group such as stable.example.com, without a version"],
        ),
        field_cache(
            "a long group",
            "x",
            json!({"group": "g".repeat(254), "resource": "x"}),
            &["spec.group: Too long: may not be more than 253 bytes"],
        ),
        field_cache("versions", "pods", json!({"resource": "pods", "versions": ["v1", "v2beta1"]}), &[]),
        field_cache(
            "a version twice",
            "pods",
            json!({"resource": "pods", "versions": ["v1", "v1"]}),
            &["spec.versions[1]: Duplicate value: \"v1\""],
        ),
        field_cache(
            "a group as version",
            "pods",
            json!({"resource": "pods", "versions": ["g/v1"]}),
            &["spec.versions[0]", "should match"],
        ),
        field_cache(
            "nine versions",
            "pods",
            json!({"resource": "pods", "versions": many(9, |index| json!(format!("v{index}")))}),
            &["spec.versions: Too many: 9: must have at most 8 items"],
        ),
        field_cache(
            "fields of all kinds",
            SHIRTS,
            fields(json!([
                {"name": "images", "jsonPath": "$.spec.steps[*].image"},
                {"name": "size", "printerColumn": "Size"},
                {"name": "owner-1", "jsonPath": "$.metadata.ownerReferences[0]['uid']"},
                {"name": "0", "jsonPath": "$"},
            ])),
            &[],
        ),
        field_cache(
            "both a path and a column",
            SHIRTS,
            fields(json!([{"name": "a", "jsonPath": "$.a", "printerColumn": "A"}])),
            &["spec.selectableFields[0]", "exactly one of jsonPath and printerColumn must be set"],
        ),
        field_cache(
            "neither",
            SHIRTS,
            fields(json!([{"name": "a"}])),
            &["exactly one of jsonPath and printerColumn must be set"],
        ),
        field_cache(
            "no name",
            SHIRTS,
            fields(json!([{"jsonPath": "$.a"}])),
            &["spec.selectableFields[0].name: Required value"],
        ),
        field_cache(
            "an empty name",
            SHIRTS,
            fields(json!([{"name": "", "jsonPath": "$.a"}])),
            &["spec.selectableFields[0].name", "at least 1 chars long"],
        ),
        field_cache(
            "a name twice",
            SHIRTS,
            fields(json!([{"name": "a", "jsonPath": "$.a"}, {"name": "a", "jsonPath": "$.b"}])),
            &["spec.selectableFields[1]: Duplicate value: {\"name\":\"a\"}"],
        ),
        field_cache(
            "a name with a dot",
            SHIRTS,
            fields(json!([{"name": "spec.a", "jsonPath": "$.a"}])),
            &["spec.selectableFields[0].name", "must consist of lower-case letters"],
        ),
        field_cache(
            "a name in capitals",
            SHIRTS,
            fields(json!([{"name": "Images", "jsonPath": "$.a"}])),
            &["must consist of lower-case letters"],
        ),
        field_cache(
            "a name that ends in a dash",
            SHIRTS,
            fields(json!([{"name": "a-", "jsonPath": "$.a"}])),
            &["begin and end with a letter or digit"],
        ),
        field_cache(
            "a long name",
            SHIRTS,
            fields(json!([{"name": a(), "jsonPath": "$.a"}])),
            &["spec.selectableFields[0].name: Too long: may not be more than 63 bytes"],
        ),
        field_cache(
            "a path without $",
            SHIRTS,
            fields(json!([{"name": "a", "jsonPath": ".spec.a"}])),
            &[
                "spec.selectableFields[0].jsonPath",
                "must be an RFC 9535 path, which begins with $, such as $.spec.color",
            ],
        ),
        field_cache(
            "an empty path",
            SHIRTS,
            fields(json!([{"name": "a", "jsonPath": ""}])),
            &["spec.selectableFields[0].jsonPath", "at least 1 chars long"],
        ),
        field_cache(
            "a long path",
            SHIRTS,
            fields(json!([{"name": "a", "jsonPath": format!("$.{}", "a".repeat(511))}])),
            &["spec.selectableFields[0].jsonPath: Too long: may not be more than 512 bytes"],
        ),
        field_cache(
            "a long column",
            SHIRTS,
            fields(json!([{"name": "a", "printerColumn": "a".repeat(129)}])),
            &["printerColumn: Too long: may not be more than 128 bytes"],
        ),
        field_cache(
            "32 fields as long as they may be",
            SHIRTS,
            fields(many(
                32,
                |index| json!({"name": format!("{index:0>63}"), "jsonPath": format!("${}", ".".repeat(511))}),
            )),
            &[],
        ),
        field_cache(
            "33 fields",
            SHIRTS,
            fields(many(33, |index| json!({"name": format!("f{index}"), "jsonPath": "$.a"}))),
            &["spec.selectableFields: Too many: 33: must have at most 32 items"],
        ),
        field_cache(
            "a scope",
            "pods",
            json!({"resource": "pods", "scope": {"labelSelector": {"matchLabels": {"a": "b"}}, "fieldSelector": {"matchExpressions": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}}}),
            &[],
        ),
        field_cache(
            "an empty scope",
            "pods",
            json!({"resource": "pods", "scope": {"labelSelector": {}, "fieldSelector": {"matchExpressions": []}}}),
            &[],
        ),
        field_cache(
            "a scope of two values",
            "pods",
            json!({"resource": "pods", "scope": {"fieldSelector": {"matchExpressions": [{"key": "spec.nodeName", "operator": "In", "values": ["n1", "n2"]}]}}}),
            &[
                "spec.scope.fieldSelector",
                "the API server selects the objects of a scope, and supports only In and NotIn, each with exactly one value",
            ],
        ),
        field_cache(
            "a scope by existence",
            "pods",
            json!({"resource": "pods", "scope": {"fieldSelector": {"matchExpressions": [{"key": "spec.nodeName", "operator": "Exists"}]}}}),
            &["supports only In and NotIn, each with exactly one value"],
        ),
        field_cache(
            "a label requirement without values",
            "pods",
            json!({"resource": "pods", "scope": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}),
            &["In and NotIn need values, Exists and DoesNotExist forbid them"],
        ),
        field_cache(
            "a label requirement with values that are not requested",
            "pods",
            json!({"resource": "pods", "scope": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}}}),
            &["matchExpressions[0].values", "Exists and DoesNotExist forbid them"],
        ),
        field_cache(
            "an operator of another kind",
            "pods",
            json!({"resource": "pods", "scope": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}}),
            &["operator: Unsupported value: \"Gt\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\""],
        ),
        field_cache(
            "an unknown field",
            "pods",
            json!({"resource": "pods", "selectable": []}),
            &["unknown field \"spec.selectable\""],
        ),
    ]
}

fn views() -> Vec<Row> {
    let selector = |requirement: Value| resource(json!({"fieldSelector": {"matchExpressions": [requirement]}}));
    let with = |more: Value| {
        let mut spec = resource(json!({}));
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        spec
    };
    vec![
        view("a resource", resource(json!({})), &[]),
        view(
            "everything",
            with(json!({
                "resources": [{
                    "resource": "pods", "namespaces": ["a", "b"], "labelSelector": {"matchLabels": {"a": "b"}},
                    "fieldSelector": {"matchExpressions": [{"key": "spec.nodeName", "operator": "NotIn", "values": ["a", "b"]}]},
                    "prune": [
                        ".metadata.managedFields", ".spec.containers", ".metadata.annotations['example.com/a.b']", ".data[\"it's\"].x",
                        ".metadata.labelsOf", format!(".metadata.annotations['{}']", "k".repeat(480)),
                    ],
                    "keep": [".metadata", ".metadata.name", ".metadata.labels['example.com/a']", ".spec.containers", ".data[\"it's\"].x"],
                }],
                "consumer": {"fields": [{"key": "spec.nodeName", "value": "NodeName"}], "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"]},
                "authorization": "Caller", "consistency": "Strong",
            })),
            &[],
        ),
        view("no resources", json!({}), &["spec.resources: Required value"]),
        view(
            "an empty list of resources",
            json!({"resources": []}),
            &["spec.resources", "should have at least 1 items"],
        ),
        view(
            "nine resources",
            json!({"resources": many(9, |index| json!({"resource": format!("r{index}")}))}),
            &["spec.resources: Too many: 9: must have at most 8 items"],
        ),
        view(
            "a resource twice",
            json!({"resources": [{"resource": "pods"}, {"group": "", "resource": "pods"}]}),
            &["spec.resources[1]: Duplicate value"],
        ),
        view(
            "a kind for a resource",
            json!({"resources": [{"resource": "Pod"}]}),
            &["spec.resources[0].resource", "must be the plural name"],
        ),
        view(
            "a namespace twice",
            resource(json!({"namespaces": ["a", "a"]})),
            &["namespaces[1]: Duplicate value: \"a\""],
        ),
        view("a namespace in capitals", resource(json!({"namespaces": ["A"]})), &["namespaces[0]", "should match"]),
        view(
            "65 namespaces",
            resource(json!({"namespaces": many(65, |index| json!(format!("n{index}")))})),
            &["namespaces: Too many: 65: must have at most 64 items"],
        ),
        view("a field that exists", selector(json!({"key": "images", "operator": "Exists"})), &[]),
        view(
            "a field in no value",
            selector(json!({"key": "images", "operator": "In", "values": []})),
            &["fieldSelector.matchExpressions[0].values", "In and NotIn need values"],
        ),
        view(
            "a field that does not exist with a value",
            selector(json!({"key": "a", "operator": "DoesNotExist", "values": ["x"]})),
            &["Exists and DoesNotExist forbid them"],
        ),
        view(
            "65 values",
            selector(json!({"key": "a", "operator": "In", "values": many(65, |index| json!(index.to_string()))})),
            &["values: Too many: 65: must have at most 64 items"],
        ),
        view(
            "a long value",
            selector(json!({"key": "a", "operator": "In", "values": ["x".repeat(1025)]})),
            &["values[0]: Too long: may not be more than 1024 bytes"],
        ),
        view("no key", selector(json!({"operator": "Exists"})), &["key: Required value"]),
        view(
            "a path without a dot",
            resource(json!({"prune": ["metadata.managedFields"]})),
            &["prune[0]", "should match"],
        ),
        view("an element of a list", resource(json!({"prune": [".spec.a[0]"]})), &["prune[0]", "should match"]),
        view("an element of a list to keep", resource(json!({"keep": [".spec.a[0]"]})), &["keep[0]", "should match"]),
        view("a path to keep twice", resource(json!({"keep": [".a", ".a"]})), &["keep[1]: Duplicate value"]),
        view("a key that is not closed", resource(json!({"prune": [".spec['a"]})), &["prune[0]", "should match"]),
        view("no first name", resource(json!({"prune": ["['spec']"]})), &["prune[0]", "should match"]),
        view("an empty key", resource(json!({"prune": [".spec['']"]})), &["prune[0]", "should match"]),
        view(
            "a long path",
            resource(json!({"prune": [format!(".spec.{}", "x".repeat(512))]})),
            &["prune[0]", "may not be more than 512 bytes"],
        ),
        view(
            "no name",
            resource(json!({"prune": [".metadata.name"]})),
            &["clients identify and select objects by them"],
        ),
        view(
            "no name, in quotes",
            resource(json!({"prune": [".metadata['name']"]})),
            &["clients identify and select objects by them"],
        ),
        view(
            "no labels, in quotes",
            resource(json!({"prune": [".metadata[\"labels\"].app"]})),
            &["clients identify and select objects by them"],
        ),
        view(
            "no label with a dot",
            resource(json!({"prune": [".metadata.labels['example.com/app']"]})),
            &["clients identify and select objects by them"],
        ),
        view(
            "no labels",
            resource(json!({"prune": [".metadata.labels.app"]})),
            &["clients identify and select objects by them"],
        ),
        view(
            "no metadata at all",
            resource(json!({"prune": [".spec", ".metadata"]})),
            &["prune", "cannot be left out"],
        ),
        view(
            "a consumer of nothing",
            with(json!({"consumer": {}})),
            &["spec.consumer", "must have fields, matchLabelKeys or mismatchLabelKeys"],
        ),
        view(
            "a consumer's field twice",
            with(json!({"consumer": {"fields": [{"key": "a", "value": "PodName"}, {"key": "a", "value": "PodUID"}]}})),
            &["spec.consumer.fields[1]: Duplicate value: {\"key\":\"a\"}"],
        ),
        view(
            "another value",
            with(json!({"consumer": {"fields": [{"key": "a", "value": "HostIP"}]}})),
            &[
                "Unsupported value: \"HostIP\": supported values: \"NodeName\", \"PodName\", \"PodUID\", \"Namespace\", \"ServiceAccountName\"",
            ],
        ),
        view(
            "a key that must and must not match",
            with(json!({"consumer": {"matchLabelKeys": ["a", "b"], "mismatchLabelKeys": ["b"]}})),
            &["nothing could be selected"],
        ),
        view(
            "labels as a boundary",
            with(json!({"authorization": "View", "consumer": {"matchLabelKeys": ["a"]}})),
            &["spec.consumer", "need authorization Caller"],
        ),
        view(
            "other labels as a boundary",
            with(json!({"authorization": "View", "consumer": {"mismatchLabelKeys": ["a"]}})),
            &["need authorization Caller"],
        ),
        view(
            "a View as a right",
            with(
                json!({"authorization": "View", "consumer": {"fields": [{"key": "spec.nodeName", "value": "NodeName"}]}}),
            ),
            &[],
        ),
        view(
            "another authorization",
            with(json!({"authorization": "Everybody"})),
            &["spec.authorization: Unsupported value: \"Everybody\": supported values: \"Caller\", \"View\""],
        ),
        view(
            "another consistency",
            with(json!({"consistency": "Linearizable"})),
            &["spec.consistency: Unsupported value: \"Linearizable\": supported values: \"Eventual\", \"Strong\""],
        ),
    ]
}

#[tokio::test]
async fn the_definitions_are_an_api_that_kube_apiserver_takes() -> Result<()> {
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let kubectl = Kubectl::with_kubeconfig(control_plane.kubeconfig())?;
    let client = control_plane.client();

    // Both ways to install, with every validation of the server.
    let directory = RunDirectory::create("definitions")?;
    let printed = Command::new(fieldcache::program()?).arg("crds").output().await?;
    ensure!(printed.status.success(), "fieldcache crds: {}", String::from_utf8_lossy(&printed.stderr));
    let file = directory.write("crds.yaml", &printed.stdout)?.display().to_string();
    let checked = Command::new(fieldcache::program()?).args(["check", &file]).output().await?;
    ensure!(checked.status.success(), "our own check refuses them: {}", String::from_utf8_lossy(&checked.stdout));
    let applied = kubectl.succeed(&["apply", "--server-side", "--validate=strict", "-f", &file]).await?;
    ensure!(applied.lines().count() == 3, "{applied}");
    let again = kubectl.succeed(&["apply", "--server-side", "--validate=strict", "-k", &definitions_folder()]).await?;
    ensure!(again.lines().count() == 3, "{again}");

    for plural in PLURALS {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.fieldcache.dev");
        let established = async || {
            let definition = client.get_json(&path).await?;
            let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_true = |kind: &str| {
                conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
            };
            ensure!(!is_true("NonStructuralSchema"), "{plural}: {conditions:?}");
            let unapproved = conditions.iter().find(|condition| {
                condition["type"] == "KubernetesAPIApprovalPolicyConformant" && condition["status"] != "True"
            });
            ensure!(unapproved.is_none(), "{plural}: {unapproved:?}");
            ensure!(is_true("Established"), "{conditions:?}");
            Ok(())
        };
        eventually(&format!("{plural} is established"), SOON, established).await?;
    }

    let mut faults = Vec::new();
    let rows: Vec<Row> = field_caches().into_iter().chain(views()).collect();
    for row in &rows {
        let path = format!("/apis/fieldcache.dev/v1alpha1/{}?dryRun=All&fieldValidation=Strict", row.plural);
        let answer = client.send(Request::new(Method::POST, path).json(&row.object)).await?;
        let message = answer.json()?["message"].as_str().unwrap_or_default().to_owned();
        let is_taken = answer.status.as_u16() == 201;
        let is_as_expected =
            is_taken == row.refusal.is_empty() && row.refusal.iter().all(|part| message.contains(part));
        if !is_as_expected {
            faults.push(format!("{}: expected {:?}, found {} {message}", row.title, row.refusal, answer.status));
        }
    }
    ensure!(faults.is_empty(), "{} of {}:\n{}", faults.len(), rows.len(), faults.join("\n"));
    println!("own kinds: {} objects judged by kube-apiserver", rows.len());

    defaults_hold(&client).await?;
    status_is_apart(&client).await?;
    people_can_read_them(&kubectl, &client).await
}

async fn create(client: &Client, plural: &str, object: &Value) -> Result<Value> {
    let path = format!("/apis/fieldcache.dev/v1alpha1/{plural}?fieldValidation=Strict");
    let answer = client.send(Request::new(Method::POST, path).json(object)).await?;
    answer.success().context("creating")?.json()
}

async fn defaults_hold(client: &Client) -> Result<()> {
    let pods = create(client, "fieldcaches", &object("FieldCache", "pods", json!({"resource": "pods"}))).await?;
    compare::equal("stored", &pods["spec"], "expected", &json!({"group": "", "resource": "pods"}))?;
    let blue = create(client, "views", &object("View", "blue", json!({"resources": [{"resource": "pods"}]}))).await?;
    let expected =
        json!({"resources": [{"group": "", "resource": "pods"}], "authorization": "Caller", "consistency": "Eventual"});
    compare::equal("stored", &blue["spec"], "expected", &expected)
}

/// Status is written by its own path only, and its bounds hold.
async fn status_is_apart(client: &Client) -> Result<()> {
    let selectable = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "SelectableResource", "metadata": {"name": "pods"},
        "status": {"cached": true},
    });
    let made = create(client, "selectableresources", &selectable).await?;
    ensure!(made.get("status").is_none(), "a status came with the object: {made}");
    let bad_name =
        json!({"apiVersion": "fieldcache.dev/v1alpha1", "kind": "SelectableResource", "metadata": {"name": "1.pods"}});
    let refused = create(client, "selectableresources", &bad_name).await;
    ensure!(format!("{refused:?}").contains("the name must be PLURAL.GROUP of a resource"), "{refused:?}");

    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2024-01-01T00:00:00Z"})
    };
    let field = |path: &str, origin: &str| json!({"fieldPath": path, "jsonPath": format!(".{path}"), "type": "string", "origin": origin});
    let fields = |list: Value| json!({"versions": [{"name": "v1", "fields": list}], "cached": false});
    let rows: [(&str, Value, &[&str]); 9] = [
        (
            "conditions",
            json!({"conditions": [condition("Accepted", "Valid"), condition("Published", "InOpenAPI")], "cached": false}),
            &[],
        ),
        (
            "a condition twice",
            json!({"conditions": [condition("Accepted", "A"), condition("Accepted", "B")]}),
            &["Duplicate value: {\"type\":\"Accepted\"}"],
        ),
        (
            "a reason of two words",
            json!({"conditions": [condition("Accepted", "Not so")]}),
            &["conditions[0].reason", "should match"],
        ),
        (
            "17 conditions",
            json!({"conditions": many(17, |index| condition(&format!("C{index}"), "R"))}),
            &["Too many: 17: must have at most 16 items"],
        ),
        (
            "fields",
            fields(json!([
                field("spec.nodeName", "BuiltIn"),
                field("images", "FieldCache"),
                field("spec.color", "CustomResourceDefinition")
            ])),
            &[],
        ),
        (
            "a field twice",
            fields(json!([field("a", "BuiltIn"), field("a", "FieldCache")])),
            &["Duplicate value: {\"fieldPath\":\"a\"}"],
        ),
        ("another origin", fields(json!([field("a", "Elsewhere")])), &["Unsupported value: \"Elsewhere\""]),
        (
            "129 fields",
            fields(many(129, |index| field(&format!("f{index}"), "BuiltIn"))),
            &["Too many: 129: must have at most 128 items"],
        ),
        ("cached as text", json!({"cached": "yes"}), &["cached", "must be of type boolean"]),
    ];
    for (title, status, refusal) in &rows {
        let path = "/apis/fieldcache.dev/v1alpha1/selectableresources/pods/status?dryRun=All&fieldValidation=Strict";
        let answer = client.send(merge_patch(path, &json!({ "status": status }))).await?;
        let message = answer.json()?["message"].as_str().unwrap_or_default().to_owned();
        let is_as_expected =
            answer.status.is_success() == refusal.is_empty() && refusal.iter().all(|part| message.contains(part));
        ensure!(is_as_expected, "{title}: expected {refusal:?}, found {} {message}", answer.status);
    }
    let path = "/apis/fieldcache.dev/v1alpha1/fieldcaches/pods/status?dryRun=All";
    let answer = client.send(merge_patch(path, &json!({"status": {"objects": -1}}))).await?;
    ensure!(answer.text().contains("should be greater than or equal to 0"), "{}", answer.text());
    Ok(())
}

fn merge_patch(path: &str, patch: &Value) -> Request {
    let mut request = Request::new(Method::PATCH, path).header("content-type", "application/merge-patch+json");
    request.body = patch.to_string().into();
    request
}

async fn people_can_read_them(kubectl: &Kubectl, client: &Client) -> Result<()> {
    for (field, part) in [
        ("fieldcaches", "store a resource with indexes"),
        ("fieldcaches.spec.selectableFields.jsonPath", "RFC 9535 path"),
        ("fieldcaches.spec.scope.labelSelector", "no restriction"),
        ("views.spec.authorization", "Caller, the default"),
        ("views.spec.consumer.matchLabelKeys", "not a security boundary"),
        ("selectableresources.status.versions.fields.origin", "Where the field is defined"),
    ] {
        // OpenAPI follows a new definition after a moment.
        let explained = async || {
            let reported = kubectl.run(&["explain", field]).await?;
            // kubectl breaks lines where they become long.
            let text = reported.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            ensure!(text.contains(part), "{text}");
            Ok(())
        };
        eventually(&format!("kubectl explain {field} says {part:?}"), SOON, explained).await?;
    }
    let table = kubectl.succeed(&["get", "fc,fcv,selres"]).await?;
    for header in ["READY", "OBJECTS", "AUTHORIZATION", "FIELDS", "CACHED"] {
        ensure!(table.contains(header), "{header} is missing:\n{table}");
    }
    // A category with the name of a resource would make kubectl take the resource for all of them.
    for (name, resources) in [
        ("fieldcaches", 1),
        ("fieldcache", 1),
        ("fc", 1),
        ("fieldcaches.fieldcache.dev", 1),
        ("views", 1),
        ("view", 1),
        ("fcv", 1),
        ("selectableresources", 1),
        ("selectableresource", 1),
        ("selres", 1),
        ("fieldcache-dev", 3),
    ] {
        let listed = kubectl.succeed(&["get", name, "-o", "name"]).await?;
        let kinds: BTreeSet<&str> = listed.lines().filter_map(|line| line.split('/').next()).collect();
        ensure!(kinds.len() == resources, "{name} selects {kinds:?}");
    }
    for name in ["fieldcache", "fc", "fieldcaches"] {
        let described = kubectl.succeed(&["describe", name, "pods"]).await?;
        ensure!(described.contains("Kind:         FieldCache"), "{name}: {described}");
    }
    for (selector, expected) in
        [("fieldcaches?fieldSelector=spec.resource%3Dpods", 1), ("views?fieldSelector=spec.authorization%3DView", 0)]
    {
        let list = client.get_json(&format!("/apis/fieldcache.dev/v1alpha1/{selector}")).await?;
        ensure!(list["items"].as_array().map(Vec::len) == Some(expected), "{selector}: {list}");
    }
    Ok(())
}
