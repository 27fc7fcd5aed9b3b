//! Deletions of collections by the selectors that only fieldcache has, forwarded object by object to a real
//! kube-apiserver. Each deletion is checked at kube-apiserver itself.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::compare;
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Answer, Client, Request};
use e2e::run_directory::RunDirectory;
use e2e::{fixtures, objects, unique};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(60);

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The shirts of a namespace: name, color and size.
const SHIRTS: [(&str, &str, i64); 5] =
    [("a", "blue", 9), ("b", "black", 10), ("c", "red", 11), ("d", "green", 200), ("e", "blue", 300)];

async fn serve(kubeconfig: &std::path::Path) -> Result<Fieldcache> {
    let arguments = ["--kubeconfig", &kubeconfig.display().to_string(), "--pass-through", "all"].map(str::to_owned);
    Box::pin(Fieldcache::serve(arguments)).await
}

fn definition(group: &str, scope: &str) -> Value {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "color": { "type": "string" }, "size": { "type": "integer" },
        } } } } },
        "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.size" }],
    });
    fixtures::definition(group, scope, ("shirts", "shirt", "Shirt"), &[version], &fixtures::no_conversion())
}

fn shirt(group: &str, (name, color, size): (&str, &str, i64)) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Shirt",
        "metadata": { "name": name, "labels": { "tone": color } }, "spec": { "color": color, "size": size },
    })
}

