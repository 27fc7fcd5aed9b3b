//! The definitions and the objects of the suite.
//!
//! Names and namespaces are chosen for the order of keys (`a-b/x` before `a/x`, `x-y` and `x.y` after `x`). Values
//! cover the corners of selectors and columns: missing, empty, zero, of the wrong type, an array, an object, a date.

use anyhow::Result;
use e2e::fixtures::{definition, no_conversion};
use e2e::http::Client;
use e2e::objects;
use serde_json::{Value, json};

use super::stage::{SHOP, Variables, version_of};

/// Namespaced; v1 is stored, v1beta1 is deprecated, has no columns and one selectable field more.
pub(crate) fn shirts(group: &str) -> Value {
    let schema = json!({ "openAPIV3Schema": {
        "type": "object",
        "description": "Shirt is what the shop sells.",
        "properties": {
            "spec": { "type": "object", "properties": {
                "color": { "type": "string", "description": "The colour, by its English name." },
                "quantity": { "type": "integer", "format": "int32", "minimum": 0 },
                "branded": { "type": "boolean" },
                "note": { "type": "string" },
                "size": { "type": "string", "enum": ["S", "M", "L", "XL"], "default": "M" },
                "price": { "type": "number" },
                "made": { "type": "string", "format": "date-time" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "detail": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                "port": { "x-kubernetes-int-or-string": true },
                "maybe": { "type": "string", "nullable": true },
            } },
            "status": { "type": "object", "properties": { "phase": { "type": "string" } } },
        },
    } });
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    let mut columns = vec![
        column("Color", "string", ".spec.color"),
        column("Quantity", "integer", ".spec.quantity"),
        column("Branded", "boolean", ".spec.branded"),
        column("Price", "number", ".spec.price"),
        column("Made", "date", ".spec.made"),
        column("Tags", "string", ".spec.tags[*]"),
        column("First", "string", ".spec.tags[0]"),
        column("All", "string", ".spec.tags"),
        column("Detail", "string", ".spec.detail"),
        column("Counted", "string", ".spec.quantity"),
        column("Wrong", "integer", ".spec.color"),
        column("Never", "date", ".spec.color"),
        column("Phase", "string", ".status.phase"),
        column("App", "string", ".metadata.labels.app"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ];
    columns[0]["description"] = "What colour it is.".into();
    columns[8]["priority"] = 1.into();
    columns[1]["format"] = "int32".into();
    let fields = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({ "jsonPath": format!(".spec.{name}") })).collect()
    };
    let v1 = json!({
        "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": { "status": {} },
        "selectableFields": fields(&["color", "quantity", "branded", "note"]), "additionalPrinterColumns": columns,
    });
    // Equal schemas would be hoisted to one, below which kube-apiserver refuses fields of single versions.
    let mut old_schema = schema.clone();
    old_schema["openAPIV3Schema"]["description"] = "Shirt as it once was.".into();
    let v1beta1 = json!({
        "name": "v1beta1", "served": true, "storage": false, "deprecated": true, "schema": old_schema,
        "subresources": { "status": {} }, "selectableFields": fields(&["color", "size"]),
    });
    let mut shirts = definition(group, "Namespaced", ("shirts", "shirt", "Shirt"), &[v1, v1beta1], &no_conversion());
    shirts["spec"]["names"]["shortNames"] = json!(["sh"]);
    shirts["spec"]["names"]["categories"] = json!(["all", "textiles"]);
    shirts
}

/// Cluster-scoped, one version, one selectable field.
pub(crate) fn banners(group: &str) -> Value {
    let v1 = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "text": { "type": "string" }, "height": { "type": "integer" },
        } } } } },
        "selectableFields": [{ "jsonPath": ".spec.text" }],
        "additionalPrinterColumns": [{ "name": "Text", "type": "string", "jsonPath": ".spec.text" }],
    });
    definition(group, "Cluster", ("banners", "banner", "Banner"), &[v1], &no_conversion())
}

/// A shirt without namespace, which the path gives.
pub(crate) fn shirt(group: &str, name: &str, labels: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Shirt",
        "metadata": { "name": name, "labels": labels }, "spec": spec,
    })
}

/// A banner.
pub(crate) fn banner(group: &str, name: &str, labels: &Value, text: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Banner",
        "metadata": { "name": name, "labels": labels }, "spec": { "text": text },
    })
}

/// Everything the request cases read, in those collections that are served; sets `first`, `middle` (versions in the history of
/// shirts) and `deleted`.
pub(crate) async fn create_all(apiserver: &Client, variables: &mut Variables, served: &[&str]) -> Result<()> {
    for name in ["a", "a-b", "ab", "big", "work"] {
        let labels = json!({ "fixture": "parity", "letter": &name[..1] });
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } });
        objects::create(apiserver, "/api/v1/namespaces", &namespace).await?;
    }
    create_shirts(apiserver, variables).await?;
    for (name, text, side) in [("left", "sale", "l"), ("left-most", "closed", "l"), ("right", "", "r")] {
        let banner = banner(SHOP, name, &json!({ "side": side }), text);
        objects::create(apiserver, "/apis/shop.example.com/v1/banners", &banner).await?;
    }
    create_core(apiserver, served).await?;
    create_workloads(apiserver).await?;
    create_pods_and_nodes(apiserver).await
}

