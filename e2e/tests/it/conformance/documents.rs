//! OpenAPI (O1 to O5, E14 to E16): documents equal to kube-apiserver's, and their HTTP.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::http::{Client, Request};
use e2e::openapi::{Form, View, decode};
use e2e::versions::Kubernetes;
use e2e::{compare, fixtures, objects, unique};
use http::Method;
use serde_json::{Value, json};

use super::backend::{Backend, SOON};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

#[tokio::test]
async fn documents_of_a_cluster() -> Result<()> {
    let backend = Backend::cluster().await?;
    run(&backend).await?;
    as_kube_apiserver_publishes_them(&backend).await.context("beside kube-apiserver")
}

#[tokio::test]
async fn documents_of_a_folder() -> Result<()> {
    run(&Backend::folder().await?).await
}

async fn run(backend: &Backend) -> Result<()> {
    shirts(backend).await.context("O1, O2, O4")?;
    let rows = over_http(backend).await.context("E14")?;
    not_served_any_more(backend).await.context("E15")?;
    two_in_one_group(backend).await.context("E16")?;
    println!("conformance: O1, O2, O4, E14 ({rows} rows), E15, E16, folder: {}", backend.is_folder());
    Ok(())
}

/// The v3 document of a group and version at its current address, once it is announced.
async fn v3(client: &Client, group_version: &str) -> Result<(String, Value)> {
    let key = format!("apis/{group_version}");
    let url = eventually(&format!("{key} is announced"), SOON, async || {
        let index = client.get_json("/openapi/v3").await?;
        index["paths"][&key]["serverRelativeURL"].as_str().map(str::to_owned).context("not yet")
    })
    .await?;
    let document = client.get_json(&url).await?;
    Ok((url, document))
}

/// The schema whose name ends so.
fn schema(document: &Value, name: &str) -> Result<Value> {
    let schemas = document["components"]["schemas"].as_object().or(document["definitions"].as_object());
    let found = schemas.into_iter().flatten().find(|(key, _)| *key == name);
    found.map(|(_, schema)| schema.clone()).with_context(|| format!("no schema {name}"))
}

/// `com.example.NAME.v1.Kind` for `NAME.example.com`.
fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

async fn v2_definition(client: &Client, name: &str) -> Result<Value> {
    eventually(&format!("v2 defines {name}"), SOON, async || schema(&client.get_json("/openapi/v2").await?, name)).await
}

/// O1, O2, O4.
async fn shirts(backend: &Backend) -> Result<()> {
    let group = unique::group("documents");
    let mut definition = fixtures::shirts(&group, &fixtures::no_conversion());
    definition["spec"]["versions"][1].as_object_mut().context("an object")?.remove("selectableFields");
    definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["description"] = "without fields".into();
    backend.define(&definition).await?;
    let client = backend.client();
    let expected = json!([
        { "fieldPath": "spec.color" }, { "fieldPath": "spec.quantity" }, { "fieldPath": "spec.size" }, { "fieldPath": "spec.branded" },
    ]);
    let extension = "x-kubernetes-selectable-fields";
    let (url, document) = v3(&client, &format!("{group}/v1")).await?;
    let protobuf = client.send(Request::get(&url).header("accept", V3_PROTOBUF)).await?.success()?;
    let decoded = decode(Form::V3, View::Document, &protobuf.body)?;
    let v2 = v2_definition(&client, &definition_name(&group, "v1", "Shirt")).await?;
    ensure!(v2[extension] == expected, "v2: {v2}");
    for kind in ["Shirt", "ShirtList"] {
        let name = definition_name(&group, "v1", kind);
        ensure!(schema(&document, &name)?[extension] == expected, "v3 {kind}");
        compare::equal("JSON", &schema(&document, &name)?, "protobuf", &schema(&decoded, &name)?)?;
    }
    let (_, other) = v3(&client, &format!("{group}/v1beta1")).await?;
    let other = schema(&other, &definition_name(&group, "v1beta1", "Shirt"))?;
    // What a cluster publishes is forwarded: 1.32 publishes an empty list where there is nothing to publish.
    let empty = json!([]);
    let nothing = (!backend.is_folder() && Kubernetes::under_test()?.minor() == 32).then_some(&empty);
    ensure!(other.get(extension) == nothing, "O4: a version without fields: {:?}", other.get(extension));

    let protobuf = client.send(Request::get("/openapi/v2").header("accept", V2_PROTOBUF)).await?.success()?;
    let decoded = decode(Form::V2, View::Document, &protobuf.body)?;
    let name = definition_name(&group, "v1", "Shirt");
    compare::equal("v2 JSON", &v2, "v2 protobuf", &schema(&decoded, &name)?)?;
    let message = decode(Form::V2, View::Message, &protobuf.body)?;
    let definitions = message["definitions"]["additionalProperties"].as_array().context("definitions")?;
    let shirt = definitions.iter().find(|named| named["name"] == name.as_str()).context("no Shirt")?;
    let vendor = shirt["value"]["vendorExtension"].as_array().context("no extensions")?;
    let fields = vendor.iter().find(|named| named["name"] == extension).context("no selectable fields")?;
    let yaml =
        "- fieldPath: spec.color\n- fieldPath: spec.quantity\n- fieldPath: spec.size\n- fieldPath: spec.branded\n";
    ensure!(fields["value"]["yaml"] == yaml, "{fields}");
    Ok(())
}