/// Creates those of [`SHIRTS`] that are missing.
async fn fill(direct: &Client, group: &str, path: &str) -> Result<()> {
    let left = names(&direct.get_json(path).await?);
    for described in SHIRTS.iter().filter(|(name, ..)| !left.contains(&(*name).to_owned())) {
        objects::create(direct, path, &shirt(group, *described)).await?;
    }
    Ok(())
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

fn query(parameters: &[(&str, &str)]) -> String {
    let encoded = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    let pairs: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    format!("?{}", pairs.join("&"))
}

async fn delete(client: &Client, path: &str) -> Result<Answer> {
    client.send(Request::new(Method::DELETE, path)).await
}

/// Query parameters: names and values.
type Parameters = &'static [(&'static str, &'static str)];

/// The selectors of the tests, with the names that they select.
const SELECTED: [(Parameters, &[&str]); 8] = [
    (&[("fieldSelector", "spec.color in (blue,red)")], &["a", "c", "e"]),
    (&[("fieldSelector", "spec.color^=bl")], &["a", "b", "e"]),
    (&[("fieldSelector", "spec.size>9,spec.size<=200")], &["b", "c", "d"]),
    (&[("fieldSelector", "spec.color notin (blue,red),metadata.name!=d")], &["b"]),
    (&[("celSelector", "self.spec.color == 'blue' || self.spec.size == 200")], &["a", "d", "e"]),
    (&[("celSelector", "self.spec.size % 2 == 1"), ("labelSelector", "tone in (blue,red)")], &["a", "c"]),
    (&[("celSelector", "self.spec.size > 9"), ("fieldSelector", "spec.color=blue")], &["e"]),
    (&[("fieldSelector", "spec.color in (white)")], &[]),
];

#[tokio::test]
async fn what_only_fieldcache_selects_is_deleted_in_one_namespace_and_of_a_whole_cluster() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let (namespaced, cluster_wide) = (unique::group("shop"), unique::group("world"));
    objects::create_definition(&direct, &definition(&namespaced, "Namespaced")).await?;
    objects::create_definition(&direct, &definition(&cluster_wide, "Cluster")).await?;
    let (namespace, other) = (objects::create_namespace(&direct).await?, objects::create_namespace(&direct).await?);
    let fieldcache = serve(control_plane.kubeconfig()).await?;
    let client = fieldcache.client();
    let inside = |namespace: &str| format!("/apis/{namespaced}/v1/namespaces/{namespace}/shirts");
    let elsewhere = inside(&other);
    fill(&direct, &namespaced, &elsewhere).await?;
    for (group, path) in [(&namespaced, inside(&namespace)), (&cluster_wide, format!("/apis/{cluster_wide}/v1/shirts"))]
    {
        for (parameters, expected) in SELECTED {
            fill(&direct, group, &path).await?;
            let selected = format!("{path}{}", query(parameters));
            let dry = format!("{selected}&dryRun=All");
            let list = delete(&client, &dry).await?.success()?.json()?;
            ensure!(names(&list) == expected, "{dry}: {list}");
            ensure!(names(&direct.get_json(&path).await?).len() == SHIRTS.len(), "{dry}: a dry run deletes nothing");
            let answer = delete(&client, &selected).await?.success()?;
            ensure!(answer.header("fieldcache-read").is_some_and(|read| read != "forwarded"), "{:?}", answer.headers);
            let list = answer.json()?;
            ensure!(names(&list) == expected && list["kind"] == "ShirtList", "{selected}: {list}");
            let left = names(&direct.get_json(&path).await?);
            let kept: Vec<&str> =
                SHIRTS.map(|(name, ..)| name).into_iter().filter(|name| !expected.contains(name)).collect();
            ensure!(left == kept, "{selected}: {left:?}");
            ensure!(names(&client.get_json(&path).await?) == left, "{selected}: later reads see the deletions");
        }
    }
    ensure!(names(&direct.get_json(&elsewhere).await?).len() == SHIRTS.len(), "the other namespace is unchanged");

    // kube-apiserver deletes no namespaced collection in all namespaces, whatever its selectors are.
    let everywhere = format!("/apis/{namespaced}/v1/shirts");
    let plain = delete(&direct, &everywhere).await?;
    let selected = format!("{everywhere}{}", query(&[("fieldSelector", "spec.color in (blue,red)")]));
    let through = delete(&client, &selected).await?;
    ensure!((through.status, through.text()) == (plain.status, plain.text()), "{} {}", through.status, through.text());
    ensure!(!plain.status.is_success(), "{}", plain.text());
    let expression = delete(&client, &format!("{everywhere}{}", query(&[("celSelector", "true")]))).await?;
    ensure!(expression.status == 400 && expression.text().contains("celSelector"), "{}", expression.text());
    ensure!(names(&direct.get_json(&elsewhere).await?).len() == SHIRTS.len(), "nothing is deleted everywhere");

    // A selector that is too long for a URL at kube-apiserver.
    fill(&direct, &namespaced, &inside(&namespace)).await?;
    let many: Vec<String> = (0..8_000).map(|number| format!("none-{number}")).collect();
    let long = format!("metadata.name in (a,{},c)", many.join(","));
    let path = format!("{}{}", inside(&namespace), query(&[("fieldSelector", &long)]));
    ensure!(path.len() > 100_000, "{}", path.len());
    // The client of the tests cannot send it.
    let authority = fieldcache.address().trim_start_matches("http://");
    let mut connection = TcpStream::connect(authority).await?;
    let request = format!("DELETE {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"ShirtList\""), "{answer}");
    ensure!(names(&direct.get_json(&inside(&namespace)).await?) == ["b", "d", "e"], "the two of the long selector");

    // Invalid selectors.
    fill(&direct, &namespaced, &inside(&namespace)).await?;
    for parameters in [("fieldSelector", "spec.color>5"), ("celSelector", "self.spec.colour == 'blue'")] {
        let path = format!("{}{}", inside(&namespace), query(&[parameters]));
        let (list, deletion) = (client.get(&path).await?, delete(&client, &path).await?);
        ensure!(list.status == 400 && deletion.status == 400 && list.text() == deletion.text(), "{}", deletion.text());
    }
    ensure!(names(&direct.get_json(&inside(&namespace)).await?).len() == SHIRTS.len(), "nothing is deleted");
    Ok(())
}