/// What most clients of protobuf read, with quantities, times, maps and numbers or texts.
async fn create_workloads(apiserver: &Client) -> Result<()> {
    let container = json!({
        "name": "c", "image": "c:1", "env": [{ "name": "A", "value": "b" }],
        "resources": { "limits": { "memory": "1.5Gi", "cpu": "0.5" }, "requests": { "cpu": "100m" } },
        "ports": [{ "name": "http", "containerPort": 80 }],
        "readinessProbe": { "httpGet": { "path": "/", "port": "http" } },
        "livenessProbe": { "httpGet": { "path": "/", "port": 80 } },
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "shop", "labels": { "b": "2", "a": "1" }, "annotations": { "text": "<&>\u{2028}\n\"" } },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": { "app": "shop" } },
            "template": { "metadata": { "labels": { "app": "shop" } }, "spec": {
                "containers": [container], "volumes": [{ "name": "v", "configMap": { "name": "small" } }] } },
        },
    });
    objects::create(apiserver, "/apis/apps/v1/namespaces/work/deployments", &deployment).await?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "leader" },
        "spec": { "holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": "2024-01-02T03:04:05.678901Z" },
    });
    objects::create(apiserver, "/apis/coordination.k8s.io/v1/namespaces/work/leases", &lease).await?;
    // Years that Go reads in no JSON. kube-apiserver writes them in protobuf. In another namespace, as lists with it can only be compared
    // byte by byte, with their own versions.
    let odd = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "odd" },
        "spec": { "renewTime": "9999-12-31T23:59:59.000000-23:59", "acquireTime": "0000-01-01T00:00:00.000000+23:59" },
    });
    objects::create(apiserver, "/apis/coordination.k8s.io/v1/namespaces/big/leases", &odd).await?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": { "name": "slice" },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 80 }],
        "endpoints": [{ "addresses": ["10.1.0.1"], "conditions": { "ready": false } }],
    });
    objects::create(apiserver, "/apis/discovery.k8s.io/v1/namespaces/work/endpointslices", &slice).await?;
    Ok(())
}

async fn create_shirts(apiserver: &Client, variables: &mut Variables) -> Result<()> {
    let rows: [(&str, &str, Value, Value); 9] = [
        (
            "a",
            "x",
            json!({ "app": "shop", "tier": "front", "rank": "10" }),
            json!({ "color": "blue", "quantity": 2, "branded": true, "price": 9.5, "made": "2020-01-02T03:04:05Z",
                    "tags": ["new", "soft"], "detail": { "b": 1, "a": ["x", { "y": null }] }, "size": "S" }),
        ),
        (
            "a",
            "x-y",
            json!({ "app": "shop", "tier": "back", "rank": "9" }),
            json!({ "color": "blue", "quantity": 3, "branded": false, "price": 10, "tags": [] }),
        ),
        (
            "a",
            "x.y",
            json!({ "app": "shop", "example.com/team": "red" }),
            json!({ "color": "green", "quantity": 2, "branded": false, "note": "" }),
        ),
        ("a-b", "x", json!({ "app": "depot", "tier": "front", "rank": "ten" }), json!({ "color": "green" })),
        (
            "a-b",
            "x-y",
            json!({ "app": "depot", "empty": "" }),
            json!({ "color": "a,b=c\\d", "quantity": 0, "made": "2999-12-31T00:00:00Z" }),
        ),
        ("a-b", "x.y", json!({}), json!({})),
        (
            "ab",
            "x",
            json!({ "app": "shop", "tier": "middle", "rank": "05" }),
            json!({ "color": "red <&> \u{2028}", "quantity": 12345678, "note": "blue" }),
        ),
        ("ab", "x-y", json!({ "tier": "front" }), json!({ "color": "Blue", "branded": true, "price": 0.1 })),
        (
            "ab",
            "x.y",
            json!({ "app": "shop", "tier": "front" }),
            json!({ "color": "blue", "quantity": 2, "branded": true, "port": 80, "maybe": null, "note": "last" }),
        ),
    ];
    for (index, (namespace, name, labels, spec)) in rows.into_iter().enumerate() {
        let collection = format!("/apis/shop.example.com/v1/namespaces/{namespace}/shirts");
        let created = objects::create(apiserver, &collection, &shirt(SHOP, name, &labels, &spec)).await?;
        match index {
            0 => variables.set("first", version_of(&created)),
            4 => variables.set("middle", version_of(&created)),
            _ => {}
        }
    }
    // A history: a change of a selected field, a status, and an object that comes and goes.
    let path = "/apis/shop.example.com/v1/namespaces/a/shirts";
    let gone = shirt(SHOP, "gone", &json!({ "app": "shop" }), &json!({ "color": "blue" }));
    variables.set("present", version_of(&objects::create(apiserver, path, &gone).await?));
    objects::delete(apiserver, &format!("{path}/gone")).await?;
    let phase = json!({ "status": { "phase": "Sold" } });
    objects::merge(apiserver, &format!("{path}/x/status"), &phase).await?;
    let spec = json!({ "spec": { "quantity": 4 } });
    objects::merge(apiserver, &format!("{path}/x-y"), &spec).await?;
    Ok(())
}