/// E14. Where there is a kube-apiserver, its answers are the expectation too.
async fn over_http(backend: &Backend) -> Result<usize> {
    let group = unique::group("http");
    backend.define(&fixtures::shirts(&group, &fixtures::no_conversion())).await?;
    let client = backend.client();
    let (url, document) = v3(&client, &format!("{group}/v1")).await?;
    let path = format!("/openapi/v3/apis/{group}/v1");
    ensure!(url.starts_with(&format!("{path}?hash=")), "{url}");
    let v2_dotted = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let v3_dotted = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let stale = format!("{path}?hash=00");
    let unknown = "/openapi/v3/apis/nobody.example.com/v1".to_owned();
    let slash = format!("{path}/");
    // Path, Accept, status, Content-Type.
    let rows: [(&str, Option<&str>, u16, Option<&str>); 17] = [
        ("/openapi/v2", None, 200, Some("application/json")),
        ("/openapi/v2", Some("*/*"), 200, Some("application/json")),
        ("/openapi/v2", Some("application/json"), 200, Some("application/json")),
        ("/openapi/v2", Some(V2_PROTOBUF), 200, Some(v2_dotted)),
        ("/openapi/v2", Some(v2_dotted), 200, Some(v2_dotted)),
        ("/openapi/v2", Some("text/html"), 406, None),
        ("/openapi/v2", Some(V3_PROTOBUF), 406, None),
        (&url, None, 200, Some("application/json")),
        (&url, Some("*/*"), 200, Some("application/json")),
        (&url, Some(V3_PROTOBUF), 200, Some(v3_dotted)),
        (&url, Some(v3_dotted), 200, Some(v3_dotted)),
        (&url, Some("text/html"), 406, None),
        (&path, None, 200, Some("application/json")),
        (&stale, None, 301, None),
        (&unknown, None, 404, None),
        (&slash, None, 404, None),
        ("/openapi/v3", Some("text/html"), 200, None),
    ];
    for (path, accept, status, content_type) in &rows {
        let mut request = Request::get(*path);
        if let Some(accept) = accept {
            request = request.header("accept", accept);
        }
        let ours = client.send(request.clone()).await?;
        let what = format!("{path} as {accept:?}");
        ensure!(ours.status.as_u16() == *status, "{what}: {}", ours.status);
        if content_type.is_some() {
            ensure!(ours.header("content-type") == *content_type, "{what}: {:?}", ours.header("content-type"));
        }
        if let Backend::Cluster { writer, .. } = backend {
            // Its own hash of its own document.
            let theirs = if *path == url { v3(writer, &format!("{group}/v1")).await?.0 } else { (*path).to_owned() };
            let answer = writer.send(Request { path: theirs, ..request }).await?;
            ensure!(answer.status == ours.status, "{what}: kube-apiserver says {}", answer.status);
            for header in ["content-type", "vary"] {
                // The discovery of its aggregator calls itself plain text, which is not to be copied.
                if *status == 200 && *path != "/openapi/v3" {
                    ensure!(
                        answer.header(header) == ours.header(header),
                        "{what}: {header}: {:?} <> {:?}",
                        answer.header(header),
                        ours.header(header)
                    );
                }
            }
        }
    }

    let fresh = client.get(&url).await?;
    let control = fresh.header("cache-control").unwrap_or_default();
    ensure!(control.contains("public") && control.contains("immutable"), "{control}");
    ensure!(fresh.header("expires").is_some_and(|expires| expires.ends_with("UTC")), "{:?}", fresh.header("expires"));
    let hash = url.split_once("hash=").context("a hash")?.1;
    let etag = fresh.header("etag").context("an ETag")?.to_owned();
    ensure!(etag.trim_matches('"') == hash && hash.len() == 128, "{etag} and {hash}");
    let unchanged = client.send(Request::get(&url).header("if-none-match", &etag)).await?;
    ensure!(unchanged.status.as_u16() == 304 && unchanged.body.is_empty(), "{}", unchanged.status);
    let uncacheable = client.get(&path).await?;
    let control = uncacheable.header("cache-control").unwrap_or_default();
    ensure!(!control.contains("immutable"), "{control}");
    ensure!(uncacheable.json()? == document, "the document without a hash is the same");
    let moved = client.get(&stale).await?;
    ensure!(moved.header("location") == Some(&url) && moved.body.is_empty(), "{:?}", moved.header("location"));
    let moved = client.send(Request::new(Method::HEAD, stale.clone())).await?;
    ensure!(moved.status.as_u16() == 301, "HEAD {}", moved.status);

    // Another test's definition may come in between.
    eventually("one ETag for both forms, and 304 for a client that has it", SOON, async || {
        let v2 = client.get("/openapi/v2").await?;
        let etag = v2.header("etag").context("an ETag of v2")?.to_owned();
        let as_protobuf = client.send(Request::get("/openapi/v2").header("accept", V2_PROTOBUF)).await?;
        ensure!(as_protobuf.header("etag") == Some(&etag), "{etag} and {:?}", as_protobuf.headers);
        let unchanged = client.send(Request::get("/openapi/v2").header("if-none-match", &etag)).await?;
        ensure!(unchanged.status.as_u16() == 304, "{}", unchanged.status);
        Ok(())
    })
    .await?;
    let compressed = client.send(Request::get("/openapi/v2").header("accept-encoding", "gzip")).await?;
    ensure!(compressed.header("content-encoding") == Some("gzip"), "v2 compresses");
    Ok(rows.len() + 9)
}