/// The form of DeleteOptions that has `gracePeriodSeconds: 0`, in protobuf.
fn protobuf_options() -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        [&[number << 3 | 2, length][..], bytes].concat()
    };
    let kind = [field(1, b"v1"), field(2, b"DeleteOptions")].concat();
    [&b"k8s\0"[..], &field(1, &kind), &field(2, &[8, 0])].concat()
}

/// A Pod that is bound to a node gets a grace period, unless the options say otherwise.
#[tokio::test]
async fn options_in_the_body_apply_to_each_object() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let namespace = objects::create_namespace(&direct).await?;
    let fieldcache = serve(control_plane.kubeconfig()).await?;
    let client = fieldcache.client();
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let selected = format!("{pods}{}", query(&[("fieldSelector", "metadata.name^=web-,spec.nodeName")]));
    let json = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0 }).to_string();
    let dry = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"] }).to_string();
    let yaml = "kind: DeleteOptions\napiVersion: v1\ngracePeriodSeconds: 0\n";
    let protobuf = "application/vnd.kubernetes.protobuf";
    for (media_type, body, left) in [
        ("application/json", json.into_bytes(), 1),
        ("application/yaml", yaml.into(), 1),
        (protobuf, protobuf_options(), 1),
        ("application/json", dry.into_bytes(), 3),
    ] {
        for name in ["web-1", "web-2", "db-1"] {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
                "spec": { "nodeName": "nowhere", "containers": [{ "name": "c", "image": "none" }] },
            });
            if direct.get(&format!("{pods}/{name}")).await?.status == 404 {
                objects::create(&direct, &pods, &pod).await?;
            }
        }
        let mut request = Request::new(Method::DELETE, &selected).header("content-type", media_type);
        request.body = body.into();
        // The list has the format that the client accepts.
        let accept = if media_type == protobuf { protobuf } else { "application/json" };
        let answer = client.send(request.header("accept", accept)).await?.success()?;
        ensure!(answer.header("content-type") == Some(accept), "{media_type}: {:?}", answer.headers);
        let found = direct.get_json(&pods).await?;
        ensure!(names(&found).len() == left, "{media_type}: {:?}", names(&found));
        ensure!(found["items"][0]["metadata"]["deletionTimestamp"].is_null(), "{media_type}: {found}");
    }
    let invalid = Request::new(Method::DELETE, &selected).json(&json!({ "kind": "DeleteOptions", "apiVersion": "v1",
        "gracePeriodSeconds": 1, "propagationPolicy": "Sideways" }));
    let refused = client.send(invalid).await?;
    ensure!(refused.status == 422 && refused.text().contains("Sideways"), "{} {}", refused.status, refused.text());
    let in_query = delete(&client, &format!("{selected}&propagationPolicy=Sideways")).await?;
    ensure!(in_query.status == 422 && in_query.text().contains("Sideways"), "{}", in_query.text());
    let html = client.send(Request::new(Method::DELETE, &selected).header("accept", "text/html")).await?;
    ensure!(html.status == 406, "{} {}", html.status, html.text());
    ensure!(names(&direct.get_json(&pods).await?).len() == 3, "nothing is deleted");
    // Without options, they get the grace period.
    delete(&client, &selected).await?.success()?;
    let list = direct.get_json(&pods).await?;
    let going = |item: &&Value| !item["metadata"]["deletionTimestamp"].is_null();
    ensure!(list["items"].as_array().into_iter().flatten().filter(going).count() == 2, "{list}");
    Ok(())
}

/// Takes out of a list what differs between two namespaces.
fn comparable(mut list: Value) -> Value {
    list["metadata"] = json!({});
    for item in list["items"].as_array_mut().into_iter().flatten() {
        if let Some(metadata) = item["metadata"].as_object_mut() {
            for member in ["namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"] {
                metadata.remove(member);
            }
        }
    }
    list
}