async fn create_core(apiserver: &Client, served: &[&str]) -> Result<()> {
    for index in 0..6 {
        // Not one letter repeated: what is compressed should look like something.
        let text: String =
            (0..4_000).map(|word| format!("{:08} ", (word * 7_919 + index * 104_729) % 100_000_000)).collect();
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "text": text },
            "metadata": { "name": format!("map-{index}"), "labels": { "half": if index < 3 { "one" } else { "two" } } },
        });
        objects::create(apiserver, "/api/v1/namespaces/big/configmaps", &map).await?;
    }
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "small" }, "data": { "k": "v" } });
    objects::create(apiserver, "/api/v1/namespaces/work/configmaps", &map).await?;
    for (name, kind) in [("plain", "Opaque"), ("basic", "kubernetes.io/basic-auth")] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": { "name": name },
            "stringData": { "username": "u", "password": "p" },
        });
        objects::create(apiserver, "/api/v1/namespaces/work/secrets", &secret).await?;
    }
    for (name, spec) in [
        ("fixed", json!({ "clusterIP": "10.0.77.7", "ports": [{ "port": 80 }] })),
        ("headless", json!({ "clusterIP": "None", "ports": [{ "port": 80 }] })),
        ("outside", json!({ "type": "ExternalName", "externalName": "example.com" })),
    ] {
        let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": spec });
        objects::create(apiserver, "/api/v1/namespaces/work/services", &service).await?;
    }
    for (name, reason, kind, component) in [
        ("one", "Started", "Normal", "kubelet"),
        ("two", "Failed", "Warning", ""),
        ("three", "Failed", "Normal", "kubelet"),
    ] {
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": name }, "reason": reason, "type": kind,
            "message": "Something happened.", "reportingComponent": "example.com/reporter", "reportingInstance": "one",
            "involvedObject": { "kind": "Pod", "namespace": "work", "name": "web", "apiVersion": "v1",
                                "fieldPath": "spec.containers{web}", "uid": "1234" },
            "firstTimestamp": "2024-01-02T03:04:05Z", "lastTimestamp": "2024-01-02T03:04:05Z", "count": 1,
        });
        if !component.is_empty() {
            event["source"] = json!({ "component": component });
        }
        objects::create(apiserver, "/api/v1/namespaces/work/events", &event).await?;
    }
    let pod = json!({ "metadata": { "labels": { "app": "c" } }, "spec": { "restartPolicy": "Never",
        "containers": [{ "name": "c", "image": "c:1" }] } });
    let job =
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" }, "spec": { "template": pod } });
    objects::create(apiserver, "/apis/batch/v1/namespaces/work/jobs", &job).await?;
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "disk" },
        "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/tmp" } },
    });
    objects::create(apiserver, "/api/v1/persistentvolumes", &volume).await?;
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "slice" },
        "spec": { "driver": "gpu.example.com", "nodeName": "node-1",
                  "pool": { "name": "p", "generation": 1, "resourceSliceCount": 1 }, "devices": [] },
    });
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    if served.contains(&slices) {
        objects::create(apiserver, slices, &slice).await?;
    }
    Ok(())
}

async fn create_pods_and_nodes(apiserver: &Client) -> Result<()> {
    for (name, unschedulable) in [("node-1", false), ("node-2", true)] {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
            "spec": if unschedulable { json!({ "unschedulable": true }) } else { json!({}) },
        });
        objects::create(apiserver, "/api/v1/nodes", &node).await?;
    }
    let collection = "/api/v1/namespaces/work/pods";
    for (name, node, more, phase, address) in [
        ("web", "node-1", json!({}), "Running", "10.1.0.1"),
        ("web-2", "node-2", json!({ "restartPolicy": "Never", "schedulerName": "other" }), "Succeeded", "10.1.0.2"),
        ("host", "node-1", json!({ "hostNetwork": true, "serviceAccountName": "robot" }), "", ""),
        ("pending", "", json!({}), "", ""),
    ] {
        let mut spec = json!({ "containers": [{ "name": "web", "image": "web:1" }] });
        if !node.is_empty() {
            spec["nodeName"] = node.into();
        }
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let labels = json!({ "app": name });
        let pod =
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels }, "spec": spec });
        objects::create(apiserver, collection, &pod).await?;
        if !phase.is_empty() {
            let status = json!({ "status": { "phase": phase, "podIP": address, "podIPs": [{ "ip": address }] } });
            objects::merge(apiserver, &format!("{collection}/{name}/status"), &status).await?;
        }
    }
    Ok(())
}