/// E15: upstream leaves the v3 document and its key until the definition goes; here it goes with the version.
async fn not_served_any_more(backend: &Backend) -> Result<()> {
    let group = unique::group("unserved");
    let mut definition = fixtures::shirts(&group, &fixtures::no_conversion());
    backend.define(&definition).await?;
    let client = backend.client();
    v3(&client, &format!("{group}/v1beta1")).await?;
    definition["spec"]["versions"][1]["served"] = false.into();
    backend.put(objects::DEFINITIONS, &definition).await?;
    let key = format!("apis/{group}/v1beta1");
    eventually("the document of a version that is not served goes", SOON, async || {
        let index = client.get_json("/openapi/v3").await?;
        ensure!(index["paths"].get(&key).is_none(), "still announced");
        ensure!(client.get(&format!("/openapi/v3/{key}")).await?.status.as_u16() == 404, "still there");
        ensure!(client.get(&format!("/{key}/shirts")).await?.status.as_u16() == 404, "still served");
        let v2 = client.get_json("/openapi/v2").await?;
        ensure!(schema(&v2, &definition_name(&group, "v1beta1", "Shirt")).is_err(), "still in v2");
        Ok(())
    })
    .await?;
    v3(&client, &format!("{group}/v1")).await?;
    Ok(())
}

/// E16.
async fn two_in_one_group(backend: &Backend) -> Result<()> {
    let group = unique::group("two");
    let shirts = fixtures::shirts(&group, &fixtures::no_conversion());
    backend.define(&shirts).await?;
    backend.define(&fixtures::host_ports(&group, &fixtures::no_conversion())).await?;
    let client = backend.client();
    let both = eventually("both kinds are in one document", SOON, async || {
        let (url, document) = v3(&client, &format!("{group}/v1")).await?;
        for kind in ["Shirt", "HostPort"] {
            let fields = &schema(&document, &definition_name(&group, "v1", kind))?["x-kubernetes-selectable-fields"];
            ensure!(fields.is_array(), "{kind}");
        }
        Ok(url)
    })
    .await?;
    let etag = client.get("/openapi/v2").await?.header("etag").map(str::to_owned);
    let mut fewer = shirts;
    fewer["spec"]["versions"][0]["selectableFields"].as_array_mut().context("fields")?.remove(1);
    backend.put(objects::DEFINITIONS, &fewer).await?;
    eventually("fewer fields are another document", SOON, async || {
        let (url, document) = v3(&client, &format!("{group}/v1")).await?;
        ensure!(url != both, "the same hash");
        for kind in ["Shirt", "ShirtList"] {
            let fields = &schema(&document, &definition_name(&group, "v1", kind))?["x-kubernetes-selectable-fields"];
            ensure!(fields.as_array().is_some_and(|fields| fields.len() == 3), "{kind}: {fields}");
        }
        let v2 = client.get("/openapi/v2").await?;
        ensure!(v2.header("etag").map(str::to_owned) != etag, "the same ETag of v2");
        Ok(())
    })
    .await?;
    ensure!(client.get(&both).await?.status.as_u16() == 301, "the old address");
    Ok(())
}