#[tokio::test]
async fn a_plain_selector_has_the_same_result_as_beside() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let group = unique::group("shop");
    objects::create_definition(&direct, &definition(&group, "Namespaced")).await?;
    let fieldcache = serve(control_plane.kubeconfig()).await?;
    let client = fieldcache.client();
    for (plain, extended) in [
        (("fieldSelector", "spec.color=blue"), ("fieldSelector", "spec.color in (blue)")),
        (("fieldSelector", "spec.color!=blue,spec.color!=red"), ("fieldSelector", "spec.color notin (blue,red)")),
        (("labelSelector", "tone in (blue,red)"), ("celSelector", "self.spec.color in ['blue', 'red']")),
        (("fieldSelector", "metadata.name=none"), ("fieldSelector", "metadata.name in (none)")),
    ] {
        let mut results = Vec::new();
        for (client, parameter, is_forwarded) in
            [(&direct, plain, None), (&client, plain, Some("forwarded")), (&client, extended, Some("own"))]
        {
            let namespace = objects::create_namespace(&direct).await?;
            let path = format!("/apis/{group}/v1/namespaces/{namespace}/shirts");
            fill(&direct, &group, &path).await?;
            let answer = delete(client, &format!("{path}{}", query(&[parameter]))).await?.success()?;
            let read = answer.header("fieldcache-read").map(|read| if read == "catch-up" { "own" } else { read });
            ensure!(read == is_forwarded, "{parameter:?}: {read:?}");
            let list = answer.json()?;
            ensure!(list["metadata"]["resourceVersion"].is_string(), "{list}");
            results.push((comparable(list), names(&direct.get_json(&path).await?)));
        }
        for (list, left) in &results[1..] {
            compare::equal("kube-apiserver", &results[0].0, "fieldcache", list)
                .with_context(|| format!("{plain:?}"))?;
            ensure!(left == &results[0].1, "{plain:?}: {left:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_caller_needs_the_permission_to_delete_the_collection() -> Result<()> {
    let control_plane = ControlPlane::shared().await?;
    let direct = control_plane.client();
    let group = unique::group("shop");
    objects::create_definition(&direct, &definition(&group, "Namespaced")).await?;
    let (permitted, forbidden) = (objects::create_namespace(&direct).await?, objects::create_namespace(&direct).await?);
    let user = unique::name("jane");
    let subjects = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }]);
    let bind = async |folder: &str, scope: &str, groups: Value, resources: Value, verbs: Value| -> Result<()> {
        let name = unique::name("role");
        let kind = format!("{scope}Role");
        let plural = kind.to_lowercase();
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name },
            "rules": [{ "apiGroups": groups, "resources": resources, "verbs": verbs }],
        });
        objects::create(&direct, &format!("{RBAC}{folder}/{plural}s"), &role).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name }, "subjects": subjects,
        });
        objects::create(&direct, &format!("{RBAC}{folder}/{plural}bindings"), &binding).await?;
        Ok(())
    };
    let reading = json!(["get", "list", "watch"]);
    let definitions = json!(["customresourcedefinitions"]);
    bind("", "Cluster", json!(["apiextensions.k8s.io"]), definitions, reading.clone()).await?;
    // The permission to delete single objects is another one.
    let all = json!(["get", "list", "watch", "delete"]);
    bind("", "Cluster", json!([group]), json!(["shirts"]), all).await?;
    let deleting = json!(["deletecollection"]);
    bind(&format!("/namespaces/{permitted}"), "", json!([group]), json!(["shirts"]), deleting).await?;
    let (endpoint, kubeconfig) = control_plane.as_user(&user, None)?;
    let theirs = endpoint.client();
    let inside = |namespace: &str| format!("/apis/{group}/v1/namespaces/{namespace}/shirts");
    let none = query(&[("labelSelector", "none=none")]);
    eventually("the permissions are granted", SOON, async || {
        theirs.get_json(&format!("/apis/{group}/v1/shirts")).await?;
        delete(&theirs, &format!("{}{none}", inside(&permitted))).await?.success()
    })
    .await?;
    let files = RunDirectory::create("delete-collection")?;
    let fieldcache = serve(&files.write("kubeconfig", kubeconfig.to_string())?).await?;
    let client = fieldcache.client();
    for namespace in [&permitted, &forbidden] {
        fill(&direct, &group, &inside(namespace)).await?;
    }
    let refused = delete(&theirs, &format!("{}{none}", inside(&forbidden))).await?;
    ensure!(refused.status == 403, "{}", refused.text());
    // The response is the same whether objects are selected, none is, or the selector is invalid.
    for parameter in [
        ("fieldSelector", "spec.color in (blue,red)"),
        ("fieldSelector", "spec.color in (white)"),
        ("fieldSelector", "spec.color>5"),
        ("celSelector", "true"),
    ] {
        let path = inside(&forbidden);
        ensure!(names(&client.get_json(&path).await?).len() == SHIRTS.len(), "the caller may list");
        let answer = delete(&client, &format!("{path}{}", query(&[parameter]))).await?;
        ensure!((answer.status, answer.text()) == (refused.status, refused.text()), "{parameter:?}: {}", answer.text());
    }
    ensure!(names(&direct.get_json(&inside(&forbidden)).await?).len() == SHIRTS.len(), "nothing is deleted");
    let path = format!("{}{}", inside(&permitted), query(&[("fieldSelector", "spec.color in (blue,red)")]));
    let list = delete(&client, &path).await?.success()?.json()?;
    ensure!(names(&list) == ["a", "c", "e"], "{list}");
    ensure!(names(&direct.get_json(&inside(&permitted)).await?) == ["b", "d"], "in the permitted namespace");
    Ok(())
}