/// O3 and O5 as far as v1 definitions can have their shapes, and everything else: whole documents, compared.
async fn as_kube_apiserver_publishes_them(backend: &Backend) -> Result<()> {
    let Backend::Cluster { writer, .. } = backend else { return Ok(()) };
    let group = unique::group("published");
    let properties = json!({
        "color": { "type": "string", "default": "blue", "description": "Its color." },
        "note": { "type": "string", "nullable": true },
        "either": { "x-kubernetes-int-or-string": true, "maximum": 100 },
        "choice": { "type": "string", "oneOf": [{ "minLength": 1 }, { "maxLength": 9 }] },
        "free": { "x-kubernetes-preserve-unknown-fields": true },
        "open": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": { "x": { "type": "string" } } },
        "list": { "type": "array", "items": { "type": "string", "nullable": true } },
        "template": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
        "m": { "type": "object", "additionalProperties": { "type": "string" } },
    });
    let version = |name: &str, is_stored: bool, root: Value| {
        json!({
            "name": name, "served": true, "storage": is_stored, "schema": { "openAPIV3Schema": root },
            "subresources": if is_stored { json!({ "status": {}, "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" } }) } else { json!({}) },
            "selectableFields": if is_stored { json!([{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.note" }]) } else { json!([{ "jsonPath": ".spec.color" }]) },
        })
    };
    let spec = json!({ "type": "object", "properties": { "spec": { "type": "object", "required": ["note", "color"], "properties": properties } } });
    let mut free_root = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    free_root["properties"] = json!({ "spec": { "type": "object", "properties": { "color": { "type": "string" } } } });
    let versions = [version("v1", true, spec), version("v1beta1", false, free_root)];
    let names = ("coats", "coat", "Coat");
    let definition = fixtures::definition(&group, "Namespaced", names, &versions, &fixtures::no_conversion());
    backend.define(&definition).await?;
    let client = backend.client();
    for version in ["v1", "v1beta1"] {
        eventually("the documents are equal", SOON, async || {
            let (theirs, ours) = (
                v3(writer, &format!("{group}/{version}")).await?.1,
                v3(&client, &format!("{group}/{version}")).await?.1,
            );
            compare::equal("kube-apiserver", &theirs, "fieldcache", &ours).context(version)
        })
        .await?;
        for kind in ["Coat", "CoatList"] {
            let name = definition_name(&group, version, kind);
            let theirs = v2_definition(writer, &name).await?;
            let ours = v2_definition(&client, &name).await?;
            compare::equal("kube-apiserver", &theirs, "fieldcache", &ours).with_context(|| format!("v2 {name}"))?;
        }
    }
    // Paths and operations of v2.
    let (theirs, ours) = (writer.get_json("/openapi/v2").await?, client.get_json("/openapi/v2").await?);
    let prefix = format!("/apis/{group}/");
    let paths = |document: &Value| -> Value {
        let paths = document["paths"].as_object().into_iter().flatten().filter(|(path, _)| path.starts_with(&prefix));
        Value::Object(paths.map(|(path, item)| (path.clone(), item.clone())).collect())
    };
    ensure!(paths(&theirs).as_object().is_some_and(|paths| paths.len() >= 8), "{}", paths(&theirs));
    compare::equal("kube-apiserver", &paths(&theirs), "fieldcache", &paths(&ours)).context("paths of v2")?;
    let protobuf = |client: Client| async move {
        let answer = client.send(Request::get("/openapi/v2").header("accept", V2_PROTOBUF)).await?.success()?;
        decode(Form::V2, View::Document, &answer.body)
    };
    let (theirs, ours) = (protobuf((**writer).clone()).await?, protobuf(client).await?);
    let name = definition_name(&group, "v1", "Coat");
    compare::equal("kube-apiserver", &schema(&theirs, &name)?, "fieldcache", &schema(&ours, &name)?)
        .context("v2 protobuf")?;

    // Built-in types carry the fields that the KEP lists, and are otherwise as they were.
    let pod = schema(&ours, "io.k8s.api.core.v1.Pod")?;
    let fields = pod["x-kubernetes-selectable-fields"].as_array().context("Pod has no fields")?;
    let labels: BTreeSet<&str> = fields.iter().filter_map(|field| field["fieldPath"].as_str()).collect();
    for label in
        ["metadata.name", "metadata.namespace", "spec.nodeName", "spec.hostNetwork", "status.phase", "status.podIP"]
    {
        ensure!(labels.contains(label), "Pod has no {label}: {labels:?}");
    }
    let mut bare = pod.clone();
    bare.as_object_mut().context("an object")?.remove("x-kubernetes-selectable-fields");
    compare::equal("kube-apiserver", &schema(&theirs, "io.k8s.api.core.v1.Pod")?, "fieldcache", &bare)?;
    println!("conformance: O3, O5, documents of 2 versions equal to kube-apiserver's");
    Ok(())
}