/// The admission of kube-apiserver decides about each object, and its first error is the response.
#[tokio::test]
async fn an_object_that_admission_protects_stays() -> Result<()> {
    // One of its own, because the policy is for the whole cluster.
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let direct = control_plane.client();
    let group = unique::group("shop");
    objects::create_definition(&direct, &definition(&group, "Namespaced")).await?;
    let path = format!("/apis/{group}/v1/namespaces/default/shirts");
    fill(&direct, &group, &path).await?;
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({ "apiGroups": [group], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["shirts"] });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "red-stays" },
        "spec": {
            "matchConstraints": { "resourceRules": [rule] },
            "validations": [{ "expression": "oldObject.spec.color != 'red'", "message": "red stays" }],
        },
    });
    objects::create(&direct, &format!("{policies}/validatingadmissionpolicies"), &policy).await?;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "red-stays" }, "spec": { "policyName": "red-stays", "validationActions": ["Deny"] },
    });
    objects::create(&direct, &format!("{policies}/validatingadmissionpolicybindings"), &binding).await?;
    eventually("the policy is in force", SOON, async || {
        let answer = delete(&direct, &format!("{path}/c?dryRun=All")).await?;
        ensure!(answer.status == 422, "{} {}", answer.status, answer.text());
        Ok(())
    })
    .await?;
    let fieldcache = serve(control_plane.kubeconfig()).await?;
    let client = fieldcache.client();
    let refused =
        delete(&client, &format!("{path}{}", query(&[("fieldSelector", "spec.color in (red,white)")]))).await?;
    ensure!(refused.status == 422 && refused.text().contains("red stays"), "{} {}", refused.status, refused.text());
    let left = names(&direct.get_json(&path).await?);
    ensure!(left.len() == SHIRTS.len(), "{left:?}");
    let deleted = delete(&client, &format!("{path}{}", query(&[("celSelector", "self.spec.color != 'red'")]))).await?;
    ensure!(deleted.status == 200, "{}", deleted.text());
    ensure!(names(&direct.get_json(&path).await?) == ["c"], "the others are deleted");
    Ok(())
}
